/* SPDX-License-Identifier: Apache-2.0 */
#include "src/core/sysfs.h"
#include "src/transport/rdma/device.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Entries of one device's tables that we look at: the kernel takes 64 KiB of them at a time. */
#define GIDS_MAX 1024

static int __attribute__((format(printf, 3, 4)))
say(struct sl_device_why *why, int ret, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(why->text, sizeof(why->text), fmt, args);
	va_end(args);
	return ret;
}

/* ---- the list ---- */

/* libibverbs leaves out devices that it cannot open, and takes a kernel whose files it cannot open
 * for one without verbs: 0, or why a file cannot be opened now. */
static int cannot_open_any(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	int err = fd < 0 ? errno : 0;

	if (fd >= 0)
		close(fd);
	return err == EMFILE || err == ENFILE ? err : 0;
}

static int no_list(int err, struct sl_device_why *why)
{
	int other = cannot_open_any();

	if (other)
		err = other;
	if (err == ENOSYS)
		return say(why, -ENOSYS,
			   "the kernel has no RDMA verbs: modprobe ib_uverbs, or take one that has "
			   "InfiniBand");
	return say(why, -err, "the RDMA devices cannot be listed: %s", strerror(err));
}

static int get_list(struct ibv_device ***list, int *n, struct sl_device_why *why)
{
	errno = 0;
	*list = ibv_get_device_list(n);
	return *list ? 0 : no_list(errno ? errno : EIO, why);
}

int sl_device_names(struct sl_device_names *out, struct sl_device_why *why)
{
	struct ibv_device **list;
	int n;
	int ret = get_list(&list, &n, why);

	if (ret)
		return ret;
	*out = (struct sl_device_names){ .names = calloc((size_t)n + 1, sizeof(*out->names)) };
	if (!out->names)
		ret = say(why, -ENOMEM, "%s", strerror(ENOMEM));
	for (int i = 0; !ret && i < n; i++)
		snprintf(out->names[out->n++], SL_DEVICE_NAME_MAX, "%s",
			 ibv_get_device_name(list[i]));
	if (!ret && !n)
		say(why, 0, "there is no RDMA device that libibverbs has a driver for");
	ibv_free_device_list(list);
	return ret;
}

void sl_device_names_fini(struct sl_device_names *names)
{
	free(names->names);
}

static bool kernel_has(const char *name)
{
	char path[32 + SL_DEVICE_NAME_MAX];

	snprintf(path, sizeof(path), "/sys/class/infiniband/%.63s", name);
	return name[0] && !access(path, F_OK);
}

/* "no device mlx5_9; there are mlx5_0, mlx5_1": as many as fit. */
static int no_such_device(struct ibv_device *const *list, int n, const char *name,
			  struct sl_device_why *why)
{
	int err = cannot_open_any();
	size_t used;

	if (err)
		return no_list(err, why);
	if (kernel_has(name))
		return say(why, -ENODEV,
			   "the kernel has %.63s, and libibverbs does not: its file in "
			   "/dev/infiniband is missing (a container needs it), or libibverbs has "
			   "no driver for it (package ibverbs-providers)",
			   name);
	if (!n)
		return say(why, -ENODEV, "there is no RDMA device %.63s: there is none at all",
			   name);
	say(why, 0, "there is no RDMA device %.63s; there is", name);
	used = strlen(why->text);
	for (int i = 0; i < n && used < sizeof(why->text); i++) {
		snprintf(why->text + used, sizeof(why->text) - used, "%s %s", i ? "," : "",
			 ibv_get_device_name(list[i]));
		used = strlen(why->text);
	}
	return -ENODEV;
}

/* ---- opening ---- */

/* libibverbs leaves an errno that depends on how it tried; the device's file tells more. */
static int cannot_open(const struct ibv_device *ibv, int err, struct sl_device_why *why)
{
	char path[64 + sizeof(ibv->dev_name)];

	snprintf(path, sizeof(path), "/dev/infiniband/%s", ibv->dev_name);
	if (access(path, F_OK))
		return say(why, -ENOENT,
			   "%s does not exist: a container needs the files of /dev/infiniband",
			   path);
	if (access(path, R_OK | W_OK))
		return say(why, -EACCES, "no permission to read and write %s", path);
	return say(why, -err, "%s cannot be opened: %s", path, strerror(err));
}

static int open_named(struct ibv_device *const *list, int n, const char *name,
		      struct ibv_context **out, struct sl_device_why *why)
{
	for (int i = 0; i < n; i++) {
		if (strcmp(ibv_get_device_name(list[i]), name))
			continue;
		errno = 0;
		*out = ibv_open_device(list[i]);
		return *out ? 0 : cannot_open(list[i], errno ? errno : EIO, why);
	}
	return no_such_device(list, n, name, why);
}

/* A device that is not below a bus, as soft-RoCE, has none. */
static int numa_node_of(const struct ibv_device *ibv)
{
	int64_t node;

	if (sl_sysfs_number(&node, ibv->ibdev_path, "device/numa_node") || node < 0 ||
	    node > SL_DEVICE_NUMA_MAX)
		return -1;
	return (int)node;
}

int sl_device_init(struct sl_device *dev, const char *name, struct sl_device_why *why)
{
	struct sl_device d = { 0 };
	struct ibv_device **list;
	int n;
	int ret = get_list(&list, &n, why);

	if (ret)
		return ret;
	ret = open_named(list, n, name, &d.ibv, why);
	ibv_free_device_list(list);
	if (ret)
		return ret;
	ret = ibv_query_device_ex(d.ibv, NULL, &d.attr);
	if (ret) {
		ibv_close_device(d.ibv);
		return say(why, -ret, "%.63s does not tell its attributes: %s", name,
			   strerror(ret));
	}
	snprintf(d.name, sizeof(d.name), "%s", name);
	d.numa_node = numa_node_of(d.ibv->device);
	*dev = d;
	return 0;
}

