/* SPDX-License-Identifier: Apache-2.0 */
/* Much work for agents of DLSlime is done in batches, each a script of its own, and others come in
 * between. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "compat/script.h"
#include "tests/nanoctrl/store/script_fixture.h"
#include "store/store.h"

#define MOST	  500 /* keys that go, and agents that are told or asked, with one script */
#define N_OWNED	  1201
#define N_NAMERS  1201
#define N_TARGETS 5000

static const char *clean(struct script_fixture *f, const char *rest)
{
	char args[96];

	snprintf(args, sizeof(args), "s|a|%s", rest);
	return script_run_for(f, &compat_scripts[COMPAT_PEER_CLEANUP], "s:", args);
}

static void start_a(struct script_fixture *f)
{
	while (*script_run_for(f, &compat_scripts[COMPAT_PEER_REGISTER],
			       "s:", "s|a|1|agent|60000|addr|x"))
		;
}

static void give_much(struct script_fixture *f)
{
	test_redis_do(&f->redis, "EVAL %s 0 %d",
		      "for i = 1, ARGV[1] do redis.call('SET', 's:mr:a:' .. i, '{}') "
		      "redis.call('SADD', 'nanoctrl:owned:1:sa', 's:mr:a:' .. i) end return 0",
		      N_OWNED);
}

/* ---- the end of an agent ---- */

/* It has nothing of the former. */
static void cleanup__leaves_who_takes_the_name_between_two_batches(void **state)
{
	struct script_fixture *f = *state;
	char rest[64];

	start_a(f);
	give_much(f);
	snprintf(rest, sizeof(rest), "%s", clean(f, ""));
	assert_int_not_equal(*rest, '\0');
	start_a(f);
	assert_int_equal(test_redis_do(&f->redis, "KEYS s:mr:a:*"), 0);
	freeReplyObject(script_run(f, &compat_scripts[COMPAT_PEER_MR_PUT], "s:", "s|a|kv|{}"));
	assert_string_equal(clean(f, rest), "");
	assert_int_equal(test_redis_do(&f->redis, "EXISTS s:agent:a s:mr:a:kv"), 2);
}

/* It wrote itself to Redis, and nobody has heard of it yet. */
static void cleanup__leaves_who_takes_the_name_elsewhere(void **state)
{
	struct script_fixture *f = *state;
	const char *rest;

	start_a(f);
	give_much(f);
	rest = clean(f, "");
	test_redis_do(&f->redis, "HSET s:agent:a addr y");
	test_redis_do(&f->redis, "EXPIRE s:agent:a 60");
	assert_string_equal(clean(f, rest), "");
	assert_int_equal(test_redis_do(&f->redis, "EXISTS s:agent:a"), 1);
	/* Its own end takes all. */
	for (rest = clean(f, ""); *rest; rest = clean(f, rest))
		;
	assert_int_equal(test_redis_do(&f->redis, "EXISTS s:agent:a nanoctrl:peers:s"), 0);
	assert_int_equal(test_redis_do(&f->redis, "KEYS s:mr:a:*"), 0);
}

/* Somebody else does the rest. */
static void cleanup__that_another_one_ended_tells_nobody_again(void **state)
{
	struct script_fixture *f = *state;
	char rest[64];
	const char *other;

	start_a(f);
	give_much(f);
	freeReplyObject(script_run(f, &compat_scripts[COMPAT_PEER_TOPOLOGY], "s:", "s|a|0|{}|p"));
	snprintf(rest, sizeof(rest), "%s", clean(f, ""));
	for (other = clean(f, rest); *other; other = clean(f, other))
		;
	assert_string_equal(clean(f, rest), "");
	assert_int_equal(test_redis_do(&f->redis, "LLEN s:inbox:p"), 1);
}

static void name_a(struct script_fixture *f)
{
	test_redis_do(&f->redis, "EVAL %s 0 %d",
		      "for i = 1, ARGV[1] do redis.call('HSET', 's:agent:n' .. i, 'addr', 'x') "
		      "redis.call('SADD', 'nanoctrl:named:1:sa', 'n' .. i) end return 0",
		      N_NAMERS);
}

