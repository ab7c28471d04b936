/* SPDX-License-Identifier: Apache-2.0 */
/* On the first loop of every replica: sweeps of all scopes, which end leases. */
#ifndef NANOCTRL_STORE_REAPER_H
#define NANOCTRL_STORE_REAPER_H

#include <stdint.h>

struct reaper;
struct store;
struct store_hub;

int reaper_create(struct store *store, struct reaper **out);
void reaper_destroy(struct reaper *reaper);
/* The first loop's connection is up, to the server of this run id. */
void reaper_up(struct reaper *reaper, const char *run_id);
void reaper_down(struct reaper *reaper);
/* The clock of Redis, if it is steady; 0 until hold_ms after agents could not send heartbeats. */
uint64_t reaper_time_after(struct reaper *reaper, uint32_t hold_ms);

#endif
