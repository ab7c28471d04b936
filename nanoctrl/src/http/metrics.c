/* SPDX-License-Identifier: Apache-2.0 */
#include "http/metrics.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <event2/buffer.h>

#include "base/clock.h"
#include "nanoctrl/net/http_parser.h"

static const int statuses[] = {
	101, 200, 201, 202, 204, 400, 401, 403, 404, 405, 408,
	409, 410, 413, 414, 415, 417, 422, 426, 429, 431, METRICS_CLIENT_GONE,
	500, 501, 503, 505
};
#define N_STATUSES (sizeof(statuses) / sizeof(statuses[0]))

_Static_assert(N_STATUSES < METRICS_STATUSES, "the last is for all others");

static const uint64_t bounds_us[METRICS_BUCKETS - 1] = { 100,	  250,	   500,	    1000,   2500,
							 5000,	  10000,   25000,   100000, 500000,
							 1000000, 5000000, 30000000 };

int metrics_create(size_t n_routes, struct metrics **out)
{
	struct metrics *m = calloc(1, sizeof(*m) + (n_routes + 1) * sizeof(m->route[0]));

	if (!m)
		return -ENOMEM;
	m->n_routes = n_routes;
	*out = m;
	return 0;
}

void metrics_destroy(struct metrics *m)
{
	free(m);
}

static uint64_t load(const _Atomic uint64_t *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed);
}

void metrics_request(struct metrics *m, size_t route, int status, uint64_t took_us)
{
	struct metrics_route *r = &m->route[route];
	size_t s = 0, b = 0;

	while (s < N_STATUSES && statuses[s] != status)
		s++;
	while (b < METRICS_BUCKETS - 1 && took_us > bounds_us[b])
		b++;
	metrics_count(r->status[s]);
	metrics_count(r->bucket[b]);
	atomic_fetch_add_explicit(&r->sum_us, took_us, memory_order_relaxed);
}

/* The sum over all sets of the counter at this offset. */
static uint64_t sum(struct metrics *const *all, size_t n, size_t offset)
{
	uint64_t total = 0;

	for (size_t i = 0; i < n; i++)
		total += load(
			(const _Atomic uint64_t *)(const void *)((const char *)all[i] + offset));
	return total;
}

static const char *method_name(const struct route *r)
{
	return r ? http_method_name(r->method) : "";
}

#define AT_STATUS(i, s)                                                         \
	(offsetof(struct metrics, route) + (i) * sizeof(struct metrics_route) + \
	 offsetof(struct metrics_route, status) + (s) * sizeof(_Atomic uint64_t))
#define AT_BUCKET(i, b)                                                         \
	(offsetof(struct metrics, route) + (i) * sizeof(struct metrics_route) + \
	 offsetof(struct metrics_route, bucket) + (b) * sizeof(_Atomic uint64_t))
#define AT_SUM(i)                                                               \
	(offsetof(struct metrics, route) + (i) * sizeof(struct metrics_route) + \
	 offsetof(struct metrics_route, sum_us))

static void render_requests(struct metrics *const *all, size_t n, const struct route *r, size_t i,
			    struct evbuffer *out)
{
	for (size_t s = 0; s <= N_STATUSES; s++) {
		uint64_t count = sum(all, n, AT_STATUS(i, s));

		if (!count)
			continue;
		evbuffer_add_printf(
			out,
			"nanoctrl_http_requests_total{method=\"%s\",route=\"%s\",status=\"%d\"} %llu\n",
			method_name(r), r ? r->path : "none", s < N_STATUSES ? statuses[s] : 0,
			(unsigned long long)count);
	}
}

static void render_latency(struct metrics *const *all, size_t n, const struct route *r, size_t i,
			   struct evbuffer *out)
{
	static const char name[] = "nanoctrl_http_request_duration_seconds";
	const char *method = method_name(r), *path = r ? r->path : "none";
	uint64_t count = 0, buckets[METRICS_BUCKETS];

