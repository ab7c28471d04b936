/* SPDX-License-Identifier: Apache-2.0 */
#include "text/json_slice.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include <jansson.h>

static struct json_slice slice(const char *text)
{
	return (struct json_slice){ text, strlen(text) };
}

/* Every key and value of a value, a line each, as they stand in the text. */
static const char *walked(const char *text)
{
	static char out[512];
	struct json_slice key, value;
	struct json_walk w;
	size_t n = 0;

	out[0] = '\0';
	if (!json_walk_init(&w, json_first(text, strlen(text))))
		return "none";
	while (json_walk_next(&w, &key, &value))
		n += (size_t)snprintf(out + n, sizeof(out) - n, "%.*s=%.*s|", (int)key.len,
				      key.len ? key.at : "", (int)value.len, value.at);
	return out;
}

static void walk__gives_every_value_as_it_stands(void **state)
{
	(void)state;
	assert_string_equal(
		walked(" { \"a\" : 18446744073709551615 ,\"b\\\"}\":[1.0,{\"x\":\"]\"}] , \"c\":null}tail"),
		"\"a\"=18446744073709551615|\"b\\\"}\"=[1.0,{\"x\":\"]\"}]|\"c\"=null|");
	assert_string_equal(walked("[ 1 ,\"x\", [ ] ,{}]"), "=1|=\"x\"|=[ ]|={}|");
	assert_string_equal(walked("{ }"), "");
	assert_string_equal(walked("[]"), "");
	assert_string_equal(walked("17"), "none");
	assert_string_equal(walked(""), "none");
}

static void unquote__decodes_every_escape(void **state)
{
	char out[64];

	(void)state;
	assert_int_equal(
		json_unquote(slice("\"a\\n\\\"\\/\\u00e4\\u20ac\\ud83d\\ude00\\u0000z\""), out),
		15);
	assert_memory_equal(out, "a\n\"/\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\0z", 15);
	assert_int_equal(json_unquote(slice("\"\""), out), 0);
	assert_int_equal(json_unquote(slice("17"), out), -1);
}

static void u64__takes_the_whole_range_and_nothing_else(void **state)
{
	static const char *const bad[] = {
		"", "-1", "1.0", "1e3", "18446744073709551616", "\"1\""
	};
	uint64_t n;

	(void)state;
	assert_true(json_u64(slice("18446744073709551615"), UINT64_MAX, &n));
	assert_true(n == UINT64_MAX);
	assert_true(json_u64(slice("0"), UINT32_MAX, &n));
	assert_true(json_u64(slice("4294967295"), UINT32_MAX, &n));
	assert_false(json_u64(slice("4294967296"), UINT32_MAX, &n));
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_false(json_u64(slice(bad[i]), UINT64_MAX, &n));
}

static void compact__leaves_strings_and_numbers_alone(void **state)
{
	char out[64];

	(void)state;
	json_compact(slice("{ \"a b\" :\t[ 1.0 , 2e5\n] }"), out);
	assert_string_equal(out, "{\"a b\":[1.0,2e5]}");
}

/* Texts that are cut anywhere: a walk ends, and reads nothing beyond. */
static void walk__of_a_text_that_is_cut_ends(void **state)
{
	static const char text[] = "{\"a\":[1,{\"b\":\"\\u00e4\\\\\"}],\"c\":\"\\ud83d\\ude00\"}";
	char copy[sizeof(text)], out[sizeof(text)];

	(void)state;
	for (size_t len = 0; len < sizeof(text); len++) {
		struct json_slice key, value;
		struct json_walk w;

		memcpy(copy, text, len);
		if (!json_walk_init(&w, json_first(copy, len)))
			continue;
		while (json_walk_next(&w, &key, &value)) {
			json_unquote(value, out);
			json_compact(value, out);
		}
	}
	assert_true(json_too_deep("[[[", 3, 2));
	assert_false(json_too_deep("[[]\"[[[\"]", 9, 2));
}

static void plain__is_what_next_to_all_bodies_are(void **state)
{
	static const char *const plain[] = {
		"{}",
		"[]",
		" { } \n",
		"{\"a\":1}",
		"[-0,10,null]",
		"{\"a\":{\"b\":[true,false]},\"\":\"x y\"}",
		"[ [ ] , 1 ]",
		"[{\"a\" : -7 }]",
		"[999999999999999999]",
	};
	static const char *const other[] = {
		"",
		"5",
		"\"a\"",
		"{",
		"[1",
		"[1,]",
		"{,}",
		"[01]",
		"[-]",
		"[1.5]",
		"[1e5]",
		"[nul]",
		"[truex]",
		"{1:2}",
		"{\"a\"}",
		"{\"a\":}",
		"[1 2]",
		"[\"\\n\"]",
		"[\"\xc3\xa4\"]",
		"[\"\x01\"]",
		"[]]",
		"[1}",
		"{\"a\":1]",
		"[] x",
		"[1000000000000000000]",
		"[\"a]",
		"[,1]",
		"[\"\x7f\"]",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(plain) / sizeof(*plain); i++) {
		struct json_slice whole = json_of_plain(plain[i], strlen(plain[i]));
		struct json_slice first = json_first(plain[i], strlen(plain[i]));

		if (!json_is_plain(plain[i], strlen(plain[i]), 3))
			fail_msg("%s is plain", plain[i]);
		if (whole.at != first.at || whole.len != first.len)
			fail_msg("%s is %zu bytes long", plain[i], first.len);
	}
	for (size_t i = 0; i < sizeof(other) / sizeof(*other); i++)
		if (json_is_plain(other[i], strlen(other[i]), 3))
			fail_msg("%s is not plain", other[i]);
	assert_true(json_is_plain("[[{}]]", 6, 3));
	assert_false(json_is_plain("[[{}]]", 6, 2));
}

/* Every character of a text in the place of each other one, and without its end. */
static void plain__is_well_formed(void **state)
{
	static const char text[] = "{\"ab\" :[1,-20,{}, []], \"c\":{\"d\":null,\"e\":true}}";
	size_t n = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(text) - 1; i++) {
		for (size_t k = 0; k < sizeof(text); k++) {
			char copy[sizeof(text)];
			json_t *v;

			memcpy(copy, text, sizeof(text));
			copy[i] = text[k];
			for (size_t len = sizeof(text) - 3; len < sizeof(text); len++) {
				if (!json_is_plain(copy, len, 9))
					continue;
				v = json_loadb(copy, len, 0, NULL);
				if (!v)
					fail_msg("%.*s is not well-formed", (int)len, copy);
				json_decref(v);
				n++;
			}
		}
	}
	assert_true(n > 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(walk__gives_every_value_as_it_stands),
		cmocka_unit_test(unquote__decodes_every_escape),
		cmocka_unit_test(u64__takes_the_whole_range_and_nothing_else),
		cmocka_unit_test(compact__leaves_strings_and_numbers_alone),
		cmocka_unit_test(walk__of_a_text_that_is_cut_ends),
		cmocka_unit_test(plain__is_what_next_to_all_bodies_are),
		cmocka_unit_test(plain__is_well_formed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
