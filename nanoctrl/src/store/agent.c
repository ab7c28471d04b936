/* SPDX-License-Identifier: Apache-2.0 */
/* Agents and their leases. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <base/clock.h>
#include "store/beat.h"
#include "store/call.h"
#include "store/hold.h"
#include "store/redis_store.h"
#include "store/reply.h"
#include "store/snapshot.h"

#define BEATS_PER_CALL 256
#define ARGS_PER_BEAT  6

/* ---- register, update, leave ---- */

static bool read_agent(const redisReply *row, void *out);

/* A lease that is not renewed ends when it is due, and when leases as long as this may end. */
static uint64_t wait_for_end_ms(struct store_hub *hub, int64_t left_ms, uint64_t ttl_ms)
{
	uint64_t hold_ns = hold_lease_end_ns(hub);
	uint64_t now_ns = sl_clock_ns();
	uint64_t wait_ms = left_ms > 0 ? (uint64_t)left_ms : 0;

	if (ttl_ms > hub->config.ttl_ms)
		hold_ns += (ttl_ms - hub->config.ttl_ms) * SL_NS_PER_MS;

	if (hold_ns > now_ns && (hold_ns - now_ns) / SL_NS_PER_MS > wait_ms)
		wait_ms = (hold_ns - now_ns) / SL_NS_PER_MS;
	return wait_ms;
}

/* {outcome, now, row of the holder, how long its lease lasts} */
static void finish_taken(struct store_call *call, const redisReply *reply)
{
	struct store_holder h = { .now_ms = 0 };
	struct store_grant g = { .holder = &h };
	const redisReply *row = store_item(reply, 2, REDIS_REPLY_ARRAY);

	if (!row || !store_u64(reply, 1, &h.now_ms) || !read_agent(row, &h.agent) ||
	    !store_u64(reply, 3, &h.ttl_ms)) {
		call->fn.grant(call->arg, STORE_NAME_TAKEN, NULL);
		return;
	}
	h.wait_ms = wait_for_end_ms(call->store->hub, h.agent.lease_left_ms, h.ttl_ms);
	call->fn.grant(call->arg, STORE_NAME_TAKEN, &g);
}

/* {outcome, order of the last one} */
static void finish_stale(struct store_call *call, const redisReply *reply)
{
	struct store_grant g = { .order = 0 };
	bool known = store_u64(reply, 1, &g.order);

	call->fn.grant(call->arg, STORE_STALE, known ? &g : NULL);
}

/* {outcome, epoch, cursor id, generation, lease, resumed} */
static void finish_grant(struct store_call *call, int result, const redisReply *reply)
{
	struct store_grant g = { .resumed = false };
	uint64_t resumed;

	if (result == STORE_NAME_TAKEN) {
		finish_taken(call, reply);
		return;
	}
	if (result == STORE_STALE) {
		finish_stale(call, reply);
		return;
	}
	if (result == STORE_OK &&
	    !(store_u64(reply, 1, &g.cursor.epoch) && store_u64(reply, 2, &g.cursor.id) &&
	      store_u64(reply, 3, &g.generation) && store_u64(reply, 4, &g.lease_id) &&
	      store_u64(reply, 5, &resumed)))
		result = -EPROTO;
	if (result == STORE_OK)
		g.resumed = resumed != 0;
	if (result == STORE_OK && call->script == &scripts[SCRIPT_REGISTER])
		atomic_fetch_add(&call->store->hub->n_granted, 1);
	call->fn.grant(call->arg, result, result == STORE_OK ? &g : NULL);
}

void store_register(struct store *store, const char *scope, const struct store_registration *r,
		    store_grant_fn *fn, void *arg)
{
	struct store_args a = { .n = 0 };

	store_arg_number(&a, store->hub->config.ttl_ms);
	store_arg(&a, r->name);
	store_arg(&a, r->incarnation);
	store_arg(&a, r->owner_hash);
	store_arg(&a, r->secret_hash);
	store_arg(&a, r->again ? "1" : "0");
	store_arg_number(&a, r->order);
	store_arg_text(&a, r->profile.address);
	store_arg_text(&a, r->profile.labels);
	store_arg_text(&a, r->profile.services);
	store_arg_text(&a, r->profile.attributes);
	store_send(store, scope, &scripts[SCRIPT_REGISTER], &a, finish_grant,
		   (union store_answer){ .grant = fn }, arg);
}

void store_update(struct store *store, const char *scope, const struct store_lease *lease,
		  uint64_t revision, const struct store_profile *profile, store_done_fn *fn,
		  void *arg)
{
	struct store_args a = { .n = 0 };

	store_arg_lease(&a, lease);
	store_arg_number(&a, revision);
	store_arg_field(&a, "address", profile->address);
	store_arg_field(&a, "labels", profile->labels);
	store_arg_field(&a, "services", profile->services);
	store_arg_field(&a, "attributes", profile->attributes);
	store_send(store, scope, &scripts[SCRIPT_UPDATE], &a, store_finish_done,
		   (union store_answer){ .done = fn }, arg);
}

