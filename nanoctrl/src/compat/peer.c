/* SPDX-License-Identifier: Apache-2.0 */
#include "compat/peer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "compat/scope_call.h"
#include "compat/store.h"
#include "store/call.h"
#include "store/reply.h"

/* ---- register, forget ---- */

static const struct store_text agent_word = { "agent", 5 };
static const struct store_text no_text = { "", 0 };

/* {outcome, name, skipped}, and 1 behind them when it is to be sent again */
static void finish_put_peer(struct store_call *call, int result, const redisReply *reply)
{
	struct store_peer peer = { .name = { NULL, 0 } };
	struct store_text *args;
	uint64_t again = 0;
	size_t n;

	store_note_skipped(call, reply);
	if (result == STORE_OK && store_u64(reply, 3, &again) && again) {
		args = store_call_args(call, 0, &n);
		if (args) {
			store_send_on(call, n, args);
			return;
		}
		result = -ENOMEM;
	}
	if (result == STORE_OK && !store_item(reply, 1, REDIS_REPLY_STRING))
		result = -EPROTO;
	if (result != STORE_OK)
		written_forget(call->store->hub, store_call_arg(call, 2), agent_word,
			       store_call_arg(call, 3));
	if (result == STORE_OK)
		peer.name.at = store_string(reply, 1, &peer.name.len);
	((store_peers_fn *)call->fn.other)(call->arg, result, &peer, result == STORE_OK);
}

void store_put_peer(struct store *store, struct store_text scope, const struct store_peer *p,
		    struct store_text prefix, store_peers_fn *fn, void *arg)
{
	struct store_args a = { .n = 0 };

	if (p->name.at)
		written_expect(store->hub, scope, agent_word, p->name);
	store_arg_text(&a, scope);
	store_arg_text(&a, p->name);
	store_arg(&a, p->name.at ? "1" : "0");
	store_arg_text(&a, prefix);
	store_arg_number(&a, STORE_COMPAT_TTL_MS);
	store_arg_field(&a, "addr", p->address);
	store_arg_field(&a, "resource", p->resource);
	store_arg_field(&a, "topology", p->resource);
	store_arg_field(&a, "device", p->device);
	store_arg_field(&a, "ib_port", p->port);
	store_arg_field(&a, "link_type", p->link_type);
	store_send_in_scope(store, scope, &compat_scripts[COMPAT_PEER_REGISTER], (size_t)a.n, a.v,
			    finish_put_peer, (union store_answer){ .other = (void (*)(void))fn },
			    arg);
}

#define CLEANUP_REST 2 /* argument of peer_cleanup */

/* {outcome, "", skipped, the end of which there is more to do} */
static void finish_cleanup(struct store_call *call, int result, const redisReply *reply)
{
	struct store_text rest = result == STORE_OK ? store_text_at(reply, 3) : no_text;
	struct store_text *args;
	size_t n;

	store_note_skipped(call, reply);
	if (rest.len) {
		args = store_call_args(call, 0, &n);
		if (args) {
			args[CLEANUP_REST] = rest;
			store_send_on(call, n, args);
			return;
		}
		result = -ENOMEM;
	}
	store_finish_done(call, result, reply);
}

void store_cleanup_peer(struct store *store, struct store_text scope, struct store_text name,
			store_done_fn *fn, void *arg)
{
	const struct store_text args[] = { scope, name, [CLEANUP_REST] = no_text };

	store_send_in_scope(store, scope, &compat_scripts[COMPAT_PEER_CLEANUP], 3, args,
			    finish_cleanup, (union store_answer){ .done = fn }, arg);
}

/* ---- targets and memory regions ---- */

#define SPEC	3 /* argument of peer_topology: "" when it is written */
#define TARGETS 4

/* {outcome, "", skipped, how many targets are done} */
static void finish_put_targets(struct store_call *call, int result, const redisReply *reply)
{
	struct store_text *args = NULL;
	uint64_t done = 0;
	size_t n = 0;

	store_note_skipped(call, reply);
	if (result == STORE_OK && !(args = store_call_args(call, 0, &n)))
		result = -ENOMEM;
	if (result == STORE_OK && n > TARGETS &&
	    (!store_u64(reply, 3, &done) || !done || done > n - TARGETS))
		result = -EPROTO;
	if (result != STORE_OK || n == TARGETS || done == n - TARGETS) {
		free(args);
		store_finish_done(call, result, reply);
		return;
	}
	args[SPEC] = no_text;
	n -= done;
	memmove(args + TARGETS, args + TARGETS + done, (n - TARGETS) * sizeof(*args));
	store_send_on(call, n, args);
}

void store_put_targets(struct store *store, struct store_text scope, struct store_text agent,
		       bool symmetric, struct store_text spec, const struct store_text *targets,
		       size_t n, store_done_fn *fn, void *arg)
{
	struct store_text *args = calloc(n + TARGETS, sizeof(*args));

	if (!args) {
		fn(arg, -ENOMEM);
		return;
	}
	args[0] = scope;
	args[1] = agent;
	args[2] = (struct store_text){ symmetric ? "1" : "0", 1 };
	args[SPEC] = spec;
	if (n)
		memcpy(args + TARGETS, targets, n * sizeof(*args));
	store_send_in_scope(store, scope, &compat_scripts[COMPAT_PEER_TOPOLOGY], n + TARGETS, args,
			    finish_put_targets, (union store_answer){ .done = fn }, arg);
	free(args);
}

void store_put_mr(struct store *store, struct store_text scope, struct store_text agent,
		  struct store_text name, struct store_text value, store_done_fn *fn, void *arg)
{
	const struct store_text args[] = { scope, agent, name, value };

	store_send_in_scope(store, scope, &compat_scripts[COMPAT_PEER_MR_PUT], 4, args,
			    store_finish_done, (union store_answer){ .done = fn }, arg);
}

/* {outcome, value, skipped} */
static void finish_get_mr(struct store_call *call, int result, const redisReply *reply)
{
	struct store_text value = { NULL, 0 };
	struct store_entities found = { .n = 1, .info = &value };

	store_note_skipped(call, reply);
	if (result == STORE_OK)
		value.at = store_string(reply, 1, &value.len);
	((store_entities_fn *)call->fn.other)(call->arg, result,
					      result == STORE_OK ? &found : NULL);
}

void store_get_mr(struct store *store, struct store_text scope, struct store_text agent,
		  struct store_text name, store_entities_fn *fn, void *arg)
{
	const struct store_text args[] = { agent, name };

	store_send_in_scope(store, scope, &compat_scripts[COMPAT_PEER_MR_GET], 2, args,
			    finish_get_mr, (union store_answer){ .other = (void (*)(void))fn },
			    arg);
}
