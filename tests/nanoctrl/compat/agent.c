/* SPDX-License-Identifier: Apache-2.0 */
/* Agents of DLSlime's NanoCtrl: how they start, their regions, and lists of them. */
#include "tests/nanoctrl/compat/fixture.h"

#include <stdio.h>
#include <string.h>
#include "store/redis_store.h"

static void start__with_an_alias_registers_and_says_where_redis_is(void **state)
{
	struct api_fixture *f = *state;

	assert_int_equal(
		api_post(
			f, "/start_peer_agent",
			"{\"alias\":\"a\",\"address\":\"10.0.0.1\",\"device\":\"mlx5_0\",\"ib_port\":2,"
			"\"link_type\":\"RoCE\",\"resource\":{ \"nics\":[1] },\"scope\":\"s\"}"),
		200);
	assert_answer(f, "{\"name\":\"a\",\"redis_address\":\"" API_ADVERTISED "\","
			 "\"resource\":{\"nics\":[1]},\"status\":\"ok\"}");
	assert_value(f, "addr", "s:agent:a", "10.0.0.1");
	assert_value(f, "resource", "s:agent:a", "{\"nics\":[1]}");
	assert_value(f, "topology", "s:agent:a", "{\"nics\":[1]}");
	assert_value(f, "device", "s:agent:a", "mlx5_0");
	assert_value(f, "ib_port", "s:agent:a", "2");
	assert_true(test_redis_do(&f->redis, "PTTL s:agent:a") > 50000);
	assert_int_equal(api_post(f, "/start_peer_agent",
				  "{\"alias\":\"a\",\"address\":\"x\",\"scope\":\"s\"}"),
			 409);
	assert_string_equal(api_text(&f->said, "message", NULL),
			    "Peer agent alias 'a' already exists in this scope");
	assert_string_equal(api_text(&f->said, "status", NULL), "error");
	assert_int_equal(api_post(f, "/query", "{\"scope\":\"s\"}"), 200);
	assert_answer(f, "[{\"address\":\"10.0.0.1\",\"device\":\"mlx5_0\",\"ib_port\":2,"
			 "\"link_type\":\"RoCE\",\"memory_keys\":[],\"name\":\"a\","
			 "\"resource\":{\"nics\":[1]}}]");
	assert_int_equal(api_post(f, "/query", "{}"), 200);
	assert_answer(f, "[]");
	assert_int_equal(api_post(f, "/start_peer_agent", "{\"alias\":\"\",\"address\":\"x\"}"),
			 422);
	assert_int_equal(api_post(f, "/start_peer_agent", "{\"alias\":\"b\"}"), 422);
	assert_string_equal(api_text(&f->said, "field", NULL), "address");
	assert_int_equal(api_post(f, "/get_redis_address", "{}"), 200);
	assert_answer(f, "{\"redis_address\":\"redis://" API_ADVERTISED "\",\"status\":\"ok\"}");
}

/* A name that is made up is never one that is there. */
static void start__without_an_alias_takes_the_next_free_name(void **state)
{
	struct api_fixture *f = *state;

	assert_int_equal(
		api_post(f, "/start_peer_agent", "{\"alias\":\"agent-2\",\"address\":\"x\"}"), 200);
	assert_int_equal(api_post(f, "/start_peer_agent", "{\"address\":\"x\"}"), 200);
	assert_answer(f, "{\"name\":\"agent-1\",\"redis_address\":\"" API_ADVERTISED
			 "\",\"status\":\"ok\"}");
	assert_int_equal(api_post(f, "/start_peer_agent", "{\"alias\":null,\"address\":\"x\"}"),
			 200);
	assert_string_equal(api_text(&f->said, "name", NULL), "agent-3");
	assert_int_equal(api_post(f, "/start_peer_agent",
				  "{\"address\":\"x\",\"name_prefix\":\"w\",\"resource\":null}"),
			 200);
	assert_string_equal(api_text(&f->said, "name", NULL), "w-4");
}

static void start__where_clients_cannot_reach_redis_registers_nothing(void **state)
{
	struct api_fixture *f = *state;

	assert_int_equal(api_post(f, "/start_peer_agent", "{\"alias\":\"a\",\"address\":\"x\"}"),
			 409);
	assert_string_equal(api_text(&f->said, "code", NULL), "redis_unreachable");
	assert_int_equal(api_post(f, "/get_redis_address", "{}"), 409);
	assert_int_equal(test_redis_do(&f->redis, "EXISTS agent:a"), 0);
}

