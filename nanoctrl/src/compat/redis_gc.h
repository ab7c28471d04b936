/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks through a whole Redis for what agents of DLSlime's NanoCtrl left: mr:, exchange:, spec:,
 * stream: and inbox: keys of which no agent is registered that could be meant. Reads only.
 */
#ifndef NANOCTRL_REDIS_GC_H
#define NANOCTRL_REDIS_GC_H

#include <stddef.h>
#include <stdint.h>

struct redis_url;

struct redis_gc_report {
	uint64_t n_keys;    /* that were looked at */
	uint64_t n_orphans; /* that were told of */
	char why[256];	    /* what went wrong, on an error */
};

/* found is told of each orphan. Blocks until all keys were seen. 0, -ENOTCONN when Redis is out of
 * reach for timeout_ms, -EPROTO, -ENOMEM. */
int redis_gc(const struct redis_url *url, uint32_t timeout_ms,
	     void (*found)(void *arg, const char *key, size_t len), void *arg,
	     struct redis_gc_report *report);

#endif
