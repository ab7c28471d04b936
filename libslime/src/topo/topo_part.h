/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of a device as the topology has them: the public struct, and what it points to. The
 * public struct is the first member, so that a pointer to the one is a pointer to the other.
 */
#ifndef SL_TOPO_PART_H
#define SL_TOPO_PART_H

#include <limits.h>

#include "src/transport/rdma/device.h"
#include <slime/topo.h>

#define SL_TOPO_DEVICES_MAX 1024
#define SL_TOPO_PORTS_MAX   255
#define SL_TOPO_GPUS_MAX    256
#define SL_TOPO_GIDS_MAX    4096

/* ---- ports ---- */

struct sl_topo_port {
	struct slime_topo_port pub;
	struct slime_gid *gids;
	char state[16];
	char netdev[16];
	char why[SL_DEVICE_WHY_MAX];
};

/* The device a port is read of. */
struct sl_topo_port_of {
	const char *root;
	const char *device;
	bool speaks_ib;		       /* InfiniBand or RoCE, no iWARP */
	const struct sl_device *verbs; /* NULL: it is not asked */
	const char *why_not;	       /* why it could not be opened; "": it was not tried */
};

/* -ENOMEM, or an errno of sysfs. */
int sl_topo_port_create(const struct sl_topo_port_of *of, uint32_t num, struct sl_topo_port **out);
void sl_topo_port_destroy(struct sl_topo_port *port);

/* ---- PCI ---- */

/* The last PCI function on a path of sysfs, as 0000:17:00.0; "" when there is none. */
void sl_topo_pci_of(const char *path, char pci[16]);

/* All GPUs of the host; paths[i] is where the i-th lies. */
struct sl_topo_gpus {
	size_t n;
	struct slime_topo_gpu *gpus;
	char (*paths)[PATH_MAX];
};

/* 0, also when there are none; -ENOMEM. */
int sl_topo_gpus_init(struct sl_topo_gpus *gpus, const char *root);
void sl_topo_gpus_fini(struct sl_topo_gpus *gpus);

/* Set distance and hops of gpu, which lies at gpu_path, from a device at path of numa_node. */
void sl_topo_gpu_measure(struct slime_topo_gpu *gpu, const char *gpu_path, const char *path,
			 int numa_node);

/* ---- devices ---- */

struct sl_topo_device {
	struct slime_topo_device pub;
	struct sl_topo_port **ports;
	struct slime_topo_gpu **gpus;
	struct slime_topo_limits limits;
	char name[SL_DEVICE_NAME_MAX];
	char driver[64];
	char firmware[64];
	char board[64];
	char pci[16];
	char why[SL_DEVICE_WHY_MAX];
};

/* ask: open it, for what sysfs does not have. -ENOMEM, or an errno of sysfs. */
int sl_topo_device_create(const char *root, const char *name, bool ask,
			  const struct sl_topo_gpus *gpus, struct sl_topo_device **out);
void sl_topo_device_destroy(struct sl_topo_device *device);

#endif
