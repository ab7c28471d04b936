/* SPDX-License-Identifier: Apache-2.0 */
/* A store whose Redis is away, refuses, or is none that may be used. */
#include "store_fixture.h"

#include <errno.h>
#include <stdio.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>
#include <hiredis/hiredis.h>
#include "loop.h"
#include "store_redis.h"

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

/* Beats until the time is over in which nobody is given up after the start. */
static void beat_past_the_start(struct fixture *f, const struct member *m)
{
	for (int i = 0; i < 4; i++) {
		assert_int_equal(fixture_beat(f, m, NULL), 0);
		fixture_spend(f, SHORT_TTL_MS * 3 / 10);
	}
	assert_int_equal(fixture_beat(f, m, NULL), 0);
}

/* Overdue, and still there when it beats again. */
static void assert_not_given_up(struct fixture *f, const struct member *m)
{
	fixture_spend(f, SHORT_TTL_MS / 4);
	assert_int_equal(fixture_beat(f, m, NULL), 0);
}

static void standstill_of_ours__ends_no_lease(void **state)
{
	struct fixture *f = *state;
	struct member m;

	assert_int_equal(fixture_register(f, &m, "node-a", "i1", OWNER_A, false), 0);
	beat_past_the_start(f, &m);
	/* Nothing of ours runs. */
	poll(NULL, 0, SHORT_TTL_MS * 5 / 4);
	assert_not_given_up(f, &m);
	/* And it ends, when it beats no more. */
	fixture_until(f, 0, "ZCARD {" SCOPE "}:nanoctrl:names");
}

static void loop_without_redis__ends_no_lease(void **state)
{
	struct fixture *f = *state;
	struct store *other;
	struct loop *loop;
	struct member m;

	assert_int_equal(fixture_register(f, &m, "node-a", "i1", OWNER_A, false), 0);
	beat_past_the_start(f, &m);
	/* It never comes up, since nobody runs it. */
	assert_int_equal(loop_create(1, &loop), 0);
	assert_int_equal(store_create(f->hub, loop, &other), 0);
	fixture_spend(f, SHORT_TTL_MS * 5 / 4);
	store_destroy(other);
	loop_destroy(loop);
	assert_not_given_up(f, &m);
}

