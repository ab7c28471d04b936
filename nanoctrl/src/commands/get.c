/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/get.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/options/option.h"
#include "cli/output/table.h"
#include "commands/links.h"
#include "commands/topology_call.h"
#include "model/out.h"
#include "server/settings.h"

/* ---- topologies ---- */

static int print_topologies(struct json_slice answer)
{
	static const struct cli_column columns[] = {
		{ "NAME", NULL, false },   { "STATE", NULL, false },	{ "LINKS", NULL, true },
		{ "ABSENT", NULL, true },  { "CONFLICTS", NULL, true }, { "REVISION", NULL, true },
		{ "CHANGED", NULL, true }, { "NOTE", NULL, false },
	};
	uint64_t now_ms = obs_number(answer, "now_ms");
	struct json_slice key, one, note;
	struct json_walk w, notes;
	struct cli_table *t;
	int ret = cli_table_create(&t, columns, sizeof(columns) / sizeof(*columns));

	if (ret)
		return ret;
	if (!json_walk_init(&w, obs_member(answer, "topologies"))) {
		cli_table_destroy(t);
		return -EPROTO;
	}
	while (json_walk_next(&w, &key, &one)) {
		struct json_slice result = obs_member(one, "result");
		char text[256], first[800] = "-", word[OBS_WORD];
		uint64_t changed_ms = obs_number(one, "changed_at_ms");

		obs_text(one, "name", text, sizeof(text));
		cli_table_cell(t, "%s", text);
		obs_text(result, "state", text, sizeof(text));
		cli_table_cell(t, "%s", *text ? text : "new");
		cli_table_cell(t, "%" PRIu64, obs_number(result, "links"));
		cli_table_cell(t, "%" PRIu64, obs_number(result, "absent"));
		cli_table_cell(t, "%" PRIu64, obs_number(result, "conflicts"));
		cli_table_cell(t, "%" PRIu64, obs_number(one, "revision"));
		cli_table_cell(t, "%s",
			       obs_age(now_ms > changed_ms ? now_ms - changed_ms : 0, word));
		if (json_walk_init(&notes, obs_member(result, "notes")) &&
		    json_walk_next(&notes, &key, &note) && note.len < sizeof(first))
			json_unquote(note, first);
		cli_table_cell(t, "%s", first);
	}
	ret = cli_table_print(t, cli_table_style_of_locale(), stdout);
	cli_table_destroy(t);
	return ret;
}

/* ---- agents ---- */

struct agent_list {
	struct obs_source *source;
	struct cli_table *table; /* NULL: JSON */
	size_t n, n_pages;
	bool done;
	int result;
	char why[256];
};

static void write_pairs(const struct nc_pairs *pairs, char *out, size_t room)
{
	size_t at = 0;

	snprintf(out, room, "-");
	for (size_t i = 0; i < pairs->n && at < room; i++)
		at += (size_t)snprintf(out + at, room - at, "%s%s=%s", i ? "," : "",
				       pairs->list[i].key, pairs->list[i].value);
}

static void add_agent(struct cli_table *t, const struct nc_agent *a)
{
	char text[1024];
	size_t at = 0;

	cli_table_cell(t, "%s", a->name);
	cli_table_cell(t, "%s",
		       a->session	      ? "session"
		       : a->lease_left_ms < 0 ? "overdue"
					      : "lease");
	cli_table_cell(t, "%s", *a->address ? a->address : "-");
	write_pairs(&a->labels, text, sizeof(text));
	cli_table_cell(t, "%s", text);
	snprintf(text, sizeof(text), "-");
	for (size_t i = 0; i < a->n_services && at < sizeof(text); i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%s", i ? "," : "",
				       a->services[i].name);
	cli_table_cell(t, "%s", text);
}

static void print_member(const char *before, const char *text)
{
	struct out o = { .at = NULL };
	char *made;

	out_member(&o, before, (struct store_text){ text, strlen(text) });
	made = out_finish(&o);
	printf("%s", made ? made : "\"\"");
	free(made);
}

