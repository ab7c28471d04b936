/* SPDX-License-Identifier: Apache-2.0 */
/* Agents and entities of DLSlime's NanoCtrl whose time is over, very many at once. */
#include "tests/nanoctrl/store/fixture.h"

#include <stdlib.h>
#include <string.h>
#include <hiredis/hiredis.h>
#include "nanoctrl/net/loop.h"
#include "compat/script.h"
#include "store/redis_store.h"

#define N_AGENTS 100
#define N_KEYS	 16 /* of each */
#define N_PEERS	 8
#define MOST	 500 /* keys and messages of one script, but for the peers of the last agent */

static void make_agents(struct fixture *f)
{
	test_redis_do(&f->redis, "EVAL %s 0 %d %d %d",
		      "redis.call('SADD', 'nanoctrl:peer_scopes', 's') for i = 1, ARGV[1] do "
		      "redis.call('ZADD', 'nanoctrl:peers:s', 1, 'a' .. i) "
		      "for k = 1, ARGV[2] do local key = 's:mr:a' .. i .. ':' .. k "
		      "redis.call('SET', key, '{}') "
		      "redis.call('SADD', 'nanoctrl:owned:1:sa' .. i, key) end "
		      "for k = 1, ARGV[3] do "
		      "redis.call('SADD', 'nanoctrl:targets:1:sa' .. i, 'p' .. k) end end",
		      N_AGENTS, N_KEYS, N_PEERS);
}

/* One sweep, as the store asks for it, by a clock that is so many seconds ahead; whether there is
 * more to do. */
static bool sweep_ahead(redisContext *c, const struct script *script, int ahead_s)
{
	redisReply *t = redisCommand(c, "TIME"), *r;
	bool more;

	assert_non_null(t);
	r = redisCommand(c, "EVAL %b 1 %s 1000 %d500", (const char *)script->text, script->len, "",
			 atoi(t->element[0]->str) + ahead_s);
	freeReplyObject(t);
	assert_non_null(r);
	assert_int_equal(r->type, REDIS_REPLY_ARRAY);
	assert_int_equal(r->element[0]->integer, STORE_OK);
	more = r->element[3]->integer;
	freeReplyObject(r);
	return more;
}

static bool sweep(redisContext *c, const struct script *script)
{
	return sweep_ahead(c, script, 0);
}

static long long n_left(struct fixture *f)
{
	return test_redis_do(&f->redis, "EVAL %s 0",
			     "local n = #redis.call('KEYS', 's:mr:*') for i = 1, 8 do "
			     "n = n - redis.call('LLEN', 's:inbox:p' .. i) end return n");
}

/* Nothing else runs: the store's loop does not turn. */
static void sweep__of_many_that_ended_together_is_bounded(void **state)
{
	struct fixture *f = *state;
	redisContext *c = redisConnectUnix(f->redis.socket);
	int n_sweeps = 0;
	bool more;

	make_agents(f);
	do {
		long long before = n_left(f);

		more = sweep(c, &compat_scripts[COMPAT_PEER_SWEEP]);
		assert_in_range(before - n_left(f), 1, MOST + N_PEERS);
		assert_true(++n_sweeps < 100);
	} while (more);
	assert_in_range(n_sweeps, N_AGENTS * (N_KEYS + N_PEERS) / MOST, 100);
	assert_int_equal(n_left(f), -N_AGENTS * N_PEERS);
	assert_int_equal(test_redis_do(&f->redis, "EXISTS nanoctrl:peers:s nanoctrl:peer_scopes"),
			 0);
	redisFree(c);
}

#define N_ENTITIES    1000
#define MOST_ENTITIES 200

