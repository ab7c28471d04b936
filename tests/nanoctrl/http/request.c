/* SPDX-License-Identifier: Apache-2.0 */
/* Requests and what is replied to them. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/nanoctrl/http/client.h"

static char requests[1 << 19]; /* that are sent at once */

/* The number of times that part occurs. */
static int count(const char *part)
{
	int n = 0;

	for (const char *at = fx.said; (at = strstr(at, part)); at++)
		n++;
	return n;
}

static void request__every_refusal_is_json_and_closes(void **state)
{
	static const struct {
		const char *status, *code, *field, *request;
	} cases[] = {
		{ "400 ", "bad_request", "request line",
		  "\x16\x03\x01\x02\x00\x01\x00"
		  "xx\r\n\r\n" },
		{ "400 ", "bad_request", "head", "GET / HTTP/1.1\n" },
		{ "400 ", "bad_request", "Host", "GET /hello HTTP/1.1\r\n\r\n" },
		{ "400 ", "bad_request", "head", "GET /hello HTTP/1.1\r\nHost : a\r\n\r\n" },
		{ "400 ", "bad_request", "Transfer-Encoding",
		  "POST /echo HTTP/1.1\r\n" HOST
		  "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n" },
		{ "413 ", "too_large", "body",
		  "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 99999999\r\n\r\n" },
		{ "417 ", "expectation", "Expect",
		  "POST /echo HTTP/1.1\r\n" HOST "Expect: x\r\n\r\n" },
		{ "501 ", "unknown_method", "method", "BREW / HTTP/1.1\r\n" HOST "\r\n" },
		{ "501 ", "transfer_coding", "Transfer-Encoding",
		  "POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip\r\n\r\n" },
		{ "505 ", "http_version", "version", "GET / HTTP/3.0\r\n" HOST "\r\n" },
		{ "421 ", "misdirected", "Host",
		  "GET /hello HTTP/1.1\r\nHost: evil.example:3000\r\nConnection: close\r\n\r\n" },
		{ "403 ", "forbidden", "Origin",
		  "POST /echo HTTP/1.1\r\nOrigin: http://evil.example\r\n" CLOSE },
		{ "403 ", "forbidden", "Origin", "GET /hello HTTP/1.1\r\nOrigin: null\r\n" CLOSE },
		{ "403 ", "forbidden", "Origin",
		  "GET /hello HTTP/1.1\r\nOrigin: http://localhost\r\n"
		  "Origin: http://localhost\r\n" CLOSE },
		{ "403 ", "forbidden", "Origin", "GET /hello HTTP/1.0\r\nOrigin: null\r\n\r\n" },
		{ "403 ", "forbidden", "Origin",
		  "GET /ws HTTP/1.1\r\n" HOST "Origin: http://localhost:1\r\n"
		  "Connection: Upgrade, close\r\nUpgrade: WebSocket\r\nSec-WebSocket-Version: 13\r\n"
		  "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n" },
		{ "404 ", "not_found", "path", "GET /nothing HTTP/1.1\r\n" CLOSE },
		{ "404 ", "not_found", "path", "OPTIONS * HTTP/1.1\r\n" CLOSE },
		{ "405 ", "method_not_allowed", "method", "POST /hello HTTP/1.1\r\n" CLOSE },
		{ "400 ", "bad_name", "path", "GET /p/%ff HTTP/1.1\r\n" CLOSE },
		{ "400 ", "bad_name", "path", "GET /p/a%00 HTTP/1.1\r\n" CLOSE },
		{ "400 ", "bad_query", "query", "GET /p/a?%zz HTTP/1.1\r\n" CLOSE },
		{ "400 ", "bad_query", "x", "GET /p/a?x=1&y=&x=1 HTTP/1.1\r\n" CLOSE },
		{ "426 ", "upgrade_required", "Upgrade", "GET /ws HTTP/1.1\r\n" CLOSE },
	};

	(void)state;
	http_fixture_start();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char status[32], code[64], field[64];

		snprintf(status, sizeof(status), "HTTP/1.1 %s", cases[i].status);
		snprintf(code, sizeof(code), "{\"status\":\"error\",\"code\":\"%s\",\"message\":\"",
			 cases[i].code);
		snprintf(field, sizeof(field), ",\"field\":\"%s\"}", cases[i].field);
		assert_exchange(cases[i].request, status);
		assert_has(code);
		assert_has(field);
		assert_has("\"outcome\":\"not_executed\",\"request_id\":\"");
		assert_has("Content-Type: application/json\r\n");
		assert_has("Connection: close\r\n");
	}
	assert_exchange("GET /hello HTTP/1.1\r\n" CLOSE, "hello");
}

