/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>
#include <cmocka.h>
#include <event2/buffer.h>

#include "http_fixture.h"
#include "ws_frame.h"

#define HOST  "Host: a\r\n"
#define CLOSE HOST "Connection: close\r\n\r\n"
#define UPGRADE                                                                     \
	"GET /ws HTTP/1.1\r\n" HOST "Connection: Upgrade\r\nUpgrade: WebSocket\r\n" \
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"

static char text[1 << 20];

static int setup(void **state)
{
	(void)state;
	http_fixture_init();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	http_fixture_stop();
	return 0;
}

static void assert_has(const char *wanted)
{
	if (!strstr(text, wanted))
		fail_msg("no \"%s\" in: %s", wanted, text);
}

static void assert_exchange(const char *request, const char *wanted)
{
	http_exchange(request, text, sizeof(text));
	assert_has(wanted);
}

static void say(int fd, const char *bytes)
{
	http_send(fd, bytes, strlen(bytes));
}

/* The number of times that part occurs. */
static int count(const char *part)
{
	int n = 0;

	for (const char *at = text; (at = strstr(at, part)); at++)
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

static void request__pipelined_ones_are_answered_in_order(void **state)
{
	size_t len = 0;
	int fd;

	(void)state;
	http_fixture_start();
	fd = http_connect();
	for (int i = 0; i < 50; i++)
		len += (size_t)sprintf(text + len,
				       "GET /%s HTTP/1.1\r\n" HOST "X-Request-Id: id-%d.\r\n\r\n",
				       i % 3 ? "hello" : "later", i);
	len += (size_t)sprintf(text + len, "GET /hello HTTP/1.1\r\n" CLOSE);
	http_send(fd, text, len);
	http_read(fd, NULL, text, sizeof(text));
	close(fd);
	assert_int_equal(count("HTTP/1.1 200 OK"), 51);
	for (int i = 0; i < 49; i++) {
		char first[32], second[32];

		snprintf(first, sizeof(first), "X-Request-Id: id-%d.\r\n", i);
		snprintf(second, sizeof(second), "X-Request-Id: id-%d.\r\n", i + 1);
		assert_true(strstr(text, first) < strstr(text, second));
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
		len += (size_t)sprintf(text + len, "GET /%s HTTP/1.1\r\n" HOST "X: %s\r\n\r\n",
				       i % 8 ? "later" : "slow", pad);
	len += (size_t)sprintf(text + len, "GET /hello HTTP/1.1\r\n" CLOSE);
	http_send(fd, text, len);
	http_read(fd, NULL, text, sizeof(text));
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
	assert_null(strstr(text, "a|-|-"));
	assert_exchange("GET /hello HTTP/1.0\r\n\r\n", "hello");
	assert_exchange("POST /hello HTTP/1.1\r\n" CLOSE, "Allow: GET, HEAD\r\n");
}

static void request__a_body_may_wait_for_continue_and_come_in_chunks(void **state)
{
	int fd;

	(void)state;
	http_fixture_start();
	fd = http_connect();
	say(fd, "POST /echo HTTP/1.1\r\n" HOST "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n");
	http_read(fd, "\r\n\r\n", text, sizeof(text));
	assert_string_equal(text, "HTTP/1.1 100 Continue\r\n\r\n");
	say(fd, "{}");
	http_read(fd, "{}", text, sizeof(text));
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

static void connection__without_a_request_is_closed_without_a_word(void **state)
{
	(void)state;
	fx.config.idle_ms = 50;
	http_fixture_start();
	http_exchange("", text, sizeof(text));
	assert_string_equal(text, "");
}

/* The other connection's time begins after that of the reply, on the same loop: when it is over
 * both are. */
static void reply__that_takes_longer_than_a_connection_may_be_idle_arrives(void **state)
{
	static char big[2000002];
	const size_t len = 2000000;
	int fd;

	(void)state;
	fx.config.idle_ms = 50;
	fx.config.n_loops = 1;
	http_fixture_start();
	fd = http_connect_narrow();
	memset(big, 'x', len);
	say(fd, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 2000000\r\n\r\n");
	http_send(fd, big, len);
	http_read(fd, "\r\n\r\n", text, sizeof(text));
	http_exchange("", text, sizeof(text));
	assert_string_equal(text, "");
	assert_int_equal(http_read(fd, NULL, big, sizeof(big)), len);
	close(fd);
}

static void request__the_handler_is_told_when_the_client_goes(void **state)
{
	int fd;

	(void)state;
	http_fixture_start();
	fd = http_connect();
	say(fd, "GET /wait HTTP/1.1\r\n" HOST "\r\n");
	/* Another request on the same connection is behind it, and is never read. */
	say(fd, "GET /hello HTTP/1.1\r\n" HOST "\r\n");
	close(fd);
	http_await(&fx.n_gone, 1);
	assert_exchange("GET /metrics HTTP/1.1\r\n" CLOSE,
			"{method=\"GET\",route=\"/wait\",status=\"499\"} 1\n");
	assert_has("nanoctrl_http_requests_in_flight 1\n"); /* this one */
}

/* What /metrics says behind these words. */
static double number_behind(const char *words)
{
	const char *at;

	assert_has(words);
	at = strstr(text, words);
	return strtod(at + strlen(words), NULL);
}

#define METRICS "GET /metrics HTTP/1.1\r\n" CLOSE
#define TIMES	"nanoctrl_http_request_duration_seconds_"
#define OF_SLOW "{method=\"GET\",route=\"/slow\""
#define N_SLOW	3

/* The bounds of what /slow took grow up to infinity, and the counts with them. */
static void assert_counts_grow(void)
{
	static const char bucket[] = "\n" TIMES "bucket" OF_SLOW ",le=\"";
	double bound = 0, count = 0;

	for (char *at = text; (at = strstr(at, bucket));) {
		double next = strtod(at + strlen(bucket), &at);

		assert_true(next > bound);
		assert_memory_equal(at, "\"} ", 3);
		bound = next;
		next = strtod(at + 3, &at);
		assert_true(next >= count);
		count = next;
	}
	assert_true(isinf(bound));
	assert_true(count == N_SLOW);
}

static void metrics__of_a_route_have_its_statuses_and_times(void **state)
{
	(void)state;
	http_fixture_start();
	for (int i = 0; i < N_SLOW; i++)
		assert_exchange("GET /slow HTTP/1.1\r\n" CLOSE, "later");
	assert_exchange("GET /p/x HTTP/1.1\r\n" CLOSE, "x|");
	assert_exchange("GET /p/y HTTP/1.1\r\n" CLOSE, "y|");
	assert_exchange("GET /nothing HTTP/1.1\r\n" CLOSE, "HTTP/1.1 404 ");
	http_exchange(METRICS, text, sizeof(text));
	assert_has("\nnanoctrl_http_requests_total" OF_SLOW ",status=\"200\"} 3\n");
	assert_has("_total{method=\"GET\",route=\"/p/{name}\",status=\"200\"} 2\n");
	assert_has("_total{method=\"\",route=\"none\",status=\"404\"} 1\n");
	assert_counts_grow();
	assert_true(number_behind(TIMES "count" OF_SLOW "} ") == N_SLOW);
	/* Each took 20 ms, by a clock that may be coarse. */
	assert_true(number_behind(TIMES "bucket" OF_SLOW ",le=\"0.005\"} ") == 0);
	assert_true(number_behind(TIMES "sum" OF_SLOW "} ") > N_SLOW * 0.005);
}

#define N_EACH 3

static void ask_loop(int fd, char loop[40])
{
	say(fd, "GET /loop HTTP/1.1\r\n" HOST "\r\n");
	http_read(fd, ")", text, sizeof(text));
	snprintf(loop, 40, "%s", strchr(text, '('));
}

static bool metrics_say(const char *line)
{
	struct evbuffer *out = evbuffer_new();
	bool found;

	server_metrics(fx.server, out);
	found = evbuffer_search(out, line, strlen(line), NULL).pos >= 0;
	evbuffer_free(out);
	return found;
}

/* Neither in turn nor by chance: while one loop has none, those that come are all its. */
static void connection__goes_to_the_loop_with_the_fewest(void **state)
{
	char loops[2 * N_EACH][40], loop[40];
	int fds[2 * N_EACH], of_first = 0;

	(void)state;
	http_fixture_start();
	for (int i = 0; i < 2 * N_EACH; i++) {
		fds[i] = http_connect();
		ask_loop(fds[i], loops[i]);
		of_first += !strcmp(loops[i], loops[0]);
	}
	assert_int_equal(of_first, N_EACH);
	for (int i = 0; i < 2 * N_EACH; i++)
		if (!strcmp(loops[i], loops[0]))
			close(fds[i]);
	while (!metrics_say("\nnanoctrl_http_connections 3\n"))
		poll(NULL, 0, 1);
	for (int i = 0; i < 2 * N_EACH; i++)
		if (!strcmp(loops[i], loops[0])) {
			fds[i] = http_connect();
			ask_loop(fds[i], loop);
			assert_string_equal(loop, loops[0]);
		}
	for (int i = 0; i < 2 * N_EACH; i++)
		close(fds[i]);
}

static void connections__more_than_allowed_are_turned_away(void **state)
{
	int first, second;
	char length[40];

	(void)state;
	fx.config.max_connections = 2;
	http_fixture_start();
	first = http_connect();
	second = http_connect();
	say(second, "GET /hello HTTP/1.1\r\n" HOST "\r\n");
	http_read(second, "hello", text, sizeof(text));
	assert_exchange("", "HTTP/1.1 503 ");
	assert_has("Retry-After: ");
	snprintf(length, sizeof(length), "Content-Length: %zu\r\n",
		 strlen(strstr(text, "\r\n\r\n") + 4));
	assert_has(length);
	close(first);
	close(second);
}

static void body__memory_of_all_requests_is_bounded(void **state)
{
	static char body[300000];
	int held;

	(void)state;
	fx.config.n_loops = 1;
	fx.config.body_memory = 1 << 20;
	http_fixture_start();
	held = http_connect();
	memset(body, 'x', sizeof(body));
	say(held, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 1000000\r\n\r\n");
	http_send(held, body, sizeof(body));
	http_send(held, body, sizeof(body)); /* half of it: the buffer is 1 MiB by now */
	for (int i = 0; i < 5000; i++) {
		http_exchange("POST /echo HTTP/1.1\r\nContent-Length: 2\r\n" CLOSE "{}", text,
			      sizeof(text));
		if (strstr(text, "HTTP/1.1 503 "))
			break;
	}
	assert_has("\"code\":\"busy\"");
	close(held);
}

static void lines__go_out_until_the_client_leaves(void **state)
{
	int fd;

	(void)state;
	fx.config.tick_ms = 10;
	http_fixture_start();
	fd = http_connect();
	say(fd, "GET /lines HTTP/1.1\r\n" HOST "\r\n");
	http_read(fd, "10\r\n{\"type\":\"beat\"}\n\r\n10\r\n{\"type\":\"beat\"}\n\r\n", text,
		  sizeof(text));
	assert_has("Content-Type: application/jsonl\r\nTransfer-Encoding: chunked\r\n");
	close(fd);
	http_await(&fx.n_closed, 1);
}

static void lines__end_after_their_age_with_a_word(void **state)
{
	(void)state;
	fx.config.stream_age_ms = 50;
	http_fixture_start();
	assert_exchange("GET /lines HTTP/1.1\r\n" HOST "\r\n", "4\r\nage\n\r\n0\r\n\r\n");
	http_await(&fx.n_closed, 1);
}

/* A masked frame with a short payload. */
static void send_frame(int fd, unsigned first, const char *payload, size_t len)
{
	unsigned char frame[140] = {
		(unsigned char)first, (unsigned char)(0x80 | len), 9, 8, 7, 6
	};

	for (size_t i = 0; i < len; i++)
		frame[6 + i] = (unsigned char)payload[i] ^ frame[2 + (i & 3)];
	http_send(fd, frame, 6 + len);
}

static int upgrade(int fd)
{
	say(fd, UPGRADE);
	http_read(fd, "\r\n\r\n", text, sizeof(text));
	assert_has("HTTP/1.1 101 ");
	assert_has("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n");
	return fd;
}

static int open_ws(void)
{
	return upgrade(http_connect());
}

static void websocket__messages_pings_and_close_are_answered(void **state)
{
	size_t len;
	int fd;

	(void)state;
	http_fixture_start();
	fd = open_ws();
	send_frame(fd, 0x81, "hello", 5);
	http_read(fd, "\x81\x05hello", text, sizeof(text));
	send_frame(fd, 0x01, "he", 2);
	send_frame(fd, 0x89, "?", 1);
	send_frame(fd, 0x80, "y", 1);
	http_read(fd, "\x8a\x01?\x81\x03hey", text, sizeof(text));
	send_frame(fd, 0x88, "\x03\xe8", 2);
	len = http_read(fd, NULL, text, sizeof(text));
	assert_int_equal(len, 4);
	assert_memory_equal(text, "\x88\x02\x03\xe8", 4);
	close(fd);
	http_await(&fx.n_closed, 1);
}

static void websocket__a_message_right_behind_the_upgrade_is_answered(void **state)
{
	static const char bytes[] = UPGRADE "\x81\x81\0\0\0\0x";
	int fd;

	(void)state;
	http_fixture_start();
	fd = http_connect();
	http_send(fd, bytes, sizeof(bytes) - 1);
	http_read(fd, "\r\n\r\n\x81\x01x", text, sizeof(text));
	close(fd);
	http_await(&fx.n_closed, 1);
}

static void websocket__a_client_that_breaks_the_protocol_is_closed(void **state)
{
	static const struct {
		unsigned code;
		size_t len;
		const char *bytes;
	} cases[] = {
		{ WS_CLOSE_PROTOCOL, 3, "\x81\x01x" },
		{ WS_CLOSE_TYPE, 7, "\x82\x81\0\0\0\0x" },
		{ WS_CLOSE_UTF8, 7, "\x81\x81\0\0\0\0\xff" },
		{ WS_CLOSE_SIZE, 14, "\x81\xff\0\0\0\0\0\x10\0\0\0\0\0\0" },
	};

	(void)state;
	http_fixture_start();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int fd = open_ws();
		size_t len;

		http_send(fd, cases[i].bytes, cases[i].len);
		send_frame(fd, 0x88, "", 0); /* its answer to our close frame */
		len = http_read(fd, NULL, text, sizeof(text));
		assert_true(len >= 4);
		assert_int_equal((unsigned char)text[0], 0x88);
		assert_int_equal((unsigned char)text[2] << 8 | (unsigned char)text[3],
				 cases[i].code);
		close(fd);
	}
	http_await(&fx.n_closed, (int)(sizeof(cases) / sizeof(cases[0])));
}

static void websocket__a_full_queue_is_dropped_whole_and_reset(void **state)
{
	size_t len, at = 0;
	int fd, small = 4096, n = 0;
	bool reset = false;

	(void)state;
	http_fixture_start();
	fd = open_ws();
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	send_frame(fd, 0x81, "flood", 5);
	http_await(&fx.n_flooded, 1);
	assert_true(fx.n_flooded * 1004 <= (int)fx.config.stream_queue);
	send_frame(fd, 0x81, "close", 5);
	send_frame(fd, 0x88, "\x0f\xa2", 2);
	len = http_read(fd, NULL, text, sizeof(text));
	/* Every message that did come is whole, fewer than were sent, and reset is after them. */
	while (at + 2 <= len && (unsigned char)text[at] == 0x81) {
		size_t head = text[at + 1] == 126 ? 4 : 2;
		size_t size = head == 4 ? (size_t)((unsigned char)text[at + 2] << 8 |
						   (unsigned char)text[at + 3])
					: (size_t)text[at + 1];

		if (size == 5 && !memcmp(text + at + 2, "reset", 5))
			reset = true;
		else
			assert_int_equal(size, 1000);
		at += head + size;
		n++;
	}
	assert_true(reset);
	assert_true(n - 1 < fx.n_flooded);
	assert_int_equal((unsigned char)text[at], 0x88);
	close(fd);
	http_await(&fx.n_closed, 1);
}

/* A client that takes nothing of what it asks for, until it is cut off. */
static void stall(size_t queue, int (*dial)(void), const char *what)
{
	int fd;

	fx.config.stall_ms = 200;
	fx.config.stream_queue = queue;
	http_fixture_start();
	fd = upgrade(dial());
	send_frame(fd, 0x81, what, strlen(what));
	http_await(&fx.n_closed, 1);
	close(fd);
}

static void websocket__a_client_that_takes_nothing_is_cut_off(void **state)
{
	(void)state;
	stall(64 << 20, http_connect, "fill");
}

/* Little enough for the server's socket: it is the kernel that sees it not acknowledged. */
static void websocket__a_client_that_does_not_read_counts_as_stalled(void **state)
{
	(void)state;
	stall(16 << 10, http_connect_narrow, "flood");
	http_exchange("GET /metrics HTTP/1.1\r\n" CLOSE, text, sizeof(text));
	assert_has("\nnanoctrl_stream_stalls_total 1\n");
}

static void drain__what_is_in_flight_ends_and_the_server_is_done(void **state)
{
	int waiting, ws;

	(void)state;
	fx.config.drain_accept_ms = 5000; /* it still answers for so long */
	http_fixture_start();
	waiting = http_connect();
	say(waiting, "GET /wait HTTP/1.1\r\n" HOST "\r\n");
	ws = open_ws();
	send_frame(ws, 0x81, "here", 4);
	http_read(ws, "here", text, sizeof(text));
	/* The request is with its handler when metrics, on any loop, counts it beside itself. */
	do
		http_exchange("GET /metrics HTTP/1.1\r\n" CLOSE, text, sizeof(text));
	while (!strstr(text, "requests_in_flight 2\n"));

	http_fixture_drain();
	http_read(waiting, NULL, text, sizeof(text));
	assert_has("Connection: close\r\n");
	assert_has("ended");
	assert_exchange("GET /readyz?local=1 HTTP/1.1\r\n" HOST "\r\n", "HTTP/1.1 503 ");
	assert_has("shutting down");
	http_read(ws, "drain", text, sizeof(text));
	send_frame(ws, 0x88, "\x03\xe9", 2);
	http_read(ws, NULL, text, sizeof(text));
	close(waiting);
	close(ws);
	http_await(&fx.n_done, 1);
	assert_int_equal(fx.n_drained, 1);
	assert_int_equal(fx.n_closed, 1);
}

static void create__an_address_in_use_is_refused(void **state)
{
	struct server_config config;
	struct server *second;
	unsigned port;

	(void)state;
	http_fixture_start();
	config = fx.config;
	assert_int_equal(sscanf(server_url(fx.server), "http://127.0.0.1:%u", &port), 1);
	config.port = (uint16_t)port;
	assert_int_equal(server_create(&config, fx.main, &second), -EADDRINUSE);
	config.host = "localhost";
	assert_int_equal(server_create(&config, fx.main, &second), -EINVAL);
}

#define T(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(request__every_refusal_is_json_and_closes),
		T(request__too_much_of_anything_is_refused_and_the_reply_arrives),
		T(request__pipelined_ones_are_answered_in_order),
		T(request__pipelined_ones_beyond_the_input_are_all_answered),
		T(request__parts_are_decoded),
		T(request__a_body_may_wait_for_continue_and_come_in_chunks),
		T(request__one_that_does_not_arrive_is_timed_out),
		T(connection__without_a_request_is_closed_without_a_word),
		T(reply__that_takes_longer_than_a_connection_may_be_idle_arrives),
		T(request__the_handler_is_told_when_the_client_goes),
		T(metrics__of_a_route_have_its_statuses_and_times),
		T(connection__goes_to_the_loop_with_the_fewest),
		T(connections__more_than_allowed_are_turned_away),
		T(body__memory_of_all_requests_is_bounded),
		T(lines__go_out_until_the_client_leaves),
		T(lines__end_after_their_age_with_a_word),
		T(websocket__messages_pings_and_close_are_answered),
		T(websocket__a_message_right_behind_the_upgrade_is_answered),
		T(websocket__a_client_that_breaks_the_protocol_is_closed),
		T(websocket__a_full_queue_is_dropped_whole_and_reset),
		T(websocket__a_client_that_takes_nothing_is_cut_off),
		T(websocket__a_client_that_does_not_read_counts_as_stalled),
		T(drain__what_is_in_flight_ends_and_the_server_is_done),
		T(create__an_address_in_use_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
