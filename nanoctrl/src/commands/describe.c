/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/describe.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/options/nearest.h"
#include "cli/options/option.h"
#include "cli/output/output.h"
#include "cli/output/quote.h"
#include "commands/expected.h"
#include "commands/objects.h"
#include "commands/scopes.h"
#include "commands/yaml_text.h"
#include "model/out.h"
#include "server/settings.h"

struct describing {
	const struct kind *kind;
	const char *name;
	struct out o; /* one JSON object: a member of the kind, then one for each related kind */
	size_t n;     /* objects of this name */
	struct out expected; /* of a topology: its agents[] beside what is there */
	struct cli_nearest nearest;
	char best[KIND_TEXT]; /* what nearest has */
};

/* ---- what belongs to an object ---- */

/* Whether a row of another kind belongs to the object. */
typedef bool belongs_fn(const struct kind *k, struct json_slice row, const char *name);

static bool is_of_agent(const struct kind *k, struct json_slice row, const char *name)
{
	return kind_is_about(k, row, name);
}

static bool is_of_topology(const struct kind *k, struct json_slice row, const char *name)
{
	char text[OBS_TEXT + 16];

	(void)k;
	obs_text(row, "topology", text, sizeof(text));
	if (!strcmp(text, name))
		return true;
	obs_text(row, "source", text, sizeof(text));
	return !strncmp(text, "topology ", 9) && !strcmp(text + 9, name);
}

static const struct relation {
	const char *kind, *other;
	belongs_fn *belongs;
} relations[] = {
	{ "agents", "regions", is_of_agent },	    { "agents", "links", is_of_agent },
	{ "agents", "events", is_of_agent },	    { "topologies", "links", is_of_topology },
	{ "topologies", "events", is_of_topology },
};

/* ---- reading ---- */

/* The name, or the part of it before a '/': an agent's links to a peer, with any profile. */
static bool is_named(const struct describing *d, struct json_slice row)
{
	size_t len = strlen(d->name);
	char id[KIND_TEXT];

	kind_write_id(d->kind, row, id, sizeof(id));
	return !strncmp(id, d->name, len) && (!id[len] || id[len] == '/');
}

static void note_name(struct describing *d, struct json_slice row)
{
	char id[KIND_TEXT];
	const char *before = d->nearest.best;

	kind_write_id(d->kind, row, id, sizeof(id));
	cli_nearest_offer(&d->nearest, id);
	if (d->nearest.best == before)
		return;
	snprintf(d->best, sizeof(d->best), "%s", id);
	d->nearest.best = d->best;
}

static void add_array(struct describing *d, const char *name)
{
	out_words(&d->o, d->o.len > 1 ? ",\"" : "\"");
	out_words(&d->o, name);
	out_words(&d->o, "\":[");
}

static void add_row(struct describing *d, struct json_slice row, size_t i)
{
	out_words(&d->o, i ? "," : "");
	out_bytes(&d->o, row.at, row.len);
}

static int read_own(struct describing *d, struct obs_source *source, const char *scope, char *why,
		    size_t room)
{
	struct rows_query query = { .kind = d->kind, .scope = scope };
	struct rows rows = { .n = 0 };
	int ret = objects_read(&rows, source, &query, why, room);

	add_array(d, d->kind->name);
	for (size_t i = 0; i < rows.n && !ret; i++) {
		if (!is_named(d, rows.at[i].doc)) {
			note_name(d, rows.at[i].doc);
			continue;
		}
		add_row(d, rows.at[i].doc, d->n++);
		if (!strcmp(d->kind->one, "topology"))
			ret = expected_write(&d->expected, source, scope,
					     obs_member(rows.at[i].doc, "topology"), why, room);
	}
	out_words(&d->o, "]");
	rows_clear(&rows);
	return ret;
}

static int read_related(struct describing *d, const struct relation *r, struct obs_source *source,
			const char *scope, char *why, size_t room)
{
	struct rows_query query = { .kind = kind_find(r->other), .scope = scope };
	struct rows rows = { .n = 0 };
	int ret = objects_read(&rows, source, &query, why, room);
	size_t n = 0;

	add_array(d, r->other);
	for (size_t i = 0; i < rows.n && !ret; i++)
		if (r->belongs(query.kind, rows.at[i].doc, d->name))
			add_row(d, rows.at[i].doc, n++);
	out_words(&d->o, "]");
	rows_clear(&rows);
	return ret;
}

static int read_all(void *arg, struct obs_source *source, const char *scope, char *why, size_t room)
{
	struct describing *d = arg;
	int ret;

	out_words(&d->o, "{");
	ret = read_own(d, source, scope, why, room);
	if (d->expected.len) {
		out_words(&d->o, ",\"expected\":");
		out_bytes(&d->o, d->expected.at, d->expected.len);
	}
	for (size_t i = 0; i < sizeof(relations) / sizeof(*relations) && d->n && !ret; i++)
		if (!strcmp(relations[i].kind, d->kind->name))
			ret = read_related(d, &relations[i], source, scope, why, room);
	out_words(&d->o, "}");
	return ret;
}

/* ---- printing ---- */

static int print(const char *text, const struct options *options)
{
	struct json_slice doc = { text, text ? strlen(text) : 0 };
	struct out o = { .at = NULL };
	char *shown;
	int ret;

	if (!text)
		return -ENOMEM;
	if (options->output == OUTPUT_JSON) {
		out_bytes(&o, doc.at, doc.len);
		out_words(&o, "\n");
	} else {
		yaml_text(&o, doc);
	}
	shown = out_finish(&o);
	ret = !shown ? -ENOMEM : fputs(shown, stdout) < 0 ? -EIO : 0;
	free(shown);
	return ret;
}

static int refuse(const struct describing *d, const struct options *options)
{
	char name[CLI_QUOTE_MAX], best[CLI_QUOTE_MAX];

	fprintf(stderr, "nanoctrl: there is no %s %s in scope %s", d->kind->one,
		cli_quote(name, d->name),
		options->scope && *options->scope ? options->scope : "default");
	if (d->nearest.best)
		fprintf(stderr, "; did you mean %s?", cli_quote(best, d->nearest.best));
	fprintf(stderr, "\n");
	return 1;
}

int describe_run(const struct settings *settings, const struct options *options,
		 const struct runtime *rt, const struct cli_args *args)
{
	struct describing d = { .kind = kind_find(args->operands[0]),
				.name = args->operands[1],
				.nearest = { .word = args->operands[1] } };
	char *text;
	int ret;

	if (!d.kind || !strcmp(d.kind->one, "event"))
		return cli_usage_error(&nanoctrl_program, "expected one of %s, got %s", KIND_ONES,
				       args->operands[0]);
	ret = scopes_each(settings, options, rt, read_all, &d);
	text = out_finish(&d.o);
	if (!ret && d.n) {
		ret = print(text, options);
		ret = ret ? cli_output_fail("nanoctrl", ret) : 0;
	} else {
		ret = ret ? 1 : refuse(&d, options);
	}
	free(d.expected.at);
	free(text);
	return ret;
}
