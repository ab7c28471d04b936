/* SPDX-License-Identifier: Apache-2.0 */
/* Keys that other servers and agents write to Redis themselves. */
#include "api_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <hiredis/hiredis.h>
#include "store_redis.h"

#define SNAPSHOT                                                                     \
	"{\"interval_ms\":1000,\"pid\":7,\"host\":\"h\",\"summary\":{},\"nics\":[]," \
	"\"connections\":[]}"

#define GIVE_UP_NS (60 * SL_NS_PER_S)

static struct api_answer a;

static int post(struct api_fixture *f, const char *path, const char *body)
{
	return api_do(f, &a, "POST", path, NULL, body);
}

static bool says(const char *text)
{
	char *all = json_dumps(a.body, JSON_COMPACT | JSON_SORT_KEYS);
	bool found = strstr(all, text) != NULL;

	free(all);
	return found;
}

static void until_post(struct api_fixture *f, const char *path, const char *body, const char *text)
{
	uint64_t start = sl_clock_ns();

	do {
		if (sl_clock_ns() - start > GIVE_UP_NS)
			fail_msg("%s never says %s", path, text);
	} while (post(f, path, body) != 200 || !says(text));
}

static void until_true(struct api_fixture *f, const char *script)
{
	uint64_t start = sl_clock_ns();

	while (test_redis_do(&f->redis, "EVAL %s 0", script) != 1)
		if (sl_clock_ns() - start > GIVE_UP_NS)
			fail_msg("%s is never 1", script);
}

/* Whether the text that a command answers with, or the i-th of several, has these words. */
static bool redis_says(struct api_fixture *f, const char *command, size_t i, const char *words)
{
	redisContext *c = redisConnectUnix(f->redis.socket);
	redisReply *all = redisCommand(c, command), *one = all;
	bool found;

	assert_non_null(all);
	if (all->type == REDIS_REPLY_ARRAY)
		one = i < all->elements ? all->element[i] : NULL;
	found = one && one->str && strstr(one->str, words);
	freeReplyObject(all);
	redisFree(c);
	return found;
}

static void until_redis_says(struct api_fixture *f, const char *command, size_t i,
			     const char *words)
{
	uint64_t start = sl_clock_ns();

	while (!redis_says(f, command, i, words))
		if (sl_clock_ns() - start > GIVE_UP_NS)
			fail_msg("%s never says %s", command, words);
}

/* Every connection to Redis is made anew. */
static void reconnect(struct api_fixture *f)
{
	uint64_t start = sl_clock_ns();
	uint64_t before = atomic_load(&f->hub->n_reconnects);

	test_redis_do(&f->redis, "CLIENT KILL TYPE normal SKIPME yes");
	while (atomic_load(&f->hub->n_reconnects) == before)
		if (sl_clock_ns() - start > GIVE_UP_NS)
			fail_msg("it does not come back");
}

static void until_redis(struct api_fixture *f, long long n, const char *command)
{
	uint64_t start = sl_clock_ns();

	while (test_redis_do(&f->redis, command) != n)
		if (sl_clock_ns() - start > GIVE_UP_NS)
			fail_msg("%s is never %lld", command, n);
}

static void write_agent(struct api_fixture *f, const char *key)
{
	test_redis_do(&f->redis, "HSET %s addr 10.0.0.1 updated_at 1 memory_keys []", key);
	test_redis_do(&f->redis, "EXPIRE %s 60", key);
}

static void write_entity(struct api_fixture *f, const char *key, const char *type, const char *id)
{
	test_redis_do(&f->redis, "HSET %s entity_type %s entity_id %s kind k info %s", key, type,
		      id, "{\"entity_id\":\"theirs\"}");
	test_redis_do(&f->redis, "EXPIRE %s 60", key);
}

/* Redis tells, and what was there before has been looked through. */
static int until_told(const struct api_fixture *f)
{
	uint64_t start = sl_clock_ns();

	while (!atomic_load(&f->hub->told) || atomic_load(&f->hub->looking))
		if (sl_clock_ns() - start > GIVE_UP_NS)
			fail_msg("Redis never tells");
	return 0;
}

