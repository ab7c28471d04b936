/* SPDX-License-Identifier: Apache-2.0 */
/* Who follows events, where what happens falls between two reads, or a read is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "api/event_cursor.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <event2/event.h>
#include "store/event.h"
#include "store/script.h"
#include "tests/nanoctrl/store/fake_store.h"

#define SCOPE	  "scope"
#define TURNS_MAX 100

#define MAX_INFLIGHT 16

/* ---- what Redis holds ---- */

enum { EPOCH = 7 };

static struct {
	uint64_t last;	  /* id of the last event */
	unsigned n_reads; /* of events, so far */
	unsigned refused; /* those that it has no time for: a bit for each, of 1 << number */
	unsigned late;	  /* an event happens just before this one is answered */
} held;

/* As nanoctrl/lua/events.lua. */
static redisReply *answer_events(uint64_t epoch, uint64_t behind)
{
	uint64_t n = epoch ? held.last - behind : 0;
	char text[1024];
	size_t at;

	at = (size_t)snprintf(text, sizeof(text),
			      "*5\r\n:0\r\n:%d\r\n:0\r\n:%" PRIu64 "\r\n*%" PRIu64 "\r\n", EPOCH,
			      held.last, n);
	for (uint64_t id = behind + 1; n; id++, n--)
		at += (size_t)snprintf(text + at, sizeof(text) - at,
				       "*2\r\n$8\r\n%06" PRIu64 "-0\r\n*4\r\n$1\r\nt\r\n$4\r\n"
				       "left\r\n$1\r\na\r\n$1\r\na\r\n",
				       id);
	return fake_reply(text);
}

static redisReply *answer(size_t n, const struct fake_word *words)
{
	/* EVALSHA sha 1 prefix keep epoch behind limit */
	if (n != 8 || strcmp(words[1].at, scripts[SCRIPT_EVENTS].sha1) != 0)
		return fake_reply("-ERR of no interest here\r\n");
	if (held.refused & 1U << ++held.n_reads)
		return fake_reply("-BUSY Redis is busy running a script\r\n");
	if (held.n_reads == held.late)
		held.last++;
	return answer_events(strtoull(words[5].at, NULL, 10), strtoull(words[6].at, NULL, 10));
}

static void tell_of(const char *scope)
{
	char text[128];

	snprintf(text, sizeof(text),
		 "*4\r\n$8\r\npmessage\r\n$1\r\np\r\n$%zu\r\n{%s}:nanoctrl:wake\r\n$1\r\n1\r\n",
		 strlen(scope) + strlen("{}:nanoctrl:wake"), scope);
	fake_connection_push(FAKE_NOTICES, fake_reply(text));
}

static void tell(void)
{
	tell_of(SCOPE);
}

static void happen(void)
{
	held.last++;
	tell();
}

/* ---- a store ---- */

static int setup(void **state)
{
	struct store_config config = STORE_CONFIG_INIT;
	struct fake_store *s = calloc(1, sizeof(*s));

	*state = s;
	config.max_inflight = MAX_INFLIGHT;
	memset(&held, 0, sizeof(held));
	held.last = 1;
	fake_store_open(s, &config, answer);
	return 0;
}

static int teardown(void **state)
{
	struct fake_store *s = *state;

	fake_store_close(s);
	free(s);
	return 0;
}

/* ---- who follows ---- */

static void hear(void *arg, const struct store_events *ev)
{
	uint64_t *heard = arg;

	assert_false(ev->reset);
	for (size_t i = 0; i < ev->n; i++)
		*heard = ev->events[i].id;
}

static struct event_cursor *open_cursor(struct fake_store *s, uint64_t *heard)
{
	struct store_cursor from = { EPOCH, held.last };
	struct event_cursor *t;

	assert_int_equal(event_cursor_open(s->store, SCOPE, &from, hear, heard, &t), 0);
	return t;
}

