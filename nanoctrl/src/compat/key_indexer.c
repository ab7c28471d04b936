/* SPDX-License-Identifier: Apache-2.0 */
#include "compat/key_indexer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <base/utf8.h>
#include "base/digits.h"
#include "compat/foreign_key.h"
#include "compat/store.h"
#include <base/clock.h>
#include <base/log.h>
#include "store/call.h"
#include "store/reply.h"

#define QUEUE_MAX  16384
#define BATCH_MAX  256
#define KEY_MAX	   8192 /* DLSlime's keys are shorter */
#define EVENTS_MS  10	/* between two reads of events */
#define SOON_MS	   1	/* from the first key in the queue to its batch */
#define STEP_MS	   10	/* between two steps of a scan of all keys, */
#define STEPS	   150	/* which takes about so many steps */
#define COUNT_MIN  100
#define COUNT_MAX  5000 /* so a scan of more than STEPS times these keys takes more steps */
#define AGAIN_MS   1000 /* from the end of a scan to the next, without events */
#define CHECK_MS   3000 /* others may take the flags of the setting away */
#define N_CHANNELS 2

/* A step of a scan is sent when at least half of the queue is free. */
_Static_assert(QUEUE_MAX / 2 > COUNT_MAX, "the queue has room for the keys of a step");

#define SETTING "notify-keyspace-events"

enum scan { SCAN_NONE, SCAN_HASHES, SCAN_STRINGS };

/* The wait of stores for the index, store_wait_for_index(): what it waits for now. */
enum wait {
	WAIT_NONE,
	WAIT_EVENTS,  /* for the pong, which comes after the events of earlier writes */
	WAIT_INDEXED, /* until the keys of those events are indexed */
};

struct key {
	char *at;
	size_t len;
};

struct key_indexer {
	struct store *store;
	key_indexer_fn *indexed;
	struct redis *events;
	struct event *timer;
	struct key queue[QUEUE_MAX]; /* a ring */
	size_t first, n;
	size_t n_sent; /* the first n_sent of them are in a batch without an answer yet */
	uint64_t from; /* so many targets of the first key are indexed */
	bool up;       /* the store's connection */
	bool told;     /* Redis sends events */
	bool hears;    /* the connection for events has subscribed */
	bool said;     /* the log has said that Redis sends none */
	enum scan scan;
	bool scanning; /* a SCAN is waiting for its answer */
	char cursor[24];
	unsigned count, steps; /* keys of a step; steps of this size so far */
	uint64_t scan_ns;      /* when a scan begins; 0: no time is set */
	uint64_t check_ns;     /* when to see that events are still sent */
	uint64_t due_ns;       /* when the timer runs out */
	enum wait wait;
	uint64_t asking;      /* a bit for the slot of each store that waits now, */
	uint64_t to_ask;      /* of each that waits for the next round, */
	uint64_t to_tell;     /* and of each whose wait is over and not reported yet */
	uint64_t pings;	      /* sent, */
	uint64_t heard_by_ns; /* and when the wait for the last answer ends */
	uint64_t n_noted, n_learned, learned_until; /* keys */
};

_Static_assert(STORE_LOOPS_MAX <= 64, "a store has a bit");

static void schedule(struct key_indexer *l);

/* ---- which keys ---- */

static bool begins(const char *at, size_t len, const char *word)
{
	size_t n = strlen(word);

	return len >= n && !memcmp(at, word, n);
}

/* Whether one of the words is at the beginning of the key or after a colon. */
static bool has_word(const char *key, size_t len)
{
	static const char *const words[] = { "mr:", "exchange:", "obs:peer:", "spec:topology:" };
	const char *end = key + len;

	for (const char *at = key, *colon; at; at = colon ? colon + 1 : NULL) {
		colon = memchr(at, ':', (size_t)(end - at));
		for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
			if (begins(at, (size_t)(end - at), words[i]))
				return true;
	}
	return false;
}

/* ---- the queue ---- */

static void scan_in(struct key_indexer *l, uint32_t ms)
{
	l->scan_ns = sl_clock_ns() + ms * SL_NS_PER_MS;
}

