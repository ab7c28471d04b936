/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "base/clock.h"
#include "peeragent/lib/plan/outage.h"

#define REMIND_NS (OUTAGE_REMIND_MS * SL_NS_PER_MS)

static void note__of_a_reason_is_new_once(void **state)
{
	struct outage o = { 0 };

	(void)state;
	assert_int_equal(outage_note(&o, "refused", 1), OUTAGE_NEW);
	for (uint64_t now = 2; now < 100; now++)
		assert_int_equal(outage_note(&o, "refused", now), OUTAGE_KNOWN);
}

static void note__of_another_reason_is_new(void **state)
{
	struct outage o = { 0 };

	(void)state;
	assert_int_equal(outage_note(&o, "refused", 1), OUTAGE_NEW);
	assert_int_equal(outage_note(&o, "silent", 2), OUTAGE_NEW);
}

static void note__of_reasons_that_take_turns_has_each_once(void **state)
{
	struct outage o = { 0 };

	(void)state;
	outage_note(&o, "refused", 1);
	outage_note(&o, "b: refused", 2);
	for (uint64_t now = 3; now < 100; now++)
		assert_int_equal(outage_note(&o, now % 2 ? "refused" : "b: refused", now),
				 OUTAGE_KNOWN);
}

/* As where a number is in each of them. */
static void note__of_ever_new_reasons_ends_to_be_new(void **state)
{
	struct outage o = { 0 };
	unsigned n_new = 0;

	(void)state;
	for (unsigned i = 1; i <= 1000; i++) {
		char reason[32];

		snprintf(reason, sizeof(reason), "port %u refused", i);
		n_new += outage_note(&o, reason, i) == OUTAGE_NEW;
	}
	assert_int_equal(n_new, OUTAGE_REASONS_MAX);
}

static void note__of_what_lasts_comes_again_now_and_then(void **state)
{
	struct outage o = { 0 };

	(void)state;
	outage_note(&o, "refused", 1);
	assert_int_equal(outage_note(&o, "refused", REMIND_NS), OUTAGE_KNOWN);
	assert_int_equal(outage_note(&o, "refused", REMIND_NS + 1), OUTAGE_LASTS);
	assert_int_equal(outage_note(&o, "refused", REMIND_NS + 2), OUTAGE_KNOWN);
	assert_int_equal(outage_note(&o, "silent", REMIND_NS + 3), OUTAGE_NEW);
	assert_int_equal(outage_note(&o, "silent", 2 * REMIND_NS + 2), OUTAGE_KNOWN);
	assert_int_equal(outage_note(&o, "silent", 2 * REMIND_NS + 3), OUTAGE_LASTS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(note__of_a_reason_is_new_once),
		cmocka_unit_test(note__of_another_reason_is_new),
		cmocka_unit_test(note__of_reasons_that_take_turns_has_each_once),
		cmocka_unit_test(note__of_ever_new_reasons_ends_to_be_new),
		cmocka_unit_test(note__of_what_lasts_comes_again_now_and_then),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
