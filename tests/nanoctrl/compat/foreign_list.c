/* SPDX-License-Identifier: Apache-2.0 */
/* Lists have what other servers and agents wrote to Redis themselves. */
#include "tests/nanoctrl/compat/foreign_fixture.h"

#include <stdio.h>
#include <string.h>
#include "compat/store.h"

#define SNAPSHOT                                                                     \
	"{\"interval_ms\":1000,\"pid\":7,\"host\":\"h\",\"summary\":{},\"nics\":[]," \
	"\"connections\":[]}"

static void lists__have_what_another_server_registered(void **state)
{
	struct api_fixture *f = *state;

	write_agent(f, "agent:a:1");
	write_agent(f, "s:agent:b");
	write_entity(f, "service:e", "service", "e");
	write_entity(f, "s:x:type:with:id:y", "type:with", "id:y");
	until_post(f, "/query", "{}", "\"name\":\"a:1\"");
	assert_int_equal(json_array_size(f->said.body), 1);
	until_post(f, "/query", "{\"scope\":\"s\"}", "\"name\":\"b\"");
	until_post(f, "/list_entities", "{}", "theirs");
	until_post(f, "/list_entities", "{\"scope\":\"s:x\"}", "theirs");
	until_post(f, "/list_entities", "{\"scope\":\"s:x\",\"entity_type\":\"type:with\"}",
		   "theirs");
	assert_int_equal(test_redis_do(&f->redis, "ZCARD nanoctrl:entities:"), 1);
	assert_int_equal(test_redis_do(&f->redis, "ZCARD nanoctrl:types:"), 1);
	assert_int_equal(test_redis_do(&f->redis, "HSTRLEN nanoctrl:kinds: 7:servicee"), 1);
}

static void lists__have_what_was_written_right_before(void **state)
{
	struct api_fixture *f = *state;

	for (int i = 0; i < 50; i++) {
		char key[32], id[32];

		snprintf(key, sizeof(key), "agent:a%d.", i);
		write_agent(f, key);
		assert_int_equal(api_post(f, "/query", "{}"), 200);
		assert_true(says(f, key + strlen("agent:")));
		snprintf(key, sizeof(key), "service:%d", i);
		snprintf(id, sizeof(id), "%d", i);
		write_entity(f, key, "service", id);
		assert_int_equal(api_post(f, "/list_entities", "{}"), 200);
		assert_int_equal(json_array_size(json_object_get(f->said.body, "entities")), i + 1);
	}
}

/* The connection that hears of keys breaks while a list waits for it. */
static void list__that_waits_for_a_connection_that_breaks_is_answered(void **state)
{
	struct api_fixture *f = *state;

	for (int i = 0; i < 20; i++) {
		test_redis_do(&f->redis, "CLIENT KILL TYPE pubsub SKIPME no");
		assert_int_equal(api_post(f, "/query", "{}"), 200);
	}
	write_agent(f, "agent:a");
	until_post(f, "/query", "{}", "\"name\":\"a\"");
}

static void lists__find_what_was_there_before_anybody_listened(void **state)
{
	struct api_fixture *f = *state;

	test_redis_do(&f->redis, "CLIENT KILL TYPE pubsub SKIPME no");
	write_agent(f, "agent:a");
	write_entity(f, "service:e", "service", "e");
	until_post(f, "/query", "{}", "\"name\":\"a\"");
	until_post(f, "/list_entities", "{}", "theirs");
}

#define FOUND_NS (5 * SL_NS_PER_S)

/* Whatever a look is at when it is written. */
static void find_in_time(struct api_fixture *f, const char *name)
{
	uint64_t written_ns;
	char key[32], listed[48];

	snprintf(key, sizeof(key), "agent:%s", name);
	snprintf(listed, sizeof(listed), "\"name\":\"%s\"", name);
	write_agent(f, key);
	written_ns = sl_clock_ns();
	until_post(f, "/query", "{}", listed);
	assert_in_range(sl_clock_ns() - written_ns, 0, FOUND_NS);
}