void store_leave(struct store *store, const char *scope, const struct store_lease *lease,
		 store_done_fn *fn, void *arg)
{
	struct store_args a = { .n = 0 };

	store_arg_lease(&a, lease);
	store_arg_text(&a, store_snapshot_scope(scope));
	store_send(store, scope, &scripts[SCRIPT_LEAVE], &a, store_finish_done,
		   (union store_answer){ .done = fn }, arg);
}

/* ---- sessions ---- */

void store_open_session(struct store *store, const char *scope, const struct store_lease *lease,
			const char *session, uint64_t order, store_grant_fn *fn, void *arg)
{
	struct store_args a = { .n = 0 };

	store_arg_number(&a, store->hub->config.ttl_ms);
	store_arg_lease(&a, lease);
	store_arg(&a, session);
	store_arg_number(&a, order);
	store_send(store, scope, &scripts[SCRIPT_SESSION_OPEN], &a, finish_grant,
		   (union store_answer){ .grant = fn }, arg);
}

void store_lose_session(struct store *store, const char *scope, const struct store_lease *lease,
			const char *session)
{
	struct store_args a = { .n = 0 };

	store_arg_number(&a, store->hub->config.grace_ms);
	store_arg_lease(&a, lease);
	store_arg(&a, session);
	store_send(store, scope, &scripts[SCRIPT_SESSION_LOSE], &a, store_finish_done,
		   (union store_answer){ .done = NULL }, NULL);
}

/* ---- beats ---- */

/* A beat that waits for the end of the loop's turn, then for the answer to its batch. */
struct beat {
	struct sl_list node;
	store_beat_fn *fn;
	void *arg;
	struct store_args args;
	char scope[KEY_NAME_MAX + 1];
	char text[]; /* what args point to */
};

struct batch {
	struct sl_list beats;
};

static struct beat *new_beat(const struct store_lease *lease, const char *session)
{
	size_t agent = strlen(lease->agent) + 1;
	size_t secret = strlen(lease->secret_hash) + 1;
	size_t sess = strlen(session) + 1;
	struct beat *b = calloc(1, sizeof(*b) + agent + secret + sess);
	struct store_lease copy = *lease;

	if (!b)
		return NULL;
	copy.agent = memcpy(b->text, lease->agent, agent);
	copy.secret_hash = memcpy(b->text + agent, lease->secret_hash, secret);
	store_arg_lease(&b->args, &copy);
	store_arg(&b->args, memcpy(b->text + agent + secret, session, sess));
	return b;
}

void store_beat(struct store *store, const char *scope, const struct store_lease *lease,
		const char *session, const struct store_cursor *acked, store_beat_fn *fn, void *arg)
{
	struct beat *b = new_beat(lease, session ? session : "");

	if (!b) {
		fn(arg, -ENOMEM, 0);
		return;
	}
	store_arg_number(&b->args, acked->epoch);
	store_arg_number(&b->args, acked->id);
	memcpy(b->scope, scope, strlen(scope) + 1);
	b->fn = fn;
	b->arg = arg;
	sl_list_append(&store->beats, &b->node);
	event_active(store->turn, EV_TIMEOUT, 0);
}

/* No lease ends because its heartbeats could not be stored. A short overload does not count: agents
 * send again soon, and a client could cause overloads to keep leases from ending. */
static void note_refused_beats(struct store *store, int result)
{
	uint64_t now = sl_clock_ns();
	uint64_t long_ns = store->hub->config.ttl_ms * SL_NS_PER_MS / 3;

	if (!store->unbeaten_ns)
		store->unbeaten_ns = now;
	if ((result != -EBUSY && result != -ENOMEM) || now - store->unbeaten_ns >= long_ns)
		hold_refused(store->hub);
}

static void end_beats(struct store *store, struct sl_list *beats, int result,
		      const redisReply *reply)
{
	const redisReply *results = store_item(reply, 2, REDIS_REPLY_ARRAY);
	uint64_t epoch = 0;
	size_t i = 0;
	struct sl_list *e;

	if (result == STORE_OK && (!store_u64(reply, 1, &epoch) || !results))
		result = -EPROTO;
	if (result < 0)
		note_refused_beats(store, result);
	else
		store->unbeaten_ns = 0;
	while ((e = sl_list_pop(beats))) {
		struct beat *b = SL_CONTAINER_OF(e, struct beat, node);
		uint64_t word = 0;
		int own = result;

		if (result == STORE_OK)
			own = store_u64(results, i++, &word) && word <= STORE_TOO_LARGE ? (int)word
											: -EPROTO;
		b->fn(b->arg, own, epoch);
		free(b);
	}
}

static void finish_beats(struct store_call *call, int result, const redisReply *reply)
{
	const redisReply *results = store_item(reply, 2, REDIS_REPLY_ARRAY);
	struct batch *batch = call->arg;
	uint64_t skipped;

	if (results)
		atomic_fetch_add(&call->store->hub->n_beats, results->elements);
	if (store_u64(reply, 3, &skipped))
		atomic_fetch_add(&call->store->hub->n_skipped, skipped);
	end_beats(call->store, &batch->beats, result, reply);
	free(batch);
}

