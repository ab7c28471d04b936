/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions of agents: how they begin, what they hear, and how they end. */
#include "tests/nanoctrl/api/fixture.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "model/model.h"
#include "tests/nanoctrl/api/stream_client.h"

static void session__hears_of_peers_and_of_offers_to_it(void **state)
{
	struct api_fixture *f = *state;
	struct api_answer a = { .status = 0 };
	static struct api_stream s;
	char lease_a[512];
	char lease_b[512];
	json_t *v;

	api_join(f, &s, "node-b", "i2", lease_b);
	assert_int_equal(api_register(f, "node-a", "i1", OWNER_KEY_A, lease_a), 201);
	v = api_next_of(&s, "registered"); /* its own: it asked from before */
	json_decref(v);
	v = api_next_of(&s, "registered");
	assert_string_equal(json_string_value(json_object_get(v, "agent")), "node-a");
	json_decref(v);
	assert_int_equal(api_do(f, &a, "PUT",
				"/v1/agents/node-a/exchange/node-b/default?scope=demo", lease_a,
				OFFER),
			 200);
	v = api_next_of(&s, "offer");
	assert_string_equal(json_string_value(json_object_get(v, "from")), "node-a");
	json_decref(v);
	api_send(&s, "{\"type\":\"beat\"}");
	json_decref(api_next_of(&s, "beat"));
	/* node-a never beats: it expires, while the session keeps node-b. */
	for (bool gone = false; !gone;) {
		const char *type;

		v = api_next(&s);
		assert_non_null(v);
		type = json_string_value(json_object_get(v, "type"));
		gone = strcmp(type, "expired") == 0;
		if (strcmp(type, "beat") == 0)
			api_send(&s, "{\"type\":\"beat\"}");
		json_decref(v);
	}
	api_close(&s);
	api_answer_fini(&a);
}

static void metrics__say_how_many_sessions_are_open(void **state)
{
	struct api_fixture *f = *state;
	static struct api_stream a, b, lines;
	char lease[512];

	assert_int_equal(api_metric(f, "nanoctrl_sessions"), 0);
	api_join(f, &a, "node-a", "i1", lease);
	assert_int_equal(api_metric(f, "nanoctrl_sessions"), 1);
	api_join(f, &b, "node-b", "i2", lease);
	assert_int_equal(api_open(f, &lines, "/v1/events?scope=demo", NULL, false), 200);
	api_await_metric(f, "nanoctrl_streams", 3);
	assert_int_equal(api_metric(f, "nanoctrl_sessions"), 2);
	api_close(&a);
	api_await_metric(f, "nanoctrl_sessions", 1);
	api_close(&b);
	api_close(&lines);
	api_await_metric(f, "nanoctrl_sessions", 0);
}

static void session__is_told_that_it_was_superseded(void **state)
{
	struct api_fixture *f = *state;
	static struct api_stream s;
	char lease[512];

	assert_int_equal(api_register(f, "node-a", "i1", OWNER_KEY_A, lease), 201);
	assert_int_equal(api_open_session(f, &s, "node-a", lease), 101);
	assert_int_equal(api_register(f, "node-a", "i2", OWNER_KEY_A, lease), 201);
	json_decref(api_next_of(&s, "superseded"));
	while (api_next(&s))
		;
	assert_int_equal(s.close_code, 4002);
	api_close(&s);
}

static void session__that_sends_what_is_no_object_is_closed(void **state)
{
	static const char *const bad[] = { "{", "[]", "7" };
	struct api_fixture *f = *state;
	static struct api_stream s;
	char lease[512];

	assert_int_equal(api_register(f, "node-a", "i1", OWNER_KEY_A, lease), 201);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		assert_int_equal(api_open_session(f, &s, "node-a", lease), 101);
		api_send(&s, "{\"type\":\"beet\"}");
		json_decref(api_next_of(&s, "error"));
		api_send(&s, bad[i]);
		json_decref(api_next_of(&s, "error"));
		while (api_next(&s))
			;
		assert_int_equal(s.close_code, 1008);
		api_close(&s);
	}
}

