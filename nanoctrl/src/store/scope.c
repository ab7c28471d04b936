/* SPDX-License-Identifier: Apache-2.0 */
/* The scopes that there are. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "store/call.h"
#include "store/redis_store.h"
#include "store/reply.h"

/* A scope takes n elements of rows: its name, and how many agents and topologies it has. */
static int read_scopes(struct store_call *call, const redisReply *rows, size_t n,
		       struct store_scope **out, size_t *n_out)
{
	if (!rows)
		return -EPROTO;
	*out = calloc(rows->elements / n + 1, sizeof(**out));
	if (!*out)
		return -ENOMEM;
	for (size_t i = 0; i + n <= rows->elements; i += n) {
		struct store_scope *s = &(*out)[*n_out];
		size_t len;

		s->name = store_string(rows, i, &len);
		if (strlen(s->name) != len || !key_scope_valid(s->name) ||
		    (n > 1 && (!store_u64(rows, i + 1, &s->n_agents) ||
			       !store_u64(rows, i + 2, &s->n_topologies))))
			atomic_fetch_add(&call->store->hub->n_skipped, 1);
		else
			++*n_out;
	}
	return 0;
}

static void tell(struct store_call *call, int result, const redisReply *rows, size_t n,
		 const char *next)
{
	struct store_scope *scopes = NULL;
	size_t n_scopes = 0;

	if (result == STORE_OK)
		result = read_scopes(call, rows, n, &scopes, &n_scopes);
	call->fn.scopes(call->arg, result, scopes, n_scopes, next);
	free(scopes);
}

/* {outcome, next, {scope, agents, topologies, ...}} */
static void finish_list(struct store_call *call, int result, const redisReply *reply)
{
	const char *next = store_string(reply, 1, NULL);

	tell(call, result, store_item(reply, 2, REDIS_REPLY_ARRAY), 3, *next ? next : "0");
}

/* {outcome, {scope, ...}} */
static void finish_some(struct store_call *call, int result, const redisReply *reply)
{
	tell(call, result, store_item(reply, 1, REDIS_REPLY_ARRAY), 1, "0");
}

static void ask(struct store *store, const struct script *script, const struct store_args *a,
		store_finish_fn *finish, store_scopes_fn *fn, void *arg)
{
	const char *root = store->hub->keys.root;

	store_send_prefixed(store, (struct store_text){ root, strlen(root) }, script, (size_t)a->n,
			    a->v, finish, (union store_answer){ .scopes = fn }, arg);
}

void store_list_scopes(struct store *store, const char *next, unsigned limit, store_scopes_fn *fn,
		       void *arg)
{
	struct store_args a = { .n = 0 };

	store_arg(&a, next);
	store_arg_number(&a, limit);
	ask(store, &scripts[SCRIPT_SCOPES], &a, finish_list, fn, arg);
}

void store_topology_scopes(struct store *store, store_scopes_fn *fn, void *arg)
{
	struct store_args a = { .n = 0 };

	store_arg_number(&a, STORE_SCOPES_MAX);
	ask(store, &scripts[SCRIPT_TOPOLOGY_SCOPES], &a, finish_some, fn, arg);
}
