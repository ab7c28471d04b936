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

#define QUEUE_MAX   16384
#define BATCH_MAX   256
#define KEY_MAX	    8192 /* a longer one is none of theirs */
#define EVENTS_MS   10	 /* from one reading of events to the next */
#define SOON_MS	    1	 /* from the first key to the batch that has it */
#define STEP_MS	    10	 /* between portions of a look through all keys, */
#define STEPS	    150	 /* which takes so many of them, */
#define PORTION_MIN 100
#define PORTION_MAX 5000 /* longer in a Redis that holds more than STEPS of these */
#define AGAIN_MS    1000 /* from the end of a look to the next, without events */
#define CHECK_MS    3000 /* the flags may be taken away */
#define N_CHANNELS  2

/* A portion is asked for when the queue is half empty at least: it has room there. */
_Static_assert(QUEUE_MAX / 2 > PORTION_MAX, "a look finds what the queue has room for");

#define SETTING "notify-keyspace-events"

enum look { LOOK_NONE, LOOK_HASHES, LOOK_STRINGS };

/* Of what stores wait for: store_settle(). */
enum settling {
	SETTLING_NONE,
	SETTLING_HEARING,  /* until the pong behind the events of what was written before */
	SETTLING_LEARNING, /* until what they named is learned */
};

struct key {
	char *at;
	size_t len;
};