static void request__too_much_of_anything_is_refused_and_the_reply_arrives(void **state)
{
	char *big = malloc(4000000);
	int n = sprintf(big, "POST /echo HTTP/1.1\r\n" HOST
			     "Transfer-Encoding: chunked\r\n\r\n200001\r\n");

	(void)state;
	http_fixture_start();
	/* The client still sends while the server has said no. */
	memset(big + n, 'x', 3900000);
	big[3900000] = '\0';
	assert_exchange(big, "HTTP/1.1 413 ");
	memset(big, 'x', 30000);
	big[30000] = '\0';
	memcpy(big, "GET /", 5);
	assert_exchange(big, "HTTP/1.1 414 ");
	n = sprintf(big, "GET / HTTP/1.1\r\n" HOST "X: ");
	memset(big + n, 'x', 30000);
	assert_exchange(big, "HTTP/1.1 431 ");
	free(big);
}

static void request__by_a_name_of_the_settings_is_answered(void **state)
{
	static const char *const names[] = { "ctrl.example" };

	(void)state;
	fx.config.names = names;
	fx.config.n_names = 1;
	http_fixture_start();
	assert_exchange("GET /hello HTTP/1.1\r\nHost: ctrl.example:80\r\nConnection: close\r\n\r\n",
			"hello");
	assert_exchange(
		"GET /hello HTTP/1.1\r\nHost: ctrl.example\r\nOrigin: https://ctrl.example\r\n"
		"Connection: close\r\n\r\n",
		"hello");
	assert_exchange("GET /hello HTTP/1.0\r\n\r\n", "hello");
	assert_exchange("GET / HTTP/1.1\r\nHost: nanoctrl\r\nConnection: close\r\n\r\n",
			"HTTP/1.1 404 ");
	assert_exchange("GET /hello HTTP/1.1\r\nHost: other.example\r\nConnection: close\r\n\r\n",
			"other.example is no name of this server: server.names lists them");
}

static void request__pipelined_ones_are_answered_in_order(void **state)
{
	size_t len = 0;
	int fd;

	(void)state;
	http_fixture_start();
	fd = http_connect();
	for (int i = 0; i < 50; i++)
		len += (size_t)sprintf(requests + len,
				       "GET /%s HTTP/1.1\r\n" HOST "X-Request-Id: id-%d.\r\n\r\n",
				       i % 3 ? "hello" : "later", i);
	len += (size_t)sprintf(requests + len, "GET /hello HTTP/1.1\r\n" CLOSE);
	http_send(fd, requests, len);
	http_read(fd, NULL);
	close(fd);
	assert_int_equal(count("HTTP/1.1 200 OK"), 51);
	for (int i = 0; i < 49; i++) {
		char first[32], second[32];

		snprintf(first, sizeof(first), "X-Request-Id: id-%d.\r\n", i);
		snprintf(second, sizeof(second), "X-Request-Id: id-%d.\r\n", i + 1);
		assert_true(strstr(fx.said, first) < strstr(fx.said, second));
	}
}

/* Four times as much as the server keeps behind a request. */
static void request__pipelined_ones_beyond_the_input_are_all_answered(void **state)
{
	char pad[4001];
	size_t len = 0;
	int fd;

	(void)state;
	memset(pad, 'x', sizeof(pad) - 1);
	pad[sizeof(pad) - 1] = '\0';
	http_fixture_start();
	fd = http_connect();
	for (int i = 0; i < 64; i++)
		len += (size_t)sprintf(requests + len, "GET /%s HTTP/1.1\r\n" HOST "X: %s\r\n\r\n",
				       i % 8 ? "later" : "slow", pad);
	len += (size_t)sprintf(requests + len, "GET /hello HTTP/1.1\r\n" CLOSE);
	http_send(fd, requests, len);
	http_read(fd, NULL);
	close(fd);
	assert_int_equal(count("HTTP/1.1 200 OK"), 65);
}

static void request__parts_are_decoded(void **state)
{
	(void)state;
	http_fixture_start();
	assert_exchange("GET /p/a%2Fb%C3%A9?x=1&q=1+2%26 HTTP/1.1\r\nx-h: \t v \r\n" CLOSE,
			"a/b\xc3\xa9|1 2&|v");
	assert_exchange("HEAD /p/a HTTP/1.1\r\n" CLOSE, "Content-Length: 5\r\n");
	assert_null(strstr(fx.said, "a|-|-"));
	assert_exchange("GET /hello HTTP/1.0\r\n\r\n", "hello");
	assert_exchange("POST /hello HTTP/1.1\r\n" CLOSE, "Allow: GET, HEAD\r\n");
}

static void request__a_body_may_wait_for_continue_and_come_in_chunks(void **state)
{
	int fd;

	(void)state;
	http_fixture_start();
	fd = http_connect();
	http_say(fd, "POST /echo HTTP/1.1\r\n" HOST
		     "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n");
	http_read(fd, "\r\n\r\n");
	assert_string_equal(fx.said, "HTTP/1.1 100 Continue\r\n\r\n");
	http_say(fd, "{}");
	http_read(fd, "{}");
	assert_has("HTTP/1.1 200 OK");
	close(fd);
	assert_exchange("POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" CLOSE
			"2\r\n[1\r\n1\r\n]\r\n0\r\n\r\n",
			"\r\n\r\n[1]");
}

