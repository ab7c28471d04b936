/* SPDX-License-Identifier: Apache-2.0 */
/* The routes of DLSlimeCache. */
#ifndef PAGES_CACHE_API_H
#define PAGES_CACHE_API_H

#include <stddef.h>

#include "http/route.h"

struct directory;
struct registration;

/* The state that the server passes to its handlers. */
struct store {
	struct directory *directory;
	struct registration *registration; /* NULL: it is listed nowhere, and need not be */
};

extern const struct route cache_routes[];
extern const size_t n_cache_routes;

#endif
