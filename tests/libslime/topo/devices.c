/* SPDX-License-Identifier: Apache-2.0 */
/* RDMA devices read from a sysfs that the test writes: a host with two NICs and GPUs, and worse. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <slime/topo.h>
#include <tests/support/fail_alloc.h>
#include <tests/support/sysfs_tree.h>

#define SWITCH "devices/pci0000:16/0000:16:01.0/0000:17:00.0"
#define NIC    SWITCH "/0000:18:00.0/0000:19:00.0"

static void put(const struct sysfs_tree *t, const char *device, const char *file, const char *text)
{
	char path[256];

	snprintf(path, sizeof(path), "class/infiniband/%s/%s", device, file);
	sysfs_tree_put(t, path, text);
}

static void put_gid(const struct sysfs_tree *t, const char *device, int index, const char *gid,
		    const char *type, const char *netdev)
{
	char file[64];

	snprintf(file, sizeof(file), "ports/1/gids/%d", index);
	put(t, device, file, gid);
	snprintf(file, sizeof(file), "ports/1/gid_attrs/types/%d", index);
	put(t, device, file, type);
	snprintf(file, sizeof(file), "ports/1/gid_attrs/ndevs/%d", index);
	put(t, device, file, netdev);
}

static void put_port(const struct sysfs_tree *t, const char *device, const char *layer,
		     const char *state, const char *rate)
{
	put(t, device, "ports/1/link_layer", layer);
	put(t, device, "ports/1/state", state);
	put(t, device, "ports/1/rate", rate);
	put(t, device, "ports/1/lid", "0x0007\n");
}

static void put_device(const struct sysfs_tree *t, const char *device)
{
	put(t, device, "node_type", "1: CA\n");
	put(t, device, "fw_ver", "20.31.1014\n");
	put(t, device, "board_id", "MT_0000000223\n");
	put(t, device, "node_guid", "0c42:a103:0012:3456\n");
}

/* A RoCE NIC behind a PCI switch, as its driver fills the tables. */
static void put_roce(const struct sysfs_tree *t, const char *device)
{
	char path[256];

	put_device(t, device);
	put_port(t, device, "Ethernet\n", "4: ACTIVE\n", "100 Gb/sec (4X EDR)\n");
	put_gid(t, device, 0, "fe80:0000:0000:0000:0e42:a1ff:fe12:3456\n", "IB/RoCE v1\n",
		"eth2\n");
	put_gid(t, device, 1, "fe80:0000:0000:0000:0e42:a1ff:fe12:3456\n", "RoCE v2\n", "eth2\n");
	put_gid(t, device, 2, "0000:0000:0000:0000:0000:ffff:0a4d:0001\n", "IB/RoCE v1\n",
		"eth2\n");
	put_gid(t, device, 3, "0000:0000:0000:0000:0000:ffff:0a4d:0001\n", "RoCE v2\n", "eth2\n");
	put(t, device, "ports/1/gids/4", "0000:0000:0000:0000:0000:0000:0000:0000\n");
	put_gid(t, device, 5, "2001:0db8:0000:0000:0000:0000:0000:0005\n", "RoCE v2\n", "eth2\n");
	sysfs_tree_put(t, "class/net/eth2/mtu", "4200\n");
	sysfs_tree_put(t, NIC "/numa_node", "1\n");
	sysfs_tree_put(t, "bus/pci/drivers/mlx5_core/bind", "");
	snprintf(path, sizeof(path), "class/infiniband/%s/device", device);
	sysfs_tree_link(t, path, NIC);
}

static void put_infiniband(const struct sysfs_tree *t, const char *device, const char *state)
{
	put_device(t, device);
	put_port(t, device, "InfiniBand\n", state, "400 Gb/sec (4X NDR)\n");
	put_gid(t, device, 0, "fe80:0000:0000:0000:0c42:a103:0012:3456\n", "IB/RoCE v1\n", "");
}

static struct slime_topo_devices *devices_of(const struct sysfs_tree *t)
{
	struct slime_topo_devices *d;

	assert_int_equal(slime_topo_devices_create(t->root, &d), 0);
	return d;
}

static void devices__without_rdma_in_the_kernel_say_so(void **state)
{
	struct slime_topo_devices *d = devices_of(*state);

	assert_int_equal(d->n_devices, 0);
	assert_non_null(strstr(d->why, "class/infiniband is missing"));
	slime_topo_devices_destroy(d);
}

static void devices__without_an_adapter_say_so(void **state)
{
	struct slime_topo_devices *d;

	sysfs_tree_put(*state, "class/infiniband/.keep", "");
	d = devices_of(*state);
	assert_int_equal(d->n_devices, 0);
	assert_non_null(strstr(d->why, "no network adapter"));
	slime_topo_devices_destroy(d);
}

