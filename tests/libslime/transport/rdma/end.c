/* SPDX-License-Identifier: Apache-2.0 */
/* A link on its end: while the threads that are to end it are busy with others, and when a device
 * keeps what is to go. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/list.h"
#include "src/endpoint/endpoint.h"
#include "src/progress/context.h"
#include "src/transport/rdma/conn.h"
#include "src/transport/rdma/cq.h"
#include "src/transport/rdma/devices.h"
#include "src/transport/rdma/job.h"
#include "src/transport/rdma/limits.h"
#include "src/transport/rdma/nic.h"
#include "src/transport/rdma/qp.h"
#include "src/transport/rdma/transport.h"
#include "tests/libslime/transport/rdma/pair.h"
#include "tests/support/log_lines.h"

#define LEN	   4096
#define N_MESSAGES (2 * RDMA_POLL) /* receives are posted by so many */

static struct rdma_pair pair;
static struct rdma_job jobs[RDMA_WORKERS];
static _Atomic unsigned n_busy;
static _Atomic bool may_go_on;

static void be_busy(struct rdma_job *job)
{
	(void)job;
	atomic_fetch_add(&n_busy, 1);
	while (!atomic_load(&may_go_on))
		sched_yield();
}

static void done(struct rdma_job *job)
{
	(void)job;
}

static void occupy_workers(struct rdma_transport *t)
{
	atomic_store(&n_busy, 0);
	atomic_store(&may_go_on, false);
	for (unsigned i = 0; i < RDMA_WORKERS; i++)
		rdma_job_start(t, &jobs[i], be_busy, done);
	while (atomic_load(&n_busy) < RDMA_WORKERS)
		sched_yield();
}

/* soft-RoCE never flushes what is posted to a queue pair that a worker has moved to ERR meanwhile.
 */
static void end__that_has_begun_posts_no_receive_any_more(void **state)
{
	struct slime_op *ops[N_MESSAGES];
	struct rdma_conn *c;
	uint64_t n_posted;

	(void)state;
	assert_ok(rdma_pair_open(&pair, NULL, LEN));
	c = rdma_endpoint_conn(pair.b.ep);
	occupy_workers(c->t);
	rdma_conn_fail(c, -EIO, "the test says so");
	while (rdma_state(c) != RDMA_CONN_KILLING)
		slime_context_poll(pair.b.ctx);
	n_posted = fakeverbs_counts().recv_wrs;
	for (unsigned i = 0; i < N_MESSAGES; i++) {
		assert_ok(slime_op_create(pair.a.ctx, NULL, &ops[i]));
		assert_ok(slime_send(pair.a.ep, pair.a.mr, 0, 64, 1, ops[i]));
	}
	rdma_settle(&pair);
	n_posted = fakeverbs_counts().recv_wrs - n_posted;
	atomic_store(&may_go_on, true);
	assert_int_equal(n_posted, 0);
	for (unsigned i = 0; i < N_MESSAGES; i++) {
		assert_int_equal(rdma_wait(&pair, ops[i]), -ECONNRESET);
		assert_ok(slime_op_destroy(ops[i]));
	}
}

/* Nor does its device say that it gave up, or flush what is under way: nobody waits for ever. */
static void close__whose_goodbye_is_never_acknowledged_ends(void **state)
{
	struct slime_context_attr attr = rdma_quick();
	uint64_t until = sl_deadline_ns(30000);
	const struct rdma_transport *t;
	uint32_t qp;

	(void)state;
	assert_ok(rdma_pair_open(&pair, &attr, LEN));
	t = rdma_of(pair.a.ctx->transports[SLIME_TRANSPORT_RDMA]);
	assert_int_equal(fakeverbs_qps(0, &qp, 1), 1);
	fakeverbs_hold_qp(0, qp, true);
	slime_endpoint_close(pair.a.ep);
	while (!sl_list_empty(&t->conns)) {
		rdma_poll(&pair);
		assert_true(sl_clock_ns() < until);
	}
	assert_int_equal(fakeverbs_qps(0, &qp, 1), 0);
}

/* Of what the device kept. */
static int end_with_leftovers(void **state)
{
	return rdma_pair_end(state) ? 0 : -1;
}

/* It may still complete, and have events: it is told, and whoever comes next is not in its way. */
static void end__whose_queue_pair_cannot_be_destroyed_leaves_its_place_to_it(void **state)
{
	unsigned device;
	uint64_t n_cqs;
	uint32_t qp;

	(void)state;
	/* Each link completes into a queue of its own. */
	fakeverbs_device(0)->max_cqe = fakeverbs_device(1)->max_cqe = 1500;
	assert_ok(rdma_pair_open(&pair, NULL, LEN));
	log_lines_keep();
	fakeverbs_fail_call_of(FAKEVERBS_DESTROY_QP, 1, EBUSY);
	rdma_pair_destroy_endpoints(&pair);
	assert_true(fakeverbs_failed());
	assert_int_equal(log_lines_with("cannot be destroyed"), 1);
	log_lines_release();
	device = fakeverbs_qps(0, &qp, 1) ? 0 : 1;
	assert_int_equal(fakeverbs_qps(device, &qp, 1), 1);
	fakeverbs_raise_qp(device, qp, IBV_EVENT_QP_FATAL);
	rdma_settle(&pair);
	n_cqs = fakeverbs_counts().calls[FAKEVERBS_CREATE_CQ];
	assert_ok(rdma_pair_connect(&pair));
	assert_int_equal(fakeverbs_counts().calls[FAKEVERBS_CREATE_CQ], n_cqs + 1);
	rdma_exchange_a_message(&pair);
}