static void sweep__of_many_entities_that_ended_together_is_bounded(void **state)
{
	struct fixture *f = *state;
	redisContext *c = redisConnectUnix(f->redis.socket);
	long long left = N_ENTITIES;
	bool more = true;

	test_redis_do(&f->redis, "EVAL %s 0 %d",
		      "redis.call('SADD', 'nanoctrl:entity_scopes', 's') for i = 1, ARGV[1] do "
		      "redis.call('ZADD', 'nanoctrl:entities:s', 1, '7:service' .. i) end",
		      N_ENTITIES);
	while (more) {
		long long before = left;

		more = sweep(c, &compat_scripts[COMPAT_ENTITY_SWEEP]);
		left = test_redis_do(&f->redis, "ZCARD nanoctrl:entities:s");
		assert_in_range(before - left, left ? 1 : 0, MOST_ENTITIES);
	}
	assert_int_equal(left, 0);
	assert_int_equal(test_redis_do(&f->redis, "EXISTS nanoctrl:entity_scopes"), 0);
	redisFree(c);
}

#define N_SCOPES 250

/* Not by chance while there are not very many. */
static void sweep__looks_at_each_of_many_scopes(void **state)
{
	struct fixture *f = *state;
	redisContext *c = redisConnectUnix(f->redis.socket);

	test_redis_do(&f->redis, "EVAL %s 0 %d",
		      "for i = 1, ARGV[1] do redis.call('SADD', 'nanoctrl:peer_scopes', 's' .. i) "
		      "redis.call('SADD', 'nanoctrl:entity_scopes', 's' .. i) "
		      "redis.call('ZADD', 'nanoctrl:peers:s' .. i, 99999999999999, 'a') "
		      "redis.call('ZADD', 'nanoctrl:entities:s' .. i, 99999999999999, '1:ab') end "
		      "redis.call('ZADD', 'nanoctrl:peers:s7', 1, 'b') "
		      "redis.call('ZADD', 'nanoctrl:entities:s7', 1, '1:ac')",
		      N_SCOPES);
	assert_false(sweep(c, &compat_scripts[COMPAT_PEER_SWEEP]));
	assert_false(sweep(c, &compat_scripts[COMPAT_ENTITY_SWEEP]));
	assert_int_equal(test_redis_do(&f->redis, "ZCARD nanoctrl:peers:s7"), 1);
	assert_int_equal(test_redis_do(&f->redis, "ZCARD nanoctrl:entities:s7"), 1);
	redisFree(c);
}

#define N_MANY	 2000
#define N_ENDING 100 /* of them: what others have lives on */

/* What it has ends right after it was made, or does not. */
static void make_scope(redisContext *c, int i, int ttl_ms)
{
	const struct script *agent = &compat_scripts[COMPAT_PEER_REGISTER];
	const struct script *entity = &compat_scripts[COMPAT_ENTITY_PUT];

	freeReplyObject(redisCommand(c, "EVAL %b 1 s%d: 1000 s%d a 1 agent %d addr x",
				     (const char *)agent->text, agent->len, i, i, ttl_ms));
	freeReplyObject(redisCommand(
		c, "EVAL %b 1 s%d: 1000 s%d %d service %s e k %s %s %s {} {\"info\":",
		(const char *)entity->text, entity->len, i, i, ttl_ms, "", "", "", ""));
}

static void make_many_scopes(struct fixture *f, redisContext *c)
{
	for (int i = 0; i < N_MANY; i++)
		make_scope(c, i, i % (N_MANY / N_ENDING) ? LONG_TTL_MS : 1);
	while (test_redis_do(
		&f->redis, "EVAL %s 0 %d %d",
		"local n = 0 for i = 0, ARGV[1] - 1, ARGV[2] do n = n + "
		"redis.call('EXISTS', 's' .. i .. ':agent:a', 's' .. i .. ':service:e') "
		"end return n",
		N_MANY, N_MANY / N_ENDING))
		;
}

static long long n_with_an_end(struct fixture *f)
{
	return test_redis_do(&f->redis, "EVAL %s 0 %d",
			     "local n = 0 for i = 0, ARGV[1] - 1 do n = n + redis.call('EXISTS', "
			     "'nanoctrl:peers:s' .. i, 'nanoctrl:entities:s' .. i) end return n",
			     N_MANY);
}

