/* SPDX-License-Identifier: Apache-2.0 */
/* Long lists are read in batches, each a script of its own, and others come in between. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/nanoctrl/store/script_fixture.h"
#include "store/store.h"

/* Agents with so many regions each, whose descriptors are as long. */
static void make_regions(struct script_fixture *f, int n_agents, int n_regions, int len)
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

/* How many are in the batch of a list at rest, which is what follows then: "" nothing does. */
typedef unsigned long long read_fn(struct script_fixture *f, char rest[64]);

/* Of each batch that many; how many batches they are. */
static int count_batches(struct script_fixture *f, read_fn *read, unsigned long long n_all,
			 unsigned long long least, unsigned long long most)
{
	unsigned long long n = 0, n_here;
	char rest[64] = "";
	int n_batches = 0;

	do {
		n_here = read(f, rest);
		assert_in_range(n_here, least, most);
		n += n_here;
		n_batches++;
	} while (*rest);
	assert_int_equal(n, n_all);
	return n_batches;
}

static unsigned long long read_page(struct script_fixture *f, char rest[64])
{
	unsigned long long n;
	redisReply *r;
	char args[128];

	snprintf(args, sizeof(args), "region||%s|500|80000000|||", rest);
	r = script_run(f, &scripts[SCRIPT_OBJECTS], "{s}:nanoctrl:", args);
	n = r->element[6]->elements;
	snprintf(rest, 64, "%s", r->element[4]->str);
	freeReplyObject(r);
	return n;
}

static void list__of_very_many_regions_is_several_pages(void **state)
{
	make_regions(*state, 50, 100, 1);
	assert_in_range(count_batches(*state, read_page, 5000, 1, 1024 + 100), 4, 6);
}

/* None of which is in the answer. */
static void list__of_regions_with_long_descriptors_is_several_pages(void **state)
{
	make_regions(*state, 40, 8, 65536);
	assert_in_range(count_batches(*state, read_page, 320, 1, 64 + 8), 4, 6);
}

/* A batch of the objects of a100, whose generation is 100; where to go on is in rest, "" at the
 * end. */
static unsigned long long read_batch(struct script_fixture *f, char rest[64])
{
	redisReply *r, *left;
	unsigned long long n;
	char args[128];

	snprintf(args, sizeof(args), "region|a100||1|80000000||%s", *rest ? rest : "|");
	r = script_run(f, &scripts[SCRIPT_OBJECTS], "{s}:nanoctrl:", args);
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

static void list__of_one_with_very_many_regions_is_several_batches(void **state)
{
	make_regions(*state, 1, 4096, 1);
	assert_in_range(count_batches(*state, read_batch, 4096, 0, 1024 + STEP_MAX), 4, 5);
}

static void list__of_one_with_long_descriptors_is_several_batches(void **state)
{
	make_regions(*state, 1, 300, 65536);
	assert_in_range(count_batches(*state, read_batch, 300, 0, 16 + STEP_MAX), 8, 19);
}

/* It is read on in the generation in which that began, or not. */
static void list__of_one_that_started_anew_does_not_go_on(void **state)
{
	struct script_fixture *f = *state;
	const struct script *script = &scripts[SCRIPT_OBJECTS];
	char rest[64] = "", *place;

	make_regions(f, 1, 2000, 1);
	read_batch(f, rest);
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
static void make_offers(struct script_fixture *f, int n, int len)
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

static unsigned long long read_offers(struct script_fixture *f, char rest[64])
{
	unsigned long long n;
	redisReply *r;
	char args[128];

	snprintf(args, sizeof(args), "b|8|x|%s", rest);
	r = script_run(f, &scripts[SCRIPT_OFFER_LIST], "{s}:nanoctrl:", args);
	n = r->element[3]->elements;
	snprintf(rest, 64, "%s", r->element[4]->str);
	freeReplyObject(r);
	return n;
}

static void list__of_very_many_offers_is_several_batches(void **state)
{
	make_offers(*state, 4096, 1);
	assert_in_range(count_batches(*state, read_offers, 4096, 0, 1024 + STEP_MAX), 4, 5);
}

static void list__of_long_offers_is_several_batches(void **state)
{
	make_offers(*state, 300, 65536);
	assert_in_range(count_batches(*state, read_offers, 300, 0, 16 + STEP_MAX), 8, 19);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, script_setup, script_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(list__of_very_many_regions_is_several_pages),
		TEST(list__of_regions_with_long_descriptors_is_several_pages),
		TEST(list__of_one_with_very_many_regions_is_several_batches),
		TEST(list__of_one_with_long_descriptors_is_several_batches),
		TEST(list__of_one_that_started_anew_does_not_go_on),
		TEST(list__of_very_many_offers_is_several_batches),
		TEST(list__of_long_offers_is_several_batches),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