/* A key for which there is no room is found by a later scan. */
static void note(struct key_indexer *l, const char *key, size_t len)
{
	char *at;

	if (!len || len > KEY_MAX || foreign_key_is_ours(key, len) || !sl_utf8_valid(key, len))
		return;
	at = l->n < QUEUE_MAX ? malloc(len) : NULL;
	if (!at) {
		scan_in(l, AGAIN_MS);
		return;
	}
	memcpy(at, key, len);
	l->queue[(l->first + l->n) % QUEUE_MAX] = (struct key){ at, len };
	l->n++;
	l->n_noted++;
}

static void drop(struct key_indexer *l, size_t n)
{
	for (; n && l->n; n--, l->n--) {
		free(l->queue[l->first].at);
		l->first = (l->first + 1) % QUEUE_MAX;
	}
}

static void continue_wait(struct key_indexer *l);

/* {outcome, "", skipped, how many keys are done, and of the next one's targets} */
static void on_learned(struct store_call *call, int result, const redisReply *reply)
{
	struct key_indexer *l = call->arg;
	uint64_t done;
	uint64_t from;

	store_note_skipped(call, reply);
	if (result < 0 || !store_u64(reply, 3, &done) || !store_u64(reply, 4, &from) ||
	    done > l->n_sent || !(done || from > l->from)) {
		done = l->n_sent;
		from = 0;
		scan_in(l, AGAIN_MS);
	}
	drop(l, done);
	l->n_sent = 0;
	l->from = from;
	l->n_learned = l->n_noted - l->n;
	continue_wait(l);
	schedule(l);
}

static void send_batch(struct key_indexer *l)
{
	struct store_text args[1 + BATCH_MAX] = { { NULL, 0 } };
	size_t n = l->n < BATCH_MAX ? l->n : BATCH_MAX;
	char from[DIGITS_MAX];

	args[0] = (struct store_text){ from, (size_t)(digits_put(from, l->from) - from) };
	for (size_t i = 0; i < n; i++) {
		const struct key *k = &l->queue[(l->first + i) % QUEUE_MAX];

		args[1 + i] = (struct store_text){ k->at, k->len };
	}
	l->n_sent = n;
	store_send_prefixed(l->store, (struct store_text){ "", 0 },
			    &compat_scripts[COMPAT_PEER_LEARN], n + 1, args, on_learned,
			    (union store_answer){ .done = NULL }, l);
}

/* ---- waiting for the index ---- */

static void report_indexed(struct key_indexer *l)
{
	for (unsigned i = 0; i < STORE_LOOPS_MAX; i++)
		if (l->to_tell >> i & 1 && !l->indexed(l->store->hub, i))
			l->to_tell &= ~(UINT64_C(1) << i);
}

/* Also when the events cannot be waited for: the stores then use the index as it is. */
static void end_wait(struct key_indexer *l)
{
	l->wait = WAIT_NONE;
	l->to_tell |= l->asking;
	l->asking = 0;
	redis_set_push_ms(l->events, EVENTS_MS);
	report_indexed(l);
}

static bool ping(struct key_indexer *l)
{
	char n[24];
	const char *args[] = { "PING", n };

	if (!l->up || !l->told || !l->hears)
		return false;
	snprintf(n, sizeof(n), "%" PRIu64, ++l->pings);
	return !redis_command(l->events, 2, args, NULL, NULL, NULL);
}

static void begin_wait(struct key_indexer *l)
{
	l->asking = l->to_ask;
	l->to_ask = 0;
	if (!ping(l)) {
		end_wait(l);
		return;
	}
	l->wait = WAIT_EVENTS;
	l->heard_by_ns = sl_clock_ns() + l->store->hub->config.timeout_ms * SL_NS_PER_MS;
	redis_set_push_ms(l->events, 0);
}

/* No pong will come: the ping was refused or timed out, or its connection broke. */
static void end_wait_for_events(struct key_indexer *l)
{
	if (l->wait == WAIT_EVENTS)
		end_wait(l);
	continue_wait(l);
}

