/* SPDX-License-Identifier: Apache-2.0 */
/* What the store counts, over a real Redis. */
#include "tests/nanoctrl/store/fixture.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <event2/buffer.h>
#include "store/scope_leases.h"

/* Whether the metrics have this line. */
static bool metrics_say(struct fixture *f, const char *line)
{
	struct evbuffer *text = evbuffer_new();
	struct evbuffer_ptr at;

	store_hub_metrics(f->hub, text);
	at = evbuffer_search(text, line, strlen(line), NULL);
	evbuffer_free(text);
	return at.pos >= 0;
}

/* Turns the loop until the metrics have this line. */
static void until_metrics_say(struct fixture *f, const char *line)
{
	unsigned turns = 0;

	while (!metrics_say(f, line)) {
		if (turns++ == 6000)
			fail_msg("the metrics never say%s", line);
		fixture_spend(f, 10);
	}
}

static void metrics__say_how_many_leases_are_held_in_all_scopes(void **state)
{
	struct fixture *f = *state;
	struct member a, b;

	assert_int_equal(fixture_register(f, &a, "node-a", "i1", OWNER_A, false), 0);
	assert_int_equal(fixture_register(f, &b, "node-b", "i2", OWNER_A, false), 0);
	until_metrics_say(f, "\nnanoctrl_leases 2\n");
	/* Another server, or a tool, put them into a scope of which this one holds nothing. */
	test_redis_do(&f->redis, "ZADD {other}:nanoctrl:due 99999999999999 node-c");
	test_redis_do(&f->redis, "ZADD {other}:nanoctrl:names 0 node-c");
	test_redis_do(&f->redis, "SADD nanoctrl:scopes other");
	until_metrics_say(f, "\nnanoctrl_leases 3\n");
	assert_int_equal(fixture_leave(f, &b), 0);
	until_metrics_say(f, "\nnanoctrl_leases 2\n");
}

static void metrics__say_how_many_leases_each_scope_holds(void **state)
{
	struct fixture *f = *state;
	struct member a;

	assert_int_equal(fixture_register(f, &a, "node-a", "i1", OWNER_A, false), 0);
	test_redis_do(&f->redis, "ZADD {other}:nanoctrl:due 99999999999999 node-b");
	test_redis_do(&f->redis, "ZADD {other}:nanoctrl:due 99999999999999 node-c");
	test_redis_do(&f->redis, "ZADD {other}:nanoctrl:names 0 node-b");
	test_redis_do(&f->redis, "SADD nanoctrl:scopes other");
	until_metrics_say(f, "\nnanoctrl_scope_leases{scope=\"other\"} 2\n");
	assert_true(metrics_say(f, "\nnanoctrl_scope_leases{scope=\"" SCOPE "\"} 1\n"));
	assert_true(metrics_say(f, "\nnanoctrl_scopes 2\n"));
	assert_int_equal(fixture_leave(f, &a), 0);
	until_metrics_say(f, "\nnanoctrl_scopes 1\n");
	assert_false(metrics_say(f, "\nnanoctrl_scope_leases{scope=\"" SCOPE "\"}"));
}

/* ---- the scopes that hold most ---- */

static uint64_t held_by(const struct scope_leases *s, const char *scope)
{
	for (size_t i = 0; i < s->n; i++)
		if (!strcmp(s->most[i].scope, scope))
			return s->most[i].held;
	return 0;
}

static void scope_leases__beyond_so_many_are_summed(void **state)
{
	static const char others[] = "\nnanoctrl_scope_leases{scope=\"(others)\"} 2550\n";
	struct scope_leases s = { .n = 0 };
	struct evbuffer *text = evbuffer_new();
	struct evbuffer_ptr at;
	char name[16];

	(void)state;
	/* Two of each number; those that come late may hold more. */
	for (unsigned i = 0; i < 2 * SCOPE_LEASES_MAX; i++) {
		snprintf(name, sizeof(name), "s%03u", i);
		scope_leases_add(&s, name, 1 + i / 2);
	}
	scope_leases_add(&s, "none", 0);
	scope_leases_add(&s, "s199", 100); /* it came twice */
	assert_int_equal(s.n, SCOPE_LEASES_MAX);
	assert_int_equal(s.n_others, SCOPE_LEASES_MAX);
	assert_int_equal(s.held_by_others, 2 * (50 * 51 / 2));
	assert_int_equal(held_by(&s, "s199"), 100);
	assert_int_equal(held_by(&s, "s100"), 51);
	assert_int_equal(held_by(&s, "s099"), 0);
	scope_leases_render(&s, text);
	at = evbuffer_search(text, others, strlen(others), NULL);
	assert_true(at.pos >= 0);
	evbuffer_free(text);
}

static void scope_leases__of_equal_scopes_show_the_first_names(void **state)
{
	struct scope_leases s = { .n = 0 };
	char name[16];

	(void)state;
	for (unsigned i = SCOPE_LEASES_MAX + 10; i-- > 0;) {
		snprintf(name, sizeof(name), "s%03u", i);
		scope_leases_add(&s, name, 7);
	}
	assert_int_equal(held_by(&s, "s000"), 7);
	assert_int_equal(held_by(&s, "s099"), 7);
	assert_int_equal(held_by(&s, "s100"), 0);
	assert_int_equal(s.held_by_others, 70);
}

