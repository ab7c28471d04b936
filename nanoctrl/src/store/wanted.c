/* SPDX-License-Identifier: Apache-2.0 */
/* The links that each agent is to have, as the last expansion left them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "store/call.h"
#include "store/redis_store.h"
#include "store/reply.h"

/* "REVISION\n" list */
static bool read_list(struct store_text v, struct store_wanted *w)
{
	size_t i = 0;

	for (; i < v.len && i < 17 && v.at[i] >= '0' && v.at[i] <= '9'; i++)
		w->revision = w->revision * 10 + (uint64_t)(v.at[i] - '0');
	if (!i || i == v.len || v.at[i] != '\n')
		return false;
	w->list = (struct store_text){ v.at + i + 1, v.len - i - 1 };
	w->known = true;
	return true;
}

/* {outcome, value, known} */
static void finish_one(struct store_call *call, int result, const redisReply *reply)
{
	struct store_wanted w = { .agent = store_call_arg(call, 2).at };
	struct store_text value = store_text_at(reply, 1);
	uint64_t known = 0;

	if (result == STORE_OK && !store_u64(reply, 2, &known))
		result = -EPROTO;
	w.known = known;
	if (result == STORE_OK && value.len && !read_list(value, &w)) {
		atomic_fetch_add(&call->store->hub->n_skipped, 1);
		w = (struct store_wanted){ .agent = w.agent };
	}
	call->fn.wanted(call->arg, result, result ? NULL : &w, !result, "0");
}

void store_get_wanted(struct store *store, const char *scope, const char *agent,
		      store_wanted_fn *fn, void *arg)
{
	struct store_args a = { .n = 0 };

	store_arg(&a, agent);
	store_send(store, scope, &scripts[SCRIPT_WANTED], &a, finish_one,
		   (union store_answer){ .wanted = fn }, arg);
}

/* {outcome, next, {agent, value, ...}}. What is junk reads as a list that has to be written anew.
 */
static int read_lists(const redisReply *reply, struct store_wanted **out, size_t *n)
{
	const redisReply *rows = store_item(reply, 2, REDIS_REPLY_ARRAY);

	if (!rows)
		return -EPROTO;
	*out = calloc(rows->elements / 2 + 1, sizeof(**out));
	if (!*out)
		return -ENOMEM;
	for (size_t i = 0; i + 1 < rows->elements; i += 2) {
		struct store_wanted *w = &(*out)[*n];

		w->agent = store_string(rows, i, NULL);
		read_list(store_text_at(rows, i + 1), w);
		*n += *w->agent != '\0';
	}
	return 0;
}

static void finish_lists(struct store_call *call, int result, const redisReply *reply)
{
	struct store_wanted *lists = NULL;
	const char *next = store_string(reply, 1, NULL);
	size_t n = 0;

	if (result == STORE_OK)
		result = read_lists(reply, &lists, &n);
	call->fn.wanted(call->arg, result, lists, n, *next ? next : "0");
	free(lists);
}

void store_list_wanted(struct store *store, const char *scope, const char *next, unsigned limit,
		       store_wanted_fn *fn, void *arg)
{
	struct store_args a = { .n = 0 };

	store_arg(&a, next);
	store_arg_number(&a, limit);
	store_send(store, scope, &scripts[SCRIPT_WANTED_LISTS], &a, finish_lists,
		   (union store_answer){ .wanted = fn }, arg);
}
