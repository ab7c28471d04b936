/* SPDX-License-Identifier: Apache-2.0 */
/* Agents and leases over a real Redis. */
#include "tests/nanoctrl/store/fixture.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <base/clock.h>
#include "store/redis_store.h"

static void register__takes_a_free_name(void **state)
{
	struct fixture *f = *state;
	struct member m;
	struct answer a;

	assert_int_equal(fixture_register(f, &m, "node-a", "i1", OWNER_A, false), 0);
	assert_int_equal(fixture_names(f, &a), 0);
	assert_string_equal(a.text, "node-a ");
	assert_true(m.cursor.epoch > 0);
}

static void register__of_a_held_name_by_a_stranger_is_refused(void **state)
{
	struct fixture *f = *state;
	struct member a;
	struct member b;

	assert_int_equal(fixture_register(f, &a, "node-a", "i1", OWNER_A, false), 0);
	assert_int_equal(fixture_register(f, &b, "node-a", "i2", OWNER_B, false), STORE_NAME_TAKEN);
	assert_int_equal(fixture_beat(f, &a, NULL), 0);
}

static void register__by_the_owner_supersedes_the_old_process(void **state)
{
	struct fixture *f = *state;
	struct member old;
	struct member new;

	assert_int_equal(fixture_register(f, &old, "node-a", "i1", OWNER_A, false), 0);
	assert_int_equal(fixture_put(f, &old, STORE_REGION, "kv", 1, "{}", "x"), 0);
	assert_int_equal(fixture_register(f, &new, "node-a", "i2", OWNER_A, false), 0);

	assert_true(new.generation > old.generation);
	assert_int_equal(fixture_beat(f, &old, NULL), STORE_SUPERSEDED);
	assert_int_equal(fixture_leave(f, &old), STORE_SUPERSEDED);
	assert_int_equal(fixture_beat(f, &new, NULL), 0);
	/* The loser cannot take the name back. */
	assert_int_equal(fixture_register(f, &old, "node-a", "i1", OWNER_A, true),
			 STORE_SUPERSEDED);
}

/* It has not heard that it was registered, and repeats what it sent. */
static void register__repeated_by_who_was_superseded_is_refused(void **state)
{
	struct fixture *f = *state;
	struct member old;
	struct member new;

	assert_int_equal(fixture_register(f, &old, "node-a", "i1", OWNER_A, false), 0);
	assert_int_equal(fixture_register(f, &new, "node-a", "i2", OWNER_A, false), 0);
	assert_int_equal(fixture_register(f, &new, "node-a", "i3", OWNER_A, false), 0);

	assert_int_equal(fixture_register(f, &old, "node-a", "i1", OWNER_A, false),
			 STORE_SUPERSEDED);
	assert_int_equal(fixture_register(f, &old, "node-a", "i2", OWNER_A, false),
			 STORE_SUPERSEDED);

	assert_int_equal(fixture_beat(f, &new, NULL), 0);
	/* Another process that was never here is. */
	assert_int_equal(fixture_register(f, &new, "node-a", "i", OWNER_A, false), 0);
}

static void register__again_keeps_generation_and_objects(void **state)
{
	struct fixture *f = *state;
	struct member first;
	struct member second;
	struct answer a = { .done = false };

	assert_int_equal(fixture_register(f, &first, "node-a", "i1", OWNER_A, false), 0);
	assert_int_equal(fixture_put(f, &first, STORE_REGION, "kv", 1, "{}", "x"), 0);
	assert_int_equal(fixture_register(f, &second, "node-a", "i1", OWNER_A, true), 0);

	assert_int_equal(second.generation, first.generation);
	assert_true(second.lease.id > first.lease.id);
	assert_int_equal(fixture_beat(f, &first, NULL), STORE_LEASE_GONE);
	store_get(f->store, SCOPE, "node-a", STORE_REGION, "kv", answer_page, &a);
	fixture_run(f, &a.done);
	assert_string_equal(a.text, "node-a/kv={}|x ");
}

