/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/loopback.h"

static void is_loopback_address__takes_numbers_of_this_host_only(void **state)
{
	static const char *const are[] = { "127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.9",
					   "0:0:0:0:0:0:0:1" };
	static const char *const are_not[] = {
		"",   "127.",	 "127.0.0.1.example.com", "127.0.0.1:80", "126.0.0.1", "::2",
		"::", "0.0.0.0", "::ffff:10.0.0.1",	  "localhost"
	};

	(void)state;
	for (size_t i = 0; i < sizeof(are) / sizeof(*are); i++)
		if (!sl_is_loopback_address(are[i]))
			fail_msg("%s", are[i]);
	for (size_t i = 0; i < sizeof(are_not) / sizeof(*are_not); i++)
		if (sl_is_loopback_address(are_not[i]))
			fail_msg("%s", are_not[i]);
}

static void is_loopback_host__takes_one_name_besides(void **state)
{
	(void)state;
	assert_true(sl_is_loopback_host("localhost"));
	assert_true(sl_is_loopback_host("LocalHost"));
	assert_true(sl_is_loopback_host("127.0.0.1"));
	assert_false(sl_is_loopback_host("localhost.example.com"));
	assert_false(sl_is_loopback_host("localhost2"));
	assert_false(sl_is_loopback_host("127.example.com"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(is_loopback_address__takes_numbers_of_this_host_only),
		cmocka_unit_test(is_loopback_host__takes_one_name_besides),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
