/* SPDX-License-Identifier: Apache-2.0 */
#include "compat/entity.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "compat/scope_call.h"
#include "compat/store.h"
#include "store/call.h"
#include "store/reaper.h"
#include "store/reply.h"

static void send_in_scope(struct store *store, struct store_text scope, const struct script *script,
			  const struct store_args *a, store_finish_fn *finish,
			  union store_answer fn, void *arg)
{
	store_send_in_scope(store, scope, script, (size_t)a->n, a->v, finish, fn, arg);
}

static void arg_name(struct store_args *a, const struct store_entity_id *name)
{
	store_arg_text(a, name->scope);
	store_arg_text(a, name->type);
	store_arg_text(a, name->id);
}

void store_put_entity(struct store *store, const struct store_entity_id *name,
		      const struct store_entity *e, store_done_fn *fn, void *arg)
{
	struct store_args a = { .n = 0 };

	written_expect(store->hub, name->scope, name->type, name->id);
	store_arg_text(&a, name->id);
	store_arg_text(&a, e->kind);
	store_arg_text(&a, e->endpoint);
	store_arg_text(&a, e->metadata);
	store_arg_text(&a, e->resource);
	store_arg_text(&a, e->info);
	store_arg_text(&a, e->event);
	store_group_add(store, STORE_GROUP_PUT, name, &a, fn, arg);
}

void store_beat_entity(struct store *store, const struct store_entity_id *name, store_done_fn *fn,
		       void *arg)
{
	struct store_args a = { .n = 0 };

	store_arg_text(&a, name->id);
	store_group_add(store, STORE_GROUP_BEAT, name, &a, fn, arg);
}

void store_delete_entity(struct store *store, const struct store_entity_id *name, store_done_fn *fn,
			 void *arg)
{
	struct store_args a = { .n = 0 };

	arg_name(&a, name);
	send_in_scope(store, name->scope, &compat_scripts[COMPAT_ENTITY_DELETE], &a,
		      store_finish_done, (union store_answer){ .done = fn }, arg);
}

/* {outcome, {info, ...}, skipped} */
static void finish_entities(struct store_call *call, int result, const redisReply *reply)
{
	const redisReply *rows = store_item(reply, 1, REDIS_REPLY_ARRAY);
	struct store_entities found = { .n = 0 };
	struct store_text *info = NULL;

	store_note_skipped(call, reply);
	if (result == STORE_OK && !rows)
		result = -EPROTO;
	if (result == STORE_OK && rows->elements) {
		info = calloc(rows->elements, sizeof(*info));
		if (!info)
			result = -ENOMEM;
	}
	for (size_t i = 0; result == STORE_OK && i < rows->elements; i++) {
		info[i].at = store_string(rows, i, &info[i].len);
		found.n++;
	}
	found.info = info;
	((store_entities_fn *)call->fn.other)(call->arg, result,
					      result == STORE_OK ? &found : NULL);
	free(info);
}

void store_get_entity(struct store *store, const struct store_entity_id *name,
		      store_entities_fn *fn, void *arg)
{
	struct store_args a = { .n = 0 };

	arg_name(&a, name);
	send_in_scope(store, name->scope, &compat_scripts[COMPAT_ENTITY_GET], &a, finish_entities,
		      (union store_answer){ .other = (void (*)(void))fn }, arg);
}

/* The kind of a sweep. */
struct sweep {
	const struct script *script;
	const char *what;
	bool *sweeping;
	_Atomic uint64_t *n_ended;
	struct ended *ended;
};

static struct sweep peers_of(struct store *store)
{
	return (struct sweep){ &compat_scripts[COMPAT_PEER_SWEEP], "agents of DLSlime's",
			       &store->compat->sweeping_peers, &store->hub->compat->n_peers_ended,
			       &store->compat->peers_ended };
}

static struct sweep entities_of(struct store *store)
{
	return (struct sweep){ &compat_scripts[COMPAT_ENTITY_SWEEP], "entities of DLSlime's",
			       &store->compat->sweeping_entities,
			       &store->hub->compat->n_entities_ended,
			       &store->compat->entities_ended };
}

static void sweep(struct store *store, const struct sweep *s);

/* {outcome, ended, skipped, more, {name of one that ended, ...}} */
static void finish_sweep(struct store_call *call, int result, const redisReply *reply)
{
	struct store *store = call->store;
	struct sweep s = call->script == &compat_scripts[COMPAT_PEER_SWEEP] ? peers_of(store)
									    : entities_of(store);
	uint64_t ended = 0, more = 0;

	store_note_skipped(call, reply);
	*s.sweeping = false;
	if (result == STORE_OK && store_u64(reply, 1, &ended) && store_u64(reply, 3, &more)) {
		ended_add(s.ended, ended, store_item(reply, 4, REDIS_REPLY_ARRAY));
		atomic_fetch_add(s.n_ended, ended);
	}
	if (more && !store->closing)
		sweep(store, &s);
	else
		ended_log(s.ended, "", s.what);
}

/* Those that ended together are many: the rest comes at once, and others come in between. */
static void sweep(struct store *store, const struct sweep *s)
{
	struct store_args a = { .n = 0 };

	if (*s->sweeping)
		return;
	*s->sweeping = true;
	if (s->script == &compat_scripts[COMPAT_PEER_SWEEP])
		store_arg_number(
			&a, reaper_time_after(store->reaper, store->hub->config.compat_hold_ms));
	store_send_prefixed(store, (struct store_text){ "", 0 }, s->script, (size_t)a.n, a.v,
			    finish_sweep, (union store_answer){ .done = NULL }, NULL);
}

void store_sweep_compat(struct store *store)
{
	struct sweep entities = entities_of(store), peers = peers_of(store);

	sweep(store, &entities);
	sweep(store, &peers);
}
