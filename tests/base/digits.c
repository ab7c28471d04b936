/* SPDX-License-Identifier: Apache-2.0 */
#include "base/digits.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

/* What it writes, and nothing behind it. */
static void check(const char *want, uint64_t n)
{
	char text[DIGITS_MAX + 2];
	size_t len = strlen(want);

	memset(text, 'x', sizeof(text));
	assert_ptr_equal(digits_put(text, n), text + len);
	assert_memory_equal(text, want, len);
	assert_int_equal(text[len], 'x');
}

static void put__writes_what_printf_does(void **state)
{
	char want[DIGITS_MAX + 1];
	uint64_t n = 1;

	(void)state;
	check("0", 0);
	check("18446744073709551615", UINT64_MAX);
	for (int i = 0; i < DIGITS_MAX; i++, n *= 10) {
		for (int more = -1; more <= 1; more++) {
			snprintf(want, sizeof(want), "%" PRIu64, n + (uint64_t)more);
			check(want, n + (uint64_t)more);
		}
	}
}

static void put_hex__writes_the_last_digits_asked_for(void **state)
{
	static const struct {
		uint64_t value;
		unsigned n;
		const char *want;
	} cases[] = {
		{ 0, 1, "0" },
		{ 0xabc, 4, "0abc" },
		{ 0x12345, 4, "2345" },
		{ UINT64_MAX, 16, "ffffffffffffffff" },
		{ UINT64_C(0x0123456789abcdef), 16, "0123456789abcdef" },
		{ 1, 0, "" },
	};
	char text[18];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		memset(text, 'x', sizeof(text));
		assert_ptr_equal(digits_put_hex(text, cases[i].value, cases[i].n),
				 text + cases[i].n);
		assert_memory_equal(text, cases[i].want, cases[i].n);
		assert_int_equal(text[cases[i].n], 'x');
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(put__writes_what_printf_does),
		cmocka_unit_test(put_hex__writes_the_last_digits_asked_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
