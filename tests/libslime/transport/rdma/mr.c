/* SPDX-License-Identifier: Apache-2.0 */
/* A number of the region table that has another region than before, with the devices. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "src/progress/context.h"
#include "src/transport/rdma/mr.h"
#include "src/transport/rdma/transport.h"
#include "tests/libslime/transport/rdma/pair.h"

#define LEN    4096
#define ROUNDS 600
#define LATE   256 /* steps that the second is behind the first, at most */

static struct rdma_pair pair;
static struct rdma_transport *transport;
static struct sl_region region; /* that there is in this round */
static _Atomic unsigned round_now, n_done, n_wrong;

/* Until it is registered, as two links that use it for the first time ask for it. */
static struct rdma_mr *await_it(void)
{
	struct rdma_mr *mr;
	int ret;

	while ((ret = rdma_mr_get(transport->shared, &region, RDMA_MR_OURS, RDMA_MR_READY, &mr)) ==
	       -EINPROGRESS)
		sched_yield();
	assert_ok(ret);
	return mr;
}

static void *use_each(void *arg)
{
	bool is_late = arg;

	for (unsigned i = 1; i <= ROUNDS; i++) {
		const struct rdma_mr *mr;

		while (atomic_load(&round_now) < i)
			;
		/* At each moment of what the first does for both. */
		for (volatile unsigned k = 0; is_late && k < i % LATE; k++)
			;
		mr = await_it();
		if (mr->base != region.base || mr->parts[0]->addr != region.base)
			atomic_fetch_add(&n_wrong, 1);
		atomic_fetch_add(&n_done, 1);
	}
	return NULL;
}

static void get__of_a_number_with_another_region_has_no_keys_of_the_one_before(void **state)
{
	pthread_t users[2];

	(void)state;
	assert_ok(rdma_pair_open(&pair, NULL, 2 * LEN));
	transport = rdma_of(pair.a.ctx->transports[SLIME_TRANSPORT_RDMA]);
	region = (struct sl_region){ .id = 1, .len = LEN, .memfd = -1, .dmabuf_fd = -1 };
	for (unsigned k = 0; k < 2; k++)
		assert_ok(pthread_create(&users[k], NULL, use_each, k ? users : NULL));
	for (unsigned i = 1; i <= ROUNDS; i++) {
		region.generation = i;
		region.base = pair.a.bytes + i % 2 * LEN;
		atomic_store(&n_done, 0);
		atomic_store(&round_now, i);
		while (atomic_load(&n_done) < 2)
			rdma_poll(&pair);
	}
	for (unsigned k = 0; k < 2; k++)
		assert_ok(pthread_join(users[k], NULL));
	assert_int_equal(atomic_load(&n_wrong), 0);
	while (!rdma_mr_release(transport, &region))
		rdma_poll(&pair);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_prestate_setup_teardown(
			get__of_a_number_with_another_region_has_no_keys_of_the_one_before,
			rdma_pair_reset, rdma_pair_end, &pair),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
