/* SPDX-License-Identifier: Apache-2.0 */
/* Leases where replicas have other settings, and where there are very many scopes. */
#include "tests/nanoctrl/store/fixture.h"

#include <stdio.h>
#include <hiredis/hiredis.h>
#include "nanoctrl/net/loop.h"
#include "store/script.h"
#include "store/redis_store.h"

/* ---- a replica whose leases are longer ---- */

struct replica {
	struct store_hub *hub;
	struct loop *loop;
	struct store *store;
};

/* For a while f's calls are its. */
static void swap_replicas(struct fixture *f, struct replica *r)
{
	struct replica mine = { f->hub, f->loop, f->store };

	f->hub = r->hub;
	f->loop = r->loop;
	f->store = r->store;
	*r = mine;
}

static void close_replica(struct fixture *f, struct replica *r)
{
	swap_replicas(f, r);
	fixture_close(f);
	swap_replicas(f, r);
}

/* Registers node-a with a replica that then says nothing more, and gives nobody up. */
static struct replica register_elsewhere(struct fixture *f, struct member *m)
{
	struct replica other = { NULL, NULL, NULL };
	unsigned ttl_ms = f->ttl_ms;

	swap_replicas(f, &other);
	f->ttl_ms = LONG_TTL_MS;
	fixture_open(f);
	fixture_until_serving(f, true);
	assert_int_equal(fixture_register(f, m, "node-a", "i1", OWNER_A, false), 0);
	f->ttl_ms = ttl_ms;
	swap_replicas(f, &other);
	return other;
}

/* Whether what is left of its lease, in ms, is more than so much. */
static bool is_left(struct fixture *f, long long ms)
{
	return test_redis_do(&f->redis, "EVAL %s 0",
			     "local t=redis.call('TIME') return math.floor((redis.call('ZSCORE',"
			     "'{test}:nanoctrl:due','node-a')or 0)-t[1]*1000-t[2]/1000)") > ms;
}

static void beat__at_a_replica_of_shorter_leases_leaves_it_its_length(void **state)
{
	struct fixture *f = *state;
	struct replica other;
	struct member m;

	other = register_elsewhere(f, &m);
	assert_int_equal(fixture_beat(f, &m, NULL), 0);
	assert_true(is_left(f, LONG_TTL_MS / 2));
	close_replica(f, &other);
}

static void beat__at_a_replica_of_longer_leases_makes_it_as_long(void **state)
{
	struct fixture *f = *state;
	struct replica other;
	struct member m, late;

	other = register_elsewhere(f, &late);
	assert_int_equal(fixture_leave(f, &late), 0);
	assert_int_equal(fixture_register(f, &m, "node-a", "i1", OWNER_A, false), 0);
	assert_false(is_left(f, SHORT_TTL_MS));
	swap_replicas(f, &other);
	assert_int_equal(fixture_beat(f, &m, NULL), 0);
	swap_replicas(f, &other);
	assert_true(is_left(f, LONG_TTL_MS / 2));
	/* It is as long as the agent was told, then. */
	assert_int_equal(fixture_beat(f, &m, NULL), 0);
	assert_true(is_left(f, LONG_TTL_MS / 2));
	close_replica(f, &other);
}

static void session__at_a_replica_of_shorter_leases_has_their_length(void **state)
{
	struct fixture *f = *state;
	struct replica other;
	struct member m;

	other = register_elsewhere(f, &m);
	assert_int_equal(fixture_open_session(f, &m, "s1", 0, NULL), 0);
	assert_int_equal(fixture_beat(f, &m, "s1"), 0);
	assert_false(is_left(f, SHORT_TTL_MS));
	close_replica(f, &other);
}

static void until_visited(struct fixture *f)
{
	long long n = test_redis_calls(&f->redis, "sscan");

	while (test_redis_calls(&f->redis, "sscan") < n + 5)
		fixture_spend(f, 10);
}

static void lease__is_cut_to_the_length_of_its_own(void **state)
{
	struct fixture *f = *state;
	struct replica other;
	struct member m;

	other = register_elsewhere(f, &m);
	fixture_reconnect(f);
	until_visited(f);
	assert_true(is_left(f, LONG_TTL_MS / 2));
	test_redis_do(&f->redis, "ZADD {test}:nanoctrl:due 99999999999999 node-a");
	while (is_left(f, LONG_TTL_MS))
		fixture_spend(f, 10);
	assert_true(is_left(f, LONG_TTL_MS / 2));
	/* Others damaged it: it is as long as ours. */
	test_redis_do(&f->redis, "HSET {test}:nanoctrl:agent:6:node-a ttl 99999999999999");
	fixture_reconnect(f);
	while (is_left(f, SHORT_TTL_MS))
		fixture_spend(f, 10);
	close_replica(f, &other);
}

/* After an outage its agent may beat later than those of ours. */
static void lease__that_is_longer_ends_later_after_an_outage(void **state)
{
	struct fixture *f = *state;
	struct replica other;
	struct member m;

	other = register_elsewhere(f, &m);
	fixture_reconnect(f);
	test_redis_do(&f->redis, "ZADD {test}:nanoctrl:due 1 node-a");
	fixture_spend(f, SHORT_TTL_MS * 4 / 3);
	assert_int_equal(fixture_beat(f, &m, NULL), 0);
	close_replica(f, &other);
}

/* ---- very many scopes ---- */

#define N_SCOPES    3000 /* more than are visited in TINY_TTL_MS */
#define TINY_TTL_MS 100

