/* SPDX-License-Identifier: Apache-2.0 */
/* Deadlines, from the timeouts that callers give. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/clock.h"

static void deadline__of_a_negative_timeout_is_never(void **state)
{
	(void)state;
	assert_true(sl_deadline_ns(-1) == SL_NEVER);
	assert_true(sl_deadline_ns(INT64_MIN) == SL_NEVER);
}

static void deadline__is_so_far_away_as_the_timeout_says(void **state)
{
	static const int64_t timeouts[] = { 0, 1, 999, 1000, 86400000, SL_TIMEOUT_MAX_MS };

	(void)state;
	for (size_t i = 0; i < sizeof(timeouts) / sizeof(timeouts[0]); i++) {
		uint64_t begin = sl_clock_ns(), deadline = sl_deadline_ns(timeouts[i]);

		assert_true(deadline >= begin + (uint64_t)timeouts[i] * SL_NS_PER_MS);
		assert_true(deadline != SL_NEVER);
	}
}

/* Who says "as long as it takes" with the largest number there is does not wait for no time. */
static void deadline__too_far_to_be_counted_is_never(void **state)
{
	(void)state;
	assert_true(sl_deadline_ns(SL_TIMEOUT_MAX_MS + 1) == SL_NEVER);
	assert_true(sl_deadline_ns(INT64_MAX / 1000000) == SL_NEVER);
	assert_true(sl_deadline_ns(INT64_MAX) == SL_NEVER);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(deadline__of_a_negative_timeout_is_never),
		cmocka_unit_test(deadline__is_so_far_away_as_the_timeout_says),
		cmocka_unit_test(deadline__too_far_to_be_counted_is_never),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