static void session__that_is_replaced_goes_away(void **state)
{
	struct api_fixture *f = *state;
	static struct api_stream old;
	static struct api_stream new;
	char lease[512];

	assert_int_equal(api_register(f, "node-a", "i1", OWNER_KEY_A, lease), 201);
	assert_int_equal(api_open_session(f, &old, "node-a", lease), 101);
	assert_int_equal(api_open_session(f, &new, "node-a", lease), 101);
	api_send(&old, "{\"type\":\"beat\"}");
	json_decref(api_next_of(&old, "goaway"));
	api_send(&new, "{\"type\":\"beat\"}");
	json_decref(api_next_of(&new, "beat"));
	api_close(&old);
	api_close(&new);
}

/* It says nothing, and the lease is renewed by the newer one. */
static void session__that_is_replaced_and_never_beats_goes_away(void **state)
{
	struct api_fixture *f = *state;
	static struct api_stream old, new;
	char lease[512];

	api_join(f, &old, "node-a", "i1", lease);
	assert_int_equal(api_open_session(f, &new, "node-a", lease), 101);
	for (int i = 0, gone = 0; !gone; i++) {
		json_t *v = api_next(&old);
		const char *type = json_string_value(json_object_get(v, "type"));

		assert_non_null(v);
		assert_true(i < 200);
		gone = strcmp(type, "goaway") == 0;
		if (gone)
			assert_string_equal(json_string_value(json_object_get(v, "reason")),
					    "replaced");
		else
			api_send(&new, "{\"type\":\"beat\"}");
		json_decref(v);
	}
	assert_null(api_next(&old));
	assert_int_equal(old.close_code, 4003);
	json_decref(api_next_of(&new, "beat"));
	api_close(&old);
	api_close(&new);
}

static void session__behind_a_later_one_is_refused(void **state)
{
	struct api_fixture *f = *state;
	static struct api_stream late, live;
	char lease[512];

	assert_int_equal(api_register(f, "node-a", "i1", OWNER_KEY_A, lease), 201);
	assert_int_equal(api_open(f, &late, SESSION_A "&order=0", lease, true), 400);
	api_close(&late);
	assert_int_equal(api_open(f, &live, SESSION_A "&order=2", lease, true), 101);
	assert_int_equal(api_open(f, &late, SESSION_A "&order=1", lease, true), 409);
	api_close(&late);
	api_send(&live, "{\"type\":\"beat\"}");
	json_decref(api_next_of(&live, "beat"));
	api_close(&live);
}

static void session__after_lost_data_says_resync(void **state)
{
	struct api_fixture *f = *state;
	static struct api_stream s;
	char lease[512];
	json_t *v;

	api_join(f, &s, "node-a", "i1", lease);
	test_redis_kill(&f->redis);
	test_redis_restart(&f->redis);
	v = api_next_of(&s, "resync");
	assert_string_equal(json_string_value(json_object_get(v, "cause")), "epoch");
	json_decref(v);
	api_close(&s);
	api_until_registered(f, lease);
}

/* The lease is there, and what the agent published since may be lost. */
static void session__after_lost_events_says_resync(void **state)
{
	struct api_fixture *f = *state;
	static struct api_stream s;
	char lease[512];
	json_t *v;

	api_join(f, &s, "node-a", "i1", lease);
	test_redis_do(&f->redis, "SAVE");
	test_redis_kill(&f->redis);
	test_redis_restart(&f->redis);
	json_decref(api_next_of(&s, "reset"));
	v = api_next_of(&s, "resync");
	assert_string_equal(json_string_value(json_object_get(v, "cause")), "epoch");
	json_decref(v);
	api_close(&s);
}

static long long number_in(json_t *message, const char *name)
{
	long long n = json_integer_value(json_object_get(message, name));

	json_decref(message);
	return n;
}

