/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>

#include "base/port_name.h"

#define MAX 3

static void parse__of_a_list_has_each_port(void **state)
{
	struct sl_port_name names[MAX];
	size_t n;

	(void)state;
	assert_int_equal(sl_port_names_parse("mlx5_0,mlx5_1:2,bnxt.re-x:255", names, MAX, &n), 0);
	assert_int_equal(n, 3);
	assert_string_equal(names[0].device, "mlx5_0");
	assert_int_equal(names[0].port, 0);
	assert_string_equal(names[1].device, "mlx5_1");
	assert_int_equal(names[1].port, 2);
	assert_int_equal(names[2].port, 255);
}

static void parse__of_what_is_no_list_of_ports_is_invalid(void **state)
{
	static const char *const bad[] = {
		"",
		",",
		"a,",
		",a",
		"a,,b",
		"a:",
		"a:0",
		"a:256",
		"a:-1",
		"a:1x",
		"a:+1",
		"a: 1",
		"a b",
		"a/b",
		":1",
		"a,b,a",
		"a:1,a:1",
		"a,b,c,d",
		"a123456789012345678901234567890123456789012345678901234567890123",
	};
	struct sl_port_name names[MAX];
	size_t n;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_int_equal(sl_port_names_parse(bad[i], names, MAX, &n), -EINVAL);
}

static void name__without_a_number_is_each_port_of_the_device(void **state)
{
	const struct sl_port_name any = { .device = "mlx5_0" };
	const struct sl_port_name second = { .device = "mlx5_0", .port = 2 };

	(void)state;
	assert_true(sl_port_name_is(&any, "mlx5_0", 64, 1));
	assert_true(sl_port_name_is(&any, "mlx5_0", 64, 2));
	assert_false(sl_port_name_is(&any, "mlx5_01", 64, 1));
	assert_true(sl_port_name_is(&second, "mlx5_0", 64, 2));
	assert_false(sl_port_name_is(&second, "mlx5_0", 64, 1));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(parse__of_a_list_has_each_port),
		cmocka_unit_test(parse__of_what_is_no_list_of_ports_is_invalid),
		cmocka_unit_test(name__without_a_number_is_each_port_of_the_device),
	};

	return cmocka_run_group_tests_name("port_name", tests, NULL, NULL);
}