static long long sum(struct script_fixture *f, const char *command, const char *key)
{
	return test_redis_do(&f->redis, "EVAL %s 0 %d %s %s",
			     "local n = 0 for i = 1, ARGV[1] do "
			     "n = n + redis.call(ARGV[2], ARGV[3] .. i) end return n",
			     N_NAMERS, command, key);
}

static void cleanup__of_one_whom_very_many_named_tells_them_in_batches(void **state)
{
	struct script_fixture *f = *state;
	char rest[64] = "";
	long long told = 0;

	start_a(f);
	name_a(f);
	do {
		snprintf(rest, sizeof(rest), "%s", clean(f, rest));
		assert_in_range(sum(f, "LLEN", "s:inbox:n") - told, 1, MOST);
		told = sum(f, "LLEN", "s:inbox:n");
	} while (*rest);
	assert_int_equal(told, N_NAMERS);
	/* They want it when it comes back. */
	assert_int_equal(test_redis_do(&f->redis, "SCARD nanoctrl:named:1:sa"), N_NAMERS);
	assert_int_equal(test_redis_do(&f->redis, "EXISTS nanoctrl:told:1:sa nanoctrl:peers:s"), 0);
}

/* Whom the former named hears of one end, be it the one or the other. */
static void cleanup__of_who_took_the_name_elsewhere_tells_the_rest_of_the_formers(void **state)
{
	struct script_fixture *f = *state;
	char rest[64] = "";

	start_a(f);
	test_redis_do(&f->redis, "EVAL %s 0 %d",
		      "for i = 1, ARGV[1] do redis.call('HSET', 's:agent:n' .. i, 'addr', 'x') "
		      "redis.call('SADD', 'nanoctrl:targets:1:sa', 'n' .. i) end return 0",
		      N_NAMERS);
	assert_int_not_equal(*clean(f, ""), '\0');
	test_redis_do(&f->redis, "HSET s:agent:a addr y");
	do {
		snprintf(rest, sizeof(rest), "%s", clean(f, rest));
	} while (*rest);
	assert_int_equal(sum(f, "LLEN", "s:inbox:n"), N_NAMERS);
	assert_int_equal(test_redis_do(&f->redis, "EXISTS nanoctrl:told:1:sa nanoctrl:peers:s"), 0);
}

/* What is kept for the name while its namers are told is the next one's. */
static void cleanup__leaves_targets_that_come_between_two_batches(void **state)
{
	struct script_fixture *f = *state;
	char rest[64] = "";

	start_a(f);
	name_a(f);
	snprintf(rest, sizeof(rest), "%s", clean(f, rest));
	freeReplyObject(script_run(f, &compat_scripts[COMPAT_PEER_TOPOLOGY], "s:", "s|a|0|{}|p"));
	while (*rest)
		snprintf(rest, sizeof(rest), "%s", clean(f, rest));
	assert_int_equal(test_redis_do(&f->redis, "EXISTS s:spec:topology:a s:stream:a "
						  "nanoctrl:targets:1:sa nanoctrl:peers:s"),
			 4);
}

/* ---- who comes back ---- */

static const char *sweep(struct script_fixture *f)
{
	redisReply *t = redisCommand(f->c, "TIME");
	char args[32];

	snprintf(args, sizeof(args), "%s500", t->element[0]->str);
	freeReplyObject(t);
	return script_run_for(f, &compat_scripts[COMPAT_PEER_SWEEP], "", args);
}

static void start__of_one_whom_very_many_named_asks_them_in_batches(void **state)
{
	struct script_fixture *f = *state;
	long long asked = 0;
	bool more;

	name_a(f);
	start_a(f);
	assert_int_equal(sum(f, "XLEN", "s:stream:n"), 0);
	do {
		more = *sweep(f) == '1';
		assert_in_range(sum(f, "XLEN", "s:stream:n") - asked, 1, MOST);
		asked = sum(f, "XLEN", "s:stream:n");
	} while (more);
	assert_int_equal(asked, N_NAMERS);
	assert_int_equal(test_redis_do(&f->redis, "EXISTS nanoctrl:returned nanoctrl:ask:1:sa"), 0);
}

/* ---- targets ---- */

