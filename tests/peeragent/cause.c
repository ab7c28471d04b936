/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "peeragent/lib/plan/cause.h"

static void assert_fits(const char *text, size_t cap, const char *expected)
{
	char out[64];

	memset(out, 'x', sizeof(out));
	assert_int_equal(cause_fit(text, out, cap), strlen(expected));
	assert_string_equal(out, expected);
	/* Nothing behind it is touched. */
	for (size_t i = cap; i < sizeof(out); i++)
		assert_int_equal(out[i], 'x');
}

static void cause__that_fits_is_as_it_was(void **state)
{
	(void)state;
	assert_fits("", 1, "");
	assert_fits("no route", 9, "no route");
	assert_fits("rdma: no device; tcp: no route", 31, "rdma: no device; tcp: no route");
}

static void cause__of_one_reason_is_cut(void **state)
{
	(void)state;
	assert_fits("no route", 8, "no...");
	assert_fits("no route", 4, "no ");
	assert_fits("no route", 1, "");
}

/* What the short one leaves the others have. */
static void cause__of_several_reasons_has_a_part_of_each(void **state)
{
	(void)state;
	assert_fits("not up; rail 0: aaaaaaaa; rail 1: bbbbbbbb", 35,
		    "not up; rail 0:...; rail 1:...");
	assert_fits("not up; tcp: it is in the way; rail 1: b b b b b", 40,
		    "not up; tcp: it is...; rail 1: b b...");
}

static void cause__of_one_long_word_is_cut_within_it(void **state)
{
	(void)state;
	assert_fits("a bbbbbbbbbbbbbbbb", 14, "a bbbbbbbb...");
}

static void cause__of_more_reasons_than_have_room_is_cut(void **state)
{
	(void)state;
	assert_fits("a; b; c; d", 6, "a;...");
	assert_fits("; ; ; ; ", 4, "; ;");
}

static void assert_words(const char *text, size_t cap, const char *expected)
{
	char out[256];

	assert_int_equal(cause_in_words(text, "node-b", out, cap), strlen(expected));
	assert_string_equal(out, expected);
}

static void words__name_the_peer_and_the_keys_of_the_file(void **state)
{
	(void)state;
	assert_words("", 256, "");
	assert_words(
		"tcp: the peer offered 127.0.0.1:7, which is loopback, and nothing listens there: if "
		"the peer is on another host, set its tcp_bind",
		256,
		"tcp: node-b offered 127.0.0.1:7, which is loopback, and nothing listens there: if "
		"node-b is on another host, set its data.tcp.bind");
	assert_words("no process is at the peer's socket", 256, "no process is at node-b's socket");
}

/* The name of one who calls itself so stays what it is. */
static void words__that_are_parts_of_others_stay(void **state)
{
	(void)state;
	assert_words("the peers; bathe peer; my_tcp_bind tcp_binds", 256,
		     "the peers; bathe peer; my_tcp_bind tcp_binds");
}

static void words__without_room_are_cut(void **state)
{
	(void)state;
	assert_words("the peer", 4, "nod");
	assert_words("the peer left", 9, "node-b l");
	assert_words("the peer left", 1, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cause__that_fits_is_as_it_was),
		cmocka_unit_test(cause__of_one_reason_is_cut),
		cmocka_unit_test(cause__of_several_reasons_has_a_part_of_each),
		cmocka_unit_test(cause__of_one_long_word_is_cut_within_it),
		cmocka_unit_test(cause__of_more_reasons_than_have_room_is_cut),
		cmocka_unit_test(words__name_the_peer_and_the_keys_of_the_file),
		cmocka_unit_test(words__that_are_parts_of_others_stay),
		cmocka_unit_test(words__without_room_are_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
