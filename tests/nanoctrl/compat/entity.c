/* SPDX-License-Identifier: Apache-2.0 */
/* Entities of DLSlime's NanoCtrl, through a socket, over a real Redis. */
#include "tests/nanoctrl/compat/fixture.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <hiredis/hiredis.h>

#define MANY 24 /* of requests at once */

static void assert_ok(struct api_fixture *f, const char *path, const char *body,
		      const char *message)
{
	assert_int_equal(api_post(f, path, body), 200);
	assert_string_equal(api_text(&f->said, "status", NULL), "ok");
	assert_string_equal(api_text(&f->said, "message", NULL), message);
}

/* A member of the answer as compact JSON, integers and all. */
static void assert_member(const struct api_fixture *f, const char *name, const char *json)
{
	char *text =
		json_dumps(json_object_get(f->said.body, name), JSON_COMPACT | JSON_ENCODE_ANY);

	assert_non_null(text);
	assert_string_equal(text, json);
	free(text);
}

static void entity__is_registered_found_listed_and_gone(void **state)
{
	struct api_fixture *f = *state;

	assert_ok(f, "/register", "{\"entity_id\":\"e1\",\"kind\":\"cache\"}",
		  "Entity service:e1 registered successfully");
	assert_int_equal(api_post(f, "/get_entity_info", "{\"entity_id\":\"e1\"}"), 200);
	assert_string_equal(api_text(&f->said, "status", NULL), "ok");
	assert_member(
		f, "entity_info",
		"{\"endpoint\":null,\"entity_id\":\"e1\",\"entity_type\":\"service\",\"id\":\"e1\","
		"\"kind\":\"cache\",\"metadata\":{},\"resource\":null}");
	assert_ok(f, "/heartbeat", "{\"entity_type\":\"service\",\"entity_id\":\"e1\"}",
		  "Heartbeat successful for service e1");
	assert_ok(f, "/register",
		  "{\"entity_type\":\"gpu\",\"entity_id\":\"g\",\"kind\":\"h\",\"endpoint\":[1],"
		  "\"metadata\":null,\"resource\":{\"x\":1}}",
		  "Entity gpu:g registered successfully");
	assert_int_equal(api_post(f, "/list_entities", "{}"), 200);
	assert_int_equal(api_count(&f->said, "entities"), 2);
	assert_int_equal(api_post(f, "/list_entities", "{\"entity_type\":\"gpu\",\"kind\":null}"),
			 200);
	assert_member(f, "entities",
		      "[{\"endpoint\":[1],\"entity_id\":\"g\",\"entity_type\":\"gpu\",\"id\":\"g\","
		      "\"kind\":\"h\",\"metadata\":null,\"resource\":{\"x\":1}}]");
	assert_int_equal(api_post(f, "/list_entities", "{\"kind\":\"cache\"}"), 200);
	assert_int_equal(api_count(&f->said, "entities"), 1);
	assert_ok(f, "/unregister", "{\"entity_id\":\"e1\"}",
		  "Entity service:e1 unregistered successfully");
	assert_ok(f, "/unregister", "{\"entity_id\":\"e1\"}",
		  "Entity service:e1 unregistered successfully");
	assert_int_equal(api_post(f, "/get_entity_info", "{\"entity_id\":\"e1\"}"), 200);
	assert_string_equal(api_text(&f->said, "status", NULL), "not_found");
	assert_member(f, "entity_info", "null");
	assert_int_equal(
		api_post(f, "/heartbeat", "{\"entity_type\":\"service\",\"entity_id\":\"e1\"}"),
		200);
	assert_string_equal(api_text(&f->said, "status", NULL), "not_found");
	assert_string_equal(api_text(&f->said, "message", NULL),
			    "service e1 not found. Please register first.");
}

