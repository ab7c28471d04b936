/* SPDX-License-Identifier: Apache-2.0 */
/* A store whose Redis is away, refuses, or is none that may be used. */
#include "tests/nanoctrl/store/fixture.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "nanoctrl/net/loop.h"
#include "store/redis_store.h"
#include "store/reply.h"

static void call__without_redis_is_refused_and_works_again_later(void **state)
{
	struct fixture *f = *state;
	struct member m;

	test_redis_kill(&f->redis);
	fixture_until_serving(f, false);
	assert_int_equal(fixture_register(f, &m, "node-a", "i1", OWNER_A, false), -ENOTCONN);
	test_redis_restart(&f->redis);
	fixture_until_serving(f, true);
	assert_int_equal(fixture_register(f, &m, "node-a", "i1", OWNER_A, false), 0);
}

static void call__in_flight_when_the_connection_breaks_has_an_unknown_outcome(void **state)
{
	struct fixture *f = *state;
	struct answer a = { .done = false };

	test_redis_pause(&f->redis);
	store_list_agents(f->store, SCOPE, "", 10, answer_page, &a);
	fixture_run(f, &a.done);
	assert_int_equal(a.result, -EIO);
	test_redis_resume(&f->redis);
}

static void call__beyond_max_inflight_is_refused(void **state)
{
	struct fixture *f = *state;
	struct answer a[66];

	memset(a, 0, sizeof(a));
	test_redis_pause(&f->redis);
	for (int i = 0; i < 66; i++)
		store_list_agents(f->store, SCOPE, "", 10, answer_page, &a[i]);
	fixture_run(f, &a[65].done);
	assert_int_equal(a[65].result, -EBUSY);
	assert_false(a[0].done);
	test_redis_resume(&f->redis);
	fixture_run(f, &a[0].done);
	assert_int_equal(a[0].result, 0);
}

static void call__after_script_flush_is_sent_whole(void **state)
{
	struct fixture *f = *state;
	struct member m;

	test_redis_do(&f->redis, "SCRIPT FLUSH");
	assert_int_equal(fixture_register(f, &m, "node-a", "i1", OWNER_A, false), 0);
	assert_int_equal(fixture_beat(f, &m, NULL), 0);
}

static void call__that_redis_refuses_is_not_executed(void **state)
{
	struct fixture *f = *state;
	struct member m;

	test_redis_do(&f->redis, "CONFIG SET maxmemory 1");
	assert_int_equal(fixture_register(f, &m, "node-a", "i1", OWNER_A, false), -EAGAIN);
	test_redis_do(&f->redis, "CONFIG SET maxmemory 0");
	assert_int_equal(fixture_register(f, &m, "node-a", "i1", OWNER_A, false), 0);
	test_redis_do(&f->redis, "ACL SETUSER default -eval -evalsha");
	assert_int_equal(fixture_register(f, &m, "node-b", "i1", OWNER_A, false), -EAGAIN);
	test_redis_do(&f->redis, "ACL SETUSER default +eval +evalsha");
	assert_int_equal(fixture_register(f, &m, "node-b", "i1", OWNER_A, false), 0);
}

/* Its clients would hold all that ends in the others. */
static void call__of_a_scope_that_we_may_not_touch_holds_no_end(void **state)
{
	struct fixture *f = *state;
	uint64_t refused_ns = atomic_load(&f->hub->refused_ns);
	struct member m;

	test_redis_do(&f->redis, "ACL SETUSER default resetkeys ~nanoctrl:* ~{other}*");
	assert_int_equal(fixture_register(f, &m, "node-a", "i1", OWNER_A, false), -EAGAIN);
	assert_int_equal(atomic_load(&f->hub->refused_ns), refused_ns);
	test_redis_do(&f->redis, "ACL SETUSER default ~* -eval -evalsha");
	assert_int_equal(fixture_register(f, &m, "node-a", "i1", OWNER_A, false), -EAGAIN);
	assert_true(atomic_load(&f->hub->refused_ns) > refused_ns);
}

