/* SPDX-License-Identifier: Apache-2.0 */
/*
 * On the first loop of every replica: the sweep of all scopes. A lease ends only if for one whole
 * TTL the same Redis was reachable with a steady clock, it accepted all heartbeats, and this
 * process was running. Otherwise healthy agents might have had no way to send a heartbeat.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "store/ended.h"
#include <base/clock.h>
#include <base/log.h>
#include "store/call.h"
#include "store/hold.h"
#include "store/notices.h"
#include "store/reaper.h"
#include "store/redis_store.h"
#include "store/reply.h"
#include "store/snapshot.h"

#define BATCH	      100  /* leases ended by one script */
#define STRAY_MS      1000 /* of Redis' clock against the monotonic one */
#define SCOPES_PER_GO 256  /* in one tick of the timer; the next tick takes others */
#define DUE_PER_GO    4096 /* besides, of those that are known to have a lease that ends */

struct reaper {
	struct store *store;
	struct notices *notices;
	struct event *timer;
	uint64_t time_ms;	/* Redis' clock when last looked at; 0: not yet */
	uint64_t time_ns;	/* the monotonic clock when that answer came, */
	uint64_t time_asked_ns; /* and when it was asked for */
	uint64_t asked_ns;	/* when the question that is out was asked */
	uint64_t tick_ns;	/* of the last tick of the timer; 0: none yet */
	char run_id[48];
	char scan[24];	   /* SSCAN cursor over the scopes */
	uint64_t pass;	   /* over all of them, from 1 */
	uint64_t n_silent; /* scopes that were swept in it and have not said what they hold, */
	uint64_t held;	   /* and the leases of those that have */
	struct scope_leases held_of; /* the same by scopes */
	uint64_t cut_pass;	     /* up to this pass it looks for leases that end late */
	struct sl_list sweeps;	     /* of scopes, to be made */
	unsigned n_sweeps;	     /* that are out */
	bool up;
	bool busy;    /* an SSCAN is waiting for its answer */
	bool finding; /* a question for the scopes that are due */
	bool asking;  /* a question for the time is out */
	bool trying;  /* whether Redis takes writes */
};

void reaper_up(struct reaper *r, const char *run_id)
{
	hold_begin(r->store->hub, !*r->run_id ? "Redis is reached for the first time"
				  : strcmp(r->run_id, run_id) != 0 ? "another Redis process serves"
								   : "Redis was out of reach");
	snprintf(r->run_id, sizeof(r->run_id), "%s", *run_id ? run_id : "?");
	r->time_ms = 0;
	r->up = true;
	notices_keep_up(r->notices);
}

void reaper_down(struct reaper *r)
{
	r->up = false;
}

/* ---- one scope ---- */

struct sweep {
	struct sl_list node; /* while it waits to be made */
	struct reaper *reaper;
	char scope[KEY_NAME_MAX + 1];
	uint64_t pass; /* in which its leases are counted; 0: they were */
	uint64_t late; /* from where on to look for leases that end late; 0: not at all */
	struct ended ended;
};

static void send_sweeps(struct reaper *r);

static void count_held(struct reaper *r, const struct sweep *v, uint64_t held)
{
	if (!v->pass || v->pass != r->pass)
		return;
	r->held += held;
	scope_leases_add(&r->held_of, v->scope, held);
	r->n_silent--;
}

static void end_sweep(struct sweep *v)
{
	char where[KEY_NAME_MAX + 16];

	snprintf(where, sizeof(where), "scope %s: ", v->scope);
	ended_log(&v->ended, where, "leases");
	free(v);
}

/* The rest of the work in the scope is for another sweep. */
static void sweep_again(struct sweep *v, uint64_t late)
{
	v->pass = 0;
	v->late = late;
	sl_list_append(&v->reaper->sweeps, &v->node);
}

