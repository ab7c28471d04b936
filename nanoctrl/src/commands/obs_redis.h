/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the snapshots that are in a Redis, with no server of ours. Looks through all of its keys.
 */
#ifndef NANOCTRL_REDIS_OBS_H
#define NANOCTRL_REDIS_OBS_H

#include <stddef.h>
#include <stdint.h>
#include "commands/obs_snapshot.h"

struct redis_url;

struct redis_obs_report {
	uint64_t now_ms; /* Redis' clock */
	char why[256];	 /* what went wrong, on an error */
};

/* The prefix of the keys of a scope. */
struct redis_obs_scope {
	const char *root;
	const char *snapshots; /* then comes "obs:peer:NAME" */
	const char *native;    /* the scope of native agents that write there; NULL: none do */
};

/*
 * found is told of each snapshot of the scopes, as it is stored, and whether a native agent of this
 * name has a lease: not known where Redis refuses to say. A value that is longer than 512 KiB or of
 * another type is passed over, and an error of found ends it. Blocks. 0, -ENOTCONN when Redis is
 * out of reach for timeout_ms, -EPROTO, -ENOMEM.
 */
typedef int redis_obs_found_fn(void *arg, const char *text, size_t len, enum obs_lease lease);
int redis_obs(const struct redis_url *url, uint32_t timeout_ms,
	      const struct redis_obs_scope *scopes, size_t n_scopes, redis_obs_found_fn *found,
	      void *arg, struct redis_obs_report *report);

#endif
