/* SPDX-License-Identifier: Apache-2.0 */
/* The client reads JSON as jansson does, and does without memory for it. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include <tests/support/fail_alloc.h>

#include "nanoctrl/client/json_document.h"
#include "nanoctrl/client/json_load.h"

static void assert_alike(const char *text, size_t len)
{
	json_t *ours = NULL;
	json_t *theirs = json_loadb(text, len, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);
	int ret = nc_json_load(text, len, &ours);

	if (ret != (theirs ? 0 : -EPROTO))
		fail_msg("%.*s: %d", (int)len, text, ret);
	if (theirs && !json_equal(ours, theirs))
		fail_msg("%.*s is read otherwise", (int)len, text);
	json_decref(ours);
	json_decref(theirs);
}

static void load__takes_what_jansson_takes(void **state)
{
	static const char *const texts[] = {
		"",
		" ",
		"{}",
		"[]",
		" { } \n",
		"7",
		"-0",
		"01",
		"-",
		"1.",
		".5",
		"1.5",
		"-2.25e3",
		"1e5",
		"1E+5",
		"1e-5",
		"1e",
		"1e+",
		"1e999",
		"-1e999",
		"1e-999",
		"9223372036854775807",
		"9223372036854775808",
		"-9223372036854775808",
		"-9223372036854775809",
		"true",
		"truex",
		"nul",
		"[true,false,null]",
		"[1,]",
		"[,1]",
		"[1 2]",
		"{\"a\":1,}",
		"{\"a\" : 1 , \"b\" : [ ] }",
		"{\"a\":1,\"a\":2}",
		"{\"a\"}",
		"{\"a\":}",
		"{a:1}",
		"{1:1}",
		"{} x",
		"[[[[[[[[[[1]]]]]]]]]]",
		"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"",
		"\"\\x\"",
		"\"\\u00e4\\u20aC\\uD83D\\ude00\"",
		"\"\\u0000\"",
		"{\"\\u0000\":1}",
		"\"\\ud83d\"",
		"\"\\ud83dx\"",
		"\"\\ud83d\\u0041\"",
		"\"\\ude00\"",
		"\"\\u12\"",
		"\"\\u12g4\"",
		"\"\\",
		"\"\\\"",
		"\"\x01\"",
		"\"\x7f\"",
		"\"\xc3\xa4\"",
		"\"\xc3\"",
		"\"\xed\xa0\x80\"",
		"\"\xf4\x90\x80\x80\"",
		"\xef\xbb\xbf{}",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		assert_alike(texts[i], strlen(texts[i]));
	assert_alike("\"a\0b\"", 5);
}

/* Every character in the place of each other one, and without its end. */
static void load__of_a_damaged_text_takes_what_jansson_takes(void **state)
{
	static const char text[] =
		"{\"ab\\n\":[1,-2.5e1,{},[]],\"c\":{\"d\":null,\"\\u00e4\":true}}";
	char copy[sizeof(text)];

	(void)state;
	for (size_t i = 0; i < sizeof(text); i++) {
		assert_alike(text, i);
		for (size_t k = 0; k < sizeof(text); k++) {
			memcpy(copy, text, sizeof(text));
			copy[i] = text[k];
			assert_alike(copy, sizeof(text) - 1);
		}
	}
}

static void load__of_what_is_too_deep_is_refused(void **state)
{
	char text[4000];
	json_t *v = NULL;

	(void)state;
	memset(text, '[', sizeof(text) / 2);
	memset(text + sizeof(text) / 2, ']', sizeof(text) / 2);
	assert_int_equal(nc_json_load(text, sizeof(text), &v), -EPROTO);
	assert_int_equal(nc_json_load(text + sizeof(text) / 2 - 40, 80, &v), 0);
	json_decref(v);
}

/* Of strings and names, of which jansson's reader lost the ends. */
static void parse__without_memory_says_so(void **state)
{
	char text[2000];
	struct nc_json *json = NULL;
	int len = snprintf(text, sizeof(text),
			   "{\"%0100d\":[\"%0600d\",{\"a\":\"%0400d\"}],\"n\":1.5}", 1, 2, 3);
	long n = 1;

	(void)state;
	for (;; n++) {
		int ret;

		fail_alloc_at(n);
		ret = nc_json_parse(text, (size_t)len, &json);
		if (!fail_alloc_end()) {
			assert_int_equal(ret, 0);
			break;
		}
		assert_int_equal(ret, -ENOMEM);
	}
	assert_true(n > 10);
	assert_int_equal(json_object_size(json->root), 2);
	nc_json_free(json);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(load__takes_what_jansson_takes),
		cmocka_unit_test(load__of_a_damaged_text_takes_what_jansson_takes),
		cmocka_unit_test(load__of_what_is_too_deep_is_refused),
		cmocka_unit_test(parse__without_memory_says_so),
	};

	json_set_alloc_funcs(fail_alloc_malloc, fail_alloc_free);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
