/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/selector.h"

static void slip__is_nothing_in_a_selector_that_can_match(void **state)
{
	static const char *const fine[] = {
		"role=decode", "role=decode,zone=a", "name=node-a", "role=", "k=a=b", "",
		"role=a b",    "role=it's"
	};

	(void)state;
	for (size_t i = 0; i < sizeof(fine) / sizeof(*fine); i++)
		assert_null(sl_selector_slip(fine[i]));
}

static void slip__is_said_in_words(void **state)
{
	static const struct {
		const char *selector, *word;
	} slips[] = {
		{ "role==decode", "single =" },		{ "role=~dec.*", "single =" },
		{ "role = decode", "blanks" },		{ "role= decode", "blanks" },
		{ "role=decode ", "blanks" },		{ "zone=a, role=x", "blanks" },
		{ "role=\"decode\"", "quotes" },	{ "role='decode'", "quotes" },
		{ "role=a,role=b", "each label once" }, { "a=1,b=2,a=1", "each label once" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(slips) / sizeof(*slips); i++) {
		const char *said = sl_selector_slip(slips[i].selector);

		assert_non_null(said);
		assert_non_null(strstr(said, slips[i].word));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slip__is_nothing_in_a_selector_that_can_match),
		cmocka_unit_test(slip__is_said_in_words),
	};

	return cmocka_run_group_tests_name("selector", tests, NULL, NULL);
}
