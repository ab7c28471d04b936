/* SPDX-License-Identifier: Apache-2.0 */
#include "server/routes.h"

#include <assert.h>
#include <string.h>
#include "api/agent.h"
#include "api/event.h"
#include "api/object.h"
#include "api/server.h"
#include "api/scope.h"
#include "api/session.h"
#include "api/snapshot.h"
#include "api/topology.h"
#include "mooncake/routes.h"
#include "server/compat.h"

static const struct route own[] = {
	{ HTTP_GET, "/", api_root },
	{ HTTP_GET, "/healthz", api_healthz },
	{ HTTP_GET, "/readyz", api_readyz },
	{ HTTP_GET, "/metrics", api_metrics },
	{ HTTP_GET, "/v1/agents", api_agent_list },
	{ HTTP_PUT, "/v1/agents/{name}", api_agent_register },
	{ HTTP_GET, "/v1/agents/{name}", api_agent_get },
	{ HTTP_PATCH, "/v1/agents/{name}", api_agent_update },
	{ HTTP_DELETE, "/v1/agents/{name}", api_agent_leave },
	{ HTTP_POST, "/v1/agents/{name}/heartbeat", api_agent_heartbeat },
	{ HTTP_GET, "/v1/agents/{name}/session", api_session },
	{ HTTP_GET, "/v1/agents/{name}/events", api_event_agent },
	{ HTTP_GET, "/v1/agents/{name}/regions", api_region_list_of },
	{ HTTP_PUT, "/v1/agents/{name}/regions/{region}", api_region_publish },
	{ HTTP_GET, "/v1/agents/{name}/regions/{region}", api_region_get },
	{ HTTP_DELETE, "/v1/agents/{name}/regions/{region}", api_region_withdraw },
	{ HTTP_GET, "/v1/agents/{name}/exchange", api_offer_list },
	{ HTTP_PUT, "/v1/agents/{name}/exchange/{peer}/{profile}", api_offer_post },
	{ HTTP_GET, "/v1/agents/{name}/exchange/{peer}/{profile}", api_offer_get },
	{ HTTP_DELETE, "/v1/agents/{name}/exchange/{peer}/{profile}", api_offer_withdraw },
	{ HTTP_GET, "/v1/agents/{name}/links", api_link_list_of },
	{ HTTP_PUT, "/v1/agents/{name}/links/{peer}/{profile}", api_link_report },
	{ HTTP_DELETE, "/v1/agents/{name}/links/{peer}/{profile}", api_link_forget },
	{ HTTP_PUT, "/v1/agents/{name}/snapshot", api_snapshot_put },
	{ HTTP_GET, "/v1/agents/{name}/wanted", api_wanted_get },
	{ HTTP_GET, "/v1/events", api_event_scope },
	{ HTTP_GET, "/v1/links", api_link_list },
	{ HTTP_GET, "/v1/regions", api_region_list },
	{ HTTP_GET, "/v1/scopes", api_scope_list },
	{ HTTP_GET, "/v1/snapshots", api_snapshot_list },
	{ HTTP_GET, "/v1/services", api_service_list },
	{ HTTP_GET, "/v1/topologies", api_topology_list },
	{ HTTP_PUT, "/v1/topologies", api_topology_apply_all },
	{ HTTP_GET, "/v1/topologies/{name}", api_topology_get },
	{ HTTP_PUT, "/v1/topologies/{name}", api_topology_apply },
	{ HTTP_DELETE, "/v1/topologies/{name}", api_topology_delete },
	{ HTTP_GET, "/v1/wanted", api_wanted_list },
};

#define N_OWN (sizeof(own) / sizeof(own[0]))

/* Routes that one setting serves. */
struct group {
	int service; /* enum compat_service */
	const struct route *routes;
	size_t n;
};

static size_t add_groups(struct route *table, const struct group *groups, size_t n, int service)
{
	size_t n_added = 0;

	for (size_t i = 0; i < n; i++) {
		if (groups[i].service != service || !groups[i].n)
			continue;
		memcpy(table + n_added, groups[i].routes, groups[i].n * sizeof(*table));
		n_added += groups[i].n;
	}
	return n_added;
}

size_t routes_fill(struct route table[ROUTES_MAX], const struct server_settings *s, size_t *n_local)
{
	const struct group groups[] = {
		{ s->compat, compat.routes, compat.n_routes },
		{ s->mooncake, mooncake_routes, mooncake_n_routes },
	};
	size_t n = N_OWN;

	assert(N_OWN + compat.n_routes + mooncake_n_routes <= ROUTES_MAX);
	memcpy(table, own, sizeof(own));
	n += add_groups(table + n, groups, 2, COMPAT_OPEN);
	*n_local = add_groups(table + n, groups, 2, COMPAT_LOOPBACK);
	return n + *n_local;
}