/* The first lease is to be cut, and cannot be; the other one goes. */
static void metrics__say_how_many_leases_are_held_without_memory(void **state)
{
	struct fixture *f = *state;
	struct member a, b;

	assert_int_equal(fixture_register(f, &a, "node-a", "i1", OWNER_A, false), 0);
	assert_int_equal(fixture_register(f, &b, "node-b", "i2", OWNER_A, false), 0);
	until_metrics_say(f, "\nnanoctrl_leases 2\n");
	test_redis_do(&f->redis, "CONFIG SET maxmemory 1");
	test_redis_do(&f->redis, "EVAL %s 0 ZADD {" SCOPE "}:nanoctrl:due 99999999999999 node-a",
		      UNREFUSED);
	test_redis_do(&f->redis, "ZREM {" SCOPE "}:nanoctrl:due node-b");
	until_metrics_say(f, "\nnanoctrl_leases 1\n");
	test_redis_do(&f->redis, "CONFIG SET maxmemory 0");
}

static void metrics__say_whether_redis_serves_and_how_fast(void **state)
{
	struct store_follower follower = { .events = NULL };
	struct fixture *f = *state;
	struct member m;
	char text[256];

	assert_true(metrics_say(f, "\nnanoctrl_store_loops 1\n"));
	assert_true(metrics_say(f, "\nnanoctrl_store_connected 1\n"));
	assert_true(metrics_say(f, "\nnanoctrl_reaper_holds_total 1\n"));
	assert_int_equal(fixture_register(f, &m, "node-a", "i1", OWNER_A, false), 0);
	assert_int_equal(fixture_beat(f, &m, NULL), 0);
	assert_true(metrics_say(f, "\nnanoctrl_leases_granted_total 1\n"));
	assert_true(metrics_say(f, "\nnanoctrl_lease_beats_total 1\n"));
	assert_int_equal(store_follow(f->store, SCOPE, &follower), 0);
	assert_true(metrics_say(f, "\nnanoctrl_watchers 1\n"));
	store_unfollow(f->store, &follower);
	assert_true(metrics_say(f, "\nnanoctrl_watchers 0\n"));
	assert_int_equal(fixture_events(f, &m.cursor, text, sizeof(text)), 0);
	assert_true(metrics_say(f, "\nnanoctrl_events_read_total 1\n"));
	assert_false(metrics_say(f, "_call_duration_seconds_count 0\n"));
	assert_true(metrics_say(f, "_call_duration_seconds_bucket{le=\"+Inf\"} "));
	test_redis_kill(&f->redis);
	fixture_until_serving(f, false);
	assert_true(metrics_say(f, "\nnanoctrl_store_connected 0\n"));
	test_redis_restart(&f->redis);
	fixture_until_serving(f, true);
	assert_true(metrics_say(f, "\nnanoctrl_store_connected 1\n"));
	assert_true(metrics_say(f, "\nnanoctrl_reaper_holds_total 2\n"));
}

static void metrics__say_which_calls_had_no_answer(void **state)
{
	struct fixture *f = *state;
	struct member m;

	assert_true(metrics_say(f, "\nnanoctrl_store_connects_total 1\n"));
	assert_true(metrics_say(f, "\nnanoctrl_store_errors_total 0\n"));
	/* Redis has it, and refuses. */
	test_redis_do(&f->redis, "CONFIG SET maxmemory 1");
	assert_int_equal(fixture_register(f, &m, "node-a", "i1", OWNER_A, false), -EAGAIN);
	assert_false(metrics_say(f, "\nnanoctrl_store_errors_total 0\n"));
	assert_true(metrics_say(f, "\nnanoctrl_store_refused_total 0\n"));
	test_redis_do(&f->redis, "CONFIG SET maxmemory 0");
	/* It is not sent at all. */
	test_redis_kill(&f->redis);
	fixture_until_serving(f, false);
	assert_int_equal(fixture_register(f, &m, "node-a", "i1", OWNER_A, false), -ENOTCONN);
	assert_true(metrics_say(f, "\nnanoctrl_store_refused_total 1\n"));
	test_redis_restart(&f->redis);
	fixture_until_serving(f, true);
	assert_true(metrics_say(f, "\nnanoctrl_store_connects_total 2\n"));
}

/* Whoever says goodbye, or is superseded, is not among them. */
static void metrics__count_each_lease_that_ended_without_a_word(void **state)
{
	struct fixture *f = *state;
	struct member a, b, c;

	assert_int_equal(fixture_register(f, &a, "node-a", "i1", OWNER_A, false), 0);
	assert_int_equal(fixture_register(f, &a, "node-a", "i2", OWNER_A, false), 0);
	assert_int_equal(fixture_register(f, &b, "node-b", "i1", OWNER_A, false), 0);
	assert_int_equal(fixture_register(f, &c, "node-c", "i1", OWNER_A, false), 0);
	assert_int_equal(fixture_leave(f, &c), 0);
	fixture_until(f, 0, "ZCARD {" SCOPE "}:nanoctrl:names");
	until_metrics_say(f, "\nnanoctrl_leases_expired_total 2\n");
	until_metrics_say(f, "\nnanoctrl_leases 0\n");
	assert_true(metrics_say(f, "\nnanoctrl_leases_expired_total 2\n"));
	assert_true(metrics_say(f, "\nnanoctrl_leases_granted_total 4\n"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(metrics__say_how_many_leases_are_held_in_all_scopes),
		TEST(metrics__say_how_many_leases_are_held_without_memory),
		TEST(metrics__say_how_many_leases_each_scope_holds),
		cmocka_unit_test(scope_leases__beyond_so_many_are_summed),
		cmocka_unit_test(scope_leases__of_equal_scopes_show_the_first_names),
		TEST(metrics__say_whether_redis_serves_and_how_fast),
		TEST(metrics__say_which_calls_had_no_answer),
		cmocka_unit_test_setup_teardown(metrics__count_each_lease_that_ended_without_a_word,
						fixture_setup_short_leases, fixture_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
