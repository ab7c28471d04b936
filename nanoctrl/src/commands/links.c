/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/links.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cli/output/output.h"
#include "cli/output/quote.h"
#include "cli/output/table.h"
#include "commands/links_json.h"
#include "commands/links_wanted.h"
#include "model/out.h"
#include "server/settings.h"

#define POLL_MS 100

/* Whether it is waited for: of our agents' links if there are any, else of all; of one topology
 * those that it wants. */
static bool is_waited_for(const struct links_list *l, const struct links_end *e, size_t n_ours)
{
	if (l->topology)
		return !strcmp(l->topology, e->topology);
	return e->ours || !n_ours;
}

/* The first end that is waited for and not connected; NULL: there is none. */
static const struct links_end *first_missing(const struct links_list *l, size_t *n_waited)
{
	const struct links_end *first = NULL;
	size_t n_ours = 0;

	*n_waited = 0;
	for (size_t i = 0; i < l->n; i++)
		n_ours += l->ends[i].ours;
	for (size_t i = 0; i < l->n; i++) {
		const struct links_end *e = &l->ends[i];

		if (!is_waited_for(l, e, n_ours))
			continue;
		++*n_waited;
		if (!first && !links_end_is_connected(e))
			first = e;
	}
	return first;
}

/* A topology is complete when it was expanded, and all its agents are registered. */
static bool all_connected(const struct links_list *l)
{
	size_t n_waited;
	bool none_missing = !first_missing(l, &n_waited) && !l->error[0];

	if (!l->topology)
		return none_missing && n_waited;
	return none_missing && l->of.expanded && !strcmp(l->of.state, "ok");
}

static int print_json(const struct links_list *l)
{
	struct out o = { .at = NULL };

	out_words(&o, "[");
	for (size_t i = 0; i < l->n; i++) {
		out_words(&o, i ? ",\n {" : "\n {");
		links_json_members(&o, &l->ends[i]);
		out_words(&o, "}");
	}
	out_words(&o, l->n ? "\n]\n" : "]\n");
	return links_json_print(&o);
}

static void add_counts(struct cli_table *t, const struct links_end *k)
{
	char word[OBS_WORD];

	if (!k->counted) {
		for (int i = 0; i < 4; i++)
			cli_table_cell(t, "-");
		return;
	}
	cli_table_cell(t, "%s", obs_rate(k->bps, word));
	cli_table_cell(t, "%s", obs_bytes(k->bytes, word));
	cli_table_cell(t, "%" PRIu64, k->pending);
	cli_table_cell(t, "%" PRIu64, k->errors);
}

static int print_table(const struct links_list *l)
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
		const struct links_end *k = &l->ends[i];

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

static void add_rail(struct cli_table *t, const struct links_end *k, size_t i, struct json_slice r)
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

static size_t add_rails(struct cli_table *t, const struct links_end *k)
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

static int print_rails(const struct links_list *l)
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
		n += add_rails(t, &l->ends[i]);
	if (n)
		ret = cli_table_print(t, cli_table_style_of_locale(), stdout);
	else if (printf("(no rails reported)\n") < 0)
		ret = -EIO;
	cli_table_destroy(t);
	return ret;
}

static int print_links(const struct links_list *l)
{
	if (l->n)
		return print_table(l);
	return printf("(no connections reported)\n") < 0 ? -EIO : 0;
}

/* Missing parts of a topology besides links. */
static void say_topology(const struct links_list *l)
{
	char name[CLI_QUOTE_MAX];

	cli_quote(name, l->topology);
	if (!l->of.known)
		fprintf(stderr, "nanoctrl: there is no topology %s\n", name);
	else if (!l->of.expanded)
		fprintf(stderr, "nanoctrl: topology %s was not expanded since it changed\n", name);
	else if (strcmp(l->of.state, "ok") != 0)
		fprintf(stderr, "nanoctrl: topology %s is %s: %s\n", name, l->of.state, l->of.note);
}

/* Why it is so, another command says at length. */
static void say_missing(const struct links_list *l)
{
	char agent[CLI_QUOTE_MAX], peer[CLI_QUOTE_MAX], options[OBS_HINT_MAX];
	size_t n_waited;
	const struct links_end *e = first_missing(l, &n_waited);

	if (l->topology)
		say_topology(l);
	if (e)
		fprintf(stderr,
			"nanoctrl: not all links are connected. This says why one is not: nanoctrl "
			"explain %s %s%s\n",
			cli_quote_word(agent, e->agent), cli_quote_word(peer, e->peer),
			obs_source_options(l->source, options));
	else if (!l->topology)
		fprintf(stderr, "nanoctrl: no agent reports a link\n");
}

/* Of a topology that is asked for, its own ends alone. */
static void keep_asked_for(struct links_list *l)
{
	size_t kept = 0;

	for (size_t i = 0; i < l->n && l->topology; i++) {
		if (strcmp(l->topology, l->ends[i].topology) != 0)
			free(l->ends[i].story);
		else
			l->ends[kept++] = l->ends[i];
	}
	if (l->topology)
		l->n = kept;
}

static int show(struct links_list *l, const struct options *options)
{
	uint64_t deadline = sl_deadline_ns(options->links_wait_ms);
	int ret = 0;

	links_wanted_read(l);
	while (!all_connected(l) && sl_clock_ns() < deadline) {
		poll(NULL, 0, POLL_MS);
		links_wanted_read(l);
	}
	if (l->error[0]) {
		obs_source_complain(l->source, l->error);
		return 1;
	}
	if (l->topology && !l->of.known) {
		say_topology(l);
		return 1;
	}
	keep_asked_for(l);
	if (options->json)
		ret = print_json(l);
	else
		ret = options->rails ? print_rails(l) : print_links(l);
	if (ret)
		return cli_output_fail("nanoctrl", ret);
	if (!options->links_wait_ms || all_connected(l))
		return 0;
	say_missing(l);
	return 1;
}

int links_show(const struct settings *settings, const struct options *options,
	       const struct runtime *rt)
{
	struct links_list l = { .topology = options->topology };
	int status;

	if (obs_source_open(settings, options, rt, &l.source))
		return 1;
	if (l.topology && !obs_source_client(l.source)) {
		obs_source_complain(l.source,
				    "a topology is asked of a server: --address names one");
		obs_source_close(l.source);
		return 1;
	}
	status = show(&l, options);
	links_list_clear(&l);
	obs_source_close(l.source);
	return status;
}
