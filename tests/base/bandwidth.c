/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>

#include "base/bandwidth.h"

static void parse__of_a_number_with_its_unit_is_bits_per_second(void **state)
{
	static const struct {
		const char *text;
		uint64_t bits;
	} fine[] = {
		{ "1bps", 1 },
		{ "8Kbps", 8000 },
		{ "25Mbps", 25000000 },
		{ "100Gbps", UINT64_C(100000000000) },
		{ "1000Tbps", SL_BANDWIDTH_MAX },
	};
	uint64_t bits;

	(void)state;
	for (size_t i = 0; i < sizeof(fine) / sizeof(*fine); i++) {
		assert_int_equal(sl_bandwidth_parse(fine[i].text, &bits), 0);
		assert_true(bits == fine[i].bits);
	}
}

static void parse__of_anything_else_is_invalid(void **state)
{
	static const char *const bad[] = { "",
					   "100",
					   "Gbps",
					   "0Gbps",
					   "-1Gbps",
					   "1.5Gbps",
					   "100 Gbps",
					   "100gbps",
					   "100Gbpsx",
					   "1001Tbps",
					   "99999999999999999999bps" };
	uint64_t bits = 7;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_int_equal(sl_bandwidth_parse(bad[i], &bits), -EINVAL);
	assert_true(bits == 7);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(parse__of_a_number_with_its_unit_is_bits_per_second),
		cmocka_unit_test(parse__of_anything_else_is_invalid),
	};

	return cmocka_run_group_tests_name("bandwidth", tests, NULL, NULL);
}
