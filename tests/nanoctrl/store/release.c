/* SPDX-License-Identifier: Apache-2.0 */
/* A Redis that the next release uses as well. */
#include "tests/nanoctrl/store/fixture.h"

#include <string.h>
#include <hiredis/hiredis.h>
#include "store/script.h"
#include "store/redis_store.h"

/* What a nanoctrl of this form is told by the Redis that is to be its. */
static bool is_admitted(struct fixture *f, const char *form)
{
	const struct script *s = &scripts[SCRIPT_SCHEMA];
	redisContext *c = redisConnectUnix(f->redis.socket);
	redisReply *r = redisCommand(c, "EVAL %b 2 nanoctrl:schema nanoctrl:run 0 %s %s 0",
				     (const char *)s->text, s->len, form, "");
	bool admitted;

	assert_non_null(r);
	admitted = r->type == REDIS_REPLY_STATUS;
	freeReplyObject(r);
	redisFree(c);
	return admitted;
}

static void redis__is_shared_with_the_next_release_and_no_later_one(void **state)
{
	struct fixture *f = *state;
	struct member m;

	assert_true(is_admitted(f, "2"));
	assert_true(is_admitted(f, "3"));
	assert_false(is_admitted(f, "4"));
	/* It has written nothing that keeps us away. */
	fixture_reconnect(f);
	assert_int_equal(fixture_register(f, &m, "node-a", "i1", OWNER_A, false), 0);
}

/* A Redis that the next release had first is that one's and its successor's. */
static void redis__that_the_next_release_had_first_is_not_ours(void **state)
{
	struct fixture *f = *state;

	test_redis_do(&f->redis, "DEL nanoctrl:schema");
	assert_true(is_admitted(f, "3"));
	assert_true(is_admitted(f, "4"));
	assert_false(is_admitted(f, "2"));
}

static long long n_later(struct fixture *f)
{
	return test_redis_do(&f->redis, "HSTRLEN {test}:nanoctrl:agent:6:node-a later");
}

/* Whatever is done to an agent's hash while it lives. */
static void fields__of_an_agent_that_we_do_not_know_stay(void **state)
{
	struct store_profile profile = { .labels = { "{}", 2 } };
	struct fixture *f = *state;
	struct answer a = { .done = false };
	struct member m;

	assert_int_equal(fixture_register(f, &m, "node-a", "i1", OWNER_A, false), 0);
	test_redis_do(&f->redis, "HSET {test}:nanoctrl:agent:6:node-a later value");
	assert_int_equal(fixture_beat(f, &m, NULL), 0);
	store_update(f->store, SCOPE, &m.lease, 1, &profile, answer_done, &a);
	fixture_run(f, &a.done);
	assert_int_equal(a.result, 0);
	assert_int_equal(fixture_open_session(f, &m, "s1", 0, NULL), 0);
	store_lose_session(f->store, SCOPE, &m.lease, "s1");
	assert_int_equal(fixture_register(f, &m, "node-a", "i1", OWNER_A, true), 0);
	assert_int_equal(n_later(f), strlen("value"));
	/* Another process says nothing of it. */
	assert_int_equal(fixture_register(f, &m, "node-a", "i2", OWNER_A, false), 0);
	assert_int_equal(n_later(f), 0);
}

/* Its members stand behind the ones that we know, and the housekeeping finds the time all the same.
 */
static void events__with_members_that_we_do_not_know_are_told_and_kept(void **state)
{
	struct fixture *f = *state;
	struct store_cursor at;
	struct member m;
	char text[256];

	assert_int_equal(fixture_register(f, &m, "node-a", "i1", OWNER_A, false), 0);
	at = m.cursor;
	assert_int_equal(fixture_events(f, &at, text, sizeof(text)), 0);
	test_redis_do(&f->redis, "EVAL %s 0 %llu",
		      "local n, t = redis.call('INCR', '{test}:nanoctrl:event_seq'), "
		      "redis.call('TIME') redis.call('XADD', '{test}:nanoctrl:events', n .. '-0', "
		      "'t', 'later', 'a', 'node-a', 'g', ARGV[1], 'i', 'i1', 'o', '', 'd', '', "
		      "'n', '0', 'm', t[1] .. '000', 'z', 'of the next release') "
		      "redis.call('XTRIM', '{test}:nanoctrl:events', 'MAXLEN', '1')",
		      (unsigned long long)m.generation);
	test_redis_do(&f->redis, "CONFIG RESETSTAT");
	while (test_redis_calls(&f->redis, "sscan") < 5)
		fixture_spend(f, 10);
	assert_int_equal(fixture_events(f, &at, text, sizeof(text)), 0);
	assert_string_equal(text, "later node-a >;");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(redis__is_shared_with_the_next_release_and_no_later_one),
		TEST(redis__that_the_next_release_had_first_is_not_ours),
		TEST(fields__of_an_agent_that_we_do_not_know_stay),
		TEST(events__with_members_that_we_do_not_know_are_told_and_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
