/* SPDX-License-Identifier: Apache-2.0 */
#include "links.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <event2/event.h>

#include "base/clock.h"
#include "cli/output.h"
#include "cli/table.h"
#include "json_text.h"
#include "nanoctrl/client/nanoctrl_client.h"
#include "obs_source.h"
#include "settings.h"

#define LOOK_MS 100
#define TEXT	260

/* One end of a link, as its agent reports it, and what its snapshot counts for it. */
struct link {
	char agent[TEXT], peer[TEXT], profile[TEXT], transport[64], cause[TEXT];
	char state[32];
	uint64_t age_ms;
	char local[TEXT], remote[TEXT];
	bool ours; /* of an agent of this control plane that has not left: what is waited for */
	bool counted;
	uint64_t bytes, pending, errors;
	double bps;
	struct json_slice conn_id, rails; /* in the snapshot's text */
};

struct listing {
	struct event_base *base;
	struct nc_client *client; /* NULL: snapshots are all there is */
	struct obs_source *source;
	struct obs_list snapshots;
	struct link *links;
	size_t n, room;
	unsigned n_pages;
	bool done;
	char error[320]; /* "" when the list is complete */
};

static const char *const state_names[] = { "connecting", "connected", "broken" };
static const char unreported[] = "unreported";

static void copy(char *to, size_t room, const char *from)
{
	snprintf(to, room, "%s", from ? from : "");
}

static struct link *new_link(struct listing *l)
{
	if (l->n == l->room) {
		size_t room = l->room ? 2 * l->room : 64;
		struct link *bigger = realloc(l->links, room * sizeof(*bigger));

		if (!bigger)
			return NULL;
		l->links = bigger;
		l->room = room;
	}
	return &l->links[l->n++];
}

static int append(struct listing *l, const struct nc_link *from)
{
	struct link *to = new_link(l);

	if (!to)
		return -ENOMEM;
	*to = (struct link){ .ours = true, .age_ms = from->age_ms };
	copy(to->agent, sizeof(to->agent), from->agent);
	copy(to->peer, sizeof(to->peer), from->peer);
	copy(to->profile, sizeof(to->profile), from->profile);
	copy(to->transport, sizeof(to->transport), from->transport);
	copy(to->cause, sizeof(to->cause), from->cause);
	copy(to->state, sizeof(to->state), state_names[from->state]);
	return 0;
}

static int compare(const void *a, const void *b)
{
	const struct link *x = a, *y = b;
	int d = strcmp(x->agent, y->agent);

	if (!d)
		d = strcmp(x->peer, y->peer);
	return d ? d : strcmp(x->profile, y->profile);
}

static bool is_connected(const struct link *k)
{
	return !strcmp(k->state, state_names[NC_CONNECTED]);
}

static int by_name(const void *name, const void *snapshot)
{
	return strcmp(name, ((const struct obs_snapshot *)snapshot)->peer);
}

/* Whether what an agent does not say is not so: without a server only who writes snapshots says
 * anything. */
static bool would_report(const struct listing *l, const char *agent)
{
	const struct obs_snapshot *s;

	if (l->client)
		return true;
	s = l->snapshots.n ? bsearch(agent, l->snapshots.list, l->snapshots.n,
				     sizeof(*l->snapshots.list), by_name)
			   : NULL;
	return s && s->native && s->state != OBS_STOPPED;
}

/* A link has two ends. One that says it is connected while the other says nothing is half a link:
 * the other end gets a line of its own. */
static int add_unreported(struct listing *l)
{
	size_t n = l->n;

	if (n)
		qsort(l->links, n, sizeof(*l->links), compare);
	for (size_t i = 0; i < n; i++) {
		struct link end = { .ours = true }, *to;

		copy(end.state, sizeof(end.state), unreported);
		copy(end.agent, sizeof(end.agent), l->links[i].peer);
		copy(end.peer, sizeof(end.peer), l->links[i].agent);
		copy(end.profile, sizeof(end.profile), l->links[i].profile);
		copy(end.cause, sizeof(end.cause), "this end has not been reported");
		if (!l->links[i].ours || !is_connected(&l->links[i]) ||
		    bsearch(&end, l->links, n, sizeof(*l->links), compare) ||
		    !would_report(l, end.agent))
			continue;
		to = new_link(l);
		if (!to)
			return -ENOMEM;
		*to = end;
	}
	return 0;
}