static void beat__with_a_wrong_secret_is_refused(void **state)
{
	struct fixture *f = *state;
	struct member m;

	assert_int_equal(fixture_register(f, &m, "node-a", "i1", OWNER_A, false), 0);
	m.lease.secret_hash = OWNER_B;
	assert_int_equal(fixture_beat(f, &m, NULL), STORE_LEASE_GONE);
}

static void beat__of_many_in_one_turn_answers_each(void **state)
{
	struct fixture *f = *state;
	struct member m[40];
	struct answer a[41];
	struct store_lease wrong;

	memset(a, 0, sizeof(a));
	for (int i = 0; i < 40; i++) {
		char name[16];

		snprintf(name, sizeof(name), "n%02d", i);
		assert_int_equal(fixture_register(f, &m[i], name, "i", OWNER_A, false), 0);
	}
	wrong = m[7].lease;
	wrong.id += 1000;
	for (int i = 0; i < 40; i++)
		store_beat(f->store, SCOPE, &m[i].lease, NULL, &(struct store_cursor){ 0, 0 },
			   answer_beat, &a[i]);
	store_beat(f->store, SCOPE, &wrong, NULL, &(struct store_cursor){ 0, 0 }, answer_beat,
		   &a[40]);
	fixture_run(f, &a[40].done);
	for (int i = 0; i < 40; i++) {
		assert_true(a[i].done);
		assert_int_equal(a[i].result, 0);
	}
	assert_int_equal(a[40].result, STORE_LEASE_GONE);
}

static void beat_acked(struct fixture *f, const struct member *m, const struct store_cursor *acked)
{
	struct answer a = { .done = false };

	store_beat(f->store, SCOPE, &m->lease, NULL, acked, answer_beat, &a);
	fixture_run(f, &a.done);
	assert_int_equal(a.result, 0);
}

static void beat__acknowledges_events_of_its_epoch_alone(void **state)
{
	struct fixture *f = *state;
	struct store_grant grant;
	struct store_cursor at;
	struct member m;

	assert_int_equal(fixture_register(f, &m, "node-a", "i1", OWNER_A, false), 0);
	at = m.cursor;
	beat_acked(f, &m, &(struct store_cursor){ at.epoch, at.id + 1 });
	beat_acked(f, &m, &(struct store_cursor){ at.epoch - 1, at.id + 100 });
	assert_int_equal(fixture_open_session(f, &m, "s1", 0, &grant), 0);
	assert_int_equal(grant.cursor.epoch, at.epoch);
	assert_int_equal(grant.cursor.id, at.id + 1);
}

/* Of one owner, whichever of its processes sends it. */
static void register__older_than_one_that_is_known_is_stale(void **state)
{
	struct fixture *f = *state;
	struct member m, other;

	f->order = 7;
	assert_int_equal(fixture_register(f, &m, "node-a", "i1", OWNER_A, false), 0);
	f->order = 6;
	assert_int_equal(fixture_register(f, &other, "node-a", "i1", OWNER_A, false), STORE_STALE);
	f->order = 7;
	assert_int_equal(fixture_register(f, &other, "node-a", "i0", OWNER_A, false), STORE_STALE);
	assert_int_equal(fixture_beat(f, &m, NULL), 0);
	/* As it was: the same process repeats it. */
	f->order = 7;
	assert_int_equal(fixture_register(f, &m, "node-a", "i1", OWNER_A, false), 0);
	assert_int_equal(fixture_leave(f, &m), 0);
	/* When it left, also the last one is older. */
	f->order = 7;
	assert_int_equal(fixture_register(f, &other, "node-a", "i1", OWNER_A, false), STORE_STALE);
	f->order = 0;
	assert_int_equal(fixture_register(f, &other, "node-a", "i1", OWNER_B, false), 0);
	assert_int_equal(fixture_leave(f, &other), 0);
	f->order = 7;
	assert_int_equal(fixture_register(f, &other, "node-a", "i1", OWNER_A, false), STORE_STALE);
	assert_int_equal(fixture_register(f, &m, "node-a", "i2", OWNER_A, false), 0);
}

