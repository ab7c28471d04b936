/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters of the HTTP side. Each loop writes its own, relaxed; any loop may read and add them up.
 */
#ifndef NANOCTRL_METRICS_H
#define NANOCTRL_METRICS_H

#include <stdint.h>
#include "http/route.h"

#define METRICS_STATUSES 32
#define METRICS_BUCKETS	 14

struct evbuffer;

struct metrics_route {
	_Atomic uint64_t status[METRICS_STATUSES];
	_Atomic uint64_t
		bucket[METRICS_BUCKETS]; /* of seconds until the reply, the last one is +Inf */
	_Atomic uint64_t sum_us;
};

struct metrics {
	_Atomic uint64_t accepted;
	_Atomic uint64_t turned_away; /* connections above the limit */
	_Atomic uint64_t timeouts;    /* connections closed because their client was too slow */
	_Atomic uint64_t connections; /* gauges from here on */
	_Atomic uint64_t streams;
	_Atomic uint64_t in_flight;
	_Atomic uint64_t stream_messages;
	_Atomic uint64_t stream_resets; /* queues dropped because they were full */
	_Atomic uint64_t stream_stalls; /* streams closed because their client took nothing */
	size_t n_routes;
	struct metrics_route route[]; /* one each, and one for requests that have no route */
};

/* The status of a request whose client left before the reply. */
#define METRICS_CLIENT_GONE 499

int metrics_create(size_t n_routes, struct metrics **out);
void metrics_destroy(struct metrics *m);

#define metrics_count(counter) atomic_fetch_add_explicit(&(counter), 1, memory_order_relaxed)
#define metrics_uncount(gauge) atomic_fetch_sub_explicit(&(gauge), 1, memory_order_relaxed)

/* A request was answered; route is an index, n_routes for none. */
void metrics_request(struct metrics *m, size_t route, int status, uint64_t took_us);

/* Append Prometheus text: the sum of n sets of counters over these routes. */
void metrics_render(struct metrics *const *all, size_t n, const struct route *table,
		    struct evbuffer *out);

/* The same for how long the loops looked without finding anything. */
void metrics_render_busy_poll(uint64_t vain_ns, struct evbuffer *out);

#endif