/* The place that is given away next. */
static void set_next_place(const struct rdma_end *e, uint32_t slot)
{
	struct rdma_transport *t = rdma_endpoint_conn(e->ep)->t;

	pthread_mutex_lock(&t->lock);
	t->next_slot = slot;
	pthread_mutex_unlock(&t->lock);
}

static uint32_t place_of(const struct rdma_end *e)
{
	return rdma_endpoint_conn(e->ep)->qps[0]->slot;
}

/* As when all other places were given away meanwhile. */
static void event__of_a_queue_pair_that_could_not_be_destroyed_ends_no_later_link(void **state)
{
	unsigned device;
	uint32_t qp;

	(void)state;
	assert_ok(rdma_pair_open(&pair, NULL, LEN));
	set_next_place(&pair.a, place_of(&pair.a));
	set_next_place(&pair.b, place_of(&pair.b));
	fakeverbs_fail_call_of(FAKEVERBS_DESTROY_QP, 1, EBUSY);
	rdma_pair_destroy_endpoints(&pair);
	assert_true(fakeverbs_failed());
	device = fakeverbs_qps(0, &qp, 1) ? 0 : 1;
	assert_int_equal(fakeverbs_qps(device, &qp, 1), 1);
	assert_ok(rdma_pair_connect(&pair));
	fakeverbs_raise_qp(device, qp, IBV_EVENT_QP_FATAL);
	rdma_settle(&pair);
	rdma_exchange_a_message(&pair);
}

/* Its events still name what we have of it. */
static void end__whose_completion_queue_cannot_be_destroyed_keeps_it(void **state)
{
	struct ibv_cq *cq;
	uint32_t qp;

	(void)state;
	assert_ok(rdma_pair_open(&pair, NULL, LEN));
	cq = rdma_endpoint_conn(pair.a.ep)->qps[0]->cq->ibv;
	assert_int_equal(fakeverbs_qps(0, &qp, 1), 1);
	log_lines_keep();
	fakeverbs_fail_call_of(FAKEVERBS_DESTROY_CQ, 1, EBUSY);
	fakeverbs_break_cq(0, qp);
	rdma_pair_destroy_endpoints(&pair);
	while (!log_lines_with("completion queue cannot be destroyed") || rdma_is_working(&pair))
		rdma_poll(&pair);
	fakeverbs_break_new_cq(cq);
	rdma_settle(&pair);
	log_lines_release();
	assert_ok(rdma_pair_connect(&pair));
	rdma_exchange_a_message(&pair);
}

static int (*poll_cq)(struct ibv_cq *cq, int n, struct ibv_wc *wc);
static bool is_late;

static int poll_late(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	return is_late ? 0 : poll_cq(cq, n, wc);
}

static void end_delay(void *arg, struct slime_endpoint *ep, enum slime_endpoint_state state,
		      int cause)
{
	(void)arg;
	(void)ep;
	(void)cause;
	is_late = state == SLIME_ENDPOINT_CONNECTED;
}

/* soft-RoCE leaves it where it is when the queue pair is destroyed; the op has ended by then, and
 * may be another's. */
static void completion__that_is_found_when_its_link_has_ended_is_not_taken(void **state)
{
	struct ibv_context *device;
	struct slime_xfer x;
	uint32_t qp;

	(void)state;
	assert_ok(rdma_pair_open(&pair, NULL, LEN));
	x = rdma_a_and_b(&pair, 0, 0, 64);
	assert_ok(rdma_write_now(&pair, 64, 1));
	assert_int_equal(fakeverbs_qps(0, &qp, 1), 1);
	device = rdma_endpoint_conn(pair.a.ep)->qps[0]->nic->device.ibv;
	poll_cq = device->ops.poll_cq;
	device->ops.poll_cq = poll_late;
	is_late = true;
	pair.a.ep->attr.on_state = end_delay;
	assert_ok(slime_write(pair.a.ep, &x, 1, 0, pair.a.op));
	fakeverbs_break_cq(0, qp);
	assert_int_equal(rdma_wait(&pair, pair.a.op), -ECONNRESET);
	rdma_settle(&pair);
	assert_false(is_late);
	assert_int_equal(slime_op_status(pair.a.op), -ECONNRESET);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_prestate_setup_teardown(
			end__that_has_begun_posts_no_receive_any_more, rdma_pair_reset,
			rdma_pair_end, &pair),
		cmocka_unit_test_prestate_setup_teardown(
			close__whose_goodbye_is_never_acknowledged_ends, rdma_pair_reset,
			rdma_pair_end, &pair),
		cmocka_unit_test_prestate_setup_teardown(
			end__whose_queue_pair_cannot_be_destroyed_leaves_its_place_to_it,
			rdma_pair_reset, end_with_leftovers, &pair),
		cmocka_unit_test_prestate_setup_teardown(
			event__of_a_queue_pair_that_could_not_be_destroyed_ends_no_later_link,
			rdma_pair_reset, end_with_leftovers, &pair),
		cmocka_unit_test_prestate_setup_teardown(
			end__whose_completion_queue_cannot_be_destroyed_keeps_it, rdma_pair_reset,
			rdma_pair_end, &pair),
		cmocka_unit_test_prestate_setup_teardown(
			completion__that_is_found_when_its_link_has_ended_is_not_taken,
			rdma_pair_reset, rdma_pair_end, &pair),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
