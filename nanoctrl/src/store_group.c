/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registrations and heartbeats of entities come by the thousand, and a script of its own for each
 * costs Redis several times what the change does. So one call of such a script is under way at a
 * time, and what comes meanwhile goes together in the next. Each is answered by itself; what an
 * error ends has not been done for any of them, since Redis refuses the first write of a script or
 * none.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "store_redis.h"

#define MEMBERS_MAX 64
#define BYTES_MAX   65536 /* of a call's arguments; a longer member goes alone */
#define ARGS_MAX    9

static const struct {
	enum script_id script;
	size_t n_args; /* of a member */
} kinds[STORE_GROUPS] = {
	[STORE_GROUP_BEAT] = { SCRIPT_ENTITY_BEAT, 3 },
	[STORE_GROUP_PUT] = { SCRIPT_ENTITY_PUT, ARGS_MAX },
};

struct member {
	struct sl_list node;
	store_done_fn *fn;
	void *arg;
	size_t len;
	struct store_text scope;
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

void store_group_add(struct store *store, enum store_group_id id, struct store_text scope,
		     const struct store_args *args, store_done_fn *fn, void *arg)
{
	size_t len = scope.len;
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
	m->scope = keep(&bytes, scope);
	for (int i = 0; i < args->n; i++)
		m->v[i] = keep(&bytes, args->v[i]);
	sl_list_append(&store->groups[id].waiting, &m->node);
	event_active(store->turn, EV_TIMEOUT, 0);
}

static void end_member(struct store *store, struct member *m, int result)
{
	if (result != STORE_OK) {
		written_forget(store->hub, m->scope, m->v[0], m->v[1]);
		noted_forget(store->hub, m->scope, m->v[0], m->v[1]);
	}
	m->fn(m->arg, result);
	free(m);
}

static void send_group(struct store *store, struct store_group *g);

/* {outcome, a digit for each}. What waits goes first: Redis works while these are answered. */
static void finish_group(struct store_call *call, int result, const redisReply *reply)
{
	struct store_text words = store_text_at(reply, 1);
	struct store_group *g = call->arg;
	struct store *store = call->store;
	struct sl_list done, *e;

	sl_list_init(&done);
	sl_list_splice(&done, &g->sent);
	if (!sl_list_empty(&g->waiting))
		send_group(store, g);
	for (size_t i = 0; (e = sl_list_pop(&done)); i++) {
		int own = result;

		if (result == STORE_OK)
			own = i < words.len && words.at[i] >= '0' && words.at[i] <= '9'
				      ? words.at[i] - '0'
				      : -EPROTO;
		end_member(store, SL_CONTAINER_OF(e, struct member, node), own);
	}
}

static bool same_scope(struct store_text a, struct store_text b)
{
	return a.len == b.len && memcmp(a.at, b.at, a.len) == 0;
}

/* Moves those of the first one's scope, as many as fit, from the waiting to the sent; how many
 * arguments they have. */
static size_t gather(struct store_group *g, size_t n_args, struct store_text scope,
		     struct store_text *args)
{
	size_t n = 0, len = 0;
	struct sl_list *e, *tmp;

	sl_list_for_each_safe (e, tmp, &g->waiting) {
		struct member *m = SL_CONTAINER_OF(e, struct member, node);

		if (!same_scope(m->scope, scope))
			continue;
		len += m->len;
		if (n == MEMBERS_MAX || (n && len > BYTES_MAX))
			break;
		memcpy(args + n++ * n_args, m->v, n_args * sizeof(*args));
		sl_list_remove(&m->node);
		sl_list_append(&g->sent, &m->node);
	}
	return n * n_args;
}

static void send_group(struct store *store, struct store_group *g)
{
	enum store_group_id id = (enum store_group_id)(g - store->groups);
	struct store_text scope = SL_CONTAINER_OF(g->waiting.next, struct member, node)->scope;
	struct store_text args[2 + ARGS_MAX * MEMBERS_MAX];
	struct store_args head = { .n = 0 };
	size_t n;

	store_arg_text(&head, scope);
	store_arg_number(&head, STORE_COMPAT_TTL_MS);
	memcpy(args, head.v, 2 * sizeof(*args));
	n = gather(g, kinds[id].n_args, scope, args + 2);
	store_send_in_scope(store, scope, kinds[id].script, 2 + n, args, finish_group,
			    (union store_answer){ .done = NULL }, g);
}

void store_flush_groups(struct store *store)
{
	for (unsigned id = 0; id < STORE_GROUPS; id++) {
		struct store_group *g = &store->groups[id];

		if (sl_list_empty(&g->sent) && !sl_list_empty(&g->waiting))
			send_group(store, g);
	}
}

bool store_groups_empty(const struct store *store)
{
	for (unsigned id = 0; id < STORE_GROUPS; id++)
		if (!sl_list_empty(&store->groups[id].sent) ||
		    !sl_list_empty(&store->groups[id].waiting))
			return false;
	return true;
}
