/* SPDX-License-Identifier: Apache-2.0 */
/* Every path that nanoctrl serves. */
#ifndef NANOCTRL_SERVER_ROUTES_H
#define NANOCTRL_SERVER_ROUTES_H

#include "http/route.h"

#define ROUTES_MAX 64

/* Fill table with the routes of /v1, then those of compat if they are wanted; how many that is. */
size_t routes_fill(struct route table[ROUTES_MAX], bool with_compat);

#endif
