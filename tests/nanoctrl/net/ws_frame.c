/* SPDX-License-Identifier: Apache-2.0 */
#include "nanoctrl/net/ws_frame.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

/* A masked frame of a client; returns its length. */
static size_t put_frame(unsigned char *out, unsigned first, const char *payload, size_t len)
{
	static const unsigned char mask[4] = { 1, 2, 3, 4 };
	size_t n = ws_frame_header(WS_TEXT, len, out);

	out[0] = (unsigned char)first;
	out[1] |= 0x80;
	memcpy(out + n, mask, 4);
	for (size_t i = 0; i < len; i++)
		out[n + 4 + i] = (unsigned char)payload[i] ^ mask[i & 3];
	return n + 4 + len;
}

/* Feeds byte by byte until something happens. */
static enum ws_event feed(struct ws_parser *p, const unsigned char *data, size_t len)
{
	enum ws_event event = WS_MORE;
	size_t used;

	for (size_t i = 0; i < len && event == WS_MORE; i++)
		event = ws_parser_feed(p, data + i, 1, &used);
	return event;
}

static void feed__fragments_become_one_message_around_a_ping(void **state)
{
	unsigned char bytes[128];
	struct ws_parser p;
	size_t n;

	(void)state;
	ws_parser_init(&p, WS_CLIENT, 100);
	n = put_frame(bytes, WS_TEXT, "hel", 3);
	assert_int_equal(feed(&p, bytes, n), WS_MORE);
	n = put_frame(bytes, 0x80 | WS_PING, "?", 1);
	assert_int_equal(feed(&p, bytes, n), WS_CONTROL);
	assert_int_equal(p.opcode, WS_PING);
	assert_string_equal(p.payload, "?");
	n = put_frame(bytes, 0x80 | WS_CONTINUATION, "lo", 2);
	assert_int_equal(feed(&p, bytes, n), WS_MESSAGE);
	assert_string_equal(p.payload, "hello");
	n = put_frame(bytes, 0x80 | WS_TEXT, "", 0);
	assert_int_equal(feed(&p, bytes, n), WS_MESSAGE);
	assert_int_equal(p.len, 0);
	ws_parser_fini(&p);
}

static void feed__a_message_may_be_as_long_as_allowed_and_no_longer(void **state)
{
	static char text[70000];
	static unsigned char bytes[70100];
	struct ws_parser p;
	size_t n;

	(void)state;
	memset(text, 'x', sizeof(text));
	ws_parser_init(&p, WS_CLIENT, 66000);
	n = put_frame(bytes, 0x80 | WS_TEXT, text, 66000);
	assert_int_equal(feed(&p, bytes, n), WS_MESSAGE);
	assert_int_equal(p.len, 66000);
	n = put_frame(bytes, WS_TEXT, text, 65000);
	assert_int_equal(feed(&p, bytes, n), WS_MORE);
	n = put_frame(bytes, 0x80 | WS_CONTINUATION, text, 1001);
	assert_int_equal(feed(&p, bytes, n), WS_BAD);
	assert_int_equal(p.close_code, WS_CLOSE_SIZE);
	ws_parser_fini(&p);
}

static void feed__what_breaks_the_protocol_ends_it(void **state)
{
	static const struct {
		unsigned code;
		size_t len;
		const char *bytes;
	} cases[] = {
		{ WS_CLOSE_PROTOCOL, 2, "\x81\x01" },		    /* unmasked */
		{ WS_CLOSE_PROTOCOL, 2, "\xc1\x81" },		    /* reserved bit */
		{ WS_CLOSE_PROTOCOL, 2, "\x83\x81" },		    /* reserved opcode */
		{ WS_CLOSE_PROTOCOL, 2, "\x8b\x81" },		    /* reserved control */
		{ WS_CLOSE_PROTOCOL, 2, "\x09\x81" },		    /* fragmented ping */
		{ WS_CLOSE_PROTOCOL, 2, "\x89\xfe" },		    /* long ping */
		{ WS_CLOSE_PROTOCOL, 2, "\x80\x81" },		    /* continues nothing */
		{ WS_CLOSE_PROTOCOL, 8, "\x81\xfe\0\x7d\0\0\0\0" }, /* 125 in two bytes */
		{ WS_CLOSE_PROTOCOL, 14, "\x81\xff\0\0\0\0\0\0\xff\xff\0\0\0\0" },
		{ WS_CLOSE_PROTOCOL, 14, "\x81\xff\x80\0\0\0\0\x01\0\0\0\0\0\0" },
		{ WS_CLOSE_SIZE, 14, "\x81\xff\x7f\0\0\0\0\0\xff\xff\0\0\0\0" },
		{ WS_CLOSE_PROTOCOL, 7, "\x88\x81\0\0\0\0\x03" },     /* half a close code */
		{ WS_CLOSE_PROTOCOL, 8, "\x88\x82\0\0\0\0\x03\xed" }, /* 1005 */
		{ WS_CLOSE_UTF8, 9, "\x88\x83\0\0\0\0\x03\xe8\xff" },
		{ WS_CLOSE_UTF8, 7, "\x81\x81\0\0\0\0\xff" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ws_parser p;

		ws_parser_init(&p, WS_CLIENT, 1000);
		assert_int_equal(feed(&p, (const unsigned char *)cases[i].bytes, cases[i].len),
				 WS_BAD);
		assert_int_equal(p.close_code, cases[i].code);
		assert_int_equal(feed(&p, (const unsigned char *)"x", 1), WS_BAD);
		ws_parser_fini(&p);
	}
}

static void feed__a_second_message_inside_a_message_is_refused(void **state)
{
	unsigned char bytes[32];
	struct ws_parser p;
	size_t n = put_frame(bytes, WS_TEXT, "a", 1);

	(void)state;
	ws_parser_init(&p, WS_CLIENT, 1000);
	assert_int_equal(feed(&p, bytes, n), WS_MORE);
	assert_int_equal(feed(&p, bytes, n), WS_BAD);
	ws_parser_fini(&p);
}

static void accept__is_what_the_standard_computes(void **state)
{
	char out[WS_ACCEPT_MAX];

	(void)state;
	assert_true(ws_accept("dGhlIHNhbXBsZSBub25jZQ==", out));
	assert_string_equal(out, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
	assert_false(ws_accept("", out));
	assert_false(ws_accept("dGhlIHNhbXBsZSBub25jZQ=", out));
	assert_false(ws_accept("dGhlIHNhbXBsZSBub25j!Q==", out));
	assert_false(ws_accept("dGhlIHNhbXBsZSBub25jZQQQ", out));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(feed__fragments_become_one_message_around_a_ping),
		cmocka_unit_test(feed__a_message_may_be_as_long_as_allowed_and_no_longer),
		cmocka_unit_test(feed__what_breaks_the_protocol_ends_it),
		cmocka_unit_test(feed__a_second_message_inside_a_message_is_refused),
		cmocka_unit_test(accept__is_what_the_standard_computes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
