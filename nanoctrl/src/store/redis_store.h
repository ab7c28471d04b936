/* SPDX-License-Identifier: Apache-2.0 */
/* The store of a loop, over Redis: its connection, and what its parts keep. */
#ifndef NANOCTRL_STORE_REDIS_STORE_H
#define NANOCTRL_STORE_REDIS_STORE_H

#include <event2/event.h>
#include "base/list.h"
#include "nanoctrl/net/loop.h"
#include "redis/redis.h"
#include "store/hub.h"

struct compat_store;
struct script;
struct reaper;

struct store {
	struct store_hub *hub;
	struct loop *loop;
	struct event_base *base;
	struct redis *redis;
	struct event *turn;   /* the end of this turn of the loop: ended calls, beats, compat */
	unsigned slot;	      /* its place in the hub */
	struct sl_list ended; /* calls to be called back with what they have */
	struct sl_list beats; /* to be sent together */
	uint64_t unbeaten_ns; /* since when none got through; 0: the last did */
	struct sl_list feeds[SCOPE_BUCKETS];  /* scopes that are followed */
	struct sl_list shares[SCOPE_BUCKETS]; /* scopes of which a read for many is out */
	struct sl_list waiting;		      /* calls that wait for the cluster: call_moved.c */
	size_t n_waiting;
	struct event *again;   /* sends them */
	struct reaper *reaper; /* on the first loop */
	struct compat_store *compat;
	struct wakes wakes; /* under hub->lock */
	struct loop_task take_wakes;
	bool closing;
};

/* Have Redis load n scripts; one that it does not load is sent as a whole later. */
void store_load_scripts(struct store *store, const struct script *table, size_t n);

#endif