/* {outcome, ended, more, held, skipped, late, {name of one that ended, ...}} */
static void on_swept(struct store_call *call, int result, const redisReply *reply)
{
	struct sweep *v = call->arg;
	struct reaper *r = v->reaper;
	uint64_t ended;
	uint64_t more;
	uint64_t held;
	uint64_t skipped;
	uint64_t late;

	r->n_sweeps--;
	if (result == -EBUSY) { /* with the next tick */
		sl_list_append(&r->sweeps, &v->node);
		return;
	}
	if (result != STORE_OK || !store_u64(reply, 1, &ended) || !store_u64(reply, 2, &more) ||
	    !store_u64(reply, 3, &held) || !store_u64(reply, 4, &skipped) ||
	    !store_u64(reply, 5, &late)) {
		end_sweep(v);
		return;
	}
	atomic_fetch_add(&call->store->hub->n_skipped, skipped);
	count_held(r, v, held);
	ended_add(&v->ended, ended, store_item(reply, 6, REDIS_REPLY_ARRAY));
	atomic_fetch_add(&call->store->hub->n_expired, ended);
	if (more || late)
		sweep_again(v, late);
	else
		end_sweep(v);
	if (!call->store->closing)
		send_sweeps(r);
}

/* Messages of agents wait in our sockets while this process, or its machine, is stopped. */
static void note_standstill(struct reaper *r)
{
	const struct store_config *config = &r->store->hub->config;
	uint64_t now = sl_clock_ns(), since_ms = (now - r->tick_ns) / SL_NS_PER_MS;

	if (r->tick_ns && since_ms > config->reap_ms + config->ttl_ms / 3)
		hold_begin(r->store->hub, "this process stood still");
	r->tick_ns = now;
}

static uint64_t expected_time_after(const struct reaper *r, uint64_t until_ns)
{
	uint64_t now = sl_clock_ns();

	if (!r->time_ms || now < until_ns)
		return 0;
	return r->time_ms + (now - r->time_ns) / SL_NS_PER_MS;
}

/* 0: no lease may end. */
static uint64_t expected_time(const struct reaper *r)
{
	return expected_time_after(r, hold_lease_end_ns(r->store->hub));
}

uint64_t reaper_time_after(struct reaper *r, uint32_t hold_ms)
{
	note_standstill(r);
	return expected_time_after(r, hold_end_ns(r->store->hub, hold_ms));
}

/* For how long agents have been able to send heartbeats: one whose lease is longer than ours sends
 * fewer. */
static uint64_t steady_ms(const struct reaper *r)
{
	uint64_t ttl_ns = (uint64_t)r->store->hub->config.ttl_ms * SL_NS_PER_MS;
	uint64_t since_ns = sl_clock_ns() + ttl_ns;
	uint64_t hold_ns = hold_lease_end_ns(r->store->hub);

	return since_ns > hold_ns ? (since_ns - hold_ns) / SL_NS_PER_MS : 0;
}

static void send_sweep(struct reaper *r, struct sweep *v)
{
	const struct store_config *config = &r->store->hub->config;
	struct store_args a = { .n = 0 };

	r->n_sweeps++;
	store_arg_number(&a, expected_time(r));
	store_arg_number(&a, config->keep_ms);
	store_arg_number(&a, BATCH);
	store_arg_number(&a, config->ttl_ms);
	store_arg_number(&a, steady_ms(r));
	store_arg_number(&a, v->late);
	store_send(r->store, v->scope, &scripts[SCRIPT_REAP], &a, on_swept,
		   (union store_answer){ .done = NULL }, v);
}

/* As many as leave room for others. */
static void send_sweeps(struct reaper *r)
{
	unsigned most = r->store->hub->config.max_inflight / 4 + 1;
	struct sl_list *e;

	/* Handle input of sockets before the timer, which would notice the pause. */
	note_standstill(r);
	while (r->n_sweeps < most && (e = sl_list_pop(&r->sweeps)))
		send_sweep(r, SL_CONTAINER_OF(e, struct sweep, node));
}

static void add_sweep(struct reaper *r, const char *scope, uint64_t pass, uint64_t late)
{
	struct sweep *v = calloc(1, sizeof(*v));

	if (!v)
		return;
	v->reaper = r;
	v->pass = pass;
	v->late = late;
	snprintf(v->scope, sizeof(v->scope), "%s", scope);
	sl_list_append(&r->sweeps, &v->node);
}

