/* SPDX-License-Identifier: Apache-2.0 */
#include "store/metrics.h"

#include <inttypes.h>
#include <event2/buffer.h>
#include "store/hub.h"

void metrics_counter(struct evbuffer *out, const char *name, const char *help,
		     const _Atomic uint64_t *value)
{
	evbuffer_add_printf(out,
			    "# HELP nanoctrl_%s_total %s\n# TYPE nanoctrl_%s_total counter\n"
			    "nanoctrl_%s_total %" PRIu64 "\n",
			    name, help, name, name, atomic_load(value));
}

void metrics_gauge(struct evbuffer *out, const char *name, const char *help, uint64_t value)
{
	evbuffer_add_printf(
		out, "# HELP nanoctrl_%s %s\n# TYPE nanoctrl_%s gauge\nnanoctrl_%s %" PRIu64 "\n",
		name, help, name, name, value);
}

/* The upper bounds of the buckets; the last one has none. */
static const unsigned bounds_us[STORE_BUCKETS - 1] = {
	100, 300, 1000, 3000, 10000, 100000, 1000000
};

void store_note_time(struct store_hub *hub, uint64_t took_us)
{
	unsigned i = 0;

	while (i < STORE_BUCKETS - 1 && took_us > bounds_us[i])
		i++;
	atomic_fetch_add(&hub->took[i], 1);
	atomic_fetch_add(&hub->took_us, took_us);
}

static void render_times(struct store_hub *hub, struct evbuffer *out)
{
	static const char name[] = "nanoctrl_store_call_duration_seconds";
	uint64_t n = 0;

	evbuffer_add_printf(out,
			    "# HELP %s Time from a script's sending to its answer.\n"
			    "# TYPE %s histogram\n",
			    name, name);
	for (unsigned i = 0; i < STORE_BUCKETS - 1; i++) {
		n += atomic_load(&hub->took[i]);
		evbuffer_add_printf(out, "%s_bucket{le=\"%g\"} %" PRIu64 "\n", name,
				    bounds_us[i] / 1e6, n);
	}
	n += atomic_load(&hub->took[STORE_BUCKETS - 1]);
	evbuffer_add_printf(
		out, "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n%s_sum %.6f\n%s_count %" PRIu64 "\n",
		name, n, name, (double)atomic_load(&hub->took_us) / 1e6, name, n);
}

static void render_scopes(struct store_hub *hub, struct evbuffer *out)
{
	struct scope_leases held;

	pthread_mutex_lock(&hub->lock);
	held = hub->held;
	pthread_mutex_unlock(&hub->lock);
	scope_leases_render(&held, out);
}

void store_hub_metrics(struct store_hub *hub, struct evbuffer *out)
{
	metrics_counter(out, "store_calls", "Scripts sent to Redis.", &hub->n_calls);
	metrics_counter(out, "store_errors", "Scripts without a usable answer.", &hub->n_errors);
	metrics_counter(out, "store_refused",
			"Calls not sent: no connection, or too many in flight.", &hub->n_refused);
	metrics_counter(out, "store_skipped", "Values in Redis that were junk and skipped.",
			&hub->n_skipped);
	metrics_counter(out, "store_connects", "Times that a connection to Redis came up.",
			&hub->n_reconnects);
	metrics_counter(
		out, "store_redirected",
		"Times that a call waited for a slot of the cluster to be where it is sent.",
		&hub->n_redirected);
	metrics_counter(out, "leases_granted", "Registrations, also of agents that held the name.",
			&hub->n_granted);
	metrics_counter(out, "lease_beats", "Beats of leases that Redis answered.", &hub->n_beats);
	metrics_counter(out, "leases_expired", "Leases that this server ended.", &hub->n_expired);
	metrics_gauge(
		out, "leases",
		"Leases of all agents in Redis, as the last look at all scopes found; every server "
		"of this Redis says the same.",
		atomic_load(&hub->n_held));
	render_scopes(hub, out);
	metrics_counter(out, "events_read", "Events that were read for their followers.",
			&hub->n_events);
	metrics_gauge(out, "watchers", "Sessions, streams and long polls that follow events.",
		      atomic_load(&hub->n_watchers));
	metrics_counter(
		out, "reaper_holds",
		"Times that no lease may end for a while: Redis was away, or its clock jumped.",
		&hub->n_holds);
	metrics_gauge(out, "store_loops", "Event loops, each with a connection to Redis.",
		      atomic_load(&hub->n_loops));
	metrics_gauge(out, "store_connected", "Event loops whose connection to Redis serves.",
		      atomic_load(&hub->n_up));
	metrics_gauge(out, "store_writable", "Whether Redis takes writes, as one every round says.",
		      !atomic_load(&hub->refusing));
	if (hub->hooks)
		hub->hooks->metrics(hub, out);
	render_times(hub, out);
}
