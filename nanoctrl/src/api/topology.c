/* SPDX-License-Identifier: Apache-2.0 */
#include "api/topology.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "model/topology.h"

/* ---- reading ---- */

static void listed(void *arg, int result, const struct store_topologies *t)
{
	if (result)
		api_fail(arg, result);
	else
		api_reply(arg, 200, model_topologies(api_scope_of(arg), t));
}

void api_topology_list(struct request *rq)
{
	const char *scope = api_scope(rq);

	if (scope)
		store_list_topologies(request_store(rq), scope, true, listed, rq);
}

static bool is_there(const struct store_topologies *t, const char *name)
{
	for (size_t i = 0; i < t->n; i++)
		if (!strcmp(t->list[i].name, name))
			return true;
	return false;
}

static void got(void *arg, int result, const struct store_topologies *t)
{
	const char *name = request_param(arg, "name");

	if (!result && !is_there(t, name))
		result = STORE_NOT_FOUND;
	if (result)
		api_fail(arg, result);
	else
		api_reply(arg, 200, model_topology(api_scope_of(arg), t, name));
}

void api_topology_get(struct request *rq)
{
	const char *scope = api_scope(rq);
	const char *name = scope ? api_name(rq, "name") : NULL;

	if (name)
		store_list_topologies(request_store(rq), scope, true, got, rq);
}

/* Where a page of a list of wanted links begins: "REVISION:N" behind N links of that list. */
static bool get_place(struct request *rq, struct store_cursor *out)
{
	const char *text = request_query(rq, "after");

	*out = (struct store_cursor){ 0 };
	if (!text || model_parse_cursor(text, out))
		return true;
	api_bad_query(rq, "after", "what a page said");
	return false;
}

static void got_wanted(void *arg, int result, const struct store_wanted *w, size_t n,
		       const char *next)
{
	struct store_cursor at;
	uint64_t limit;

	(void)n;
	(void)next;
	if (result) {
		api_fail(arg, result);
		return;
	}
	/* They were looked at before. */
	if (!get_place(arg, &at) ||
	    !api_query_number(arg, "limit", 1, TOPOLOGY_LINKS_MAX, TOPOLOGY_LINKS_MAX, &limit))
		return;
	if (at.epoch && at.epoch != w->revision)
		api_fail_stale(arg, w->revision);
	else
		api_reply(arg, 200, model_wanted(w, at.id, limit));
}

void api_wanted_get(struct request *rq)
{
	const char *scope = api_scope(rq);
	const char *name = scope ? api_name(rq, "name") : NULL;

	struct store_cursor at;
	uint64_t limit;

	if (name && get_place(rq, &at) &&
	    api_query_number(rq, "limit", 1, TOPOLOGY_LINKS_MAX, TOPOLOGY_LINKS_MAX, &limit))
		store_get_wanted(request_store(rq), scope, name, got_wanted, rq);
}

static void listed_wanted(void *arg, int result, const struct store_wanted *lists, size_t n,
			  const char *next)
{
	if (result)
		api_fail(arg, result);
	else
		api_reply(arg, 200, model_wanted_lists(api_scope_of(arg), lists, n, next));
}

void api_wanted_list(struct request *rq)
{
	const char *scope = api_scope(rq), *after;
	uint64_t limit;

	if (scope && api_scan(rq, &after) && api_query_number(rq, "limit", 1, 500, 100, &limit))
		store_list_wanted(request_store(rq), scope, after, (unsigned)limit, listed_wanted,
				  rq);
}

/* ---- writing ---- */

struct writing {
	struct request *rq;
	const char *scope;
	const char *name; /* NULL: several */
	uint64_t revision;
	bool force, prune, dry_run;
	struct model_change change;
};

static void end(struct writing *w)
{
	model_change_fini(&w->change);
	free(w);
}

static void reply_change(const struct writing *w, uint64_t revision)
{
	size_t room = strlen(w->change.summary) + 128;
	char *text = malloc(room);

	if (text)
		snprintf(text, room,
			 "{\"status\":\"ok\",\"revision\":%" PRIu64
			 ",\"dry_run\":%s,\"changes\":%s}",
			 revision, w->dry_run ? "true" : "false", w->change.summary);
	api_reply(w->rq, 200, text);
}

static void fail(struct request *rq, int result, uint64_t revision)
{
	struct reply_error many = { .status = 422, .code = "too_many_topologies" };

	if (result == STORE_STALE)
		api_fail_stale(rq, revision);
	else if (result == STORE_TOO_MANY)
		reply_error(rq, &many, "a scope has at most %d topologies and %d bytes of them",
			    STORE_TOPOLOGIES_MAX, STORE_TOPOLOGY_BYTES_MAX);
	else
		api_fail(rq, result);
}