static void beat__that_is_not_taken_ends_no_lease(void **state)
{
	struct fixture *f = *state;
	struct answer lists[64], a = { .done = false };
	uint64_t hold_ns, start, refused_ns;
	struct member m;

	assert_int_equal(fixture_register(f, &m, "node-a", "i1", OWNER_A, false), 0);
	hold_ns = reaper_hold_until_ns(f->hub);
	memset(lists, 0, sizeof(lists));
	test_redis_pause(&f->redis);
	for (int i = 0; i < 64; i++)
		store_list_agents(f->store, SCOPE, "", 10, answer_page, &lists[i]);
	/* Not for a moment: it beats again. */
	start = sl_clock_ns();
	do {
		refused_ns = sl_clock_ns();
		a.done = false;
		store_beat(f->store, SCOPE, &m.lease, NULL, &(struct store_cursor){ 0, 0 },
			   answer_beat, &a);
		fixture_run(f, &a.done);
		assert_int_equal(a.result, -EBUSY);
	} while (reaper_hold_until_ns(f->hub) == hold_ns);
	test_redis_resume(&f->redis);
	assert_true(sl_clock_ns() - start >= SHORT_TTL_MS * SL_NS_PER_MS / 3);
	assert_true(reaper_hold_until_ns(f->hub) > refused_ns);
	fixture_run(f, &lists[63].done);
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

static int open_tcp(struct fixture *f)
{
	struct answer a = { .done = false };

	store_open_tcp(f->store, answer_done, &a);
	fixture_run(f, &a.done);
	return a.result;
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
	assert_int_equal(open_tcp(f), -EAGAIN);
	fixture_spend(f, SHORT_TTL_MS * 3 / 2);
	end_script(f, c);
	/* Overdue, and still there when it beats again. */
	fixture_spend(f, SHORT_TTL_MS / 4);
	assert_int_equal(fixture_beat(f, &m, NULL), 0);
	/* And it ends, when it beats no more. */
	fixture_until(f, 0, "ZCARD {" SCOPE "}:nanoctrl:names");
}

struct settled {
	struct store_later later;
	bool done;
};

static void on_settled(struct store_later *later)
{
	SL_CONTAINER_OF(later, struct settled, later)->done = true;
}

/* The ping that it waits for is refused. */
static void settle__while_redis_refuses_all_does_not_wait_for_ever(void **state)
{
	struct settled s = { .later.fn = on_settled };
	struct fixture *f = *state;
	redisContext *c;
	struct answer a;

	test_redis_do(&f->redis, "CONFIG SET lua-time-limit 50");
	while (!atomic_load(&f->hub->told) || atomic_load(&f->hub->looking))
		fixture_spend(f, 1);
	c = begin_script(f);
	while (fixture_names(f, &a) != -EAGAIN)
		;
	store_settle(f->store, &s.later);
	fixture_run(f, &s.done);
	end_script(f, c);
	s.done = false;
	store_settle(f->store, &s.later);
	fixture_run(f, &s.done);
}

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

/* Where Redis has just been reached again, and has not answered yet that it listens. */
static void port__is_told_as_before_while_it_is_set_again(void **state)
{
	struct fixture *f = *state;
	const struct store_text here = { "127.0.0.1", strlen("127.0.0.1") };
	char address[STORE_REDIS_ADDRESS_MAX], again[STORE_REDIS_ADDRESS_MAX];
	char file[sizeof(f->redis.dir) + 16];

	test_redis_do(&f->redis, "CONFIG SET bind 127.0.0.1");
	snprintf(file, sizeof(file), "%s/redis.port", f->redis.dir);
	assert_int_equal(store_hub_keep_port(f->hub, file), 0);
	assert_int_equal(unlink(file), 0);
	assert_int_equal(open_tcp(f), 0);
	assert_int_equal(store_redis_address(f->store, here, true, address), 0);

	fixture_reconnect(f);

	assert_int_equal(store_redis_address(f->store, here, true, again), 0);
	assert_string_equal(again, address);
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

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(outage__ends_no_lease, fixture_setup_impatient,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(
			script_that_does_not_end__refuses_all_and_ends_no_lease,
			fixture_setup_short_leases, fixture_teardown),
		TEST(settle__while_redis_refuses_all_does_not_wait_for_ever),
		cmocka_unit_test_setup_teardown(refusal__ends_no_lease, fixture_setup_short_leases,
						fixture_teardown),
		cmocka_unit_test_setup_teardown(standstill_of_ours__ends_no_lease,
						fixture_setup_short_leases, fixture_teardown),
		cmocka_unit_test_setup_teardown(loop_without_redis__ends_no_lease,
						fixture_setup_short_leases, fixture_teardown),
		cmocka_unit_test_setup_teardown(beat__that_is_not_taken_ends_no_lease,
						fixture_setup_short_leases, fixture_teardown),
		TEST(lease__of_a_clock_that_was_ahead_is_cut_when_another_process_serves),
		TEST(lease__of_a_clock_that_was_ahead_is_cut_when_redis_is_first_reached),
		cmocka_unit_test_setup_teardown(
			lease__of_a_clock_that_was_ahead_is_cut_when_redis_was_out_of_reach,
			fixture_setup_short_leases, fixture_teardown),
		cmocka_unit_test_setup_teardown(
			lease__of_a_clock_that_was_ahead_is_cut_when_redis_has_memory_again,
			fixture_setup_short_leases, fixture_teardown),
		TEST(lease__that_cannot_be_cut_keeps_no_memory_from_being_freed),
		TEST(call__without_redis_is_refused_and_works_again_later),
		cmocka_unit_test_setup_teardown(
			call__in_flight_when_the_connection_breaks_has_an_unknown_outcome,
			fixture_setup_impatient, fixture_teardown),
		TEST(call__beyond_max_inflight_is_refused),
		TEST(call__after_script_flush_is_sent_whole),
		TEST(call__that_redis_refuses_is_not_executed),
		cmocka_unit_test(refusal__is_known_by_each_of_its_words),
		TEST(redis__that_may_evict_is_not_used),
		TEST(redis__that_refuses_to_tell_of_events_is_not_ready),
		TEST(port__is_told_as_before_while_it_is_set_again),
		TEST(redis__of_other_releases_is_not_used),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