static void until_heard(const struct fake_store *s, const uint64_t *heard)
{
	/* The reaper's timer ends each. */
	for (int i = 0; i < TURNS_MAX && *heard < held.last; i++)
		event_base_loop(loop_base(s->loop), EVLOOP_ONCE);
	assert_int_equal(*heard, held.last);
}

static void event_cursor__hears_later_what_a_refused_read_would_have_told(void **state)
{
	struct fake_store *s = *state;
	uint64_t heard = 0;
	struct event_cursor *t = open_cursor(s, &heard);

	fake_store_turn(s, 10);
	assert_int_equal(held.n_reads, 2); /* the feed's and its own */
	held.refused = 1 << 3 | 1 << 4;
	happen();
	until_heard(s, &heard);
	event_cursor_close(t);
}

static void ignore_page(void *arg, int result, const struct store_page *page)
{
	(void)arg;
	(void)result;
	(void)page;
}

static void event_cursor__hears_later_what_there_was_no_room_to_ask_for(void **state)
{
	struct fake_store *s = *state;
	uint64_t heard = 0;
	struct event_cursor *t = open_cursor(s, &heard);

	fake_store_turn(s, 10);
	for (int i = 0; i < MAX_INFLIGHT; i++)
		store_list_agents(s->store, SCOPE, "", 10, ignore_page, NULL);
	held.last++;
	store_wake(s->store, SCOPE);
	until_heard(s, &heard);
	assert_int_equal(held.n_reads, 3);
	event_cursor_close(t);
}

static void event_cursor__of_a_feed_that_was_refused_at_first_hears_the_first_event(void **state)
{
	struct fake_store *s = *state;
	uint64_t heard = 0;
	struct event_cursor *t;

	held.refused = 1 << 1;
	t = open_cursor(s, &heard);
	fake_store_turn(s, 1);
	happen();
	until_heard(s, &heard);
	event_cursor_close(t);
}

/* One that left has asked for it, before the event; the feed that begins anew asks after it. */
static void event_cursor__served_by_a_read_from_before_its_feed_misses_nothing(void **state)
{
	struct fake_store *s = *state;
	uint64_t heard = 0;
	struct event_cursor *left = open_cursor(s, &heard);
	struct event_cursor *t;

	held.refused = 1 << 2;
	fake_store_turn(s, 10);
	event_cursor_poke(left);
	event_cursor_close(left);
	t = open_cursor(s, &heard);
	held.late = 4;
	fake_store_turn(s, 10);
	assert_true(held.n_reads >= 4);
	tell();
	until_heard(s, &heard);
	event_cursor_close(t);
}

/* More than are noted by their names. */
static void tell_of_many_others(const struct fake_store *s)
{
	char scope[32];

	for (int i = 0; i < 4 * WAKES_MAX; i++) {
		snprintf(scope, sizeof(scope), "other-%d", i);
		if (store_bucket(s->hub, scope) != store_bucket(s->hub, SCOPE))
			tell_of(scope);
	}
}

static void event_cursor__is_read_for_its_own_scope_alone(void **state)
{
	struct fake_store *s = *state;
	uint64_t heard = 0;
	struct event_cursor *t = open_cursor(s, &heard);

	fake_store_turn(s, 10);
	assert_int_equal(held.n_reads, 2);
	tell_of_many_others(s);
	fake_store_turn(s, 10);
	assert_int_equal(held.n_reads, 2);
	tell_of_many_others(s);
	happen();
	until_heard(s, &heard);
	assert_int_equal(held.n_reads, 3);
	event_cursor_close(t);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(event_cursor__hears_later_what_a_refused_read_would_have_told),
		TEST(event_cursor__hears_later_what_there_was_no_room_to_ask_for),
		TEST(event_cursor__of_a_feed_that_was_refused_at_first_hears_the_first_event),
		TEST(event_cursor__served_by_a_read_from_before_its_feed_misses_nothing),
		TEST(event_cursor__is_read_for_its_own_scope_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
