/* SPDX-License-Identifier: Apache-2.0 */
/* What this host is made of, as the kernel tells. */
#ifndef SLIME_TOPO_H
#define SLIME_TOPO_H

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

SLIME_END_DECLS

#endif
