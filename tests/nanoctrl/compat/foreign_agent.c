/* SPDX-License-Identifier: Apache-2.0 */
/* Agents that others wrote to Redis themselves: what is theirs, how they end and come back. */
#include "tests/nanoctrl/compat/foreign_fixture.h"

#include <stdio.h>

static void cleanup__takes_what_was_written_right_before(void **state)
{
	struct api_fixture *f = *state;

	for (int i = 0; i < 50; i++) {
		write_agent(f, "agent:a");
		test_redis_do(&f->redis, "SET mr:a:kv {}");
		test_redis_do(&f->redis, "SET exchange:a:b {}");
		assert_int_equal(api_post(f, "/cleanup", "{\"agent_name\":\"a\"}"), 200);
		assert_int_equal(test_redis_do(&f->redis, "EXISTS agent:a mr:a:kv exchange:a:b"),
				 0);
	}
}

/* A key that may be of two agents goes with neither; one that its route gave an owner stays its. */
static void region__that_may_be_anybodys_stays(void **state)
{
	struct api_fixture *f = *state;
	struct test_redis *r = &f->redis;

	write_agent(f, "agent:a");
	write_agent(f, "agent:a:b");
	test_redis_do(r, "SET mr:a:b:kv {}");
	assert_int_equal(
		api_post(f, "/register_mr",
			 "{\"agent_name\":\"a:b\",\"mr_name\":\"its\",\"addr\":1,\"length\":1,"
			 "\"rkey\":1}"),
		200);
	test_redis_do(r, "SET mr:a:kv {}");
	until_redis(f, 1, "SCARD nanoctrl:owned:0:a");
	assert_int_equal(test_redis_do(r, "SCARD nanoctrl:owned:0:a:b"), 1);
	assert_int_equal(api_post(f, "/cleanup", "{\"agent_name\":\"a\"}"), 200);
	assert_int_equal(test_redis_do(r, "EXISTS mr:a:kv mr:a:b:kv mr:a:b:its"), 2);
}

static void end__of_a_foreign_agent_takes_what_it_left(void **state)
{
	struct api_fixture *f = *state;
	struct test_redis *r = &f->redis;

	write_agent(f, "s:agent:a");
	write_agent(f, "s:agent:a:b");
	write_agent(f, "s:agent:p");
	test_redis_do(r, "SET s:mr:a:kv %s", "{\"agent_name\":\"a\",\"addr\":1}");
	test_redis_do(r, "SET s:mr:a:b:kv %s", "{\"agent_name\":\"a:b\",\"addr\":1}");
	test_redis_do(r, "SET s:exchange:a:p:a:mlx5_0:port1->p:mlx5_0:port1#qp1 x");
	test_redis_do(r, "SET s:exchange:p:a x");
	test_redis_do(r, "SET s:spec:topology:p %s", "{\"target_peers\":[\"a\"]}");
	test_redis_do(r, "XADD s:stream:a * type connect_peer");
	until_redis(f, 3, "SCARD nanoctrl:owned:1:sa");
	until_redis(f, 1, "SCARD nanoctrl:owned:1:sa:b");
	until_redis(f, 1, "SCARD nanoctrl:named:1:sa");
	/* It dies: its time runs out, in its index as well. */
	test_redis_do(r, "DEL s:agent:a");
	test_redis_do(r, "ZADD nanoctrl:peers:s 1 a");
	until_redis(f, 0, "EXISTS s:mr:a:kv s:exchange:p:a s:stream:a");
	assert_int_equal(test_redis_do(r, "EXISTS s:mr:a:b:kv s:agent:p s:agent:a:b"), 3);
	assert_int_equal(test_redis_do(r, "LLEN s:inbox:p"), 1);
	assert_int_equal(test_redis_do(r, "EXISTS nanoctrl:owned:1:sa"), 0);
}

#define CLEAN_NS (15 * SL_NS_PER_S)

/* Nobody tells when a key expires: its time is known since it was learned. That no outage was right
 * before is what the fixture says. */
static void end__of_a_foreign_agent_is_seen_within_15_seconds(void **state)
{
	struct api_fixture *f = *state;
	uint64_t expired_ns;

	until_true(f, "redis.call('HSET', 'agent:a', 'addr', 'x', 'updated_at', 1) "
		      "redis.call('SET', 'mr:a:kv', '{}') redis.call('SET', 'exchange:a:p', 'x') "
		      "redis.call('XADD', 'stream:a', '*', 'type', 'connect_peer') "
		      "return redis.call('PEXPIRE', 'agent:a', 1500)");
	until_redis(f, 2, "SCARD nanoctrl:owned:0:a");
	until_redis(f, 0, "EXISTS agent:a");
	expired_ns = sl_clock_ns();
	until_redis(f, 0, "EXISTS mr:a:kv exchange:a:p stream:a");
	assert_in_range(sl_clock_ns() - expired_ns, 0, CLEAN_NS);
}