static void continue_wait(struct key_indexer *l)
{
	bool is_learned = l->n_learned >= l->learned_until || (!l->n && !l->n_sent);

	if (l->wait == WAIT_INDEXED && is_learned)
		end_wait(l);
	else if (l->wait == WAIT_INDEXED && !l->n_sent)
		send_batch(l);
	if (l->wait == WAIT_NONE && l->to_ask)
		begin_wait(l);
}

/* {"pong", what was sent with the ping} */
static void on_pong(struct key_indexer *l, const redisReply *message)
{
	uint64_t n;

	if (l->wait != WAIT_EVENTS || !store_u64(message, 1, &n) || n != l->pings)
		return;
	l->wait = WAIT_INDEXED;
	l->learned_until = l->n_noted;
	continue_wait(l);
}

void key_indexer_wait(struct key_indexer *l, unsigned slot)
{
	l->to_ask |= UINT64_C(1) << slot;
	continue_wait(l);
	schedule(l);
}

/* ---- the scan of all keys ---- */

static void end_scan(struct key_indexer *l)
{
	l->scan = SCAN_NONE;
	if (!(l->told && l->hears) && !l->scan_ns)
		scan_in(l, AGAIN_MS);
}

/* {cursor, {key, ...}} */
static void on_scanned(void *arg, int result, const redisReply *reply)
{
	struct key_indexer *l = arg;
	const redisReply *keys = store_item(reply, 1, REDIS_REPLY_ARRAY);
	const char *cursor = store_string(reply, 0, NULL);

	l->scanning = false;
	if (result || !keys || strlen(cursor) >= sizeof(l->cursor)) {
		l->scan = SCAN_NONE;
		scan_in(l, AGAIN_MS);
		schedule(l);
		return;
	}
	for (size_t i = 0; i < keys->elements; i++) {
		size_t len;
		const char *key = store_string(keys, i, &len);

		if (l->scan == SCAN_HASHES ? memchr(key, ':', len) != NULL : has_word(key, len))
			note(l, key, len);
	}
	strcpy(l->cursor, *cursor ? cursor : "0");
	if (strcmp(l->cursor, "0") == 0) {
		l->steps = 0;
		if (l->scan == SCAN_HASHES)
			l->scan = SCAN_STRINGS;
		else
			end_scan(l);
	}
	schedule(l);
}

static void scan_next(struct key_indexer *l)
{
	const char *type = l->scan == SCAN_HASHES ? "hash" : "string";
	char count[16];
	const char *args[] = { "SCAN", l->cursor, "COUNT", count, "TYPE", type };

	/* There are more keys now than when the scan began: take larger steps. */
	if (++l->steps > STEPS && l->count < COUNT_MAX) {
		l->count = l->count < COUNT_MAX / 2 ? 2 * l->count : COUNT_MAX;
		l->steps = 0;
	}
	snprintf(count, sizeof(count), "%u", l->count);
	l->scanning = !redis_command(l->store->redis, 6, args, NULL, on_scanned, l);
}

static void on_size(void *arg, int result, const redisReply *reply)
{
	struct key_indexer *l = arg;
	long long n = !result && reply->type == REDIS_REPLY_INTEGER ? reply->integer / STEPS : 0;

	l->scanning = false;
	l->count = n < COUNT_MIN ? COUNT_MIN : n > COUNT_MAX ? COUNT_MAX : (unsigned)n;
	l->steps = 0;
	strcpy(l->cursor, "0");
	l->scan = SCAN_HASHES;
	schedule(l);
}

static void begin_scan(struct key_indexer *l)
{
	const char *args[] = { "DBSIZE" };

	l->scan_ns = 0;
	l->scanning = !redis_command(l->store->redis, 1, args, NULL, on_size, l);
	if (!l->scanning)
		scan_in(l, AGAIN_MS);
}

/* ---- the setting of Redis that makes it send events ---- */

static void set_told(struct key_indexer *l, bool told, const char *why)
{
	if (!told && !l->said)
		sl_warn("key-indexer",
			"Redis does not report keys that other programs write (%s): all keys are "
			"scanned every second instead",
			why);
	l->said = !told;
	if (l->told != told)
		scan_in(l, 0);
	l->told = told;
	schedule(l);
}

static const char *why_not(const redisReply *reply)
{
	return reply->type == REDIS_REPLY_ERROR ? reply->str : "no answer";
}

