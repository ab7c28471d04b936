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

size_t routes_fill(struct route table[ROUTES_MAX], bool with_compat)
{
	size_t n = with_compat ? compat.n_routes : 0;

	assert(N_OWN + n <= ROUTES_MAX);
	memcpy(table, own, sizeof(own));
	if (n)
		memcpy(table + N_OWN, compat.routes, n * sizeof(*table));
	return N_OWN + n;
}
