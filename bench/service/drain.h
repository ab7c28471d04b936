/* SPDX-License-Identifier: Apache-2.0 */
/* Taking the immediates of one link and counting them, until its connection ends or somebody asks.
 */
#ifndef BENCH_DRAIN_H
#define BENCH_DRAIN_H

#include <stdbool.h>
#include <stdint.h>

#include <slime/agent.h>

struct bench_drain;

/* Begin on the link of agent to peer. What slime_agent_endpoint_get() says, -ENOMEM. */
int bench_drain_create(struct slime_agent *agent, const char *peer, const char *profile,
		       struct bench_drain **out);

bool bench_drain_is_of(const struct bench_drain *d, const char *peer, const char *profile);

/* How many came so far. */
uint64_t bench_drain_count(const struct bench_drain *d);

/* Whether its connection has ended: destroying it waits for nothing then. */
bool bench_drain_has_ended(const struct bench_drain *d);

/* Ends its connection if need be, and waits for that. NULL is fine. */
void bench_drain_destroy(struct bench_drain *d);

#endif
