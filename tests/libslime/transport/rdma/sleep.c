/* SPDX-License-Identifier: Apache-2.0 */
/* Who is about to sleep arms the completion queue and looks once more: the queue does not ring for
 * what came right before it was armed. */
#include "base/clock.h"
#include "src/progress/context.h"
#include "src/transport/rdma/nic.h"
#include "src/transport/rdma/transport.h"
#include "tests/libslime/transport/rdma/pair.h"

#define LEN	    4096
#define DELAY_NS    1000
#define PATIENCE_MS 60000

static struct rdma_pair pair;
static struct slime_xfer x;
static int (*req_notify)(struct ibv_cq *cq, int solicited_only);
static unsigned n_arms;

static int arm_late(struct ibv_cq *cq, int solicited_only)
{
	n_arms++;
	fakeverbs_advance(2 * DELAY_NS);
	return req_notify(cq, solicited_only);
}

static struct ibv_context *device_of_a(void)
{
	return rdma_of(pair.a.ctx->transports[SLIME_TRANSPORT_RDMA])->nics[0]->device.ibv;
}

/* A write is under way, and ends when a arms its queue. Nothing else wakes a. */
static void begin_a_write(enum slime_polling polling)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;

	attr.polling = polling;
	attr.tcp_user_timeout_ms = 3600 * 1000;
	assert_ok(rdma_pair_open(&pair, &attr, LEN));
	/* The first one asks for the peer's key. */
	assert_ok(rdma_write_now(&pair, LEN, 1));
	rdma_settle(&pair);
	n_arms = 0;
	req_notify = device_of_a()->ops.req_notify_cq;
	device_of_a()->ops.req_notify_cq = arm_late;
	fakeverbs_hold_time(true);
	fakeverbs_set_delay(DELAY_NS, DELAY_NS, 1);
	x = rdma_a_and_b(&pair, 0, 0, LEN);
	assert_ok(slime_write(pair.a.ep, &x, 1, 0, pair.a.op));
}

static void end_the_write(void)
{
	fakeverbs_set_delay(0, 0, 1);
	fakeverbs_hold_time(false);
	device_of_a()->ops.req_notify_cq = req_notify;
	assert_ok(rdma_wait(&pair, pair.a.op));
	rdma_pair_close(&pair);
}

/* For who sleeps on the context's descriptor. */
static void arm__finds_what_came_right_before(void **state)
{
	(void)state;
	begin_a_write(SLIME_POLLING_EVENT);
	while (slime_context_poll(pair.a.ctx) > 0)
		;
	assert_false(slime_op_test(pair.a.op));
	assert_int_equal(slime_context_arm(pair.a.ctx), -EAGAIN);
	assert_int_equal(n_arms, 1);
	assert_true(slime_op_test(pair.a.op));
	end_the_write();
}

static void wait__finds_what_came_right_before_it_slept(void **state)
{
	static const enum slime_polling ways[] = { SLIME_POLLING_EVENT, SLIME_POLLING_ADAPTIVE };

	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		uint64_t begin = sl_clock_ns();

		rdma_pair_reset(state);
		begin_a_write(ways[i]);
		assert_ok(slime_op_wait(pair.a.op, PATIENCE_MS));
		assert_int_equal(n_arms, 1);
		assert_true(sl_clock_ns() - begin < PATIENCE_MS / 2 * SL_NS_PER_MS);
		end_the_write();
	}
}

#define ALONE(fn) \
	cmocka_unit_test_prestate_setup_teardown(fn, rdma_pair_reset, rdma_pair_end, &pair)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		ALONE(arm__finds_what_came_right_before),
		ALONE(wait__finds_what_came_right_before_it_slept),
	};

	return cmocka_run_group_tests_name("rdma_sleep", tests, NULL, NULL);
}