static void written(void *arg, int result, uint64_t revision)
{
	struct writing *w = arg;

	if (result)
		fail(w->rq, result, revision);
	else
		reply_change(w, revision);
	end(w);
}

static void write_change(struct writing *w)
{
	struct store_topology_write *writes = calloc(w->change.n, sizeof(*writes));

	if (!writes) {
		written(w, -ENOMEM, 0);
		return;
	}
	for (size_t i = 0; i < w->change.n; i++)
		writes[i] = (struct store_topology_write){ w->change.puts[i].name,
							   { w->change.puts[i].doc,
							     strlen(w->change.puts[i].doc) } };
	store_write_topologies(request_store(w->rq), w->scope, w->revision, writes, w->change.n,
			       written, w);
	free(writes);
}

/* A repeated request finds its work done, at any revision that has come since. */
static void apply(struct writing *w, const struct store_topologies *have)
{
	const struct model_apply how = {
		.scope = w->scope, .name = w->name, .force = w->force, .prune = w->prune
	};
	struct model_error err;
	size_t len;
	const char *body = request_body(w->rq, &len);

	if (model_apply(&how, have, body, len, &w->change, &err)) {
		api_refuse(w->rq, &err);
	} else if (w->dry_run || !w->change.n) {
		reply_change(w, have->revision);
	} else if (w->revision != have->revision) {
		api_fail_stale(w->rq, have->revision);
	} else {
		write_change(w);
		return;
	}
	end(w);
}

static void read_before(void *arg, int result, const struct store_topologies *have)
{
	struct writing *w = arg;

	if (!result) {
		apply(w, have);
		return;
	}
	api_fail(w->rq, result);
	end(w);
}

static bool get_flag(struct request *rq, const char *name, bool *out)
{
	uint64_t n;

	if (!api_query_number(rq, name, 0, 1, 0, &n))
		return false;
	*out = n;
	return true;
}

/* The revision that the sender has seen has to be there: a late request is known by it. */
static bool get_revision(struct request *rq, uint64_t *out)
{
	if (request_query(rq, "revision"))
		return api_query_number(rq, "revision", 0, API_ORDER_MAX, 0, out);
	api_bad_query(rq, "revision",
		      "there: it is that of the scope's topologies, as a list says it");
	return false;
}

static struct writing *begin(struct request *rq, const char *scope, const char *name)
{
	struct writing *w = calloc(1, sizeof(*w));

	if (!w) {
		api_fail(rq, -ENOMEM);
		return NULL;
	}
	w->rq = rq;
	w->scope = scope;
	w->name = name;
	return w;
}

static void start(struct request *rq, const char *scope, const char *name)
{
	struct writing *w = api_is_json(rq) ? begin(rq, scope, name) : NULL;

	if (!w)
		return;
	if (get_flag(rq, "force", &w->force) && get_flag(rq, "prune", &w->prune) &&
	    get_flag(rq, "dry_run", &w->dry_run) && (w->dry_run || get_revision(rq, &w->revision)))
		store_list_topologies(request_store(rq), scope, false, read_before, w);
	else
		end(w);
}

void api_topology_apply(struct request *rq)
{
	const char *scope = api_scope(rq);
	const char *name = scope ? api_name(rq, "name") : NULL;

	if (name)
		start(rq, scope, name);
}

void api_topology_apply_all(struct request *rq)
{
	const char *scope = api_scope(rq);

	if (scope)
		start(rq, scope, NULL);
}

/* ---- deleting ---- */

static void reply_deleted(struct request *rq, uint64_t revision, bool deleted)
{
	char text[96];
	int len = snprintf(text, sizeof(text),
			   "{\"status\":\"ok\",\"revision\":%" PRIu64 ",\"deleted\":%s}", revision,
			   deleted ? "true" : "false");

	reply_json(rq, 200, text, (size_t)len);
}

static void deleted(void *arg, int result, uint64_t revision)
{
	struct writing *w = arg;

	if (result)
		fail(w->rq, result, revision);
	else
		reply_deleted(w->rq, revision, true);
	end(w);
}

static void read_before_delete(void *arg, int result, const struct store_topologies *have)
{
	struct writing *w = arg;
	const struct store_topology_write gone = { .name = w->name };

	if (!result && is_there(have, w->name)) {
		store_write_topologies(request_store(w->rq), w->scope, w->revision, &gone, 1,
				       deleted, w);
		return;
	}
	if (result)
		api_fail(w->rq, result);
	else
		reply_deleted(w->rq, have->revision, false);
	end(w);
}

void api_topology_delete(struct request *rq)
{
	const char *scope = api_scope(rq);
	const char *name = scope ? api_name(rq, "name") : NULL;
	struct writing *w = name ? begin(rq, scope, name) : NULL;

	if (!w)
		return;
	if (get_revision(rq, &w->revision))
		store_list_topologies(request_store(rq), scope, false, read_before_delete, w);
	else
		end(w);
}