static void register__of_a_name_that_was_left_is_remembered_for_a_lease(void **state)
{
	struct fixture *f = *state;
	struct member m;

	f->order = 7;
	assert_int_equal(fixture_register(f, &m, "node-a", "i1", OWNER_A, false), 0);
	assert_int_equal(fixture_leave(f, &m), 0);
	assert_in_range(test_redis_do(&f->redis, "PTTL {test}:nanoctrl:left:6:node-a:" OWNER_A), 1,
			f->ttl_ms);
	assert_int_equal(test_redis_do(&f->redis, "DEL {test}:nanoctrl:left:6:node-a:" OWNER_A), 1);
	f->order = 0;
	assert_int_equal(fixture_register(f, &m, "node-a", "i1", OWNER_A, false), 0);
}

static void leave__removes_everything_and_tells_peers(void **state)
{
	struct fixture *f = *state;
	struct member a;
	struct member b;
	struct answer names;
	char text[512];

	assert_int_equal(fixture_register(f, &a, "node-a", "i1", OWNER_A, false), 0);
	assert_int_equal(fixture_register(f, &b, "node-b", "i2", OWNER_B, false), 0);
	assert_int_equal(fixture_put(f, &a, STORE_REGION, "kv", 1, "{}", "x"), 0);
	assert_int_equal(fixture_put(f, &a, STORE_LINK, "node-b/default", 1, "{}", ""), 0);
	assert_int_equal(fixture_offer(f, &a, "node-b", 1, "i2", "blob"), 0);
	assert_int_equal(fixture_leave(f, &a), 0);
	assert_int_equal(fixture_leave(f, &a), STORE_LEASE_GONE);

	assert_int_equal(fixture_names(f, &names), 0);
	assert_string_equal(names.text, "node-b ");
	assert_int_equal(fixture_events(f, &b.cursor, text, sizeof(text)), 0);
	assert_string_equal(text, "registered node-b >;region node-a kv>;"
				  "offer node-a default>node-b;left node-a >;");
	/* Housekeeping takes back what was posted: nothing with its generation is left. */
	fixture_until(f, 0, "SCARD {test}:nanoctrl:dead");
	assert_int_equal(test_redis_do(&f->redis, "KEYS {test}:nanoctrl:*:%llu",
				       (unsigned long long)a.generation),
			 0);
	assert_int_equal(test_redis_do(&f->redis, "HLEN {test}:nanoctrl:inbox:%llu",
				       (unsigned long long)b.generation),
			 0);
}

/* Turns the loop until the agent is gone, beating for another one. */
static void until_gone(struct fixture *f, const char *name, const struct member *alive)
{
	uint64_t start = sl_clock_ms();
	struct answer a;

	do {
		assert_int_equal(fixture_beat(f, alive, NULL), 0);
		fixture_spend(f, 10);
		assert_int_equal(fixture_names(f, &a), 0);
		assert_true(sl_clock_ms() - start < 60000);
	} while (strstr(a.text, name));
}

static void lease__without_a_beat_ends_and_tells_peers(void **state)
{
	struct fixture *f = *state;
	struct member a;
	struct member b;
	struct answer gone = { .done = false };
	char text[512];

	assert_int_equal(fixture_register(f, &a, "node-a", "i1", OWNER_A, false), 0);
	assert_int_equal(fixture_register(f, &b, "node-b", "i2", OWNER_B, false), 0);
	assert_int_equal(fixture_put(f, &a, STORE_REGION, "kv", 1, "{}", "x"), 0);
	until_gone(f, "node-a", &b);

	assert_int_equal(fixture_events(f, &b.cursor, text, sizeof(text)), 0);
	assert_string_equal(text, "registered node-b >;region node-a kv>;expired node-a >;");
	assert_int_equal(fixture_beat(f, &a, NULL), STORE_LEASE_GONE);
	store_get(f->store, SCOPE, "node-a", STORE_REGION, "kv", answer_page, &gone);
	fixture_run(f, &gone.done);
	assert_int_equal(gone.result, STORE_NOT_FOUND);
	/* The name is free for anyone. */
	assert_int_equal(fixture_register(f, &a, "node-a", "i3", OWNER_B, false), 0);
}