/* Whether there is no usable answer, for example because Redis is busy: ask again later. */
static bool retry_later(struct key_indexer *l, int result, const redisReply *reply)
{
	if (result)
		return true;
	if (reply->type != REDIS_REPLY_ERROR || !store_is_refusal(reply->str))
		return false;
	l->check_ns = sl_clock_ns() + AGAIN_MS * SL_NS_PER_MS;
	schedule(l);
	return true;
}

/* Redis sent no events for writes before the flags were set: scan for their keys. */
static void on_set(void *arg, int result, const redisReply *reply)
{
	if (retry_later(arg, result, reply))
		return;
	scan_in(arg, 0);
	set_told(arg, reply->type != REDIS_REPLY_ERROR, why_not(reply));
}

/* Keep the flags that others have set, and add the missing ones. */
static void add_flags(struct key_indexer *l, const char *have)
{
	char flags[64];
	size_t n = (size_t)snprintf(flags, sizeof(flags) - 5, "%.48s", have);
	bool all = strchr(have, 'A') != NULL;
	const char *args[] = { "CONFIG", "SET", SETTING, flags };

	for (const char *f = "E$h"; *f; f++)
		if (!strchr(have, *f) && (!all || *f == 'E'))
			flags[n++] = *f;
	flags[n] = '\0';
	if (strlen(have) == n)
		set_told(l, true, "");
	else
		redis_command(l->store->redis, 4, args, NULL, on_set, l);
}

/* {name, value} */
static void on_flags(void *arg, int result, const redisReply *reply)
{
	struct key_indexer *l = arg;

	if (retry_later(l, result, reply))
		return;
	if (store_item(reply, 1, REDIS_REPLY_STRING))
		add_flags(l, store_string(reply, 1, NULL));
	else
		set_told(l, false, why_not(reply));
}

static void check_flags(struct key_indexer *l)
{
	const char *args[] = { "CONFIG", "GET", SETTING };

	l->check_ns = sl_clock_ns() + CHECK_MS * SL_NS_PER_MS;
	redis_command(l->store->redis, 3, args, NULL, on_flags, l);
}

/* ---- events ---- */

static void events_up(void *arg, const char *run_id)
{
	struct key_indexer *l = arg;
	unsigned db = l->store->hub->url.db;
	char hset[48], set[48];
	const char *args[1 + N_CHANNELS] = { "SUBSCRIBE", hset, set };

	(void)run_id;
	written_clear(l->store->hub);
	noted_clear(l->store->hub);
	snprintf(hset, sizeof(hset), "__keyevent@%u__:hset", db);
	snprintf(set, sizeof(set), "__keyevent@%u__:set", db);
	redis_command(l->events, 1 + N_CHANNELS, args, NULL, NULL, NULL);
}

static void set_hears(struct key_indexer *l, bool hears)
{
	l->hears = hears;
	scan_in(l, 0);
}

static void events_down(void *arg)
{
	struct key_indexer *l = arg;

	set_hears(l, false);
	end_wait_for_events(l);
	schedule(l);
}

/* Most events report our own writes: nothing to do for those. */
static void note_event(struct key_indexer *l, const char *key, size_t len)
{
	if (foreign_key_is_ours(key, len) || written_take(l->store->hub, key, len))
		return;
	atomic_fetch_add(&l->store->hub->compat->n_heard, 1);
	note(l, key, len);
	schedule(l);
}

/*
 * {"message", channel, key}, or {kind, name, count} as a confirmation. No event reported writes
 * before the last confirmation. We subscribe to exact channels although we need few of the strings:
 * Redis would try a pattern on every write and every message.
 */
static void on_event(void *arg, const redisReply *message)
{
	struct key_indexer *l = arg;
	size_t len, channel_len;
	uint64_t n;

	if (message->type == REDIS_REPLY_ERROR) {
		end_wait_for_events(l);
		schedule(l);
	} else if (strcmp(store_string(message, 0, NULL), "message") == 0) {
		const char *channel = store_string(message, 1, &channel_len);
		const char *key = store_string(message, 2, &len);
		bool hash = channel_len > 5 && !strcmp(channel + channel_len - 5, ":hset");

		if (hash || has_word(key, len))
			note_event(l, key, len);
	} else if (strcmp(store_string(message, 0, NULL), "pong") == 0) {
		on_pong(l, message);
	} else if (store_u64(message, 2, &n) && n == N_CHANNELS) {
		set_hears(l, true);
		schedule(l);
	}
}

