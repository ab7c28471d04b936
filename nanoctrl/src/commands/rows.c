/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/rows.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nanoctrl/client/nanoctrl_client.h"

/* ---- the list ---- */

static void free_row(struct row *row)
{
	free(row->scope);
	free(row->text);
}

void rows_clear(struct rows *r)
{
	for (size_t i = 0; i < r->n; i++)
		free_row(&r->at[i]);
	free(r->at);
	*r = (struct rows){ .n = 0 };
}

int rows_add(struct rows *r, const char *scope, char *text, uint64_t now_ms)
{
	struct row row = { .scope = strdup(scope), .text = text, .now_ms = now_ms };
	size_t room = r->room ? 2 * r->room : 64;
	struct row *more;

	if (r->n == r->room && row.scope && text) {
		more = realloc(r->at, room * sizeof(*more));
		if (more) {
			r->at = more;
			r->room = room;
		}
	}
	if (!row.scope || !text || r->n == r->room) {
		free_row(&row);
		return -ENOMEM;
	}
	row.doc = (struct json_slice){ text, strlen(text) };
	r->at[r->n++] = row;
	return 0;
}

void rows_filter(struct rows *r, const struct kind *kind, const char *agent, const char *state)
{
	size_t kept = 0;

	for (size_t i = 0; i < r->n; i++) {
		char have[KIND_TEXT];

		kind_write_state(kind, r->at[i].doc, have, sizeof(have));
		if ((agent && !kind_is_about(kind, r->at[i].doc, agent)) ||
		    (state && strcmp(have, state) != 0))
			free_row(&r->at[i]);
		else
			r->at[kept++] = r->at[i];
	}
	r->n = kept;
}

static int by_id(const void *a, const void *b, void *kind)
{
	char x[KIND_TEXT], y[KIND_TEXT];

	kind_write_id(kind, ((const struct row *)a)->doc, x, sizeof(x));
	kind_write_id(kind, ((const struct row *)b)->doc, y, sizeof(y));
	return strcmp(x, y);
}

/* Of several with one name one stays. */
static void sort(struct rows *r, const struct kind *kind)
{
	struct kind of = *kind;
	size_t kept = 0;

	if (r->n)
		qsort_r(r->at, r->n, sizeof(*r->at), by_id, &of);
	for (size_t i = 0; i < r->n; i++) {
		if (kept && !by_id(&r->at[kept - 1], &r->at[i], &of))
			free_row(&r->at[i]);
		else
			r->at[kept++] = r->at[i];
	}
	r->n = kept;
}

/* ---- from the API ---- */

struct reading {
	struct rows *rows;
	struct obs_source *source;
	const struct rows_query *query;
	unsigned n_pages;
	bool done;
	int result;
	char *why;
	size_t room;
};

static void finish(struct reading *r, int result, const char *why)
{
	r->result = result;
	snprintf(r->why, r->room, "%s", why);
	obs_source_done(r->source, &r->done);
}

static int take_page(struct reading *r, struct json_slice page)
{
	struct json_slice key, one;
	struct json_walk w;
	int ret = 0;

	if (!json_walk_init(&w, obs_member(page, r->query->kind->name)) || w.object)
		return -EPROTO;
	while (!ret && json_walk_next(&w, &key, &one))
		ret = rows_add(r->rows, r->query->scope, strndup(one.at, one.len),
			       obs_number(page, "now_ms"));
	return ret;
}

static void on_page(void *arg, const struct nc_error *error, const char *text, size_t len);

static int ask(struct reading *r, const char *after)
{
	const struct nc_list list = { .name = r->query->kind->name,
				      .selector = r->query->selector,
				      .after = after,
				      .limit = r->query->kind->limit,
				      .last = r->query->kind->last };

	return nc_list(obs_source_client(r->source), &list, on_page, r);
}

static void on_page(void *arg, const struct nc_error *error, const char *text, size_t len)
{
	struct reading *r = arg;
	struct json_slice page = { text, len };
	char next[OBS_TEXT];
	int ret;

	if (error) {
		finish(r, error->err, error->message[0] ? error->message : strerror(-error->err));
		return;
	}
	ret = take_page(r, page);
	obs_text(page, "next", next, sizeof(next));
	if (!ret && *next && ++r->n_pages == OBS_PAGES_MAX) {
		finish(r, -EPROTO, "the list has no end");
		return;
	}
	if (!ret && *next)
		ret = ask(r, next);
	if (ret || !*next)
		finish(r, ret, ret ? strerror(-ret) : "");
}

int rows_read(struct rows *r, struct obs_source *source, const struct rows_query *query, char *why,
	      size_t room)
{
	struct reading reading = {
		.rows = r, .source = source, .query = query, .why = why, .room = room
	};
	int ret;

	*why = '\0';
	ret = ask(&reading, NULL);
	if (ret)
		finish(&reading, ret, strerror(-ret));
	obs_source_await(source, &reading.done);
	if (!reading.result && query->kind->scanned)
		sort(r, query->kind);
	return reading.result;
}