static int open_session(struct fixture *f, const struct member *m, const char *session)
{
	return fixture_open_session(f, m, session, 0, NULL);
}

static void session__that_comes_behind_a_later_one_is_stale(void **state)
{
	struct fixture *f = *state;
	struct member m;

	assert_int_equal(fixture_register(f, &m, "node-a", "i1", OWNER_A, false), 0);
	assert_int_equal(fixture_open_session(f, &m, "s2", 2, NULL), 0);
	assert_int_equal(fixture_open_session(f, &m, "s1", 1, NULL), STORE_STALE);
	assert_int_equal(fixture_beat(f, &m, "s2"), 0);
	assert_int_equal(fixture_open_session(f, &m, "s10", 10, NULL), 0);
	assert_int_equal(fixture_beat(f, &m, "s2"), STORE_REPLACED);
	/* Who does not say is the newest, and so is whoever has a new lease. */
	assert_int_equal(open_session(f, &m, "s"), 0);
	assert_int_equal(fixture_open_session(f, &m, "s9", 9, NULL), STORE_STALE);
	assert_int_equal(fixture_register(f, &m, "node-a", "i1", OWNER_A, true), 0);
	assert_int_equal(fixture_open_session(f, &m, "s1", 1, NULL), 0);
	/* Others damaged it. */
	test_redis_do(&f->redis, "HSET {test}:nanoctrl:agent:6:node-a opened inf");
	assert_int_equal(fixture_open_session(f, &m, "s2", 2, NULL), 0);
}

static void session__that_was_replaced_neither_beats_nor_shortens(void **state)
{
	struct fixture *f = *state;
	struct member m;
	struct answer a;

	assert_int_equal(fixture_register(f, &m, "node-a", "i1", OWNER_A, false), 0);
	assert_int_equal(open_session(f, &m, "s1"), 0);
	assert_int_equal(open_session(f, &m, "s2"), 0);
	assert_int_equal(fixture_beat(f, &m, "s1"), STORE_REPLACED);
	store_lose_session(f->store, SCOPE, &m.lease, "s1");
	assert_int_equal(fixture_beat(f, &m, "s2"), 0);
	assert_int_equal(test_redis_do(&f->redis, "HSTRLEN {test}:nanoctrl:agent:6:node-a session"),
			 2);
	assert_int_equal(fixture_names(f, &a), 0);
	assert_string_equal(a.text, "node-a ");
}

#define GIVE_UP_MS 60000

static long long lease_left(struct fixture *f)
{
	return test_redis_do(&f->redis, "EVAL %s 0",
			     "local t=redis.call('TIME') return math.floor(redis.call('ZSCORE',"
			     "'{test}:nanoctrl:due','node-a')-t[1]*1000-t[2]/1000)");
}

static void session__that_breaks_leaves_the_grace_period(void **state)
{
	struct fixture *f = *state;
	struct member m;

	assert_int_equal(fixture_register(f, &m, "node-a", "i1", OWNER_A, false), 0);
	assert_int_equal(open_session(f, &m, "s1"), 0);
	store_lose_session(f->store, SCOPE, &m.lease, "s1");
	/* Commands of one connection are done in order: this one comes behind. */
	assert_int_equal(fixture_put(f, &m, STORE_LINK, "x/default", 1, "{}", ""), 0);
	assert_true(lease_left(f) <= GRACE_MS);
}

