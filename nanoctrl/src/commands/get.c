/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/get.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/options/option.h"
#include "cli/output/output.h"
#include "cli/output/table.h"
#include "commands/objects.h"
#include "commands/scopes.h"
#include "commands/yaml_text.h"
#include "model/out.h"
#include "server/settings.h"

struct getting {
	const struct options *options;
	const struct kind *kind;
	struct rows rows, before; /* before: of the last look of --watch */
};

/* ---- reading ---- */

static int read_scope(void *arg, struct obs_source *source, const char *scope, char *why,
		      size_t room)
{
	struct getting *g = arg;
	struct rows_query query = { .kind = g->kind,
				    .scope = scope,
				    .selector = g->options->selector };

	return objects_read(&g->rows, source, &query, why, room);
}

/* ---- printing ---- */

static int print_table(const struct getting *g)
{
	struct cli_column columns[32] = { { .title = NULL } };
	bool wide = g->options->output == OUTPUT_WIDE;
	const struct kind_column *c;
	struct cli_table *t;
	size_t n = 0;
	int ret;

	if (g->options->all_scopes)
		columns[n++].title = "SCOPE";
	for (c = g->kind->columns; c->title; c++)
		if (wide || !c->wide)
			columns[n++] = (struct cli_column){ .title = c->title,
							    .right = kind_cell_is_right(c) };
	ret = cli_table_create(&t, columns, n);
	if (ret)
		return ret;
	for (size_t i = 0; i < g->rows.n; i++) {
		const struct row *row = &g->rows.at[i];
		char text[KIND_TEXT];

		if (g->options->all_scopes)
			cli_table_cell(t, "%s", row->scope);
		for (c = g->kind->columns; c->title; c++) {
			if (c->wide && !wide)
				continue;
			kind_write_cell(c, row->doc, row->now_ms, text, sizeof(text));
			cli_table_cell(t, "%s", text);
		}
	}
	ret = cli_table_print(t, cli_table_style_of_locale(), stdout);
	cli_table_destroy(t);
	return ret;
}

/* The row, with its scope where several are listed. */
static void add_row(struct out *o, const struct getting *g, const struct row *row)
{
	if (!g->options->all_scopes || obs_member(row->doc, "scope").at) {
		out_bytes(o, row->doc.at, row->doc.len);
		return;
	}
	out_member(o, "{\"scope\":", (struct store_text){ row->scope, strlen(row->scope) });
	if (row->doc.len > 2)
		out_words(o, ",");
	out_bytes(o, row->doc.at + 1, row->doc.len - 1);
}

static int print_text(struct out *o)
{
	char *text = out_finish(o);
	int ret = !text ? -ENOMEM : fputs(text, stdout) < 0 ? -EIO : 0;

	free(text);
	return ret;
}

/* One array; while it is watched one object a line. */
static int print_json(const struct getting *g)
{
	bool watch = g->options->watch;
	struct out o = { .at = NULL };

	out_words(&o, watch ? "" : "[");
	for (size_t i = 0; i < g->rows.n; i++) {
		out_words(&o, watch ? "" : i ? ",\n " : "\n ");
		add_row(&o, g, &g->rows.at[i]);
		out_words(&o, watch ? "\n" : "");
	}
	out_words(&o, watch ? "" : g->rows.n ? "\n]\n" : "]\n");
	return print_text(&o);
}

static int print_yaml(const struct getting *g)
{
	struct out all = { .at = NULL }, o = { .at = NULL };
	char *text;

	out_words(&all, "[");
	for (size_t i = 0; i < g->rows.n; i++) {
		out_words(&all, i ? "," : "");
		add_row(&all, g, &g->rows.at[i]);
	}
	out_words(&all, "]");
	text = out_finish(&all);
	if (!text)
		return -ENOMEM;
	out_words(&o, g->options->watch ? "---\n" : "");
	yaml_text(&o, (struct json_slice){ text, strlen(text) });
	free(text);
	return print_text(&o);
}

static int print(const struct getting *g)
{
	return g->options->output == OUTPUT_JSON   ? print_json(g)
	       : g->options->output == OUTPUT_YAML ? print_yaml(g)
						   : print_table(g);
}

/* ---- watching ---- */

/* Whether both say the same, but for what changes by itself. */
static bool is_same(const struct kind *k, const struct row *a, const struct row *b)
{
	for (const struct kind_column *c = k->columns; c->title; c++) {
		char x[KIND_TEXT], y[KIND_TEXT];

		if (kind_cell_is_age(c))
			continue;
		kind_write_cell(c, a->doc, 0, x, sizeof(x));
		kind_write_cell(c, b->doc, 0, y, sizeof(y));
		if (strcmp(x, y) != 0)
			return false;
	}
	return true;
}