static void request__one_that_does_not_arrive_is_timed_out(void **state)
{
	(void)state;
	fx.config.request_ms = 50;
	http_fixture_start();
	assert_exchange("GET /hel", "HTTP/1.1 408 ");
	assert_has("\"code\":\"timeout\"");
	assert_exchange("GET /metrics HTTP/1.1\r\n" CLOSE, ",status=\"408\"} 1\n");
}

/* The other connection's time begins after that of the reply, on the same loop: when it is over
 * both are. */
static void reply__that_takes_longer_than_a_connection_may_be_idle_arrives(void **state)
{
	static char big[2000000];
	int fd;

	(void)state;
	fx.config.idle_ms = 50;
	fx.config.n_loops = 1;
	http_fixture_start();
	fd = http_connect_narrow();
	memset(big, 'x', sizeof(big));
	http_say(fd, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 2000000\r\n\r\n");
	http_send(fd, big, sizeof(big));
	http_read(fd, "\r\n\r\n");
	http_exchange("");
	assert_string_equal(fx.said, "");
	assert_int_equal(http_read(fd, NULL), sizeof(big));
	close(fd);
}

static void request__the_handler_is_told_when_the_client_goes(void **state)
{
	int fd;

	(void)state;
	http_fixture_start();
	fd = http_connect();
	http_say(fd, "GET /wait HTTP/1.1\r\n" HOST "\r\n");
	/* Another request on the same connection is behind it, and is never read. */
	http_say(fd, "GET /hello HTTP/1.1\r\n" HOST "\r\n");
	close(fd);
	http_await(&fx.n_gone, 1);
	assert_exchange("GET /metrics HTTP/1.1\r\n" CLOSE,
			"{method=\"GET\",route=\"/wait\",status=\"499\"} 1\n");
	assert_has("nanoctrl_http_requests_in_flight 1\n"); /* this one */
}

/* A connection with a request of which so many bytes of the body are there, and as many are not. */
static int begin_body(size_t len)
{
	static char body[1 << 20];
	char head[160];
	int fd = http_connect();

	memset(body, 'x', sizeof(body));
	snprintf(head, sizeof(head), "POST /echo HTTP/1.1\r\n" HOST "Content-Length: %zu\r\n\r\n",
		 2 * len);
	http_say(fd, head);
	http_send(fd, body, len);
	return fd;
}

static void until_503(int fd)
{
	http_read(fd, "\"request_id\"");
	assert_has("HTTP/1.1 503 ");
	assert_has("\"code\":\"busy\"");
	assert_has("\r\nRetry-After: ");
	close(fd);
}

static void body__that_does_not_end_pays_when_memory_is_short(void **state)
{
	static char rest[100000];
	int small, large, larger;

	(void)state;
	fx.config.n_loops = 1;
	fx.config.body_memory = 1 << 20;
	http_fixture_start();
	small = begin_body(sizeof(rest));
	large = begin_body(300000);
	larger = begin_body(300000);
	until_503(large); /* of two equal ones the one that came first */
	for (int i = 0; i < 100; i++)
		assert_exchange("POST /echo HTTP/1.1\r\nContent-Length: 2\r\n" CLOSE "{}",
				"HTTP/1.1 200 ");
	memset(rest, 'y', sizeof(rest));
	http_send(small, rest, sizeof(rest));
	http_read(small, "yyy");
	assert_has("HTTP/1.1 200 ");
	close(small);
	until_503(begin_body(600000)); /* too large for what there is */
	close(larger);
}

static void heads__that_do_not_end_keep_nobody_else_out(void **state)
{
	enum { N = 120 };
	static char head[12000];
	int fds[N];
	int n = sprintf(head, "GET /hello HTTP/1.1\r\n" HOST "X-H: ");

	(void)state;
	memset(head + n, 'x', sizeof(head) - (size_t)n);
	fx.config.n_loops = 1;
	fx.config.body_memory = 1 << 20; /* 64 of them */
	http_fixture_start();
	for (int i = 0; i < N; i++) {
		fds[i] = http_connect();
		http_send(fds[i], head, sizeof(head));
		assert_exchange("GET /readyz HTTP/1.1\r\n" CLOSE, "HTTP/1.1 200 ");
	}
	until_503(fds[0]);
	http_say(fds[N - 1], "\r\n\r\n");
	http_read(fds[N - 1], "hello");
	for (int i = 1; i < N; i++)
		close(fds[i]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, http_fixture_setup, http_fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(request__every_refusal_is_json_and_closes),
		TEST(request__too_much_of_anything_is_refused_and_the_reply_arrives),
		TEST(request__by_a_name_of_the_settings_is_answered),
		TEST(request__pipelined_ones_are_answered_in_order),
		TEST(request__pipelined_ones_beyond_the_input_are_all_answered),
		TEST(request__parts_are_decoded),
		TEST(request__a_body_may_wait_for_continue_and_come_in_chunks),
		TEST(request__one_that_does_not_arrive_is_timed_out),
		TEST(reply__that_takes_longer_than_a_connection_may_be_idle_arrives),
		TEST(request__the_handler_is_told_when_the_client_goes),
		TEST(body__that_does_not_end_pays_when_memory_is_short),
		TEST(heads__that_do_not_end_keep_nobody_else_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