/* The name at i; NULL where others wrote what is none. */
static const char *scope_at(const redisReply *scopes, size_t i)
{
	size_t len;
	const char *scope = store_string(scopes, i, &len);

	return strlen(scope) == len && key_scope_valid(scope) ? scope : NULL;
}

static void add_sweeps(struct reaper *r, const redisReply *scopes, uint64_t pass, uint64_t late)
{
	for (size_t i = 0; i < scopes->elements; i++) {
		const char *scope = scope_at(scopes, i);

		if (!scope) {
			atomic_fetch_add(&r->store->hub->n_skipped, 1);
			continue;
		}
		r->n_silent += pass != 0;
		add_sweep(r, scope, pass, late);
	}
	send_sweeps(r);
}

/* ---- a tick of the timer ---- */

static void show_held(struct reaper *r)
{
	struct store_hub *hub = r->store->hub;

	atomic_store(&hub->n_held, r->held);
	pthread_mutex_lock(&hub->lock);
	hub->held = r->held_of;
	pthread_mutex_unlock(&hub->lock);
}

/* A pass over all scopes, of which the answers came before that to the next SSCAN, begins anew. */
static void begin_pass(struct reaper *r)
{
	if (!r->n_silent)
		show_held(r);
	else if (r->cut_pass == r->pass)
		r->cut_pass++; /* some scopes did not answer */
	r->pass++;
	r->n_silent = 0;
	r->held = 0;
	r->held_of = (struct scope_leases){ .n = 0 };
}

/* Late leases are looked for while none may end, and until all scopes have been swept since. */
static bool must_cut(struct reaper *r)
{
	if (!expected_time(r))
		r->cut_pass = r->pass + 1;
	return r->pass <= r->cut_pass;
}

/* {cursor, {scope, ...}} */
static void on_scopes(void *arg, int result, const redisReply *reply)
{
	struct reaper *r = arg;
	const redisReply *scopes = store_item(reply, 1, REDIS_REPLY_ARRAY);
	const char *cursor = store_string(reply, 0, NULL);
	uint64_t late;

	r->busy = false;
	if (!strcmp(r->scan, "0"))
		begin_pass(r);
	if (result || !scopes || strlen(cursor) >= sizeof(r->scan)) {
		r->n_silent++; /* the pass is not whole */
		strcpy(r->scan, "0");
		return;
	}
	strcpy(r->scan, *cursor ? cursor : "0");
	late = must_cut(r);
	add_sweeps(r, scopes, r->pass, late);
}

static void scan_scopes(struct reaper *r)
{
	char count[16];
	const char *scan[] = { "SSCAN", r->store->hub->keys.scopes, r->scan, "COUNT", count };

	snprintf(count, sizeof(count), "%d", SCOPES_PER_GO);
	r->busy = !redis_command(r->store->redis, 5, scan, NULL, on_scopes, r);
}

/* {scope, ...} */
static void on_due(void *arg, int result, const redisReply *reply)
{
	struct reaper *r = arg;

	r->finding = false;
	if (result || reply->type != REDIS_REPLY_ARRAY)
		return;
	add_sweeps(r, reply, 0, 0);
}

/* However many scopes there are, those where a lease is to end are swept at once. */
static void find_due(struct reaper *r)
{
	char time[24], count[16];
	const char *find[] = {
		"ZRANGEBYSCORE", r->store->hub->keys.ends, "-inf", time, "LIMIT", "0", count
	};
	uint64_t expected = expected_time(r);

	if (!expected || r->finding)
		return;
	snprintf(time, sizeof(time), "%" PRIu64, expected);
	snprintf(count, sizeof(count), "%d", DUE_PER_GO);
	r->finding = !redis_command(r->store->redis, 7, find, NULL, on_due, r);
}

/*
 * {seconds, microseconds}. Redis looked at its clock between our question and now: only what no
 * moment between them explains is a jump, not a loop that was busy.
 */