/* By scope and name: the list that is looked up is in this order. */
static int compare(const void *a, const void *b, void *kind)
{
	const struct row *p = a, *q = b;
	char x[KIND_TEXT], y[KIND_TEXT];
	int d = strcmp(p->scope, q->scope);

	kind_write_id(kind, p->doc, x, sizeof(x));
	kind_write_id(kind, q->doc, y, sizeof(y));
	return d ? d : strcmp(x, y);
}

static const struct row *find(const struct rows *sorted, const struct row *row, struct kind *k)
{
	size_t low = 0, high = sorted->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		int d = compare(&sorted->at[mid], row, k);

		if (!d)
			return &sorted->at[mid];
		if (d < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return NULL;
}

static void sort(struct rows *r, struct kind *k)
{
	if (r->n)
		qsort_r(r->at, r->n, sizeof(*r->at), compare, k);
}

/* Events do not go: they are not kept any more. */
static int print_gone(const struct getting *g, const struct rows *now, struct kind *k)
{
	char id[KIND_TEXT];

	for (size_t i = 0; i < g->before.n && strcmp(k->name, "events") != 0; i++) {
		if (find(now, &g->before.at[i], k))
			continue;
		kind_write_id(k, g->before.at[i].doc, id, sizeof(id));
		if (g->options->output == OUTPUT_JSON) {
			struct out o = { .at = NULL };

			out_member(&o, "{\"gone\":", (struct store_text){ id, strlen(id) });
			out_words(&o, "}\n");
			if (print_text(&o))
				return -EIO;
		} else if (printf("gone: %s\n", id) < 0) {
			return -EIO;
		}
	}
	return 0;
}

/* Print the rows that changed, and those that are gone; then all rows become the previous ones. */
static int print_changes(struct getting *g)
{
	struct rows all = g->rows, changed = { .at = calloc(all.n + 1, sizeof(*changed.at)) };
	struct rows sorted = { .at = calloc(all.n + 1, sizeof(*sorted.at)), .n = all.n };
	struct kind k = *g->kind;
	int ret = changed.at && sorted.at ? 0 : -ENOMEM;

	for (size_t i = 0; i < all.n && !ret; i++) {
		const struct row *was = find(&g->before, &all.at[i], &k);

		sorted.at[i] = all.at[i];
		if (!was || !is_same(&k, was, &all.at[i]))
			changed.at[changed.n++] = all.at[i];
	}
	g->rows = changed;
	if (!ret)
		sort(&sorted, &k);
	if (!ret)
		ret = print_gone(g, &sorted, &k);
	if (!ret && changed.n)
		ret = print(g);
	if (!ret && fflush(stdout))
		ret = -errno;
	free(changed.at);
	free(sorted.at);
	rows_clear(&g->before);
	sort(&all, &k);
	g->before = all;
	g->rows = (struct rows){ .n = 0 };
	return ret;
}

/* Until a signal or an error ends it, or the reader of its output is gone. */
static int watch(struct getting *g, const struct settings *settings, const struct runtime *rt)
{
	struct kind k = *g->kind;
	int ret = print(g);

	if (!ret && fflush(stdout))
		ret = -errno;
	sort(&g->rows, &k);
	g->before = g->rows;
	g->rows = (struct rows){ .n = 0 };
	while (!ret) {
		poll(NULL, 0, (int)g->options->every_ms);
		if (scopes_each(settings, g->options, rt, read_scope, g))
			return 1;
		rows_filter(&g->rows, g->kind, g->options->agent, g->options->state);
		ret = print_changes(g);
	}
	return cli_output_fail("nanoctrl", ret);
}

/* ---- all of it ---- */

static int check(const struct getting *g)
{
	const char *name = g->kind->name;
	char state[KIND_TEXT];

	kind_write_state(g->kind, (struct json_slice){ "{}", 2 }, state, sizeof(state));
	if (g->options->selector && !g->kind->labels)
		return cli_usage_error(&nanoctrl_program, "-l: %s have no labels", name);
	if (g->options->agent && !g->kind->who[0])
		return cli_usage_error(&nanoctrl_program, "--agent: %s are of no agent", name);
	if (g->options->state && !*state)
		return cli_usage_error(&nanoctrl_program, "--state: %s have no state", name);
	return 0;
}

int get_run(const struct settings *settings, const struct options *options,
	    const struct runtime *rt, const struct cli_args *args)
{
	struct getting g = { .options = options, .kind = kind_find(args->operands[0]) };
	int ret;

	if (!g.kind)
		return cli_usage_error(&nanoctrl_program, "expected one of %s, got %s", KIND_NAMES,
				       args->operands[0]);
	ret = check(&g);
	if (ret)
		return ret;
	ret = scopes_each(settings, options, rt, read_scope, &g) ? 1 : 0;
	if (!ret)
		rows_filter(&g.rows, g.kind, options->agent, options->state);
	if (!ret && options->watch) {
		ret = watch(&g, settings, rt);
	} else if (!ret) {
		ret = print(&g);
		ret = ret ? cli_output_fail("nanoctrl", ret) : 0;
	}
	rows_clear(&g.rows);
	rows_clear(&g.before);
	return ret;
}