	for (size_t b = 0; b < METRICS_BUCKETS; b++)
		count = buckets[b] = count + sum(all, n, AT_BUCKET(i, b));
	if (!count)
		return;
	for (size_t b = 0; b < METRICS_BUCKETS - 1; b++)
		evbuffer_add_printf(out, "%s_bucket{method=\"%s\",route=\"%s\",le=\"%g\"} %llu\n",
				    name, method, path, (double)bounds_us[b] / 1e6,
				    (unsigned long long)buckets[b]);
	evbuffer_add_printf(out, "%s_bucket{method=\"%s\",route=\"%s\",le=\"+Inf\"} %llu\n", name,
			    method, path, (unsigned long long)count);
	evbuffer_add_printf(out, "%s_sum{method=\"%s\",route=\"%s\"} %.6f\n", name, method, path,
			    (double)sum(all, n, AT_SUM(i)) / 1e6);
	evbuffer_add_printf(out, "%s_count{method=\"%s\",route=\"%s\"} %llu\n", name, method, path,
			    (unsigned long long)count);
}

static void render_totals(struct metrics *const *all, size_t n, struct evbuffer *out)
{
	static const struct {
		const char *name, *type, *help;
		size_t offset;
	} totals[] = {
		{ "nanoctrl_http_connections_accepted_total", "counter", "Connections accepted",
		  offsetof(struct metrics, accepted) },
		{ "nanoctrl_http_connections_turned_away_total", "counter",
		  "Connections closed because there were too many",
		  offsetof(struct metrics, turned_away) },
		{ "nanoctrl_http_timeouts_total", "counter",
		  "Connections closed because a request did not arrive in time",
		  offsetof(struct metrics, timeouts) },
		{ "nanoctrl_http_connections", "gauge", "Open connections",
		  offsetof(struct metrics, connections) },
		{ "nanoctrl_http_requests_in_flight", "gauge", "Requests without a reply yet",
		  offsetof(struct metrics, in_flight) },
		{ "nanoctrl_streams", "gauge", "Open sessions and event streams",
		  offsetof(struct metrics, streams) },
		{ "nanoctrl_stream_messages_total", "counter", "Messages queued to streams",
		  offsetof(struct metrics, stream_messages) },
		{ "nanoctrl_stream_resets_total", "counter",
		  "Stream queues dropped because they were full",
		  offsetof(struct metrics, stream_resets) },
		{ "nanoctrl_stream_stalls_total", "counter",
		  "Streams closed because their client took nothing",
		  offsetof(struct metrics, stream_stalls) },
	};

	for (size_t i = 0; i < sizeof(totals) / sizeof(totals[0]); i++)
		evbuffer_add_printf(out, "# HELP %s %s.\n# TYPE %s %s\n%s %llu\n", totals[i].name,
				    totals[i].help, totals[i].name, totals[i].type, totals[i].name,
				    (unsigned long long)sum(all, n, totals[i].offset));
}

void metrics_render(struct metrics *const *all, size_t n, const struct route *table,
		    struct evbuffer *out)
{
	size_t n_table = all[0]->n_routes;

	evbuffer_add_printf(out, "# HELP nanoctrl_http_requests_total Requests answered.\n"
				 "# TYPE nanoctrl_http_requests_total counter\n");
	for (size_t i = 0; i <= n_table; i++)
		render_requests(all, n, i < n_table ? &table[i] : NULL, i, out);
	evbuffer_add_printf(out,
			    "# HELP nanoctrl_http_request_duration_seconds From request to reply.\n"
			    "# TYPE nanoctrl_http_request_duration_seconds histogram\n");
	for (size_t i = 0; i <= n_table; i++)
		render_latency(all, n, i < n_table ? &table[i] : NULL, i, out);
	render_totals(all, n, out);
}

void metrics_render_busy_poll(uint64_t vain_ns, struct evbuffer *out)
{
	evbuffer_add_printf(out,
			    "# HELP nanoctrl_busy_poll_seconds_total Event loops looked on and "
			    "found nothing; others may have had the CPU meanwhile.\n"
			    "# TYPE nanoctrl_busy_poll_seconds_total counter\n"
			    "nanoctrl_busy_poll_seconds_total %.6f\n",
			    (double)vain_ns / (double)SL_NS_PER_S);
}
