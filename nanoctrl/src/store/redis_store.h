/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the Redis store share: the store of a loop, the hub, and calls of scripts. */
#ifndef NANOCTRL_STORE_REDIS_H
#define NANOCTRL_STORE_REDIS_H

#include <pthread.h>
#include <stdatomic.h>
#include <event2/event.h>
#include <hiredis/hiredis.h>
#include <base/clock.h>
#include <base/list.h>
#include <base/log.h>
#include "nanoctrl/net/loop.h"
#include "store/key.h"
#include "redis/redis.h"
#include "redis/url.h"
#include "store/script.h"
#include "store/store.h"
#include "store/compat.h"

#define STORE_LOOPS_MAX 64
#define STORE_BUCKETS	8  /* of the time that calls take */
#define WAKES_MAX	64 /* scopes noted by their names; more are noted by their buckets */
#define SCOPE_BUCKETS	1024

struct reaper;
struct compat_hub;
struct compat_store;

struct store_hub {
	struct store_config config;
	const struct store_compat *hooks; /* of compat/, as the next; both NULL without it */
	struct compat_hub *compat;
	struct redis_url url;
	struct key_names keys;
	pthread_mutex_t lock; /* stores, and their wakes */
	struct store *stores[STORE_LOOPS_MAX];
	_Atomic uint64_t held_ns;    /* when agents were last seen unable to beat: the reaper's */
	_Atomic uint64_t refused_ns; /* when a beat was last refused, or perhaps one was */
	/* Counters of /metrics; every loop adds to them. */
	_Atomic uint64_t n_calls, n_errors, n_refused, n_skipped, n_expired, n_reconnects, n_holds;
	_Atomic uint64_t n_redirected;
	_Atomic uint64_t n_granted, n_beats, n_events; /* leases, their beats, events */
	_Atomic uint64_t n_held;     /* leases in Redis when the reaper last looked */
	_Atomic unsigned n_watchers; /* who follow events */
	_Atomic bool deaf;	     /* it refuses to tell of events */
	_Atomic bool refusing;	     /* it refuses writes */
	_Atomic bool forbidden;	     /* it refuses our scripts */
	uint64_t seed; /* of all hashes: nobody can tell which names meet in an entry */
	_Atomic unsigned n_loops, n_up; /* stores, and those whose connection serves */
	_Atomic uint64_t took[STORE_BUCKETS], took_us; /* answers by the time they took; its sum */
};

/* Scopes in which something happened, on their way to a loop. */
struct wakes {
	bool all;
	unsigned n;
	char scopes[WAKES_MAX][KEY_NAME_MAX + 1];
	uint64_t buckets[SCOPE_BUCKETS / 64]; /* a bit for each */
};

struct store {
	struct store_hub *hub;
	struct loop *loop;
	struct event_base *base;
	struct redis *redis;
	struct event *turn;   /* the end of this turn of the loop: ended calls, beats, compat */
	unsigned slot;	      /* its place in the hub */
	struct sl_list ended; /* calls to be called back with what they have */
	struct sl_list beats; /* to be sent together */
	uint64_t unbeaten_ns; /* since when none got through; 0: the last did */
	struct sl_list feeds[SCOPE_BUCKETS];  /* scopes that somebody follows */
	struct sl_list shares[SCOPE_BUCKETS]; /* scopes of which a read for many is out */
	struct sl_list waiting;		      /* calls that wait for the cluster: store_moved.c */
	size_t n_waiting;
	struct event *again;   /* sends them */
	struct reaper *reaper; /* on the first loop */
	struct compat_store *compat;
	struct wakes wakes; /* under hub->lock */
	struct loop_task take_wakes;
	bool closing;
};

/* Arguments of a script, after KEYS[1] and ARGV[1]. Texts must outlive the call of store_send(). */
#define STORE_ARGS_MAX 20
struct store_args {
	int n;
	struct store_text v[STORE_ARGS_MAX];
	char digits[STORE_ARGS_MAX][24];
};

