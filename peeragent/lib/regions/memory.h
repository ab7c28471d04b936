/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of a region that the agent allocates: this host's or a GPU's, made a region of the
 * context. What the region's specification insists on is there, or it is an error with its reason.
 */
#ifndef AGENT_MEMORY_H
#define AGENT_MEMORY_H

#include <stdatomic.h>
#include <slime/agent.h>

struct cuda_memory;

struct memory {
	struct slime_mem *host;
	struct cuda_memory *gpu;
	struct slime_mr *mr; /* NULL: there is no memory */
};

struct memory_why {
	char text[192];
};

/*
 * On the helper: may take seconds. Memory on a GPU, or whose pages come on demand, is registered
 * with the RDMA devices before it is used. Ends soon with -ECANCELED when it is unwanted, which any
 * thread may set. On an error why says what is missing, and *out, all zero before, has the memory
 * that is to be destroyed later, if there is any.
 */
int memory_create(struct slime_context *ctx, const struct slime_agent_region *spec, bool restricted,
		  atomic_bool *unwanted, struct memory *out, struct memory_why *why);

/* On the helper: waits for the peers that read or write it. -EBUSY, and all is as it was. */
int memory_destroy(struct memory *memory);

#endif
