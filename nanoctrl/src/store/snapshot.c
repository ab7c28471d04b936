/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots of agents: docs/redis-keys.md. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "store/call.h"
#include "store/redis_store.h"
#include "store/reply.h"
#include "store/snapshot.h"

#define PAGE_BYTES  (1024 * 1024)
#define DOC_BYTES   (512 * 1024) /* a longer one is left out of lists */
#define SWEEP_BATCH 32

/* A client that names no scope is in the native scope "default", and in none of DLSlime's. */
struct store_text store_snapshot_scope(const char *scope)
{
	size_t len = strcmp(scope, "default") == 0 ? 0 : strlen(scope);

	return (struct store_text){ scope, len };
}

static const struct store_text snapshot_word = { "obs:peer", 8 };

static void finish_put_snapshot(struct store_call *call, int result, const redisReply *reply)
{
	struct store_hub *hub = call->store->hub;

	if (result != STORE_OK && hub->hooks)
		hub->hooks->forget_write(hub, store_call_arg(call, 2), snapshot_word,
					 store_call_arg(call, 3));
	store_finish_done(call, result, reply);
}

void store_put_snapshot(struct store *store, const char *scope, const struct store_lease *lease,
			struct store_text doc, uint32_t ttl_ms, store_done_fn *fn, void *arg)
{
	struct store_text name = { lease->agent, strlen(lease->agent) };
	struct store_args a = { .n = 0 };

	if (store->hub->hooks)
		store->hub->hooks->expect_write(store->hub, store_snapshot_scope(scope),
						snapshot_word, name);
	store_arg_text(&a, store_snapshot_scope(scope));
	store_arg_lease(&a, lease);
	store_arg_number(&a, ttl_ms);
	store_arg_text(&a, doc);
	store_send(store, scope, &scripts[SCRIPT_SNAPSHOT_PUT], &a, finish_put_snapshot,
		   (union store_answer){ .done = fn }, arg);
}

/* The memory that a page points to. */
struct documents {
	struct store_text *docs;
	struct store_agent *owners;
	enum store_registered *registered;
};

static enum store_registered registered_of(struct store_text word)
{
	if (word.len != 1)
		return STORE_REGISTERED_UNKNOWN;
	return *word.at == '1' ? STORE_REGISTERED_YES : STORE_REGISTERED_NO;
}

/* {outcome, now, next, skipped, {document, ...}, {{agent, its labels, lease}, ...}} */
static int read_snapshots(const struct store_call *call, const redisReply *reply,
			  struct store_snapshots *page, struct documents *d)
{
	const redisReply *rows = store_item(reply, 4, REDIS_REPLY_ARRAY);
	const redisReply *owners = store_item(reply, 5, REDIS_REPLY_ARRAY);
	uint64_t skipped;

	if (!rows || !owners || owners->elements != rows->elements ||
	    !store_u64(reply, 1, &page->now_ms) || !store_u64(reply, 3, &skipped))
		return -EPROTO;
	page->next = store_text_at(reply, 2);
	d->docs = calloc(rows->elements + 1, sizeof(*d->docs));
	d->owners = calloc(rows->elements + 1, sizeof(*d->owners));
	d->registered = calloc(rows->elements + 1, sizeof(*d->registered));
	if (!d->docs || !d->owners || !d->registered)
		return -ENOMEM;
	for (size_t i = 0; i < rows->elements; i++) {
		d->docs[i] = store_text_at(rows, i);
		d->owners[i].name = store_string(owners->element[i], 0, NULL);
		d->owners[i].profile.labels = store_text_at(owners->element[i], 1);
		d->registered[i] = registered_of(store_text_at(owners->element[i], 2));
	}
	page->n = rows->elements;
	page->docs = d->docs;
	page->owners = d->owners;
	page->registered = d->registered;
	atomic_fetch_add(&call->store->hub->n_skipped, skipped);
	return 0;
}

static void finish_snapshots(struct store_call *call, int result, const redisReply *reply)
{
	struct store_snapshots page = { .n = 0 };
	struct documents d = { .docs = NULL };

	if (!result)
		result = read_snapshots(call, reply, &page, &d);
	call->fn.snapshots(call->arg, result, result ? NULL : &page);
	free(d.docs);
	free(d.owners);
	free(d.registered);
}

static struct store_text root_of(const struct store *store)
{
	const char *root = store->hub->keys.root;

	return (struct store_text){ root, strlen(root) };
}

void store_list_snapshots(struct store *store, struct store_text scope, struct store_text after,
			  unsigned limit, bool labels, store_snapshots_fn *fn, void *arg)
{
	static const char word[] = "default";
	struct store_text native = { word, sizeof(word) - 1 };
	struct store_args a = { .n = 0 };

	if (scope.len == native.len && !memcmp(scope.at, word, scope.len))
		scope.len = 0;
	if (scope.len)
		native = scope;
	store_arg_text(&a, scope);
	store_arg_text(&a, after);
	store_arg_number(&a, limit);
	store_arg_number(&a, PAGE_BYTES);
	store_arg_number(&a, DOC_BYTES);
	store_arg_text(&a, native);
	store_arg_number(&a, labels);
	store_send_prefixed(store, root_of(store), &scripts[SCRIPT_SNAPSHOT_LIST], (size_t)a.n, a.v,
			    finish_snapshots, (union store_answer){ .snapshots = fn }, arg);
}

void store_sweep_snapshots(struct store *store)
{
	struct store_args a = { .n = 0 };

	store_arg_number(&a, SWEEP_BATCH);
	store_send_prefixed(store, root_of(store), &scripts[SCRIPT_SNAPSHOT_SWEEP], (size_t)a.n,
			    a.v, store_finish_done, (union store_answer){ .done = NULL }, NULL);
}
