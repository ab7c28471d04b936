/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "peeragent/lib/plan/cause.h"

static void assert_fits(const char *text, size_t cap, const char *expected)
{
	char out[64];

	memset(out, 'x', sizeof(out));
	assert_int_equal(cause_fit(text, out, cap), strlen(expected));
	assert_string_equal(out, expected);
	/* Nothing behind it is touched. */
	for (size_t i = cap; i < sizeof(out); i++)
		assert_int_equal(out[i], 'x');
}

static void cause__that_fits_is_as_it_was(void **state)
{
	(void)state;
	assert_fits("", 1, "");
	assert_fits("no route", 9, "no route");
	assert_fits("rdma: no device; tcp: no route", 31, "rdma: no device; tcp: no route");
}

static void cause__of_one_reason_is_cut(void **state)
{
	(void)state;
	assert_fits("no route", 8, "no r...");
	assert_fits("no route", 4, "no ");
	assert_fits("no route", 1, "");
}

/* What the short one leaves the others have. */
static void cause__of_several_reasons_has_a_part_of_each(void **state)
{
	(void)state;
	assert_fits("not up; rail 0: aaaaaaaa; rail 1: bbbbbbbb", 35,
		    "not up; rail 0: a...; rail 1: b...");
	assert_fits("not up; rail 0: aaaaaaaa; rail 1: bbbbbbbb", 36,
		    "not up; rail 0: a...; rail 1: b...");
}

static void cause__of_more_reasons_than_have_room_is_cut(void **state)
{
	(void)state;
	assert_fits("a; b; c; d", 6, "a;...");
	assert_fits("; ; ; ; ", 4, "; ;");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cause__that_fits_is_as_it_was),
		cmocka_unit_test(cause__of_one_reason_is_cut),
		cmocka_unit_test(cause__of_several_reasons_has_a_part_of_each),
		cmocka_unit_test(cause__of_more_reasons_than_have_room_is_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