static void lists__find_it_where_redis_tells_nothing(void **state)
{
	struct api_fixture *f = *state;
	struct test_redis *r = &f->redis;

	test_redis_do(r, "CONFIG SET notify-keyspace-events %s", "");
	test_redis_do(r, "ACL SETUSER default -config");
	reconnect(f);
	find_in_time(f, "b");
	find_in_time(f, "c");
	write_agent(f, "agent:a");
	write_entity(f, "service:e", "service", "e");
	test_redis_do(r, "SET mr:a:kv {}");
	until_post(f, "/list_entities", "{}", "theirs");
	until_post(f, "/query", "{}", "\"name\":\"a\"");
	until_redis(f, 1, "SCARD nanoctrl:owned:0:a");
	assert_false(atomic_load(&f->hub->compat->told));
}

static void lists__find_what_was_written_while_somebody_had_taken_the_flags_away(void **state)
{
	struct api_fixture *f = *state;

	test_redis_do(&f->redis, "CONFIG SET notify-keyspace-events %s", "");
	write_agent(f, "agent:a");
	write_entity(f, "service:e", "service", "e");
	until_post(f, "/query", "{}", "\"name\":\"a\"");
	until_post(f, "/list_entities", "{}", "theirs");
	/* And what comes then is told again. */
	until_redis_says(f, "CONFIG GET notify-keyspace-events", 1, "$");
	write_agent(f, "agent:b");
	until_post(f, "/query", "{}", "\"name\":\"b\"");
}

/* What others told Redis to tell stays. */
static void flags__are_added_to_those_of_others(void **state)
{
	struct api_fixture *f = *state;

	test_redis_do(&f->redis, "CONFIG SET notify-keyspace-events %s", "Exz");
	reconnect(f);
	until_redis_says(f, "CONFIG GET notify-keyspace-events", 1, "$");
	for (const char *flag = "xEh"; *flag; flag++) {
		const char one[] = { *flag, '\0' };

		assert_true(redis_says(f, "CONFIG GET notify-keyspace-events", 1, one));
	}
}

/* But for some: a name of which Redis has not told yet may lose its place to another one. */
#define PLACES_LOST 6

static void events__of_what_we_wrote_are_no_news(void **state)
{
	struct api_fixture *f = *state;
	char lease[512], body[64];

	assert_int_equal(api_register(f, "ours", "one", OWNER_KEY_A, lease), 201);
	for (int i = 0; i < 20; i++) {
		snprintf(body, sizeof(body), "{\"entity_id\":\"e%d\",\"kind\":\"k\"}", i);
		assert_int_equal(api_post(f, "/register", body), 200);
		snprintf(body, sizeof(body), "{\"alias\":\"a%d\",\"address\":\"x\"}", i);
		assert_int_equal(api_post(f, "/start_peer_agent", body), 200);
		assert_int_equal(api_do(f, &f->said, "PUT", "/v1/agents/ours/snapshot?scope=demo",
					lease, SNAPSHOT),
				 200);
	}
	write_agent(f, "agent:b");
	until_post(f, "/query", "{}", "\"name\":\"b\"");
	assert_in_range(atomic_load(&f->hub->compat->n_heard), 1, 1 + PLACES_LOST);
}

/* What Redis tells of a key then is of another server, to which the client went. */
static void registration__that_redis_refused_hides_nobody(void **state)
{
	struct api_fixture *f = *state;
	struct test_redis *r = &f->redis;

	test_redis_do(r, "CONFIG SET maxmemory 1");
	assert_int_equal(api_post(f, "/start_peer_agent", "{\"alias\":\"a\",\"address\":\"x\"}"),
			 503);
	assert_int_equal(api_post(f, "/register", "{\"entity_id\":\"e\",\"kind\":\"k\"}"), 503);
	test_redis_do(r, "CONFIG SET maxmemory 0");
	write_agent(f, "agent:a");
	write_entity(f, "service:e", "service", "e");
	until_post(f, "/query", "{}", "\"name\":\"a\"");
	until_post(f, "/list_entities", "{}", "theirs");
	assert_int_equal(atomic_load(&f->hub->compat->n_heard), 2);
}

