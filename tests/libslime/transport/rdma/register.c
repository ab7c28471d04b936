/* SPDX-License-Identifier: Apache-2.0 */
/* Chunks of a region are registered beside each other, and it is told how far that is. */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/libslime/transport/rdma/pair.h"

#define CHUNK	    UINT64_C(8192)
#define N_CHUNKS    8
#define LEN	    (N_CHUNKS * CHUNK)
#define PATIENCE_MS 10000

static struct rdma_pair pair;
static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER; /* held: that chunk takes long */
static _Atomic size_t first_len;			  /* 0: it has not begun */

struct ibv_mr *__real_ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t len, int access);
struct ibv_mr *__real_ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova,
				       unsigned access);
long __real_sysconf(int name);
struct ibv_mr *__wrap_ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t len, int access);
struct ibv_mr *__wrap_ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova,
				       unsigned access);
long __wrap_sysconf(int name);

static void wait_if_first(const void *addr, size_t len)
{
	if (addr != pair.a.bytes)
		return;
	atomic_store(&first_len, len);
	pthread_mutex_lock(&first);
	pthread_mutex_unlock(&first);
}

/* The header makes the one a macro that may call the other. */
#undef ibv_reg_mr

struct ibv_mr *__wrap_ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t len, int access)
{
	wait_if_first(addr, len);
	return __real_ibv_reg_mr(pd, addr, len, access);
}

struct ibv_mr *__wrap_ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova,
				       unsigned access)
{
	wait_if_first(addr, len);
	return __real_ibv_reg_mr_iova2(pd, addr, len, iova, access);
}

/* On one CPU there is one thread for it. */
long __wrap_sysconf(int name)
{
	return name == _SC_NPROCESSORS_ONLN ? 2 : __real_sysconf(name);
}

static struct slime_mr_progress progress(void)
{
	struct slime_mr_progress p;

	slime_mr_progress(pair.a.mr, &p);
	return p;
}

static void await_all_but_the_first(void)
{
	uint64_t end = sl_deadline_ns(PATIENCE_MS);

	while ((!atomic_load(&first_len) ||
		progress().registered < LEN - atomic_load(&first_len)) &&
	       sl_clock_ns() < end)
		rdma_poll(&pair);
}

static void register__goes_on_beside_a_chunk_that_takes_long(void **state)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;
	struct slime_mr_progress p;

	(void)state;
	attr.rdma_chunk = CHUNK;
	assert_ok(rdma_pair_create(&pair, &attr, LEN));
	atomic_store(&first_len, 0);
	pthread_mutex_lock(&first);
	assert_int_equal(slime_mr_register(pair.a.mr, 0), -ETIMEDOUT);
	await_all_but_the_first();
	p = progress();
	pthread_mutex_unlock(&first);
	assert_in_range(atomic_load(&first_len), 1, CHUNK);
	assert_int_equal(p.registered, LEN - atomic_load(&first_len));
	assert_int_equal(p.total, LEN);
	assert_true(p.chunks >= N_CHUNKS);
	assert_ok(slime_mr_register(pair.a.mr, PATIENCE_MS));
	assert_int_equal(progress().registered, LEN);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_prestate_setup_teardown(
			register__goes_on_beside_a_chunk_that_takes_long, rdma_pair_reset,
			rdma_pair_end, &pair),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