void store_fail_beats(struct store *store)
{
	struct sl_list all;

	sl_list_init(&all);
	sl_list_splice(&all, &store->beats);
	end_beats(store, &all, -ENOTCONN, NULL);
}

/* Moves the beats of one scope, as many as fit, from the waiting to the batch. */
static size_t gather(struct sl_list *waiting, struct batch *batch, const char *scope,
		     struct store_text *args)
{
	struct sl_list *e;
	struct sl_list *tmp;
	size_t n = 0;

	sl_list_for_each_safe (e, tmp, waiting) {
		struct beat *b = SL_CONTAINER_OF(e, struct beat, node);

		if (n == BEATS_PER_CALL)
			break;
		if (strcmp(b->scope, scope) != 0)
			continue;
		memcpy(args + 1 + ARGS_PER_BEAT * n++, b->args.v, ARGS_PER_BEAT * sizeof(*args));
		sl_list_remove(&b->node);
		sl_list_append(&batch->beats, &b->node);
	}
	return n;
}

static void send_batch(struct store *store, struct sl_list *waiting, const char *ttl)
{
	struct store_text args[1 + ARGS_PER_BEAT * BEATS_PER_CALL] = { { ttl, strlen(ttl) } };
	char scope[KEY_NAME_MAX + 1];
	struct batch *batch = malloc(sizeof(*batch));
	size_t n;

	if (!batch) {
		end_beats(store, waiting, -ENOMEM, NULL);
		return;
	}
	sl_list_init(&batch->beats);
	memcpy(scope, SL_CONTAINER_OF(waiting->next, struct beat, node)->scope, sizeof(scope));
	n = gather(waiting, batch, scope, args);
	store_send_many(store, scope, &scripts[SCRIPT_BEAT], 1 + ARGS_PER_BEAT * n, args,
			finish_beats, (union store_answer){ .done = NULL }, batch);
}

void store_flush_beats(struct store *store)
{
	struct store_args ttl = { .n = 0 };
	struct sl_list waiting;

	sl_list_init(&waiting);
	sl_list_splice(&waiting, &store->beats);
	store_arg_number(&ttl, store->hub->config.ttl_ms);
	while (!sl_list_empty(&waiting))
		send_batch(store, &waiting, ttl.digits[0]);
}

/* ---- reading ---- */

/* {name, lease left, generation, then AGENT of lib.lua}; false when it is junk. */
static bool read_agent(const redisReply *row, void *out)
{
	struct store_agent *a = out;
	const char *left = store_string(row, 1, NULL);
	char *end;

	*a = (struct store_agent){
		.name = store_string(row, 0, NULL),
		.incarnation = store_string(row, 4, NULL),
		.profile = { store_text_at(row, 5), store_text_at(row, 6), store_text_at(row, 7),
			     store_text_at(row, 8) },
		.session = store_string(row, 11, NULL),
	};
	a->lease_left_ms = strtoll(left, &end, 10);
	return *left && !*end && key_name_valid(a->name) && *a->incarnation &&
	       store_u64(row, 2, &a->generation) && store_u64(row, 3, &a->epoch) &&
	       store_u64(row, 9, &a->revision) && store_u64(row, 10, &a->registered_at_ms);
}

static void finish_agents(struct store_call *call, int result, const redisReply *reply)
{
	struct store_page page = { .n_agents = 0 };
	struct store_rows rows = { .size = sizeof(struct store_agent),
				   .read = read_agent,
				   .one = call->script == &scripts[SCRIPT_AGENT] };

	result = store_read_page(call, result, reply, &rows, &page);
	page.agents = rows.at;
	page.n_agents = rows.n;
	call->fn.page(call->arg, result, result ? NULL : &page);
	free(rows.at);
}

void store_get_agent(struct store *store, const char *scope, const char *name, store_page_fn *fn,
		     void *arg)
{
	struct store_args a = { .n = 0 };

	store_arg(&a, name);
	store_arg(&a, "");
	store_arg(&a, "");
	store_send(store, scope, &scripts[SCRIPT_AGENT], &a, finish_agents,
		   (union store_answer){ .page = fn }, arg);
}

void store_get_holder(struct store *store, const char *scope, const struct store_lease *lease,
		      store_page_fn *fn, void *arg)
{
	struct store_args a = { .n = 0 };

	store_arg_lease(&a, lease);
	store_send(store, scope, &scripts[SCRIPT_AGENT], &a, finish_agents,
		   (union store_answer){ .page = fn }, arg);
}

void store_list_agents(struct store *store, const char *scope, const char *after, unsigned limit,
		       store_page_fn *fn, void *arg)
{
	struct store_args a = { .n = 0 };

	store_arg(&a, after);
	store_arg_number(&a, limit);
	store_send(store, scope, &scripts[SCRIPT_AGENTS], &a, finish_agents,
		   (union store_answer){ .page = fn }, arg);
}