struct key_indexer {
	struct store *store;
	struct redis *events;
	struct event *timer;
	struct key queue[QUEUE_MAX]; /* a ring */
	size_t first, n;
	size_t n_sent; /* of the first of them a batch is out; 0: none is */
	uint64_t from; /* of the first one's targets so many are learned */
	bool up;       /* the store's connection */
	bool told;     /* Redis sends events */
	bool hears;    /* the connection that they come by has subscribed */
	bool said;     /* that Redis does not, in the log */
	enum look look;
	bool looking; /* a portion is out */
	char cursor[24];
	unsigned portion, steps; /* keys of a step, and steps of this size so far */
	uint64_t look_ns;	 /* when a look begins; 0: not by itself */
	uint64_t check_ns;	 /* when to see that events are still sent */
	uint64_t due_ns;	 /* when the timer runs out */
	enum settling settling;
	uint64_t asking;      /* slots of the stores that wait for it: a bit each, */
	uint64_t to_ask;      /* those behind them, */
	uint64_t to_tell;     /* and those for which it is over */
	uint64_t pings;	      /* sent, */
	uint64_t heard_by_ns; /* and when the answer to the last has to be here */
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

/* One of the words stands at the beginning of the key or behind a colon. */
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

static void begin_look_in(struct key_indexer *l, uint32_t ms)
{
	l->look_ns = sl_clock_ns() + ms * SL_NS_PER_MS;
}

/* One for which there is no room is found by a look later. */
static void note(struct key_indexer *l, const char *key, size_t len)
{
	char *at;

	if (!len || len > KEY_MAX || foreign_key_is_ours(key, len) || !sl_utf8_valid(key, len))
		return;
	at = l->n < QUEUE_MAX ? malloc(len) : NULL;
	if (!at) {
		begin_look_in(l, AGAIN_MS);
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

static void settle_on(struct key_indexer *l);

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
		begin_look_in(l, AGAIN_MS);
	}
	drop(l, done);
	l->n_sent = 0;
	l->from = from;
	l->n_learned = l->n_noted - l->n;
	settle_on(l);
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

/* ---- what was written before ---- */

static void tell_settled(struct key_indexer *l)
{
	for (unsigned i = 0; i < STORE_LOOPS_MAX; i++)
		if (l->to_tell >> i & 1 && !index_wait_end(l->store->hub, i))
			l->to_tell &= ~(UINT64_C(1) << i);
}

/* Also where it cannot be known: they do with what is learned. */
static void end_settling(struct key_indexer *l)
{
	l->settling = SETTLING_NONE;
	l->to_tell |= l->asking;
	l->asking = 0;
	redis_set_pace(l->events, EVENTS_MS);
	tell_settled(l);
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

static void begin_settling(struct key_indexer *l)
{
	l->asking = l->to_ask;
	l->to_ask = 0;
	if (!ping(l)) {
		end_settling(l);
		return;
	}
	l->settling = SETTLING_HEARING;
	l->heard_by_ns = sl_clock_ns() + l->store->hub->config.timeout_ms * SL_NS_PER_MS;
	redis_set_pace(l->events, 0);
}

/* No answer comes any more: a ping was refused, is not answered, or its connection broke. */
static void end_hearing(struct key_indexer *l)
{
	if (l->settling == SETTLING_HEARING)
		end_settling(l);
	settle_on(l);
}

static void settle_on(struct key_indexer *l)
{
	bool is_learned = l->n_learned >= l->learned_until || (!l->n && !l->n_sent);

	if (l->settling == SETTLING_LEARNING && is_learned)
		end_settling(l);
	else if (l->settling == SETTLING_LEARNING && !l->n_sent)
		send_batch(l);
	if (l->settling == SETTLING_NONE && l->to_ask)
		begin_settling(l);
}

/* {"pong", what was sent with the ping} */
static void on_pong(struct key_indexer *l, const redisReply *message)
{
	uint64_t n;

	if (l->settling != SETTLING_HEARING || !store_u64(message, 1, &n) || n != l->pings)
		return;
	l->settling = SETTLING_LEARNING;
	l->learned_until = l->n_noted;
	settle_on(l);
}

void key_indexer_wait(struct key_indexer *l, unsigned slot)
{
	l->to_ask |= UINT64_C(1) << slot;
	settle_on(l);
	schedule(l);
}

/* ---- looking through all keys ---- */

static void end_look(struct key_indexer *l)
{
	l->look = LOOK_NONE;
	if (!(l->told && l->hears) && !l->look_ns)
		begin_look_in(l, AGAIN_MS);
}

/* {cursor, {key, ...}} */
static void on_portion(void *arg, int result, const redisReply *reply)
{
	struct key_indexer *l = arg;
	const redisReply *keys = store_item(reply, 1, REDIS_REPLY_ARRAY);
	const char *cursor = store_string(reply, 0, NULL);

	l->looking = false;
	if (result || !keys || strlen(cursor) >= sizeof(l->cursor)) {
		l->look = LOOK_NONE;
		begin_look_in(l, AGAIN_MS);
		schedule(l);
		return;
	}
	for (size_t i = 0; i < keys->elements; i++) {
		size_t len;
		const char *key = store_string(keys, i, &len);

		if (l->look == LOOK_HASHES ? memchr(key, ':', len) != NULL : has_word(key, len))
			note(l, key, len);
	}
	strcpy(l->cursor, *cursor ? cursor : "0");
	if (strcmp(l->cursor, "0") == 0) {
		l->steps = 0;
		if (l->look == LOOK_HASHES)
			l->look = LOOK_STRINGS;
		else
			end_look(l);
	}
	schedule(l);
}

static void look_on(struct key_indexer *l)
{
	const char *type = l->look == LOOK_HASHES ? "hash" : "string";
	char portion[16];
	const char *args[] = { "SCAN", l->cursor, "COUNT", portion, "TYPE", type };

	/* There were not as many keys when it began. */
	if (++l->steps > STEPS && l->portion < PORTION_MAX) {
		l->portion = l->portion < PORTION_MAX / 2 ? 2 * l->portion : PORTION_MAX;
		l->steps = 0;
	}
	snprintf(portion, sizeof(portion), "%u", l->portion);
	l->looking = !redis_command(l->store->redis, 6, args, NULL, on_portion, l);
}

static void on_size(void *arg, int result, const redisReply *reply)
{
	struct key_indexer *l = arg;
	long long n = !result && reply->type == REDIS_REPLY_INTEGER ? reply->integer / STEPS : 0;

	l->looking = false;
	l->portion = n < PORTION_MIN ? PORTION_MIN : n > PORTION_MAX ? PORTION_MAX : (unsigned)n;
	l->steps = 0;
	strcpy(l->cursor, "0");
	l->look = LOOK_HASHES;
	schedule(l);
}

static void begin_look(struct key_indexer *l)
{
	const char *args[] = { "DBSIZE" };

	l->look_ns = 0;
	l->looking = !redis_command(l->store->redis, 1, args, NULL, on_size, l);
	if (!l->looking)
		begin_look_in(l, AGAIN_MS);
}

/* ---- whether Redis tells ---- */

static void set_told(struct key_indexer *l, bool told, const char *why)
{
	if (!told && !l->said)
		sl_warn("key-indexer",
			"Redis does not tell of keys that others write (%s): they are looked for "
			"all the time",
			why);
	l->said = !told;
	if (l->told != told)
		begin_look_in(l, 0);
	l->told = told;
	schedule(l);
}

static const char *why_not(const redisReply *reply)
{
	return reply->type == REDIS_REPLY_ERROR ? reply->str : "no answer";
}

/* One that is busy, say, is asked again. */
static bool says_nothing(struct key_indexer *l, int result, const redisReply *reply)
{
	if (result)
		return true;
	if (reply->type != REDIS_REPLY_ERROR || !store_is_refusal(reply->str))
		return false;
	l->check_ns = sl_clock_ns() + AGAIN_MS * SL_NS_PER_MS;
	schedule(l);
	return true;
}

/* What was written while a flag was not there was told to nobody. */
static void on_set(void *arg, int result, const redisReply *reply)
{
	if (says_nothing(arg, result, reply))
		return;
	begin_look_in(arg, 0);
	set_told(arg, reply->type != REDIS_REPLY_ERROR, why_not(reply));
}

/* What others have set stays: we add what we lack. */
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

	if (says_nothing(l, result, reply))
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
	begin_look_in(l, 0);
}

static void events_down(void *arg)
{
	struct key_indexer *l = arg;

	set_hears(l, false);
	end_hearing(l);
	schedule(l);
}

/* Most of what is written we wrote: then there is nothing to do. */
static void note_event(struct key_indexer *l, const char *key, size_t len)
{
	if (foreign_key_is_ours(key, len) || written_take(l->store->hub, key, len))
		return;
	atomic_fetch_add(&l->store->hub->compat->n_heard, 1);
	note(l, key, len);
	schedule(l);
}

/*
 * {"message", channel, key}, or {what, name, how many} as confirmations: what was written before
 * the last of them was heard of by nobody. Exact channels, although of strings we want few:
 * Redis tries a pattern on whatever anybody writes or publishes.
 */
static void on_event(void *arg, const redisReply *message)
{
	struct key_indexer *l = arg;
	size_t len, channel_len;
	uint64_t n;

	if (message->type == REDIS_REPLY_ERROR) {
		end_hearing(l);
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

	atomic_store(&hub->compat->looking, l->look != LOOK_NONE || l->looking || l->look_ns);
	atomic_store(&hub->compat->told, l->told && l->hears);
	atomic_store(&hub->compat->untold, l->said);
}

static uint64_t when_next(const struct key_indexer *l, uint64_t now)
{
	uint64_t at = l->to_tell ? now + STEP_MS * SL_NS_PER_MS : UINT64_MAX;

	if (l->settling == SETTLING_HEARING)
		at = sooner(at, l->heard_by_ns);
	if (!l->up)
		return at;
	at = sooner(at, l->check_ns);
	if (l->n && !l->n_sent)
		at = sooner(at, now + SOON_MS * SL_NS_PER_MS);
	if (l->look != LOOK_NONE && !l->looking)
		at = sooner(at, now + STEP_MS * SL_NS_PER_MS);
	if (l->look == LOOK_NONE && !l->looking && l->look_ns)
		at = sooner(at, l->look_ns);
	return at;
}

/* The timer is what does everything, so that it happens at its pace. */
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
		tell_settled(l);
	if (l->settling == SETTLING_HEARING && now >= l->heard_by_ns)
		end_hearing(l);
	if (!l->up) {
		schedule(l);
		return;
	}
	if (now >= l->check_ns)
		check_flags(l);
	if (l->n && !l->n_sent)
		send_batch(l);
	if (l->look != LOOK_NONE && !l->looking && l->n < QUEUE_MAX / 2)
		look_on(l);
	else if (l->look == LOOK_NONE && !l->looking && l->look_ns && now >= l->look_ns)
		begin_look(l);
	schedule(l);
}

void key_indexer_up(struct key_indexer *l)
{
	l->up = true;
	l->look = LOOK_NONE;
	l->check_ns = 0;
	begin_look_in(l, 0);
	schedule(l);
}

void key_indexer_down(struct key_indexer *l)
{
	l->up = false;
	evtimer_del(l->timer);
	schedule(l);
}

int key_indexer_create(struct store *store, struct key_indexer **out)
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
