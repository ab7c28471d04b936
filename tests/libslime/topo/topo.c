/* SPDX-License-Identifier: Apache-2.0 */
/* Topology read from a sysfs tree that the test writes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include <slime/topo.h>
#include <tests/support/sysfs_tree.h>

static size_t set_len_min; /* bytes of a set that the kernel takes */

int __real_sched_getaffinity(pid_t pid, size_t len, cpu_set_t *set);
int __wrap_sched_getaffinity(pid_t pid, size_t len, cpu_set_t *set);

int __wrap_sched_getaffinity(pid_t pid, size_t len, cpu_set_t *set)
{
	if (len >= set_len_min)
		return __real_sched_getaffinity(pid, len, set);
	errno = EINVAL;
	return -1;
}

static void put_node(const struct sysfs_tree *t, int id, const char *cpus, unsigned mem_kb)
{
	char path[128], text[256];

	snprintf(path, sizeof(path), "devices/system/node/node%d/meminfo", id);
	snprintf(text, sizeof(text), "Node %d MemTotal:  %u kB\nNode %d MemFree:   %u kB\n", id,
		 mem_kb, id, mem_kb / 2);
	sysfs_tree_put(t, path, text);
	snprintf(path, sizeof(path), "devices/system/node/node%d/cpulist", id);
	sysfs_tree_put(t, path, cpus);
}

static void topo_get__of_two_nodes_tells_each(void **state)
{
	struct sysfs_tree *t = *state;
	struct slime_topo topo;

	sysfs_tree_put(t, "devices/system/node/online", "0,2\n");
	put_node(t, 0, "0-3,8-11\n", 1000);
	put_node(t, 2, "4\n", 4000);
	sysfs_tree_put(t, "devices/system/node/node2/hugepages/hugepages-2048kB/free_hugepages",
		       "7\n");
	sysfs_tree_put(t, "devices/system/node/node2/hugepages/hugepages-1048576kB/free_hugepages",
		       "1\n");

	assert_int_equal(slime_topo_get(t->root, &topo), 0);
	assert_int_equal(topo.n_nodes, 2);
	assert_int_equal(topo.nodes[0].id, 0);
	assert_int_equal(topo.nodes[0].n_cpus, 8);
	assert_int_equal(topo.nodes[0].mem_total, 1000 * 1024);
	assert_int_equal(topo.nodes[0].mem_free, 500 * 1024);
	assert_int_equal(topo.nodes[0].huge_2m_free, 0);
	assert_int_equal(topo.nodes[1].id, 2);
	assert_int_equal(topo.nodes[1].n_cpus, 1);
	assert_int_equal(topo.nodes[1].huge_2m_free, 7);
	assert_int_equal(topo.nodes[1].huge_1g_free, 1);
}

static void topo_get__of_a_node_without_cpus_counts_none(void **state)
{
	struct sysfs_tree *t = *state;
	struct slime_topo topo;

	sysfs_tree_put(t, "devices/system/node/online", "0\n");
	put_node(t, 0, "\n", 1000);

	assert_int_equal(slime_topo_get(t->root, &topo), 0);
	assert_int_equal(topo.nodes[0].n_cpus, 0);
}

static void topo_get__of_a_kernel_without_numa_is_one_node(void **state)
{
	struct sysfs_tree *t = *state;
	struct slime_topo topo;

	sysfs_tree_put(t, "devices/system/cpu/online", "0-1\n");

	assert_int_equal(slime_topo_get(t->root, &topo), 0);
	assert_int_equal(topo.n_nodes, 1);
	assert_int_equal(topo.nodes[0].n_cpus, 2);
	assert_true(topo.nodes[0].mem_total > 0);
}

static void topo_get__of_more_nodes_than_fit_stops_at_the_last_that_does(void **state)
{
	struct sysfs_tree *t = *state;
	struct slime_topo topo;

	sysfs_tree_put(t, "devices/system/node/online", "0-99\n");
	for (int i = 0; i < SLIME_TOPO_NODES_MAX; i++)
		put_node(t, i, "0\n", 1000);

	assert_int_equal(slime_topo_get(t->root, &topo), 0);
	assert_int_equal(topo.n_nodes, SLIME_TOPO_NODES_MAX);
}

static void topo_get__of_broken_files_is_an_error_and_leaves_the_result(void **state)
{
	struct sysfs_tree *t = *state;
	struct slime_topo topo = { .n_nodes = 77 };

	sysfs_tree_put(t, "devices/system/node/online", "0\n");
	assert_int_equal(slime_topo_get(t->root, &topo), -EIO);
	sysfs_tree_put(t, "devices/system/node/node0/meminfo", "nothing of use\n");
	sysfs_tree_put(t, "devices/system/node/node0/cpulist", "0\n");
	assert_int_equal(slime_topo_get(t->root, &topo), -EIO);
	sysfs_tree_put(t, "devices/system/node/online", "x\n");
	assert_int_equal(slime_topo_get(t->root, &topo), -EIO);
	assert_int_equal(topo.n_nodes, 77);
}

static void topo_get__of_no_sysfs_is_an_error(void **state)
{
	struct slime_topo topo;

	(void)state;
	assert_int_equal(slime_topo_get("/nonexistent", &topo), -EIO);
}

static void topo_get__of_this_host_is_complete(void **state)
{
	struct slime_topo topo;

	(void)state;
	assert_int_equal(slime_topo_get(NULL, &topo), 0);
	assert_true(topo.n_nodes >= 1);
	assert_true(topo.n_cpus >= 1);
	assert_true(topo.page_size >= 4096);
	assert_true(topo.hostname[0] && topo.kernel[0] && topo.cpu_model[0]);
	assert_true(topo.nodes[0].mem_total > topo.nodes[0].mem_free);
}

/* As a kernel does that is built for so many CPUs. */
static void topo_get__of_a_kernel_for_many_cpus_counts_them(void **state)
{
	struct slime_topo topo, of_few;

	(void)state;
	assert_int_equal(slime_topo_get(NULL, &of_few), 0);
	set_len_min = 8192 / 8;
	assert_int_equal(slime_topo_get(NULL, &topo), 0);
	set_len_min = 0;
	assert_int_equal(topo.n_cpus, of_few.n_cpus);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define IN_TREE(fn) cmocka_unit_test_setup_teardown(fn, sysfs_tree_setup, sysfs_tree_teardown)
		IN_TREE(topo_get__of_two_nodes_tells_each),
		IN_TREE(topo_get__of_a_node_without_cpus_counts_none),
		IN_TREE(topo_get__of_a_kernel_without_numa_is_one_node),
		IN_TREE(topo_get__of_more_nodes_than_fit_stops_at_the_last_that_does),
		IN_TREE(topo_get__of_broken_files_is_an_error_and_leaves_the_result),
		cmocka_unit_test(topo_get__of_no_sysfs_is_an_error),
		cmocka_unit_test(topo_get__of_this_host_is_complete),
		cmocka_unit_test(topo_get__of_a_kernel_for_many_cpus_counts_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