static void finish(struct listing *l, const char *error)
{
	copy(l->error, sizeof(l->error), error);
	l->done = true;
	event_base_loopbreak(l->base);
}

static void on_page(void *arg, const struct nc_error *error, const struct nc_page *page)
{
	struct listing *l = arg;
	int ret = 0;

	if (error) {
		finish(l, error->message[0] ? error->message : strerror(-error->err));
		return;
	}
	for (size_t i = 0; i < page->n && !ret; i++)
		ret = append(l, &page->links[i]);
	if (!ret && page->next && ++l->n_pages == OBS_PAGES_MAX) {
		finish(l, "the list of links has no end");
		return;
	}
	if (!ret && page->next)
		ret = nc_list_links(l->client, NULL, page->next, on_page, l);
	else if (!ret)
		ret = add_unreported(l);
	if (ret || !page->next)
		finish(l, ret ? strerror(-ret) : NULL);
}

static void fetch_reports(struct listing *l)
{
	int ret = nc_list_links(l->client, NULL, NULL, on_page, l);

	if (ret)
		finish(l, strerror(-ret));
	while (!l->done && event_base_dispatch(l->base) == 0)
		;
}

/* ---- what snapshots say ---- */

static struct link *find(struct listing *l, size_t n, const struct link *like)
{
	return n ? bsearch(like, l->links, n, sizeof(*l->links), compare) : NULL;
}

static void count(struct link *k, struct json_slice c)
{
	obs_text(c, "local_nic", k->local, sizeof(k->local));
	obs_text(c, "remote_nic", k->remote, sizeof(k->remote));
	k->counted = obs_member(c, "completed_bytes_total").at != NULL;
	k->bytes = obs_number(c, "completed_bytes_total");
	k->pending = obs_number(c, "pending_ops");
	k->errors = obs_number(c, "error_total");
	k->bps = obs_real(c, "ewma_bandwidth_bps");
	k->conn_id = obs_member(c, "conn_id");
	k->rails = obs_member(c, "rails");
}

/* A link of ours is there by its report: the snapshot may be older. */
static int take_connection(struct listing *l, size_t n, const struct obs_snapshot *s,
			   struct json_slice c)
{
	struct link k = { .age_ms = s->age_ms }, *to;

	k.ours = s->native && s->state != OBS_STOPPED;

	copy(k.agent, sizeof(k.agent), s->peer);
	obs_text(c, "peer", k.peer, sizeof(k.peer));
	obs_text(c, "profile", k.profile, sizeof(k.profile));
	if (!*k.profile)
		copy(k.profile, sizeof(k.profile), "default");
	to = find(l, n, &k);
	if (!to && s->native && l->client)
		return 0;
	if (!to) {
		obs_text(c, "state", k.state, sizeof(k.state));
		if (s->state == OBS_STALE || s->state == OBS_STOPPED)
			copy(k.state, sizeof(k.state), obs_state_names[s->state]);
		obs_text(c, "transport", k.transport, sizeof(k.transport));
		to = new_link(l);
		if (!to)
			return -ENOMEM;
		*to = k;
	}
	count(to, c);
	return 0;
}

static int take_snapshots(struct listing *l)
{
	struct json_slice key, c;
	struct json_walk w;
	size_t n = l->n;
	int ret = 0;

	if (n)
		qsort(l->links, n, sizeof(*l->links), compare);
	for (size_t i = 0; i < l->snapshots.n && !ret; i++) {
		const struct obs_snapshot *s = &l->snapshots.list[i];

		if (!s->connections.at || !json_walk_init(&w, s->connections))
			continue;
		while (!ret && json_walk_next(&w, &key, &c))
			if (*c.at == '{')
				ret = take_connection(l, n, s, c);
	}
	if (!ret && !l->client)
		ret = add_unreported(l);
	if (l->n)
		qsort(l->links, l->n, sizeof(*l->links), compare);
	return ret;
}

/* Read the whole list once; l->error says whether it worked. */
static void fetch(struct listing *l)
{
	int ret;

	l->n = 0;
	l->n_pages = 0;
	l->error[0] = '\0';
	l->done = false;
	if (l->client)
		fetch_reports(l);
	if (l->error[0])
		return;
	ret = obs_source_read(l->source, &l->snapshots, l->error, sizeof(l->error));
	if (!ret)
		ret = take_snapshots(l);
	if (ret && !l->error[0])
		copy(l->error, sizeof(l->error), strerror(-ret));
}

