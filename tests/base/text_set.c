/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text_set.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

static void add__says_whether_a_text_is_new(void **state)
{
	struct text_set s = { .seed = 7 };

	(void)state;
	assert_int_equal(text_set_add(&s, "ab", 2), 1);
	assert_int_equal(text_set_add(&s, "ab", 2), 0);
	assert_int_equal(text_set_add(&s, "abc", 2), 0);
	assert_int_equal(text_set_add(&s, "abc", 3), 1);
	assert_int_equal(text_set_add(&s, "a\0c", 3), 1);
	assert_int_equal(text_set_add(&s, "a\0d", 3), 1);
	assert_int_equal(text_set_add(&s, "", 0), 1);
	assert_int_equal(text_set_add(&s, NULL, 0), 0);
	text_set_fini(&s);
}

static void add__of_very_many_keeps_each(void **state)
{
	struct text_set s = { .seed = 7 };
	char text[16];

	(void)state;
	for (int round = 0; round < 2; round++)
		for (int i = 0; i < 10000; i++)
			assert_int_equal(
				text_set_add(&s, text,
					     (size_t)snprintf(text, sizeof(text), "n%d", i)),
				round == 0);
	text_set_fini(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(add__says_whether_a_text_is_new),
		cmocka_unit_test(add__of_very_many_keeps_each),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
