/* SPDX-License-Identifier: Apache-2.0 */
/* Which devices of a machine get a group of processes, and on which CPUs. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "bench/host/nic_groups.h"
#include "tests/support/sysfs_tree.h"

#define PORT "class/infiniband/%s/ports/1/%s"

static void put(const struct sysfs_tree *t, const char *device, const char *file, const char *text)
{
	char path[128];

	snprintf(path, sizeof(path), PORT, device, file);
	sysfs_tree_put(t, path, text);
}

static void add_device(const struct sysfs_tree *t, const char *device, const char *state,
		       const char *node)
{
	char path[128];

	snprintf(path, sizeof(path), "class/infiniband/%s/node_type", device);
	sysfs_tree_put(t, path, "1: CA\n");
	snprintf(path, sizeof(path), "class/infiniband/%s/device/numa_node", device);
	sysfs_tree_put(t, path, node);
	put(t, device, "state", state);
	put(t, device, "link_layer", "Ethernet\n");
	put(t, device, "rate", "100 Gb/sec (4X EDR)\n");
	put(t, device, "gids/0", "0000:0000:0000:0000:0000:ffff:0a4d:0001\n");
	put(t, device, "gid_attrs/types/0", "RoCE v2\n");
	put(t, device, "gid_attrs/ndevs/0", "eth0\n");
	sysfs_tree_put(t, "class/net/eth0/mtu", "4200\n");
}

static int find(const struct sysfs_tree *t, const char *named, struct nic_group *out)
{
	char why[256] = "";
	int n = nic_groups_find(named, t->root, out, why, sizeof(why));

	assert_true(n > 0 || *why);
	return n;
}

static void find__gives_each_usable_device_the_cpus_of_its_node(void **state)
{
	struct nic_group groups[NIC_GROUPS_MAX];
	const struct sysfs_tree *t = *state;

	add_device(t, "mlx5_0", "4: ACTIVE\n", "0\n");
	add_device(t, "mlx5_1", "1: DOWN\n", "0\n");
	add_device(t, "mlx5_2", "4: ACTIVE\n", "1\n");
	add_device(t, "mlx5_3", "4: ACTIVE\n", "-1\n");
	sysfs_tree_put(t, "devices/system/node/node0/cpulist", "0-2,8\n");
	sysfs_tree_put(t, "devices/system/node/node1/cpulist", "3\n");

	assert_int_equal(find(t, NULL, groups), 3);
	assert_string_equal(groups[0].device, "mlx5_0");
	assert_true(groups[0].has_cpus);
	assert_int_equal(CPU_COUNT(&groups[0].cpus), 4);
	assert_true(CPU_ISSET(2, &groups[0].cpus) && CPU_ISSET(8, &groups[0].cpus));
	assert_string_equal(groups[1].device, "mlx5_2");
	assert_int_equal(CPU_COUNT(&groups[1].cpus), 1);
	assert_true(CPU_ISSET(3, &groups[1].cpus));
	assert_string_equal(groups[2].device, "mlx5_3");
	assert_false(groups[2].has_cpus);
}

static void find__takes_those_that_are_named(void **state)
{
	struct nic_group groups[NIC_GROUPS_MAX];
	const struct sysfs_tree *t = *state;

	add_device(t, "mlx5_0", "4: ACTIVE\n", "0\n");
	add_device(t, "mlx5_10", "4: ACTIVE\n", "0\n");
	assert_int_equal(find(t, "mlx5_10", groups), 1);
	assert_string_equal(groups[0].device, "mlx5_10");
	assert_int_equal(find(t, "mlx5_0:1,mlx5_10", groups), 2);
	assert_int_equal(find(t, "all", groups), 2);
	assert_int_equal(find(t, "mlx5_1", groups), -ENODEV);
}

static void find__on_a_host_without_devices_says_why(void **state)
{
	struct nic_group groups[NIC_GROUPS_MAX];

	assert_int_equal(find(*state, NULL, groups), -ENODEV);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, sysfs_tree_setup, sysfs_tree_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(find__gives_each_usable_device_the_cpus_of_its_node),
		CASE(find__takes_those_that_are_named),
		CASE(find__on_a_host_without_devices_says_why),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
