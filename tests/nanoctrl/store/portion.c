/* SPDX-License-Identifier: Apache-2.0 */
/* What is much goes in portions, each a script of its own, and others come in between. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <hiredis/hiredis.h>
#include <tests/support/redis.h>
#include "store/script.h"
#include "store/store.h"

#define MOST	  500 /* keys that go, and agents that are told or asked, with one script */
#define N_OWNED	  1201
#define N_NAMERS  1201
#define N_TARGETS 5000

struct fixture {
	struct test_redis redis;
	redisContext *c;
};

static int setup(void **state)
{
	static struct fixture f;

	test_redis_start(&f.redis);
	f.c = redisConnectUnix(f.redis.socket);
	assert_true(f.c && !f.c->err);
	*state = &f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	redisFree(f->c);
	test_redis_stop(&f->redis);
	return 0;
}

/* A script with these arguments behind the number of events, "|" between them, in the scope s; the
 * caller frees the answer. */
static redisReply *run(struct fixture *f, enum script_id id, const char *prefix, const char *args)
{
	const char *argv[64] = { "EVAL", (const char *)scripts[id].text, "1", prefix, "1000" };
	size_t len[64] = { 4, scripts[id].len, 1, strlen(prefix), 4 };
	char text[4096];
	redisReply *r;
	int n = 5;

	snprintf(text, sizeof(text), "%s", args);
	for (char *at = text, *end; at; at = end ? end + 1 : NULL) {
		end = strchr(at, '|');
		assert_in_range(n, 5, 63);
		argv[n] = at;
		len[n++] = end ? (size_t)(end - at) : strlen(at);
	}
	r = redisCommandArgv(f->c, n, argv, len);
	assert_non_null(r);
	if (r->type != REDIS_REPLY_ARRAY)
		fail_msg("%s: %s", scripts[id].name, r->str ? r->str : "no array");
	assert_int_equal(r->element[0]->integer, STORE_OK);
	return r;
}

/* What stands behind how much was skipped; the text of it, or its digits. */
static const char *run_for(struct fixture *f, enum script_id id, const char *prefix,
			   const char *args)
{
	static char answer[64];
	redisReply *r = run(f, id, prefix, args);
	const redisReply *e = r->elements > 3 ? r->element[3] : NULL;

	if (e && e->type == REDIS_REPLY_INTEGER)
		snprintf(answer, sizeof(answer), "%lld", e->integer);
	else
		snprintf(answer, sizeof(answer), "%s", e ? e->str : "");
	freeReplyObject(r);
	return answer;
}

static const char *clean(struct fixture *f, const char *rest)
{
	char args[96];

	snprintf(args, sizeof(args), "s|a|%s", rest);
	return run_for(f, SCRIPT_PEER_CLEANUP, "s:", args);
}

static void start_a(struct fixture *f)
{
	while (*run_for(f, SCRIPT_PEER_REGISTER, "s:", "s|a|1|agent|60000|addr|x"))
		;
}

static void give_much(struct fixture *f)
{
	test_redis_do(&f->redis, "EVAL %s 0 %d",
		      "for i = 1, ARGV[1] do redis.call('SET', 's:mr:a:' .. i, '{}') "
		      "redis.call('SADD', 'nanoctrl:owned:1:sa', 's:mr:a:' .. i) end return 0",
		      N_OWNED);
}

/* ---- the end of an agent ---- */

/* It has nothing of the former. */
static void cleanup__leaves_who_takes_the_name_between_two_portions(void **state)
{
	struct fixture *f = *state;
	char rest[64];

	start_a(f);
	give_much(f);
	snprintf(rest, sizeof(rest), "%s", clean(f, ""));
	assert_int_not_equal(*rest, '\0');
	start_a(f);
	assert_int_equal(test_redis_do(&f->redis, "KEYS s:mr:a:*"), 0);
	freeReplyObject(run(f, SCRIPT_PEER_MR_PUT, "s:", "s|a|kv|{}"));
	assert_string_equal(clean(f, rest), "");
	assert_int_equal(test_redis_do(&f->redis, "EXISTS s:agent:a s:mr:a:kv"), 2);
}

