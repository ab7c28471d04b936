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

SLIME_END_DECLS

#endif
