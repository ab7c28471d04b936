/* SPDX-License-Identifier: Apache-2.0 */
/* The native API's events: by polls, by lines and by session, through a socket, over a real Redis.
 */
#include "api_fixture.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "model.h"
#include "stream_client.h"

#define SESSION_A "/v1/agents/node-a/session?scope=demo"

static void poll__waits_for_the_next_event(void **state)
{
	struct api_fixture *f = *state;
	struct api_answer a = { .status = 0 };
	char lease[512];
	char target[200];
	char at_once[200];

	assert_int_equal(api_do(f, &a, "GET", "/v1/agents?scope=demo", NULL, NULL), 200);
	snprintf(target, sizeof(target), "/v1/events?scope=demo&wait_ms=30000&cursor=%s",
		 api_text(&a, "cursor", NULL));
	snprintf(at_once, sizeof(at_once), "/v1/events?scope=demo&wait_ms=0&cursor=%s",
		 api_text(&a, "cursor", NULL));
	assert_int_equal(api_register(f, "node-a", "i1", OWNER_KEY_A, lease), 201);
	assert_int_equal(api_do(f, &a, "GET", target, NULL, NULL), 200);
	assert_string_equal(api_text(&a, "events", "0", "type", NULL), "registered");
	/* Also without a wait: what is there is told. */
	assert_int_equal(api_do(f, &a, "GET", at_once, NULL, NULL), 200);
	assert_string_equal(api_text(&a, "events", "0", "type", NULL), "registered");
	snprintf(target, sizeof(target), "/v1/events?scope=demo&wait_ms=20&cursor=%s",
		 api_text(&a, "cursor", NULL));
	assert_int_equal(api_do(f, &a, "GET", target, NULL, NULL), 200);
	assert_int_equal(api_count(&a, "events"), 0);
	assert_int_equal(
		api_do(f, &a, "GET", "/v1/events?scope=demo&wait_ms=1000&cursor=1:1", NULL, NULL),
		200);
	assert_true(json_is_true(json_object_get(a.body, "reset")));
	api_answer_fini(&a);
}

static void lines__carry_events_and_beats(void **state)
{
	struct api_fixture *f = *state;
	struct api_answer a = { .status = 0 };
	static struct api_stream s;
	char lease[512], target[256];

	/* Where the stream begins is known: Redis may be slower than two beats. */
	assert_int_equal(api_do(f, &a, "GET", "/v1/events?scope=demo&wait_ms=0", NULL, NULL), 200);
	snprintf(target, sizeof(target), "/v1/events?scope=demo&cursor=%s",
		 api_text(&a, "cursor", NULL));
	api_answer_fini(&a);
	assert_int_equal(api_open(f, &s, target, NULL, false), 200);
	json_decref(api_next_of(&s, "beat"));
	json_decref(api_next_of(&s, "beat"));
	assert_int_equal(api_register(f, "node-a", "i1", OWNER_KEY_A, lease), 201);
	json_decref(api_next_of(&s, "registered"));
	api_close(&s);
}

static void lines__of_a_head_request_are_a_head_and_the_end(void **state)
{
	struct api_fixture *f = *state;
	struct api_answer a = { .status = 0 };
	char in[2048];
	size_t len = 0;
	ssize_t n;
	int fd = api_begin(f, "HEAD", "/v1/events?scope=demo", NULL, NULL);

	while ((n = read(fd, in + len, sizeof(in) - 1 - len)) > 0)
		len += (size_t)n;
	close(fd);
	in[len] = '\0';
	assert_memory_equal(in, "HTTP/1.1 200 ", 13);
	assert_string_equal(strstr(in, "\r\n\r\n"), "\r\n\r\n");
	assert_int_equal(api_do(f, &a, "GET", "/v1/agents?scope=demo", NULL, NULL), 200);
	api_answer_fini(&a);
}

static void await_metric(struct api_fixture *f, const char *name, long long value)
{
	while (api_metric(f, name) != value)
		;
}

/* A busy machine may have taken it for dead meanwhile. */
static void await_redis(struct api_fixture *f)
{
	struct api_answer a = { .status = 0 };

	while (api_do(f, &a, "GET", "/v1/agents?scope=demo", NULL, NULL) != 200)
		;
	api_answer_fini(&a);
}