/* Of our agents' links, if there are any, else of all. */
static bool all_connected(const struct listing *l)
{
	size_t n_ours = 0, n_missing = 0, n_missing_ours = 0;

	for (size_t i = 0; i < l->n; i++) {
		bool missing = !is_connected(&l->links[i]);

		n_missing += missing;
		n_ours += l->links[i].ours;
		n_missing_ours += missing && l->links[i].ours;
	}
	return !l->error[0] && l->n && !(n_ours ? n_missing_ours : n_missing);
}

/* The agent's own words, and those that snapshots of DLSlime's NanoCtrl have for them. */
static void print_json(const struct listing *l)
{
	char agent[6 * TEXT], peer[6 * TEXT], profile[6 * TEXT], transport[400], cause[6 * TEXT];
	char local[6 * TEXT], remote[6 * TEXT], state[200];

	printf("[");
	for (size_t i = 0; i < l->n; i++) {
		const struct link *k = &l->links[i];

		json_text(agent, sizeof(agent), k->agent);
		json_text(peer, sizeof(peer), k->peer);
		json_text(profile, sizeof(profile), k->profile);
		json_text(state, sizeof(state), k->state);
		json_text(transport, sizeof(transport), k->transport);
		json_text(cause, sizeof(cause), k->cause);
		json_text(local, sizeof(local), k->local);
		json_text(remote, sizeof(remote), k->remote);
		printf("%s\n {\"agent\":%s,\"peer\":%s,\"profile\":%s,\"state\":%s,\"transport\":%s,"
		       "\"age_ms\":%" PRIu64 ",\"cause\":%s,\"src_peer\":%s,\"local_nic\":%s,"
		       "\"remote_nic\":%s,\"connected\":%s",
		       i ? "," : "", agent, peer, profile, state, transport, k->age_ms, cause,
		       agent, local, remote, is_connected(k) ? "true" : "false");
		if (k->conn_id.at)
			printf(",\"conn_id\":%.*s", (int)k->conn_id.len, k->conn_id.at);
		if (k->counted)
			printf(",\"completed_bytes_total\":%" PRIu64 ",\"pending_ops\":%" PRIu64
			       ",\"error_total\":%" PRIu64 ",\"ewma_bandwidth_bps\":%.1f",
			       k->bytes, k->pending, k->errors, k->bps);
		if (k->rails.at)
			printf(",\"rails\":%.*s", (int)k->rails.len, k->rails.at);
		printf("}");
	}
	printf("%s]\n", l->n ? "\n" : "");
}

static void add_counts(struct cli_table *t, const struct link *k)
{
	char word[OBS_WORD];

	if (!k->counted) {
		for (int i = 0; i < 4; i++)
			cli_table_cell(t, "-");
		return;
	}
	cli_table_cell(t, "%s", obs_bits(k->bps, word));
	cli_table_cell(t, "%s", obs_bytes(k->bytes, word));
	cli_table_cell(t, "%" PRIu64, k->pending);
	cli_table_cell(t, "%" PRIu64, k->errors);
}

static int print_table(const struct listing *l)
{
	static const struct cli_column columns[] = {
		{ "SRC_PEER", NULL, false },  { "SRC_NIC", NULL, false },
		{ "DST_PEER", NULL, false },  { "DST_NIC", NULL, false },
		{ "STATE", NULL, false },     { "BW", NULL, true },
		{ "BYTES", NULL, true },      { "PENDING", NULL, true },
		{ "ERRORS", NULL, true },     { "PROFILE", NULL, false },
		{ "TRANSPORT", NULL, false }, { "SINCE", NULL, true },
		{ "CAUSE", NULL, false },
	};
	struct cli_table *t;
	int ret = cli_table_create(&t, columns, sizeof(columns) / sizeof(columns[0]));

	if (ret)
		return ret;
	for (size_t i = 0; i < l->n; i++) {
		const struct link *k = &l->links[i];

		cli_table_cell(t, "%s", k->agent);
		cli_table_cell(t, "%s", *k->local ? k->local : "-");
		cli_table_cell(t, "%s", k->peer);
		cli_table_cell(t, "%s", *k->remote ? k->remote : "-");
		cli_table_cell(t, "%s", k->state);
		add_counts(t, k);
		cli_table_cell(t, "%s", k->profile);
		cli_table_cell(t, "%s", k->transport);
		cli_table_cell(t, "%.1f s", (double)k->age_ms / 1e3);
		cli_table_cell(t, "%s", k->cause);
	}
	ret = cli_table_print(t, cli_table_style_of_locale(), stdout);
	cli_table_destroy(t);
	return ret;
}

