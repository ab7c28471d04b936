/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "bench/load/pattern.h"

#define LEN 203 /* ends inside a word */

static uint64_t wrong;

static void check__of_what_fill_wrote_is_right(void **state)
{
	uint8_t bytes[LEN];

	(void)state;
	load_pattern_fill(bytes, LEN, 1, 64);
	assert_true(load_pattern_check(bytes, LEN, 1, 64, &wrong));
	assert_true(load_pattern_check(bytes, 0, 1, 64, &wrong));
}

static void check__of_a_part_knows_where_it_lies(void **state)
{
	uint8_t bytes[LEN];

	(void)state;
	load_pattern_fill(bytes, LEN, 1, 0);
	assert_true(load_pattern_check(bytes + 80, 100, 1, 80, &wrong));
	assert_false(load_pattern_check(bytes + 80, 100, 1, 88, &wrong));
}

static void check__with_any_one_byte_changed_names_it(void **state)
{
	uint8_t bytes[LEN];

	(void)state;
	load_pattern_fill(bytes, LEN, 2, 8);
	for (uint64_t i = 0; i < LEN; i++) {
		bytes[i] ^= 0x10;
		wrong = UINT64_MAX;
		assert_false(load_pattern_check(bytes, LEN, 2, 8, &wrong));
		assert_int_equal(wrong, i);
		bytes[i] ^= 0x10;
	}
}

static void check__of_another_seed_or_of_poison_is_wrong(void **state)
{
	uint8_t bytes[LEN];

	(void)state;
	load_pattern_fill(bytes, LEN, 3, 0);
	assert_false(load_pattern_check(bytes, LEN, 4, 0, &wrong));
	load_pattern_poison(bytes, LEN);
	assert_false(load_pattern_check(bytes, LEN, 3, 0, &wrong));
}

static void fill__of_a_part_of_a_word_stays_inside(void **state)
{
	uint8_t bytes[16];

	(void)state;
	memset(bytes, 0x55, sizeof(bytes));
	load_pattern_fill(bytes, 3, 5, 0);
	for (size_t i = 3; i < sizeof(bytes); i++)
		assert_int_equal(bytes[i], 0x55);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(check__of_what_fill_wrote_is_right),
		cmocka_unit_test(check__of_a_part_knows_where_it_lies),
		cmocka_unit_test(check__with_any_one_byte_changed_names_it),
		cmocka_unit_test(check__of_another_seed_or_of_poison_is_wrong),
		cmocka_unit_test(fill__of_a_part_of_a_word_stays_inside),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
