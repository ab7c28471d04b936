/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HTTP metadata server of Mooncake's transfer engine: /metadata?key=KEY, as its unmodified
 * clients use it (docs/http-api.md). What is added: an engine whose owner is dead loses its values
 * before a second life of it reads them.
 */
#ifndef NANOCTRL_MOONCAKE_ROUTES_H
#define NANOCTRL_MOONCAKE_ROUTES_H

#include <stddef.h>
#include "http/route.h"

extern const struct route mooncake_routes[];
extern const size_t mooncake_n_routes;

#endif
