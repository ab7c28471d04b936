/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the snapshots that are in a Redis, with no server of ours. Looks through all of its keys.
 */
#ifndef NANOCTRL_REDIS_OBS_H
#define NANOCTRL_REDIS_OBS_H

#include <stddef.h>
#include <stdint.h>

struct redis_url;

struct redis_obs_report {
	uint64_t now_ms; /* Redis' clock */
	char why[256];	 /* what went wrong, on an error */
};

/*
 * found is told of each value under "PREFIXobs:peer:NAME" for any of the prefixes, as it is stored;
 * one that is longer than 512 KiB or of another type is passed over, and an error of found ends it.
 * Blocks. 0, -ENOTCONN when Redis is out of reach for timeout_ms, -EPROTO, -ENOMEM.
 */
int redis_obs(const struct redis_url *url, uint32_t timeout_ms, const char *const *prefixes,
	      size_t n_prefixes, int (*found)(void *arg, const char *text, size_t len), void *arg,
	      struct redis_obs_report *report);

#endif