static int setup(void **state)
{
	api_setup_advertised(state);
	return until_told(*state);
}

static int setup_as_a_program(void **state)
{
	api_setup_as_a_program(state);
	return until_told(*state);
}

static int teardown(void **state)
{
	api_answer_fini(&a);
	return api_teardown(state);
}

/* ---- lists ---- */

static void lists__have_what_another_server_registered(void **state)
{
	struct api_fixture *f = *state;

	write_agent(f, "agent:a:1");
	write_agent(f, "s:agent:b");
	write_entity(f, "service:e", "service", "e");
	write_entity(f, "s:x:type:with:id:y", "type:with", "id:y");
	until_post(f, "/query", "{}", "\"name\":\"a:1\"");
	assert_int_equal(json_array_size(a.body), 1);
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
		assert_int_equal(post(f, "/query", "{}"), 200);
		assert_true(says(key + strlen("agent:")));
		snprintf(key, sizeof(key), "service:%d", i);
		snprintf(id, sizeof(id), "%d", i);
		write_entity(f, key, "service", id);
		assert_int_equal(post(f, "/list_entities", "{}"), 200);
		assert_int_equal(json_array_size(json_object_get(a.body, "entities")), i + 1);
	}
}

static void cleanup__takes_what_was_written_right_before(void **state)
{
	struct api_fixture *f = *state;

	for (int i = 0; i < 50; i++) {
		write_agent(f, "agent:a");
		test_redis_do(&f->redis, "SET mr:a:kv {}");
		test_redis_do(&f->redis, "SET exchange:a:b {}");
		assert_int_equal(post(f, "/cleanup", "{\"agent_name\":\"a\"}"), 200);
		assert_int_equal(test_redis_do(&f->redis, "EXISTS agent:a mr:a:kv exchange:a:b"),
				 0);
	}
}