static void devices__of_roce_tell_everything(void **state)
{
	const struct slime_topo_device *nic;
	struct slime_topo_devices *d;

	put_roce(*state, "mlx5_0");
	sysfs_tree_link(*state, NIC "/driver", "bus/pci/drivers/mlx5_core");
	d = devices_of(*state);
	assert_int_equal(d->n_devices, 1);
	nic = d->devices[0];
	assert_string_equal(nic->name, "mlx5_0");
	assert_string_equal(nic->driver, "mlx5_core");
	assert_string_equal(nic->firmware, "20.31.1014");
	assert_string_equal(nic->board, "MT_0000000223");
	assert_string_equal(nic->pci, "0000:19:00.0");
	assert_int_equal(nic->numa_node, 1);
	assert_true(nic->node_guid == 0x0c42a10300123456);
	assert_null(nic->limits);
	slime_topo_devices_destroy(d);
}

static void port__of_roce_tells_everything(void **state)
{
	const struct slime_topo_port *port;
	struct slime_topo_devices *d;

	put_roce(*state, "mlx5_0");
	d = devices_of(*state);
	assert_int_equal(d->devices[0]->n_ports, 1);
	port = d->devices[0]->ports[0];
	assert_int_equal(port->num, 1);
	assert_int_equal(port->link_layer, SLIME_LINK_ETHERNET);
	assert_string_equal(port->state, "ACTIVE");
	assert_string_equal(port->netdev, "eth2");
	assert_int_equal(port->mbps, 100000);
	assert_int_equal(port->netdev_mtu, 4200);
	assert_int_equal(port->lid, 7);
	assert_true(port->usable);
	assert_int_equal(port->gid_index, 3);
	assert_non_null(strstr(port->why, "10.77.0.1 of eth2"));
	slime_topo_devices_destroy(d);
}

static void port__its_table_has_the_gids_in_use(void **state)
{
	const struct slime_topo_port *port;
	struct slime_topo_devices *d;

	put_roce(*state, "mlx5_0");
	d = devices_of(*state);
	port = d->devices[0]->ports[0];
	assert_int_equal(port->n_gids, 5);
	assert_int_equal(port->gids[0].type, SLIME_GID_ROCE_V1);
	assert_int_equal(port->gids[3].index, 3);
	assert_int_equal(port->gids[3].type, SLIME_GID_ROCE_V2);
	assert_int_equal(port->gids[4].index, 5);
	assert_string_equal(port->gids[4].netdev, "eth2");
	slime_topo_devices_destroy(d);
}

static void port__of_infiniband_takes_its_first_gid(void **state)
{
	const struct slime_topo_port *port;
	struct slime_topo_devices *d;

	put_infiniband(*state, "mlx5_0", "4: ACTIVE\n");
	d = devices_of(*state);
	port = d->devices[0]->ports[0];
	assert_int_equal(port->link_layer, SLIME_LINK_INFINIBAND);
	assert_int_equal(port->gids[0].type, SLIME_GID_IB);
	assert_int_equal(port->mbps, 400000);
	assert_true(port->usable);
	assert_int_equal(port->gid_index, 0);
	assert_string_equal(port->netdev, "");
	slime_topo_devices_destroy(d);
}

static void assert_unusable(const struct slime_topo_devices *d, const char *word)
{
	const struct slime_topo_port *port = d->devices[0]->ports[0];

	assert_false(port->usable);
	assert_int_equal(port->gid_index, -1);
	assert_non_null(strstr(port->why, word));
}

static void port__that_is_down_cannot_be_used(void **state)
{
	struct slime_topo_devices *d;

	put_roce(*state, "mlx5_0");
	put(*state, "mlx5_0", "ports/1/state", "1: DOWN\n");
	d = devices_of(*state);
	assert_string_equal(d->devices[0]->ports[0]->state, "DOWN");
	assert_unusable(d, "its network interface is down");
	slime_topo_devices_destroy(d);
}

static void port__without_a_subnet_manager_cannot_be_used(void **state)
{
	struct slime_topo_devices *d;

	put_infiniband(*state, "mlx5_0", "2: INIT\n");
	d = devices_of(*state);
	assert_unusable(d, "subnet manager");
	slime_topo_devices_destroy(d);
}

static void port__with_roce_v1_alone_cannot_be_used(void **state)
{
	struct slime_topo_devices *d;

	put_device(*state, "old_0");
	put_port(*state, "old_0", "Ethernet\n", "4: ACTIVE\n", "10 Gb/sec (1X QDR)\n");
	put_gid(*state, "old_0", 0, "fe80:0000:0000:0000:0e42:a1ff:fe12:3456\n", "IB/RoCE v1\n",
		"eth2\n");
	d = devices_of(*state);
	assert_unusable(d, "no RoCE v2 GID among 1");
	slime_topo_devices_destroy(d);
}