static void entity__has_the_keys_that_others_read(void **state)
{
	struct api_fixture *f = *state;
	struct test_redis *r = &f->redis;

	assert_int_equal(
		api_post(f, "/register", "{\"entity_id\":\"e\",\"kind\":\"k\",\"scope\":\"s\"}"),
		200);
	assert_int_equal(test_redis_do(r, "HLEN s:service:e"), 7);
	assert_int_equal(test_redis_do(r, "HSTRLEN s:service:e endpoint"), 0);
	assert_int_equal(test_redis_do(r, "HSTRLEN s:service:e metadata"), 2);
	assert_true(test_redis_do(r, "PTTL s:service:e") > 50000);
	assert_int_equal(test_redis_do(r, "INCRBY s:nano_meta:service_revision 0"), 1);
	test_redis_do(r, "PEXPIRE s:service:e 20000");
	assert_int_equal(
		api_post(f, "/heartbeat",
			 "{\"entity_type\":\"service\",\"entity_id\":\"e\",\"scope\":\"s\"}"),
		200);
	assert_true(test_redis_do(r, "PTTL s:service:e") > 50000);
	/* One that another server registered is found, and listed once it beats here. */
	test_redis_do(r, "HSET s:service:o entity_type service entity_id o kind k info %s",
		      "{\"id\":\"o\"}");
	assert_int_equal(api_post(f, "/get_entity_info", "{\"entity_id\":\"o\",\"scope\":\"s\"}"),
			 200);
	assert_member(f, "entity_info", "{\"id\":\"o\"}");
	assert_int_equal(
		api_post(f, "/heartbeat",
			 "{\"entity_type\":\"service\",\"entity_id\":\"o\",\"scope\":\"s\"}"),
		200);
	assert_int_equal(api_post(f, "/list_entities", "{\"scope\":\"s\"}"), 200);
	assert_int_equal(api_count(&f->said, "entities"), 2);
}

/* What clients keep in an entity comes back as they wrote it. */
static void entity__keeps_numbers_and_names_as_they_are(void **state)
{
	struct api_fixture *f = *state;
	struct test_redis *r = &f->redis;

	assert_int_equal(
		api_post(f, "/register",
			 "{\"entity_id\":\"a:*%\\n\\\"\\u0000\\u20ac\",\"kind\":\"k\",\"metadata\":"
			 "{ \"n\": [18446744073709551615, -1, 1.0, 1e2], \"n\": 0 }}"),
		200);
	assert_int_equal(
		test_redis_do(r, "HSTRLEN %b metadata", "service:a:*%\n\"\0\xe2\x82\xac", 18),
		(long long)strlen("{\"n\":[18446744073709551615,-1,1.0,1e2],\"n\":0}"));
	assert_int_equal(
		test_redis_do(r, "EVAL %s 1 %b",
			      "return redis.call('HGET',KEYS[1],'metadata')=="
			      "'{\"n\":[18446744073709551615,-1,1.0,1e2],\"n\":0}' and 1 or 0",
			      "service:a:*%\n\"\0\xe2\x82\xac", 18),
		1);
	/* The test's own parser is not made for such numbers. */
	assert_int_equal(api_post(f, "/list_entities", "{}"), 200);
	assert_int_equal(
		api_post(f, "/get_entity_info", "{\"entity_id\":\"a:*%\\n\\\"\\u0000\\u20ac\"}"),
		200);
}

/* The original lets these two change and delete any key whose name has a colon. */
static void heartbeat_and_unregister__leave_other_keys_alone(void **state)
{
	struct api_fixture *f = *state;
	struct test_redis *r = &f->redis;

	test_redis_do(r, "SET mr:a:kv x");
	test_redis_do(r, "XADD stream:a * type x");
	test_redis_do(r, "HSET agent:a addr 10.0.0.1");
	assert_int_equal(
		api_post(f, "/heartbeat", "{\"entity_type\":\"mr\",\"entity_id\":\"a:kv\"}"), 200);
	assert_string_equal(api_text(&f->said, "status", NULL), "not_found");
	assert_int_equal(
		api_post(f, "/heartbeat", "{\"entity_type\":\"stream\",\"entity_id\":\"a\"}"), 200);
	assert_string_equal(api_text(&f->said, "status", NULL), "not_found");
	assert_int_equal(test_redis_do(r, "TTL mr:a:kv"), -1);
	assert_int_equal(test_redis_do(r, "TTL stream:a"), -1);
	assert_int_equal(
		api_post(f, "/unregister", "{\"entity_type\":\"mr\",\"entity_id\":\"a:kv\"}"), 200);
	assert_int_equal(
		api_post(f, "/unregister", "{\"entity_type\":\"agent\",\"entity_id\":\"a\"}"), 200);
	assert_int_equal(test_redis_do(r, "EXISTS mr:a:kv agent:a stream:a"), 3);
	/* An agent beats here, too. */
	assert_int_equal(
		api_post(f, "/heartbeat", "{\"entity_type\":\"agent\",\"entity_id\":\"a\"}"), 200);
	assert_string_equal(api_text(&f->said, "status", NULL), "ok");
	assert_true(test_redis_do(r, "TTL agent:a") > 50);
}

