/* SPDX-License-Identifier: Apache-2.0 */
/* Every path that nanoctrl serves. */
#ifndef NANOCTRL_SERVER_ROUTES_H
#define NANOCTRL_SERVER_ROUTES_H

#include "http/route.h"
#include "server/settings.h"

#define ROUTES_MAX 64

/*
 * Fill table with the routes of /v1, and those for clients of other projects as their settings say
 * (enum compat_service): how many that is. Those for clients on this host only come last, *n_local
 * of them.
 */
size_t routes_fill(struct route table[ROUTES_MAX], const struct server_settings *s,
		   size_t *n_local);

#endif
