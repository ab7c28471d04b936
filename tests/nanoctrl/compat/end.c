/* SPDX-License-Identifier: Apache-2.0 */
/* How an agent of DLSlime's NanoCtrl ends, and what the next of its name finds. */
#include "tests/nanoctrl/compat/fixture.h"

#include <tests/support/log_lines.h>

static void assert_a_is_gone(struct api_fixture *f)
{
	struct test_redis *r = &f->redis;

	assert_int_equal(
		test_redis_do(r, "EXISTS agent:a mr:a:kv spec:topology:a stream:a inbox:a"), 0);
	assert_int_equal(test_redis_do(r, "EXISTS agent:a:b mr:a:b:kv spec:topology:q"), 3);
	assert_value(f, "LIST", "inbox:p", "{\"peer\":\"a\",\"type\":\"cleanup\"}");
	/* Who named it hears of it, too, and agents without a scope listen at another key. */
	assert_value(f, "LIST", "inbox:q", "{\"peer\":\"a\",\"type\":\"cleanup\"}");
	assert_value(f, "LIST", ":inbox:q", "{\"peer\":\"a\",\"type\":\"cleanup\"}");
	assert_int_equal(test_redis_do(r, "EXISTS nanoctrl:owned:0:a nanoctrl:targets:0:a"), 0);
	assert_int_equal(test_redis_do(r, "EXISTS nanoctrl:named:0:p"), 0);
}

static void cleanup__takes_what_is_the_agents_and_nothing_else(void **state)
{
	struct api_fixture *f = *state;

	set_up_pair(f);
	/* Not a pattern: the original deletes every region then. */
	assert_int_equal(api_post(f, "/cleanup", "{\"agent_name\":\"*\"}"), 200);
	assert_answer(f, "{\"message\":\"Cleaned up agent: *\",\"status\":\"ok\"}");
	assert_int_equal(test_redis_do(&f->redis, "EXISTS agent:a mr:a:kv mr:a:b:kv"), 3);
	assert_int_equal(api_post(f, "/cleanup", "{\"agent_name\":\"a\"}"), 200);
	assert_a_is_gone(f);
	assert_int_equal(api_post(f, "/query", "{}"), 200);
	assert_int_equal(json_array_size(f->said.body), 1);
}

/* An agent that says nothing for its time: the original leaves its keys, and tells nobody. */
static void agent__whose_time_has_run_out_is_cleaned_up(void **state)
{
	struct api_fixture *f = *state;

	set_up_pair(f);
	/* One that another server renewed stays. */
	test_redis_do(&f->redis, "DEL agent:a");
	test_redis_do(&f->redis, "ZADD nanoctrl:peers: 1 a:b 1 a");
	while (test_redis_do(&f->redis, "EXISTS mr:a:kv"))
		;
	assert_a_is_gone(f);
	assert_int_equal(test_redis_do(&f->redis, "ZCOUNT nanoctrl:peers: 2 +inf"), 2);
}

/* Who is asked to go, or goes on at another server, is not among them. */
static void ends__without_a_word_are_counted_and_logged(void **state)
{
	struct api_fixture *f = *state;
	struct test_redis *r = &f->redis;

	set_up_pair(f);
	assert_int_equal(api_post(f, "/register", "{\"entity_id\":\"e\",\"kind\":\"k\"}"), 200);
	assert_int_equal(api_post(f, "/register", "{\"entity_id\":\"g\",\"kind\":\"k\"}"), 200);
	assert_int_equal(api_post(f, "/cleanup", "{\"agent_name\":\"q\"}"), 200);
	assert_int_equal(api_post(f, "/unregister", "{\"entity_id\":\"g\"}"), 200);
	log_lines_keep_from(SLIME_LOG_INFO);
	test_redis_do(r, "DEL agent:a service:e");
	test_redis_do(r, "ZADD nanoctrl:peers: 1 a:b 1 a");
	test_redis_do(r, "ZADD nanoctrl:entities: 1 7:servicee");
	while (test_redis_do(r, "ZCARD nanoctrl:entities:") || test_redis_do(r, "EXISTS mr:a:kv"))
		;
	api_await_metric(f, "nanoctrl_compat_agents_expired_total", 1);
	api_await_metric(f, "nanoctrl_compat_entities_expired_total", 1);
	log_lines_release();
	assert_int_equal(log_lines_with("1 agents of DLSlime's ended without a goodbye: a"), 1);
	assert_int_equal(
		log_lines_with("1 entities of DLSlime's ended without a goodbye: service:e"), 1);
}