void store_arg_text(struct store_args *a, struct store_text text);
void store_arg(struct store_args *a, const char *text);
void store_arg_number(struct store_args *a, uint64_t n);
void store_arg_lease(struct store_args *a, const struct store_lease *lease);
/* A field of a hash and its value; nothing when value is NULL. */
void store_arg_field(struct store_args *a, const char *name, struct store_text value);

struct store_call;

/* reply is an integer, the outcome, or an array that begins with it, when result >= 0; result is
 * that outcome, or a negative errno and reply is NULL. */
typedef void store_finish_fn(struct store_call *call, int result, const redisReply *reply);

/* Whom a call answers. */
union store_answer {
	store_done_fn *done;
	store_grant_fn *grant;
	store_page_fn *page;
	store_put_fn *put;
	store_offers_fn *offers;
	store_events_fn *events;
	store_snapshots_fn *snapshots;
	store_topologies_fn *topologies;
	store_revision_fn *revision;
	store_wanted_fn *wanted;
	store_scopes_fn *scopes;
	void (*compat)(void); /* of a call of compat/, which knows its type */
};

struct store_call {
	struct sl_list node;
	struct store *store;
	store_finish_fn *finish;
	union store_answer fn;
	void *arg;
	const struct script *script;
	uint64_t sent_ns;
	uint64_t until_ns; /* how long it may wait for the cluster; 0: it has not yet */
	bool whole;	   /* sent as EVAL: the server did not know the script */
	int result;	   /* of a call that has ended before it was sent */
	int n;
	const char **args; /* all of the command, in the same allocation */
	size_t *lens;
};

/* Send a script; finish comes later on the loop (only for -ENOMEM at once). */
void store_send(struct store *store, const char *scope, const struct script *script,
		const struct store_args *args, store_finish_fn *finish, union store_answer fn,
		void *arg);

/* The same with any number of arguments. */
void store_send_many(struct store *store, const char *scope, const struct script *script, size_t n,
		     const struct store_text *args, store_finish_fn *finish, union store_answer fn,
		     void *arg);

/* The same with KEYS[1] as it is. */
void store_send_prefixed(struct store *store, struct store_text prefix, const struct script *script,
			 size_t n, const struct store_text *args, store_finish_fn *finish,
			 union store_answer fn, void *arg);

/* ARGV[i] of a call, from 2 on; empty when it has none. */
struct store_text store_call_arg(const struct store_call *call, int i);

/* For scripts that do a part with each call: all arguments of a call from ARGV[2] on, and room for
 * as many more, for store_send_on(); NULL without memory. */
struct store_text *store_call_args(const struct store_call *call, size_t more, size_t *n);

/* The same call with these arguments, which are freed. */
void store_send_on(const struct store_call *call, size_t n, struct store_text *args);

/* The same with the place of a scan, which means nothing to another node: it does not wait for the
 * cluster, and ends with -EAGAIN. */
void store_scan_on(const struct store_call *call, size_t n, struct store_text *args);

/* finish for calls that answer store_done_fn. */
void store_finish_done(struct store_call *call, int result, const redisReply *reply);

/* store_reply.c: element i of an array reply; NULL when it is not there or of another type. */
const redisReply *store_item(const redisReply *reply, size_t i, int type);
/* A string element; "" and 0 when it is none. */
const char *store_string(const redisReply *reply, size_t i, size_t *len);
struct store_text store_text_at(const redisReply *reply, size_t i);
/* A number, sent as an integer or as digits; false when it is neither. */
bool store_u64(const redisReply *reply, size_t i, uint64_t *out);

/* Counts what a script left out that answers {outcome, ..., how much}; reply may be NULL. */
void store_note_skipped(const struct store_call *call, const redisReply *reply);

/* Whether an error of Redis says that it does not do it now, and did nothing. */
bool store_is_refusal(const char *error);

