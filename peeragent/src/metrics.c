/* SPDX-License-Identifier: Apache-2.0 */
#include "peeragent/src/metrics.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <event2/buffer.h>

#include "base/log.h"
#include "cli/options/version.h"
#include "peeragent/src/config.h"
#include "peeragent/src/devices.h"
#include "peeragent/src/fabric.h"
#include "peeragent/src/page.h"
#include "peeragent/src/service.h"

#define MAX_CLIENTS 64
#define TIMEOUT_MS  10000
/* Of so many links there are series of their own; the agent's totals are of all. */
#define MAX_LINKS 256

struct metrics {
	struct slime_agent *agent;
	const struct services *services;
	struct page *page;
	struct fabric *fabric;
};

/* Names of agents and profiles hold no character that Prometheus wants escaped. */
static void add_link(struct evbuffer *out, const char *metric,
		     const struct slime_agent_link_info *l, uint64_t value)
{
	evbuffer_add_printf(out, "%s{peer=\"%s\",profile=\"%s\"} %llu\n", metric, l->peer,
			    l->profile, (unsigned long long)value);
}

static void add_head(struct evbuffer *out, const char *metric, const char *type, const char *help)
{
	evbuffer_add_printf(out, "# HELP %s %s\n# TYPE %s %s\n", metric, help, metric, type);
}

static void add_states(struct evbuffer *out, const struct slime_agent_link_info *links, size_t n)
{
	add_head(out, "slime_link_state", "gauge", "1 for the state that a link is in");
	for (size_t i = 0; i < n; i++) {
		for (int s = SLIME_LINK_CONNECTING; s < SLIME_LINK_STATES; s++)
			evbuffer_add_printf(
				out,
				"slime_link_state{peer=\"%s\",profile=\"%s\",state=\"%s\"} %d\n",
				links[i].peer, links[i].profile,
				slime_link_state_name((enum slime_link_state)s),
				links[i].state == (enum slime_link_state)s);
	}
	add_head(out, "slime_link_connects_total", "counter", "how often a link came up");
	for (size_t i = 0; i < n; i++)
		add_link(out, "slime_link_connects_total", &links[i], links[i].n_connects);
	add_head(out, "slime_link_max_bandwidth", "gauge",
		 "cap of a link's bandwidth in bits per second, 0: none");
	for (size_t i = 0; i < n; i++)
		add_link(out, "slime_link_max_bandwidth", &links[i], links[i].max_bandwidth);
	add_head(out, "slime_link_state_seconds", "gauge",
		 "since when a link is connected, or is not");
	for (size_t i = 0; i < n; i++)
		add_link(out, "slime_link_state_seconds", &links[i], links[i].age_ms / 1000);
}

/* ---- operations ---- */

static const struct {
	const char *what, *help;
	size_t at;
} counters[] = {
	{ "ops_submitted_total", "operations submitted",
	  offsetof(struct slime_kind_stats, submitted) },
	{ "ops_completed_total", "operations completed with success",
	  offsetof(struct slime_kind_stats, completed) },
	{ "ops_failed_total", "operations that failed", offsetof(struct slime_kind_stats, failed) },
	{ "ops_bytes_total", "bytes of the completed operations",
	  offsetof(struct slime_kind_stats, bytes) },
};

#define N_COUNTERS (sizeof(counters) / sizeof(counters[0]))

/* Labels end in a comma, or there are none. */
static void add_kinds(struct evbuffer *out, const char *metric, const char *labels,
		      const struct slime_endpoint_stats *stats, size_t at)
{
	for (int k = 0; k < SLIME_KIND_MAX; k++) {
		uint64_t value;

		memcpy(&value, (const char *)&stats->kinds[k] + at, sizeof(value));
		if (stats->kinds[k].submitted)
			evbuffer_add_printf(out, "%s{%skind=\"%s\"} %llu\n", metric, labels,
					    slime_op_kind_name((enum slime_op_kind)k),
					    (unsigned long long)value);
	}
}

static void add_operations(struct evbuffer *out, const struct slime_agent_link_info *links,
			   size_t n)
{
	char labels[2 * SLIME_AGENT_NAME_MAX + 32], metric[64];

	for (size_t c = 0; c < N_COUNTERS; c++) {
		snprintf(metric, sizeof(metric), "slime_%s", counters[c].what);
		add_head(out, metric, "counter", counters[c].help);
		for (size_t i = 0; i < n; i++) {
			snprintf(labels, sizeof(labels), "peer=\"%s\",profile=\"%s\",",
				 links[i].peer, links[i].profile);
			add_kinds(out, metric, labels, &links[i].stats, counters[c].at);
		}
	}
}

/* ---- rails ---- */

