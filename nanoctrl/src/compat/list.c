/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of DLSlime's entities and agents, which may be long. They are read in batches, each a
 * script of its own, so that Redis serves other clients between two. The next batch is requested
 * before this one is passed to the caller: Redis works while the caller formats it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/text_set.h"
#include "compat/peer.h"
#include "compat/scope_call.h"
#include "compat/store.h"
#include "store/call.h"
#include "store/reply.h"

#define ROW 128 /* what a row of a list takes besides its texts */

struct listing {
	union store_answer fn;
	void *arg;
	uint64_t bytes;	       /* of all rows so far */
	struct text_set names; /* of agents that were told of: a scan may come to one twice */
	bool telling;	       /* of a batch; the next one is asked for, */
	int failed;	       /* and could not be */
};

static struct listing *new_listing(struct store *store, union store_answer fn, void *arg)
{
	struct listing *l = malloc(sizeof(*l));

	if (l)
		*l = (struct listing){ .fn = fn,
				       .arg = arg,
				       .names = { .seed = store->hub->seed } };
	return l;
}

static void end(struct listing *l)
{
	text_set_fini(&l->names);
	free(l);
}

/* Counts a row. Whether the list is still as short as it may be. */
static bool has_room(struct listing *l, const struct store *store, uint64_t len)
{
	l->bytes += ROW + len;
	return l->bytes <= store->hub->config.max_list;
}

typedef void tell_fn(struct listing *l, int result, const void *found);

typedef void send_fn(const struct store_call *call, size_t n, struct store_text *args);

/* Tells of a batch. next: the arguments of the call for the next one, n of them, for send; NULL:
 * there is none. */
static void tell(const struct store_call *call, int result, const void *found, send_fn *send,
		 size_t n, struct store_text *next, tell_fn *fn)
{
	struct listing *l = call->arg;
	bool more = next;

	l->telling = true;
	if (more)
		send(call, n, next);
	fn(l, result, found);
	l->telling = false;
	if (l->failed)
		fn(l, l->failed, NULL);
	if (!more || l->failed)
		end(l);
}

/* Calls that are completed from inside of sending. */
static bool has_failed_at_once(struct listing *l, int result)
{
	if (l->telling)
		l->failed = result;
	return l->telling;
}

/* ---- entities ---- */

#define BEHIND 5 /* argument of entity_list */

static void tell_entities(struct listing *l, int result, const void *found)
{
	((store_entities_fn *)l->fn.other)(l->arg, result, found);
}

static int read_entities(struct listing *l, const struct store *store, const redisReply *reply,
			 struct store_entities *found, struct store_text **infos)
{
	const redisReply *rows = store_item(reply, 1, REDIS_REPLY_ARRAY);

	if (!rows)
		return -EPROTO;
	*infos = calloc(rows->elements + 1, sizeof(**infos));
	if (!*infos)
		return -ENOMEM;
	for (size_t i = 0; i < rows->elements; i++) {
		(*infos)[i] = store_text_at(rows, i);
		if (!has_room(l, store, (*infos)[i].len))
			return STORE_TOO_LARGE;
	}
	found->n = rows->elements;
	found->info = *infos;
	return STORE_OK;
}

/* {outcome, {info, ...}, skipped, the member to go on behind} */
static void finish_entities(struct store_call *call, int result, const redisReply *reply)
{
	struct store_text *infos = NULL, *next = NULL, behind;
	struct listing *l = call->arg;
	struct store_entities found = { .n = 0 };
	size_t n = 0;

	if (has_failed_at_once(l, result))
		return;
	store_note_skipped(call, reply);
	if (result == STORE_OK)
		result = read_entities(l, call->store, reply, &found, &infos);
	behind = store_text_at(reply, 3);
	if (result == STORE_OK && behind.len) {
		next = store_call_args(call, 0, &n);
		if (next)
			next[BEHIND] = behind;
		else
			result = -ENOMEM;
	}
	found.more = next;
	tell(call, result, result == STORE_OK ? &found : NULL, store_send_on, n, next,
	     tell_entities);
	free(infos);
}

void store_list_entities(struct store *store, struct store_text scope, struct store_text type,
			 struct store_text kind, store_entities_fn *fn, void *arg)
{
	union store_answer answer = { .other = (void (*)(void))fn };
	struct listing *l = new_listing(store, answer, arg);
	struct store_args a = { .n = 0 };

