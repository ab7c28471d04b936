/* SPDX-License-Identifier: Apache-2.0 */
/* Leases of a store whose clock was ahead. */
#include "tests/nanoctrl/store/fixture.h"

#include <errno.h>

/* Of an agent that beats no more. */
static void set_late(struct fixture *f)
{
	test_redis_do(&f->redis, "EVAL %s 0 ZADD {" SCOPE "}:nanoctrl:due 99999999999999 node-a",
		      UNREFUSED);
}

static void register_with_a_clock_ahead(struct fixture *f)
{
	struct member m;

	assert_int_equal(fixture_register(f, &m, "node-a", "i1", OWNER_A, false), 0);
	set_late(f);
}

static void until_cut(struct fixture *f)
{
	fixture_until(f, 1,
		      "EVAL return((tonumber(redis.call('ZSCORE','{" SCOPE
		      "}:nanoctrl:due','node-a'))or(0))<="
		      "(redis.call('TIME')[1]+60)*1000) 0");
}

static void lease__of_a_clock_that_was_ahead_is_cut_when_another_process_serves(void **state)
{
	struct fixture *f = *state;

	fixture_restart_redis(f);
	register_with_a_clock_ahead(f);
	until_cut(f);
}

static void lease__of_a_clock_that_was_ahead_is_cut_when_redis_is_first_reached(void **state)
{
	struct fixture *f = *state;

	register_with_a_clock_ahead(f);
	fixture_close(f);
	fixture_open(f);
	fixture_until_serving(f, true);
	until_cut(f);
}

static void lease__of_a_clock_that_was_ahead_is_cut_when_redis_was_out_of_reach(void **state)
{
	struct fixture *f = *state;

	/* What begins with the start is over. */
	fixture_spend(f, SHORT_TTL_MS);
	register_with_a_clock_ahead(f);
	fixture_reconnect(f);
	until_cut(f);
}

/* No visit of the reaper that is under way comes between. */
static void register_without_memory_since(struct fixture *f)
{
	struct member m;

	assert_int_equal(fixture_register(f, &m, "node-a", "i1", OWNER_A, false), 0);
	test_redis_do(&f->redis, "CONFIG SET maxmemory 1");
	set_late(f);
}

static void lease__of_a_clock_that_was_ahead_is_cut_when_redis_has_memory_again(void **state)
{
	struct fixture *f = *state;

	fixture_restart_redis(f);
	register_without_memory_since(f);
	fixture_spend(f, SHORT_TTL_MS * 5 / 4);
	test_redis_do(&f->redis, "CONFIG SET maxmemory 0");
	until_cut(f);
}

static void lease__that_cannot_be_cut_keeps_no_memory_from_being_freed(void **state)
{
	struct fixture *f = *state;

	fixture_restart_redis(f);
	register_without_memory_since(f);
	test_redis_do(&f->redis, "EVAL %s 0 SADD {" SCOPE "}:nanoctrl:dead 7", UNREFUSED);
	fixture_until(f, 0, "SCARD {" SCOPE "}:nanoctrl:dead");
	test_redis_do(&f->redis, "CONFIG SET maxmemory 0");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(lease__of_a_clock_that_was_ahead_is_cut_when_another_process_serves),
		TEST(lease__of_a_clock_that_was_ahead_is_cut_when_redis_is_first_reached),
		cmocka_unit_test_setup_teardown(
			lease__of_a_clock_that_was_ahead_is_cut_when_redis_was_out_of_reach,
			fixture_setup_short_leases, fixture_teardown),
		cmocka_unit_test_setup_teardown(
			lease__of_a_clock_that_was_ahead_is_cut_when_redis_has_memory_again,
			fixture_setup_short_leases, fixture_teardown),
		TEST(lease__that_cannot_be_cut_keeps_no_memory_from_being_freed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
