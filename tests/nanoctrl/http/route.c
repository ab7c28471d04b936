/* SPDX-License-Identifier: Apache-2.0 */
#include "http/route.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include <base/utf8.h>
#include "base/percent.h"

static void handler(struct request *rq)
{
	(void)rq;
}

static const struct route table[] = {
	{ HTTP_GET, "/", handler },
	{ HTTP_GET, "/v1/agents", handler },
	{ HTTP_GET, "/v1/agents/{name}", handler },
	{ HTTP_PUT, "/v1/agents/{name}", handler },
	{ HTTP_POST, "/v1/agents/all", handler },
	{ HTTP_GET, "/v1/agents/{name}/links/{peer}", handler },
};

static struct route_match find(enum http_method method, const char *path)
{
	struct route_match m;

	route_find(table, sizeof(table) / sizeof(table[0]), method, path, strlen(path), &m);
	return m;
}

static void find__literal_and_parameters_match_whole_segments(void **state)
{
	struct route_match m;

	(void)state;
	assert_ptr_equal(find(HTTP_GET, "/").route, &table[0]);
	assert_ptr_equal(find(HTTP_HEAD, "/v1/agents").route, &table[1]);
	m = find(HTTP_GET, "/v1/agents/node%2Fa/links/b");
	assert_ptr_equal(m.route, &table[5]);
	assert_int_equal(m.n_params, 2);
	assert_memory_equal(m.params[0].name, "name", m.params[0].name_len);
	assert_int_equal(m.params[0].value_len, strlen("node%2Fa"));
	assert_memory_equal(m.params[1].value, "b", 1);
}

static void find__an_unknown_path_allows_nothing(void **state)
{
	static const char *const paths[] = { "*",
					     "/v1",
					     "/v1/",
					     "/v1/agents/",
					     "//",
					     "/v1/agents/a/",
					     "/v1/agents//links/b",
					     "/v1/agentsx",
					     "" };

	(void)state;
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		assert_null(find(HTTP_GET, paths[i]).route);
		assert_int_equal(find(HTTP_GET, paths[i]).allowed, 0);
	}
}

static void find__another_method_says_what_is_allowed(void **state)
{
	struct route_match m = find(HTTP_DELETE, "/v1/agents/a");

	(void)state;
	assert_null(m.route);
	assert_int_equal(m.allowed, 1u << HTTP_GET | 1u << HTTP_HEAD | 1u << HTTP_PUT);
}

static void find__the_literal_route_wins(void **state)
{
	(void)state;
	assert_ptr_equal(find(HTTP_POST, "/v1/agents/all").route, &table[4]);
	assert_null(find(HTTP_GET, "/v1/agents/all").route);
	assert_int_equal(find(HTTP_GET, "/v1/agents/all").allowed, 1u << HTTP_POST);
}

static void decode__escapes_become_utf8_or_are_refused(void **state)
{
	static const char *const bad[] = { "%",	  "%4",	  "%4g",    "%00",
					   "%ff", "a%c3", "%c0%80", "%ed%a0%80" };
	char out[64];

	(void)state;
	assert_true(percent_decode("a%2Fb%3a%c3%A9+", 15, false, out));
	assert_string_equal(out, "a/b:\xc3\xa9+");
	assert_true(percent_decode("100%", 4, false, out));
	assert_string_equal(out, "100%");
	assert_true(percent_decode("%4%zz%41", 8, false, out));
	assert_string_equal(out, "%4%zzA");
	assert_false(percent_decode("%ff", 3, false, out));
	assert_false(percent_decode("%00", 3, false, out));
	assert_true(percent_decode("a+b", 3, true, out));
	assert_string_equal(out, "a b");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(percent_decode(bad[i], strlen(bad[i]), true, out));
}

static void utf8__only_shortest_forms_of_characters_are_valid(void **state)
{
	static const char *const bad[] = { "\x80",
					   "\xc1\xbf",
					   "\xe0\x9f\xbf",
					   "\xed\xa0\x80",
					   "\xf0\x8f\xbf\xbf",
					   "\xf4\x90\x80\x80",
					   "\xf5\x80\x80\x80",
					   "\xe2\x82",
					   "\xff" };

	(void)state;
	assert_true(sl_utf8_valid("a\x7f\xc2\x80\xe2\x82\xac\xf4\x8f\xbf\xbf", 11));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(sl_utf8_valid(bad[i], strlen(bad[i])));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(find__literal_and_parameters_match_whole_segments),
		cmocka_unit_test(find__an_unknown_path_allows_nothing),
		cmocka_unit_test(find__another_method_says_what_is_allowed),
		cmocka_unit_test(find__the_literal_route_wins),
		cmocka_unit_test(decode__escapes_become_utf8_or_are_refused),
		cmocka_unit_test(utf8__only_shortest_forms_of_characters_are_valid),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