static void until_trouble(struct fixture *f, const char *what)
{
	const char *trouble = NULL;

	for (int i = 0; i < 6000; i++) {
		trouble = store_trouble(f->store);
		if (trouble && strstr(trouble, what))
			return;
		fixture_spend(f, 10);
	}
	fail_msg("'%s' does not say '%s'", trouble ? trouble : "", what);
}

static void note_batch(void *arg, const struct store_events *ev)
{
	struct store_cursor *at = arg;

	*at = (struct store_cursor){ ev->epoch, ev->n ? ev->events[ev->n - 1].id : ev->last };
}

static void redis__that_may_evict_is_not_used(void **state)
{
	struct fixture *f = *state;

	fixture_close(f);
	test_redis_do(&f->redis, "CONFIG SET maxmemory-policy allkeys-lru");
	fixture_open(f);
	until_trouble(f, "may evict leases: its maxmemory-policy is allkeys-lru");
	test_redis_do(&f->redis, "CONFIG SET maxmemory-policy noeviction");
	fixture_until_serving(f, true);
}

static void redis__that_refuses_to_tell_of_events_is_not_ready(void **state)
{
	struct fixture *f = *state;
	struct store_cursor at = { 0 };
	struct store_follower follower = { .events = note_batch, .arg = &at };
	struct member m;

	fixture_close(f);
	test_redis_do(&f->redis, "ACL SETUSER default -psubscribe");
	fixture_open(f);
	until_trouble(f, "it refuses PSUBSCRIBE");
	test_redis_do(&f->redis, "ACL SETUSER default +psubscribe");
	fixture_until_serving(f, true);
	assert_int_equal(store_follow(f->store, SCOPE, &follower), 0);
	assert_int_equal(fixture_register(f, &m, "node-a", "i1", OWNER_A, false), 0);
	for (int i = 0; i < 6000 && at.id < m.cursor.id + 1; i++)
		fixture_spend(f, 10);
	assert_int_equal(at.id, m.cursor.id + 1);
	store_unfollow(f->store, &follower);
}

/* The right was lost while the connections are there; nobody asks for anything. */
static void redis__that_refuses_our_scripts_is_not_ready(void **state)
{
	struct fixture *f = *state;

	test_redis_do(&f->redis, "ACL SETUSER default -evalsha");
	until_trouble(f, "it refuses EVALSHA");
	test_redis_do(&f->redis, "ACL SETUSER default +evalsha");
	fixture_until_serving(f, true);
	/* A scope that we may not touch is no matter of all. */
	test_redis_do(&f->redis, "ACL SETUSER default resetkeys ~nanoctrl:* ~{other}*");
	fixture_spend(f, 200);
	assert_null(store_trouble(f->store));
}

/* Ours is form 2. */
static void redis__of_other_releases_is_not_used(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(test_redis_do(&f->redis, "STRLEN nanoctrl:schema"), 3);
	fixture_close(f);
	test_redis_do(&f->redis, "SET nanoctrl:schema %s", "3 4");
	fixture_open(f);
	until_trouble(f, "for nanoctrl of the forms 3 to 4, and this one has form 2");
	test_redis_do(&f->redis, "SET nanoctrl:schema x");
	until_trouble(f, "not two numbers");
	test_redis_do(&f->redis, "SET nanoctrl:schema %s", "2 3");
	test_redis_do(&f->redis, "SET nanoctrl:run x");
	until_trouble(f, "nanoctrl:run is no hash");
	test_redis_do(&f->redis, "DEL nanoctrl:run");
	/* The release before wrote it, and is there as well: it stays as it is. */
	test_redis_do(&f->redis, "SET nanoctrl:schema %s", "01 2");
	fixture_until_serving(f, true);
	assert_int_equal(test_redis_do(&f->redis, "STRLEN nanoctrl:schema"), 4);
}

