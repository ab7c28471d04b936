/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A page of objects whose last agent has more of them than one script may read: the rest is read in
 * batches, each a script of its own, and the caller gets all of it, since a page cuts no agent. An
 * object that exists all the time is there once. When the agent ends meanwhile, or starts anew, the
 * answer is as if that had happened before: it has no objects of that agent.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "store/call.h"
#include "store/gather.h"
#include "store/redis_store.h"
#include "store/reply.h"
#include "base/text_heap.h"
#include "base/text_set.h"

#define ROW 128 /* what a row of a list takes besides its texts */

struct gather {
	store_page_fn *fn;
	void *arg;
	store_read_fn *read; /* of a row */
	bool of_one;	     /* agent, that was asked for */
	struct store_page page;
	struct store_object *objects;
	struct store_agent *owners;
	const char *agent;     /* that is read on, */
	struct text_set names; /* its objects so far, */
	size_t n_others;       /* and how many there are of those before it */
	uint64_t left;	       /* bytes that it may have */
	struct text_heap heap; /* of all texts */
};

/* Arguments of objects. */
enum { KIND, AGENT, AFTER, LIMIT, MOST, LABELS, GENERATION, PLACE };

static void end(struct gather *g, int result)
{
	g->page.objects = g->objects;
	g->page.owners = g->owners;
	g->fn(g->arg, result, result ? NULL : &g->page);
	text_heap_fini(&g->heap);
	text_set_fini(&g->names);
	free(g->objects);
	free(g->owners);
	free(g);
}

/* ---- what is kept of a batch ---- */

static const char *keep(struct gather *g, const char *text)
{
	return text_heap_keep(&g->heap, text, strlen(text));
}

static void keep_object(struct gather *g, const struct store_object *from)
{
	struct store_object *to = &g->objects[g->page.n_objects++];

	*to = *from;
	to->agent = keep(g, from->agent);
	to->incarnation = keep(g, from->incarnation);
	to->name = keep(g, from->name);
	to->doc.at = text_heap_keep(&g->heap, from->doc.at, from->doc.len);
	to->blob = (struct store_text){ NULL, 0 };
}

/* Those that it has not yet. */
static int add(struct gather *g, const struct store_object *from, size_t n)
{
	struct store_object *bigger =
		realloc(g->objects, (g->page.n_objects + n + 1) * sizeof(*g->objects));

	if (!bigger)
		return -ENOMEM;
	g->objects = bigger;
	for (size_t i = 0; i < n; i++) {
		bool other = strcmp(from[i].agent, g->agent) != 0;
		size_t len = strlen(from[i].name);
		int is_new = other ? 1 : text_set_add(&g->names, from[i].name, len);

		if (is_new < 0)
			return is_new;
		if (!is_new)
			continue;
		keep_object(g, &from[i]);
		g->n_others += other;
		len += ROW + from[i].doc.len;
		g->left -= len < g->left ? len : g->left;
	}
	return g->heap.failed ? -ENOMEM : 0;
}

/* The parts of the page besides its objects. */
static int keep_page(struct gather *g, const struct store_page *page)
{
	g->page = *page;
	g->page.n_objects = 0;
	g->page.next = page->next ? keep(g, page->next) : NULL;
	g->owners = calloc(page->n_owners + 1, sizeof(*g->owners));
	if (!g->owners)
		return -ENOMEM;
	for (size_t i = 0; i < page->n_owners; i++) {
		struct store_text labels = page->owners[i].profile.labels;

		labels.at = text_heap_keep(&g->heap, labels.at, labels.len);
		g->owners[i].name = keep(g, page->owners[i].name);
		g->owners[i].profile.labels = labels;
	}
	return 0;
}

/* ---- the next batch ---- */

/* {agent, generation, place} of what is left; NULL: that was all. */
static const redisReply *rest_of(const redisReply *reply)
{
	const redisReply *rest = store_item(reply, 8, REDIS_REPLY_ARRAY);

	return rest && rest->elements == 3 ? rest : NULL;
}

static void finish_rest(struct store_call *call, int result, const redisReply *reply);

static int ask_on(struct gather *g, const struct store_call *call, const redisReply *rest)
{
	struct store_call next = *call;
	struct store_args left = { .n = 0 };
	size_t n;
	struct store_text *args = store_call_args(call, 0, &n);

	if (!args)
		return -ENOMEM;
	store_arg_number(&left, g->left);
	args[AGENT] = store_text_at(rest, 0);
	args[MOST] = left.v[0];
	args[LABELS] = (struct store_text){ "", 0 };
	args[GENERATION] = store_text_at(rest, 1);
	args[PLACE] = store_text_at(rest, 2);
	next.finish = finish_rest;
	next.arg = g;
	store_scan_on(&next, n, args);
	return 0;
}

static int take_batch(struct gather *g, const struct store_call *call, const redisReply *reply)
{
	struct store_page page = { .n_objects = 0 };
	struct store_rows rows = { .size = sizeof(struct store_object), .read = g->read };
	int result = store_read_page(call, STORE_OK, reply, &rows, &page);

	if (!result)
		result = add(g, rows.at, rows.n);
	free(rows.at);
	g->page.now_ms = page.now_ms;
	return result;
}

static void finish_rest(struct store_call *call, int result, const redisReply *reply)
{
	struct gather *g = call->arg;
	const redisReply *rest = NULL;

	if (result == STORE_NOT_FOUND || result == STORE_PEER_CHANGED) {
		g->page.n_objects = g->n_others;
		result = result == STORE_NOT_FOUND && g->of_one ? STORE_NOT_FOUND : STORE_OK;
	} else if (result == STORE_OK) {
		result = take_batch(g, call, reply);
		rest = rest_of(reply);
	}
	if (!result && rest)
		result = ask_on(g, call, rest);
	if (result || !rest)
		end(g, result);
}

bool store_has_rest(const redisReply *reply)
{
	return rest_of(reply);
}

void store_gather(const struct store_call *call, const redisReply *reply,
		  const struct store_page *page, store_read_fn *read, uint64_t most)
{
	const redisReply *rest = rest_of(reply);
	struct gather *g = calloc(1, sizeof(*g));
	int result;

	if (!g) {
		call->fn.page(call->arg, -ENOMEM, NULL);
		return;
	}
	g->fn = call->fn.page;
	g->arg = call->arg;
	g->read = read;
	g->of_one = store_call_arg(call, AGENT + 2).len > 0;
	g->names.seed = call->store->hub->seed;
	g->left = most;
	g->agent = keep(g, store_string(rest, 0, NULL));
	result = keep_page(g, page);
	if (!result)
		result = add(g, page->objects, page->n_objects);
	if (!result)
		result = ask_on(g, call, rest);
	if (result)
		end(g, result);
}
