/* SPDX-License-Identifier: Apache-2.0 */
#include "nanoctrl/net/busy_poll.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#define LIMIT  (100 * SL_NS_PER_US)
#define OFTEN  (50 * SL_NS_PER_US)
#define MOMENT SL_NS_PER_US
#define MANY   200 /* finds: more than any mean remembers */

struct loop {
	struct busy_poll poll;
	uint64_t now;
};

static void start(struct loop *l, uint64_t limit)
{
	l->now = SL_NS_PER_S;
	busy_poll_init(&l->poll, limit, l->now);
}

/* Something is found after that time; whether it looks again at once. */
static bool find(struct loop *l, uint64_t after)
{
	l->now += after;
	return busy_poll_again(&l->poll, l->now, true);
}

static bool look_in_vain(struct loop *l, uint64_t after)
{
	l->now += after;
	return busy_poll_again(&l->poll, l->now, false);
}

static void find_many(struct loop *l, uint64_t period)
{
	for (int i = 0; i < MANY; i++)
		find(l, period);
}

static void looked__first_finds_and_it_sleeps(void **state)
{
	struct loop l;

	(void)state;
	start(&l, LIMIT);
	for (int i = 0; i < 8; i++)
		assert_false(find(&l, OFTEN));
}

static void looked__finds_come_often_and_it_looks_on_for_the_limit(void **state)
{
	struct loop l;

	(void)state;
	start(&l, LIMIT);
	find_many(&l, OFTEN);
	assert_true(find(&l, OFTEN));
	for (uint64_t t = MOMENT; t < LIMIT; t += MOMENT)
		assert_true(look_in_vain(&l, MOMENT));
	assert_false(look_in_vain(&l, MOMENT));
	/* What wakes it soon after is followed again. */
	assert_true(find(&l, OFTEN));
}

static void looked__finds_come_rarely_and_it_sleeps(void **state)
{
	struct loop l;

	(void)state;
	start(&l, LIMIT);
	find_many(&l, 2 * BUSY_POLL_OFTEN_NS);
	assert_false(find(&l, 2 * BUSY_POLL_OFTEN_NS));
	/* Also where two are close together each time: a request, and Redis' answer. */
	start(&l, LIMIT);
	for (int i = 0; i < MANY; i++) {
		assert_false(find(&l, OFTEN));
		assert_false(find(&l, 1000 * SL_NS_PER_US));
	}
}

static void looked__pause_after_often_and_it_looks_on_again_after_some_finds(void **state)
{
	struct loop l;
	int n = 0;

	(void)state;
	start(&l, LIMIT);
	find_many(&l, OFTEN);
	find(&l, 3600 * SL_NS_PER_S);
	while (!find(&l, OFTEN))
		n++;
	assert_in_range(n, 0, 50);
}

static void looked__cpu_was_taken_and_it_rests(void **state)
{
	struct loop l;
	uint64_t taken;

	(void)state;
	start(&l, 10 * BUSY_POLL_TAKEN_NS);
	find_many(&l, OFTEN);
	assert_true(look_in_vain(&l, BUSY_POLL_TAKEN_NS - 1));
	assert_false(look_in_vain(&l, BUSY_POLL_TAKEN_NS));
	taken = l.now;
	while (l.now + OFTEN < taken + BUSY_POLL_REST_NS)
		assert_false(find(&l, OFTEN));
	assert_true(find(&l, OFTEN));
}

/* The CPU is taken after it looked on for that long; how long it then rests. */
static uint64_t rests_after(struct loop *l, uint64_t on)
{
	uint64_t taken;

	for (uint64_t end = l->now + on; l->now < end;)
		assert_true(find(l, OFTEN));
	assert_false(look_in_vain(l, BUSY_POLL_TAKEN_NS));
	for (taken = l->now; !find(l, OFTEN);)
		;
	return (l->now - taken) / BUSY_POLL_REST_NS;
}

static void looked__cpu_is_taken_again_and_again_and_it_rests_longer(void **state)
{
	struct loop l;

	(void)state;
	start(&l, 10 * BUSY_POLL_TAKEN_NS);
	find_many(&l, OFTEN);
	for (uint64_t want = 1; want < BUSY_POLL_REST_MAX_NS / BUSY_POLL_REST_NS; want *= 2)
		assert_int_equal(rests_after(&l, BUSY_POLL_REST_NS / 10), want);
	assert_int_equal(rests_after(&l, OFTEN), BUSY_POLL_REST_MAX_NS / BUSY_POLL_REST_NS);
	assert_int_equal(rests_after(&l, OFTEN), BUSY_POLL_REST_MAX_NS / BUSY_POLL_REST_NS);
	/* Not soon. */
	assert_int_equal(rests_after(&l, 2 * BUSY_POLL_REST_MAX_NS), 1);
}

static void looked__long_sleep_is_not_taken_for_a_cpu_that_was(void **state)
{
	struct loop l;

	(void)state;
	start(&l, LIMIT);
	find_many(&l, OFTEN);
	assert_false(look_in_vain(&l, LIMIT));
	find(&l, SL_NS_PER_S);
	find_many(&l, OFTEN);
	assert_true(find(&l, OFTEN));
}

static void vain__counts_looks_without_a_find(void **state)
{
	struct loop l;

	(void)state;
	start(&l, LIMIT);
	find_many(&l, OFTEN);
	assert_int_equal(l.poll.vain_ns, 0);
	look_in_vain(&l, 3 * MOMENT);
	look_in_vain(&l, 2 * MOMENT);
	find(&l, MOMENT);
	assert_int_equal(l.poll.vain_ns, 5 * MOMENT);
	/* Nor what it sleeps. */
	assert_false(look_in_vain(&l, LIMIT));
	find(&l, SL_NS_PER_S);
	assert_int_equal(l.poll.vain_ns, 5 * MOMENT + LIMIT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(looked__first_finds_and_it_sleeps),
		cmocka_unit_test(looked__finds_come_often_and_it_looks_on_for_the_limit),
		cmocka_unit_test(looked__finds_come_rarely_and_it_sleeps),
		cmocka_unit_test(looked__pause_after_often_and_it_looks_on_again_after_some_finds),
		cmocka_unit_test(looked__cpu_was_taken_and_it_rests),
		cmocka_unit_test(looked__cpu_is_taken_again_and_again_and_it_rests_longer),
		cmocka_unit_test(looked__long_sleep_is_not_taken_for_a_cpu_that_was),
		cmocka_unit_test(vain__counts_looks_without_a_find),
	};

	return cmocka_run_group_tests_name("busy_poll", tests, NULL, NULL);
}