/* It wrote itself to Redis, and nobody has heard of it yet. */
static void cleanup__leaves_who_takes_the_name_elsewhere(void **state)
{
	struct fixture *f = *state;
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
	struct fixture *f = *state;
	char rest[64];
	const char *other;

	start_a(f);
	give_much(f);
	freeReplyObject(run(f, SCRIPT_PEER_TOPOLOGY, "s:", "s|a|0|{}|p"));
	snprintf(rest, sizeof(rest), "%s", clean(f, ""));
	for (other = clean(f, rest); *other; other = clean(f, other))
		;
	assert_string_equal(clean(f, rest), "");
	assert_int_equal(test_redis_do(&f->redis, "LLEN s:inbox:p"), 1);
}

static void name_a(struct fixture *f)
{
	test_redis_do(&f->redis, "EVAL %s 0 %d",
		      "for i = 1, ARGV[1] do redis.call('HSET', 's:agent:n' .. i, 'addr', 'x') "
		      "redis.call('SADD', 'nanoctrl:named:1:sa', 'n' .. i) end return 0",
		      N_NAMERS);
}

static long long sum(struct fixture *f, const char *command, const char *key)
{
	return test_redis_do(&f->redis, "EVAL %s 0 %d %s %s",
			     "local n = 0 for i = 1, ARGV[1] do "
			     "n = n + redis.call(ARGV[2], ARGV[3] .. i) end return n",
			     N_NAMERS, command, key);
}

