/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of what nanoctrl lists, for threads of the caller: each is one allocation. */
#ifndef AGENT_LISTING_H
#define AGENT_LISTING_H

#include <slime/agent.h>

struct nc_page;

/* The agents of a page but the one called self. NULL without memory, as below. */
struct slime_agent_peers *listing_peers(const struct nc_page *page, const char *self);
struct slime_agent_regions *listing_regions(const struct nc_page *page);

#endif
