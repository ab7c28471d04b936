/* SPDX-License-Identifier: Apache-2.0 */
/* The shared state of the stores of all loops: the address of Redis, counters, and the loops to be
 * woken. */
#ifndef NANOCTRL_STORE_HUB_H
#define NANOCTRL_STORE_HUB_H

#include <pthread.h>
#include <stdatomic.h>
#include "redis/url.h"
#include "store/compat.h"
#include "store/key.h"
#include "store/scope_leases.h"
#include "store/store.h"

struct compat_hub;

#define STORE_LOOPS_MAX 64
#define STORE_BUCKETS	8  /* of the time that calls take */
#define WAKES_MAX	64 /* scopes noted by their names; more are noted by their buckets */
#define SCOPE_BUCKETS	1024

struct store_hub {
	struct store_config config;
	const struct store_compat *hooks; /* of compat/, as the next; both NULL without it */
	struct compat_hub *compat;
	struct redis_url url;
	struct key_names keys;
	pthread_mutex_t lock; /* stores, their wakes, and held */
	struct store *stores[STORE_LOOPS_MAX];
	struct scope_leases held;    /* as of n_held */
	_Atomic uint64_t held_ns;    /* when agents were last seen unable to beat: the reaper's */
	_Atomic uint64_t refused_ns; /* when a beat was last refused, or perhaps one was */
	/* Counters of /metrics; every loop adds to them. */
	_Atomic uint64_t n_calls, n_errors, n_refused, n_skipped, n_expired, n_reconnects, n_holds;
	_Atomic uint64_t n_redirected;
	_Atomic uint64_t n_granted, n_beats, n_events; /* leases, their beats, events */
	_Atomic uint64_t n_held;     /* leases in Redis when the reaper last looked */
	_Atomic unsigned n_watchers; /* followers of events */
	_Atomic bool deaf;	     /* it refuses to tell of events */
	_Atomic bool refusing;	     /* it refuses writes */
	_Atomic bool forbidden;	     /* it refuses our scripts */
	uint64_t seed; /* of all hashes: clients cannot choose names that share a bucket */
	_Atomic unsigned n_loops, n_up; /* stores, and those whose connection serves */
	_Atomic uint64_t took[STORE_BUCKETS], took_us; /* answers by the time they took; its sum */
};

/* Scopes in which something happened, on their way to a loop. */
struct wakes {
	bool all;
	unsigned n;
	char scopes[WAKES_MAX][KEY_NAME_MAX + 1];
	uint64_t buckets[SCOPE_BUCKETS / 64]; /* a bit for each */
};

/* The place of a scope among those that are followed, or read. */
unsigned store_bucket(const struct store_hub *hub, const char *scope);

/* From any thread: have every loop read new events of the scope; NULL: of all scopes. */
void store_hub_wake(struct store_hub *hub, const char *scope);

#endif
