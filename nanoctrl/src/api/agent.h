/* SPDX-License-Identifier: Apache-2.0 */
/* Handlers of agents and their services: docs/http-api.md 3. */
#ifndef NANOCTRL_API_AGENT_H
#define NANOCTRL_API_AGENT_H

#include "http/route.h"

route_fn api_agent_register;
route_fn api_agent_heartbeat;
route_fn api_agent_update;
route_fn api_agent_leave;
route_fn api_agent_get;
route_fn api_agent_list;
route_fn api_service_list;

#endif