static void registration__of_a_taken_name_shows_who_has_it(void **state)
{
	struct api_fixture *f = *state;

	test_redis_do(&f->redis, "CONFIG SET notify-keyspace-events %s", "");
	write_agent(f, "agent:a");
	assert_int_equal(api_post(f, "/start_peer_agent", "{\"alias\":\"a\",\"address\":\"x\"}"),
			 409);
	assert_int_equal(api_post(f, "/query", "{}"), 200);
	assert_true(says(f, "\"name\":\"a\""));
}

static void heartbeat__of_what_nobody_told_of_enters_the_lists(void **state)
{
	struct api_fixture *f = *state;
	const char *beat = "{\"entity_type\":\"service\",\"entity_id\":\"e\"}";

	test_redis_do(&f->redis, "CONFIG SET notify-keyspace-events %s", "");
	write_entity(f, "service:e", "service", "e");
	assert_int_equal(api_post(f, "/heartbeat", beat), 200);
	assert_int_equal(api_post(f, "/list_entities", "{}"), 200);
	assert_true(says(f, "theirs"));
	assert_int_equal(test_redis_do(&f->redis, "HSTRLEN nanoctrl:kinds: 7:servicee"), 1);
	/* The next does not write there again; what it is about has a new end all the same. */
	test_redis_do(&f->redis, "DEL nanoctrl:entities:");
	test_redis_do(&f->redis, "PEXPIRE service:e 30000");
	assert_int_equal(api_post(f, "/heartbeat", beat), 200);
	assert_int_equal(test_redis_do(&f->redis, "EXISTS nanoctrl:entities:"), 0);
	assert_true(test_redis_do(&f->redis, "PTTL service:e") > 30000);
}

static void snapshots__of_others_are_listed_with_ours(void **state)
{
	struct api_fixture *f = *state;
	uint64_t start = sl_clock_ns();

	test_redis_do(&f->redis, "SET obs:peer:a %s PX 60000", "{\"peer_id\":\"a\"}");
	test_redis_do(&f->redis, "SET default:obs:peer:b %s PX 60000", "{\"peer_id\":\"b\"}");
	test_redis_do(&f->redis, "SET s:obs:peer:c %s PX 60000", "{\"peer_id\":\"c\"}");
	do
		assert_int_equal(api_do(f, &f->said, "GET", "/v1/snapshots", NULL, NULL), 200);
	while (api_count(&f->said, "snapshots") < 2 && sl_clock_ns() - start < GIVE_UP_NS);
	assert_int_equal(api_count(&f->said, "snapshots"), 2);
	until_redis(f, 1, "ZCARD nanoctrl:snapshots:s");
}

/* More than can wait: what there was no room for is looked for. */
static void lists__have_an_agent_that_came_behind_more_keys_than_can_wait(void **state)
{
	struct api_fixture *f = *state;

	test_redis_do(
		&f->redis, "EVAL %s 0",
		"for i = 1, 20000 do redis.call('HSET', 'app:' .. i, 'f', 'x') end "
		"redis.call('HSET', 'agent:a', 'addr', 'x', 'updated_at', 1, 'memory_keys', '[]') "
		"return 1");
	until_post(f, "/query", "{}", "\"name\":\"a\"");
	write_agent(f, "agent:b");
	until_post(f, "/query", "{}", "\"name\":\"b\"");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, foreign_setup, api_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(lists__have_what_another_server_registered),
		TEST(lists__have_what_was_written_right_before),
		TEST(list__that_waits_for_a_connection_that_breaks_is_answered),
		TEST(lists__find_what_was_there_before_anybody_listened),
		TEST(lists__find_it_where_redis_tells_nothing),
		TEST(lists__find_what_was_written_while_somebody_had_taken_the_flags_away),
		TEST(flags__are_added_to_those_of_others),
		TEST(events__of_what_we_wrote_are_no_news),
		TEST(registration__that_redis_refused_hides_nobody),
		TEST(heartbeat__of_what_nobody_told_of_enters_the_lists),
		TEST(registration__of_a_taken_name_shows_who_has_it),
		TEST(snapshots__of_others_are_listed_with_ours),
		TEST(lists__have_an_agent_that_came_behind_more_keys_than_can_wait),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
