/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cursors, and those who follow events from them. The input is a text that may be a cursor, up to
 * its first newline, and then what happens: events, the loss of old ones and of the whole store,
 * connections that break and come back, readers that come and go. Each reader is told of every
 * event once and in order, or of a reset; and when all is quiet nobody waits for what has happened.
 *
 * The store is real; what its script of events would answer is computed here.
 */
#include <assert.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <event2/event.h>
#include "tests/nanoctrl/store/fake_connection.h"
#include "nanoctrl/net/loop.h"
#include "model/model.h"
#include <base/log.h>
#include "store/redis_store.h"
#include "store/script.h"
#include "api/event_cursor.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SCOPE	  "scope"
#define N_READERS 4
#define STEPS_MAX 200
#define TURNS_MAX 200 /* until all is quiet */

/* ---- what Redis holds ---- */

static struct {
	uint64_t epoch;	    /* 0: nothing */
	uint64_t last;	    /* id of the last event */
	uint64_t oldest;    /* id of the oldest that is kept; last + 1: none is */
	uint64_t n_epochs;  /* so far */
	unsigned n_failing; /* answers that do not come */
} held;

/* As nanoctrl/lua/events.lua. */
static redisReply *answer_events(uint64_t epoch, uint64_t behind, uint64_t limit)
{
	char text[32768];
	bool reset = false;
	uint64_t n = 0;
	size_t at;

	if (epoch || !held.epoch) {
		reset = epoch != held.epoch || behind > held.last;
		reset = reset || (behind < held.last && behind + 1 < held.oldest);
		n = reset ? 0 : held.last - behind;
		n = n < limit ? n : limit;
	}
	at = (size_t)snprintf(text, sizeof(text),
			      "*5\r\n:0\r\n:%" PRIu64 "\r\n:%d\r\n:%" PRIu64 "\r\n*%" PRIu64 "\r\n",
			      held.epoch, reset, held.last, n);
	for (uint64_t id = behind + 1; n; id++, n--)
		at += (size_t)snprintf(text + at, sizeof(text) - at,
				       "*2\r\n$8\r\n%06" PRIu64 "-0\r\n*4\r\n$1\r\nt\r\n$4\r\n"
				       "left\r\n$1\r\na\r\n$1\r\na\r\n",
				       id);
	assert(at < sizeof(text));
	return fake_reply(text);
}

static uint64_t number_of(struct fake_word w)
{
	return strtoull(w.at, NULL, 10);
}

static redisReply *answer(size_t n, const struct fake_word *words)
{
	if (held.n_failing) {
		held.n_failing--;
		return NULL;
	}
	/* EVALSHA sha 1 prefix keep epoch behind limit */
	if (n == 8 && !strcmp(words[1].at, scripts[SCRIPT_EVENTS].sha1))
		return answer_events(number_of(words[5]), number_of(words[6]), number_of(words[7]));
	return fake_reply("-ERR of no interest here\r\n");
}

/* ---- those who read ---- */

static struct store *store;

static struct reader {
	struct event_cursor *cursor; /* NULL: not there */
	struct store_cursor at;
	bool known; /* at is a place */
} readers[N_READERS];

static void on_events(void *arg, const struct store_events *ev)
{
	struct reader *r = arg;

	if (ev->reset) {
		assert(!ev->n);
		r->at = (struct store_cursor){ ev->epoch, ev->last };
		r->known = true;
		return;
	}
	assert(ev->n);
	if (r->known && !r->at.epoch)
		r->at = (struct store_cursor){ ev->epoch, 0 };
	for (size_t i = 0; i < ev->n; i++) {
		assert(!r->known || (ev->epoch == r->at.epoch && ev->events[i].id == r->at.id + 1));
		r->at = (struct store_cursor){ ev->epoch, ev->events[i].id };
		r->known = true;
	}
}

static void open_reader(struct reader *r, const struct store_cursor *from)
{
	r->known = from != NULL;
	if (from)
		r->at = *from;
	assert(!event_cursor_open(store, SCOPE, from, on_events, r, &r->cursor));
}

static void close_reader(struct reader *r)
{
	event_cursor_close(r->cursor);
	r->cursor = NULL;
}

/* ---- what happens ---- */

static void turn(unsigned n)
{
	while (n--)
		event_base_loop(store->base, EVLOOP_NONBLOCK);
}

static void happen(unsigned n)
{
	if (!held.epoch)
		held.epoch = ++held.n_epochs;
	held.last += n;
	fake_connection_push(
		FAKE_NOTICES,
		fake_reply("*4\r\n$8\r\npmessage\r\n$1\r\np\r\n$21\r\n{scope}:nanoctrl:"
			   "wake\r\n$1\r\n1\r\n"));
}

static void trim(unsigned keep)
{
	uint64_t oldest = held.last > keep ? held.last - keep + 1 : 1;

	held.oldest = oldest > held.oldest ? oldest : held.oldest;
}

