/* SPDX-License-Identifier: Apache-2.0 */
#include "server/compat.h"

#include "compat/api.h"
#include "compat/gc.h"
#include "compat/private_port.h"
#include "compat/store.h"

static const struct route routes[] = {
	{ HTTP_POST, "/heartbeat", api_compat_heartbeat },
	{ HTTP_POST, "/register", api_compat_register },
	{ HTTP_POST, "/unregister", api_compat_unregister },
	{ HTTP_POST, "/get_entity_info", api_compat_get },
	{ HTTP_POST, "/list_entities", api_compat_list },
	{ HTTP_POST, "/start_peer_agent", api_compat_start_peer },
	{ HTTP_POST, "/query", api_compat_query },
	{ HTTP_POST, "/cleanup", api_compat_cleanup },
	{ HTTP_POST, "/v1/desired_topology/{agent_id}", api_compat_topology },
	{ HTTP_POST, "/register_mr", api_compat_register_mr },
	{ HTTP_POST, "/get_mr_info", api_compat_get_mr },
	{ HTTP_POST, "/get_redis_address", api_compat_redis },
};

const struct compat compat = {
	.store = &compat_store,
	.routes = routes,
	.n_routes = sizeof(routes) / sizeof(routes[0]),
	.set_port = private_port_set,
	.keep_port = private_port_keep,
	.gc = gc_list,
};