/* Of these nothing was done, and it may be tried again; also where a script says what its command
 * was refused for. */
static void refusal__is_known_by_each_of_its_words(void **state)
{
	static const struct {
		const char *error;
		bool refusal;
	} cases[] = {
		{ "LOADING Redis is loading the dataset in memory", true },
		{ "MASTERDOWN Link with MASTER is down", true },
		{ "READONLY You can't write against a read only replica.", true },
		{ "CLUSTERDOWN The cluster is down", true },
		{ "TRYAGAIN Multiple keys request during rehashing of slot", true },
		{ "NOREPLICAS Not enough good replicas to write.", true },
		{ "MISCONF Redis is configured to save RDB snapshots", true },
		{ "OOM command not allowed when used memory > 'maxmemory'.", true },
		{ "BUSY Redis is busy running a script.", true },
		{ "MOVED 1 127.0.0.1:7000", true },
		{ "ASK 1 127.0.0.1:7000", true },
		{ "ERR Error running script: @user_script:1: -MISCONF Redis is", true },
		{ "MISCONF Redis is script: 5a, on @user_script:1.", true },
		{ "NOPERM this user has no permissions to run the 'config' command", false },
		{ "NOAUTH Authentication required.", false },
		{ "ERR The user executing the script can't run this command", false },
		{ "NOSCRIPT No matching script.", false },
		{ "WRONGTYPE Operation against a key", false },
		{ "BUSYGROUP Consumer Group name already exists", false },
		{ "ERR the ROOM is full", false },
		{ "LOADING", false },
		{ "", false },
	};
	(void)state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (store_is_refusal(cases[i].error) != cases[i].refusal)
			fail_msg("%s", cases[i].error);
}

/* By whoever operates it, while it is used. */
static void redis__that_is_set_otherwise_is_left_and_used_again_later(void **state)
{
	static const char *const set[][3] = {
		{ "CONFIG SET maxmemory-policy allkeys-lru", "may evict leases",
		  "CONFIG SET maxmemory-policy noeviction" },
		{ "REPLICAOF 127.0.0.1 1", "Redis is a replica", "REPLICAOF NO ONE" },
		{ "SETRANGE nanoctrl:schema 0 3", "for nanoctrl of the forms 3 to 3",
		  "SETRANGE nanoctrl:schema 0 2" },
	};
	struct fixture *f = *state;
	struct member m;

	for (size_t i = 0; i < sizeof(set) / sizeof(set[0]); i++) {
		assert_int_equal(fixture_register(f, &m, "node-a", "i1", OWNER_A, false), 0);
		test_redis_do(&f->redis, set[i][0]);
		until_trouble(f, set[i][1]);
		assert_int_equal(fixture_beat(f, &m, NULL), -ENOTCONN);
		test_redis_do(&f->redis, set[i][2]);
		fixture_until_serving(f, true);
		assert_int_equal(fixture_beat(f, &m, NULL), 0);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(call__without_redis_is_refused_and_works_again_later),
		cmocka_unit_test_setup_teardown(
			call__in_flight_when_the_connection_breaks_has_an_unknown_outcome,
			fixture_setup_impatient, fixture_teardown),
		TEST(call__beyond_max_inflight_is_refused),
		TEST(call__after_script_flush_is_sent_whole),
		TEST(call__that_redis_refuses_is_not_executed),
		TEST(call__of_a_scope_that_we_may_not_touch_holds_no_end),
		cmocka_unit_test(refusal__is_known_by_each_of_its_words),
		TEST(redis__that_may_evict_is_not_used),
		TEST(redis__that_refuses_to_tell_of_events_is_not_ready),
		TEST(redis__that_refuses_our_scripts_is_not_ready),
		TEST(redis__of_other_releases_is_not_used),
		TEST(redis__that_is_set_otherwise_is_left_and_used_again_later),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
