/* SPDX-License-Identifier: Apache-2.0 */
/* When a host that acknowledges nothing is taken for dead. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/clock.h"

#include "src/transport/tcp/tcp.h"

#define TIMEOUT	 2000
#define INTERVAL 500

static void silence__of_a_whole_timeout_lasts(void **state)
{
	uint64_t since = 0;

	(void)state;
	/* Long idle before: the last acknowledgement is old, and no silence. */
	for (uint64_t now = 10000; now < 10000 + TIMEOUT; now += INTERVAL)
		assert_false(tcp_silence_lasts(&since, now, true, now - 1, TIMEOUT));
	assert_true(tcp_silence_lasts(&since, 10000 + TIMEOUT, true, 10000 + TIMEOUT - 1, TIMEOUT));
}

/* Looks and acknowledgements take turns: whoever looks finds data under way and an old
 * acknowledgement, for ever. */
static void silence__ends_with_each_acknowledgement(void **state)
{
	uint64_t since = 0;

	(void)state;
	for (uint64_t now = 10000; now < 100000; now += INTERVAL + 400)
		assert_false(tcp_silence_lasts(&since, now, true, INTERVAL + 300, TIMEOUT));
}

static void silence__without_anything_under_way_is_none(void **state)
{
	uint64_t since = 0;

	(void)state;
	assert_false(tcp_silence_lasts(&since, 10000, true, 9000, TIMEOUT));
	assert_false(tcp_silence_lasts(&since, 11000, false, 10000, TIMEOUT));
	assert_false(tcp_silence_lasts(&since, 12500, true, 11500, TIMEOUT));
	assert_false(tcp_silence_lasts(&since, 14000, true, 13000, TIMEOUT));
	assert_true(tcp_silence_lasts(&since, 14500, true, 13500, TIMEOUT));
}

/* ---- streams without data under way ---- */

#define S  SL_NS_PER_S
#define MS SL_NS_PER_MS

/* Cut off right after an answer at 10 s: probes follow at 11 s and 12 s. */
static void idle__that_answers_no_probe_ends_in_time(void **state)
{
	uint64_t since = 0, look = 12 * S;

	(void)state;
	assert_false(tcp_idle_lasts(&since, 10900 * MS, false, 900 * MS, 2 * S, &look));
	assert_int_equal(look, 12 * S);
	assert_false(tcp_idle_lasts(&since, 11400 * MS, true, 1400 * MS, 2 * S, &look));
	assert_int_equal(look, 12 * S);
	look = 12400 * MS;
	assert_false(tcp_idle_lasts(&since, 11900 * MS, true, 1900 * MS, 2 * S, &look));
	assert_int_equal(look, 12100 * MS);
	assert_true(tcp_idle_lasts(&since, look, true, 2100 * MS, 2 * S, &look));
}

static void idle__that_answered_between_two_looks_goes_on(void **state)
{
	uint64_t since = 0, look = UINT64_MAX;

	(void)state;
	assert_false(tcp_idle_lasts(&since, 11 * S, true, S, 2 * S, &look));
	assert_false(tcp_idle_lasts(&since, 12 * S, true, 900 * MS, 2 * S, &look));
	assert_false(tcp_idle_lasts(&since, 12500 * MS, false, 100 * MS, 2 * S, &look));
	assert_int_equal(since, 0);
}

/* After a standstill of ours everything is old, and the first probe has just left. */
static void idle__of_a_process_that_stood_still_has_time_to_answer(void **state)
{
	uint64_t since = 0, look = UINT64_MAX;

	(void)state;
	assert_false(tcp_idle_lasts(&since, 100 * S, true, 60 * S, 2 * S, &look));
	assert_int_equal(look, 100 * S + 600 * MS);
	assert_true(tcp_idle_lasts(&since, look, true, 60 * S, 2 * S, &look));
}

/* The first probe leaves after a second, and has the timeout to be answered. */
static void idle__with_a_short_timeout_is_probed_before_it_ends(void **state)
{
	uint64_t since = 0, look = UINT64_MAX;

	(void)state;
	assert_false(tcp_idle_lasts(&since, 11 * S, true, S, 300 * MS, &look));
	assert_int_equal(look, 11600 * MS);
	assert_true(tcp_idle_lasts(&since, look, true, 1600 * MS, 300 * MS, &look));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(silence__of_a_whole_timeout_lasts),
		cmocka_unit_test(silence__ends_with_each_acknowledgement),
		cmocka_unit_test(silence__without_anything_under_way_is_none),
		cmocka_unit_test(idle__that_answers_no_probe_ends_in_time),
		cmocka_unit_test(idle__that_answered_between_two_looks_goes_on),
		cmocka_unit_test(idle__of_a_process_that_stood_still_has_time_to_answer),
		cmocka_unit_test(idle__with_a_short_timeout_is_probed_before_it_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
