/* SPDX-License-Identifier: Apache-2.0 */
/* Keys of others that are long, many or none of our concern. */
#include "tests/nanoctrl/compat/foreign_fixture.h"

#include <stdio.h>
#include <string.h>
#include "compat/store.h"

/* Nobody waits until Redis has read all of it. */
static void values__that_are_very_long_are_not_read(void **state)
{
	struct api_fixture *f = *state;
	struct test_redis *r = &f->redis;

	write_agent(f, "agent:a");
	until_true(f, "redis.call('SET', 'spec:topology:a', '{\"target_peers\":[\"' .. "
		      "string.rep('x', 5000000) .. '\"]}') "
		      "redis.call('HSET', 'service:e', 'info', '{}', 'entity_type', 'service', "
		      "'entity_id', string.rep('x', 5000000)) return 1");
	/* Behind both of them. */
	write_agent(f, "agent:b");
	until_post(f, "/query", "{}", "\"name\":\"b\"");
	assert_int_equal(test_redis_do(r, "EXISTS nanoctrl:targets:0:a nanoctrl:entities:"), 0);
	assert_int_equal(test_redis_do(r, "PTTL service:e"), -1);
}

static void hash__without_an_end_gets_one(void **state)
{
	struct api_fixture *f = *state;
	struct test_redis *r = &f->redis;

	test_redis_do(r, "HSET agent:a addr x");
	test_redis_do(r, "HSET agent:ghost memory_keys [] updated_at 1");
	test_redis_do(r, "HSET service:e entity_type service entity_id e info {}");
	until_true(f, "return redis.call('PTTL', 'agent:a') > 0 and "
		      "redis.call('PTTL', 'agent:ghost') > 0 and "
		      "redis.call('PTTL', 'service:e') > 0 and 1 or 0");
	assert_int_equal(test_redis_do(r, "ZCARD nanoctrl:peers:"), 1);
}

static void keys__of_somebody_else_stay_as_they_are(void **state)
{
	struct api_fixture *f = *state;
	struct test_redis *r = &f->redis;

	test_redis_do(r, "HSET app:user:1 name x");
	test_redis_do(r, "HSET app:2 entity_type t entity_id i info {}"); /* not under that name */
	test_redis_do(r, "HSET agent:x what ever");
	test_redis_do(r, "SET mr:nobody:kv x");
	test_redis_do(r, "SET exchange:nobody:else x");
	test_redis_do(r, "SET agent:y x");
	test_redis_do(r, "LPUSH obs:peer:list x");
	/* Behind all of them. */
	write_agent(f, "agent:a");
	until_post(f, "/query", "{}", "\"name\":\"a\"");
	assert_int_equal(json_array_size(f->said.body), 1);
	assert_int_equal(test_redis_do(r, "PTTL app:user:1"), -1);
	assert_int_equal(test_redis_do(r, "PTTL app:2"), -1);
	assert_int_equal(test_redis_do(r, "PTTL agent:x"), -1);
	assert_int_equal(test_redis_do(r, "EXISTS mr:nobody:kv exchange:nobody:else agent:y"), 3);
	assert_int_equal(test_redis_do(r, "EXISTS nanoctrl:owned:0:nobody nanoctrl:entities: "
					  "nanoctrl:snapshots:"),
			 0);
}

/* Every native route but the session, by an agent that has a peer. */
static void ask_natively(struct api_fixture *f)
{
	static const char *const routes[][3] = {
		{ "POST", "/agents/a/heartbeat", NULL },
		{ "PATCH", "/agents/a", "{\"revision\":1,\"address\":\"x\"}" },
		{ "GET", "/agents/a", NULL },
		{ "GET", "/agents", NULL },
		{ "GET", "/services", NULL },
		{ "PUT", "/agents/a/regions/kv",
		  "{\"revision\":1,\"size\":1,\"access\":[\"read\"],\"descriptor\":\"QUJD\"}" },
		{ "GET", "/agents/a/regions/kv", NULL },
		{ "GET", "/agents/a/regions", NULL },
		{ "GET", "/regions", NULL },
		{ "PUT", "/agents/a/exchange/b/default", OFFER },
		{ "GET", "/agents/a/exchange/b/default", NULL },
		{ "GET", "/agents/a/exchange", NULL },
		{ "DELETE", "/agents/a/exchange/b/default?connection_epoch=9", NULL },
		{ "PUT", "/agents/a/links/b/default", "{\"revision\":1,\"state\":\"connected\"}" },
		{ "GET", "/agents/a/links", NULL },
		{ "GET", "/links", NULL },
		{ "DELETE", "/agents/a/links/b/default?revision=9", NULL },
		{ "PUT", "/agents/a/snapshot", "{\"interval_ms\":1000,\"summary\":{}}" },
		{ "GET", "/snapshots", NULL },
		{ "GET", "/agents/a/events?wait_ms=0", NULL },
		{ "GET", "/events?wait_ms=0", NULL },
		{ "DELETE", "/agents/a/regions/kv?revision=9", NULL },
		{ "DELETE", "/agents/a", NULL },
	};
	char lease[512], target[100];

	assert_int_equal(api_register(f, "b", "i2", OWNER_KEY_B, lease), 201);
	assert_int_equal(api_register(f, "a", "i1", OWNER_KEY_A, lease), 201);
	for (size_t i = 0; i < sizeof(routes) / sizeof(*routes); i++) {
		snprintf(target, sizeof(target), "/v1%s%cscope=demo", routes[i][1],
			 strchr(routes[i][1], '?') ? '&' : '?');
		if (api_do(f, &f->said, routes[i][0], target, lease, routes[i][2]) / 100 != 2)
			fail_msg("%s %s: %d", routes[i][0], target, f->said.status);
	}
}

