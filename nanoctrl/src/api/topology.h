/* SPDX-License-Identifier: Apache-2.0 */
/* Topologies, and what they come to for an agent: docs/http-api.md. */
#ifndef NANOCTRL_API_TOPOLOGY_H
#define NANOCTRL_API_TOPOLOGY_H

#include "http/route.h"

route_fn api_topology_list, api_topology_get, api_topology_apply, api_topology_apply_all,
	api_topology_delete, api_wanted_get, api_wanted_list;

#endif