static void topology__of_many_goes_in_batches(void **state)
{
	struct script_fixture *f = *state;
	char args[2048] = "s|me|1|{\"target_peers\":[]}";
	char rest[2048];
	int n_done;

	/* All arguments of run() but one. */
	for (int i = 0; i < 30; i++)
		snprintf(args + strlen(args), sizeof(args) - strlen(args), "|t%d", i);
	test_redis_do(
		&f->redis, "EVAL %s 0",
		"for i = 0, 9 do redis.call('SET', 's:spec:topology:t' .. i, "
		"'{\"target_peers\":[\"' .. string.rep('x', 300000) .. '\"],\"min_bw\":null}') "
		"end return 0");
	n_done = atoi(script_run_for(f, &compat_scripts[COMPAT_PEER_TOPOLOGY], "s:", args));
	assert_in_range(n_done, 1, 9);
	assert_int_equal(test_redis_do(&f->redis, "XLEN s:stream:me"), n_done);
	/* The list is there, and stays. */
	assert_int_equal(test_redis_do(&f->redis, "STRLEN s:spec:topology:me"),
			 (long long)strlen("{\"target_peers\":[]}"));
	snprintf(rest, sizeof(rest), "s|me|1||%s", strstr(args, "|t9|") + 1);
	assert_int_equal(atoi(script_run_for(f, &compat_scripts[COMPAT_PEER_TOPOLOGY], "s:", rest)),
			 21);
	assert_int_equal(test_redis_do(&f->redis, "STRLEN s:spec:topology:me"),
			 (long long)strlen("{\"target_peers\":[]}"));
}

/* ---- what others wrote ---- */

static void learn__of_very_many_targets_goes_in_batches(void **state)
{
	struct script_fixture *f = *state;
	redisReply *r;
	char args[64];
	int n_calls = 0;
	long long from = 0, before, after = 0;

	start_a(f);
	test_redis_do(&f->redis, "EVAL %s 0 %d",
		      "local names = {} for i = 1, ARGV[1] do names[i] = '\"t' .. i .. '\"' end "
		      "redis.call('SET', 's:spec:topology:a', '{\"target_peers\":[' .. "
		      "table.concat(names, ',') .. ']}') return 0",
		      N_TARGETS);
	do {
		before = after;
		snprintf(args, sizeof(args), "%lld|s:spec:topology:a", from);
		r = script_run(f, &compat_scripts[COMPAT_PEER_LEARN], "", args);
		from = r->element[4]->integer;
		after = test_redis_do(&f->redis, "SCARD nanoctrl:targets:1:sa");
		assert_in_range(after - before, 1, 1500);
		assert_int_equal(r->element[3]->integer, from ? 0 : 1);
		freeReplyObject(r);
	} while (from && ++n_calls < 100);
	assert_int_equal(after, N_TARGETS);
}

/* It was heard of, and its agent removed it before it was looked at. */
static void learn__of_a_region_that_is_gone_owns_nothing(void **state)
{
	struct script_fixture *f = *state;

	start_a(f);
	freeReplyObject(script_run(f, &compat_scripts[COMPAT_PEER_LEARN], "",
				   "0|s:mr:a:kv|s:exchange:a:p"));
	assert_int_equal(test_redis_do(&f->redis, "EXISTS nanoctrl:owned:1:sa"), 0);
	test_redis_do(&f->redis, "SET s:mr:a:kv {}");
	freeReplyObject(script_run(f, &compat_scripts[COMPAT_PEER_LEARN], "",
				   "0|s:mr:a:kv|s:exchange:a:p"));
	assert_int_equal(test_redis_do(&f->redis, "SCARD nanoctrl:owned:1:sa"), 1);
}

/* ---- pages of what agents own ---- */

#define TEST(name) cmocka_unit_test_setup_teardown(name, script_setup, script_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(cleanup__leaves_who_takes_the_name_between_two_batches),
		TEST(cleanup__leaves_who_takes_the_name_elsewhere),
		TEST(cleanup__that_another_one_ended_tells_nobody_again),
		TEST(cleanup__of_one_whom_very_many_named_tells_them_in_batches),
		TEST(cleanup__of_who_took_the_name_elsewhere_tells_the_rest_of_the_formers),
		TEST(cleanup__leaves_targets_that_come_between_two_batches),
		TEST(start__of_one_whom_very_many_named_asks_them_in_batches),
		TEST(topology__of_many_goes_in_batches),
		TEST(learn__of_very_many_targets_goes_in_batches),
		TEST(learn__of_a_region_that_is_gone_owns_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
