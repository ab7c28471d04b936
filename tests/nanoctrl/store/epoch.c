/* SPDX-License-Identifier: Apache-2.0 */
/* A store whose Redis may have lost what it acknowledged: when an epoch ends, and who is told. */
#include "tests/nanoctrl/store/fixture.h"

static void register_a(struct fixture *f, struct member *m)
{
	assert_int_equal(fixture_register(f, m, "node-a", "i1", OWNER_A, false), 0);
}

static void register_again(struct fixture *f, struct member *m)
{
	assert_int_equal(fixture_register(f, m, "node-a", "i1", OWNER_A, true), 0);
}

/* The same, in a later epoch. */
static void register_in_a_new_epoch(struct fixture *f, struct member *m)
{
	uint64_t old = m->cursor.epoch;

	register_again(f, m);
	assert_true(m->cursor.epoch > old);
}

/* Whoever follows from where m registered hears of that, and of nothing that was lost. */
static void assert_goes_on(struct fixture *f, const struct member *m)
{
	struct store_cursor at = m->cursor;
	char text[256];

	assert_int_equal(fixture_events(f, &at, text, sizeof(text)), 0);
	assert_int_equal(at.epoch, m->cursor.epoch);
	assert_string_equal(text, "registered node-a >;");
}

static void lost_data__is_a_new_epoch_in_which_agents_register_again(void **state)
{
	struct fixture *f = *state;
	struct member m;
	struct store_cursor old;
	char text[256];

	register_a(f, &m);
	old = m.cursor;
	fixture_restart_redis(f);
	assert_int_equal(fixture_beat(f, &m, NULL), STORE_LEASE_GONE);
	register_in_a_new_epoch(f, &m);
	assert_int_equal(fixture_events(f, &old, text, sizeof(text)), 1);
	assert_int_equal(old.epoch, m.cursor.epoch);
}

/* As a replica that lagged, or a log of which the end was not on the disk. */
static void lost_events__is_a_new_epoch_for_those_who_follow(void **state)
{
	struct fixture *f = *state;
	struct member a, b;
	struct store_cursor at;
	struct answer names;
	char text[256];
	uint64_t kept;

	register_a(f, &a);
	at = a.cursor;
	assert_int_equal(fixture_events(f, &at, text, sizeof(text)), 0);
	kept = at.id;
	test_redis_do(&f->redis, "SAVE");
	assert_int_equal(fixture_register(f, &b, "node-b", "i2", OWNER_B, false), 0);
	assert_int_equal(fixture_events(f, &at, text, sizeof(text)), 0);
	fixture_restart_redis(f);
	/* The number of the event that is lost is given to another one. */
	assert_int_equal(fixture_beat(f, &a, NULL), 0);
	assert_int_equal(fixture_register(f, &b, "node-c", "i3", OWNER_B, false), 0);
	assert_int_equal(b.cursor.id, kept);

	assert_int_equal(fixture_events(f, &at, text, sizeof(text)), 1);

	assert_true(at.epoch > a.cursor.epoch);
	assert_int_equal(fixture_names(f, &names), 0);
	assert_string_equal(names.text, "node-a node-c ");
}

static void lost_events__lets_an_agent_go_on_in_its_generation_when_it_registers(void **state)
{
	struct fixture *f = *state;
	struct store_grant grant;
	struct member m;
	struct store_cursor old;
	uint64_t generation;
	char text[256];

	register_a(f, &m);
	old = m.cursor;
	generation = m.generation;
	test_redis_do(&f->redis, "SAVE");
	fixture_restart_redis(f);
	/* Where its session goes on tells that there may be a gap. */
	assert_int_equal(fixture_open_session(f, &m, "s1", 0, &grant), 0);
	assert_int_equal(grant.cursor.epoch, old.epoch);

	register_again(f, &m);

	assert_int_equal(m.generation, generation);
	assert_true(m.cursor.epoch > old.epoch);
	assert_int_equal(fixture_open_session(f, &m, "s2", 0, &grant), 0);
	assert_int_equal(grant.cursor.epoch, m.cursor.epoch);
	assert_int_equal(fixture_events(f, &grant.cursor, text, sizeof(text)), 0);
	assert_string_equal(text, "changed node-a >;");
}

static int setup_durable(void **state)
{
	struct fixture *f;

	fixture_setup(state);
	f = *state;
	fixture_close(f);
	test_redis_stop(&f->redis);
	test_redis_start_durable(&f->redis);
	fixture_open(f);
	fixture_until_serving(f, true);
	return 0;
}

