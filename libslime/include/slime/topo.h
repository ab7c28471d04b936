/* SPDX-License-Identifier: Apache-2.0 */
/* What this host is made of, as the kernel tells. */
#ifndef SLIME_TOPO_H
#define SLIME_TOPO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <slime/export.h>

SLIME_BEGIN_DECLS

#define SLIME_TOPO_NODES_MAX 64

struct slime_topo_node {
	int id;
	uint64_t mem_total; /* bytes */
	uint64_t mem_free;
	uint32_t n_cpus;
	uint32_t huge_2m_free; /* reserved pages not in use */
	uint32_t huge_1g_free;
};

struct slime_topo {
	char hostname[256];
	char kernel[128]; /* release */
	char cpu_model[128];
	uint32_t n_cpus; /* that this process may use */
	uint32_t n_nodes;
	struct slime_topo_node nodes[SLIME_TOPO_NODES_MAX];
	uint64_t page_size;
};

/* Read it; sysfs_root NULL means "/sys" (another one serves tests). -EIO when /sys or /proc cannot
 * be read. */
SLIME_API SLIME_CHECKED int slime_topo_get(const char *sysfs_root, struct slime_topo *out);

/* ---- RDMA ports ---- */

enum slime_link_layer {
	SLIME_LINK_UNKNOWN, /* also iWARP, which the rdma transport does not use */
	SLIME_LINK_INFINIBAND,
	SLIME_LINK_ETHERNET, /* RoCE */
};

/* How packets that use a GID look on the wire. */
enum slime_gid_type {
	SLIME_GID_IB,
	SLIME_GID_ROCE_V1, /* a raw Ethernet frame: not routable */
	SLIME_GID_ROCE_V2, /* a UDP packet */
};

/* "InfiniBand", "Ethernet", "unknown". */
SLIME_API const char *slime_link_layer_name(enum slime_link_layer layer);

/* "IB", "RoCE v1", "RoCE v2". */
SLIME_API const char *slime_gid_type_name(enum slime_gid_type type);

/* One address of a port. */
struct slime_gid {
	uint32_t index; /* in the port's table */
	enum slime_gid_type type;
	uint8_t raw[16];
	char netdev[16]; /* the network interface it belongs to; "" for none or unknown */
};

#define SLIME_GID_TEXT_MAX 46

/* An IPv4-mapped GID as 10.1.2.3, others as an IPv6 address. Returns text. */
SLIME_API const char *slime_gid_text(const uint8_t raw[16], char text[SLIME_GID_TEXT_MAX]);

struct slime_topo_port {
	uint32_t num; /* from 1 */
	enum slime_link_layer link_layer;
	const char *state;  /* "ACTIVE", "DOWN", "INIT", "ARMED" */
	const char *netdev; /* its network interface; "" for none */
	uint32_t mbps;	    /* 0: unknown */
	uint32_t mtu;	    /* the path MTU in use, 256 to 4096; 0: the device could not be asked */
	uint32_t netdev_mtu;
	uint16_t lid; /* InfiniBand */
	const struct slime_gid *gids;
	size_t n_gids;
	bool usable;
	int gid_index;	 /* what gid_index auto takes; -1 when nothing can be taken */
	const char *why; /* why it takes that one, or why the port cannot be used and what helps */
};

/* How far apart two PCI functions are; the words are those of `nvidia-smi topo -m`. */
enum slime_distance {
	SLIME_DISTANCE_PIX,  /* at most one PCI bridge between them */
	SLIME_DISTANCE_PXB,  /* several bridges, below one root port */
	SLIME_DISTANCE_PHB,  /* below one PCI host bridge */
	SLIME_DISTANCE_NODE, /* of one NUMA node */
	SLIME_DISTANCE_SYS,  /* between NUMA nodes, or unknown */
};

/* "PIX", "PXB", "PHB", "NODE", "SYS". */
SLIME_API const char *slime_distance_name(enum slime_distance distance);

struct slime_topo_gpu {
	char pci[16]; /* 0000:17:00.0 */
	uint16_t vendor, device;
	int numa_node; /* -1: unknown */
	enum slime_distance distance;
	uint32_t hops; /* PCI functions on the way, both ends counted; 0: not on one PCI tree */
};

/* What a device grants. */
struct slime_topo_limits {
	uint32_t max_qp;
	uint32_t max_qp_wr;
	uint32_t max_sge;
	uint32_t max_cq;
	uint32_t max_cqe;
	uint32_t max_rd_atomic; /* reads of a queue pair on the way, as initiator */
	uint32_t max_dest_rd_atomic;
	uint32_t max_mr;
	uint64_t max_mr_size;
	uint64_t max_msg_size;
	bool on_demand_paging; /* for reads and writes of RC queue pairs */
};

struct slime_topo_device {
	const char *name;     /* mlx5_0 */
	const char *driver;   /* "" for a software device */
	const char *firmware; /* "" when it tells none */
	const char *board;
	const char *pci; /* 0000:17:00.0; "" for a software device */
	int numa_node;	 /* -1: unknown */
	uint64_t node_guid;
	const struct slime_topo_limits *limits; /* NULL: it could not be asked */
	const char *why;			/* then: why, and what helps */
	const struct slime_topo_port *const *ports;
	size_t n_ports;
	const struct slime_topo_gpu *const *gpus; /* all of the host, the nearest first */
	size_t n_gpus;
};

struct slime_topo_devices {
	const struct slime_topo_device *const *devices; /* by name */
	size_t n_devices;
	const char *why; /* without any: why, and what helps */
};

/*
 * Look at the RDMA devices as they are now; later versions may add to the ends of these structs.
 * sysfs_root NULL means "/sys", and each device is opened to ask for what sysfs does not have;
 * those of another root, which serves tests, are not, and no port is unusable for that. A host
 * without devices is not an error. Not for a hot path: it reads some hundred files.
 *   -ENOMEM   -E2BIG  more devices than anybody has   -EIO  sysfs cannot be read
 */
SLIME_API SLIME_CHECKED int slime_topo_devices_create(const char *sysfs_root,
						      struct slime_topo_devices **out);
SLIME_API void slime_topo_devices_destroy(struct slime_topo_devices *devices);

SLIME_END_DECLS

#endif