/* Regions of a native agent are a hash by their names, which may be those of the fields that make
 * an entity. */
static void heartbeat_and_unregister__leave_native_keys_alone(void **state)
{
	static const char *const paths[] = { "/heartbeat", "/unregister", "/get_entity_info" };
	struct api_fixture *f = *state;
	const char *region =
		"{\"revision\":1,\"size\":1,\"access\":[\"read\"],\"descriptor\":\"QUJD\"}";
	char lease[512], body[160], key[64];

	assert_int_equal(api_register(f, "node-a", "i1", OWNER_KEY_A, lease), 201);
	assert_int_equal(api_do(f, &f->said, "PUT", "/v1/agents/node-a/regions/info?scope=demo",
				lease, region),
			 201);
	assert_int_equal(
		api_do(f, &f->said, "GET", "/v1/agents/node-a/regions/info?scope=demo", NULL, NULL),
		200);
	snprintf(key, sizeof(key), "nanoctrl:region:%lld",
		 api_number(&f->said, "region", "generation", NULL));
	snprintf(body, sizeof(body), "{\"entity_type\":\"{demo}\",\"entity_id\":\"%s\"}", key);
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		assert_int_equal(api_post(f, paths[i], body), 422);
		assert_string_equal(api_text(&f->said, "field", NULL), "entity_type");
	}
	assert_int_equal(test_redis_do(&f->redis, "TTL {demo}:%s", key), -1);
	assert_int_equal(
		api_post(f, "/cleanup", "{\"agent_name\":\"a\",\"scope\":\"nanoctrl:peers\"}"),
		422);
}

static void register__that_would_reach_into_other_keys_is_refused(void **state)
{
	struct api_fixture *f = *state;

	assert_int_equal(api_post(f, "/register",
				  "{\"entity_id\":\"x\",\"kind\":\"k\",\"scope\":\"agent\"}"),
			 422);
	assert_string_equal(api_text(&f->said, "field", NULL), "scope");
	assert_int_equal(
		api_post(f, "/register",
			 "{\"entity_id\":\"x\",\"kind\":\"k\",\"scope\":\"{default}:nanoctrl\"}"),
		422);
	assert_int_equal(api_post(f, "/register",
				  "{\"entity_type\":\"mr\",\"entity_id\":\"x\",\"kind\":\"k\"}"),
			 422);
	assert_string_equal(api_text(&f->said, "field", NULL), "entity_type");
	assert_int_equal(api_post(f, "/register", "{\"entity_id\":\"\",\"kind\":\"k\"}"), 422);
	assert_string_equal(api_text(&f->said, "field", NULL), "entity_id");
	test_redis_do(&f->redis, "SET service:x x");
	test_redis_do(&f->redis, "HSET service:y other x");
	assert_int_equal(api_post(f, "/register", "{\"entity_id\":\"x\",\"kind\":\"k\"}"), 409);
	assert_int_equal(api_post(f, "/register", "{\"entity_id\":\"y\",\"kind\":\"k\"}"), 409);
}

static void list__shows_its_scope_only_and_skips_junk(void **state)
{
	struct api_fixture *f = *state;
	long long junk = api_metric(f, "nanoctrl_model_junk_total");

	assert_int_equal(api_post(f, "/register", "{\"entity_id\":\"x\",\"kind\":\"k\"}"), 200);
	assert_int_equal(api_post(f, "/register", "{\"entity_id\":\"j\",\"kind\":\"k\"}"), 200);
	assert_int_equal(
		api_post(f, "/register", "{\"entity_id\":\"y\",\"kind\":\"k\",\"scope\":\"s\"}"),
		200);
	test_redis_do(&f->redis, "HSET service:j info {broken");
	test_redis_do(&f->redis, "ZADD nanoctrl:types: 0 junk");
	assert_int_equal(api_post(f, "/list_entities", "{}"), 200);
	assert_int_equal(api_count(&f->said, "entities"), 1);
	assert_string_equal(api_text(&f->said, "entities", "0", "entity_id", NULL), "x");
	assert_int_equal(api_metric(f, "nanoctrl_model_junk_total"), junk + 1);
	assert_int_equal(api_post(f, "/get_entity_info", "{\"entity_id\":\"j\"}"), 200);
	assert_int_equal(api_metric(f, "nanoctrl_model_junk_total"), junk + 2);
	assert_int_equal(api_post(f, "/list_entities", "{\"entity_type\":\"s\"}"), 200);
	assert_int_equal(api_count(&f->said, "entities"), 0);
	test_redis_do(&f->redis, "DEL service:j");
	test_redis_do(&f->redis, "SET service:j x");
	assert_int_equal(api_post(f, "/list_entities", "{}"), 200);
	assert_int_equal(api_count(&f->said, "entities"), 1);
	assert_int_equal(api_post(f, "/get_entity_info", "{\"entity_id\":\"j\"}"), 200);
	assert_string_equal(api_text(&f->said, "status", NULL), "not_found");
}