/* This server has one session; the others are those of its neighbours. */
static void resync__of_very_many_agents_is_spread_over_those_of_all_servers(void **state)
{
	struct api_fixture *f = *state;
	static struct api_stream s;
	char lease[512];

	api_join(f, &s, "node-a", "i1", lease);
	test_redis_do(&f->redis, "EVAL %s 0",
		      "for i = 1, 8000 do "
		      "redis.call('ZADD', '{other}:nanoctrl:due', 99999999999999, 'a' .. i) "
		      "redis.call('ZADD', '{other}:nanoctrl:names', 0, 'a' .. i) end "
		      "return redis.call('SADD', 'nanoctrl:scopes', 'other')");
	while (api_metric(f, "nanoctrl_leases") < 8000)
		;
	test_redis_do(&f->redis, "HSET nanoctrl:run since 8000000000000000");
	api_send(&s, "{\"type\":\"beat\"}");
	assert_in_range(number_in(api_next_of(&s, "resync"), "spread_ms"), 4000, 4001);
	api_close(&s);
}

/* The end of what Redis acknowledged was the opening of the session. */
static void session__of_which_redis_lost_the_opening_says_resync(void **state)
{
	struct api_fixture *f = *state;
	static struct api_stream s;
	char lease[512];
	json_t *v;

	api_join(f, &s, "node-a", "i1", lease);
	test_redis_do(&f->redis, "HDEL {demo}:nanoctrl:agent:6:node-a session");
	test_redis_do(&f->redis, "HSET nanoctrl:run since 8000000000000000");
	api_send(&s, "{\"type\":\"beat\"}");
	v = api_next_of(&s, "resync");
	assert_string_equal(json_string_value(json_object_get(v, "cause")), "epoch");
	json_decref(v);
	api_close(&s);
}

/* Nothing tells of it: neither the agent beats nor has Redis an event. */
static void session__that_never_beats_hears_of_the_epoch_when_its_lease_is_lost(void **state)
{
	struct api_fixture *f = *state;
	static struct api_stream s;
	char lease[512];
	json_t *v;

	api_join(f, &s, "node-a", "i1", lease);
	test_redis_do(&f->redis, "EVAL %s 0",
		      "redis.call('DEL', '{demo}:nanoctrl:agent:6:node-a', '{demo}:nanoctrl:due') "
		      "redis.call('HSET', 'nanoctrl:run', 'since', '8000000000000000')");
	v = api_next_of(&s, "resync");
	assert_string_equal(json_string_value(json_object_get(v, "cause")), "epoch");
	json_decref(v);
	api_close(&s);
}

static void session__without_an_upgrade_or_a_lease_is_refused(void **state)
{
	struct api_fixture *f = *state;
	struct api_answer a = { .status = 0 };
	static struct api_stream s;
	char lease[512];

	assert_int_equal(api_register(f, "node-a", "i1", OWNER_KEY_A, lease), 201);
	assert_int_equal(api_do(f, &a, "GET", SESSION_A, lease, NULL), 426);
	assert_int_equal(api_open_session(f, &s, "node-a", NULL), 401);
	api_close(&s);
	assert_int_equal(api_do(f, &a, "DELETE", "/v1/agents/node-a?scope=demo", lease, NULL), 200);
	assert_int_equal(api_open_session(f, &s, "node-a", lease), 410);
	api_close(&s);
	api_answer_fini(&a);
}

#define KEY	"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
#define VERSION "Sec-WebSocket-Version: 13\r\n"
#define UPGRADE "Upgrade: websocket\r\n"
#define ASKING	"Connection: close, Upgrade\r\n"