static void list__skips_junk_that_others_wrote(void **state)
{
	struct fixture *f = *state;
	struct member m;
	struct answer a;

	assert_int_equal(fixture_register(f, &m, "node-a", "i1", OWNER_A, false), 0);
	test_redis_do(&f->redis, "ZADD {test}:nanoctrl:names 0 junk 0 other 0 short");
	test_redis_do(&f->redis, "SET {test}:nanoctrl:agent:4:junk x");
	test_redis_do(&f->redis, "HSET {test}:nanoctrl:agent:5:other generation x epoch y");
	assert_int_equal(fixture_names(f, &a), 0);
	assert_string_equal(a.text, "node-a ");
}

static uint64_t n_skipped(const struct fixture *f)
{
	return atomic_load(&f->hub->n_skipped);
}

/* No lease of the scope ends meanwhile. */
static void beat__over_a_damaged_index_is_taken_and_counted(void **state)
{
	struct fixture *f = *state;
	struct member m;
	uint64_t before;

	assert_int_equal(fixture_register(f, &m, "node-a", "i1", OWNER_A, false), 0);
	test_redis_do(&f->redis, "SET {test}:nanoctrl:due x");
	before = n_skipped(f);
	assert_int_equal(fixture_beat(f, &m, NULL), 0);
	assert_true(n_skipped(f) > before);
	assert_int_equal(test_redis_do(&f->redis, "STRLEN {test}:nanoctrl:due"), 1);
	/* Whoever damaged it removes it, and agents are in it again. */
	test_redis_do(&f->redis, "DEL {test}:nanoctrl:due");
	assert_int_equal(fixture_beat(f, &m, NULL), 0);
	assert_int_equal(test_redis_do(&f->redis, "ZCARD {test}:nanoctrl:due"), 1);
}

/* Nothing was done then. */
static void leave__over_a_damaged_stream_is_refused(void **state)
{
	struct fixture *f = *state;
	struct member m;
	struct answer a;

	assert_int_equal(fixture_register(f, &m, "node-a", "i1", OWNER_A, false), 0);
	test_redis_do(&f->redis, "SET {test}:nanoctrl:events x");
	assert_int_equal(fixture_leave(f, &m), -EPROTO);
	assert_int_equal(fixture_names(f, &a), 0);
	assert_string_equal(a.text, "node-a ");
	test_redis_do(&f->redis, "DEL {test}:nanoctrl:events");
	assert_int_equal(fixture_leave(f, &m), 0);
}

/* Numbers that others wrote by hand, and that no counter of ours can have. */
static void register__over_a_damaged_counter_is_refused(void **state)
{
	static const char *const damage[] = {
		"SET {test}:nanoctrl:seq 9223372036854775807",
		"SET {test}:nanoctrl:seq 9007199254740993",
		"SET {test}:nanoctrl:seq -7",
		"SET {test}:nanoctrl:seq x",
		"SET {test}:nanoctrl:event_seq 9223372036854775807",
		"SET {test}:nanoctrl:event_seq -1",
		"SET {test}:nanoctrl:event_seq 99999999999999999999999999999",
		"XADD {test}:nanoctrl:events 18446744073709551615-18446744073709551615 a b",
	};
	struct fixture *f = *state;
	struct member m;

	for (size_t i = 0; i < sizeof(damage) / sizeof(damage[0]); i++) {
		assert_int_equal(fixture_register(f, &m, "node-a", "i1", OWNER_A, false), 0);
		test_redis_do(&f->redis, damage[i]);
		assert_int_equal(fixture_register(f, &m, "node-a", "i1", OWNER_A, false), -EPROTO);
		test_redis_do(&f->redis, "FLUSHDB");
	}
}

