/* SPDX-License-Identifier: Apache-2.0 */
/* Regions that are taken back from a peer that works on, but needs a while for each; and from one
 * that stands still. */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "tests/libslime/transport/rdma/pair.h"

#define N_THREADS 4
#define N_REGIONS 16 /* of each */
#define LEN	  64

struct taker {
	pthread_t thread;
	struct slime_mr *mrs[N_REGIONS];
	int ret;
};

static _Atomic unsigned n_running;

static void *take_back(void *arg)
{
	struct taker *t = arg;

	for (unsigned i = 0; i < N_REGIONS && !t->ret; i++)
		t->ret = slime_mr_destroy(t->mrs[i]);
	atomic_fetch_sub(&n_running, 1);
	return NULL;
}

static void show(struct rdma_pair *p, struct slime_mr *mr)
{
	uint8_t desc[SLIME_MR_DESC_MAX];
	struct slime_remote_mr r;
	struct slime_xfer x = { .local = p->a.mr, .remote = &r, .len = LEN };
	int len = slime_mr_export(mr, desc, sizeof(desc));

	assert_true(len > 0);
	assert_ok(slime_remote_mr_import(desc, (size_t)len, &r));
	assert_ok(slime_read(p->a.ep, &x, 1, 0, p->a.op));
	assert_ok(rdma_wait(p, p->a.op));
}

/* There is no moment at which none is being taken back, for longer than a peer has for one: what
 * each of them takes is far within that. */
static void destroy__of_region_after_region_is_no_silence(void **state)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;
	struct taker takers[N_THREADS] = { 0 };
	struct rdma_pair p;

	(void)state;
	assert_ok(rdma_pair_open(&p, &attr, 4096));
	for (unsigned i = 0; i < N_THREADS * N_REGIONS; i++) {
		struct slime_mr **mr = &takers[i % N_THREADS].mrs[i / N_THREADS];

		assert_ok(slime_mr_create(p.b.ctx, p.b.bytes + LEN * (i % 64), LEN,
					  SLIME_ACCESS_REMOTE_READ, mr));
		show(&p, *mr);
	}
	/* There and back, each. */
	fakeverbs_set_delay(30 * SL_NS_PER_MS, 60 * SL_NS_PER_MS, 1);
	atomic_store(&n_running, N_THREADS);
	for (unsigned i = 0; i < N_THREADS; i++)
		assert_ok(pthread_create(&takers[i].thread, NULL, take_back, &takers[i]));
	while (atomic_load(&n_running))
		slime_context_poll(p.a.ctx);
	for (unsigned i = 0; i < N_THREADS; i++) {
		assert_ok(pthread_join(takers[i].thread, NULL));
		assert_ok(takers[i].ret);
	}
	fakeverbs_set_delay(0, 0, 0);
	/* The link lives. */
	show(&p, p.b.mr);
	rdma_pair_close(&p);
	assert_int_equal(fakeverbs_check(), 0);
}

#define PATIENCE_MS 60000

/* It has a key, and nobody there looks: it loses the link, and the key with it. */
static void destroy__of_a_region_of_a_peer_that_stands_still_ends_its_link(void **state)
{
	struct slime_context_attr attr = rdma_quick();
	uint64_t end = sl_deadline_ns(PATIENCE_MS);
	struct slime_endpoint_info info;
	struct slime_mr *mr;
	struct rdma_pair p;
	uint32_t qp;
	int ret;

	(void)state;
	assert_ok(rdma_pair_open(&p, &attr, 4096));
	assert_ok(slime_mr_create(p.b.ctx, p.b.bytes, LEN, SLIME_ACCESS_REMOTE_READ, &mr));
	show(&p, mr);
	while ((ret = slime_mr_destroy(mr)) == -EBUSY)
		assert_true(sl_clock_ns() < end);
	assert_ok(ret);
	assert_int_equal(fakeverbs_qps(1, &qp, 1), 0);
	slime_endpoint_info(p.b.ep, &info);
	assert_int_equal(info.state, SLIME_ENDPOINT_BROKEN);
	assert_int_equal(info.cause, -ECONNRESET);
	rdma_assert_says(&info, "the peer keeps a region that is withdrawn");
	rdma_pair_close(&p);
	assert_int_equal(fakeverbs_check(), 0);
}

#define TIMEOUT_MS 200

static _Atomic bool is_slow; /* the device, to let go of one */

int __real_ibv_dereg_mr(struct ibv_mr *mr);
int __wrap_ibv_dereg_mr(struct ibv_mr *mr);

int __wrap_ibv_dereg_mr(struct ibv_mr *mr)
{
	if (atomic_exchange(&is_slow, false))
		poll(NULL, 0, 2 * TIMEOUT_MS);
	return __real_ibv_dereg_mr(mr);
}

/* As one that unpins gigabytes does: for longer than a peer has to answer. */
static void destroy__waits_for_a_device_that_lets_go_slowly(void **state)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;
	struct rdma_pair p;

	(void)state;
	attr.tcp_user_timeout_ms = TIMEOUT_MS;
	assert_ok(rdma_pair_open(&p, &attr, 4096));
	assert_ok(rdma_read_now(&p, LEN, 1));
	rdma_pair_destroy_endpoints(&p);
	atomic_store(&is_slow, true);
	assert_ok(slime_mr_destroy(p.a.mr));
	p.a.mr = NULL;
	assert_false(atomic_load(&is_slow));
	rdma_pair_close(&p);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(destroy__of_region_after_region_is_no_silence,
				       rdma_pair_reset),
		cmocka_unit_test_setup(
			destroy__of_a_region_of_a_peer_that_stands_still_ends_its_link,
			rdma_pair_reset),
		cmocka_unit_test_setup(destroy__waits_for_a_device_that_lets_go_slowly,
				       rdma_pair_reset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
