/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bench/ctrl/topology.h"

#define NAME	 "bench"
#define LIMIT_MS 60000

struct mesh_topology_run {
	struct crowd *crowd;
	struct ctrl_row *out;
	uint64_t begin_ns;
	bool *has; /* each agent its whole list */
	size_t n_missing;
	bool dropping;
};

/* The scope's topologies are of a revision that only a list says. */
static uint64_t revision_of(const char *text)
{
	const char *at = strstr(text, "\"revision\":");

	return at ? strtoull(at + strlen("\"revision\":"), NULL, 10) : 0;
}

/* {"topologies":[{...,"links":[{"pairs":[["a","b"],...]}]}]}; NULL without memory. */
static char *mesh_of(const struct crowd *c)
{
	char *text = NULL;
	size_t len;
	FILE *to = open_memstream(&text, &len);

	if (!to)
		return NULL;
	fprintf(to, "{\"topologies\":[{\"version\":1,\"name\":\"" NAME
		    "\",\"links\":[{\"profile\":\"" NAME "\",\"pairs\":[");
	for (size_t i = 0; i < c->n; i++)
		for (size_t j = i + 1; j < c->n; j++)
			fprintf(to, "%s[\"%s\",\"%s\"]", i || j > 1 ? "," : "", c->agents[i].name,
				c->agents[j].name);
	fprintf(to, "]}]}]}");
	if (fclose(to)) {
		free(text);
		return NULL;
	}
	return text;
}

static void on_changed(void *arg, const struct nc_error *error, const char *text, size_t len)
{
	struct mesh_topology_run *w = arg;

	(void)text;
	(void)len;
	if (crowd_answered(&w->crowd->agents[0], "topology", error) && w->dropping)
		crowd_finish(w->crowd);
}

static void change(struct mesh_topology_run *w, uint64_t revision)
{
	struct agent *g = &w->crowd->agents[0];
	char *body = w->dropping ? NULL : mesh_of(w->crowd);
	struct nc_apply apply = { .body = body, .revision = revision, .prune = true };

	if (w->dropping) {
		crowd_called(g, "topology",
			     nc_delete_topology(g->client, NAME, revision, on_changed, w));
		return;
	}
	if (!body) {
		crowd_fail(w->crowd, "topology: %s", strerror(ENOMEM));
		return;
	}
	w->begin_ns = sl_clock_ns();
	crowd_called(g, "topology", nc_apply_topologies(g->client, &apply, on_changed, w));
	free(body);
}

static void on_list(void *arg, const struct nc_error *error, const char *text, size_t len)
{
	struct mesh_topology_run *w = arg;

	if (crowd_answered(&w->crowd->agents[0], "topologies", error) && len)
		change(w, revision_of(text));
}

static void begin(struct mesh_topology_run *w)
{
	struct agent *g = &w->crowd->agents[0];

	crowd_called(g, "topologies", nc_list_topologies(g->client, on_list, w));
}

static void on_wanted(void *arg, const struct nc_error *error, const struct nc_wanted *wanted)
{
	struct agent *g = arg;
	struct mesh_topology_run *w;

	if (!crowd_answered(g, "wanted", error) || !g->crowd->step)
		return;
	w = g->crowd->step->arg;
	if (wanted->n != w->crowd->n - 1 || w->has[g->index])
		return;
	w->has[g->index] = true;
	load_histogram_add(&w->out->latency, sl_clock_ns() - w->begin_ns);
	w->out->n++;
	if (--w->n_missing == 0)
		crowd_finish(w->crowd);
}

static void read_wanted(struct agent *g)
{
	/* A topology has at most 100,000 links: of so small a mesh one page has all of an agent. */
	crowd_called(g, "wanted", nc_get_wanted(g->client, NULL, on_wanted, g));
}

static void on_event(void *arg, struct agent *to, const struct nc_event *event)
{
	const struct mesh_topology_run *w = arg;

	if (event->type == NC_EVENT_WANTED && !w->has[to->index])
		read_wanted(to);
}

static void on_reset(void *arg, struct agent *to)
{
	(void)arg;
	read_wanted(to);
}

int mesh_topology_run(struct crowd *c, struct ctrl_row *out)
{
	struct mesh_topology_run w = { .crowd = c, .out = out, .n_missing = c->n };
	const struct crowd_step step = { .event = on_event, .reset = on_reset, .arg = &w };
	int ret;

	w.has = calloc(c->n, sizeof(*w.has));
	if (!w.has) {
		crowd_fail(c, "topology: %s", strerror(ENOMEM));
		return -1;
	}
	out->what = "topology";
	load_histogram_init(&out->latency);
	begin(&w);
	ret = crowd_run(c, &step, out->what, LIMIT_MS);
	out->elapsed_ns = sl_clock_ns() - w.begin_ns;
	free(w.has);
	return ret;
}

int mesh_topology_drop(struct crowd *c)
{
	struct mesh_topology_run w = { .crowd = c, .dropping = true };
	const struct crowd_step step = { .arg = &w };

	begin(&w);
	return crowd_run(c, &step, "topology", LIMIT_MS);
}
