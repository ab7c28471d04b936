/* SPDX-License-Identifier: Apache-2.0 */
/* What /metrics says of RDMA ports, from a sysfs that the test writes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <event2/buffer.h>

#include "peeragent/src/fabric.h"
#include <tests/support/sysfs_tree.h>

#define COUNTERS "class/infiniband/mlx5_0/ports/1/hw_counters/"
#define NEVER_MS 3600000

static struct fabric *fabric_of(const struct sysfs_tree *t, uint32_t interval_ms)
{
	struct fabric *f;

	assert_int_equal(fabric_create(t->root, interval_ms, &f), 0);
	return f;
}

static bool says(struct fabric *f, const char *words)
{
	struct evbuffer *out = evbuffer_new();
	bool found;

	fabric_print(f, out);
	evbuffer_add(out, "", 1);
	found = strstr((const char *)evbuffer_pullup(out, -1), words);
	evbuffer_free(out);
	return found;
}

static void fabric__without_devices_says_nothing(void **state)
{
	struct fabric *f = fabric_of(*state, NEVER_MS);

	assert_false(says(f, "slime_rdma"));
	fabric_destroy(f);
	fabric_destroy(NULL);
}

static void fabric__says_what_ports_count(void **state)
{
	struct fabric *f;

	sysfs_tree_put(*state, COUNTERS "out_of_buffer", "12\n");
	sysfs_tree_put(*state, COUNTERS "packet_seq_err", "0\n");
	f = fabric_of(*state, NEVER_MS);
	assert_true(says(f, "# TYPE slime_rdma_port_trouble_total counter\n"));
	assert_true(says(f, "slime_rdma_port_trouble_total{device=\"mlx5_0\",port=\"1\",kind=\"not "
			    "ready\",counter=\"out_of_buffer\"} 12\n"));
	assert_true(says(f, "counter=\"packet_seq_err\"} 0\n"));
	fabric_destroy(f);
}

static void fabric__asks_again(void **state)
{
	struct fabric *f;

	sysfs_tree_put(*state, COUNTERS "out_of_buffer", "12\n");
	f = fabric_of(*state, 1);
	sysfs_tree_put(*state, COUNTERS "out_of_buffer", "13\n");
	while (!says(f, "counter=\"out_of_buffer\"} 13\n"))
		sched_yield();
	fabric_destroy(f);
}

static void fabric__a_name_ends_no_label(void **state)
{
	struct fabric *f;

	sysfs_tree_put(*state, "class/infiniband/a\"b\\c/ports/1/hw_counters/out_of_buffer", "1\n");
	f = fabric_of(*state, NEVER_MS);
	assert_true(says(f, "device=\"a_b_c\""));
	fabric_destroy(f);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, sysfs_tree_setup, sysfs_tree_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(fabric__without_devices_says_nothing),
		TEST(fabric__says_what_ports_count),
		TEST(fabric__asks_again),
		TEST(fabric__a_name_ends_no_label),
	};

	return cmocka_run_group_tests_name("fabric", tests, NULL, NULL);
}
