/* SPDX-License-Identifier: Apache-2.0 */
/* Agents and leases over a real Redis. */
#include "store_fixture.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <hiredis/hiredis.h>
#include <base/clock.h>

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
		store_beat(f->store, SCOPE, &m[i].lease, NULL, 0, answer_beat, &a[i]);
	store_beat(f->store, SCOPE, &wrong, NULL, 0, answer_beat, &a[40]);
	fixture_run(f, &a[40].done);
	for (int i = 0; i < 40; i++) {
		assert_true(a[i].done);
		assert_int_equal(a[i].result, 0);
	}
	assert_int_equal(a[40].result, STORE_LEASE_GONE);
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
	struct answer a = { .done = false };

	store_open_session(f->store, SCOPE, &m->lease, session, answer_grant, &a);
	fixture_run(f, &a.done);
	return a.result;
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

/* Who has little patience, on a busy machine, finds Redis late before the test makes it so. */
static bool is_too_late(struct fixture *f, int ret)
{
	if (ret != -EIO && ret != -EAGAIN)
		return false;
	fixture_until_serving(f, true);
	return true;
}

static void outage__ends_no_lease(void **state)
{
	struct fixture *f = *state;
	struct member m;
	int ret;

	do
		ret = fixture_register(f, &m, "node-a", "i1", OWNER_A, false);
	while (is_too_late(f, ret));
	assert_int_equal(ret, 0);
	test_redis_pause(&f->redis);
	fixture_until_serving(f, false);
	fixture_spend(f, SHORT_TTL_MS);
	test_redis_resume(&f->redis);
	fixture_until_serving(f, true);
	/* Overdue, and still there when it beats again. */
	fixture_spend(f, SHORT_TTL_MS / 4);
	do
		ret = fixture_beat(f, &m, NULL);
	while (is_too_late(f, ret));
	assert_int_equal(ret, 0);
}

static void refusal__ends_no_lease(void **state)
{
	struct fixture *f = *state;
	struct member m;

	assert_int_equal(fixture_register(f, &m, "node-a", "i1", OWNER_A, false), 0);
	fixture_spend(f, SHORT_TTL_MS / 2);
	assert_int_equal(fixture_beat(f, &m, NULL), 0);
	/* Nobody here asks for anything: the reaper finds out by itself. */
	test_redis_do(&f->redis, "CONFIG SET min-replicas-to-write 1");
	fixture_spend(f, SHORT_TTL_MS * 3 / 2);
	test_redis_do(&f->redis, "CONFIG SET min-replicas-to-write 0");
	/* Overdue, and still there when it beats again. */
	fixture_spend(f, SHORT_TTL_MS / 4);
	assert_int_equal(fixture_beat(f, &m, NULL), 0);
	/* And it ends, when it beats no more. */
	fixture_until(f, 0, "ZCARD {" SCOPE "}:nanoctrl:names");
}

/* One that does not end by itself; its answer comes when it was killed. */
static redisContext *begin_script(struct fixture *f)
{
	redisContext *c = redisConnectUnix(f->redis.socket);
	int done = 0;

	assert_true(c && !c->err);
	assert_int_equal(redisAppendCommand(c, "EVAL %s 0", "while true do end"), REDIS_OK);
	while (!done)
		assert_int_equal(redisBufferWrite(c, &done), REDIS_OK);
	return c;
}

static void end_script(struct fixture *f, redisContext *c)
{
	void *reply = NULL;

	test_redis_do(&f->redis, "SCRIPT KILL");
	assert_int_equal(redisGetReply(c, &reply), REDIS_OK);
	freeReplyObject(reply);
	redisFree(c);
}

static void script_that_does_not_end__refuses_all_and_ends_no_lease(void **state)
{
	struct fixture *f = *state;
	struct answer a;
	struct member m;
	redisContext *c;
	int ret;

	test_redis_do(&f->redis, "CONFIG SET lua-time-limit 50");
	assert_int_equal(fixture_register(f, &m, "node-a", "i1", OWNER_A, false), 0);
	fixture_spend(f, SHORT_TTL_MS / 2);
	assert_int_equal(fixture_beat(f, &m, NULL), 0);
	c = begin_script(f);
	do
		ret = fixture_beat(f, &m, NULL);
	while (!ret); /* it may be asked before it */
	assert_int_equal(ret, -EAGAIN);
	assert_int_equal(fixture_names(f, &a), -EAGAIN);
	fixture_spend(f, SHORT_TTL_MS * 3 / 2);
	end_script(f, c);
	/* Overdue, and still there when it beats again. */
	fixture_spend(f, SHORT_TTL_MS / 4);
	assert_int_equal(fixture_beat(f, &m, NULL), 0);
	/* And it ends, when it beats no more. */
	fixture_until(f, 0, "ZCARD {" SCOPE "}:nanoctrl:names");
}