/* Not even Redis hears of it: who has the session keeps it, and its lease. */
static void upgrade__that_is_none_leaves_the_session_that_is_open(void **state)
{
	static const struct {
		const char *method, *fields, *body;
		int status;
	} cases[] = {
		{ "GET", "Connection: close\r\n" UPGRADE VERSION KEY, NULL, 426 },
		{ "GET", ASKING "Upgrade: h2c\r\n" VERSION KEY, NULL, 426 },
		{ "GET", ASKING UPGRADE "Sec-WebSocket-Version: 8\r\n" KEY, NULL, 426 },
		{ "GET", ASKING UPGRADE VERSION, NULL, 400 },
		{ "GET", ASKING UPGRADE VERSION KEY KEY, NULL, 400 },
		{ "GET", ASKING UPGRADE VERSION VERSION KEY, NULL, 426 },
		{ "GET", ASKING UPGRADE VERSION "Sec-WebSocket-Key: short\r\n", NULL, 400 },
		{ "GET", ASKING UPGRADE VERSION KEY, "{}", 400 },
		{ "HEAD", ASKING UPGRADE VERSION KEY, NULL, 400 },
	};
	struct api_fixture *f = *state;
	struct api_answer a = { .status = 0 };
	static struct api_stream s;
	char lease[512];

	assert_int_equal(api_register(f, "node-a", "i1", OWNER_KEY_A, lease), 201);
	assert_int_equal(api_open_session(f, &s, "node-a", lease), 101);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		int fd = api_begin_with(f, cases[i].method, SESSION_A, lease, cases[i].fields,
					cases[i].body);

		assert_int_equal(api_finish(fd, &a), cases[i].status);
		for (int beats = 0; beats < 2; beats++) {
			api_send(&s, "{\"type\":\"beat\"}");
			json_decref(api_next_of(&s, "beat"));
		}
	}
	api_close(&s);
	api_answer_fini(&a);
}

static void drain__asks_nobody_to_stay_away_until_its_lease_ends(void **state)
{
	struct api_fixture *f = *state;
	static struct api_stream s;
	char lease[512];
	long long left;

	assert_int_equal(api_register(f, "node-a", "i1", OWNER_KEY_A, lease), 201);
	assert_int_equal(api_open_session(f, &s, "node-a", lease), 101);
	do
		left = number_in(api_next_of(&s, "beat"), "lease_left_ms");
	while (left > 900);
	api_drain(f);
	assert_true(number_in(api_next_of(&s, "goaway"), "spread_ms") <= left / 2);
	api_close(&s);
	api_stop(f);
}

static void drain__that_is_cut_off_leaves_leases_as_they_are(void **state)
{
	struct api_fixture *f = *state;
	static struct api_stream s;
	char lease[512];

	api_join(f, &s, "node-a", "i1", lease);
	api_drain(f);
	api_drain(f);
	api_stop(f);
	assert_int_equal(test_redis_do(&f->redis, "EVAL %s 0",
				       "local due = redis.call('KEYS', '*nanoctrl:due')[1] "
				       "return redis.call('ZSCORE', due, 'node-a') / 1000 > "
				       "redis.call('TIME')[1] + 60 and 1 or 0"),
			 1);
	json_decref(api_next_of(&s, "goaway"));
	api_close(&s);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, api_setup, api_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(session__hears_of_peers_and_of_offers_to_it,
						api_setup_short_leases, api_teardown),
		TEST(metrics__say_how_many_sessions_are_open),
		TEST(session__is_told_that_it_was_superseded),
		TEST(session__that_sends_what_is_no_object_is_closed),
		TEST(session__that_is_replaced_goes_away),
		cmocka_unit_test_setup_teardown(session__that_is_replaced_and_never_beats_goes_away,
						api_setup_short_leases, api_teardown),
		TEST(session__behind_a_later_one_is_refused),
		TEST(session__after_lost_data_says_resync),
		TEST(session__after_lost_events_says_resync),
		TEST(resync__of_very_many_agents_is_spread_over_those_of_all_servers),
		TEST(session__of_which_redis_lost_the_opening_says_resync),
		cmocka_unit_test_setup_teardown(
			session__that_never_beats_hears_of_the_epoch_when_its_lease_is_lost,
			api_setup_short_leases, api_teardown),
		TEST(session__without_an_upgrade_or_a_lease_is_refused),
		TEST(upgrade__that_is_none_leaves_the_session_that_is_open),
		cmocka_unit_test_setup_teardown(
			drain__asks_nobody_to_stay_away_until_its_lease_ends,
			api_setup_short_leases, api_teardown),
		cmocka_unit_test_setup_teardown(drain__that_is_cut_off_leaves_leases_as_they_are,
						api_setup_long_drain, api_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
