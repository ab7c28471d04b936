/* SPDX-License-Identifier: Apache-2.0 */
/* What agents say of their RDMA ports, on a sysfs that the test writes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "peeragent/lib/agent/nics.h"
#include "tests/support/sysfs_tree.h"

#define DEVICES "devices/pci0000:10/"

static void put_port(const struct sysfs_tree *t, const char *device, const char *pci, int numa,
		     const char *state)
{
	char path[256], text[32];

#define PUT(name, value)                                                                     \
	do {                                                                                 \
		snprintf(path, sizeof(path), DEVICES "%s/infiniband/%s/" name, pci, device); \
		sysfs_tree_put(t, path, value);                                              \
	} while (0)
	PUT("node_type", "1: CA\n");
	PUT("node_guid", "0011:2233:4455:6677\n");
	PUT("ports/1/state", state);
	PUT("ports/1/link_layer", "Ethernet\n");
	PUT("ports/1/rate", "100 Gb/sec (4X EDR)\n");
	PUT("ports/1/lid", "0x0\n");
#undef PUT
	snprintf(path, sizeof(path), DEVICES "%s/numa_node", pci);
	snprintf(text, sizeof(text), "%d\n", numa);
	sysfs_tree_put(t, path, text);
	snprintf(path, sizeof(path), DEVICES "%s/infiniband/%s", pci, device);
	snprintf(text, sizeof(text), "class/infiniband/%s", device);
	sysfs_tree_link(t, text, path);
	snprintf(text, sizeof(text), DEVICES "%s", pci);
	snprintf(path, sizeof(path), DEVICES "%s/infiniband/%s/device", pci, device);
	sysfs_tree_link(t, path, text);
}

static void nics__say_link_state_speed_and_numa_node(void **state)
{
	const struct sysfs_tree *t = *state;
	struct nics nics;

	put_port(t, "mlx5_0", "0000:17:00.0", 0, "4: ACTIVE\n");
	put_port(t, "mlx5_1", "0000:18:00.0", 1, "1: DOWN\n");
	assert_int_equal(nics_init(&nics, t->root), 0);
	assert_int_equal(nics.n, 2);
	assert_string_equal(nics.attributes[0].key, "nic.mlx5_0:1");
	assert_string_equal(nics.attributes[0].value,
			    "link=Ethernet state=ACTIVE mbps=100000 numa=0");
	assert_string_equal(nics.attributes[1].key, "nic.mlx5_1:1");
	assert_string_equal(nics.attributes[1].value,
			    "link=Ethernet state=DOWN mbps=100000 numa=1");
	nics_fini(&nics);
}

static void nics__name_gpus_and_how_far_they_are(void **state)
{
	const struct sysfs_tree *t = *state;
	const char *gpu = DEVICES "0000:19:00.0";
	struct nics nics;

	put_port(t, "mlx5_0", "0000:17:00.0", 0, "4: ACTIVE\n");
	sysfs_tree_put(t, DEVICES "0000:19:00.0/class", "0x030200\n");
	sysfs_tree_put(t, DEVICES "0000:19:00.0/vendor", "0x10de\n");
	sysfs_tree_put(t, DEVICES "0000:19:00.0/device", "0x2330\n");
	sysfs_tree_put(t, DEVICES "0000:19:00.0/numa_node", "0\n");
	sysfs_tree_link(t, "bus/pci/devices/0000:19:00.0", gpu);
	assert_int_equal(nics_init(&nics, t->root), 0);
	assert_int_equal(nics.n, 1);
	assert_string_equal(nics.attributes[0].value,
			    "link=Ethernet state=ACTIVE mbps=100000 numa=0 gpus=0000:19:00.0/PHB");
	nics_fini(&nics);
}

static void nics__of_a_host_without_devices_are_none(void **state)
{
	const struct sysfs_tree *t = *state;
	struct nics nics;

	assert_int_equal(nics_init(&nics, t->root), 0);
	assert_int_equal(nics.n, 0);
	nics_fini(&nics);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(nics__say_link_state_speed_and_numa_node,
						sysfs_tree_setup, sysfs_tree_teardown),
		cmocka_unit_test_setup_teardown(nics__name_gpus_and_how_far_they_are,
						sysfs_tree_setup, sysfs_tree_teardown),
		cmocka_unit_test_setup_teardown(nics__of_a_host_without_devices_are_none,
						sysfs_tree_setup, sysfs_tree_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