/* One after the other, with no time in between: what has ended is found, and not by chance. */
static void sweep__of_very_many_scopes_finds_all_that_ended(void **state)
{
	struct fixture *f = *state;
	redisContext *c = redisConnectUnix(f->redis.socket);
	int n_sweeps = 0;

	make_many_scopes(f, c);
	assert_int_equal(n_with_an_end(f), 2 * N_MANY);
	while (sweep(c, &compat_scripts[COMPAT_PEER_SWEEP]))
		assert_true(++n_sweeps < N_MANY);
	while (sweep(c, &compat_scripts[COMPAT_ENTITY_SWEEP]))
		assert_true(++n_sweeps < N_MANY);
	assert_int_equal(n_with_an_end(f), 2 * (N_MANY - N_ENDING));
	assert_int_equal(test_redis_do(&f->redis, "ZCARD nanoctrl:peer_ends"), N_MANY - N_ENDING);
	assert_int_equal(test_redis_do(&f->redis, "SCARD nanoctrl:entity_scopes"),
			 N_MANY - N_ENDING);
	redisFree(c);
}

/* It is noted with the end of each, by whatever gives it one, and no later. */
static void ends__of_scopes_are_noted_with_what_ends_there(void **state)
{
	static const char later[] =
		"local n = 0 for kind, index in pairs({ peer = 'peers', entity = 'entities' }) do "
		"for _, s in ipairs({ 's', 't', 'u' }) do "
		"local first = redis.call('ZRANGE', 'nanoctrl:' .. index .. ':' .. s, 0, 0, "
		"'WITHSCORES')[2] "
		"local noted = redis.call('ZSCORE', 'nanoctrl:' .. kind .. '_ends', s) "
		"if not noted or tonumber(noted) > tonumber(first) then n = n + 1 end end end return n";
	const struct script *agent = &compat_scripts[COMPAT_PEER_REGISTER];
	const struct script *entity = &compat_scripts[COMPAT_ENTITY_PUT];
	const struct script *beat = &compat_scripts[COMPAT_ENTITY_BEAT];
	const struct script *learn = &compat_scripts[COMPAT_PEER_LEARN];
	struct fixture *f = *state;
	redisContext *c = redisConnectUnix(f->redis.socket);

	freeReplyObject(redisCommand(c, "EVAL %b 1 s: 1000 s a 1 agent 60000 addr x",
				     (const char *)agent->text, agent->len));
	freeReplyObject(
		redisCommand(c, "EVAL %b 1 s: 1000 s 60000 service %s e k %s %s %s {} {\"info\":",
			     (const char *)entity->text, entity->len, "", "", "", ""));
	test_redis_do(&f->redis, "EVAL %s 0",
		      "for _, s in ipairs({ 't', 'u' }) do "
		      "redis.call('HSET', s .. ':agent:a', 'addr', 'x') "
		      "redis.call('HSET', s .. ':service:e', 'info', '{}', "
		      "'entity_type', 'service', 'entity_id', 'e') end return 0");
	freeReplyObject(redisCommand(c, "EVAL %b 1 %s 1000 0 t:agent:a t:service:e",
				     (const char *)learn->text, learn->len, ""));
	freeReplyObject(redisCommand(c, "EVAL %b 1 u: 1000 u 60000 agent 1 a",
				     (const char *)beat->text, beat->len));
	freeReplyObject(redisCommand(c, "EVAL %b 1 u: 1000 u 60000 service 1 e",
				     (const char *)beat->text, beat->len));
	assert_int_equal(test_redis_do(&f->redis, "EVAL %s 0", later), 0);
	redisFree(c);
}

static long long n_asked(struct fixture *f)
{
	return test_redis_do(&f->redis, "EVAL %s 0",
			     "local n = 0 for i = 1, 8 do "
			     "n = n + redis.call('XLEN', 's:stream:p' .. i) end return n");
}

