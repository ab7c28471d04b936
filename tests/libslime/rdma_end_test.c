/* SPDX-License-Identifier: Apache-2.0 */
/* A link on its end, while the threads that are to end it are busy with others. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "src/context.h"
#include "src/endpoint.h"
#include "src/transport/rdma/rdma.h"
#include "tests/libslime/rdma_pair.h"

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
	c = rdma_conn_of(atomic_load(&pair.b.ep->conn));
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

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_prestate_setup_teardown(
			end__that_has_begun_posts_no_receive_any_more, rdma_pair_reset,
			rdma_pair_end, &pair),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
