/* SPDX-License-Identifier: Apache-2.0 */
/* Agents of DLSlime's NanoCtrl whose time ran out while Redis or nanoctrl was away. */
#include "tests/nanoctrl/compat/fixture.h"

#include <stdio.h>
#include <base/clock.h>
#include "store/redis_store.h"

#define HOLD_MS	     1500
#define LONG_HOLD_MS 600000

static int held_setup(void **state)
{
	return api_setup_held(state, HOLD_MS);
}

static int long_held_setup(void **state)
{
	return api_setup_held(state, LONG_HOLD_MS);
}

/* As one whose 60 s ran out while nobody took its beats. */
static void run_out(struct api_fixture *f, const char *name)
{
	test_redis_do(&f->redis, "DEL agent:%s", name);
	test_redis_do(&f->redis, "ZADD nanoctrl:peers: XX 1 %s", name);
}

/* All that is over has been looked at. */
static void until_swept(struct api_fixture *f)
{
	test_redis_do(&f->redis, "ZADD nanoctrl:returned 1 x");
	while (test_redis_do(&f->redis, "EXISTS nanoctrl:returned"))
		;
}

/* A process that looked for its devices in this second. */
static void start_process(struct api_fixture *f, const char *name, int epoch)
{
	char body[256];

	snprintf(body, sizeof(body),
		 "{\"alias\":\"%s\",\"address\":\"x\","
		 "\"resource\":{\"nics\":[],\"topology_epoch\": %d}}",
		 name, epoch);
	assert_int_equal(api_post(f, "/start_peer_agent", body), 200);
}

static void start_processes(struct api_fixture *f)
{
	start_process(f, "a", 1700000000);
	start_process(f, "b", 1700000000);
	assert_int_equal(
		api_post(f, "/register_mr",
			 "{\"agent_name\":\"a\",\"mr_name\":\"kv\",\"addr\":1,\"length\":1,"
			 "\"rkey\":1}"),
		200);
	assert_int_equal(api_post(f, "/v1/desired_topology/a", "{\"target_peers\":[\"b\"]}"), 200);
	assert_int_equal(api_post(f, "/v1/desired_topology/b", "{\"target_peers\":[\"a\"]}"), 200);
	assert_int_equal(test_redis_do(&f->redis, "XLEN stream:b"), 1);
}

static void agent__whose_time_ran_out_in_an_outage_does_not_end_at_once(void **state)
{
	struct api_fixture *f = *state;

	start_processes(f);
	run_out(f, "a");
	until_swept(f);
	assert_int_equal(test_redis_do(&f->redis, "EXISTS mr:a:kv spec:topology:a stream:a"), 3);
	assert_int_equal(test_redis_do(&f->redis, "LLEN inbox:b"), 0);
}

static void agent__that_does_not_come_back_after_an_outage_ends(void **state)
{
	struct api_fixture *f = *state;
	uint64_t held_ns;

	start_processes(f);
	run_out(f, "a");
	while (test_redis_do(&f->redis, "EXISTS mr:a:kv"))
		;
	held_ns = atomic_load(&f->hub->held_ns);
	assert_true(sl_clock_ns() - held_ns >= HOLD_MS * SL_NS_PER_MS);
	assert_value(f, "LIST", "inbox:b", "{\"peer\":\"a\",\"type\":\"cleanup\"}");
	assert_int_equal(test_redis_do(&f->redis, "HEXISTS nanoctrl:lives: a"), 0);
}

/* It does not know that it was gone, and keeps its end of each link. */
static void start__of_the_same_process_after_an_outage_is_no_end(void **state)
{
	struct api_fixture *f = *state;
	struct test_redis *r = &f->redis;

	start_processes(f);
	run_out(f, "a");
	start_process(f, "a", 1700000000);
	assert_int_equal(test_redis_do(r, "EXISTS agent:a mr:a:kv spec:topology:a stream:a"), 4);
	assert_true(test_redis_do(r, "PTTL agent:a") > 50000);
	assert_int_equal(test_redis_do(r, "EXISTS inbox:b :inbox:b nanoctrl:returned"), 0);
	assert_int_equal(test_redis_do(r, "XLEN stream:b"), 1);
	/* And it may end as before. */
	assert_int_equal(api_post(f, "/cleanup", "{\"agent_name\":\"a\"}"), 200);
	assert_int_equal(test_redis_do(r, "EXISTS mr:a:kv"), 0);
	assert_int_equal(test_redis_do(r, "HEXISTS nanoctrl:lives: a"), 0);
}

/* Whoever is to be asked to connect may have been away, too, and comes back later. */
static void start__of_another_process_after_an_outage_is_an_end(void **state)
{
	struct api_fixture *f = *state;
	struct test_redis *r = &f->redis;

	start_processes(f);
	run_out(f, "a");
	run_out(f, "b");
	start_process(f, "a", 1700000100);
	assert_int_equal(test_redis_do(r, "EXISTS mr:a:kv spec:topology:a stream:a"), 0);
	assert_value(f, "LIST", "inbox:b", "{\"peer\":\"a\",\"type\":\"cleanup\"}");
	while (test_redis_do(r, "XLEN stream:b") < 2)
		;
	start_process(f, "b", 1700000000);
	assert_int_equal(test_redis_do(r, "XLEN stream:b"), 2);
	assert_int_equal(test_redis_do(r, "LLEN inbox:a"), 0);
}

/* Of what is left then, the rest goes. */
static void start__of_a_process_whose_end_has_begun_is_an_end(void **state)
{
	struct api_fixture *f = *state;
	struct test_redis *r = &f->redis;

	start_processes(f);
	run_out(f, "a");
	test_redis_do(r, "HDEL nanoctrl:lives: a");
	start_process(f, "a", 1700000000);
	assert_int_equal(test_redis_do(r, "EXISTS mr:a:kv"), 0);
	assert_int_equal(test_redis_do(r, "LLEN inbox:b"), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			agent__whose_time_ran_out_in_an_outage_does_not_end_at_once,
			long_held_setup, api_teardown),
		cmocka_unit_test_setup_teardown(agent__that_does_not_come_back_after_an_outage_ends,
						held_setup, api_teardown),
		cmocka_unit_test_setup_teardown(
			start__of_the_same_process_after_an_outage_is_no_end, long_held_setup,
			api_teardown),
		cmocka_unit_test_setup_teardown(start__of_another_process_after_an_outage_is_an_end,
						long_held_setup, api_teardown),
		cmocka_unit_test_setup_teardown(start__of_a_process_whose_end_has_begun_is_an_end,
						long_held_setup, api_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