/* The rows of a page: how long each is in memory, and what reads it; false for junk. */
struct store_rows {
	size_t size;
	bool (*read)(const redisReply *row, void *out);
	bool one; /* a single one was asked for: when it is junk, there is none */
	void *at; /* out: n rows, for the caller to free() */
	size_t n;
};

/* Reads {outcome, epoch, cursor id, now, next, skipped, rows} into page and rows; what is junk is
 * skipped and counted. Returns result, or what became of it: -EPROTO, -ENOMEM, STORE_NOT_FOUND;
 * there are no rows then. */
int store_read_page(const struct store_call *call, int result, const redisReply *reply,
		    struct store_rows *rows, struct store_page *page);

/* store_object.c: a row of a page of objects. */
bool store_read_object(const redisReply *row, void *out);

/* store_gather.c: whether the last agent of a page has more objects than came with it. Whoever
 * called is told of the page once they are there, at most so many bytes. */
bool store_has_rest(const redisReply *reply);
void store_gather(const struct store_call *call, const redisReply *reply,
		  const struct store_page *page, uint64_t most);

/* Those that ended before they were sent are called back. */
void store_end_calls(struct store *store);
/* The end of a call: finish, and free it. */
void store_end_call(struct store_call *call, int result, const redisReply *reply);
/* Negative errno of redis_command(). */
int store_send_call(struct store_call *call);

/* store_moved.c */
int store_moved_init(struct store *store);
void store_moved_fini(struct store *store);
/* Whether the error says that the slot is, or goes, elsewhere. */
bool store_is_redirect(const redisReply *reply);
/* The call, which nobody has done, is sent again a little later; false: it has waited long enough.
 */
bool store_wait_for_cluster(struct store_call *call);
/* The connection serves: what waits is sent at once. */
void store_moved_up(struct store *store);

/* store_agent.c */
void store_flush_beats(struct store *store);
void store_fail_beats(struct store *store);

/* store_event.c: look for new events of a scope, or of all that are followed and meet in a bucket;
 * or of all scopes that are followed, and all followers look whether their places still are ones.
 */
void store_wake(struct store *store, const char *scope);
void store_wake_bucket(struct store *store, unsigned bucket);
void store_wake_all(struct store *store);

/* Where a scope is among those that are followed, or read. */
unsigned store_bucket(const struct store_hub *hub, const char *scope);

/* From any thread: the same on every loop; NULL is all. */
void store_hub_wake(struct store_hub *hub, const char *scope);
/* The task of a store for which scopes were noted. */
void store_take_wakes(void *store);

/* store_snapshot.c: the scope of the keys that snapshots of a scope's agents are in. */
struct store_text store_snapshot_scope(const char *scope);
void store_sweep_snapshots(struct store *store);

/* Have Redis load n scripts; one that it does not load is sent as a whole later. */
void store_load_scripts(struct store *store, const struct script *table, size_t n);

/* notices.c: the reaper has them. */
struct notices;
int notices_create(struct store *store, struct notices **out);
void notices_destroy(struct notices *notices);
/* Each round: where Redis refused to tell, it is asked again. */
void notices_look(struct notices *notices);
/* The store's connection is up: a node that the data have left may have left the cluster, and then
 * hears nothing. */
void notices_keep_up(struct notices *notices);

/* reaper.c */
int reaper_create(struct store *store, struct reaper **out);
void reaper_destroy(struct reaper *reaper);
/* The first loop's connection is up, to the server of this run id. */
void reaper_up(struct reaper *reaper, const char *run_id);
void reaper_down(struct reaper *reaper);
/* From any thread: Redis refuses to serve, or could not be asked. */
void reaper_refused(struct store_hub *hub);
/* No lease ends before. */
uint64_t reaper_hold_until_ns(struct store_hub *hub);
/* What Redis' clock says if it is steady; 0 until hold_ms after agents could not beat. */
uint64_t reaper_time_after(struct reaper *reaper, uint32_t hold_ms);

#endif