static void cleanup__of_one_whom_very_many_named_tells_them_in_portions(void **state)
{
	struct fixture *f = *state;
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
	struct fixture *f = *state;
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
static void cleanup__leaves_targets_that_come_between_two_portions(void **state)
{
	struct fixture *f = *state;
	char rest[64] = "";

	start_a(f);
	name_a(f);
	snprintf(rest, sizeof(rest), "%s", clean(f, rest));
	freeReplyObject(run(f, SCRIPT_PEER_TOPOLOGY, "s:", "s|a|0|{}|p"));
	while (*rest)
		snprintf(rest, sizeof(rest), "%s", clean(f, rest));
	assert_int_equal(test_redis_do(&f->redis, "EXISTS s:spec:topology:a s:stream:a "
						  "nanoctrl:targets:1:sa nanoctrl:peers:s"),
			 4);
}

/* ---- who comes back ---- */

static const char *sweep(struct fixture *f)
{
	redisReply *t = redisCommand(f->c, "TIME");
	char args[32];

	snprintf(args, sizeof(args), "%s500", t->element[0]->str);
	freeReplyObject(t);
	return run_for(f, SCRIPT_PEER_SWEEP, "", args);
}

static void start__of_one_whom_very_many_named_asks_them_in_portions(void **state)
{
	struct fixture *f = *state;
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

static void topology__of_many_goes_in_portions(void **state)
{
	struct fixture *f = *state;
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
	n_done = atoi(run_for(f, SCRIPT_PEER_TOPOLOGY, "s:", args));
	assert_in_range(n_done, 1, 9);
	assert_int_equal(test_redis_do(&f->redis, "XLEN s:stream:me"), n_done);
	/* The list is there, and stays. */
	assert_int_equal(test_redis_do(&f->redis, "STRLEN s:spec:topology:me"),
			 (long long)strlen("{\"target_peers\":[]}"));
	snprintf(rest, sizeof(rest), "s|me|1||%s", strstr(args, "|t9|") + 1);
	assert_int_equal(atoi(run_for(f, SCRIPT_PEER_TOPOLOGY, "s:", rest)), 21);
	assert_int_equal(test_redis_do(&f->redis, "STRLEN s:spec:topology:me"),
			 (long long)strlen("{\"target_peers\":[]}"));
}

/* ---- what others wrote ---- */

static void learn__of_very_many_targets_goes_in_portions(void **state)
{
	struct fixture *f = *state;
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
		r = run(f, SCRIPT_PEER_LEARN, "", args);
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
	struct fixture *f = *state;

	start_a(f);
	freeReplyObject(run(f, SCRIPT_PEER_LEARN, "", "0|s:mr:a:kv|s:exchange:a:p"));
	assert_int_equal(test_redis_do(&f->redis, "EXISTS nanoctrl:owned:1:sa"), 0);
	test_redis_do(&f->redis, "SET s:mr:a:kv {}");
	freeReplyObject(run(f, SCRIPT_PEER_LEARN, "", "0|s:mr:a:kv|s:exchange:a:p"));
	assert_int_equal(test_redis_do(&f->redis, "SCARD nanoctrl:owned:1:sa"), 1);
}

/* ---- pages of what agents own ---- */

/* Agents with so many regions each, whose descriptors are as long. */
static void make_regions(struct fixture *f, int n_agents, int n_regions, int len)
{
	test_redis_do(
		&f->redis, "EVAL %s 0 %d %d %d",
		"local p = '{s}:nanoctrl:' for i = 100, 99 + ARGV[1] do "
		"redis.call('HSET', p .. 'agent:4:a' .. i, 'generation', i, 'incarnation', 'i') "
		"redis.call('ZADD', p .. 'names', 0, 'a' .. i) for r = 1, ARGV[2] do "
		"redis.call('HSET', p .. 'region:' .. i, 'r' .. r, "
		"'1 1 2\\n{}' .. string.rep('x', ARGV[3])) end end return 0",
		n_agents, n_regions, len);
}

/* How many are in the portion of a list at rest, which is what follows then: "" nothing does. */
typedef unsigned long long read_fn(struct fixture *f, char rest[64]);

/* Of each portion that many; how many portions they are. */
static int count_portions(struct fixture *f, read_fn *read, unsigned long long n_all,
			  unsigned long long least, unsigned long long most)
{
	unsigned long long n = 0, n_here;
	char rest[64] = "";
	int n_portions = 0;

	do {
		n_here = read(f, rest);
		assert_in_range(n_here, least, most);
		n += n_here;
		n_portions++;
	} while (*rest);
	assert_int_equal(n, n_all);
	return n_portions;
}

static unsigned long long read_page(struct fixture *f, char rest[64])
{
	unsigned long long n;
	redisReply *r;
	char args[128];

	snprintf(args, sizeof(args), "region||%s|500|80000000|||", rest);
	r = run(f, SCRIPT_OBJECTS, "{s}:nanoctrl:", args);
	n = r->element[6]->elements;
	snprintf(rest, 64, "%s", r->element[4]->str);
	freeReplyObject(r);
	return n;
}

static void list__of_very_many_regions_is_several_pages(void **state)
{
	make_regions(*state, 50, 100, 1);
	assert_in_range(count_portions(*state, read_page, 5000, 1, 1024 + 100), 4, 6);
}

/* None of which is in the answer. */
static void list__of_regions_with_long_descriptors_is_several_pages(void **state)
{
	make_regions(*state, 40, 8, 65536);
	assert_in_range(count_portions(*state, read_page, 320, 1, 64 + 8), 4, 6);
}

/* A portion of the objects of a100, whose generation is 100; where to go on is in rest, "" at the
 * end. */
static unsigned long long read_portion(struct fixture *f, char rest[64])
{
	redisReply *r, *left;
	unsigned long long n;
	char args[128];

	snprintf(args, sizeof(args), "region|a100||1|80000000||%s", *rest ? rest : "|");
	r = run(f, SCRIPT_OBJECTS, "{s}:nanoctrl:", args);
	n = r->element[6]->elements;
	left = r->element[8];
	*rest = '\0';
	if (left->elements) {
		assert_int_equal(left->elements, 3);
		assert_string_equal(left->element[0]->str, "a100");
		snprintf(rest, 64, "%s|%s", left->element[1]->str, left->element[2]->str);
	}
	freeReplyObject(r);
	return n;
}

/* A step of a scan has some more than it is asked for. */
#define STEP_MAX 64

static void list__of_one_with_very_many_regions_is_several_portions(void **state)
{
	make_regions(*state, 1, 4096, 1);
	assert_in_range(count_portions(*state, read_portion, 4096, 0, 1024 + STEP_MAX), 4, 5);
}

static void list__of_one_with_long_descriptors_is_several_portions(void **state)
{
	make_regions(*state, 1, 300, 65536);
	assert_in_range(count_portions(*state, read_portion, 300, 0, 16 + STEP_MAX), 8, 19);
}

/* It is read on in the generation in which that began, or not. */
static void list__of_one_that_started_anew_does_not_go_on(void **state)
{
	struct fixture *f = *state;
	const struct script *script = &scripts[SCRIPT_OBJECTS];
	char rest[64] = "", *place;

	make_regions(f, 1, 2000, 1);
	read_portion(f, rest);
	place = strchr(rest, '|');
	assert_non_null(place);
	test_redis_do(&f->redis, "HSET {s}:nanoctrl:agent:4:a100 generation 101");
	assert_int_equal(test_redis_do(&f->redis,
				       "EVAL %b 1 {s}:nanoctrl: 1000 region a100 %s 1 80000000 %s "
				       "100 %s",
				       script->text, script->len, "", "", place + 1),
			 1);
}

/* ---- what is there for an agent ---- */

/* b is registered, and so many others have posted as long descriptors for it. */
static void make_offers(struct fixture *f, int n, int len)
{
	test_redis_do(&f->redis, "EVAL %s 0 %d %d",
		      "local p = '{s}:nanoctrl:' redis.call('HSET', p .. 'agent:1:b', "
		      "'generation', 7, 'incarnation', 'i', 'lease', 8, 'secret', 'x') "
		      "for i = 1000, 999 + ARGV[1] do "
		      "redis.call('HSET', p .. 'agent:5:a' .. i, 'generation', i) "
		      "redis.call('HSET', p .. 'inbox:7', 'a' .. i .. '/default', "
		      "'1 ' .. i .. ' i 7 i\\n' .. string.rep('x', ARGV[2])) end return 0",
		      n, len);
}

static unsigned long long read_offers(struct fixture *f, char rest[64])
{
	unsigned long long n;
	redisReply *r;
	char args[128];

	snprintf(args, sizeof(args), "b|8|x|%s", rest);
	r = run(f, SCRIPT_OFFER_LIST, "{s}:nanoctrl:", args);
	n = r->element[3]->elements;
	snprintf(rest, 64, "%s", r->element[4]->str);
	freeReplyObject(r);
	return n;
}

static void list__of_very_many_offers_is_several_portions(void **state)
{
	make_offers(*state, 4096, 1);
	assert_in_range(count_portions(*state, read_offers, 4096, 0, 1024 + STEP_MAX), 4, 5);
}

static void list__of_long_offers_is_several_portions(void **state)
{
	make_offers(*state, 300, 65536);
	assert_in_range(count_portions(*state, read_offers, 300, 0, 16 + STEP_MAX), 8, 19);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(cleanup__leaves_who_takes_the_name_between_two_portions),
		TEST(cleanup__leaves_who_takes_the_name_elsewhere),
		TEST(cleanup__that_another_one_ended_tells_nobody_again),
		TEST(cleanup__of_one_whom_very_many_named_tells_them_in_portions),
		TEST(cleanup__of_who_took_the_name_elsewhere_tells_the_rest_of_the_formers),
		TEST(cleanup__leaves_targets_that_come_between_two_portions),
		TEST(start__of_one_whom_very_many_named_asks_them_in_portions),
		TEST(topology__of_many_goes_in_portions),
		TEST(learn__of_very_many_targets_goes_in_portions),
		TEST(learn__of_a_region_that_is_gone_owns_nothing),
		TEST(list__of_very_many_regions_is_several_pages),
		TEST(list__of_regions_with_long_descriptors_is_several_pages),
		TEST(list__of_one_with_very_many_regions_is_several_portions),
		TEST(list__of_one_with_long_descriptors_is_several_portions),
		TEST(list__of_one_that_started_anew_does_not_go_on),
		TEST(list__of_very_many_offers_is_several_portions),
		TEST(list__of_long_offers_is_several_portions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
