/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An RDMA device: opened by its name, asked for its abilities and for the state of its ports, and,
 * where it cannot be used, why. The words go to the caller, which decides whether that is an error;
 * nothing here logs.
 */
#ifndef SL_RDMA_DEVICE_H
#define SL_RDMA_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include <slime/topo.h>

#include "base/port_name.h"

_Static_assert(SL_DEVICE_NAME_MAX == IBV_SYSFS_NAME_MAX, "names of libibverbs fit");
#define SL_DEVICE_WHY_MAX  256
#define SL_DEVICE_NUMA_MAX 1023 /* the highest number of a node that Linux gives */

/* Why something of a device cannot be used: what is wrong, and what to do about it. */
struct sl_device_why {
	char text[SL_DEVICE_WHY_MAX];
};

/* The names of the devices that libibverbs has a driver for. */
struct sl_device_names {
	size_t n;
	char (*names)[SL_DEVICE_NAME_MAX];
};

/*
 * 0, also when there are none; why then says so. out is the caller's to free by
 * sl_device_names_fini().
 *   -ENOSYS  the kernel has no verbs      -ENOMEM
 */
int sl_device_names(struct sl_device_names *out, struct sl_device_why *why);
void sl_device_names_fini(struct sl_device_names *names);

struct sl_device {
	struct ibv_context *ibv;
	struct ibv_device_attr_ex attr; /* limits in attr.orig_attr; on-demand paging beside it */
	char name[SL_DEVICE_NAME_MAX];
	int numa_node; /* that it is near to; -1: unknown */
};

/*
 * Open the device called name and ask for its attributes. On an error why has the words:
 *   -ENOSYS  the kernel has no verbs      -ENODEV  there is no such device
 *   -EACCES  no permission to open its file in /dev/infiniband
 *   -ENOENT  it has no file there, as in a container that was not given one
 *   others of libibverbs
 * dev is as it was then.
 */
int sl_device_init(struct sl_device *dev, const char *name, struct sl_device_why *why);
/* Everything made from dev->ibv has been destroyed. */
void sl_device_fini(struct sl_device *dev);

/* The state of a port at one moment; it changes while the port is used. */
struct sl_port {
	uint8_t num; /* from 1 */
	enum slime_link_layer link_layer;
	struct ibv_port_attr attr;
	struct slime_gid *gids; /* those in use, by index */
	size_t n_gids;
};

/* Ask for port num. -EINVAL: the device has no such port; others of libibverbs; why has the words.
 */
int sl_port_init(struct sl_port *port, const struct sl_device *dev, uint8_t num,
		 struct sl_device_why *why);
void sl_port_fini(struct sl_port *port);

/*
 * Whether queue pairs can be brought up on the port, its addresses aside: 0, or with the words
 *   -ENETDOWN    it is not active
 *   -EOPNOTSUPP  neither InfiniBand nor RoCE
 */
int sl_port_check(const struct sl_port *port, struct sl_device_why *why);

/* Its link speed, in Mbit/s; 0: unknown. */
uint32_t sl_port_mbps(const struct ibv_port_attr *attr);

/* 256 to 4096; 0 for what is no path MTU. */
uint32_t sl_mtu_bytes(enum ibv_mtu mtu);

/* "DOWN", "INIT", "ARMED", "ACTIVE" and so on. */
const char *sl_port_state_name(enum ibv_port_state state);

#endif
