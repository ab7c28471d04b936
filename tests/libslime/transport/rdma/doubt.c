/* SPDX-License-Identifier: Apache-2.0 */
/* A greeting that arrived, of which its sender is not told: it is said again, and what the peer
 * says meanwhile is kept. */
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "src/transport/rdma/nic.h"
#include "src/transport/rdma/qp.h"
#include "tests/libslime/transport/rdma/tries_fixture.h"

#define ONE_RAIL  "fake0;fake2"
#define TWO_RAILS "fake0,fake1;fake2,fake3"

/* b is up, and a rests; if there is a second rail, a could not bring that up so far. */
static void begin_with_a_greeting_in_doubt(struct rdma_pair *p, const char *devices)
{
	tries_begin(p, devices);
	fakeverbs_lose_acks(0, tries_only_qp(0), UINT_MAX);
	tries_connect(&p->b, &p->a);
	tries_await(p, &p->b, RDMA_CONN_GREETING);
	fakeverbs_fail_call_of(FAKEVERBS_MODIFY_QP, 3 + 2, ETIMEDOUT); /* the second to RTR */
	tries_connect(&p->a, &p->b);
	tries_await(p, &p->a, RDMA_CONN_GREETING);
	(void)fakeverbs_failed();
	while (rdma_state(tries_conn_of(&p->a)) != RDMA_CONN_RESTING) {
		tries_pass();
		rdma_poll(p);
	}
	assert_true(slime_op_test(p->b.op));
	assert_ok(slime_op_status(p->b.op));
	fakeverbs_lose_acks(0, tries_only_qp(0), 0);
}

static void assert_comes_up(struct rdma_pair *p)
{
	while (!slime_op_test(p->a.op))
		tries_step(p);
	assert_ok(slime_op_status(p->a.op));
}

static void end_in_doubt(struct rdma_pair *p)
{
	tries_release_time();
	assert_ok(rdma_write_now(p, LEN, 1));
	rdma_exchange_a_message(p);
	rdma_pair_close(p);
	assert_int_equal(fakeverbs_check(), 0);
}

/* The peer's device acknowledges it again, and the peer, which says nothing, does not see it. */
static void connect__greets_again_a_peer_that_is_up_and_silent(void **state)
{
	struct rdma_pair p;
	uint64_t before;

	(void)state;
	begin_with_a_greeting_in_doubt(&p, ONE_RAIL);
	before = fakeverbs_counts().duplicates;
	assert_comes_up(&p);
	assert_int_equal(fakeverbs_counts().duplicates, before + 1);
	end_in_doubt(&p);
}

/* The queue pair still hears b, which does not greet twice. */
static void connect__that_could_not_greet_over_a_rail_still_hears_the_peer_there(void **state)
{
	struct rdma_pair p;

	(void)state;
	tries_begin(&p, TWO_RAILS);
	fakeverbs_hold_qp(2, tries_only_qp(2), true);
	tries_connect(&p.b, &p.a);
	tries_await(&p, &p.b, RDMA_CONN_GREETING);
	tries_refuse_post(tries_transport_of(&p.a)->nics[0]->device.ibv);
	tries_connect(&p.a, &p.b);
	tries_await(&p, &p.a, RDMA_CONN_RESTING);
	tries_begin_to_bring_up(&p);
	fakeverbs_hold_qp(2, tries_only_qp(2), false);
	(void)slime_context_poll(p.a.ctx);
	rdma_busy_end();
	assert_comes_up(&p);
	while (!slime_op_test(p.b.op))
		tries_step(&p);
	assert_ok(slime_op_status(p.b.op));
	end_in_doubt(&p);
}

/* From here on a's worker waits with what it brings up: it can receive, and is not handed back. */
static struct ibv_context *_Atomic waits;
static _Atomic bool is_waiting;
static _Atomic int refusal;

int __real_ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
int __wrap_ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);

int __wrap_ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	bool is_meant = attr->qp_state == IBV_QPS_RTS && qp->context == atomic_load(&waits);

	while (attr->qp_state == IBV_QPS_RTS && qp->context == atomic_load(&waits)) {
		atomic_store(&is_waiting, true);
		sched_yield();
	}
	if (is_meant && atomic_load(&refusal))
		return atomic_exchange(&refusal, 0);
	return __real_ibv_modify_qp(qp, attr, mask);
}

static void begin_to_raise(struct rdma_pair *p)
{
	atomic_store(&is_waiting, false);
	atomic_store(&waits, tries_transport_of(&p->a)->nics[0]->device.ibv);
	while (rdma_state(tries_conn_of(&p->a)) == RDMA_CONN_RESTING) {
		tries_pass();
		rdma_poll(p);
	}
	while (!atomic_load(&is_waiting))
		rdma_poll(p);
}