/* More than three batches of what goes with one script. */
#define N_OWNED	  1501
#define N_BATCHES ((N_OWNED + 499) / 500)

static void give_much(struct api_fixture *f)
{
	assert_int_equal(api_post(f, "/start_peer_agent", "{\"alias\":\"a\",\"address\":\"x\"}"),
			 200);
	assert_int_equal(api_post(f, "/v1/desired_topology/a", "{\"target_peers\":[\"b\"]}"), 200);
	test_redis_do(&f->redis, "EVAL %s 0 %d",
		      "for i = 1, ARGV[1] do redis.call('SET', 'mr:a:' .. i, '{}') "
		      "redis.call('SADD', 'nanoctrl:owned:0:a', 'mr:a:' .. i) end return 0",
		      N_OWNED);
	test_redis_do(&f->redis, "CONFIG RESETSTAT");
}

static void assert_much_is_gone(struct api_fixture *f)
{
	assert_int_equal(test_redis_do(&f->redis, "KEYS *mr:a:*"), 0);
	assert_int_equal(test_redis_do(&f->redis, "EXISTS agent:a stream:a spec:topology:a "
						  "nanoctrl:owned:0:a nanoctrl:targets:0:a"),
			 0);
	/* A sweep that comes between takes one of them, or finds that nothing is left. */
	assert_in_range(test_redis_calls(&f->redis, "spop"), N_BATCHES, 2 * N_BATCHES);
	assert_value(f, "LIST", "inbox:b", "{\"peer\":\"a\",\"type\":\"cleanup\"}");
}

/* All of it is gone when the answer comes, and who is told is told once. */
static void cleanup__of_one_who_owns_much_goes_in_batches(void **state)
{
	struct api_fixture *f = *state;

	give_much(f);
	assert_int_equal(api_post(f, "/cleanup", "{\"agent_name\":\"a\"}"), 200);
	assert_much_is_gone(f);
	assert_int_equal(test_redis_do(&f->redis, "ZCARD nanoctrl:peers:"), 0);
}

static void agent__that_owned_much_goes_in_batches_when_its_time_is_over(void **state)
{
	struct api_fixture *f = *state;

	give_much(f);
	test_redis_do(&f->redis, "DEL agent:a");
	test_redis_do(&f->redis, "ZADD nanoctrl:peers: 1 a");
	while (test_redis_do(&f->redis, "ZCARD nanoctrl:peers:"))
		;
	assert_much_is_gone(f);
}

/* Whoever takes its name meanwhile has nothing of it. */
static void start__of_a_name_of_which_much_is_left_begins_with_nothing(void **state)
{
	struct api_fixture *f = *state;

	give_much(f);
	test_redis_do(&f->redis, "DEL agent:a");
	test_redis_do(&f->redis, "ZADD nanoctrl:peers: 99999999999 a");
	assert_int_equal(api_post(f, "/start_peer_agent", "{\"alias\":\"a\",\"address\":\"y\"}"),
			 200);
	assert_int_equal(test_redis_do(&f->redis, "KEYS *mr:a:*"), 0);
	assert_int_equal(test_redis_do(&f->redis, "EXISTS agent:a"), 1);
}

/* The list has the last target only, and a leaving agent deletes it before it says that it leaves.
 */