/* As the original has it; no kind is a kind. */
static void list__of_the_type_without_letters_is_of_all_types(void **state)
{
	struct api_fixture *f = *state;

	assert_int_equal(api_post(f, "/register", "{\"entity_id\":\"x\",\"kind\":\"k\"}"), 200);
	assert_int_equal(api_post(f, "/register",
				  "{\"entity_type\":\"t\",\"entity_id\":\"y\",\"kind\":\"\"}"),
			 200);
	assert_int_equal(api_post(f, "/list_entities", "{\"entity_type\":\"\"}"), 200);
	assert_int_equal(api_count(&f->said, "entities"), 2);
	assert_int_equal(api_post(f, "/list_entities", "{\"kind\":\"\"}"), 200);
	assert_int_equal(api_count(&f->said, "entities"), 1);
}

static void info__of_others_that_is_too_long_is_none_and_counted(void **state)
{
	struct api_fixture *f = *state;
	long long skipped = api_metric(f, "nanoctrl_store_skipped_total");

	test_redis_do(&f->redis, "EVAL %s 1 service:j",
		      "redis.call('HSET', KEYS[1], 'info', string.rep('x', 33554433))");
	assert_int_equal(api_post(f, "/get_entity_info", "{\"entity_id\":\"j\"}"), 200);
	assert_string_equal(api_text(&f->said, "status", NULL), "not_found");
	assert_int_equal(api_metric(f, "nanoctrl_store_skipped_total"), skipped + 1);
}

/* One such entity is no reason to tell of none. */
static void list__leaves_out_what_is_too_long(void **state)
{
	struct api_fixture *f = *state;
	long long skipped;

	assert_int_equal(api_post(f, "/register", "{\"entity_id\":\"x\",\"kind\":\"k\"}"), 200);
	assert_int_equal(api_post(f, "/register", "{\"entity_id\":\"j\",\"kind\":\"k\"}"), 200);
	test_redis_do(&f->redis, "EVAL %s 1 service:j",
		      "redis.call('HSET', KEYS[1], 'info', string.rep('x', 33554433))");
	skipped = api_metric(f, "nanoctrl_store_skipped_total");
	assert_int_equal(api_post(f, "/list_entities", "{}"), 200);
	assert_int_equal(api_count(&f->said, "entities"), 1);
	assert_int_equal(api_metric(f, "nanoctrl_store_skipped_total"), skipped + 1);
}

/* What many want at once is read once for all of them, by what each asked for. */
static void list__that_many_ask_for_is_read_for_all_at_once(void **state)
{
	struct api_fixture *f = *state;
	int fds[2 * MANY];

	assert_int_equal(api_post(f, "/register", "{\"entity_id\":\"x\",\"kind\":\"k\"}"), 200);
	assert_int_equal(api_post(f, "/register", "{\"entity_id\":\"y\",\"kind\":\"l\"}"), 200);
	test_redis_do(
		&f->redis, "EVAL %s 0",
		"for i = 1, 600 do redis.call('HSET', 'service:e' .. i, 'kind', 'k', 'info', '{}') "
		"redis.call('ZADD', 'nanoctrl:types:', 0, '7:servicee' .. i) end");
	test_redis_do(&f->redis, "CONFIG RESETSTAT");
	test_redis_pause(&f->redis);
	for (int i = 0; i < MANY; i++) {
		fds[2 * i] = api_begin(f, "POST", "/list_entities", NULL, "{}");
		fds[2 * i + 1] = api_begin(f, "POST", "/list_entities", NULL, "{\"kind\":\"l\"}");
	}
	while (api_metric(f, "nanoctrl_http_requests_in_flight") < 2 * MANY)
		sched_yield();
	test_redis_resume(&f->redis);
	for (int i = 0; i < 2 * MANY; i++) {
		assert_int_equal(api_finish(fds[i], &f->said), 200);
		assert_int_equal(api_count(&f->said, "entities"), i % 2 ? 1 : 602);
	}
	/* Each loop reads either list twice, in three batches. */
	assert_in_range(test_redis_calls(&f->redis, "zrangebylex"), 1, 2 * 2 * 2 * 3);
}

