/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that peers on this host can map: a sealed memfd each. */
#ifndef SL_MEM_H
#define SL_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include <slime/mr.h>

struct slime_mem {
	struct slime_context *ctx;
	struct sl_list link; /* in the context's list, under its lock */
	uint8_t *addr;
	size_t len;
	int fd;
	uint32_t n_regions; /* under the context's lock */
	bool sealed;	    /* the first region decided whether peers may ever write */
	bool peers_may_write;
	uint32_t n_shown; /* regions that peers may reach which it has had, ever */
	bool restricted;  /* the only one of them is for some peers */
};

struct sl_region;

/*
 * Count a region, which is to be, on the mem that holds its bytes, and let the first one decide
 * about writing. Under the context's lock. NULL in *out: no mem holds it. -EACCES: the region would
 * let peers write where the first did not, or it would share a file with a restricted one: a
 * process that maps a file sees all of it, and may keep it.
 */
int sl_mem_hold(struct slime_context *ctx, const struct sl_region *what, struct slime_mem **out);

/*
 * Allocate all of its pages now: a later fault would charge the process that touches a page
 * first, and kill it when no page is left. -ENOMEM.
 */
int sl_mem_populate(uint8_t *addr, size_t len);

/*
 * Destroy a region without asking the peers, for memory that is never used again: a peer that
 * still maps it does no harm. Does not block; any thread. False: a peer's access through us is
 * under way, or a device has not let go of it: ask again; no other access begins.
 */
bool sl_mr_abandon(struct slime_mr *mr);

#endif
