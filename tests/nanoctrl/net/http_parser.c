/* SPDX-License-Identifier: Apache-2.0 */
#include "nanoctrl/net/http_parser.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define HOST "Host: localhost\r\n"

static const struct http_limits defaults = HTTP_LIMITS_INIT;

/* Parses text in pieces of step bytes; the status it is refused with, 0 when it is done, -1 when
 * more is wanted. */
static int parse_in_steps(struct http_parser *p, const char *text, size_t len, size_t step,
			  size_t *used)
{
	*used = 0;
	while (*used < len) {
		size_t n = len - *used < step ? len - *used : step;
		size_t taken;

		switch (http_parser_feed(p, text + *used, n, &taken)) {
		case HTTP_DONE:
			*used += taken;
			return 0;
		case HTTP_REFUSED:
			*used += taken;
			return p->refusal->status;
		case HTTP_MORE:
			assert_int_equal(taken, n);
			*used += taken;
		}
	}
	return -1;
}

/* The outcome, which must not depend on how the bytes arrive. */
static int outcome_of_bytes(const struct http_limits *limits, const char *text, size_t len)
{
	int first = 0;

	for (size_t step = 1; step <= len; step = step < 4 ? step + 1 : step * 7) {
		struct http_parser p;
		size_t used;
		int got;

		http_parser_init(&p, limits);
		got = parse_in_steps(&p, text, len, step, &used);
		http_parser_fini(&p);
		if (step == 1)
			first = got;
		assert_int_equal(got, first);
	}
	return first;
}

static int outcome(const char *text)
{
	return outcome_of_bytes(&defaults, text, strlen(text));
}

static struct http_message parsed(const char *text)
{
	struct http_parser p;
	struct http_message m;
	size_t used;

	http_parser_init(&p, &defaults);
	assert_int_equal(parse_in_steps(&p, text, strlen(text), 3, &used), 0);
	http_parser_take(&p, &m);
	http_parser_fini(&p);
	return m;
}

static void feed__a_whole_request_gives_its_parts(void **state)
{
	struct http_message m = parsed("POST /v1/agents/a%2Fb?wait=1&x HTTP/1.1\r\n"
				       "hOst:  localhost:3000 \t\r\n"
				       "X-Empty:\r\n"
				       "Content-Length: 5\r\n\r\nhello");

	(void)state;
	assert_int_equal(m.method, HTTP_POST);
	assert_string_equal(m.path, "/v1/agents/a%2Fb");
	assert_string_equal(m.query, "wait=1&x");
	assert_string_equal(http_message_field(&m, "Host"), "localhost:3000");
	assert_string_equal(http_message_field(&m, "x-empty"), "");
	assert_null(http_message_field(&m, "X-None"));
	assert_int_equal(m.body_len, 5);
	assert_string_equal(m.body, "hello");
	assert_true(m.keep_alive);
	http_message_fini(&m);
}

static void feed__chunks_become_one_body(void **state)
{
	struct http_message m =
		parsed("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: Chunked\r\n\r\n"
		       "5;name=\"v\"\r\nhello\r\n"
		       "00000a\r\n, chunked!\r\n"
		       "0\r\nTrailer: x\r\n\r\n");

	(void)state;
	assert_int_equal(m.body_len, 15);
	assert_string_equal(m.body, "hello, chunked!");
	http_message_fini(&m);
}

static void feed__pipelined_requests_are_taken_one_by_one(void **state)
{
	static const char text[] = "GET /1 HTTP/1.1\r\n" HOST "\r\n"
				   "\r\nGET /2 HTTP/1.1\r\n" HOST "\r\n";
	struct http_parser p;
	size_t first, second;

	(void)state;
	http_parser_init(&p, &defaults);
	for (int i = 1; i <= 2; i++) {
		struct http_message m;
		size_t *used = i == 1 ? &first : &second;
		size_t done = i == 1 ? 0 : first;

		assert_int_equal(http_parser_feed(&p, text + done, strlen(text) - done, used),
				 HTTP_DONE);
		http_parser_take(&p, &m);
		assert_int_equal(m.path[1], '0' + i);
		http_message_fini(&m);
		assert_false(http_parser_busy(&p));
	}
	assert_int_equal(first + second, strlen(text));
	http_parser_fini(&p);
}

/* Some clients end a body with one, and then their connection is idle. */
static void feed__of_an_empty_line_alone_begins_no_request(void **state)
{
	static const char text[] = "GET / HTTP/1.1\r\n" HOST "\r\n";
	struct http_parser p;
	size_t used;

	(void)state;
	http_parser_init(&p, &defaults);
	assert_int_equal(http_parser_feed(&p, "\r\n", 2, &used), HTTP_MORE);
	assert_false(http_parser_busy(&p));
	assert_int_equal(http_parser_feed(&p, text, 1, &used), HTTP_MORE);
	assert_true(http_parser_busy(&p));
	assert_int_equal(http_parser_feed(&p, text + 1, strlen(text) - 1, &used), HTTP_DONE);
	http_parser_fini(&p);
}