static void lines__of_a_client_that_went_meanwhile_end_at_once(void **state)
{
	struct api_fixture *f = *state;
	char lease[512];
	int fd;

	assert_int_equal(api_register(f, "node-a", "i1", OWNER_KEY_A, lease), 201);
	test_redis_pause(&f->redis);
	fd = api_begin(f, "GET", "/v1/agents/node-a/events?scope=demo", lease, NULL);
	await_metric(f, "nanoctrl_http_requests_in_flight", 1);
	close(fd);
	await_metric(f, "nanoctrl_http_connections", 0);
	test_redis_resume(&f->redis);
	/* Redis answers in turn: who has its answer comes behind who has gone, on each loop. */
	for (int i = 0; i < 8; i++)
		await_redis(f);
	assert_int_equal(api_metric(f, "nanoctrl_streams"), 0);
	/* Nobody tells it of what happens now. */
	assert_int_equal(api_register(f, "node-b", "i1", OWNER_KEY_B, lease), 201);
	for (int i = 0; i < 8; i++)
		await_redis(f);
}

static int open_session(struct api_fixture *f, struct api_stream *s, const char *name,
			const char *lease)
{
	char target[300];

	snprintf(target, sizeof(target), "/v1/agents/%s/session?scope=demo", name);
	return api_open(f, s, target, lease, true);
}

/* Registers, and opens its session. */
static void join(struct api_fixture *f, struct api_stream *s, const char *name,
		 const char *incarnation, char *lease)
{
	json_t *hello;

	assert_int_equal(api_register(f, name, incarnation, OWNER_KEY_A, lease), 201);
	assert_int_equal(open_session(f, s, name, lease), 101);
	hello = api_next_of(s, "hello");
	assert_true(json_integer_value(json_object_get(hello, "tick_ms")) > 0);
	json_decref(hello);
}