/* An agent that wrote into its record after that had expired made one without an end. */
static void start__of_a_name_held_without_an_end_gives_it_one(void **state)
{
	struct api_fixture *f = *state;

	test_redis_do(&f->redis, "HSET agent:a addr x memory_keys []");
	assert_int_equal(api_post(f, "/start_peer_agent", "{\"alias\":\"a\",\"address\":\"x\"}"),
			 409);
	assert_true(test_redis_do(&f->redis, "PTTL agent:a") > 0);
	test_redis_do(&f->redis, "ZADD nanoctrl:peers: 1 a");
	test_redis_do(&f->redis, "DEL agent:a");
	assert_int_equal(api_post(f, "/start_peer_agent", "{\"alias\":\"a\",\"address\":\"x\"}"),
			 200);
}

static void mr__is_told_as_it_was_registered(void **state)
{
	struct api_fixture *f = *state;
	const char *get = "{\"src\":\"x\",\"dst\":\"a:b\",\"mr_name\":\"kv\"}";

	assert_int_equal(api_post(f, "/get_mr_info", get), 200);
	assert_answer(f, "{\"mr_info\":null}");
	assert_int_equal(
		api_post(f, "/register_mr",
			 "{\"agent_name\":\"a:b\",\"mr_name\":\"kv\",\"addr\":9223372036854775807,"
			 "\"length\":4096,\"rkey\":4294967295}"),
		200);
	assert_answer(f, "{\"status\":\"ok\"}");
	assert_value(
		f, "GET", "mr:a:b:kv",
		"{\"addr\":9223372036854775807,\"length\":4096,\"lkey\":0,\"rkey\":4294967295}");
	assert_int_equal(api_post(f, "/get_mr_info", get), 200);
	assert_answer(f, "{\"mr_info\":{\"addr\":9223372036854775807,\"length\":4096,\"lkey\":0,"
			 "\"rkey\":4294967295}}");
	/* What others stored and does not fit is none, not another key. */
	test_redis_do(&f->redis, "SET mr:a:b:kv %s",
		      "{\"addr\":1,\"length\":1,\"lkey\":0,\"rkey\":4294967298}");
	assert_int_equal(api_post(f, "/get_mr_info", get), 200);
	assert_answer(f, "{\"mr_info\":null}");
	test_redis_do(&f->redis, "SET mr:a:b:kv %s", "{\"addr\":1,\"length\":1,\"rkey\":1}");
	assert_int_equal(api_post(f, "/get_mr_info", get), 200);
	assert_answer(f, "{\"mr_info\":null}");
	assert_int_equal(
		api_post(f, "/register_mr",
			 "{\"agent_name\":\"a\",\"mr_name\":\"k\",\"addr\":-1,\"length\":1,"
			 "\"rkey\":1}"),
		422);
	assert_int_equal(
		api_post(f, "/register_mr",
			 "{\"agent_name\":\"a\",\"mr_name\":\"k\",\"addr\":1.0,\"length\":1,"
			 "\"rkey\":1}"),
		422);
	assert_int_equal(api_post(f, "/register_mr",
				  "{\"agent_name\":\"a\",\"mr_name\":\"k\",\"addr\":1,\"length\":1,"
				  "\"rkey\":4294967296}"),
			 422);
	assert_string_equal(api_text(&f->said, "field", NULL), "rkey");
	assert_int_equal(api_post(f, "/register_mr",
				  "{\"agent_name\":\"a\",\"mr_name\":\"\",\"addr\":1,"
				  "\"length\":1,\"rkey\":1}"),
			 422);
	assert_string_equal(api_text(&f->said, "field", NULL), "mr_name");
}

/* One answer that long would end the connection, and with it what others have under way. */
static void value__of_others_that_is_too_long_is_none_and_counted(void **state)
{
	struct api_fixture *f = *state;
	struct test_redis *r = &f->redis;
	uint64_t before = atomic_load(&f->hub->n_reconnects);
	long long skipped = api_metric(f, "nanoctrl_store_skipped_total");

	test_redis_do(r, "SETRANGE mr:a:kv 70000000 x");
	assert_int_equal(
		api_post(f, "/get_mr_info", "{\"src\":\"x\",\"dst\":\"a\",\"mr_name\":\"kv\"}"),
		200);
	assert_answer(f, "{\"mr_info\":null}");
	assert_true(api_metric(f, "nanoctrl_store_skipped_total") >= skipped + 1);
	test_redis_do(r, "SETRANGE spec:topology:b 70000000 x");
	assert_int_equal(api_post(f, "/v1/desired_topology/a",
				  "{\"target_peers\":[\"b\"],\"symmetric\":true}"),
			 200);
	assert_true(test_redis_do(r, "STRLEN spec:topology:b") < 1000);
	assert_true(api_metric(f, "nanoctrl_store_skipped_total") >= skipped + 2);
	assert_int_equal(atomic_load(&f->hub->n_reconnects), before);
}

