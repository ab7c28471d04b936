/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>

#include "bench/rounds/ticks.h"

#define SPAN_NS (50 * SL_NS_PER_MS)

/* The looks at one clock stand within those at the other, so that an interruption between them
 * makes only the outer span longer. */
static void ticks_ns__goes_as_fast_as_the_clock(void **state)
{
	uint64_t outer, clock, inner, clock_ns, ticks_inner, ticks_outer;

	(void)state;
	ticks_start();
	outer = ticks_ns();
	clock = sl_clock_ns();
	inner = ticks_ns();
	while (sl_clock_ns() - clock < SPAN_NS)
		;
	ticks_inner = ticks_ns() - inner;
	clock_ns = sl_clock_ns() - clock;
	ticks_outer = ticks_ns() - outer;
	assert_true(ticks_inner <= clock_ns + clock_ns / 100);
	assert_true(ticks_outer >= clock_ns - clock_ns / 100);
}

/* Whoever compares one with the other compares times. */
static void ticks_ns__is_the_time_of_the_clock(void **state)
{
	uint64_t before, now, after;

	(void)state;
	ticks_start();
	before = sl_clock_ns();
	now = ticks_ns();
	after = sl_clock_ns();
	assert_in_range(now, before - SL_NS_PER_MS, after + SL_NS_PER_MS);
}

static void ticks_check__sees_a_counter_of_another_speed(void **state)
{
	double right;

	(void)state;
	ticks_start();
	right = ticks.ns;
	assert_int_equal(ticks_check(), 0);
	ticks.ns = right * 1.5;
	assert_int_equal(ticks_check(), -ERANGE);
	ticks.ns = right / 1.5;
	assert_int_equal(ticks_check(), -ERANGE);
	ticks.ns = right;
}

static void ticks_start__again_changes_nothing(void **state)
{
	struct ticks first;

	(void)state;
	ticks_start();
	first = ticks;
	ticks_start();
	assert_int_equal(first.begin, ticks.begin);
	assert_memory_equal(&first.ns, &ticks.ns, sizeof(first.ns));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ticks_ns__goes_as_fast_as_the_clock),
		cmocka_unit_test(ticks_ns__is_the_time_of_the_clock),
		cmocka_unit_test(ticks_check__sees_a_counter_of_another_speed),
		cmocka_unit_test(ticks_start__again_changes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
