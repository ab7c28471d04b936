/* SPDX-License-Identifier: Apache-2.0 */
/* The session of an agent: docs/http-api.md 7. */
#ifndef NANOCTRL_API_SESSION_H
#define NANOCTRL_API_SESSION_H

#include "http/route.h"

struct evbuffer;

route_fn api_session;

void api_session_metrics(struct evbuffer *out);

#endif
