/* SPDX-License-Identifier: Apache-2.0 */
#include "compat/group.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "compat/scope_call.h"
#include "compat/store.h"
#include "store/call.h"
#include "store/reply.h"

#define MEMBERS_MAX 64
#define BYTES_MAX   65536 /* of a call's arguments; a longer member goes alone */
#define HEAD	    4	  /* scope, ttl, type, which are due */
#define ARGS_MAX    7

static const struct {
	const struct script *script;
	size_t n_args; /* of a member, the first is its id */
	int refused;   /* the result for members that the script names */
} kinds[STORE_GROUPS] = {
	[STORE_GROUP_BEAT] = { &compat_scripts[COMPAT_ENTITY_BEAT], 1, STORE_NOT_FOUND },
	[STORE_GROUP_PUT] = { &compat_scripts[COMPAT_ENTITY_PUT], ARGS_MAX, STORE_NAME_TAKEN },
};

struct member {
	struct sl_list node;
	store_done_fn *fn;
	void *arg;
	size_t len;
	struct store_text scope, type;
	bool due;
	struct store_text v[ARGS_MAX];
	char bytes[]; /* what they point to */
};

static struct store_text keep(char **bytes, struct store_text text)
{
	struct store_text kept = { *bytes, text.len };

	if (text.len)
		memcpy(*bytes, text.at, text.len);
	*bytes += text.len;
	return kept;
}

void store_group_add(struct store *store, enum store_group_id id,
		     const struct store_entity_id *name, const struct store_args *args,
		     store_done_fn *fn, void *arg)
{
	size_t len = name->scope.len + name->type.len;
	struct member *m;
	char *bytes;

	for (int i = 0; i < args->n; i++)
		len += args->v[i].len;
	m = malloc(sizeof(*m) + len);
	if (!m) {
		fn(arg, -ENOMEM);
		return;
	}
	*m = (struct member){ .fn = fn, .arg = arg, .len = len };
	bytes = m->bytes;
	m->scope = keep(&bytes, name->scope);
	m->type = keep(&bytes, name->type);
	m->due = noted_is_due(store->hub, name->scope, name->type, name->id);
	for (int i = 0; i < args->n; i++)
		m->v[i] = keep(&bytes, args->v[i]);
	sl_list_append(&store->compat->groups[id].waiting, &m->node);
	event_active(store->turn, EV_TIMEOUT, 0);
}

static void end_member(struct store *store, struct member *m, int result)
{
	if (result != STORE_OK) {
		written_forget(store->hub, m->scope, m->type, m->v[0]);
		noted_forget(store->hub, m->scope, m->type, m->v[0]);
	}
	m->fn(m->arg, result);
	free(m);
}

static void send_group(struct store *store, struct store_group *g);

/* Whether what follows the outcome are places of members, in order. */
static bool are_places(const redisReply *reply, size_t n_members)
{
	uint64_t last = 0, place;

	for (size_t i = 1; reply->type == REDIS_REPLY_ARRAY && i < reply->elements; i++) {
		if (!store_u64(reply, i, &place) || place <= last || place > n_members)
			return false;
		last = place;
	}
	return true;
}

/* The outcome, or {outcome, the place of each that is refused}. What waits goes first: Redis works
 * while these are answered. */
static void finish_group(struct store_call *call, int result, const redisReply *reply)
{
	struct store_group *g = call->arg;
	struct store *store = call->store;
	int refused = kinds[g - store->compat->groups].refused;
	struct sl_list done, *e;
	uint64_t place;
	size_t next = 1;

	if (result == STORE_OK && !are_places(reply, g->n_sent))
		result = -EPROTO;
	sl_list_init(&done);
	sl_list_splice(&done, &g->sent);
	if (!sl_list_empty(&g->waiting))
		send_group(store, g);
	for (size_t i = 1; (e = sl_list_pop(&done)); i++) {
		bool named = result == STORE_OK && store_u64(reply, next, &place) && place == i;

		next += named;
		end_member(store, SL_CONTAINER_OF(e, struct member, node),
			   named ? refused : result);
	}
}

static bool same(struct store_text a, struct store_text b)
{
	return a.len == b.len && memcmp(a.at, b.at, a.len) == 0;
}

/* The contents of one call. */
struct batch {
	struct store_text args[HEAD + ARGS_MAX * MEMBERS_MAX];
	char due[MEMBERS_MAX]; /* a digit for each */
	bool any_due;
	size_t n; /* members */
};

/* Moves those of the first one's scope and type, as many as fit, from the waiting to the sent. */
static void gather(struct store_group *g, size_t n_args, const struct member *first,
		   struct batch *b)
{
	size_t len = 0;
	struct sl_list *e, *tmp;

	sl_list_for_each_safe (e, tmp, &g->waiting) {
		struct member *m = SL_CONTAINER_OF(e, struct member, node);

		if (!same(m->scope, first->scope) || !same(m->type, first->type))
			continue;
		len += m->len;
		if (b->n == MEMBERS_MAX || (b->n && len > BYTES_MAX))
			break;
		memcpy(b->args + HEAD + b->n * n_args, m->v, n_args * sizeof(*m->v));
		b->due[b->n++] = m->due ? '1' : '0';
		b->any_due |= m->due;
		sl_list_remove(&m->node);
		sl_list_append(&g->sent, &m->node);
	}
}

static void send_group(struct store *store, struct store_group *g)
{
	enum store_group_id id = (enum store_group_id)(g - store->compat->groups);
	const struct member *first = SL_CONTAINER_OF(g->waiting.next, struct member, node);
	struct store_text scope = first->scope;
	struct store_args head = { .n = 0 };
	struct batch b;

	b.any_due = false;
	b.n = 0;
	gather(g, kinds[id].n_args, first, &b);
	g->n_sent = b.n;
	store_arg_text(&head, scope);
	store_arg_number(&head, STORE_COMPAT_TTL_MS);
	store_arg_text(&head, first->type);
	store_arg_text(&head, (struct store_text){ b.due, b.any_due ? b.n : 0 });
	memcpy(b.args, head.v, sizeof(*b.args) * HEAD);
	store_send_in_scope(store, scope, kinds[id].script, HEAD + b.n * kinds[id].n_args, b.args,
			    finish_group, (union store_answer){ .done = NULL }, g);
}

void store_flush_groups(struct store *store)
{
	for (unsigned id = 0; id < STORE_GROUPS; id++) {
		struct store_group *g = &store->compat->groups[id];

		if (sl_list_empty(&g->sent) && !sl_list_empty(&g->waiting))
			send_group(store, g);
	}
}

bool store_groups_empty(const struct store *store)
{
	for (unsigned id = 0; id < STORE_GROUPS; id++)
		if (!sl_list_empty(&store->compat->groups[id].sent) ||
		    !sl_list_empty(&store->compat->groups[id].waiting))
			return false;
	return true;
}