void sl_device_fini(struct sl_device *dev)
{
	ibv_close_device(dev->ibv);
}

/* ---- ports ---- */

static enum slime_link_layer link_layer_of(const struct sl_device *dev,
					   const struct ibv_port_attr *attr)
{
	if (dev->ibv->device->transport_type != IBV_TRANSPORT_IB)
		return SLIME_LINK_UNKNOWN;
	/* a driver from before there was another names none */
	return attr->link_layer == IBV_LINK_LAYER_ETHERNET ? SLIME_LINK_ETHERNET
							   : SLIME_LINK_INFINIBAND;
}

static struct slime_gid gid_of(const struct ibv_gid_entry *e)
{
	struct slime_gid gid = {
		.index = e->gid_index,
		.type = e->gid_type == IBV_GID_TYPE_ROCE_V2   ? SLIME_GID_ROCE_V2
			: e->gid_type == IBV_GID_TYPE_ROCE_V1 ? SLIME_GID_ROCE_V1
							      : SLIME_GID_IB,
	};

	memcpy(gid.raw, e->gid.raw, sizeof(gid.raw));
	if (e->ndev_ifindex && !if_indextoname(e->ndev_ifindex, gid.netdev))
		gid.netdev[0] = '\0';
	return gid;
}

static int by_index(const void *a, const void *b)
{
	uint32_t x = ((const struct slime_gid *)a)->index;
	uint32_t y = ((const struct slime_gid *)b)->index;

	return (x > y) - (x < y);
}

/* libibverbs hands out the tables of all ports at once. */
static int read_gids(struct sl_port *port, const struct sl_device *dev)
{
	struct ibv_gid_entry *all = calloc(GIDS_MAX, sizeof(*all));
	ssize_t n;

	if (!all)
		return -ENOMEM;
	n = ibv_query_gid_table(dev->ibv, all, GIDS_MAX, 0);
	port->gids = n < 0 ? NULL : calloc((size_t)n + 1, sizeof(*port->gids));
	for (ssize_t i = 0; port->gids && i < n; i++)
		if (all[i].port_num == port->num)
			port->gids[port->n_gids++] = gid_of(&all[i]);
	free(all);
	if (port->gids)
		qsort(port->gids, port->n_gids, sizeof(*port->gids), by_index);
	return n < 0 ? (int)n : port->gids ? 0 : -ENOMEM;
}

int sl_port_init(struct sl_port *port, const struct sl_device *dev, uint8_t num,
		 struct sl_device_why *why)
{
	struct sl_port p = { .num = num };
	int ret;

	if (!num || num > dev->attr.orig_attr.phys_port_cnt)
		return say(why, -EINVAL, "%s has no port %u, but %u", dev->name, num,
			   dev->attr.orig_attr.phys_port_cnt);
	ret = -ibv_query_port(dev->ibv, num, &p.attr);
	if (!ret) {
		p.link_layer = link_layer_of(dev, &p.attr);
		ret = read_gids(&p, dev);
	}
	if (ret)
		return say(why, ret, "port %u of %s does not tell its attributes: %s", num,
			   dev->name, strerror(-ret));
	*port = p;
	return 0;
}

void sl_port_fini(struct sl_port *port)
{
	free(port->gids);
}

/* How it is brought up depends on the thread that does it. */
static int not_active(const struct sl_port *port, struct sl_device_why *why)
{
	const char *state = sl_port_state_name(port->attr.state);

	if (port->link_layer == SLIME_LINK_ETHERNET)
		return say(why, -ENETDOWN,
			   "port %u is %s: its network interface is down or has no carrier",
			   port->num, state);
	if (port->attr.state == IBV_PORT_DOWN)
		return say(why, -ENETDOWN, "port %u is %s: no cable, or the switch's port is off",
			   port->num, state);
	return say(why, -ENETDOWN, "port %u is %s: it waits for the fabric's subnet manager",
		   port->num, state);
}

int sl_port_check(const struct sl_port *port, struct sl_device_why *why)
{
	if (port->link_layer == SLIME_LINK_UNKNOWN)
		return say(why, -EOPNOTSUPP, "port %u is neither InfiniBand nor RoCE", port->num);
	return port->attr.state == IBV_PORT_ACTIVE ? 0 : not_active(port, why);
}

/* ---- their numbers ---- */

uint32_t sl_port_mbps(const struct ibv_port_attr *attr)
{
	/* By the bit that tells it: lanes, and Mbit/s of a lane. */
	static const uint32_t lanes[] = { 1, 4, 8, 12, 2 };
	static const uint32_t speeds[] = { 2500, 5000, 10000, 10000, 14000, 25000, 50000, 100000 };
	unsigned width = attr->active_width, speed = attr->active_speed;

	if (!width || !speed || width & (width - 1) || speed & (speed - 1) ||
	    width >> (sizeof(lanes) / sizeof(*lanes)))
		return 0;
	return lanes[__builtin_ctz(width)] * speeds[__builtin_ctz(speed)];
}

uint32_t sl_mtu_bytes(enum ibv_mtu mtu)
{
	return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128u << mtu : 0;
}

const char *sl_port_state_name(enum ibv_port_state state)
{
	switch (state) {
	case IBV_PORT_DOWN:
		return "DOWN";
	case IBV_PORT_INIT:
		return "INIT";
	case IBV_PORT_ARMED:
		return "ARMED";
	case IBV_PORT_ACTIVE:
		return "ACTIVE";
	case IBV_PORT_ACTIVE_DEFER:
		return "ACTIVE_DEFER";
	default:
		return "in no known state";
	}
}
