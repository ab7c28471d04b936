/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies of requests to slime-cache, and the sizes of its command line. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "cache/order.h"
#include "cache/settings.h"

static void assert_refused(const char *text, enum order_kind kind, const char *expected)
{
	char why[ORDER_WHY_MAX];
	struct order o;

	assert_int_equal(order_read(text, strlen(text), kind, &o, why), -EINVAL);
	assert_string_equal(why, expected);
}

static void read__takes_integers_of_64_bits_and_their_digits(void **state)
{
	static const char text[] =
		"{\"peer_agent_id\":\"\\u00e4\",\"x\":[1.5],\"assignments\":[{\"mr_key\":"
		"18446744073709551615,\"remote_mr_key\":\"12\",\"target_offset\":0,"
		"\"source_offset\":1,\"length\":2,\"more\":null}]}";
	char why[ORDER_WHY_MAX];
	struct order o;

	(void)state;
	assert_int_equal(order_read(text, strlen(text), ORDER_STORE, &o, why), 0);
	assert_string_equal(o.peer, "\xc3\xa4");
	assert_int_equal(o.n, 1);
	assert_true(o.list[0].mr_key == UINT64_MAX);
	assert_int_equal(o.list[0].remote_mr_key, 12);
	assert_int_equal(o.list[0].length, 2);
	order_fini(&o);
}

static void read__takes_a_number_as_a_name(void **state)
{
	static const char text[] = "{\"peer_agent_id\":5,\"version\":\"7\"}";
	char why[ORDER_WHY_MAX];
	struct order o;

	(void)state;
	assert_int_equal(order_read(text, strlen(text), ORDER_ONE, &o, why), 0);
	assert_string_equal(o.peer, "5");
	assert_int_equal(o.version, 7);
	order_fini(&o);
}

static void read__of_what_is_missing_or_wrong_says_what(void **state)
{
	(void)state;
	assert_refused("", ORDER_ONE, "missing field: 'peer_agent_id'");
	assert_refused("[]", ORDER_ONE, "request body must be a JSON object");
	assert_refused("{", ORDER_ONE, "request body is not JSON");
	assert_refused("{\"peer_agent_id\":\"a\"}", ORDER_ONE, "missing field: 'version'");
	assert_refused("{\"peer_agent_id\":\"a\",\"version\":-1}", ORDER_ONE,
		       "version: expected an integer from 0 to 2^64 - 1");
	assert_refused("{\"peer_agent_id\":\"a\",\"version\":18446744073709551616}", ORDER_ONE,
		       "version: expected an integer from 0 to 2^64 - 1");
	assert_refused("{\"peer_agent_id\":null,\"version\":1}", ORDER_ONE,
		       "peer_agent_id: expected a string of at most 1024 bytes");
	assert_refused("{\"peer_agent_id\":\"a\"}", ORDER_STORE, "missing field: 'assignments'");
	assert_refused("{\"peer_agent_id\":\"a\",\"assignments\":5}", ORDER_STORE,
		       "assignments: expected a list");
	assert_refused("{\"peer_agent_id\":\"a\",\"assignments\":[5]}", ORDER_STORE,
		       "assignments: expected objects");
	assert_refused("{\"peer_agent_id\":\"a\",\"assignments\":[{\"mr_key\":1}]}", ORDER_STORE,
		       "missing field: 'remote_mr_key'");
}

static void size__is_read_as_dlslime_reads_it(void **state)
{
	static const struct {
		const char *text;
		uint64_t size;
	} good[] = { { "0", 0 },
		     { "262144", 262144 },
		     { "256K", 262144 },
		     { "256kb", 262144 },
		     { "1GiB", 1 << 30 },
		     { "1 g", 1 << 30 },
		     { "2T", UINT64_C(2) << 40 } };
	static const char *const bad[] = { "",	       "G",   "1.5G", "-1",
					   "1X",       "1Gi", "1GG",  "99999999999999999999",
					   "16777216T" };
	uint64_t size;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		assert_true(cache_size(good[i].text, &size));
		assert_true(size == good[i].size);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_false(cache_size(bad[i], &size));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(read__takes_integers_of_64_bits_and_their_digits),
		cmocka_unit_test(read__takes_a_number_as_a_name),
		cmocka_unit_test(read__of_what_is_missing_or_wrong_says_what),
		cmocka_unit_test(size__is_read_as_dlslime_reads_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