static void lost_data__is_a_new_epoch_in_which_agents_register_again(void **state)
{
	struct fixture *f = *state;
	struct member m;
	struct store_cursor old;
	char text[256];

	assert_int_equal(fixture_register(f, &m, "node-a", "i1", OWNER_A, false), 0);
	old = m.cursor;
	test_redis_kill(&f->redis);
	fixture_until_serving(f, false);
	test_redis_restart(&f->redis);
	fixture_until_serving(f, true);
	assert_int_equal(fixture_beat(f, &m, NULL), STORE_LEASE_GONE);
	assert_int_equal(fixture_register(f, &m, "node-a", "i1", OWNER_A, true), 0);
	assert_true(m.cursor.epoch > old.epoch);
	assert_int_equal(fixture_events(f, &old, text, sizeof(text)), 1);
	assert_int_equal(old.epoch, m.cursor.epoch);
}

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

/* Ours is form 1. */
static void redis__of_other_releases_is_not_used(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(test_redis_do(&f->redis, "STRLEN nanoctrl:schema"), 3);
	fixture_close(f);
	test_redis_do(&f->redis, "SET nanoctrl:schema %s", "2 3");
	fixture_open(f);
	until_trouble(f, "for nanoctrl of the forms 2 to 3, and this one has form 1");
	test_redis_do(&f->redis, "SET nanoctrl:schema x");
	until_trouble(f, "not two numbers");
	/* The release before wrote it, and is there as well: it stays as it is. */
	test_redis_do(&f->redis, "SET nanoctrl:schema %s", "00 1");
	fixture_until_serving(f, true);
	assert_int_equal(test_redis_do(&f->redis, "STRLEN nanoctrl:schema"), 4);
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
	/* A key of the wrong type in our way is replaced. */
	assert_int_equal(fixture_register(f, &m, "junk", "i1", OWNER_A, false), 0);
	test_redis_do(&f->redis, "SET {test}:nanoctrl:due x");
	assert_int_equal(fixture_beat(f, &m, NULL), 0);
	test_redis_do(&f->redis, "SET {test}:nanoctrl:events x");
	assert_int_equal(fixture_leave(f, &m), 0);
}

/* Numbers that others wrote by hand, and that no counter of ours can have. */
static void register__over_damaged_numbers_goes_on(void **state)
{
	static const char *const damage[] = {
		"SET {test}:nanoctrl:seq 9223372036854775807",
		"SET {test}:nanoctrl:seq 9007199254740993",
		"SET {test}:nanoctrl:seq -7",
		"SET {test}:nanoctrl:seq x",
		"SET {test}:nanoctrl:event_seq 9223372036854775807",
		"SET {test}:nanoctrl:event_seq -1",
		"SET {test}:nanoctrl:event_seq 99999999999999999999999999999",
		"SET {test}:nanoctrl:epoch 99999999999999999999999999999",
		"HSET {test}:nanoctrl:agent:6:node-a generation 99999999999999999999999999999",
		"HSET {test}:nanoctrl:agent:6:node-a generation x",
		"XADD {test}:nanoctrl:events 18446744073709551615-18446744073709551615 a b",
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
	store_beat(f->store, SCOPE, &lease, NULL, 0, answer_beat, &b);
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
		TEST(register__again_keeps_generation_and_objects),
		TEST(beat__with_a_wrong_secret_is_refused),
		TEST(beat__of_many_in_one_turn_answers_each),
		TEST(leave__removes_everything_and_tells_peers),
		cmocka_unit_test_setup_teardown(lease__without_a_beat_ends_and_tells_peers,
						fixture_setup_short_leases, fixture_teardown),
		TEST(session__that_was_replaced_neither_beats_nor_shortens),
		TEST(session__that_breaks_leaves_the_grace_period),
		cmocka_unit_test_setup_teardown(outage__ends_no_lease, fixture_setup_impatient,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(
			script_that_does_not_end__refuses_all_and_ends_no_lease,
			fixture_setup_short_leases, fixture_teardown),
		cmocka_unit_test_setup_teardown(refusal__ends_no_lease, fixture_setup_short_leases,
						fixture_teardown),
		TEST(lost_data__is_a_new_epoch_in_which_agents_register_again),
		TEST(call__without_redis_is_refused_and_works_again_later),
		cmocka_unit_test_setup_teardown(
			call__in_flight_when_the_connection_breaks_has_an_unknown_outcome,
			fixture_setup_impatient, fixture_teardown),
		TEST(call__beyond_max_inflight_is_refused),
		TEST(call__after_script_flush_is_sent_whole),
		TEST(call__that_redis_refuses_is_not_executed),
		TEST(redis__that_may_evict_is_not_used),
		TEST(redis__of_other_releases_is_not_used),
		TEST(list__skips_junk_that_others_wrote),
		TEST(register__over_damaged_numbers_goes_on),
		TEST(list__goes_on_behind_the_last_name),
		TEST(destroy__calls_back_what_is_in_flight),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