static void restart__of_a_redis_that_keeps_all_is_no_new_epoch(void **state)
{
	struct fixture *f = *state;
	struct member m;

	register_a(f, &m);
	fixture_restart_redis(f);
	assert_goes_on(f, &m);
}

/* What it acknowledged in between may be lost, although it comes back as it was set before. */
static void restart__of_a_redis_that_did_not_keep_all_is_a_new_epoch(void **state)
{
	struct fixture *f = *state;
	struct member m;

	register_a(f, &m);
	test_redis_do(&f->redis, "CONFIG SET appendfsync everysec");
	fixture_reconnect(f);
	test_redis_do(&f->redis, "CONFIG SET appendfsync always");
	fixture_reconnect(f);
	fixture_restart_redis(f);
	register_in_a_new_epoch(f, &m);
}

/* Nor does it where nobody connects to it meanwhile. */
static void restart__of_a_redis_that_was_set_otherwise_under_us_is_a_new_epoch(void **state)
{
	struct fixture *f = *state;
	struct member m;

	register_a(f, &m);
	test_redis_do(&f->redis, "CONFIG SET appendfsync everysec");
	fixture_until(f, 0, "HINCRBY nanoctrl:run keeps 0");
	test_redis_do(&f->redis, "CONFIG SET appendfsync always");
	fixture_restart_redis(f);
	register_in_a_new_epoch(f, &m);
}

/* It keeps all that reached it, and it was a replica. */
static void replica__that_takes_over_is_a_new_epoch(void **state)
{
	struct fixture *f = *state;
	struct member m;
	struct store_cursor at;
	char text[256];

	register_a(f, &m);
	at = m.cursor;
	fixture_close(f);
	test_redis_kill(&f->redis);
	test_redis_restart(&f->redis);
	test_redis_do(&f->redis, "REPLICAOF 127.0.0.1 1");
	test_redis_do(&f->redis, "REPLICAOF NO ONE");
	fixture_open(f);
	fixture_until_serving(f, true);
	assert_int_equal(fixture_events(f, &at, text, sizeof(text)), 1);
	assert_true(at.epoch > m.cursor.epoch);
}

static void connection__that_breaks_is_no_new_epoch(void **state)
{
	struct fixture *f = *state;
	struct member m;

	register_a(f, &m);
	fixture_reconnect(f);
	assert_goes_on(f, &m);
}

/* The clock of a replica that takes over may be behind. */
static void epoch__is_later_whatever_the_clock_says(void **state)
{
	struct fixture *f = *state;
	struct member m;

	test_redis_do(&f->redis, "HSET nanoctrl:run last 8000000000000000");
	register_a(f, &m);
	assert_int_equal(m.cursor.epoch, 8000000000000001);
	test_redis_do(&f->redis, "SAVE");
	fixture_restart_redis(f);
	register_again(f, &m);
	assert_int_equal(m.cursor.epoch, 8000000000000002);
}

static void epoch__is_kept_by_scopes_that_registered_in_it(void **state)
{
	struct fixture *f = *state;
	struct member m;

	register_a(f, &m);
	test_redis_do(&f->redis, "HSET nanoctrl:run since 8000000000000000");
	register_again(f, &m);
	assert_int_equal(m.cursor.epoch, 8000000000000000);
	test_redis_do(&f->redis, "DEL nanoctrl:run");
	register_again(f, &m);
	assert_int_equal(m.cursor.epoch, 8000000000000000);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(lost_data__is_a_new_epoch_in_which_agents_register_again),
		TEST(lost_events__is_a_new_epoch_for_those_who_follow),
		TEST(lost_events__lets_an_agent_go_on_in_its_generation_when_it_registers),
		cmocka_unit_test_setup_teardown(restart__of_a_redis_that_keeps_all_is_no_new_epoch,
						setup_durable, fixture_teardown),
		cmocka_unit_test_setup_teardown(
			restart__of_a_redis_that_did_not_keep_all_is_a_new_epoch, setup_durable,
			fixture_teardown),
		cmocka_unit_test_setup_teardown(
			restart__of_a_redis_that_was_set_otherwise_under_us_is_a_new_epoch,
			setup_durable, fixture_teardown),
		cmocka_unit_test_setup_teardown(replica__that_takes_over_is_a_new_epoch,
						setup_durable, fixture_teardown),
		TEST(connection__that_breaks_is_no_new_epoch),
		TEST(epoch__is_later_whatever_the_clock_says),
		TEST(epoch__is_kept_by_scopes_that_registered_in_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