static void query__skips_what_others_damaged(void **state)
{
	struct api_fixture *f = *state;
	long long junk = api_metric(f, "nanoctrl_model_junk_total");

	assert_int_equal(api_post(f, "/start_peer_agent", "{\"alias\":\"a\",\"address\":\"x\"}"),
			 200);
	assert_int_equal(api_post(f, "/start_peer_agent", "{\"alias\":\"b\",\"address\":\"x\"}"),
			 200);
	assert_int_equal(api_post(f, "/start_peer_agent", "{\"alias\":\"c\",\"address\":\"x\"}"),
			 200);
	test_redis_do(&f->redis, "DEL agent:a");
	test_redis_do(&f->redis, "SET agent:a x");
	test_redis_do(&f->redis,
		      "HSET agent:b resource {broken ib_port many memory_keys {} device %b", "\xff",
		      (size_t)1);
	test_redis_do(&f->redis, "HSET agent:c memory_keys %s topology %s", "[\"kv\"]",
		      "{\"t\":1}");
	assert_int_equal(api_post(f, "/query", "{}"), 200);
	assert_answer(f, "[{\"address\":\"x\",\"device\":\"\",\"ib_port\":1,\"link_type\":\"\","
			 "\"memory_keys\":[],\"name\":\"b\",\"resource\":null},"
			 "{\"address\":\"x\",\"device\":\"\",\"ib_port\":1,\"link_type\":\"\","
			 "\"memory_keys\":[\"kv\"],\"name\":\"c\",\"resource\":{\"t\":1}}]");
	assert_int_equal(api_metric(f, "nanoctrl_model_junk_total"), junk + 4);
}

/* One such agent is no reason to tell of none. */
static void query__leaves_out_who_is_too_long(void **state)
{
	struct api_fixture *f = *state;

	assert_int_equal(api_post(f, "/start_peer_agent", "{\"alias\":\"a\",\"address\":\"x\"}"),
			 200);
	assert_int_equal(api_post(f, "/start_peer_agent", "{\"alias\":\"b\",\"address\":\"x\"}"),
			 200);
	test_redis_do(&f->redis, "EVAL %s 1 agent:b",
		      "redis.call('HSET', KEYS[1], 'resource', string.rep('x', 33554433))");
	assert_int_equal(api_post(f, "/query", "{}"), 200);
	assert_int_equal(json_array_size(f->said.body), 1);
}

static void query__longer_than_the_limit_is_refused(void **state)
{
	struct api_fixture *f = *state;
	char body[1400], text[1024];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	for (int i = 0; i < 3; i++) {
		snprintf(
			body, sizeof(body),
			"{\"alias\":\"a%d\",\"address\":\"h\",\"resource\":\"%s\",\"scope\":\"%s\"}",
			i, text, i ? "s" : "t");
		assert_int_equal(api_post(f, "/start_peer_agent", body), 200);
	}
	/* A resource counts as such and as topology. */
	assert_int_equal(api_post(f, "/query", "{\"scope\":\"s\"}"), 413);
	assert_string_equal(api_text(&f->said, "code", NULL), "too_large");
	assert_string_equal(api_text(&f->said, "field", NULL), "scope");
	assert_int_equal(api_post(f, "/query", "{\"scope\":\"t\"}"), 200);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, api_setup_advertised, api_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(start__with_an_alias_registers_and_says_where_redis_is),
		TEST(start__without_an_alias_takes_the_next_free_name),
		cmocka_unit_test_setup_teardown(
			start__where_clients_cannot_reach_redis_registers_nothing, api_setup,
			api_teardown),
		TEST(start__of_a_name_held_without_an_end_gives_it_one),
		TEST(mr__is_told_as_it_was_registered),
		TEST(value__of_others_that_is_too_long_is_none_and_counted),
		TEST(query__skips_what_others_damaged),
		TEST(query__leaves_out_who_is_too_long),
		cmocka_unit_test_setup_teardown(query__longer_than_the_limit_is_refused,
						api_setup_short_lists, api_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