/* A list is bounded by its sum, and says what makes it shorter. */
static void list__longer_than_the_limit_is_refused_and_names_what_narrows_it(void **state)
{
	struct api_fixture *f = *state;
	char body[1400], text[1024];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	for (int i = 0; i < 5; i++) {
		snprintf(body, sizeof(body),
			 "{\"entity_id\":\"e%d\",\"entity_type\":\"t\",\"kind\":\"%s\","
			 "\"metadata\":\"%s\"}",
			 i, i < 2 ? "few" : "many", text);
		assert_int_equal(api_post(f, "/register", body), 200);
	}
	assert_int_equal(api_post(f, "/list_entities", "{}"), 413);
	assert_string_equal(api_text(&f->said, "code", NULL), "too_large");
	assert_string_equal(api_text(&f->said, "field", NULL), "entity_type");
	assert_int_equal(api_post(f, "/list_entities", "{\"entity_type\":\"t\"}"), 413);
	assert_string_equal(api_text(&f->said, "field", NULL), "kind");
	assert_int_equal(api_post(f, "/list_entities", "{\"entity_type\":\"t\",\"kind\":\"few\"}"),
			 200);
	assert_int_equal(api_count(&f->said, "entities"), 2);
}

static void list__of_more_than_a_thousand_has_all(void **state)
{
	struct api_fixture *f = *state;

	test_redis_do(
		&f->redis, "EVAL %s 0",
		"for i = 1, 2500 do "
		"redis.call('HSET', 'service:e' .. i, 'kind', 'k', 'info', '{\"n\":' .. i .. '}') "
		"redis.call('ZADD', 'nanoctrl:types:', 0, '7:servicee' .. i) end");
	assert_int_equal(api_post(f, "/list_entities", "{}"), 200);
	assert_int_equal(api_count(&f->said, "entities"), 2500);
}

/* Others may have very many of theirs here. */
static void list__of_a_type_looks_at_no_other(void **state)
{
	struct api_fixture *f = *state;
	struct test_redis *r = &f->redis;

	test_redis_do(r, "EVAL %s 0",
		      "for i = 1, 5000 do "
		      "redis.call('ZADD', 'nanoctrl:entities:', 1e14, '6:others' .. i) "
		      "redis.call('ZADD', 'nanoctrl:types:', 0, '6:others' .. i) end "
		      "for i = 1, 1500 do local e = 'e' .. i "
		      "redis.call('HSET', 'service:' .. e, 'kind', 'k', 'info', '{}') "
		      "redis.call('ZADD', 'nanoctrl:types:', 0, '7:service' .. e) end");
	assert_int_equal(
		api_post(f, "/register",
			 "{\"entity_type\":\"servic\",\"entity_id\":\"ee1\",\"kind\":\"k\"}"),
		200);
	assert_int_equal(api_post(f, "/register", "{\"entity_id\":\"f\",\"kind\":\"k\"}"), 200);
	test_redis_do(r, "CONFIG RESETSTAT");
	assert_int_equal(api_post(f, "/list_entities", "{\"entity_type\":\"service\"}"), 200);
	assert_int_equal(api_count(&f->said, "entities"), 1501);
	/* And whoever learns of those that the test wrote looks at some. */
	assert_in_range(test_redis_calls(r, "hmget"), 1501, 1501 + 1500);
	assert_int_equal(api_post(f, "/list_entities", "{\"entity_type\":\"servic\"}"), 200);
	assert_int_equal(api_count(&f->said, "entities"), 1);

	assert_int_equal(api_post(f, "/unregister", "{\"entity_id\":\"f\"}"), 200);
	assert_int_equal(test_redis_do(r, "ZLEXCOUNT nanoctrl:types: [7:servicef [7:servicef"), 0);
}