/* The connection that hears of keys breaks while a list waits for it. */
static void list__that_waits_for_a_connection_that_breaks_is_answered(void **state)
{
	struct api_fixture *f = *state;

	for (int i = 0; i < 20; i++) {
		test_redis_do(&f->redis, "CLIENT KILL TYPE pubsub SKIPME no");
		assert_int_equal(post(f, "/query", "{}"), 200);
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

static void lists__find_it_where_redis_tells_nothing(void **state)
{
	struct api_fixture *f = *state;
	struct test_redis *r = &f->redis;

	test_redis_do(r, "CONFIG SET notify-keyspace-events %s", "");
	test_redis_do(r, "ACL SETUSER default -config");
	reconnect(f);
	write_agent(f, "agent:a");
	write_entity(f, "service:e", "service", "e");
	test_redis_do(r, "SET mr:a:kv {}");
	until_post(f, "/list_entities", "{}", "theirs");
	until_post(f, "/query", "{}", "\"name\":\"a\"");
	until_redis(f, 1, "SCARD nanoctrl:owned:0:a");
	assert_false(atomic_load(&f->hub->told));
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

/* ---- what is ours ---- */

/* But for some: a name of which Redis has not told yet may lose its place to another one. */
#define PLACES_LOST 6

static void events__of_what_we_wrote_are_no_news(void **state)
{
	struct api_fixture *f = *state;
	char lease[512], body[64];

	assert_int_equal(api_register(f, "ours", "one", OWNER_KEY_A, lease), 201);
	for (int i = 0; i < 20; i++) {
		snprintf(body, sizeof(body), "{\"entity_id\":\"e%d\",\"kind\":\"k\"}", i);
		assert_int_equal(post(f, "/register", body), 200);
		snprintf(body, sizeof(body), "{\"alias\":\"a%d\",\"address\":\"x\"}", i);
		assert_int_equal(post(f, "/start_peer_agent", body), 200);
		assert_int_equal(api_do(f, &a, "PUT", "/v1/agents/ours/snapshot?scope=demo", lease,
					SNAPSHOT),
				 200);
	}
	write_agent(f, "agent:b");
	until_post(f, "/query", "{}", "\"name\":\"b\"");
	assert_in_range(atomic_load(&f->hub->n_heard), 1, 1 + PLACES_LOST);
}

/* What Redis tells of a key then is of another server, to which the client went. */
static void registration__that_redis_refused_hides_nobody(void **state)
{
	struct api_fixture *f = *state;
	struct test_redis *r = &f->redis;

	test_redis_do(r, "CONFIG SET maxmemory 1");
	assert_int_equal(post(f, "/start_peer_agent", "{\"alias\":\"a\",\"address\":\"x\"}"), 503);
	assert_int_equal(post(f, "/register", "{\"entity_id\":\"e\",\"kind\":\"k\"}"), 503);
	test_redis_do(r, "CONFIG SET maxmemory 0");
	write_agent(f, "agent:a");
	write_entity(f, "service:e", "service", "e");
	until_post(f, "/query", "{}", "\"name\":\"a\"");
	until_post(f, "/list_entities", "{}", "theirs");
	assert_int_equal(atomic_load(&f->hub->n_heard), 2);
}

static void registration__of_a_taken_name_shows_who_has_it(void **state)
{
	struct api_fixture *f = *state;

	test_redis_do(&f->redis, "CONFIG SET notify-keyspace-events %s", "");
	write_agent(f, "agent:a");
	assert_int_equal(post(f, "/start_peer_agent", "{\"alias\":\"a\",\"address\":\"x\"}"), 409);
	assert_int_equal(post(f, "/query", "{}"), 200);
	assert_true(says("\"name\":\"a\""));
}

static void heartbeat__of_what_nobody_told_of_enters_the_lists(void **state)
{
	struct api_fixture *f = *state;
	const char *beat = "{\"entity_type\":\"service\",\"entity_id\":\"e\"}";

	test_redis_do(&f->redis, "CONFIG SET notify-keyspace-events %s", "");
	write_entity(f, "service:e", "service", "e");
	assert_int_equal(post(f, "/heartbeat", beat), 200);
	assert_int_equal(post(f, "/list_entities", "{}"), 200);
	assert_true(says("theirs"));
	assert_int_equal(test_redis_do(&f->redis, "HSTRLEN nanoctrl:kinds: 7:servicee"), 1);
	/* The next does not write there again; what it is about has a new end all the same. */
	test_redis_do(&f->redis, "DEL nanoctrl:entities:");
	test_redis_do(&f->redis, "PEXPIRE service:e 30000");
	assert_int_equal(post(f, "/heartbeat", beat), 200);
	assert_int_equal(test_redis_do(&f->redis, "EXISTS nanoctrl:entities:"), 0);
	assert_true(test_redis_do(&f->redis, "PTTL service:e") > 30000);
}

/* ---- what is theirs ---- */

/* A key that may be of two agents goes with neither; one that its route gave an owner stays its. */
static void region__that_may_be_anybodys_stays(void **state)
{
	struct api_fixture *f = *state;
	struct test_redis *r = &f->redis;

	write_agent(f, "agent:a");
	write_agent(f, "agent:a:b");
	test_redis_do(r, "SET mr:a:b:kv {}");
	assert_int_equal(post(f, "/register_mr",
			      "{\"agent_name\":\"a:b\",\"mr_name\":\"its\",\"addr\":1,\"length\":1,"
			      "\"rkey\":1}"),
			 200);
	test_redis_do(r, "SET mr:a:kv {}");
	until_redis(f, 1, "SCARD nanoctrl:owned:0:a");
	assert_int_equal(test_redis_do(r, "SCARD nanoctrl:owned:0:a:b"), 1);
	assert_int_equal(post(f, "/cleanup", "{\"agent_name\":\"a\"}"), 200);
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
	assert_int_equal(post(f, "/query", body), 200);
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
	assert_int_equal(post(f, "/start_peer_agent",
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
	assert_int_equal(json_array_size(a.body), 1);
	assert_int_equal(test_redis_do(r, "PTTL app:user:1"), -1);
	assert_int_equal(test_redis_do(r, "PTTL app:2"), -1);
	assert_int_equal(test_redis_do(r, "PTTL agent:x"), -1);
	assert_int_equal(test_redis_do(r, "EXISTS mr:nobody:kv exchange:nobody:else agent:y"), 3);
	assert_int_equal(test_redis_do(r, "EXISTS nanoctrl:owned:0:nobody nanoctrl:entities: "
					  "nanoctrl:snapshots:"),
			 0);
}

static void snapshots__of_others_are_listed_with_ours(void **state)
{
	struct api_fixture *f = *state;
	uint64_t start = sl_clock_ns();

	test_redis_do(&f->redis, "SET obs:peer:a %s PX 60000", "{\"peer_id\":\"a\"}");
	test_redis_do(&f->redis, "SET default:obs:peer:b %s PX 60000", "{\"peer_id\":\"b\"}");
	test_redis_do(&f->redis, "SET s:obs:peer:c %s PX 60000", "{\"peer_id\":\"c\"}");
	do
		assert_int_equal(api_do(f, &a, "GET", "/v1/snapshots", NULL, NULL), 200);
	while (api_count(&a, "snapshots") < 2 && sl_clock_ns() - start < GIVE_UP_NS);
	assert_int_equal(api_count(&a, "snapshots"), 2);
	until_redis(f, 1, "ZCARD nanoctrl:snapshots:s");
}

/* ---- many keys of others ---- */

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
		assert_int_equal(post(f, routes[i][0], routes[i][1]), 200);
	assert_int_equal(api_do(f, &a, "GET", "/v1/snapshots", NULL, NULL), 200);
	assert_int_equal(api_do(f, &a, "GET", "/v1/agents", NULL, NULL), 200);
	assert_false(redis_says(f, "INFO commandstats", 0, "cmdstat_keys:"));
	assert_false(redis_says(f, "INFO commandstats", 0, "cmdstat_scan:"));
}

/* It began when there were few keys, or could not ask. What it takes is steps of 10 ms: 82 for the
 * strings as for the hashes when it grows in time, 164 of the size that it began with. */
static void look__that_meets_more_keys_than_it_knew_of_takes_larger_portions(void **state)
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
	while (atomic_load(&f->hub->looking))
		if (sl_clock_ns() - start > GIVE_UP_NS)
			fail_msg("it never ends");
	assert_in_range(test_redis_calls(r, "scan"), 164, 300);
	assert_int_equal(post(f, "/query", "{}"), 200);
	assert_true(says("\"name\":\"a\""));
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

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(lists__have_what_another_server_registered),
		TEST(lists__have_what_was_written_right_before),
		TEST(cleanup__takes_what_was_written_right_before),
		TEST(list__that_waits_for_a_connection_that_breaks_is_answered),
		TEST(lists__find_what_was_there_before_anybody_listened),
		TEST(lists__find_it_where_redis_tells_nothing),
		TEST(lists__find_what_was_written_while_somebody_had_taken_the_flags_away),
		TEST(flags__are_added_to_those_of_others),
		TEST(events__of_what_we_wrote_are_no_news),
		TEST(registration__that_redis_refused_hides_nobody),
		TEST(heartbeat__of_what_nobody_told_of_enters_the_lists),
		TEST(registration__of_a_taken_name_shows_who_has_it),
		TEST(region__that_may_be_anybodys_stays),
		TEST(end__of_a_foreign_agent_takes_what_it_left),
		cmocka_unit_test_setup_teardown(end__of_a_foreign_agent_is_seen_within_15_seconds,
						setup_as_a_program, teardown),
		TEST(agent__that_comes_back_elsewhere_is_asked_for),
		TEST(agent__that_comes_back_elsewhere_at_once_is_asked_for),
		TEST(agent__that_beats_elsewhere_is_not_asked_for),
		TEST(start__of_one_that_was_registered_elsewhere_is_no_end),
		TEST(region__that_its_agent_removed_is_not_kept_in_mind),
		TEST(targets__that_went_for_good_are_not_kept_for_ever),
		TEST(values__that_are_very_long_are_not_read),
		TEST(hash__without_an_end_gets_one),
		TEST(keys__of_somebody_else_stay_as_they_are),
		TEST(snapshots__of_others_are_listed_with_ours),
		TEST(routes__look_at_none_of_a_hundred_thousand_keys),
		TEST(lists__have_an_agent_that_came_behind_more_keys_than_can_wait),
		TEST(look__that_meets_more_keys_than_it_knew_of_takes_larger_portions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