/* ---- life ---- */

static uint64_t sooner(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static void show(const struct key_indexer *l)
{
	struct store_hub *hub = l->store->hub;

	atomic_store(&hub->compat->scanning, l->scan != SCAN_NONE || l->scanning || l->scan_ns);
	atomic_store(&hub->compat->told, l->told && l->hears);
	atomic_store(&hub->compat->untold, l->said);
}

static uint64_t when_next(const struct key_indexer *l, uint64_t now)
{
	uint64_t at = l->to_tell ? now + STEP_MS * SL_NS_PER_MS : UINT64_MAX;

	if (l->wait == WAIT_EVENTS)
		at = sooner(at, l->heard_by_ns);
	if (!l->up)
		return at;
	at = sooner(at, l->check_ns);
	if (l->n && !l->n_sent)
		at = sooner(at, now + SOON_MS * SL_NS_PER_MS);
	if (l->scan != SCAN_NONE && !l->scanning)
		at = sooner(at, now + STEP_MS * SL_NS_PER_MS);
	if (l->scan == SCAN_NONE && !l->scanning && l->scan_ns)
		at = sooner(at, l->scan_ns);
	return at;
}

/* The timer does all work, so its rate is bounded. */
static void schedule(struct key_indexer *l)
{
	uint64_t now = sl_clock_ns(), at = when_next(l, now);

	show(l);
	if (at == UINT64_MAX || l->store->closing)
		return;
	if (!evtimer_pending(l->timer, NULL) || at < l->due_ns) {
		l->due_ns = at;
		loop_set_timer_us(l->timer, at > now ? (at - now) / SL_NS_PER_US + 1 : 0);
	}
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct key_indexer *l = arg;
	uint64_t now = sl_clock_ns();

	(void)fd;
	(void)what;
	if (l->to_tell)
		report_indexed(l);
	if (l->wait == WAIT_EVENTS && now >= l->heard_by_ns)
		end_wait_for_events(l);
	if (!l->up) {
		schedule(l);
		return;
	}
	if (now >= l->check_ns)
		check_flags(l);
	if (l->n && !l->n_sent)
		send_batch(l);
	if (l->scan != SCAN_NONE && !l->scanning && l->n < QUEUE_MAX / 2)
		scan_next(l);
	else if (l->scan == SCAN_NONE && !l->scanning && l->scan_ns && now >= l->scan_ns)
		begin_scan(l);
	schedule(l);
}

void key_indexer_up(struct key_indexer *l)
{
	l->up = true;
	l->scan = SCAN_NONE;
	l->check_ns = 0;
	scan_in(l, 0);
	schedule(l);
}

void key_indexer_down(struct key_indexer *l)
{
	l->up = false;
	evtimer_del(l->timer);
	schedule(l);
}

int key_indexer_create(struct store *store, key_indexer_fn *indexed, struct key_indexer **out)
{
	struct key_indexer *l = calloc(1, sizeof(*l));
	struct redis_attr attr = { .url = &store->hub->url,
				   .name = "nanoctrl-keys",
				   .timeout_ms = store->hub->config.timeout_ms,
				   .max_inflight = 16,
				   .up = events_up,
				   .down = events_down,
				   .push = on_event,
				   .push_ms = EVENTS_MS,
				   .arg = l };

	if (!l)
		return -ENOMEM;
	l->store = store;
	l->indexed = indexed;
	l->timer = evtimer_new(store->base, on_timer, l);
	if (!l->timer || redis_create(store->base, &attr, &l->events)) {
		key_indexer_destroy(l);
		return -ENOMEM;
	}
	*out = l;
	return 0;
}

void key_indexer_destroy(struct key_indexer *l)
{
	if (!l)
		return;
	redis_destroy(l->events);
	drop(l, l->n);
	if (l->timer)
		event_free(l->timer);
	free(l);
}