/* A device has the kernel's name for it, which ends no label early. */
static void add_rail(struct evbuffer *out, const char *metric,
		     const struct slime_agent_link_info *l, uint32_t rail, const char *more,
		     uint64_t value)
{
	char device[sizeof(l->rails[rail].device)];
	size_t i = 0;

	for (const char *at = l->rails[rail].device; *at; at++)
		device[i++] = *at == '"' || *at == '\\' ? '_' : *at;
	device[i] = '\0';
	evbuffer_add_printf(
		out, "%s{peer=\"%s\",profile=\"%s\",rail=\"%u\",device=\"%s\"%s} %llu\n", metric,
		l->peer, l->profile, rail, device, more, (unsigned long long)value);
}

static void add_rail_states(struct evbuffer *out, const struct slime_agent_link_info *l,
			    uint32_t rail)
{
	char more[32];

	for (int s = SLIME_RAIL_UP; s <= SLIME_RAIL_RISING; s++) {
		snprintf(more, sizeof(more), ",state=\"%s\"",
			 slime_rail_state_name((enum slime_rail_state)s));
		add_rail(out, "slime_rail_state", l, rail, more,
			 l->rails[rail].state == (enum slime_rail_state)s);
	}
}

static uint64_t rail_number(const struct slime_rail_info *r, int which)
{
	return which == 0 ? r->bytes : which == 1 ? r->n_failures : r->share;
}

static void add_rails(struct evbuffer *out, const struct slime_agent_link_info *links, size_t n)
{
	static const char *const numbers[][3] = {
		{ "slime_rail_bytes_total", "counter",
		  "bytes of our reads and writes that the rail moved, of this connection" },
		{ "slime_rail_failures_total", "counter",
		  "how often the rail failed, of this connection" },
		{ "slime_rail_share", "gauge", "its part of a large batch, in thousandths" },
	};

	add_head(out, "slime_rail_state", "gauge", "1 for the state that a rail of a link is in");
	for (size_t i = 0; i < n; i++)
		for (uint32_t r = 0; r < links[i].n_rails; r++)
			add_rail_states(out, &links[i], r);
	for (int k = 0; k < 3; k++) {
		add_head(out, numbers[k][0], numbers[k][1], numbers[k][2]);
		for (size_t i = 0; i < n; i++)
			for (uint32_t r = 0; r < links[i].n_rails; r++)
				add_rail(out, numbers[k][0], &links[i], r, "",
					 rail_number(&links[i].rails[r], k));
	}
}

/* ---- all of it ---- */