static void restore(void)
{
	fake_connection_restore(FAKE_COMMANDS);
	fake_connection_restore(FAKE_NOTICES);
	turn(1);
	fake_connection_push(FAKE_NOTICES,
			     fake_reply("*3\r\n$10\r\npsubscribe\r\n$1\r\np\r\n:1\r\n"));
}

/* Redis comes back with nothing. */
static void lose_all(void)
{
	fake_connection_break(FAKE_COMMANDS);
	fake_connection_break(FAKE_NOTICES);
	held.epoch = held.last = 0;
	held.oldest = 1;
}

/* The stream was damaged: it begins anew, under another epoch. */
static void recreate(void)
{
	held.epoch = ++held.n_epochs;
	held.oldest = held.last + 1;
	happen(1);
}

static void come_or_go(unsigned which, const struct store_cursor *cursor)
{
	struct reader *r = &readers[which % N_READERS];
	struct store_cursor last = { held.epoch, held.last };

	if (r->cursor)
		close_reader(r);
	else
		open_reader(r, which < 8 ? NULL : which < 16 ? cursor : &last);
}

static void step(uint8_t what, const struct store_cursor *cursor)
{
	unsigned n = what >> 3;

	switch (what & 7) {
	case 0:
		happen(n * n / 4 + 1); /* two of the most do not fit into an answer */
		break;
	case 1:
		trim(n);
		break;
	case 2:
		n % 2 ? lose_all() : recreate();
		break;
	case 3:
		fake_connection_break(n % 2 ? FAKE_COMMANDS : FAKE_NOTICES);
		break;
	case 4:
		restore();
		break;
	case 5:
		come_or_go(n, cursor);
		break;
	case 6:
		held.n_failing = n;
		break;
	default:
		turn(n);
	}
}

static bool is_told(const struct reader *r)
{
	struct store_cursor at = event_cursor_at(r->cursor);

	return at.epoch == held.epoch && at.id == held.last && !event_cursor_failed(r->cursor);
}

/* Nothing fails any more, and sessions tick. */
static void settle(void)
{
	bool told = false;

	held.n_failing = 0;
	restore();
	for (int i = 0; i < TURNS_MAX && !told; i++) {
		turn(2);
		told = true;
		for (int k = 0; k < N_READERS; k++) {
			if (!readers[k].cursor)
				continue;
			event_cursor_poke(readers[k].cursor);
			told = told && is_told(&readers[k]);
		}
	}
	assert(told);
}

/* ---- one input ---- */

static bool read_cursor(const char *text, struct store_cursor *out)
{
	char again[MODEL_CURSOR_MAX];
	struct store_cursor same;
	struct model_error err;
	char scope[KEY_NAME_MAX + 1];

	*out = (struct store_cursor){ 0 };
	model_parse_message(text, strlen(text), &same, &err);
	for (int cluster = 0; cluster < 2; cluster++) {
		struct key_names names;

		key_names_init(&names, cluster);
		if (key_wake_scope(&names, text, strlen(text), scope))
			assert(key_scope_valid(scope));
	}
	if (!model_parse_cursor(text, out))
		return false;
	model_format_cursor(again, out);
	assert(model_parse_cursor(again, &same) && same.epoch == out->epoch && same.id == out->id);
	return true;
}

static void play(const uint8_t *steps, size_t n, const struct store_cursor *cursor)
{
	struct store_config config = STORE_CONFIG_INIT;
	struct store_hub *hub;
	struct loop *loop;

	memset(&held, 0, sizeof(held));
	held.oldest = 1;
	memset(readers, 0, sizeof(readers));
	fake_connections_begin(answer);
	assert(!store_hub_create(&config, &hub));
	assert(!loop_create(&loop));
	assert(!store_create(hub, loop, &store));
	restore();
	for (size_t i = 0; i < n && i < STEPS_MAX; i++)
		step(steps[i], cursor);
	settle();
	for (int i = 0; i < N_READERS; i++)
		close_reader(&readers[i]);
	store_destroy(store);
	loop_destroy(loop);
	store_hub_destroy(hub);
}

static void be_silent(void *arg, enum slime_log_level level, const char *part, const char *line)
{
	(void)arg;
	(void)level;
	(void)part;
	(void)line;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *end = size ? memchr(data, '\n', size) : NULL;
	size_t len = end ? (size_t)(end - data) : size;
	char *text = malloc(len + 1);
	struct store_cursor cursor;

	assert(text);
	slime_log_set(be_silent, NULL, SLIME_LOG_ERROR);
	if (len)
		memcpy(text, data, len);
	text[len] = '\0';
	if (read_cursor(text, &cursor))
		play(end ? end + 1 : data, end ? size - len - 1 : 0, &cursor);
	free(text);
	return 0;
}