static void cleanup__tells_everyone_whom_the_agent_ever_named(void **state)
{
	struct api_fixture *f = *state;

	assert_int_equal(api_post(f, "/start_peer_agent", "{\"alias\":\"a\",\"address\":\"x\"}"),
			 200);
	assert_int_equal(api_post(f, "/v1/desired_topology/a", "{\"target_peers\":[\"b\"]}"), 200);
	assert_int_equal(api_post(f, "/v1/desired_topology/a", "{\"target_peers\":[\"c\"]}"), 200);
	assert_value(
		f, "GET", "spec:topology:a",
		"{\"target_peers\":[\"c\"],\"min_bw\":null,\"symmetric\":false,\"scope\":null}");
	test_redis_do(&f->redis, "DEL spec:topology:a");
	assert_int_equal(api_post(f, "/cleanup", "{\"agent_name\":\"a\"}"), 200);
	assert_value(f, "LIST", "inbox:b", "{\"peer\":\"a\",\"type\":\"cleanup\"}");
	assert_value(f, "LIST", "inbox:c", "{\"peer\":\"a\",\"type\":\"cleanup\"}");
}

/* Others made it something else: it stays so, and the end goes on. */
static void cleanup__over_a_damaged_set_of_namers_is_whole(void **state)
{
	struct api_fixture *f = *state;

	set_up_pair(f);
	test_redis_do(&f->redis, "DEL nanoctrl:named:0:p");
	test_redis_do(&f->redis, "SET nanoctrl:named:0:p x");
	assert_int_equal(api_post(f, "/cleanup", "{\"agent_name\":\"a\"}"), 200);
	assert_int_equal(test_redis_do(&f->redis, "DEL nanoctrl:named:0:p"), 1);
	assert_a_is_gone(f);
}

static void start__of_a_target_asks_those_who_wait_for_it_to_connect(void **state)
{
	struct api_fixture *f = *state;
	const char *start_b = "{\"alias\":\"b\",\"address\":\"x\"}";

	assert_int_equal(api_post(f, "/start_peer_agent", "{\"alias\":\"a\",\"address\":\"x\"}"),
			 200);
	assert_int_equal(api_post(f, "/v1/desired_topology/a", "{\"target_peers\":[\"b\"]}"), 200);
	assert_int_equal(api_post(f, "/v1/desired_topology/z", "{\"target_peers\":[\"b\"]}"), 200);
	assert_int_equal(test_redis_do(&f->redis, "XLEN stream:a"), 1);
	assert_int_equal(api_post(f, "/start_peer_agent", start_b), 200);
	assert_int_equal(test_redis_do(&f->redis, "XLEN stream:a"), 2);
	/* ... and again when it went and came back; not who is not there. */
	assert_int_equal(api_post(f, "/cleanup", "{\"agent_name\":\"b\"}"), 200);
	assert_int_equal(api_post(f, "/start_peer_agent", start_b), 200);
	assert_int_equal(test_redis_do(&f->redis, "XLEN stream:a"), 3);
	assert_int_equal(test_redis_do(&f->redis, "XLEN stream:z"), 1);
	assert_int_equal(api_post(f, "/cleanup", "{\"agent_name\":\"a\"}"), 200);
	assert_int_equal(test_redis_do(&f->redis, "SISMEMBER nanoctrl:named:0:b a"), 0);
}

/* Its stream would send the new one to queue pairs that are gone. */
static void start__after_an_end_that_nobody_noticed_leaves_nothing_of_the_former(void **state)
{
	struct api_fixture *f = *state;

	set_up_pair(f);
	test_redis_do(&f->redis, "XADD stream:a * type qp_ready peer p");
	test_redis_do(&f->redis, "DEL agent:a");
	assert_int_equal(api_post(f, "/start_peer_agent", "{\"alias\":\"a\",\"address\":\"x\"}"),
			 200);
	assert_int_equal(test_redis_do(&f->redis, "EXISTS mr:a:kv spec:topology:a stream:a"), 0);
	assert_value(f, "LIST", "inbox:p", "{\"peer\":\"a\",\"type\":\"cleanup\"}");
	/* What was sent ahead to a name that is only expected stays. */
	assert_int_equal(api_post(f, "/v1/desired_topology/a",
				  "{\"target_peers\":[\"n\"],\"symmetric\":true}"),
			 200);
	assert_int_equal(api_post(f, "/start_peer_agent", "{\"alias\":\"n\",\"address\":\"x\"}"),
			 200);
	assert_true(test_redis_do(&f->redis, "XLEN stream:n") >= 1);
	assert_int_equal(test_redis_do(&f->redis, "EXISTS spec:topology:n"), 1);
}