static void session__hears_of_peers_and_of_offers_to_it(void **state)
{
	struct api_fixture *f = *state;
	struct api_answer a = { .status = 0 };
	static struct api_stream s;
	char lease_a[512];
	char lease_b[512];
	json_t *v;

	join(f, &s, "node-b", "i2", lease_b);
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

/* Until a region is published behind it. */
static void assert_hears_of_no_offer(struct api_stream *s)
{
	for (bool over = false; !over;) {
		json_t *v = api_next(s);
		const char *type = json_string_value(json_object_get(v, "type"));

		assert_non_null(type);
		assert_int_not_equal(strncmp(type, "offer", strlen("offer")), 0);
		over = strcmp(type, "region") == 0;
		json_decref(v);
	}
}

/* The types of what a poll has, each with a blank behind it. */
static void assert_polled(struct api_fixture *f, struct api_answer *a, const char *path,
			  const char *cursor, const char *lease, const char *wanted)
{
	char target[200], types[200] = "";

	snprintf(target, sizeof(target), "%s?scope=demo&wait_ms=0&cursor=%s", path, cursor);
	assert_int_equal(api_do(f, a, "GET", target, lease, NULL), 200);
	for (size_t i = 0; i < api_count(a, "events"); i++) {
		const json_t *v = json_array_get(json_object_get(a->body, "events"), i);

		snprintf(types + strlen(types), sizeof(types) - strlen(types), "%s ",
			 json_string_value(json_object_get(v, "type")));
	}
	assert_string_equal(types, wanted);
}

#define A_TO_B	 "/v1/agents/node-a/exchange/node-b/default?scope=demo"
#define REGION_A "/v1/agents/node-a/regions/kv?scope=demo"

/* Of what is posted for one agent nobody else hears, in whichever way; of regions everybody does.
 */
static void offer__is_told_to_its_agent_alone(void **state)
{
	struct api_fixture *f = *state;
	struct api_answer a = { .status = 0 };
	static struct api_stream session, lines;
	char lease_a[512], lease_b[512], lease_c[512], cursor[64], target[200];

	join(f, &session, "node-c", "i3", lease_c);
	assert_int_equal(api_register(f, "node-a", "i1", OWNER_KEY_A, lease_a), 201);
	assert_int_equal(api_register(f, "node-b", "i2", OWNER_KEY_A, lease_b), 201);
	assert_int_equal(api_do(f, &a, "GET", "/v1/events?scope=demo&wait_ms=0", NULL, NULL), 200);
	snprintf(cursor, sizeof(cursor), "%s", api_text(&a, "cursor", NULL));
	snprintf(target, sizeof(target), "/v1/events?scope=demo&cursor=%s", cursor);
	assert_int_equal(api_open(f, &lines, target, NULL, false), 200);

	assert_int_equal(api_do(f, &a, "PUT", A_TO_B, lease_a, OFFER), 200);
	assert_int_equal(api_do(f, &a, "DELETE", A_TO_B, lease_a, NULL), 200);
	assert_int_equal(api_do(f, &a, "PUT", REGION_A, lease_a,
				"{\"revision\":3,\"size\":1,\"access\":[\"read\"],"
				"\"descriptor\":\"QUJD\"}"),
			 201);
	assert_int_equal(api_do(f, &a, "DELETE", REGION_A, lease_a, NULL), 200);

	assert_hears_of_no_offer(&session);
	assert_hears_of_no_offer(&lines);
	assert_polled(f, &a, "/v1/events", cursor, NULL, "region region_gone ");
	assert_polled(f, &a, "/v1/agents/node-c/events", cursor, lease_c, "region region_gone ");
	assert_int_equal(api_number(&a, "events", "1", "revision", NULL), 3);
	assert_polled(f, &a, "/v1/agents/node-b/events", cursor, lease_b,
		      "offer offer_gone region region_gone ");
	assert_string_equal(api_text(&a, "events", "1", "from", NULL), "node-a");
	assert_int_equal(api_number(&a, "events", "1", "connection_epoch", NULL), 1);
	api_close(&session);
	api_close(&lines);
	api_answer_fini(&a);
}

static void metrics__say_how_many_sessions_are_open(void **state)
{
	struct api_fixture *f = *state;
	static struct api_stream a, b, lines;
	char lease[512];

	assert_int_equal(api_metric(f, "nanoctrl_sessions"), 0);
	join(f, &a, "node-a", "i1", lease);
	assert_int_equal(api_metric(f, "nanoctrl_sessions"), 1);
	join(f, &b, "node-b", "i2", lease);
	assert_int_equal(api_open(f, &lines, "/v1/events?scope=demo", NULL, false), 200);
	await_metric(f, "nanoctrl_streams", 3);
	assert_int_equal(api_metric(f, "nanoctrl_sessions"), 2);
	api_close(&a);
	await_metric(f, "nanoctrl_sessions", 1);
	api_close(&b);
	api_close(&lines);
	await_metric(f, "nanoctrl_sessions", 0);
}

static void session__is_told_that_it_was_superseded(void **state)
{
	struct api_fixture *f = *state;
	static struct api_stream s;
	char lease[512];

	assert_int_equal(api_register(f, "node-a", "i1", OWNER_KEY_A, lease), 201);
	assert_int_equal(open_session(f, &s, "node-a", lease), 101);
	assert_int_equal(api_register(f, "node-a", "i2", OWNER_KEY_A, lease), 201);
	json_decref(api_next_of(&s, "superseded"));
	while (api_next(&s))
		;
	assert_int_equal(s.close_code, 4002);
	api_close(&s);
}

static void session__that_is_replaced_goes_away(void **state)
{
	struct api_fixture *f = *state;
	static struct api_stream old;
	static struct api_stream new;
	char lease[512];

	assert_int_equal(api_register(f, "node-a", "i1", OWNER_KEY_A, lease), 201);
	assert_int_equal(open_session(f, &old, "node-a", lease), 101);
	assert_int_equal(open_session(f, &new, "node-a", lease), 101);
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

	join(f, &old, "node-a", "i1", lease);
	assert_int_equal(open_session(f, &new, "node-a", lease), 101);
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

	join(f, &s, "node-a", "i1", lease);
	test_redis_kill(&f->redis);
	test_redis_restart(&f->redis);
	v = api_next_of(&s, "resync");
	assert_string_equal(json_string_value(json_object_get(v, "cause")), "epoch");
	json_decref(v);
	api_close(&s);
	api_until_registered(f, lease);
}

/* The lease is there, and what the agent published since may be lost. */
static void session__after_a_lost_tail_says_resync(void **state)
{
	struct api_fixture *f = *state;
	static struct api_stream s;
	char lease[512];
	json_t *v;

	join(f, &s, "node-a", "i1", lease);
	test_redis_do(&f->redis, "SAVE");
	test_redis_kill(&f->redis);
	test_redis_restart(&f->redis);
	json_decref(api_next_of(&s, "reset"));
	v = api_next_of(&s, "resync");
	assert_string_equal(json_string_value(json_object_get(v, "cause")), "epoch");
	json_decref(v);
	api_close(&s);
}

/* The end of what Redis acknowledged was the opening of the session. */
static void session__of_which_redis_lost_the_opening_says_resync(void **state)
{
	struct api_fixture *f = *state;
	static struct api_stream s;
	char lease[512];
	json_t *v;

	join(f, &s, "node-a", "i1", lease);
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

	join(f, &s, "node-a", "i1", lease);
	test_redis_do(&f->redis, "EVAL %s 0",
		      "redis.call('DEL', '{demo}:nanoctrl:agent:6:node-a', '{demo}:nanoctrl:due') "
		      "redis.call('HSET', 'nanoctrl:run', 'since', '8000000000000000')");
	v = api_next_of(&s, "resync");
	assert_string_equal(json_string_value(json_object_get(v, "cause")), "epoch");
	json_decref(v);
	api_close(&s);
}

/* Publishes a region under a long name again and again, until the server has dropped a queue. */
static void flood(struct api_fixture *f, const char *name, const char *lease)
{
	struct api_answer a = { .status = 0 };
	char target[700];
	char body[200];

	snprintf(target, sizeof(target), "/v1/agents/%s/regions/%0253d?scope=demo", name, 7);
	for (int i = 1; !api_metric(f, "nanoctrl_stream_resets_total"); i++) {
		assert_true(i < 10000);
		snprintf(
			body, sizeof(body),
			"{\"revision\":%d,\"size\":1,\"access\":[\"read\"],\"descriptor\":\"QUJD\"}",
			i);
		assert_int_equal(api_do(f, &a, "PUT", target, lease, body), i == 1 ? 201 : 200);
	}
	api_answer_fini(&a);
}

/* Reads on behind a reset until node-c has come: nothing that happens after it is lost. */
static void goes_on_behind_a_reset(struct api_fixture *f, struct api_stream *s)
{
	json_t *v = api_next_of(s, "reset");
	struct store_cursor at;
	char lease[512];

	assert_true(model_parse_cursor(json_string_value(json_object_get(v, "cursor")), &at));
	json_decref(v);
	assert_int_equal(api_register(f, "node-c", "i3", OWNER_KEY_A, lease), 201);
	for (bool seen = false; !seen;) {
		struct store_cursor next;

		v = api_next_of(s, "registered");
		assert_true(
			model_parse_cursor(json_string_value(json_object_get(v, "cursor")), &next));
		assert_true(next.epoch == at.epoch && next.id > at.id);
		seen = strcmp(json_string_value(json_object_get(v, "agent")), "node-c") == 0;
		json_decref(v);
	}
}

static void session__that_is_not_read_is_reset(void **state)
{
	struct api_fixture *f = *state;
	static struct api_stream s;
	char lease_a[512];
	char lease_b[512];
	char name[254];

	snprintf(name, sizeof(name), "%0253d", 5);
	assert_int_equal(api_register(f, "node-a", "i1", OWNER_KEY_A, lease_a), 201);
	assert_int_equal(api_open_narrow(f, &s, SESSION_A, lease_a, true), 101);
	json_decref(api_next_of(&s, "hello"));
	assert_int_equal(api_register(f, name, "i2", OWNER_KEY_A, lease_b), 201);
	flood(f, name, lease_b);
	goes_on_behind_a_reset(f, &s);
	assert_int_equal(api_metric(f, "nanoctrl_stream_resets_total"), 1);
	api_close(&s);
}

/* Beats alone fill it. What happens while there is no room, not even for the reset, is told of by
 * the reset that is owed. */
static void owes_a_reset(struct api_fixture *f, const char *target, const char *lease,
			 bool websocket)
{
	static struct api_stream s;
	char lease_b[512];

	assert_int_equal(api_open_narrow(f, &s, target, lease, websocket), websocket ? 101 : 200);
	while (!api_metric(f, "nanoctrl_stream_resets_total"))
		;
	assert_int_equal(api_register(f, "node-b", "i2", OWNER_KEY_A, lease_b), 201);
	goes_on_behind_a_reset(f, &s);
	api_close(&s);
}

static void lines__without_room_for_a_reset_owe_it(void **state)
{
	struct api_answer a = { .status = 0 };
	char lease[512], target[100];

	assert_int_equal(api_register(*state, "node-a", "i1", OWNER_KEY_A, lease), 201);
	assert_int_equal(api_do(*state, &a, "GET", "/v1/events?scope=demo&wait_ms=0", NULL, NULL),
			 200);
	snprintf(target, sizeof(target), "/v1/events?scope=demo&cursor=%s",
		 api_text(&a, "cursor", NULL));
	api_answer_fini(&a);
	owes_a_reset(*state, target, NULL, false);
}

static void session__without_room_for_a_reset_owes_it(void **state)
{
	char lease[512];

	assert_int_equal(api_register(*state, "node-a", "i1", OWNER_KEY_A, lease), 201);
	owes_a_reset(*state, SESSION_A, lease, true);
}

static void session__without_an_upgrade_or_a_lease_is_refused(void **state)
{
	struct api_fixture *f = *state;
	struct api_answer a = { .status = 0 };
	static struct api_stream s;
	char lease[512];

	assert_int_equal(api_register(f, "node-a", "i1", OWNER_KEY_A, lease), 201);
	assert_int_equal(api_do(f, &a, "GET", SESSION_A, lease, NULL), 426);
	assert_int_equal(open_session(f, &s, "node-a", NULL), 401);
	api_close(&s);
	assert_int_equal(api_do(f, &a, "DELETE", "/v1/agents/node-a?scope=demo", lease, NULL), 200);
	assert_int_equal(open_session(f, &s, "node-a", lease), 410);
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
	assert_int_equal(open_session(f, &s, "node-a", lease), 101);
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

static long long number_in(json_t *message, const char *name)
{
	long long n = json_integer_value(json_object_get(message, name));

	json_decref(message);
	return n;
}

static void drain__asks_nobody_to_stay_away_until_its_lease_ends(void **state)
{
	struct api_fixture *f = *state;
	static struct api_stream s;
	char lease[512];
	long long left;

	assert_int_equal(api_register(f, "node-a", "i1", OWNER_KEY_A, lease), 201);
	assert_int_equal(open_session(f, &s, "node-a", lease), 101);
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

	join(f, &s, "node-a", "i1", lease);
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

/* It is soon answered, but not before it is known where events are. */
static void poll__of_a_server_that_shuts_down_has_a_cursor(void **state)
{
	struct api_fixture *f = *state;
	struct api_answer a = { .status = 0 };
	struct store_cursor at;
	char lease[512];

	assert_int_equal(api_register(f, "node-a", "i1", OWNER_KEY_A, lease), 201);
	api_drain(f);
	while (api_do(f, &a, "GET", "/readyz?local=1", NULL, NULL) != 503)
		;
	assert_int_equal(api_do(f, &a, "GET", "/v1/events?scope=demo&wait_ms=30000", NULL, NULL),
			 200);
	assert_true(model_parse_cursor(api_text(&a, "cursor", NULL), &at));
	assert_true(at.epoch && at.id);
	api_answer_fini(&a);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, api_setup, api_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(poll__waits_for_the_next_event),
		TEST(lines__carry_events_and_beats),
		TEST(lines__of_a_head_request_are_a_head_and_the_end),
		TEST(lines__of_a_client_that_went_meanwhile_end_at_once),
		cmocka_unit_test_setup_teardown(session__hears_of_peers_and_of_offers_to_it,
						api_setup_short_leases, api_teardown),
		TEST(offer__is_told_to_its_agent_alone),
		TEST(metrics__say_how_many_sessions_are_open),
		TEST(session__is_told_that_it_was_superseded),
		TEST(session__that_is_replaced_goes_away),
		cmocka_unit_test_setup_teardown(session__that_is_replaced_and_never_beats_goes_away,
						api_setup_short_leases, api_teardown),
		TEST(session__behind_a_later_one_is_refused),
		TEST(session__after_lost_data_says_resync),
		TEST(session__after_a_lost_tail_says_resync),
		TEST(session__of_which_redis_lost_the_opening_says_resync),
		cmocka_unit_test_setup_teardown(
			session__that_never_beats_hears_of_the_epoch_when_its_lease_is_lost,
			api_setup_short_leases, api_teardown),
		TEST(session__that_is_not_read_is_reset),
		cmocka_unit_test_setup_teardown(lines__without_room_for_a_reset_owe_it,
						api_setup_short_queues, api_teardown),
		cmocka_unit_test_setup_teardown(session__without_room_for_a_reset_owes_it,
						api_setup_short_queues, api_teardown),
		TEST(session__without_an_upgrade_or_a_lease_is_refused),
		TEST(upgrade__that_is_none_leaves_the_session_that_is_open),
		cmocka_unit_test_setup_teardown(
			drain__asks_nobody_to_stay_away_until_its_lease_ends,
			api_setup_short_leases, api_teardown),
		cmocka_unit_test_setup_teardown(drain__that_is_cut_off_leaves_leases_as_they_are,
						api_setup_long_drain, api_teardown),
		cmocka_unit_test_setup_teardown(poll__of_a_server_that_shuts_down_has_a_cursor,
						api_setup_long_drain, api_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
