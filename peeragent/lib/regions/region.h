/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Named regions: allocated and registered by the helper, shown in the directory, withdrawn. A
 * region of the caller's own is only shown.
 */
#ifndef AGENT_REGION_H
#define AGENT_REGION_H

#include <slime/agent.h>

#include "peeragent/lib/control/ctrl.h"
#include "peeragent/lib/loop/helper.h"
#include "peeragent/lib/control/publish.h"

enum region_state {
	REGION_ALLOCATING,
	REGION_OFFERED,
	REGION_FAILED,	    /* error says why */
	REGION_WITHDRAWING, /* out of the directory, and destroyed */
};

/* The regions of one agent. */
struct regions {
	struct slime_context *ctx;
	struct ctrl *ctrl;
	struct publisher *publisher;
	struct helper *helper; /* NULL from regions_close() on */
	struct event_base *base;
	struct sl_list all;
	bool any_restricted; /* there was one that only some peers may reach, ever */
	bool any_kept;	     /* after regions_fini(): a peer reaches one that could not go */
	loop_fn *on_change;  /* one is offered, failed or gone */
	void *arg;
};

struct region;

void regions_init(struct regions *set);

/* Allocate and offer. -ENOMEM; what goes wrong later is the region's state. */
int region_allocate(struct regions *set, const struct slime_agent_region *spec);

/* Show a region of the caller's. -EEXIST, -ENOMEM. */
int region_show(struct regions *set, const char *name, struct slime_mr *mr, uint32_t access,
		const char *const *allow, size_t n_allow);

/* Whether a region of the caller's has this name. */
bool region_is_shown(const struct regions *set, const char *name);

/* Other readers from now on. -ENOENT, -ENOMEM. */
int region_allow(struct regions *set, const struct slime_agent_region *spec);

/* Withdraw the region allocated, or shown, under this name. -ENOENT. */
int region_withdraw(struct regions *set, const char *name, bool shown);

/* The directory has it no more, as of this revision: a region that is offered is published again
 * unless we withdrew an earlier one of its name ourselves. */
void regions_gone(struct regions *set, const char *name, uint64_t revision);

/* The agent leaves: what is not allocated yet will not be, and is -ESHUTDOWN. What is there stays.
 */
void regions_cancel(struct regions *set);

/* The helper is about to end: nothing is given to it any more, regions_fini() does the rest. */
void regions_close(struct regions *set);

/* Destroy what is left. The links are gone, the helper and the session have ended. */
void regions_fini(struct regions *set);

/* -ENOENT, -EAGAIN while it is being allocated, or why it failed. */
int region_find(const struct regions *set, const char *name, struct slime_mr **out);

/* The number of regions and their memory; those whose names begin with "sys." are counted apart.
 * Regions that the helper has at this moment are not counted. */
void regions_count(const struct regions *set, uint64_t *n, uint64_t *bytes, uint64_t *n_sys,
		   uint64_t *sys_bytes);

/* 0 when every region is offered, -EAGAIN while one is not yet, else why one failed. */
int regions_status(const struct regions *set);

#endif
