/* SPDX-License-Identifier: Apache-2.0 */
/* Measurements between two agents of one process over RDMA devices in memory. */
#include <errno.h>

#include "bench/service/job.h"
#include "tests/fakes/fakeverbs.h"
#include "tests/peeragent/agents.h"

#define REGION_LEN (16 << 20)

static struct slime_agent *start_on(const char *name, const char *device,
				    const struct slime_agent_region *region)
{
	struct slime_agent_attr attr = attr_of(name);
	struct slime_agent *agent;

	attr.transports[0] = SLIME_TRANSPORT_RDMA;
	attr.data.rdma_devices = device;
	attr.topology.regions = region;
	attr.topology.n_regions = region != NULL;
	agent = start_with(&attr);
	assert_ok(slime_agent_wait_ready(agent, LONG_MS));
	return agent;
}

static int reset_all(void **state)
{
	reset(state);
	fakeverbs_reset();
	return 0;
}

static int check(void **state)
{
	(void)state;
	return fakeverbs_check() ? -1 : 0;
}

/* As where so much memory may not be locked: there is room for what a link needs. */
static void run__where_the_peer_cannot_register_its_region_says_whose_log_has_it(void **state)
{
	const struct slime_agent_region region = {
		.name = BENCH_REGION, .size = REGION_LEN, .numa_node = -1, .access = 3
	};
	const struct bench_job job = {
		.kind = BENCH_TRANSFER,
		.peer = "b",
		.transport = SLIME_TRANSPORT_RDMA,
		.transfer = { .op = LOAD_READ,
			      .block_size = 4096,
			      .batch_size = 1,
			      .threads = 1,
			      .duration_ms = 10 },
	};
	char message[BENCH_MESSAGE_MAX];
	struct bench_result out;
	struct slime_agent *a, *b;

	(void)state;
	fakeverbs_device(1)->max_pinned = REGION_LEN / 2;
	b = start_on("b", "fake1", &region);
	a = start_on("a", "fake0", NULL);
	assert_int_equal(bench_job_run(a, &job, NULL, &out, NULL, message), -EREMOTEIO);
	assert_string_equal(message, "read: b cannot register its region with an RDMA device, and "
				     "its log says why: Remote I/O error");
	end(a);
	end(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			run__where_the_peer_cannot_register_its_region_says_whose_log_has_it,
			reset_all, check),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