static void print_agent(const struct nc_agent *a, bool first)
{
	print_member(first ? "\n {\"name\":" : ",\n {\"name\":", a->name);
	print_member(",\"address\":", a->address);
	print_member(",\"incarnation\":", a->incarnation);
	printf(",\"generation\":%" PRIu64 ",\"session\":%s,\"labels\":{", a->generation,
	       a->session ? "true" : "false");
	for (size_t i = 0; i < a->labels.n; i++) {
		print_member(i ? "," : "", a->labels.list[i].key);
		print_member(":", a->labels.list[i].value);
	}
	printf("},\"services\":[");
	for (size_t i = 0; i < a->n_services; i++)
		print_member(i ? "," : "", a->services[i].name);
	printf("]}");
}

static void on_agents(void *arg, const struct nc_error *error, const struct nc_page *page)
{
	struct agent_list *l = arg;

	l->result = error ? error->err : 0;
	if (error)
		snprintf(l->why, sizeof(l->why), "%s", error->message);
	for (size_t i = 0; !error && i < page->n; i++, l->n++) {
		if (l->table)
			add_agent(l->table, &page->agents[i]);
		else
			print_agent(&page->agents[i], !l->n);
	}
	if (!error && page->next && ++l->n_pages < OBS_PAGES_MAX)
		l->result = nc_list_agents(obs_source_client(l->source), NULL, page->next,
					   on_agents, l);
	if (l->result || !page->next || l->n_pages == OBS_PAGES_MAX)
		obs_source_done(l->source, &l->done);
}

static int list_agents(struct agent_list *l)
{
	int ret = nc_list_agents(obs_source_client(l->source), NULL, NULL, on_agents, l);

	if (!ret)
		obs_source_await(l->source, &l->done);
	ret = ret ? ret : l->result;
	if (ret)
		obs_source_complain(l->source, *l->why ? l->why : strerror(-ret));
	return ret;
}

static int get_agents(const struct settings *settings, const struct options *options,
		      const struct runtime *rt)
{
	static const struct cli_column columns[] = {
		{ "NAME", NULL, false },   { "HELD BY", NULL, false },	{ "ADDRESS", NULL, false },
		{ "LABELS", NULL, false }, { "SERVICES", NULL, false },
	};
	struct agent_list l = { .table = NULL };
	struct topology_call c;
	bool json = options->output == OUTPUT_JSON;
	int ret;

	if (topology_call_open(&c, settings, options, rt))
		return 1;
	l.source = c.source;
	ret = json ? 0 : cli_table_create(&l.table, columns, sizeof(columns) / sizeof(*columns));
	printf(json ? "[" : "");
	if (!ret)
		ret = list_agents(&l);
	printf(json ? "\n]\n" : "");
	if (!ret && l.table)
		ret = cli_table_print(l.table, cli_table_style_of_locale(), stdout);
	if (l.table)
		cli_table_destroy(l.table);
	topology_call_close(&c);
	return ret ? 1 : 0;
}

/* ---- all kinds ---- */

static int get_topologies(const struct settings *settings, const struct options *options,
			  const struct runtime *rt)
{
	struct topology_call c;
	int ret;

	if (topology_call_open(&c, settings, options, rt))
		return 1;
	ret = topology_call_list(&c);
	if (ret)
		topology_call_complain(&c);
	else if (options->output == OUTPUT_JSON)
		printf("%s\n", c.text);
	else
		ret = print_topologies(c.answer);
	topology_call_close(&c);
	return ret ? 1 : 0;
}

int get_run(const struct settings *settings, const struct options *options,
	    const struct runtime *rt, const struct cli_args *args)
{
	const char *kind = args->operands[0];
	struct options ours = *options;

	ours.json = options->output == OUTPUT_JSON;
	if (!strcmp(kind, "topologies"))
		return get_topologies(settings, options, rt);
	if (!strcmp(kind, "agents"))
		return get_agents(settings, options, rt);
	if (!strcmp(kind, "links"))
		return links_show(settings, &ours, rt);
	return cli_usage_error(&nanoctrl_program, "expected topologies, agents or links, got %s",
			       kind);
}
