/* SPDX-License-Identifier: Apache-2.0 */
/* Every path that nanoctrl serves. */
#include "api_server.h"
#include "route.h"

const struct route route_table[] = {
	{ HTTP_GET, "/", api_root },
	{ HTTP_GET, "/healthz", api_healthz },
	{ HTTP_GET, "/readyz", api_readyz },
	{ HTTP_GET, "/metrics", api_metrics },
};

const size_t route_table_len = sizeof(route_table) / sizeof(route_table[0]);