static void port__of_iwarp_cannot_be_used(void **state)
{
	struct slime_topo_devices *d;

	put_device(*state, "iw_0");
	put(*state, "iw_0", "node_type", "4: RNIC\n");
	put_port(*state, "iw_0", "Ethernet\n", "4: ACTIVE\n", "10 Gb/sec (1X QDR)\n");
	d = devices_of(*state);
	assert_unusable(d, "neither InfiniBand nor RoCE");
	slime_topo_devices_destroy(d);
}

static void port__of_a_software_device_names_its_parent(void **state)
{
	const struct slime_topo_device *rxe;
	struct slime_topo_devices *d;

	put(*state, "rxe0", "node_type", "1: CA\n");
	put(*state, "rxe0", "parent", "veth0\n");
	put_port(*state, "rxe0", "Ethernet\n", "1: DOWN\n", "2.5 Gb/sec (1X SDR)\n");
	sysfs_tree_put(*state, "class/net/veth0/mtu", "1500\n");
	d = devices_of(*state);
	rxe = d->devices[0];
	assert_string_equal(rxe->pci, "");
	assert_string_equal(rxe->driver, "");
	assert_int_equal(rxe->numa_node, -1);
	assert_string_equal(rxe->ports[0]->netdev, "veth0");
	assert_int_equal(rxe->ports[0]->netdev_mtu, 1500);
	assert_int_equal(rxe->ports[0]->mbps, 2500);
	slime_topo_devices_destroy(d);
}

static void port__of_nonsense_cannot_be_used(void **state)
{
	struct slime_topo_devices *d;

	put(*state, "mlx5_0", "node_type", "\n");
	put_port(*state, "mlx5_0", "?", "", "999999999999999999999 Gb/sec");
	put_gid(*state, "mlx5_0", 0, "not:a:gid", "?", "a-name-that-is-longer-than-any");
	put_gid(*state, "mlx5_0", 1, "1:2:3:4:5:6:7:8 and more", "?", "");
	d = devices_of(*state);
	assert_string_equal(d->devices[0]->ports[0]->state, "unknown");
	assert_int_equal(d->devices[0]->ports[0]->mbps, 0);
	assert_int_equal(d->devices[0]->ports[0]->n_gids, 0);
	assert_unusable(d, "neither");
	slime_topo_devices_destroy(d);
}

static void devices__are_in_the_order_of_their_numbers(void **state)
{
	struct slime_topo_devices *d;

	put_infiniband(*state, "mlx5_10", "4: ACTIVE\n");
	put_infiniband(*state, "mlx5_2", "4: ACTIVE\n");
	d = devices_of(*state);
	assert_string_equal(d->devices[0]->name, "mlx5_2");
	assert_string_equal(d->devices[1]->name, "mlx5_10");
	slime_topo_devices_destroy(d);
}

/* ---- GPUs ---- */

static void put_pci(const struct sysfs_tree *t, const char *at, const char *class,
		    const char *vendor, const char *numa)
{
	char path[256];

	snprintf(path, sizeof(path), "bus/pci/devices/%s", strrchr(at, '/') + 1);
	sysfs_tree_link(t, path, at);
	snprintf(path, sizeof(path), "%s/class", at);
	sysfs_tree_put(t, path, class);
	snprintf(path, sizeof(path), "%s/vendor", at);
	sysfs_tree_put(t, path, vendor);
	snprintf(path, sizeof(path), "%s/device", at);
	sysfs_tree_put(t, path, "0x2330\n");
	snprintf(path, sizeof(path), "%s/numa_node", at);
	sysfs_tree_put(t, path, numa);
}

static void assert_gpu(const struct slime_topo_gpu *gpu, const char *pci,
		       enum slime_distance distance, uint32_t hops)
{
	assert_string_equal(gpu->pci, pci);
	assert_string_equal(slime_distance_name(gpu->distance), slime_distance_name(distance));
	assert_int_equal(gpu->hops, hops);
}