/* Who is told of the end and asked at once may do the one after the other, and drop what it just
 * made. */
static void start__after_an_end_that_nobody_noticed_asks_when_that_is_known(void **state)
{
	struct api_fixture *f = *state;
	struct test_redis *r = &f->redis;
	const char *start_b = "{\"alias\":\"b:1\",\"address\":\"x\",\"scope\":\"s\"}";
	const char *late = "local ids = redis.call('XRANGE', 's:stream:a', '-', '+') "
			   "local asked = string.match(ids[#ids][1], '%d+') "
			   "return asked - ARGV[1] >= 1000 and 1 or 0";
	long long before;

	assert_int_equal(api_post(f, "/start_peer_agent",
				  "{\"alias\":\"a\",\"address\":\"x\",\"scope\":\"s\"}"),
			 200);
	assert_int_equal(api_post(f, "/start_peer_agent", start_b), 200);
	assert_int_equal(api_post(f, "/v1/desired_topology/a",
				  "{\"target_peers\":[\"b:1\"],\"scope\":\"s\"}"),
			 200);
	test_redis_do(r, "DEL s:agent:b:1");
	before = test_redis_do(r, "EVAL %s 0",
			       "local t = redis.call('TIME') "
			       "return t[1] * 1000 + math.floor(t[2] / 1000)");
	assert_int_equal(api_post(f, "/start_peer_agent", start_b), 200);
	assert_int_equal(test_redis_do(r, "LLEN s:inbox:a"), 1);
	while (test_redis_do(r, "XLEN s:stream:a") < 2)
		;
	assert_int_equal(test_redis_do(r, "EVAL %s 0 %lld", late, before), 1);
	while (test_redis_do(r, "EXISTS nanoctrl:returned"))
		;
	assert_int_equal(test_redis_do(r, "XLEN s:stream:a"), 2);
}

static void keys__of_a_name_that_never_comes_have_an_end(void **state)
{
	struct api_fixture *f = *state;
	struct test_redis *r = &f->redis;

	assert_int_equal(api_post(f, "/v1/desired_topology/q",
				  "{\"target_peers\":[\"r\"],\"symmetric\":true}"),
			 200);
	assert_int_equal(
		api_post(f, "/register_mr",
			 "{\"agent_name\":\"m\",\"mr_name\":\"kv\",\"addr\":1,\"length\":1,"
			 "\"rkey\":1}"),
		200);
	assert_int_equal(test_redis_do(r, "ZCARD nanoctrl:peers:"), 3);
	test_redis_do(r, "ZADD nanoctrl:peers: 1 q 1 r 1 m");
	while (test_redis_do(r, "EXISTS spec:topology:q spec:topology:r stream:q stream:r mr:m:kv"))
		;
	while (test_redis_do(r, "EXISTS nanoctrl:named:0:q nanoctrl:named:0:r"))
		;
	/* Whom the end of one is told does not find it there for ever. */
	assert_true(test_redis_do(r, "PTTL inbox:q") != -1);
	assert_true(test_redis_do(r, "PTTL :inbox:r") != -1);
	while (test_redis_do(r, "EXISTS nanoctrl:peers: nanoctrl:peer_scopes"))
		;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, api_setup_advertised, api_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(cleanup__takes_what_is_the_agents_and_nothing_else),
		TEST(agent__whose_time_has_run_out_is_cleaned_up),
		TEST(ends__without_a_word_are_counted_and_logged),
		TEST(cleanup__of_one_who_owns_much_goes_in_batches),
		TEST(agent__that_owned_much_goes_in_batches_when_its_time_is_over),
		TEST(start__of_a_name_of_which_much_is_left_begins_with_nothing),
		TEST(cleanup__tells_everyone_whom_the_agent_ever_named),
		TEST(cleanup__over_a_damaged_set_of_namers_is_whole),
		TEST(start__of_a_target_asks_those_who_wait_for_it_to_connect),
		TEST(start__after_an_end_that_nobody_noticed_leaves_nothing_of_the_former),
		TEST(start__after_an_end_that_nobody_noticed_asks_when_that_is_known),
		TEST(keys__of_a_name_that_never_comes_have_an_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
