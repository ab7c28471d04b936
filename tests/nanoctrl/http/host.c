/* SPDX-License-Identifier: Apache-2.0 */
/* Which Host and Origin fields are ours. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "http/host.h"

static const char *const names[] = { "ctrl.example", "*.nodes.example" };

static void served__are_addresses_localhost_and_the_names_of_the_settings(void **state)
{
	static const char *const ours[] = {
		"127.0.0.1",	       "127.0.0.1:3000",   "10.1.2.3:80",	 "[::1]",
		"[::1]:3000",	       "[fd00::1:2]:3000", "localhost",		 "LocalHost:3000",
		"localhost.",	       "ctrl.example",	   "CTRL.example.:3000", "a.nodes.example",
		"a.b.nodes.example:1",
	};
	static const char *const others[] = {
		"",
		":3000",
		"evil.example",
		"evil.example:3000",
		"nodes.example",
		"xnodes.example",
		".nodes.example.x",
		"ctrl.example.evil",
		"xctrl.example",
		"localhost.evil",
		"127.0.0.1.evil",
		"127.0.0.1:80:80",
		"127.0.0.1:x",
		"[::1",
		"[::1]x",
		"[::1]:x",
		"[evil.example]",
		"[127.0.0.1]:3000",
		"0x7f.1",
		"2130706433",
		"..",
		".",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
		if (!host_is_served(ours[i], names, 2))
			fail_msg("%s is refused", ours[i]);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (host_is_served(others[i], names, 2))
			fail_msg("%s is served", others[i]);
	assert_false(host_is_served("ctrl.example", NULL, 0));
}

static void served__of_any_length_is_read_within_bounds(void **state)
{
	char name[1000];

	(void)state;
	for (size_t len = 1; len + 1 < sizeof(name); len++) {
		memset(name, len % 2 ? '1' : 'a', sizeof(name));
		name[len] = '\0';
		assert_false(host_is_served(name, names, 2));
		name[0] = '[';
		assert_false(host_is_served(name, names, 2));
		name[len - 1] = ']';
		assert_false(host_is_served(name, names, 2));
	}
}

static void origin__is_ours_with_this_host_and_port_alone(void **state)
{
	(void)state;
	assert_true(host_is_origin("127.0.0.1:3000", "http://127.0.0.1:3000"));
	assert_true(host_is_origin("Ctrl.example", "https://ctrl.Example"));
	assert_false(host_is_origin("127.0.0.1:3000", "http://127.0.0.1:3001"));
	assert_false(host_is_origin("127.0.0.1:3000", "http://127.0.0.1"));
	assert_false(host_is_origin("127.0.0.1:3000", "http://evil.example"));
	assert_false(host_is_origin("127.0.0.1:3000", "null"));
	assert_false(host_is_origin("127.0.0.1:3000", ""));
	assert_false(host_is_origin("", "null"));
}

static void check_name__takes_names_and_suffixes(void **state)
{
	static const char *const wrong[] = { "",    "*",     "*.", "a b", "a:1", "[::1]",
					     "*.*", "a.*.b", ".a", "a.",  "*a",	 "http://a" };

	(void)state;
	assert_null(host_check_name("ctrl.example"));
	assert_null(host_check_name("*.nodes.example"));
	assert_null(host_check_name("node_1"));
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		if (!host_check_name(wrong[i]))
			fail_msg("\"%s\" is taken", wrong[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(served__are_addresses_localhost_and_the_names_of_the_settings),
		cmocka_unit_test(served__of_any_length_is_read_within_bounds),
		cmocka_unit_test(origin__is_ours_with_this_host_and_port_alone),
		cmocka_unit_test(check_name__takes_names_and_suffixes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
