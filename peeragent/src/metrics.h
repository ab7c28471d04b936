/* SPDX-License-Identifier: Apache-2.0 */
/* GET /metrics for Prometheus, on the agent's loop. Other paths are not served. */
#ifndef PEERAGENT_METRICS_H
#define PEERAGENT_METRICS_H

#include <stddef.h>
#include <slime/agent.h>

struct event_base;
struct metrics;
struct services;

/* listen as in the file. Errors of bind are logged. services outlive it. */
int metrics_create(struct event_base *base, const char *listen, struct slime_agent *agent,
		   const struct services *services, struct metrics **out);
void metrics_destroy(struct metrics *metrics);

/* Where it listens, "127.0.0.1:9464". */
const char *metrics_address(const struct metrics *metrics);

#endif
