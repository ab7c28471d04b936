/* SPDX-License-Identifier: Apache-2.0 */
#include "mooncake/directory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/loopback.h"
#include "mooncake/place.h"
#include "store/call.h"
#include "store/redis_store.h"
#include "store/reply.h"

typedef void any_fn(void);

static void send_script(struct store *store, enum script_id script, const struct store_args *args,
			store_finish_fn *finish, any_fn *fn, void *arg)
{
	char prefix[sizeof(store->hub->keys.root) + 32];
	int len = snprintf(prefix, sizeof(prefix), "%snanoctrl:mooncake:", store->hub->keys.root);

	store_send_prefixed(store, (struct store_text){ prefix, (size_t)len }, &scripts[script],
			    (size_t)args->n, args->v, finish, (union store_answer){ .other = fn },
			    arg);
}

static bool keep(char *to, size_t room, const char *from)
{
	return (size_t)snprintf(to, room, "%s", from) < room;
}

bool mooncake_keep_owner(struct mooncake_kept_owner *kept, const struct mooncake_owner *owner)
{
	bool engine = keep(kept->engine, sizeof(kept->engine), owner->engine);
	bool address = keep(kept->address, sizeof(kept->address), owner->address);
	bool id = keep(kept->id, sizeof(kept->id), owner->id);

	kept->owner = *owner;
	kept->owner.engine = kept->engine;
	kept->owner.address = kept->address;
	kept->owner.id = kept->id;
	return engine && address && id;
}

static void add_key(struct store_args *a, const struct mooncake_key *key)
{
	store_arg(a, key->engine);
	store_arg(a, mooncake_field_name(key->field));
}

/* {address, port, id} from element i on; false for junk. */
static bool read_owner(const redisReply *reply, size_t i, struct mooncake_owner *out)
{
	uint64_t port;

	out->address = store_string(reply, i, NULL);
	out->id = store_string(reply, i + 2, NULL);
	if (!*out->address || !*out->id || !store_u64(reply, i + 1, &port) || !port ||
	    port > UINT16_MAX)
		return false;
	out->port = (uint16_t)port;
	return true;
}

/* {outcome, address, port, id, whether it is of the same place, whether it may be probed} */
static void finish_put(struct store_call *call, int result, const redisReply *reply)
{
	directory_put_fn *fn = (directory_put_fn *)call->fn.other;
	struct mooncake_owner other = { .address = "" };
	uint64_t is_here = 0, may_probe = 0;

	/* An owner whose row is damaged is not probed: it has the name until it is deleted. */
	if (result == STORE_NAME_TAKEN && read_owner(reply, 1, &other) &&
	    store_u64(reply, 4, &is_here) && store_u64(reply, 5, &may_probe)) {
		other.is_here = is_here;
		other.may_probe = may_probe;
	}
	fn(call->arg, result, &other);
}

void directory_put(struct store *store, const struct mooncake_key *key, struct store_text value,
		   const struct mooncake_owner *owner, directory_put_fn *fn, void *arg)
{
	struct store_args a = { .n = 0 };

	add_key(&a, key);
	store_arg_text(&a, value);
	store_arg_number(&a, MOONCAKE_ENGINES_MAX);
	if (key->field == MOONCAKE_RPC_META) {
		store_arg(&a, owner->address);
		store_arg_number(&a, owner->port);
		store_arg(&a, sl_is_loopback_address(owner->address) ? mooncake_place() : "");
		store_arg(&a, owner->id);
		store_arg_number(&a, MOONCAKE_PERIOD_MS);
		store_arg_number(&a, MOONCAKE_FIRST_MS);
	}
	send_script(store, SCRIPT_MOONCAKE_PUT, &a, finish_put, (any_fn *)fn, arg);
}

/* {outcome, value} */
static void finish_get(struct store_call *call, int result, const redisReply *reply)
{
	directory_get_fn *fn = (directory_get_fn *)call->fn.other;
	struct store_text value = { "", 0 };

	if (result == STORE_OK)
		value = store_text_at(reply, 1);
	fn(call->arg, result, value);
}

void directory_get(struct store *store, const struct mooncake_key *key, directory_get_fn *fn,
		   void *arg)
{
	struct store_args a = { .n = 0 };

	add_key(&a, key);
	send_script(store, SCRIPT_MOONCAKE_GET, &a, finish_get, (any_fn *)fn, arg);
}

/* A store_done_fn. */
static void finish_delete(struct store_call *call, int result, const redisReply *reply)
{
	(void)reply;
	((store_done_fn *)call->fn.other)(call->arg, result);
}

void directory_delete(struct store *store, const struct mooncake_key *key, store_done_fn *fn,
		      void *arg)
{
	struct store_args a = { .n = 0 };

	add_key(&a, key);
	send_script(store, SCRIPT_MOONCAKE_DELETE, &a, finish_delete, (any_fn *)fn, arg);
}

/* {engine, address, port, id, seen} */
static bool read_due(const redisReply *row, struct mooncake_owner *out)
{
	*out = (struct mooncake_owner){ .engine = store_string(row, 0, NULL),
					.seen = *store_string(row, 4, NULL) != '\0' };
	return *out->engine && read_owner(row, 1, out);
}

/* {outcome, {row, ...}} */
static void finish_due(struct store_call *call, int result, const redisReply *reply)
{
	directory_due_fn *fn = (directory_due_fn *)call->fn.other;
	const redisReply *rows = store_item(reply, 1, REDIS_REPLY_ARRAY);
	struct mooncake_owner *owners = NULL;
	size_t n = 0;

	if (result == STORE_OK && !rows)
		result = -EPROTO;
	if (result == STORE_OK && rows->elements) {
		owners = calloc(rows->elements, sizeof(*owners));
		if (!owners)
			result = -ENOMEM;
	}
	for (size_t i = 0; owners && i < rows->elements; i++) {
		if (read_due(rows->element[i], &owners[n]))
			n++;
		else
			atomic_fetch_add(&call->store->hub->n_skipped, 1);
	}
	fn(call->arg, result, owners, n);
	free(owners);
}

void directory_due(struct store *store, unsigned n, directory_due_fn *fn, void *arg)
{
	struct store_args a = { .n = 0 };

	store_arg_number(&a, MOONCAKE_PERIOD_MS);
	store_arg_number(&a, n);
	store_arg(&a, mooncake_place());
	send_script(store, SCRIPT_MOONCAKE_DUE, &a, finish_due, (any_fn *)fn, arg);
}

/* {outcome, whether it was removed} */
static void finish_probed(struct store_call *call, int result, const redisReply *reply)
{
	directory_probed_fn *fn = (directory_probed_fn *)call->fn.other;
	uint64_t removed = 0;

	if (result == STORE_OK && !store_u64(reply, 1, &removed))
		result = -EPROTO;
	fn(call->arg, result, removed);
}

void directory_probed(struct store *store, const struct mooncake_owner *owner, bool alive,
		      directory_probed_fn *fn, void *arg)
{
	struct store_args a = { .n = 0 };

	store_arg(&a, owner->engine);
	store_arg(&a, owner->id);
	store_arg(&a, alive ? "alive" : "refused");
	store_arg(&a, owner->seen ? "1" : "");
	send_script(store, SCRIPT_MOONCAKE_PROBED, &a, finish_probed, (any_fn *)fn, arg);
}
