/* SPDX-License-Identifier: Apache-2.0 */
/* What is done for the sake of a fork(), and a child while the devices of its parent's context are
 * being closed. */
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/progress/context.h"
#include "src/transport/rdma/conn.h"
#include "src/transport/rdma/offer.h"
#include "src/transport/rdma/transport.h"
#include "tests/libslime/transport/rdma/pair.h"

#define LEN  4096
#define NICS 2

static struct rdma_pair pair;
static _Atomic(const void *) nics[NICS];
static _Atomic unsigned n_freed[NICS];
static _Atomic bool waits, is_waiting;

void __real_free(void *p);
void __wrap_free(void *p);

void __wrap_free(void *p)
{
	for (unsigned i = 0; i < NICS; i++) {
		if (p && p == atomic_load(&nics[i]))
			atomic_fetch_add(&n_freed[i], 1);
	}
	__real_free(p);
}

int __real_ibv_close_device(struct ibv_context *ibv);
int __wrap_ibv_close_device(struct ibv_context *ibv);

int __wrap_ibv_close_device(struct ibv_context *ibv)
{
	while (atomic_load(&waits)) {
		atomic_store(&is_waiting, true);
		sched_yield();
	}
	return __real_ibv_close_device(ibv);
}

/* ---- before ---- */

static uint64_t n_preparations(void)
{
	return fakeverbs_counts().calls[FAKEVERBS_FORK_INIT];
}

/* As the kernel says of the mapping that it lies in. */
static bool is_left_to_the_parent(const void *addr)
{
	FILE *f = fopen("/proc/self/smaps", "re");
	bool is_there = false, is_left = false;
	char line[1024];

	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		unsigned long begin, end;

		if (sscanf(line, "%lx-%lx ", &begin, &end) == 2)
			is_there = begin <= (uintptr_t)addr && (uintptr_t)addr < end;
		else if (is_there && !strncmp(line, "VmFlags:", 8))
			is_left = strstr(line, " dc");
	}
	assert_int_equal(fclose(f), 0);
	return is_left;
}

/* Of libibverbs where it has to, once for a process; and of what peers write to always. */
static void link__comes_with_preparations_for_forks(void **state)
{
	const struct rdma_offer *offer;

	(void)state;
	fakeverbs_reset();
	assert_ok(rdma_pair_open(&pair, NULL, LEN));
	assert_int_equal(n_preparations(), 0);
	offer = rdma_endpoint_conn(pair.a.ep)->offer;
	assert_true(is_left_to_the_parent(offer->in_slots));
	assert_true(is_left_to_the_parent(offer->memory + offer->memory_len - 1));
	assert_false(is_left_to_the_parent(&pair));
	rdma_pair_close(&pair);

	fakeverbs_reset();
	fakeverbs_set_fork_status(IBV_FORK_DISABLED);
	assert_ok(rdma_pair_open(&pair, NULL, LEN));
	assert_int_equal(n_preparations(), 1);
	rdma_pair_close(&pair);
	assert_int_equal(fakeverbs_check(), 0);
}

/* ---- a child ---- */

static struct rdma_transport *transport_of_a(void)
{
	return rdma_of(pair.a.ctx->transports[SLIME_TRANSPORT_RDMA]);
}

/* In the child: 0 when each was freed once. */
static int destroy_all(void)
{
	if (slime_mr_destroy(pair.a.mr) || slime_mem_destroy(pair.a.mem) ||
	    slime_op_destroy(pair.a.op) || slime_context_destroy(pair.a.ctx))
		return 2;
	for (unsigned i = 0; i < NICS; i++) {
		if (atomic_load(&n_freed[i]) != 1)
			return 3 + (int)i;
	}
	return 0;
}

static void expect_all_freed_in_a_child(void)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		alarm(60);
		_exit(destroy_all());
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* One of two failed, and the worker that closes both is at the second. */
static void destroy__in_a_fork_child_frees_devices_that_are_being_closed(void **state)
{
	struct slime_context_attr attr = rdma_quick();

	(void)state;
	fakeverbs_reset();
	(void)fakeverbs_device(2);
	(void)fakeverbs_device(3);
	attr.rdma_devices = "fake0,fake1;fake2,fake3";
	assert_ok(rdma_pair_open(&pair, &attr, LEN));
	for (unsigned i = 0; i < NICS; i++)
		atomic_store(&nics[i], transport_of_a()->nics[i]);
	fakeverbs_kill_device(1);
	rdma_settle(&pair);
	atomic_store(&waits, true);
	rdma_pair_destroy_endpoints(&pair);
	while (!atomic_load(&is_waiting))
		rdma_poll(&pair);
	assert_int_equal(transport_of_a()->n_nics, 0);
	expect_all_freed_in_a_child();
	atomic_store(&waits, false);
	rdma_pair_close(&pair);
	assert_int_equal(fakeverbs_check(), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(link__comes_with_preparations_for_forks),
		cmocka_unit_test(destroy__in_a_fork_child_frees_devices_that_are_being_closed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
