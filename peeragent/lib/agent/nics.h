/* SPDX-License-Identifier: Apache-2.0 */
/* The RDMA ports of the agent's host, as attributes of its registration. */
#ifndef AGENT_NICS_H
#define AGENT_NICS_H

#include <slime/agent.h>

#define NICS_MAX 64

struct nics {
	struct slime_label *attributes; /* one for each port, "nic.mlx5_0:1" */
	size_t n;
	char *texts;
};

/* Look at the devices, of which at most NICS_MAX ports are told. sysfs_root as in slime/topo.h.
 * A host that cannot be looked at has none, which is logged. -ENOMEM. */
int nics_init(struct nics *nics, const char *sysfs_root);
void nics_fini(struct nics *nics);

#endif
