/* SPDX-License-Identifier: Apache-2.0 */
/* What long calls leave with the devices: the regions of their memory. */
#include <stdatomic.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "tests/libslime/transport/rdma/pair.h"

#define LEN    65536
#define LONG   (1u << 20) /* too long for any slot */
#define N_ENDS 20	  /* at so many moments of a call */

static struct rdma_pair pair;
static struct slime_rpc_service *service;
static uint8_t request[LONG];
static _Thread_local bool polling; /* as whoever holds the token does */
static _Atomic unsigned n_unmapped, n_unmapped_by_pollers;

int __real_munmap(void *addr, size_t len);
int __wrap_munmap(void *addr, size_t len);

int __wrap_munmap(void *addr, size_t len)
{
	if (len >= LONG) {
		atomic_fetch_add(&n_unmapped, 1);
		atomic_fetch_add(&n_unmapped_by_pollers, polling);
	}
	return __real_munmap(addr, len);
}

static void answer(void *arg, struct slime_rpc_request *req)
{
	(void)arg;
	(void)slime_rpc_reply(req, NULL, 0);
}

static void serve(void)
{
	struct slime_rpc_method_attr method = SLIME_RPC_METHOD_ATTR_INIT;

	method.fn = answer;
	method.flags = SLIME_RPC_INLINE;
	method.max_message = LONG;
	assert_ok(slime_rpc_service_create(pair.b.ctx, &service));
	assert_ok(slime_rpc_method_add(service, "take", &method));
	pair.b.service = service;
}

static struct slime_call *start_long_call(void)
{
	struct slime_call_args args = SLIME_CALL_ARGS_INIT;
	struct slime_call *call;

	args.method = slime_rpc_method_id("take");
	args.request = request;
	args.request_len = LONG;
	assert_ok(slime_call_create(pair.a.ctx, NULL, &call));
	assert_ok(slime_call_start(pair.a.ep, &args, call));
	return call;
}

static int end_call(struct slime_call *call)
{
	int status;

	while (!slime_call_test(call))
		rdma_poll(&pair);
	status = slime_call_status(call);
	assert_ok(slime_call_destroy(call));
	return status;
}

static uint64_t n_registered(void)
{
	struct fakeverbs_counts c = fakeverbs_counts();

	return c.calls[FAKEVERBS_REG_MR] - c.calls[FAKEVERBS_DEREG_MR];
}

/* Both contexts are there, and so are their devices. */
static void assert_nothing_becomes_registered(void)
{
	uint64_t end = sl_deadline_ns(10000);

	while (n_registered()) {
		rdma_poll(&pair);
		assert_true(sl_clock_ns() < end);
	}
	rdma_settle(&pair);
	assert_int_equal(n_registered(), 0);
}

static void arena__of_a_link_that_ended_is_not_registered_any_more(void **state)
{
	(void)state;
	assert_ok(rdma_pair_create(&pair, NULL, LEN));
	serve();
	assert_ok(rdma_pair_connect(&pair));
	assert_ok(end_call(start_long_call()));
	assert_true(n_registered() > 0);
	rdma_pair_destroy_endpoints(&pair);
	assert_nothing_becomes_registered();
	assert_ok(slime_rpc_service_destroy(service));
}

/* Which takes as long as the memory is large, and nobody's transfers wait for it. */
static void arena__is_unmapped_by_nobody_who_polls(void **state)
{
	uint64_t end = sl_deadline_ns(10000);

	(void)state;
	assert_ok(rdma_pair_create(&pair, NULL, LEN));
	serve();
	assert_ok(rdma_pair_connect(&pair));
	assert_ok(end_call(start_long_call()));
	atomic_store(&n_unmapped, 0);
	atomic_store(&n_unmapped_by_pollers, 0);
	polling = true;
	rdma_pair_destroy_endpoints(&pair);
	/* That of the request, and that of its copy at the other end. */
	while (atomic_load(&n_unmapped) < 2) {
		rdma_poll(&pair);
		assert_true(sl_clock_ns() < end);
	}
	polling = false;
	assert_int_equal(atomic_load(&n_unmapped_by_pollers), 0);
	assert_ok(slime_rpc_service_destroy(service));
}

/* At any moment: also while a worker is about to register it. */
static void arena__of_a_call_that_its_link_does_not_outlive_is_let_go(void **state)
{
	(void)state;
	assert_ok(rdma_pair_create(&pair, NULL, LEN));
	serve();
	for (int i = 0; i < N_ENDS; i++) {
		struct slime_call *call;

		pair.a.isolated = pair.b.isolated = i % 2;
		assert_ok(rdma_pair_connect(&pair));
		call = start_long_call();
		for (int k = 0; k < i; k++)
			rdma_poll(&pair);
		slime_endpoint_close(i % 4 < 2 ? pair.a.ep : pair.b.ep);
		(void)end_call(call);
		rdma_pair_destroy_endpoints(&pair);
		assert_nothing_becomes_registered();
	}
	assert_ok(slime_rpc_service_destroy(service));
}

/* The contexts end while the devices have it. */
static void destroy__waits_until_devices_let_go_of_an_arena(void **state)
{
	(void)state;
	assert_ok(rdma_pair_create(&pair, NULL, LEN));
	serve();
	assert_ok(rdma_pair_connect(&pair));
	assert_ok(end_call(start_long_call()));
	rdma_pair_destroy_endpoints(&pair);
	assert_ok(slime_rpc_service_destroy(service));
}

#define CASE(fn) cmocka_unit_test_prestate_setup_teardown(fn, rdma_pair_reset, rdma_pair_end, &pair)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		CASE(arena__of_a_link_that_ended_is_not_registered_any_more),
		CASE(arena__is_unmapped_by_nobody_who_polls),
		CASE(arena__of_a_call_that_its_link_does_not_outlive_is_let_go),
		CASE(destroy__waits_until_devices_let_go_of_an_arena),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
