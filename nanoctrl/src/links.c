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
#include "cli/pidfile.h"
#include "cli/output.h"
#include "cli/table.h"
#include "json_text.h"
#include "nanoctrl/client/nanoctrl_client.h"
#include "runtime.h"
#include "settings.h"

#define CALL_MS 5000
#define LOOK_MS 100
#define TEXT	260

/* One end of a link, as its agent reports it. */
struct link {
	char agent[TEXT], peer[TEXT], profile[TEXT], transport[64], cause[TEXT];
	const char *state;
	uint64_t age_ms;
};

struct listing {
	struct event_base *base;
	struct nc_client *client;
	struct link *links;
	size_t n, room;
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
	copy(to->agent, sizeof(to->agent), from->agent);
	copy(to->peer, sizeof(to->peer), from->peer);
	copy(to->profile, sizeof(to->profile), from->profile);
	copy(to->transport, sizeof(to->transport), from->transport);
	copy(to->cause, sizeof(to->cause), from->cause);
	to->state = state_names[from->state];
	to->age_ms = from->age_ms;
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
	return k->state == state_names[NC_CONNECTED];
}

/* A link has two ends. One that says it is connected while the other says nothing is half a link:
 * the other end gets a line of its own. */
static int add_unreported(struct listing *l)
{
	size_t n = l->n;

	if (n)
		qsort(l->links, n, sizeof(*l->links), compare);
	for (size_t i = 0; i < n; i++) {
		struct link end = { .state = unreported }, *to;

		copy(end.agent, sizeof(end.agent), l->links[i].peer);
		copy(end.peer, sizeof(end.peer), l->links[i].agent);
		copy(end.profile, sizeof(end.profile), l->links[i].profile);
		copy(end.cause, sizeof(end.cause), "this end has not been reported");
		if (!is_connected(&l->links[i]) ||
		    bsearch(&end, l->links, n, sizeof(*l->links), compare))
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
	if (!ret && page->next)
		ret = nc_list_links(l->client, page->next, on_page, l);
	else if (!ret)
		ret = add_unreported(l);
	if (ret || !page->next)
		finish(l, ret ? strerror(-ret) : NULL);
}

/* Read the whole list once; l->error says whether it worked. */
static void fetch(struct listing *l)
{
	int ret;

	l->n = 0;
	l->done = false;
	ret = nc_list_links(l->client, NULL, on_page, l);
	if (ret)
		finish(l, strerror(-ret));
	while (!l->done && event_base_dispatch(l->base) == 0)
		;
}

static bool all_connected(const struct listing *l)
{
	if (l->error[0] || !l->n)
		return false;
	for (size_t i = 0; i < l->n; i++)
		if (!is_connected(&l->links[i]))
			return false;
	return true;
}

static void print_json(const struct listing *l)
{
	char agent[6 * TEXT], peer[6 * TEXT], profile[6 * TEXT], transport[400], cause[6 * TEXT];

	printf("[");
	for (size_t i = 0; i < l->n; i++) {
		const struct link *k = &l->links[i];

		json_text(agent, sizeof(agent), k->agent);
		json_text(peer, sizeof(peer), k->peer);
		json_text(profile, sizeof(profile), k->profile);
		json_text(transport, sizeof(transport), k->transport);
		json_text(cause, sizeof(cause), k->cause);
		printf("%s\n {\"agent\":%s,\"peer\":%s,\"profile\":%s,\"state\":\"%s\",\"transport\":%s,"
		       "\"age_ms\":%" PRIu64 ",\"cause\":%s}",
		       i ? "," : "", agent, peer, profile, k->state, transport, k->age_ms, cause);
	}
	printf("%s]\n", l->n ? "\n" : "");
}

static int print_table(const struct listing *l)
{
	static const struct cli_column columns[] = {
		{ "AGENT", "agent", false },	     { "PEER", "peer", false },
		{ "PROFILE", "profile", false },     { "STATE", "state", false },
		{ "TRANSPORT", "transport", false }, { "SINCE", "age_s", true },
		{ "CAUSE", "cause", false },
	};
	struct cli_table *t;
	int ret = cli_table_create(&t, columns, sizeof(columns) / sizeof(columns[0]));

	if (ret)
		return ret;
	for (size_t i = 0; i < l->n; i++) {
		const struct link *k = &l->links[i];

		cli_table_cell(t, "%s", k->agent);
		cli_table_cell(t, "%s", k->peer);
		cli_table_cell(t, "%s", k->profile);
		cli_table_cell(t, "%s", k->state);
		cli_table_cell(t, "%s", k->transport);
		cli_table_cell(t, "%.1f s", (double)k->age_ms / 1e3);
		cli_table_cell(t, "%s", k->cause);
	}
	ret = cli_table_print(t, cli_table_style_of_locale(), stdout);
	cli_table_destroy(t);
	return ret;
}

/* The client names the server where it could not ask it. */
static void print_error(const struct listing *l)
{
	const char *url = nc_client_url(l->client);

	if (!strncmp(l->error, url, strlen(url)))
		fprintf(stderr, "nanoctrl: %s\n", l->error);
	else
		fprintf(stderr, "nanoctrl: %s: %s\n", url, l->error);
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
		print_error(l);
		return 1;
	}
	if (options->json)
		print_json(l);
	else
		ret = print_table(l);
	if (ret)
		return cli_output_fail("nanoctrl", ret);
	if (!options->links_wait_ms || all_connected(l))
		return 0;
	fprintf(stderr, "nanoctrl: %s\n",
		l->n ? "not all links are connected" : "no agent reports a link");
	return 1;
}

/* The server to ask: the one given, else the one that runs here. */
static const char *choose_url(const struct options *options, const struct runtime *rt,
			      struct cli_pidfile_info *info)
{
	if (options->address)
		return options->address;
	return cli_pidfile_read(rt->pid_file, info) || !info->note[0] ? NULL : info->note;
}

int links_show(const struct options *options, const struct runtime *rt)
{
	struct nc_client_attr attr = NC_CLIENT_ATTR_INIT;
	struct cli_pidfile_info info;
	struct listing l = { 0 };
	const char *url = choose_url(options, rt, &info);
	int ret, status = 1;

	if (!url) {
		fprintf(stderr, "nanoctrl: no server runs in %s; --address names one\n", rt->dir);
		return 1;
	}
	l.base = event_base_new();
	if (!l.base)
		return 1;
	attr.base = l.base;
	attr.urls = &url;
	attr.n_urls = 1;
	attr.scope = options->scope;
	attr.timeout_ms = CALL_MS;
	ret = nc_client_create(&l.client, &attr);
	if (ret)
		fprintf(stderr, "nanoctrl: %s: %s\n", url, strerror(-ret));
	else
		status = show(&l, options);
	nc_client_destroy(l.client);
	free(l.links);
	event_base_loop(l.base,
			EVLOOP_NONBLOCK); /* a deferred callback frees the client's connection */
	event_base_free(l.base);
	return status;
}
