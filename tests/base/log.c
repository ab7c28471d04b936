/* SPDX-License-Identifier: Apache-2.0 */
/* Lines that strangers provoke. */
#include "base/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#define BURST	 3
#define INTERVAL 3600000 /* it does not pass by itself */

static unsigned n_allowed(struct sl_log_limit *limit, unsigned n_lines)
{
	unsigned n = 0;

	for (unsigned i = 0; i < n_lines; i++) {
		uint32_t held_back;

		n += sl_log_allow(limit, &held_back);
		assert_int_equal(held_back, 0);
	}
	return n;
}

static void end_interval(struct sl_log_limit *limit)
{
	limit->next_ns = 0;
}

static void log_allow__lets_a_burst_pass_in_an_interval(void **state)
{
	struct sl_log_limit limit = SL_LOG_LIMIT_INIT(BURST, INTERVAL);

	(void)state;
	assert_int_equal(n_allowed(&limit, 10 * BURST), BURST);
}

static void log_allow__says_in_the_next_interval_how_many_were_held_back(void **state)
{
	struct sl_log_limit limit = SL_LOG_LIMIT_INIT(BURST, INTERVAL);
	uint32_t held_back;

	(void)state;
	n_allowed(&limit, BURST + 5);
	end_interval(&limit);
	assert_true(sl_log_allow(&limit, &held_back));
	assert_int_equal(held_back, 5);
	/* It was the first of this interval's burst. */
	assert_int_equal(n_allowed(&limit, 10), BURST - 1);
}

static void log_allow__after_a_silence_has_nothing_to_tell(void **state)
{
	struct sl_log_limit limit = SL_LOG_LIMIT_INIT(BURST, INTERVAL);

	(void)state;
	assert_int_equal(n_allowed(&limit, BURST), BURST);
	end_interval(&limit);
	assert_int_equal(n_allowed(&limit, 1), 1);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(log_allow__lets_a_burst_pass_in_an_interval),
		cmocka_unit_test(log_allow__says_in_the_next_interval_how_many_were_held_back),
		cmocka_unit_test(log_allow__after_a_silence_has_nothing_to_tell),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