static int setup_tiny_leases(void **state)
{
	struct fixture *f;

	fixture_setup(state);
	f = *state;
	fixture_close(f);
	f->ttl_ms = TINY_TTL_MS;
	return 0;
}

static long long n_late(struct fixture *f)
{
	return test_redis_do(&f->redis, "EVAL %s 0 %d",
			     "local n = 0 for i = 1, ARGV[1] do n = n + redis.call('ZCOUNT', "
			     "'{s' .. i .. '}:nanoctrl:due', 99999999999999, '+inf') end return n",
			     N_SCOPES);
}

/* Of a clock that was far ahead. */
static void lease__that_ends_late_is_cut_in_every_scope(void **state)
{
	struct fixture *f = *state;

	test_redis_do(&f->redis, "EVAL %s 0 %d",
		      "for i = 1, ARGV[1] do local p = '{s' .. i .. '}:nanoctrl:' "
		      "redis.call('HSET', p .. 'agent:1:a', 'generation', 1, 'incarnation', 'i') "
		      "redis.call('ZADD', p .. 'names', 0, 'a') "
		      "redis.call('ZADD', p .. 'due', 99999999999999, 'a') "
		      "redis.call('SADD', 'nanoctrl:scopes', 's' .. i) end return 0",
		      N_SCOPES);
	fixture_open(f);
	while (n_late(f))
		fixture_spend(f, 20);
}

/* ---- very many scopes whose leases end together ---- */

#define N_DEAD	 2000
#define REAP_MS	 500 /* as nanoctrl has it */
#define DEAD_TTL 1000

/* One agent in each, which never beats. */
static void register_in_many_scopes(struct fixture *f)
{
	const struct script *s = &scripts[SCRIPT_REGISTER];
	redisContext *c = redisConnectUnix(f->redis.socket);

	for (int i = 0; i < N_DEAD; i++)
		freeReplyObject(redisCommand(
			c, "EVAL %b 1 {s%d}:nanoctrl: 1000 1 a i1 %s %s 0 1 {} {} {} {}",
			(const char *)s->text, s->len, i, OWNER_A, SECRET));
	redisFree(c);
}

static long long n_told(struct fixture *f)
{
	return test_redis_do(&f->redis, "EVAL %s 0 %d",
			     "local n = 0 for i = 0, ARGV[1] - 1 do "
			     "n = n + redis.call('XLEN', '{s' .. i .. '}:nanoctrl:events') end "
			     "return n - ARGV[1]",
			     N_DEAD);
}

/* Each round tries a write. From the first end on one alone would do, and two more pass where the
 * process stood still; looking at all scopes in turn takes eight. */
static void leases__of_very_many_scopes_that_end_together_are_told_of_at_once(void **state)
{
	struct store_config config = STORE_CONFIG_INIT;
	struct fixture *f = *state;

	register_in_many_scopes(f);
	config.ttl_ms = DEAD_TTL;
	config.reap_ms = REAP_MS;
	fixture_open_with(f, &config);
	while (!n_told(f))
		fixture_spend(f, 20);
	test_redis_do(&f->redis, "CONFIG RESETSTAT");
	while (n_told(f) < N_DEAD)
		fixture_spend(f, 20);
	assert_true(test_redis_calls(&f->redis, "setrange") <= 5);
	assert_int_equal(n_told(f), N_DEAD);
	assert_int_equal(test_redis_do(&f->redis, "EXISTS nanoctrl:ends"), 0);
}

/* As many as are asked for in one go, and more, before any scope. */
#define N_JUNK 5000

/* They are skipped and counted, and the lease of a scope ends all the same. */
static void scopes__that_are_none_keep_no_lease_from_its_end(void **state)
{
	struct fixture *f = *state;
	struct member m;

	test_redis_do(&f->redis, "EVAL %s 0 %d",
		      "for i = 1, ARGV[1] do "
		      "redis.call('SADD', 'nanoctrl:scopes', 'no scope\\0' .. i) "
		      "redis.call('ZADD', 'nanoctrl:ends', i, 'no scope\\0' .. i) end return 0",
		      N_JUNK);
	fixture_open(f);
	fixture_until_serving(f, true);
	assert_int_equal(fixture_register(f, &m, "node-a", "i1", OWNER_A, false), 0);
	fixture_until(f, 0, "ZCARD {test}:nanoctrl:names");
	assert_true(atomic_load(&f->hub->n_skipped) > N_JUNK);
	assert_int_equal(test_redis_do(&f->redis, "SCARD nanoctrl:scopes"), N_JUNK + 1);
}

#define SHORT(name) \
	cmocka_unit_test_setup_teardown(name, fixture_setup_short_leases, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		SHORT(beat__at_a_replica_of_shorter_leases_leaves_it_its_length),
		SHORT(beat__at_a_replica_of_longer_leases_makes_it_as_long),
		SHORT(session__at_a_replica_of_shorter_leases_has_their_length),
		SHORT(lease__is_cut_to_the_length_of_its_own),
		SHORT(lease__that_is_longer_ends_later_after_an_outage),
		cmocka_unit_test_setup_teardown(lease__that_ends_late_is_cut_in_every_scope,
						setup_tiny_leases, fixture_teardown),
		cmocka_unit_test_setup_teardown(
			leases__of_very_many_scopes_that_end_together_are_told_of_at_once,
			setup_tiny_leases, fixture_teardown),
		cmocka_unit_test_setup_teardown(scopes__that_are_none_keep_no_lease_from_its_end,
						setup_tiny_leases, fixture_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