/* As the original does it: every field is told of. */
static void register_elsewhere(struct api_fixture *f, const char *key)
{
	assert_int_equal(
		test_redis_do(&f->redis, "EVAL %s 1 %s",
			      "redis.call('HSET', KEYS[1], 'addr', '10.0.0.1') "
			      "redis.call('HSET', KEYS[1], 'memory_keys', '[]') "
			      "redis.call('HSET', KEYS[1], 'updated_at', redis.call('TIME')[1]) "
			      "return redis.call('EXPIRE', KEYS[1], 60)",
			      key),
		1);
}

/* Whether what was written so far has been learned: what comes behind it has. */
static void until_learned(struct api_fixture *f, const char *scope)
{
	char body[64];

	snprintf(body, sizeof(body), "{\"scope\":\"%s\"}", scope);
	assert_int_equal(api_post(f, "/query", body), 200);
}

static void register_a_that_names_b(struct api_fixture *f)
{
	register_elsewhere(f, "agent:a");
	register_elsewhere(f, "agent:b");
	test_redis_do(&f->redis, "SET spec:topology:a %s", "{\"target_peers\":[\"b\"]}");
	until_redis(f, 1, "SCARD nanoctrl:named:0:b");
}

static void agent__that_comes_back_elsewhere_is_asked_for(void **state)
{
	struct api_fixture *f = *state;
	struct test_redis *r = &f->redis;

	register_elsewhere(f, "s:agent:a");
	register_elsewhere(f, "s:agent:b");
	test_redis_do(r, "SET s:spec:topology:a %s", "{\"target_peers\":[\"b\"]}");
	until_redis(f, 1, "SCARD nanoctrl:named:1:sb");
	assert_int_equal(test_redis_do(r, "XLEN s:stream:a"), 0);
	/* It dies, and who named it is told. */
	test_redis_do(r, "DEL s:agent:b");
	test_redis_do(r, "ZADD nanoctrl:peers:s 1 b");
	until_redis(f, 1, "LLEN s:inbox:a");
	register_elsewhere(f, "s:agent:b");
	until_learned(f, "s");
	assert_int_equal(test_redis_do(r, "XLEN s:stream:a"), 1);
	until_true(f, "local f = redis.call('XRANGE', 's:stream:a', '-', '+')[1][2] "
		      "return f[2] .. ' ' .. f[4] == 'connect_peer b' and 1 or 0");
	/* What it writes in this life asks nobody. */
	test_redis_do(r, "HSET s:agent:b memory_keys [] updated_at 2");
	test_redis_do(r, "HSET s:agent:b memory_keys %s", "[\"kv\"]");
	test_redis_do(r, "PEXPIRE s:agent:b 40000");
	test_redis_do(r, "HSET s:agent:b memory_keys []");
	until_learned(f, "s");
	assert_int_equal(test_redis_do(r, "XLEN s:stream:a"), 1);
}

/* Its time had not run out yet: it left in order, and the other server told whom it knew of. */
static void agent__that_comes_back_elsewhere_at_once_is_asked_for(void **state)
{
	struct api_fixture *f = *state;
	struct test_redis *r = &f->redis;

	register_a_that_names_b(f);
	/* As some seconds after it was noted. */
	until_true(f, "local t = redis.call('TIME')[1] "
		      "return redis.call('ZADD', 'nanoctrl:peers:', 'CH', t * 1000 + 30000, 'b')");
	test_redis_do(r, "DEL agent:b");
	register_elsewhere(f, "agent:b");
	until_learned(f, "");
	assert_int_equal(test_redis_do(r, "XLEN stream:a"), 1);
	assert_int_equal(test_redis_do(r, "LLEN inbox:a"), 0);
}

/* An hour behind: what tells one process from the next is when it looked for its devices. */
static void agent__that_comes_back_at_a_server_of_another_clock_is_asked_for(void **state)
{
	struct api_fixture *f = *state;
	struct test_redis *r = &f->redis;

	register_a_that_names_b(f);
	test_redis_do(r, "HSET agent:b resource %s", "{\"nics\":[],\"topology_epoch\":1700000000}");
	until_learned(f, "");
	assert_int_equal(test_redis_do(r, "XLEN stream:a"), 0);
	test_redis_do(r, "DEL agent:b");
	until_true(f, "redis.call('HSET', 'agent:b', 'addr', 'x', 'memory_keys', '[]', "
		      "'updated_at', redis.call('TIME')[1] - 3600, "
		      "'resource', '{\"nics\":[],\"topology_epoch\":1700000100}') "
		      "return redis.call('PEXPIRE', 'agent:b', 60000)");
	until_learned(f, "");
	assert_int_equal(test_redis_do(r, "XLEN stream:a"), 1);
	assert_int_equal(test_redis_do(r, "LLEN inbox:a"), 0);
}