/* They read as absent. */
static void register__over_damaged_values_of_an_agent_makes_it_anew(void **state)
{
	static const char *const damage[] = {
		"SET {test}:nanoctrl:epoch 99999999999999999999999999999",
		"HSET {test}:nanoctrl:agent:6:node-a generation 99999999999999999999999999999",
		"HSET {test}:nanoctrl:agent:6:node-a generation x",
	};
	struct fixture *f = *state;
	unsigned long long generation = 0;
	struct member m;
	struct answer a;

	for (size_t i = 0; i < sizeof(damage) / sizeof(damage[0]); i++) {
		assert_int_equal(fixture_register(f, &m, "node-a", "i1", OWNER_A, false), 0);
		test_redis_do(&f->redis, damage[i]);
		assert_int_equal(fixture_register(f, &m, "node-a", "i1", OWNER_A, false), 0);
		assert_int_equal(fixture_names(f, &a), 0);
		assert_string_equal(a.text, "node-a ");
		assert_int_equal(fixture_leave(f, &m), 0);
		/* A new holder is newer than every one before. */
		assert_int_equal(fixture_register(f, &m, "node-a", "i2", OWNER_A, false), 0);
		assert_true(m.generation > generation);
		generation = m.generation;
		assert_int_equal(fixture_leave(f, &m), 0);
	}
}

static void list__goes_on_behind_the_last_name(void **state)
{
	struct fixture *f = *state;
	struct member m;
	struct answer a = { .done = false };
	struct answer b = { .done = false };

	assert_int_equal(fixture_register(f, &m, "c", "i1", OWNER_A, false), 0);
	assert_int_equal(fixture_register(f, &m, "a", "i1", OWNER_A, false), 0);
	assert_int_equal(fixture_register(f, &m, "b", "i1", OWNER_A, false), 0);
	store_list_agents(f->store, SCOPE, "", 2, answer_page, &a);
	fixture_run(f, &a.done);
	assert_string_equal(a.text, "a b ");
	assert_string_equal(a.next, "b");
	store_list_agents(f->store, SCOPE, a.next, 2, answer_page, &b);
	fixture_run(f, &b.done);
	assert_string_equal(b.text, "c ");
	assert_string_equal(b.next, "");
}

static void destroy__calls_back_what_is_in_flight(void **state)
{
	struct fixture *f = *state;
	struct answer a = { .done = false };
	struct answer b = { .done = false };
	struct store_lease lease = { "x", 1, SECRET };

	store_list_agents(f->store, SCOPE, "", 10, answer_page, &a);
	store_beat(f->store, SCOPE, &lease, NULL, &(struct store_cursor){ 0, 0 }, answer_beat, &b);
	fixture_close(f);
	assert_int_equal(a.result, -EIO);
	assert_int_equal(b.result, -ENOTCONN);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(register__takes_a_free_name),
		TEST(register__of_a_held_name_by_a_stranger_is_refused),
		TEST(register__by_the_owner_supersedes_the_old_process),
		TEST(register__repeated_by_who_was_superseded_is_refused),
		TEST(register__again_keeps_generation_and_objects),
		TEST(beat__with_a_wrong_secret_is_refused),
		TEST(beat__of_many_in_one_turn_answers_each),
		TEST(beat__acknowledges_events_of_its_epoch_alone),
		TEST(register__older_than_one_that_is_known_is_stale),
		TEST(register__of_a_name_that_was_left_is_remembered_for_a_lease),
		TEST(leave__removes_everything_and_tells_peers),
		cmocka_unit_test_setup_teardown(lease__without_a_beat_ends_and_tells_peers,
						fixture_setup_short_leases, fixture_teardown),
		TEST(session__that_was_replaced_neither_beats_nor_shortens),
		TEST(session__that_comes_behind_a_later_one_is_stale),
		TEST(session__that_breaks_leaves_the_grace_period),
		TEST(list__skips_junk_that_others_wrote),
		TEST(beat__over_a_damaged_index_is_taken_and_counted),
		TEST(leave__over_a_damaged_stream_is_refused),
		TEST(register__over_a_damaged_counter_is_refused),
		TEST(register__over_damaged_values_of_an_agent_makes_it_anew),
		TEST(list__goes_on_behind_the_last_name),
		TEST(destroy__calls_back_what_is_in_flight),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