static void add_agent(struct evbuffer *out, struct slime_agent *agent)
{
	enum slime_agent_state state = slime_agent_state(agent);
	struct rusage usage;

	add_head(out, "slime_agent_info", "gauge", "name, scope and version of the agent");
	evbuffer_add_printf(
		out, "slime_agent_info{agent=\"%s\",scope=\"%s\",version=\"%s\",commit=\"%s\"} 1\n",
		slime_agent_name(agent), slime_agent_scope(agent), cli_version(), cli_commit());
	add_head(out, "slime_agent_state", "gauge", "1 for the state that the agent is in");
	for (int s = SLIME_AGENT_STARTING; s <= SLIME_AGENT_ENDED; s++)
		evbuffer_add_printf(out, "slime_agent_state{state=\"%s\"} %d\n",
				    slime_agent_state_name((enum slime_agent_state)s),
				    state == (enum slime_agent_state)s);
	getrusage(RUSAGE_SELF, &usage);
	add_head(out, "process_cpu_seconds_total", "counter", "CPU time of this process");
	evbuffer_add_printf(out, "process_cpu_seconds_total %.3f\n",
			    (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
				    (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) /
					    1e6);
}

/* Of links that are gone as well: a counter that went back would be taken for a new process. */
static void add_totals(struct evbuffer *out, struct slime_agent *agent)
{
	struct slime_agent_stats stats;
	char metric[64];

	slime_agent_stats(agent, &stats);
	add_head(out, "slime_agent_links", "gauge", "links that there are, by state");
	for (int s = SLIME_LINK_CONNECTING; s < SLIME_LINK_STATES; s++)
		evbuffer_add_printf(out, "slime_agent_links{state=\"%s\"} %u\n",
				    slime_link_state_name((enum slime_link_state)s),
				    stats.n_links[s]);
	add_head(out, "slime_agent_connects_total", "counter",
		 "how often a link came up, also of those that are gone");
	evbuffer_add_printf(out, "slime_agent_connects_total %llu\n",
			    (unsigned long long)stats.n_connects);
	for (size_t c = 0; c < N_COUNTERS; c++) {
		snprintf(metric, sizeof(metric), "slime_agent_%s", counters[c].what);
		add_head(out, metric, "counter", counters[c].help);
		add_kinds(out, metric, "", &stats.ops, counters[c].at);
	}
}

/* ---- latency ---- */

static void add_latency(struct evbuffer *out, const char *labels, const struct slime_latency *l)
{
	static const char name[] = "slime_agent_latency_seconds";
	uint64_t n = 0;

	for (unsigned b = 0; b < SLIME_LATENCY_BUCKETS - 1; b++) {
		n += l->counts[b];
		evbuffer_add_printf(out, "%s_bucket{%s,le=\"%g\"} %llu\n", name, labels,
				    (double)slime_latency_bound_ns(b) / 1e9, (unsigned long long)n);
	}
	evbuffer_add_printf(out, "%s_bucket{%s,le=\"+Inf\"} %llu\n", name, labels,
			    (unsigned long long)l->n);
	evbuffer_add_printf(out, "%s_sum{%s} %.9f\n%s_count{%s} %llu\n", name, labels,
			    (double)l->sum_ns / 1e9, name, labels, (unsigned long long)l->n);
}

static void add_latencies(struct evbuffer *out, const struct slime_context *ctx)
{
	struct slime_latency l;
	char labels[64];

	add_head(out, "slime_agent_latency_seconds", "histogram",
		 "how long operations took that succeeded; one of 64 of each link is timed");
	for (int t = SLIME_TRANSPORT_NONE + 1; t < SLIME_TRANSPORT_MAX; t++)
		for (int k = 0; k < SLIME_KIND_MAX; k++) {
			slime_context_latency(ctx, (enum slime_transport)t, (enum slime_op_kind)k,
					      &l);
			snprintf(labels, sizeof(labels), "transport=\"%s\",kind=\"%s\"",
				 slime_transport_name((enum slime_transport)t),
				 slime_op_kind_name((enum slime_op_kind)k));
			if (l.n)
				add_latency(out, labels, &l);
		}
}

/* At most MAX_LINKS; NULL with *n 0 when there are none, or no memory. Nothing comes between the
 * two looks: we are on the agent's loop. */
static struct slime_agent_link_info *read_links(struct slime_agent *agent, size_t *n)
{
	int count = slime_agent_links(agent, NULL, 0);
	size_t room = count > MAX_LINKS ? MAX_LINKS : count > 0 ? (size_t)count : 0;
	struct slime_agent_link_info *links = room ? calloc(room, sizeof(*links)) : NULL;

	if (links && slime_agent_links(agent, links, room) < 0)
		room = 0;
	*n = links ? room : 0;
	return links;
}

struct figures {
	struct evbuffer *out;
	char name[128]; /* of the one before */
};

static void add_figure(void *arg, const struct slime_plugin_figure *f)
{
	struct figures *figures = arg;

	if (strcmp(figures->name, f->name))
		add_head(figures->out, f->name, f->counts ? "counter" : "gauge", f->help);
	snprintf(figures->name, sizeof(figures->name), "%s", f->name);
	evbuffer_add_printf(figures->out, f->labels[0] ? "%s{%s} %llu\n" : "%s%s %llu\n", f->name,
			    f->labels, (unsigned long long)f->value);
}

static void render(void *arg, struct evbuffer *out)
{
	struct metrics *m = arg;
	struct slime_agent_link_info *links;
	size_t n;

	links = read_links(m->agent, &n);
	add_agent(out, m->agent);
	add_totals(out, m->agent);
	add_states(out, links, n);
	add_operations(out, links, n);
	add_rails(out, links, n);
	add_latencies(out, slime_agent_context(m->agent));
	devices_print(slime_agent_context(m->agent), out);
	fabric_print(m->fabric, out);
	services_figures(m->services, add_figure, &(struct figures){ .out = out });
	free(links);
}

/* ---- life ---- */

static int listen_at(struct metrics *m, struct event_base *base, const char *listen)
{
	struct page_attr attr = { .path = "/metrics",
				  .type = "text/plain; version=0.0.4",
				  .max_clients = MAX_CLIENTS,
				  .timeout_ms = TIMEOUT_MS,
				  .render = render,
				  .arg = m };
	char host[64];

	if (config_split_listen(listen, host, sizeof(host), &attr.port))
		return -EINVAL;
	attr.host = host;
	return page_create(base, &attr, &m->page);
}

int metrics_create(struct event_base *base, const char *listen, struct slime_agent *agent,
		   const struct services *services, struct metrics **out)
{
	struct metrics *m = calloc(1, sizeof(*m));
	int ret;

	if (!m)
		return -ENOMEM;
	m->agent = agent;
	m->services = services;
	ret = listen_at(m, base, listen);
	if (ret) {
		sl_error("metrics", "cannot listen on %s: %s", listen, strerror(-ret));
		goto free_metrics;
	}
	ret = fabric_create(NULL, FABRIC_INTERVAL_MS, &m->fabric);
	if (ret)
		goto destroy_page;
	*out = m;
	return 0;

destroy_page:
	page_destroy(m->page);
free_metrics:
	free(m);
	return ret;
}

void metrics_destroy(struct metrics *m)
{
	if (!m)
		return;
	page_destroy(m->page);
	fabric_destroy(m->fabric);
	free(m);
}

const char *metrics_address(const struct metrics *m)
{
	return page_address(m->page);
}
