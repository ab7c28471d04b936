/* SPDX-License-Identifier: Apache-2.0 */
/* Which keys are those of Mooncake's engines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "mooncake/key.h"

static void check(const char *text, enum mooncake_field field, const char *engine)
{
	struct mooncake_key key;

	assert_true(mooncake_key_parse(text, &key));
	assert_int_equal(key.field, field);
	assert_string_equal(key.engine, engine);
}

static void parse__finds_the_engine_and_the_field(void **state)
{
	(void)state;
	check("mooncake/rpc_meta/127.0.0.1:17001", MOONCAKE_RPC_META, "127.0.0.1:17001");
	check("mooncake/ram/host-a:1", MOONCAKE_RAM, "host-a:1");
	check("mooncake/ram/a/b", MOONCAKE_RAM, "a/b");
	check("mooncake/prod/ram/a:1", MOONCAKE_RAM, "prod/a:1");
	check("mooncake/prod/rpc_meta/a:1", MOONCAKE_RPC_META, "prod/a:1");
	check("mooncake/ram/ram/a", MOONCAKE_RAM, "ram/a");
}

static void parse__refuses_what_is_no_key_of_an_engine(void **state)
{
	static const char *const others[] = { "",
					      "mooncake",
					      "mooncake/",
					      "mooncake/ram",
					      "mooncake/ram/",
					      "mooncake//ram/a",
					      "mooncake/x/",
					      "mooncake/x/y/a",
					      "mooncake/x/ram/",
					      "Mooncake/ram/a",
					      "ram/a",
					      "mooncake/ram/a b",
					      "mooncake/ram/a\n",
					      "mooncake/ram/\xc3\xa4" };
	struct mooncake_key key;

	(void)state;
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		assert_false(mooncake_key_parse(others[i], &key));
}

static void parse__refuses_a_key_that_is_too_long(void **state)
{
	char text[MOONCAKE_KEY_MAX + 2];
	struct mooncake_key key;

	(void)state;
	memset(text, 'a', sizeof(text));
	memcpy(text, "mooncake/ram/", 13);
	text[MOONCAKE_KEY_MAX] = '\0';
	assert_true(mooncake_key_parse(text, &key));
	text[MOONCAKE_KEY_MAX] = 'a';
	text[MOONCAKE_KEY_MAX + 1] = '\0';
	assert_false(mooncake_key_parse(text, &key));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parse__finds_the_engine_and_the_field),
		cmocka_unit_test(parse__refuses_what_is_no_key_of_an_engine),
		cmocka_unit_test(parse__refuses_a_key_that_is_too_long),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