	if (!l) {
		fn(arg, -ENOMEM, NULL);
		return;
	}
	store_arg_text(&a, scope);
	store_arg_text(&a, type);
	store_arg_text(&a, kind);
	store_arg(&a, type.at ? "1" : "0");
	store_arg(&a, kind.at ? "1" : "0");
	store_arg(&a, "");
	store_send_in_scope(store, scope, &compat_scripts[COMPAT_ENTITY_LIST], (size_t)a.n, a.v,
			    finish_entities, answer, l);
}

/* ---- agents ---- */

#define PLACE 1 /* arguments of peer_list */
#define NAMES 2

static void tell_peers(struct listing *l, int result, const void *found)
{
	((store_peer_list_fn *)l->fn.other)(l->arg, result, found);
}

/* {name, addr, device, ib_port, link_type, resource, topology, memory_keys} */
static uint64_t read_peer(const redisReply *row, struct store_peer *p)
{
	uint64_t len = 0;

	*p = (struct store_peer){ store_text_at(row, 0), store_text_at(row, 1),
				  store_text_at(row, 2), store_text_at(row, 3),
				  store_text_at(row, 4), store_text_at(row, 5),
				  store_text_at(row, 6), store_text_at(row, 7) };
	for (size_t i = 0; i < 8; i++)
		len += store_text_at(row, i).len;
	return len;
}

/* several: there are other batches, and some are twice. */
static int read_peers(struct listing *l, const struct store *store, const redisReply *reply,
		      bool several, struct store_peer_list *found, struct store_peer **peers)
{
	const redisReply *rows = store_item(reply, 1, REDIS_REPLY_ARRAY);

	if (!rows)
		return -EPROTO;
	*peers = calloc(rows->elements + 1, sizeof(**peers));
	if (!*peers)
		return -ENOMEM;
	for (size_t i = 0; i < rows->elements; i++) {
		struct store_peer *p = &(*peers)[found->n];
		uint64_t len = read_peer(rows->element[i], p);
		int is_new = several ? text_set_add(&l->names, p->name.at, p->name.len) : 1;

		if (is_new < 0)
			return is_new;
		if (is_new && !has_room(l, store, len))
			return STORE_TOO_LARGE;
		found->n += (size_t)is_new;
	}
	found->peers = *peers;
	return STORE_OK;
}

/* For the next batch; NULL without memory. */
static struct store_text *next_peers(const struct store_call *call, struct store_text place,
				     const redisReply *names, size_t *n)
{
	size_t n_names = names ? names->elements : 0;
	struct store_text *args = store_call_args(call, n_names, n);

	if (!args)
		return NULL;
	args[PLACE] = place;
	for (size_t i = 0; i < n_names; i++)
		args[NAMES + i] = store_text_at(names, i);
	*n = NAMES + n_names;
	return args;
}

/* {outcome, {row, ...}, skipped, the place to scan on from, {name, ...}} */
static void finish_peers(struct store_call *call, int result, const redisReply *reply)
{
	const redisReply *names = store_item(reply, 4, REDIS_REPLY_ARRAY);
	struct store_text place = store_text_at(reply, 3), *next = NULL;
	bool more = place.len || (names && names->elements);
	struct listing *l = call->arg;
	struct store_peer_list found = { .n = 0 };
	struct store_peer *peers = NULL;
	size_t n = 0;

	if (has_failed_at_once(l, result))
		return;
	store_note_skipped(call, reply);
	if (result == STORE_OK)
		result = read_peers(l, call->store, reply, more || l->names.n, &found, &peers);
	if (result == STORE_OK && more) {
		next = next_peers(call, place, names, &n);
		if (!next)
			result = -ENOMEM;
	}
	found.more = next;
	tell(call, result, result == STORE_OK ? &found : NULL,
	     place.len ? store_scan_on : store_send_on, n, next, tell_peers);
	free(peers);
}

void store_list_peers(struct store *store, struct store_text scope, store_peer_list_fn *fn,
		      void *arg)
{
	const struct store_text args[] = { scope, [PLACE] = { "", 0 } };
	union store_answer answer = { .other = (void (*)(void))fn };
	struct listing *l = new_listing(store, answer, arg);

	if (!l) {
		fn(arg, -ENOMEM, NULL);
		return;
	}
	store_send_in_scope(store, scope, &compat_scripts[COMPAT_PEER_LIST], NAMES, args,
			    finish_peers, answer, l);
}
