/* SPDX-License-Identifier: Apache-2.0 */
/* While a caller has the library busy no completion queue is armed, although the context has a
 * thread that would sleep: armed, each completion wakes it. And before it does sleep it looks once
 * more. */
#include <sched.h>
#include <string.h>

#include "base/clock.h"
#include "src/progress/context.h"
#include "src/transport/rdma/nic.h"
#include "src/transport/rdma/transport.h"
#include "tests/fakes/fakeverbs.h"
#include "tests/libslime/rpc/pair.h"

#define assert_ok(expr) assert_int_equal(expr, 0)

#define LEN	 4096
#define IN_A_ROW 16 /* posts between two visits of the caller */
#define ROUNDS	 64
#define POST_US	 500 /* as soft-RoCE for 64 KiB where CPUs are emulated: it does the work there */

struct memory {
	uint8_t bytes[LEN];
	struct slime_mr *mr;
	struct slime_remote_mr remote;
};

static struct pair *pair;
static struct memory of_a, of_b;
static struct slime_xfer x; /* of every op */
static struct slime_op *ops[IN_A_ROW];
static int (*post_send)(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad);

/* The completion is there first. */
static int post_slowly(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	int ret = post_send(ibv, wr, bad);
	uint64_t end = sl_clock_ns() + POST_US * SL_NS_PER_US;

	while (sl_clock_ns() < end)
		;
	return ret;
}

static void open_memory(struct slime_context *ctx, struct memory *m)
{
	uint8_t desc[SLIME_MR_DESC_MAX];
	int len;

	assert_ok(slime_mr_create(ctx, m->bytes, LEN, SLIME_ACCESS_REMOTE_WRITE, &m->mr));
	len = slime_mr_export(m->mr, desc, sizeof(desc));
	assert_true(len > 0);
	assert_ok(slime_remote_mr_import(desc, (size_t)len, &m->remote));
}

static void write_in_a_row(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		assert_ok(slime_write(pair->a.ep, &x, 1, 0, ops[i]));
	for (unsigned i = 0; i < n; i++) {
		assert_ok(slime_op_wait(ops[i], PAIR_TIMEOUT_MS));
		assert_ok(slime_op_status(ops[i]));
	}
}

static struct ibv_context *device_of(const struct slime_context *ctx)
{
	return rdma_of(ctx->transports[SLIME_TRANSPORT_RDMA])->nics[0]->device.ibv;
}

static int begin(void **state)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;

	(void)state;
	fakeverbs_reset();
	/* Whoever finds nothing sleeps, however long the machine takes to get that far, and nothing
	 * but a completion wakes him. */
	attr.spin_us = 0;
	attr.tcp_user_timeout_ms = 3600 * 1000;
	pair = pair_open(SLIME_TRANSPORT_RDMA, &attr);
	open_memory(pair->a.ctx, &of_a);
	open_memory(pair->b.ctx, &of_b);
	x = (struct slime_xfer){ .local = of_a.mr, .remote = &of_b.remote, .len = LEN };
	for (unsigned i = 0; i < IN_A_ROW; i++)
		assert_ok(slime_op_create(pair->a.ctx, NULL, &ops[i]));
	/* The first one asks for the peer's key. */
	write_in_a_row(1);
	return 0;
}

static int end(void **state)
{
	(void)state;
	for (unsigned i = 0; i < IN_A_ROW; i++)
		assert_ok(slime_op_destroy(ops[i]));
	assert_ok(slime_mr_destroy(of_a.mr));
	assert_ok(slime_mr_destroy(of_b.mr));
	pair_close(pair);
	return fakeverbs_check() ? -1 : 0;
}

/* A thread that took over would arm for each completion that it finds alone: 80 to 125 times here.
 * The machine's other work lets it do so now and then. */
static void thread__arms_nothing_beside_a_caller_who_keeps_posting(void **state)
{
	struct ibv_context *device = device_of(pair->a.ctx);
	uint64_t n_arms;

	(void)state;
	post_send = device->ops.post_send;
	device->ops.post_send = post_slowly;
	fakeverbs_reset_counts();
	for (unsigned i = 0; i < ROUNDS; i++)
		write_in_a_row(IN_A_ROW);
	n_arms = fakeverbs_counts().calls[FAKEVERBS_REQ_NOTIFY_CQ];
	device->ops.post_send = post_send;
	assert_in_range(n_arms, 0, ROUNDS / 2);
}

/* ---- what comes right before it sleeps ---- */

#define NEAR_NS 1000
#define FAR_NS	1000000
#define LATE_MS 30000

static int (*req_notify)(struct ibv_cq *cq, int solicited_only);

/* All that is under way ends before: the queue does not ring for it any more. */
static int arm_late(struct ibv_cq *cq, int solicited_only)
{
	fakeverbs_advance(4 * FAR_NS);
	return req_notify(cq, solicited_only);
}

static void write_that_takes(struct slime_op *op, uint64_t ns)
{
	fakeverbs_set_delay(ns, ns, 1);
	assert_ok(slime_write(pair->a.ep, &x, 1, 0, op));
}

static bool ends_in_time(const struct slime_op *op)
{
	uint64_t end = sl_deadline_ns(LATE_MS);

	/* The thread is to make the progress: a test would. */
	while (!sl_op_is_idle(op) && sl_clock_ns() < end)
		sched_yield();
	return sl_op_is_idle(op);
}

/* The first write wakes the thread, and the second ends when that has seen nothing more. */
static void thread__finds_what_ends_right_before_it_sleeps(void **state)
{
	struct ibv_context *device = device_of(pair->a.ctx);
	bool in_time;

	(void)state;
	fakeverbs_hold_time(true);
	req_notify = device->ops.req_notify_cq;
	device->ops.req_notify_cq = arm_late;
	write_that_takes(ops[0], NEAR_NS);
	write_that_takes(ops[1], FAR_NS);
	fakeverbs_advance(2 * NEAR_NS);
	in_time = ends_in_time(ops[0]) && ends_in_time(ops[1]);
	device->ops.req_notify_cq = req_notify;
	fakeverbs_set_delay(0, 0, 1);
	fakeverbs_hold_time(false);
	assert_ok(slime_op_wait(ops[1], PAIR_TIMEOUT_MS));
	assert_true(in_time);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			thread__arms_nothing_beside_a_caller_who_keeps_posting, begin, end),
		cmocka_unit_test_setup_teardown(thread__finds_what_ends_right_before_it_sleeps,
						begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