/* ---- rails ---- */

static void add_rail(struct cli_table *t, const struct link *k, size_t i, struct json_slice r)
{
	char text[OBS_TEXT], word[OBS_WORD];

	cli_table_cell(t, "%s", k->agent);
	cli_table_cell(t, "%s", k->peer);
	cli_table_cell(t, "%s", k->profile);
	cli_table_cell(t, "%zu", i);
	obs_text(r, "local_nic", text, sizeof(text));
	cli_table_cell(t, "%s", text);
	obs_text(r, "remote_nic", text, sizeof(text));
	cli_table_cell(t, "%s", text);
	obs_text(r, "state", text, sizeof(text));
	cli_table_cell(t, "%s", text);
	cli_table_cell(t, "%.1f %%", (double)obs_number(r, "share") / 10);
	cli_table_cell(t, "%s", obs_bytes(obs_number(r, "completed_bytes_total"), word));
	cli_table_cell(t, "%" PRIu64, obs_number(r, "failures_total"));
	obs_text(r, "error", text, sizeof(text));
	cli_table_cell(t, "%s", *text ? text : "-");
	obs_text(r, "why", text, sizeof(text));
	cli_table_cell(t, "%s", text);
}

static size_t add_rails(struct cli_table *t, const struct link *k)
{
	struct json_slice key, r;
	struct json_walk w;
	size_t n = 0;

	if (!k->rails.at || !json_walk_init(&w, k->rails) || w.object)
		return 0;
	while (json_walk_next(&w, &key, &r))
		if (*r.at == '{')
			add_rail(t, k, n++, r);
	return n;
}

static int print_rails(const struct listing *l)
{
	static const struct cli_column columns[] = {
		{ "SRC_PEER", NULL, false }, { "DST_PEER", NULL, false },
		{ "PROFILE", NULL, false },  { "RAIL", NULL, true },
		{ "SRC_NIC", NULL, false },  { "DST_NIC", NULL, false },
		{ "STATE", NULL, false },    { "SHARE", NULL, true },
		{ "BYTES", NULL, true },     { "FAILURES", NULL, true },
		{ "ERROR", NULL, false },    { "WHY", NULL, false },
	};
	struct cli_table *t;
	size_t n = 0;
	int ret = cli_table_create(&t, columns, sizeof(columns) / sizeof(columns[0]));

	if (ret)
		return ret;
	for (size_t i = 0; i < l->n; i++)
		n += add_rails(t, &l->links[i]);
	if (n)
		ret = cli_table_print(t, cli_table_style_of_locale(), stdout);
	else if (printf("(no rails reported)\n") < 0)
		ret = -EIO;
	cli_table_destroy(t);
	return ret;
}

static int print_links(const struct listing *l)
{
	if (l->n)
		return print_table(l);
	return printf("(no connections reported)\n") < 0 ? -EIO : 0;
}

static int show(struct listing *l, const struct options *options)
{
	uint64_t deadline = sl_deadline_ns(options->links_wait_ms);
	int ret = 0;

	fetch(l);
	while (!all_connected(l) && sl_clock_ns() < deadline) {
		poll(NULL, 0, LOOK_MS);
		fetch(l);
	}
	if (l->error[0]) {
		obs_source_complain(l->source, l->error);
		return 1;
	}
	if (options->json)
		print_json(l);
	else
		ret = options->rails ? print_rails(l) : print_links(l);
	if (ret)
		return cli_output_fail("nanoctrl", ret);
	if (!options->links_wait_ms || all_connected(l))
		return 0;
	fprintf(stderr, "nanoctrl: %s\n",
		l->n ? "not all links are connected" : "no agent reports a link");
	return 1;
}

int links_show(const struct settings *settings, const struct options *options,
	       const struct runtime *rt)
{
	struct listing l = { 0 };
	int status;

	if (obs_source_open(settings, options, rt, &l.source))
		return 1;
	l.client = obs_source_client(l.source);
	l.base = obs_source_base(l.source);
	status = show(&l, options);
	obs_list_clear(&l.snapshots);
	obs_source_close(l.source);
	free(l.links);
	return status;
}