static void routes__look_at_none_of_a_hundred_thousand_keys(void **state)
{
	static const char *const routes[][2] = {
		{ "/register", "{\"entity_id\":\"e\",\"kind\":\"k\"}" },
		{ "/heartbeat", "{\"entity_type\":\"service\",\"entity_id\":\"e\"}" },
		{ "/get_entity_info", "{\"entity_id\":\"e\"}" },
		{ "/list_entities", "{}" },
		{ "/start_peer_agent", "{\"alias\":\"a\",\"address\":\"x\"}" },
		{ "/query", "{}" },
		{ "/v1/desired_topology/a", "{\"target_peers\":[\"b\"],\"symmetric\":true}" },
		{ "/register_mr",
		  "{\"agent_name\":\"a\",\"mr_name\":\"kv\",\"addr\":1,\"length\":1,"
		  "\"rkey\":1}" },
		{ "/get_mr_info", "{\"src\":\"b\",\"dst\":\"a\",\"mr_name\":\"kv\"}" },
		{ "/cleanup", "{\"agent_name\":\"a\"}" },
		{ "/unregister", "{\"entity_id\":\"e\"}" },
	};
	struct api_fixture *f = *state;
	struct test_redis *r = &f->redis;

	for (int i = 0; i < 100; i++)
		test_redis_do(r, "EVAL %s 0 %d",
			      "for i = 1, 1000 do redis.call('SET', 'app:' .. ARGV[1] * 1000 + i, "
			      "'x') end return 1",
			      i);
	test_redis_do(r, "CONFIG RESETSTAT");
	for (size_t i = 0; i < sizeof(routes) / sizeof(*routes); i++)
		assert_int_equal(api_post(f, routes[i][0], routes[i][1]), 200);
	ask_natively(f);
	assert_false(redis_says(f, "INFO commandstats", 0, "cmdstat_keys:"));
	assert_false(redis_says(f, "INFO commandstats", 0, "cmdstat_scan:"));
}

/* It began when there were few keys, or could not ask. What it takes is steps of 10 ms: 82 for the
 * strings as for the hashes when it grows in time, 164 of the size that it began with. */
static void scan__of_more_keys_than_at_its_beginning_takes_larger_batches(void **state)
{
	struct api_fixture *f = *state;
	struct test_redis *r = &f->redis;
	uint64_t start = sl_clock_ns();

	test_redis_do(r, "ACL SETUSER default -dbsize");
	test_redis_do(r, "EVAL %s 0",
		      "for i = 1, 16000 do redis.call('SET', 'app:' .. i, 'x') end return 1");
	write_agent(f, "agent:a");
	until_post(f, "/query", "{}", "\"name\":\"a\"");
	test_redis_do(r, "DEL nanoctrl:peers:");
	test_redis_do(r, "CONFIG RESETSTAT");
	reconnect(f);
	until_redis_says(f, "INFO commandstats", 0, "cmdstat_dbsize:");
	while (atomic_load(&f->hub->compat->scanning))
		if (sl_clock_ns() - start > GIVE_UP_NS)
			fail_msg("it never ends");
	assert_in_range(test_redis_calls(r, "scan"), 164, 300);
	assert_int_equal(api_post(f, "/query", "{}"), 200);
	assert_true(says(f, "\"name\":\"a\""));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, foreign_setup, api_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(values__that_are_very_long_are_not_read),
		TEST(hash__without_an_end_gets_one),
		TEST(keys__of_somebody_else_stay_as_they_are),
		TEST(routes__look_at_none_of_a_hundred_thousand_keys),
		TEST(scan__of_more_keys_than_at_its_beginning_takes_larger_batches),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
