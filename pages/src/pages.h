/* SPDX-License-Identifier: Apache-2.0 */
/* The shared state of requests. */
#ifndef PAGES_PAGES_H
#define PAGES_PAGES_H

#include <stdatomic.h>

#include "pages/src/members.h"
#include "pages/src/places.h"

struct pages_counts {
	_Atomic uint64_t hits, misses, lookups, cached, rejected, dead, bytes;
};

struct slime_pages {
	struct slime_agent *agent;
	char tenant[SLIME_PAGES_TENANT_MAX + 1];
	enum slime_pages_verify verify;
	unsigned replicas;
	uint32_t timeout_ms;
	struct members *members;
	struct places *places;
	_Atomic uint32_t n_requests;
	struct pages_counts counts;
};

static inline void pages_count(_Atomic uint64_t *counter, uint64_t n)
{
	atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

#endif