static void feed__connection_fields_decide_what_comes_after(void **state)
{
	static const struct {
		const char *text;
		bool keep_alive, upgrade;
	} cases[] = {
		{ "GET / HTTP/1.1\r\n" HOST "\r\n", true, false },
		{ "GET / HTTP/1.1\r\n" HOST "Connection: foo, Close\r\n\r\n", false, false },
		{ "GET / HTTP/1.1\r\n" HOST "Connection: keep-alive, Upgrade\r\n\r\n", true, true },
		{ "GET / HTTP/1.1\r\n" HOST "Connection: closed\r\n\r\n", true, false },
		{ "GET / HTTP/1.0\r\n\r\n", false, false },
		{ "GET / HTTP/1.0\r\nConnection: upgrade\r\n\r\n", false, false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct http_message m = parsed(cases[i].text);

		assert_int_equal(m.keep_alive, cases[i].keep_alive);
		assert_int_equal(m.upgrade, cases[i].upgrade);
		http_message_fini(&m);
	}
}

static void feed__what_two_readers_could_read_differently_is_refused(void **state)
{
	static const struct {
		int status;
		const char *text;
	} cases[] = {
		{ 400, "GET / HTTP/1.1\nHost: a\r\n\r\n" },
		{ 400, "GET / HTTP/1.1\r\nHost: a\n\r\n" },
		{ 400, "GET / HTTP/1.1\r\nHost: a\r\n\n" },
		{ 400, "GET / HTTP/1.1\rHost: a\r\n\r\n" },
		{ 400, "\nGET / HTTP/1.1\r\n" HOST "\r\n" },
		{ 400, "\r\n\r\nGET / HTTP/1.1\r\n" HOST "\r\n" },
		{ 400, "GET / HTTP/1.1\r\n\r\n" },
		{ 400, "GET / HTTP/1.1\r\n" HOST HOST "\r\n" },
		{ 400, "GET / HTTP/1.1\r\nHost: a b\r\n\r\n" },
		{ 400, "GET / HTTP/1.1\r\nHost: a, b\r\n\r\n" },
		{ 400, "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n" },
		{ 400, "GET / HTTP/1.1\r\nHost : a\r\n\r\n" },
		{ 400, "GET / HTTP/1.1\r\n Host: a\r\n\r\n" },
		{ 400, "GET / HTTP/1.1\r\n" HOST "X: 1\r\n folded\r\n\r\n" },
		{ 400, "GET / HTTP/1.1\r\n" HOST ": empty\r\n\r\n" },
		{ 400, "GET / HTTP/1.1\r\n" HOST "no colon\r\n\r\n" },
		{ 400, "GET / HTTP/1.1\r\n" HOST "X: \x01\r\n\r\n" },
		{ 400, "GET / HTTP/1.1\r\n" HOST "X: \x7f\r\n\r\n" },
		{ 400, "GET  / HTTP/1.1\r\n" HOST "\r\n" },
		{ 400, "GET / HTTP/1.1 \r\n" HOST "\r\n" },
		{ 400, "GET /a b HTTP/1.1\r\n" HOST "\r\n" },
		{ 400, " GET / HTTP/1.1\r\n" HOST "\r\n" },
		{ 400, "GET\t/ HTTP/1.1\r\n" HOST "\r\n" },
		{ 400, "GET /\r\n\r\n" },
		{ 400, "GET a HTTP/1.1\r\n" HOST "\r\n" },
		{ 400, "GET /#f HTTP/1.1\r\n" HOST "\r\n" },
		{ 400, "GET /\x80 HTTP/1.1\r\n" HOST "\r\n" },
		{ 400, "G(T / HTTP/1.1\r\n" HOST "\r\n" },
		{ 400, "GET / HTTP/1.10\r\n" HOST "\r\n" },
		{ 400, "GET / http/1.1\r\n" HOST "\r\n" },
		{ 505, "GET / HTTP/1.2\r\n" HOST "\r\n" },
		{ 505, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" },
		{ 501, "BREW / HTTP/1.1\r\n" HOST "\r\n" },
		{ 501, "get / HTTP/1.1\r\n" HOST "\r\n" },
		{ 400,
		  "POST / HTTP/1.1\r\n" HOST "Content-Length: 1\r\nContent-Length: 1\r\n\r\nx" },
		{ 400, "POST / HTTP/1.1\r\n" HOST "Content-Length: 1, 1\r\n\r\nx" },
		{ 400, "POST / HTTP/1.1\r\n" HOST "Content-Length: +1\r\n\r\nx" },
		{ 400, "POST / HTTP/1.1\r\n" HOST "Content-Length: 0x1\r\n\r\nx" },
		{ 400, "POST / HTTP/1.1\r\n" HOST "Content-Length:\r\n\r\n" },
		{ 400, "POST / HTTP/1.1\r\n" HOST "Content-Length: -1\r\n\r\n" },
		{ 400, "POST / HTTP/1.1\r\n" HOST "Content-Length: 18446744073709551617\r\n\r\n" },
		{ 413, "POST / HTTP/1.1\r\n" HOST "Content-Length: 2097153\r\n\r\n" },
		{ 400, "POST / HTTP/1.1\r\n" HOST
		       "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" },
		{ 400, "POST / HTTP/1.0\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" },
		{ 501, "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip, chunked\r\n\r\n" },
		{ 501, "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: identity\r\n\r\n" },
		{ 501, "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: xchunked\r\n\r\n" },
		{ 501, "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: \"chunked\"\r\n\r\n" },
		{ 501, "POST / HTTP/1.1\r\n" HOST
		       "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n" },
		{ 417, "POST / HTTP/1.1\r\n" HOST "Expect: miracles\r\n\r\n" },
		{ 417,
		  "POST / HTTP/1.1\r\n" HOST "Expect: 100-continue\r\nExpect: miracles\r\n\r\n" },
		{ 417, "POST / HTTP/1.1\r\n" HOST
		       "Expect: 100-continue\r\nExpect: 100-continue\r\n\r\n" },
		{ 501, "POST / HTTP/1.1\r\n" HOST
		       "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (outcome(cases[i].text) != cases[i].status)
			fail_msg("%d instead of %d: %s", outcome(cases[i].text), cases[i].status,
				 cases[i].text);
}

static void feed__malformed_chunks_are_refused(void **state)
{
	static const struct {
		int status;
		const char *body;
	} cases[] = {
		{ 400, "\r\n" },
		{ 400, ";x\r\n" },
		{ 400, "g\r\n" },
		{ 400, "-1\r\n" },
		{ 400, "0x1\r\nx\r\n" },
		{ 400, " 1\r\nx\r\n" },
		{ 400, "1 \r\nx\r\n" },
		{ 400, "1\nx\r\n" },
		{ 400, "1\rx\r\n" },
		{ 400, "1\r\nxy\r\n" },
		{ 400, "1\r\nx\n" },
		{ 400, "1;\n\r\nx" },
		{ 400, "0\r\nA: b\n\r\n" },
		{ 400, "0\r\n\rX" },
		{ 400, "0000000000000001\r\n" },
		{ 413, "ffffffffffffff\r\n" },
		{ 413, "200001\r\n" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[256];

		snprintf(text, sizeof(text),
			 "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n%s",
			 cases[i].body);
		if (outcome(text) != cases[i].status)
			fail_msg("%d instead of %d: %s", outcome(text), cases[i].status,
				 cases[i].body);
	}
}

static void feed__chunks_that_add_up_to_too_much_are_refused(void **state)
{
	struct http_limits limits = HTTP_LIMITS_INIT;
	static const char text[] = "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"
				   "4\r\nabcd\r\n4\r\nabcd\r\n1\r\na\r\n0\r\n\r\n";

	(void)state;
	limits.body_bytes = 9;
	assert_int_equal(outcome_of_bytes(&limits, text, strlen(text)), 0);
	limits.body_bytes = 8;
	assert_int_equal(outcome_of_bytes(&limits, text, strlen(text)), 413);
}

static void feed__what_is_too_long_is_refused_before_its_end(void **state)
{
	char *text = malloc(100000);
	size_t len;

	(void)state;
	memset(text, 'a', 100000);
	memcpy(text, "GET /", 5);
	assert_int_equal(outcome_of_bytes(&defaults, text, 20000), 414);
	memcpy(text + 4200, " HTTP/1.1\r\n" HOST "\r\n", strlen(" HTTP/1.1\r\n" HOST "\r\n"));
	assert_int_equal(outcome_of_bytes(&defaults, text, 5000), 414);

	memset(text, 'a', 100000);
	memcpy(text, "GET / HTTP/1.1\r\n" HOST, strlen("GET / HTTP/1.1\r\n" HOST));
	assert_int_equal(outcome_of_bytes(&defaults, text, 20000), 431);

	len = (size_t)sprintf(text, "GET / HTTP/1.1\r\n" HOST);
	for (int i = 0; i < HTTP_HEADERS_MAX; i++)
		len += (size_t)sprintf(text + len, "X: %d\r\n", i);
	len += (size_t)sprintf(text + len, "\r\n");
	assert_int_equal(outcome_of_bytes(&defaults, text, len), 431);

	len = (size_t)sprintf(text, "POST / HTTP/1.1\r\n" HOST
				    "Transfer-Encoding: chunked\r\n\r\n0\r\nX: ");
	memset(text + len, 'a', 50000);
	assert_int_equal(outcome_of_bytes(&defaults, text, len + 50000), 431);
	len = (size_t)sprintf(text,
			      "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n1;");
	memset(text + len, 'a', 50000);
	assert_int_equal(outcome_of_bytes(&defaults, text, len + 50000), 400);
	free(text);
}

/* Every length around those at which the buffer grows. */
static void feed__a_head_of_any_length_fits_its_buffer(void **state)
{
	char text[1200];

	(void)state;
	for (size_t pad = 0; pad < 1100; pad++) {
		int n = snprintf(text, sizeof(text), "GET / HTTP/1.1\r\n" HOST "X: %0*d\r\n\r\n",
				 (int)pad + 1, 0);
		struct http_parser p;
		size_t used;

		http_parser_init(&p, &defaults);
		assert_int_equal(http_parser_feed(&p, text, (size_t)n, &used), HTTP_DONE);
		http_parser_fini(&p);
	}
}

static void feed__a_nul_in_the_head_is_refused(void **state)
{
	static const char text[] = "GET / HTTP/1.1\r\n" HOST "X: a\0b\r\n\r\n";

	(void)state;
	assert_int_equal(outcome_of_bytes(&defaults, text, sizeof(text) - 1), 400);
}

static void feed__an_absolute_target_is_its_path(void **state)
{
	struct http_message m = parsed("GET http://other:80/x?y HTTP/1.1\r\n" HOST "\r\n");

	(void)state;
	assert_string_equal(m.path, "/x");
	assert_string_equal(m.query, "y");
	http_message_fini(&m);
	assert_int_equal(outcome("GET http://other HTTP/1.1\r\n" HOST "\r\n"), 400);
}

static void field__that_is_there_twice_is_none(void **state)
{
	struct http_message m = parsed("GET / HTTP/1.1\r\n" HOST "A: 1\r\nB: 2\r\na: 1\r\n\r\n");

	(void)state;
	assert_null(http_message_field(&m, "A"));
	assert_true(http_message_has(&m, "A"));
	assert_string_equal(http_message_field(&m, "B"), "2");
	http_message_fini(&m);
}

static void wants_continue__is_said_once_when_the_body_is_awaited(void **state)
{
	static const char head[] =
		"POST / HTTP/1.1\r\n" HOST "Content-Length: 2\r\nExpect: 100-Continue\r\n\r\n";
	struct http_parser p;
	size_t used;

	(void)state;
	http_parser_init(&p, &defaults);
	assert_int_equal(http_parser_feed(&p, head, 20, &used), HTTP_MORE);
	assert_false(http_parser_wants_continue(&p));
	assert_int_equal(http_parser_feed(&p, head + 20, strlen(head) - 20, &used), HTTP_MORE);
	assert_true(http_parser_wants_continue(&p));
	assert_false(http_parser_wants_continue(&p));
	assert_int_equal(http_parser_feed(&p, "ok", 2, &used), HTTP_DONE);
	assert_false(http_parser_wants_continue(&p));
	http_parser_fini(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(feed__a_whole_request_gives_its_parts),
		cmocka_unit_test(feed__chunks_become_one_body),
		cmocka_unit_test(feed__pipelined_requests_are_taken_one_by_one),
		cmocka_unit_test(feed__of_an_empty_line_alone_begins_no_request),
		cmocka_unit_test(feed__connection_fields_decide_what_comes_after),
		cmocka_unit_test(feed__what_two_readers_could_read_differently_is_refused),
		cmocka_unit_test(feed__malformed_chunks_are_refused),
		cmocka_unit_test(feed__chunks_that_add_up_to_too_much_are_refused),
		cmocka_unit_test(feed__what_is_too_long_is_refused_before_its_end),
		cmocka_unit_test(feed__a_head_of_any_length_fits_its_buffer),
		cmocka_unit_test(feed__a_nul_in_the_head_is_refused),
		cmocka_unit_test(feed__an_absolute_target_is_its_path),
		cmocka_unit_test(field__that_is_there_twice_is_none),
		cmocka_unit_test(wants_continue__is_said_once_when_the_body_is_awaited),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
