/* SPDX-License-Identifier: Apache-2.0 */
/* Topologies of a scope: read and written as a whole. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "store/call.h"
#include "store/redis_store.h"
#include "store/reply.h"

/* "CREATED REVISION CHANGED_AT_MS\n" document */
static bool read_value(struct store_text v, struct store_topology *t)
{
	uint64_t *const parts[] = { &t->created, &t->revision, &t->changed_at_ms };
	const char *line = v.len ? memchr(v.at, '\n', v.len < 64 ? v.len : 64) : NULL;
	const char *at = v.at;

	for (size_t i = 0; line && i < 3; i++) {
		const char *from = at;

		for (*parts[i] = 0; at < line && *at >= '0' && *at <= '9' && at - from < 17; at++)
			*parts[i] = *parts[i] * 10 + (uint64_t)(*at - '0');
		if (at == from || (i < 2 ? *at != ' ' : at != line))
			return false;
		at++;
	}
	if (!line)
		return false;
	t->doc = (struct store_text){ line + 1, v.len - (size_t)(line + 1 - v.at) };
	return true;
}

static int by_age(const void *a, const void *b)
{
	const struct store_topology *x = a, *y = b;

	if (x->created != y->created)
		return x->created < y->created ? -1 : 1;
	return strcmp(x->name, y->name);
}

/* {outcome, revision, expanded, now, skipped, {{name, value, report}, ...}} */
static int read_topologies(const struct store_call *call, const redisReply *reply,
			   struct store_topologies *out, struct store_topology **list)
{
	const redisReply *rows = store_item(reply, 5, REDIS_REPLY_ARRAY);
	uint64_t skipped;

	if (!rows || !store_u64(reply, 1, &out->revision) || !store_u64(reply, 2, &out->expanded) ||
	    !store_u64(reply, 3, &out->now_ms) || !store_u64(reply, 4, &skipped))
		return -EPROTO;
	*list = calloc(rows->elements + 1, sizeof(**list));
	if (!*list)
		return -ENOMEM;
	for (size_t i = 0; i < rows->elements; i++) {
		struct store_topology *t = &(*list)[out->n];

		t->name = store_string(rows->element[i], 0, NULL);
		t->report = store_text_at(rows->element[i], 2);
		if (key_name_valid(t->name) && read_value(store_text_at(rows->element[i], 1), t))
			out->n++;
		else
			skipped++;
	}
	atomic_fetch_add(&call->store->hub->n_skipped, skipped);
	qsort(*list, out->n, sizeof(**list), by_age);
	out->list = *list;
	return 0;
}

static void finish_list(struct store_call *call, int result, const redisReply *reply)
{
	struct store_topologies t = { .n = 0 };
	struct store_topology *list = NULL;

	if (result == STORE_OK)
		result = read_topologies(call, reply, &t, &list);
	call->fn.topologies(call->arg, result, result ? NULL : &t);
	free(list);
}

void store_list_topologies(struct store *store, const char *scope, bool reports,
			   store_topologies_fn *fn, void *arg)
{
	struct store_args a = { .n = 0 };

	store_arg(&a, reports ? "1" : "0");
	store_send(store, scope, &scripts[SCRIPT_TOPOLOGIES], &a, finish_list,
		   (union store_answer){ .topologies = fn }, arg);
}

/* {outcome, revision} */
static void finish_revision(struct store_call *call, int result, const redisReply *reply)
{
	uint64_t revision = 0;
	bool told = store_u64(reply, 1, &revision);

	call->fn.revision(call->arg, result == STORE_OK && !told ? -EPROTO : result, revision);
}

void store_write_topologies(struct store *store, const char *scope, uint64_t revision,
			    const struct store_topology_write *writes, size_t n,
			    store_revision_fn *fn, void *arg)
{
	struct store_text *args = calloc(2 * n + 4, sizeof(*args));
	struct store_args head = { .n = 0 };
	size_t n_args = 4, n_puts = 0;

	if (!args) {
		fn(arg, -ENOMEM, 0);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		if (!writes[i].doc.at)
			continue;
		args[n_args++] = (struct store_text){ writes[i].name, strlen(writes[i].name) };
		args[n_args++] = writes[i].doc;
		n_puts++;
	}
	for (size_t i = 0; i < n; i++)
		if (!writes[i].doc.at)
			args[n_args++] =
				(struct store_text){ writes[i].name, strlen(writes[i].name) };
	store_arg_number(&head, revision);
	store_arg_number(&head, STORE_TOPOLOGIES_MAX);
	store_arg_number(&head, STORE_TOPOLOGY_BYTES_MAX);
	store_arg_number(&head, n_puts);
	memcpy(args, head.v, 4 * sizeof(*args));
	store_send_many(store, scope, &scripts[SCRIPT_TOPOLOGY_PUT], n_args, args, finish_revision,
			(union store_answer){ .revision = fn }, arg);
	free(args);
}

void store_commit_wanted(struct store *store, const char *scope, uint64_t revision,
			 uint64_t expanded, const struct store_cursor *seen,
			 const struct store_wanted *lists, size_t n,
			 const struct store_topology_report *reports, size_t n_reports,
			 store_revision_fn *fn, void *arg)
{
	struct store_text *args = calloc(2 * (n + n_reports) + 5, sizeof(*args));
	struct store_args head = { .n = 0 };
	size_t n_args = 5;

	if (!args) {
		fn(arg, -ENOMEM, 0);
		return;
	}
	store_arg_number(&head, revision);
	store_arg_number(&head, expanded);
	store_arg_number(&head, seen->epoch);
	store_arg_number(&head, seen->id);
	store_arg_number(&head, n);
	memcpy(args, head.v, 5 * sizeof(*args));
	for (size_t i = 0; i < n; i++) {
		args[n_args++] = (struct store_text){ lists[i].agent, strlen(lists[i].agent) };
		args[n_args++] = lists[i].list;
	}
	for (size_t i = 0; i < n_reports; i++) {
		args[n_args++] = (struct store_text){ reports[i].name, strlen(reports[i].name) };
		args[n_args++] = reports[i].doc;
	}
	store_send_many(store, scope, &scripts[SCRIPT_TOPOLOGY_COMMIT], n_args, args,
			finish_revision, (union store_answer){ .revision = fn }, arg);
	free(args);
}