static void sweep__of_many_that_returned_together_is_bounded(void **state)
{
	struct fixture *f = *state;
	redisContext *c = redisConnectUnix(f->redis.socket);
	int n_sweeps = 0;
	bool more;

	test_redis_do(&f->redis, "EVAL %s 0 %d %d",
		      "for k = 1, ARGV[2] do redis.call('HSET', 's:agent:p' .. k, 'addr', 'x') end "
		      "for i = 1, ARGV[1] do redis.call('HSET', 's:agent:a' .. i, 'addr', 'x') "
		      "redis.call('ZADD', 'nanoctrl:returned', 1, '1:sa' .. i) "
		      "for k = 1, ARGV[2] do "
		      "redis.call('SADD', 'nanoctrl:named:1:sa' .. i, 'p' .. k) end end",
		      2 * N_AGENTS, N_PEERS);
	do {
		long long before = n_asked(f);

		more = sweep(c, &compat_scripts[COMPAT_PEER_SWEEP]);
		assert_in_range(n_asked(f) - before, 1, MOST + N_PEERS);
		assert_true(++n_sweeps < 100);
	} while (more);
	assert_int_equal(n_asked(f), 2 * N_AGENTS * N_PEERS);
	assert_int_equal(test_redis_do(&f->redis, "EXISTS nanoctrl:returned"), 0);
	redisFree(c);
}

/* As one that Redis finds in a socket after it stood still: nobody could beat meanwhile. */
static void sweep__that_comes_late_ends_nobody(void **state)
{
	struct fixture *f = *state;
	redisContext *c = redisConnectUnix(f->redis.socket);
	long long before;

	make_agents(f);
	before = n_left(f);
	assert_false(sweep_ahead(c, &compat_scripts[COMPAT_PEER_SWEEP], -30));
	assert_false(sweep_ahead(c, &compat_scripts[COMPAT_PEER_SWEEP], 30));
	assert_int_equal(n_left(f), before);
	redisFree(c);
}

/* In all of these scopes there are some to look at, and that comes twice a second. */
static void sweep__that_may_end_nobody_is_bounded(void **state)
{
	struct fixture *f = *state;
	redisContext *c = redisConnectUnix(f->redis.socket);

	test_redis_do(&f->redis, "EVAL %s 0 %d",
		      "for s = 1, ARGV[1] do for i = 1, 50 do "
		      "redis.call('ZADD', 'nanoctrl:peers:s' .. s, 1, 'a' .. i) end "
		      "redis.call('SADD', 'nanoctrl:peer_scopes', 's' .. s) "
		      "redis.call('ZADD', 'nanoctrl:peer_ends', 1, 's' .. s) end return 0",
		      N_SCOPES);
	test_redis_do(&f->redis, "CONFIG RESETSTAT");
	assert_false(sweep_ahead(c, &compat_scripts[COMPAT_PEER_SWEEP], 30));
	assert_in_range(test_redis_calls(&f->redis, "hexists"), 1, MOST);
	assert_int_equal(test_redis_do(&f->redis, "ZCARD nanoctrl:peer_ends"), N_SCOPES);
	redisFree(c);
}

/* With looks that are this far apart. */
static void open_slow(struct fixture *f)
{
	struct store_config config = STORE_CONFIG_INIT;

	config.reap_ms = 1000;
	config.compat_hold_ms = 0;
	fixture_open_with(f, &config);
}

/* Each look at the scopes of our own agents is one at theirs, too: they would be five. */
static void sweep__that_left_some_goes_on_at_once(void **state)
{
	struct fixture *f = *state;

	fixture_close(f);
	make_agents(f);
	test_redis_do(&f->redis, "CONFIG RESETSTAT");
	open_slow(f);
	fixture_until(f, 0, "EXISTS nanoctrl:peers:s");
	assert_int_equal(n_left(f), -N_AGENTS * N_PEERS);
	assert_in_range(test_redis_calls(&f->redis, "sscan"), 1, 3);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(sweep__of_many_that_ended_together_is_bounded),
		TEST(sweep__of_many_entities_that_ended_together_is_bounded),
		TEST(sweep__looks_at_each_of_many_scopes),
		TEST(sweep__of_very_many_scopes_finds_all_that_ended),
		TEST(ends__of_scopes_are_noted_with_what_ends_there),
		TEST(sweep__of_many_that_returned_together_is_bounded),
		TEST(sweep__that_comes_late_ends_nobody),
		TEST(sweep__that_may_end_nobody_is_bounded),
		TEST(sweep__that_left_some_goes_on_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