/* A write, for which b asks for a key first, and a message. */
static void begin_two_from_b(struct rdma_pair *p, struct slime_op *ops[2])
{
	static struct slime_xfer x;

	for (unsigned i = 0; i < 2; i++)
		assert_ok(slime_op_create(p->b.ctx, NULL, &ops[i]));
	rdma_fill(p->b.bytes, LEN, 3);
	memset(p->a.bytes, 0, LEN);
	x = (struct slime_xfer){ .local = p->b.mr, .remote = &p->a.remote, .len = LEN / 2 };
	assert_ok(slime_write(p->b.ep, &x, 1, 0, ops[0]));
	assert_ok(slime_send(p->b.ep, p->b.mr, LEN / 2, 64, 1, ops[1]));
	for (unsigned i = 0; i < 100; i++)
		rdma_poll(p);
	assert_int_equal(rdma_state(tries_conn_of(&p->a)), RDMA_CONN_BRINGING_UP);
	assert_int_equal(tries_conn_of(&p->a)->n_early, 2);
}

/* What b says is over the rail that is being raised at a. */
static void begin_with_two_over_a_rail_in_doubt(struct rdma_pair *p, const char *devices,
						struct slime_op *ops[2])
{
	begin_with_a_greeting_in_doubt(p, devices);
	begin_to_raise(p);
	begin_two_from_b(p, ops);
}

static void assert_a_gets_two(struct rdma_pair *p, struct slime_op *ops[2])
{
	assert_ok(slime_recv(p->a.ep, p->a.mr, LEN / 2, 64, 1, SLIME_TAG_ALL, p->a.op));
	while (!slime_op_test(p->a.op) || !slime_op_test(ops[0]) || !slime_op_test(ops[1]))
		tries_step(p);
	assert_ok(slime_op_status(p->a.op));
	for (unsigned i = 0; i < 2; i++) {
		assert_ok(slime_op_status(ops[i]));
		assert_ok(slime_op_destroy(ops[i]));
	}
	assert_memory_equal(p->a.bytes, p->b.bytes, LEN / 2 + 64);
}

static void connect__keeps_what_is_said_over_the_rail_that_is_brought_up(void **state)
{
	struct slime_op *ops[2];
	struct rdma_pair p;

	(void)state;
	begin_with_two_over_a_rail_in_doubt(&p, ONE_RAIL, ops);
	atomic_store(&waits, NULL);
	assert_comes_up(&p);
	assert_int_equal(tries_conn_of(&p.a)->n_early, 0);
	assert_a_gets_two(&p, ops);
	end_in_doubt(&p);
}

/* Nothing of it is lost, nor comes twice. */
static void connect__whose_rail_was_spoken_over_and_is_not_brought_up_takes_another(void **state)
{
	struct slime_op *ops[2];
	struct rdma_pair p;

	(void)state;
	begin_with_two_over_a_rail_in_doubt(&p, TWO_RAILS, ops);
	atomic_store(&refusal, EIO);
	atomic_store(&waits, NULL);
	assert_comes_up(&p);
	assert_ptr_equal(tries_conn_of(&p.a)->lead->path, &tries_conn_of(&p.a)->paths[1]);
	assert_a_gets_two(&p, ops);
	while (tries_conn_of(&p.a)->paths[0].n_failed == 0 || !tries_conn_of(&p.a)->paths[0].usable)
		tries_step(&p);
	end_in_doubt(&p);
}

/* What was said is acknowledged, and would be lost. */
static void connect__whose_rail_was_spoken_over_and_is_not_brought_up_ends(void **state)
{
	struct slime_op *ops[2];
	struct rdma_pair p;

	(void)state;
	begin_with_two_over_a_rail_in_doubt(&p, ONE_RAIL, ops);
	atomic_store(&refusal, EIO);
	atomic_store(&waits, NULL);
	while (!slime_op_test(p.a.op))
		tries_step(&p);
	assert_int_equal(slime_op_status(p.a.op), -ECONNRESET);
	tries_release_time();
	slime_endpoint_close(p.b.ep);
	for (unsigned i = 0; i < 2; i++) {
		(void)rdma_wait(&p, ops[i]);
		assert_ok(slime_op_destroy(ops[i]));
	}
	rdma_pair_close(&p);
	assert_int_equal(fakeverbs_check(), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(connect__greets_again_a_peer_that_is_up_and_silent),
		cmocka_unit_test(
			connect__that_could_not_greet_over_a_rail_still_hears_the_peer_there),
		cmocka_unit_test(connect__keeps_what_is_said_over_the_rail_that_is_brought_up),
		cmocka_unit_test(
			connect__whose_rail_was_spoken_over_and_is_not_brought_up_takes_another),
		cmocka_unit_test(connect__whose_rail_was_spoken_over_and_is_not_brought_up_ends),
	};

	return cmocka_run_group_tests_name("rdma_doubt", tests, NULL, NULL);
}