/* It has all of its time with every beat, and may have no regions ever. */
static void agent__that_beats_elsewhere_is_not_asked_for(void **state)
{
	struct api_fixture *f = *state;
	struct test_redis *r = &f->redis;

	register_a_that_names_b(f);
	until_true(f, "local t = redis.call('TIME')[1] "
		      "redis.call('HSET', 'agent:b', 'updated_at', t - 15) "
		      "redis.call('PEXPIRE', 'agent:b', 60000) "
		      "return redis.call('ZADD', 'nanoctrl:peers:', 'CH', t * 1000 + 45000, 'b')");
	until_learned(f, "");
	until_true(f, "local noted = redis.call('ZSCORE', 'nanoctrl:peers:', 'b') "
		      "return noted - redis.call('TIME')[1] * 1000 > 50000 and 1 or 0");
	assert_int_equal(test_redis_do(r, "XLEN stream:a"), 0);
}

/* It is the same process that comes back here. */
static void start__of_one_that_was_registered_elsewhere_is_no_end(void **state)
{
	struct api_fixture *f = *state;
	struct test_redis *r = &f->redis;

	register_elsewhere(f, "agent:a");
	test_redis_do(r, "HSET agent:a resource %s",
		      "{\"topology_epoch\": 1700000000, \"nics\": []}");
	test_redis_do(r, "SET mr:a:kv {}");
	until_redis(f, 1, "SCARD nanoctrl:owned:0:a");
	until_learned(f, "");
	test_redis_do(r, "DEL agent:a");
	assert_int_equal(api_post(f, "/start_peer_agent",
				  "{\"alias\":\"a\",\"address\":\"x\","
				  "\"resource\":{\"nics\":[],\"topology_epoch\":1700000000}}"),
			 200);
	assert_int_equal(test_redis_do(r, "EXISTS mr:a:kv"), 1);
}

static void region__that_its_agent_removed_is_not_kept_in_mind(void **state)
{
	struct api_fixture *f = *state;
	struct test_redis *r = &f->redis;

	write_agent(f, "agent:a");
	test_redis_do(r, "MSET mr:a:one {} mr:a:two {}");
	until_redis(f, 2, "SCARD nanoctrl:owned:0:a");
	test_redis_do(r, "DEL mr:a:one");
	until_redis(f, 1, "SCARD nanoctrl:owned:0:a");
	assert_int_equal(test_redis_do(r, "SISMEMBER nanoctrl:owned:0:a mr:a:two"), 1);
}

/* Those that are there, and those that it wants now, stay. */
static void targets__that_went_for_good_are_not_kept_for_ever(void **state)
{
	struct api_fixture *f = *state;
	struct test_redis *r = &f->redis;

	write_agent(f, "agent:a");
	write_agent(f, "agent:there");
	test_redis_do(r, "SET spec:topology:a %s", "{\"target_peers\":[\"wanted\"]}");
	until_redis(f, 1, "SCARD nanoctrl:targets:0:a");
	until_true(f, "for i = 1, 4200 do redis.call('SADD', 'nanoctrl:targets:0:a', 'gone' .. i) "
		      "redis.call('SADD', 'nanoctrl:named:0:gone' .. i, 'a') end "
		      "return redis.call('SADD', 'nanoctrl:targets:0:a', 'there')");
	until_true(f, "return redis.call('SCARD', 'nanoctrl:targets:0:a') <= 4096 and 1 or 0");
	until_true(f, "return #redis.call('KEYS', 'nanoctrl:named:0:gone*') <= 4095 and 1 or 0");
	assert_int_equal(test_redis_do(r, "SISMEMBER nanoctrl:targets:0:a wanted"), 1);
	assert_int_equal(test_redis_do(r, "SISMEMBER nanoctrl:targets:0:a there"), 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, foreign_setup, api_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(cleanup__takes_what_was_written_right_before),
		TEST(region__that_may_be_anybodys_stays),
		TEST(end__of_a_foreign_agent_takes_what_it_left),
		cmocka_unit_test_setup_teardown(end__of_a_foreign_agent_is_seen_within_15_seconds,
						foreign_setup_as_a_program, api_teardown),
		TEST(agent__that_comes_back_elsewhere_is_asked_for),
		TEST(agent__that_comes_back_elsewhere_at_once_is_asked_for),
		TEST(agent__that_comes_back_at_a_server_of_another_clock_is_asked_for),
		TEST(agent__that_beats_elsewhere_is_not_asked_for),
		TEST(start__of_one_that_was_registered_elsewhere_is_no_end),
		TEST(region__that_its_agent_removed_is_not_kept_in_mind),
		TEST(targets__that_went_for_good_are_not_kept_for_ever),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