static void gpus__stand_in_the_order_of_their_distance(void **state)
{
	const struct slime_topo_device *nic;
	struct slime_topo_devices *d;

	put_roce(*state, "mlx5_0");
	put_pci(*state, "devices/pci0000:80/0000:80:01.0/0000:81:00.0", "0x030200\n", "0x10de\n",
		"0\n");
	put_pci(*state, "devices/pci0000:96/0000:96:01.0/0000:97:00.0", "0x030200\n", "0x10de\n",
		"1\n");
	put_pci(*state, "devices/pci0000:16/0000:16:02.0/0000:2a:00.0", "0x030200\n", "0x10de\n",
		"1\n");
	put_pci(*state, SWITCH "/0000:18:04.0/0000:1b:00.0/0000:1c:00.0", "0x120000\n", "0x1002\n",
		"1\n");
	put_pci(*state, SWITCH "/0000:18:05.0/0000:1a:00.0", "0x030000\n", "0x10de\n", "1\n");
	d = devices_of(*state);
	nic = d->devices[0];
	assert_int_equal(nic->n_gpus, 5);
	assert_gpu(nic->gpus[0], "0000:1a:00.0", SLIME_DISTANCE_PIX, 4);
	assert_gpu(nic->gpus[1], "0000:1c:00.0", SLIME_DISTANCE_PXB, 5);
	assert_gpu(nic->gpus[2], "0000:2a:00.0", SLIME_DISTANCE_PHB, 6);
	assert_gpu(nic->gpus[3], "0000:97:00.0", SLIME_DISTANCE_NODE, 0);
	assert_gpu(nic->gpus[4], "0000:81:00.0", SLIME_DISTANCE_SYS, 0);
	assert_int_equal(nic->gpus[0]->vendor, 0x10de);
	assert_int_equal(nic->gpus[0]->device, 0x2330);
	slime_topo_devices_destroy(d);
}

static void gpus__are_no_screens_of_boards_and_no_disks(void **state)
{
	struct slime_topo_devices *d;

	put_roce(*state, "mlx5_0");
	put_pci(*state, SWITCH "/0000:18:04.0/0000:1b:00.0", "0x030000\n", "0x1a03\n", "1\n");
	put_pci(*state, SWITCH "/0000:18:05.0/0000:1c:00.0", "0x010802\n", "0x10de\n", "1\n");
	d = devices_of(*state);
	assert_int_equal(d->devices[0]->n_gpus, 0);
	slime_topo_devices_destroy(d);
}

static void gpus__of_a_software_device_have_no_distance_and_are_none(void **state)
{
	struct slime_topo_devices *d;

	put_infiniband(*state, "rxe0", "4: ACTIVE\n");
	put_pci(*state, SWITCH "/0000:18:05.0/0000:1a:00.0", "0x030200\n", "0x10de\n", "1\n");
	d = devices_of(*state);
	assert_int_equal(d->devices[0]->n_gpus, 0);
	slime_topo_devices_destroy(d);
}

/* ---- failures ---- */

static void devices__of_no_folder_are_an_error(void **state)
{
	struct slime_topo_devices *d;

	sysfs_tree_put(*state, "class/infiniband", "");
	assert_int_equal(slime_topo_devices_create(((struct sysfs_tree *)*state)->root, &d), -EIO);
}

static void devices__without_memory_leave_nothing(void **state)
{
	const struct sysfs_tree *t = *state;
	struct slime_topo_devices *d;
	int ret = -ENOMEM;

	put_roce(t, "mlx5_0");
	put_pci(t, SWITCH "/0000:18:05.0/0000:1a:00.0", "0x030200\n", "0x10de\n", "1\n");
	for (long n = 1; ret; n++) {
		fail_alloc_at(n);
		ret = slime_topo_devices_create(t->root, &d);
		(void)fail_alloc_end();
		assert_true(!ret || ret == -ENOMEM);
	}
	assert_int_equal(d->devices[0]->n_gpus, 1);
	slime_topo_devices_destroy(d);
}

static void devices__of_this_host_can_be_asked_for(void **state)
{
	struct slime_topo_devices *d;

	(void)state;
	assert_int_equal(slime_topo_devices_create(NULL, &d), 0);
	assert_true(d->n_devices || d->why[0]);
	slime_topo_devices_destroy(d);
	slime_topo_devices_destroy(NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, sysfs_tree_setup, sysfs_tree_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(devices__without_rdma_in_the_kernel_say_so),
		TEST(devices__without_an_adapter_say_so),
		TEST(devices__of_roce_tell_everything),
		TEST(port__of_roce_tells_everything),
		TEST(port__its_table_has_the_gids_in_use),
		TEST(port__of_infiniband_takes_its_first_gid),
		TEST(port__that_is_down_cannot_be_used),
		TEST(port__without_a_subnet_manager_cannot_be_used),
		TEST(port__with_roce_v1_alone_cannot_be_used),
		TEST(port__of_iwarp_cannot_be_used),
		TEST(port__of_a_software_device_names_its_parent),
		TEST(port__of_nonsense_cannot_be_used),
		TEST(devices__are_in_the_order_of_their_numbers),
		TEST(gpus__stand_in_the_order_of_their_distance),
		TEST(gpus__are_no_screens_of_boards_and_no_disks),
		TEST(gpus__of_a_software_device_have_no_distance_and_are_none),
		TEST(devices__of_no_folder_are_an_error),
		TEST(devices__without_memory_leave_nothing),
		TEST(devices__of_this_host_can_be_asked_for),
	};

	return cmocka_run_group_tests_name("topo_devices", tests, NULL, NULL);
}