static redisContext *subscribe(const struct api_fixture *f, const char *channel)
{
	struct timeval tv = { .tv_sec = 60 };
	redisContext *c = redisConnectUnix(f->redis.socket);

	assert_true(c && !c->err);
	redisSetTimeout(c, tv);
	freeReplyObject(redisCommand(c, "SUBSCRIBE %s", channel));
	return c;
}

/* The next message as JSON; the caller decrefs it. */
static json_t *next_message(redisContext *c)
{
	redisReply *reply = NULL;
	json_t *v;

	assert_int_equal(redisGetReply(c, (void **)&reply), REDIS_OK);
	assert_int_equal(reply->elements, 3);
	v = json_loadb(reply->element[2]->str, (size_t)reply->element[2]->len, 0, NULL);
	assert_non_null(v);
	freeReplyObject(reply);
	return v;
}

static const char *text_in(const json_t *v, const char *name)
{
	const char *s = json_string_value(json_object_get(v, name));

	return s ? s : "(none)";
}

static void events__tell_of_registration_removal_and_expiry(void **state)
{
	struct api_fixture *f = *state;
	redisContext *c = subscribe(f, "s:nano_events:service_update");
	json_t *v;

	assert_int_equal(
		api_post(
			f, "/register",
			"{\"entity_id\":\"e\",\"kind\":\"k\",\"metadata\":{\"m\":1},\"scope\":\"s\"}"),
		200);
	v = next_message(c);
	assert_string_equal(text_in(v, "event_type"), "ADD");
	assert_string_equal(text_in(v, "entity_type"), "service");
	assert_string_equal(text_in(v, "kind"), "k");
	assert_int_equal(json_integer_value(json_object_get(v, "revision")), 1);
	assert_true(json_is_integer(json_object_get(v, "timestamp")));
	assert_string_equal(text_in(json_object_get(v, "payload"), "entity_id"), "e");
	json_decref(v);
	assert_int_equal(api_post(f, "/unregister", "{\"entity_id\":\"e\",\"scope\":\"s\"}"), 200);
	v = next_message(c);
	assert_string_equal(text_in(v, "event_type"), "REMOVE");
	assert_string_equal(text_in(v, "entity_id"), "e");
	assert_string_equal(text_in(v, "kind"), "k");
	assert_int_equal(json_integer_value(json_object_get(v, "revision")), 2);
	assert_true(json_is_string(json_object_get(v, "timestamp")));
	json_decref(v);

	/* One whose time has run out, of which the original tells nobody. */
	assert_int_equal(
		api_post(f, "/register", "{\"entity_id\":\"d\",\"kind\":\"k\",\"scope\":\"s\"}"),
		200);
	json_decref(next_message(c));
	test_redis_do(&f->redis, "DEL s:service:d");
	test_redis_do(&f->redis, "ZADD nanoctrl:entities:s 1 7:serviced");
	v = next_message(c);
	assert_string_equal(text_in(v, "event_type"), "REMOVE");
	assert_string_equal(text_in(v, "entity_id"), "d");
	assert_string_equal(text_in(v, "kind"), "k");
	json_decref(v);
	redisFree(c);
	assert_int_equal(test_redis_do(&f->redis, "EXISTS nanoctrl:entities:s nanoctrl:types:s "
						  "nanoctrl:kinds:s"),
			 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, api_setup, api_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(entity__is_registered_found_listed_and_gone),
		TEST(entity__has_the_keys_that_others_read),
		TEST(entity__keeps_numbers_and_names_as_they_are),
		TEST(heartbeat_and_unregister__leave_other_keys_alone),
		TEST(heartbeat_and_unregister__leave_native_keys_alone),
		TEST(register__that_would_reach_into_other_keys_is_refused),
		TEST(list__shows_its_scope_only_and_skips_junk),
		TEST(list__of_the_type_without_letters_is_of_all_types),
		TEST(info__of_others_that_is_too_long_is_none_and_counted),
		TEST(list__leaves_out_what_is_too_long),
		TEST(list__that_many_ask_for_is_read_for_all_at_once),
		TEST(list__of_more_than_a_thousand_has_all),
		TEST(list__of_a_type_looks_at_no_other),
		cmocka_unit_test_setup_teardown(
			list__longer_than_the_limit_is_refused_and_names_what_narrows_it,
			api_setup_short_lists, api_teardown),
		TEST(events__tell_of_registration_removal_and_expiry),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