static void on_time(void *arg, int result, const redisReply *reply)
{
	struct reaper *r = arg;
	uint64_t now_ns = sl_clock_ns();
	uint64_t s;
	uint64_t us;
	uint64_t ms;
	uint64_t least;
	uint64_t most;

	r->asking = false;
	if (result || !store_u64(reply, 0, &s) || !store_u64(reply, 1, &us))
		return;
	ms = s * 1000 + us / 1000;
	least = r->time_ms + (r->asked_ns - r->time_ns) / SL_NS_PER_MS;
	most = r->time_ms + (now_ns - r->time_asked_ns) / SL_NS_PER_MS;
	if (r->time_ms && (ms + STRAY_MS < least || ms > most + STRAY_MS))
		hold_begin(r->store->hub, "the clock of Redis jumped");
	r->time_ms = ms;
	r->time_ns = now_ns;
	r->time_asked_ns = r->asked_ns;
}

static void ask_time(struct reaper *r)
{
	const char *args[] = { "TIME" };

	if (r->asking)
		return;
	r->asked_ns = sl_clock_ns();
	r->asking = redis_command(r->store->redis, 1, args, NULL, on_time, r) == 0;
}

/* ---- whether Redis takes writes ---- */

static void note_refusal(struct reaper *r, const char *why)
{
	hold_refused(r->store->hub);
	if (atomic_exchange(&r->store->hub->refusing, true))
		return;
	sl_warn("reaper", "Redis refuses writes: %s", why);
	hold_begin(r->store->hub, "Redis refuses writes");
}

static void on_tried(void *arg, int result, const redisReply *reply)
{
	struct reaper *r = arg;

	r->trying = false;
	if (result)
		return; /* it said nothing */
	if (reply->type == REDIS_REPLY_ERROR && store_is_refusal(reply->str))
		note_refusal(r, reply->str);
	else if (atomic_exchange(&r->store->hub->refusing, false))
		sl_info("reaper", "Redis takes writes again");
}

/* By a write that changes nothing: refused heartbeats may all come in through other replicas. */
static void try_write(struct reaper *r)
{
	const char *args[] = { "SETRANGE", r->store->hub->keys.nothing, "0", "" };

	if (!r->trying)
		r->trying = !redis_command(r->store->redis, 4, args, NULL, on_tried, r);
}

/* ---- whether we serve ---- */

/* Agents at a loop without its connection cannot beat, while others can. */
static void note_loops(struct store_hub *hub)
{
	if (atomic_load(&hub->n_up) < atomic_load(&hub->n_loops))
		hold_refused(hub);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct reaper *r = arg;

	(void)fd;
	(void)what;
	notices_look(r->notices);
	note_standstill(r);
	note_loops(r->store->hub);
	if (!r->up || r->busy)
		return;
	ask_time(r);
	try_write(r);
	if (r->store->compat && !store_is_cluster(r->store))
		r->store->hub->hooks->sweep(r->store);
	store_sweep_snapshots(r->store);
	send_sweeps(r);
	if (!sl_list_empty(&r->sweeps))
		return;
	find_due(r);
	scan_scopes(r);
}

int reaper_create(struct store *store, struct reaper **out)
{
	struct reaper *r = calloc(1, sizeof(*r));
	const struct store_config *config = &store->hub->config;
	struct timeval tv = { .tv_sec = config->reap_ms / 1000,
			      .tv_usec = (config->reap_ms % 1000) * 1000 };

	if (!r)
		return -ENOMEM;
	r->store = store;
	sl_list_init(&r->sweeps);
	strcpy(r->scan, "0");
	r->timer = event_new(store->base, -1, EV_PERSIST, on_timer, r);
	if (!r->timer || notices_create(store, &r->notices) || event_add(r->timer, &tv)) {
		reaper_destroy(r);
		return -ENOMEM;
	}
	*out = r;
	return 0;
}

void reaper_destroy(struct reaper *r)
{
	struct sl_list *e;

	if (!r)
		return;
	while ((e = sl_list_pop(&r->sweeps)))
		free(SL_CONTAINER_OF(e, struct sweep, node));
	if (r->timer)
		event_free(r->timer);
	notices_destroy(r->notices);
	free(r);
}
