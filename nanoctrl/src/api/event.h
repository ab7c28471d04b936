/* SPDX-License-Identifier: Apache-2.0 */
/* Events for those without a session: long poll and lines of JSON. docs/http-api.md 7. */
#ifndef NANOCTRL_API_EVENT_H
#define NANOCTRL_API_EVENT_H

#include "http/route.h"

route_fn api_event_scope; /* what everyone may see */
route_fn api_event_agent; /* an agent's own as well */

#endif
