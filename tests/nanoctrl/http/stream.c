/* SPDX-License-Identifier: Apache-2.0 */
/* Streams of lines, and WebSockets. */
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>
#include <event2/event.h>
#include <sys/socket.h>

#include "tests/nanoctrl/http/client.h"
#include "nanoctrl/net/ws_frame.h"

static void lines__go_out_until_the_client_leaves(void **state)
{
	int fd;

	(void)state;
	fx.config.tick_ms = 10;
	http_fixture_start();
	fd = http_connect();
	http_say(fd, "GET /lines HTTP/1.1\r\n" HOST "\r\n");
	http_read(fd, "10\r\n{\"type\":\"beat\"}\n\r\n10\r\n{\"type\":\"beat\"}\n\r\n");
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

#define AGE_MS	  10000000 /* no other timer is set for anything like it */
#define N_STREAMS 32

static struct {
	_Atomic int n;
	_Atomic long ms[N_STREAMS];
} ages;

int __real_event_add(struct event *ev, const struct timeval *tv);
int __wrap_event_add(struct event *ev, const struct timeval *tv);
int __wrap_event_add(struct event *ev, const struct timeval *tv)
{
	long ms = tv ? tv->tv_sec * 1000 + tv->tv_usec / 1000 : 0;

	if (ms > AGE_MS / 2)
		ages.ms[atomic_fetch_add(&ages.n, 1) % N_STREAMS] = ms;
	return __real_event_add(ev, tv);
}

/* Those that were opened together do not all come back together. */
static void streams__are_as_old_as_is_said_a_fifth_more_or_less(void **state)
{
	long least = 2 * AGE_MS, most = 0;
	int fds[N_STREAMS];

	(void)state;
	ages.n = 0;
	fx.config.stream_age_ms = AGE_MS;
	http_fixture_start();
	for (int i = 0; i < N_STREAMS; i++)
		fds[i] = http_open_ws();
	assert_int_equal(ages.n, N_STREAMS);
	for (int i = 0; i < N_STREAMS; i++) {
		least = ages.ms[i] < least ? ages.ms[i] : least;
		most = ages.ms[i] > most ? ages.ms[i] : most;
		close(fds[i]);
	}
	assert_true(least >= AGE_MS - AGE_MS / 5);
	assert_true(most <= AGE_MS + AGE_MS / 5);
	assert_true(most - least > AGE_MS / 10);
}

static void websocket__messages_pings_and_close_are_answered(void **state)
{
	size_t len;
	int fd;

	(void)state;
	http_fixture_start();
	fd = http_open_ws();
	http_send_frame(fd, 0x81, "hello", 5);
	http_read(fd, "\x81\x05hello");
	http_send_frame(fd, 0x01, "he", 2);
	http_send_frame(fd, 0x89, "?", 1);
	http_send_frame(fd, 0x80, "y", 1);
	http_read(fd, "\x8a\x01?\x81\x03hey");
	http_send_frame(fd, 0x88, "\x03\xe8", 2);
	len = http_read(fd, NULL);
	assert_int_equal(len, 4);
	assert_memory_equal(fx.said, "\x88\x02\x03\xe8", 4);
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
	http_read(fd, "\r\n\r\n\x81\x01x");
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
		int fd = http_open_ws();
		size_t len;

		http_send(fd, cases[i].bytes, cases[i].len);
		http_send_frame(fd, 0x88, "", 0); /* its answer to our close frame */
		len = http_read(fd, NULL);
		assert_true(len >= 4);
		assert_int_equal((unsigned char)fx.said[0], 0x88);
		assert_int_equal((unsigned char)fx.said[2] << 8 | (unsigned char)fx.said[3],
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
	fd = http_open_ws();
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	http_send_frame(fd, 0x81, "flood", 5);
	http_await(&fx.n_flooded, 1);
	assert_true(fx.n_flooded * 1004 <= (int)fx.config.stream_queue);
	http_send_frame(fd, 0x81, "close", 5);
	http_send_frame(fd, 0x88, "\x0f\xa2", 2);
	len = http_read(fd, NULL);
	/* Every message that did come is whole, fewer than were sent, and reset is after them. */
	while (at + 2 <= len && (unsigned char)fx.said[at] == 0x81) {
		size_t head = fx.said[at + 1] == 126 ? 4 : 2;
		size_t size = head == 4 ? (size_t)((unsigned char)fx.said[at + 2] << 8 |
						   (unsigned char)fx.said[at + 3])
					: (size_t)fx.said[at + 1];

		if (size == 5 && !memcmp(fx.said + at + 2, "reset", 5))
			reset = true;
		else
			assert_int_equal(size, 1000);
		at += head + size;
		n++;
	}
	assert_true(reset);
	assert_true(n - 1 < fx.n_flooded);
	assert_int_equal((unsigned char)fx.said[at], 0x88);
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
	fd = http_upgrade(dial());
	http_send_frame(fd, 0x81, what, strlen(what));
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
	http_exchange("GET /metrics HTTP/1.1\r\n" CLOSE);
	assert_has("\nnanoctrl_stream_stalls_total 1\n");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, http_fixture_setup, http_fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(lines__go_out_until_the_client_leaves),
		TEST(lines__end_after_their_age_with_a_word),
		TEST(streams__are_as_old_as_is_said_a_fifth_more_or_less),
		TEST(websocket__messages_pings_and_close_are_answered),
		TEST(websocket__a_message_right_behind_the_upgrade_is_answered),
		TEST(websocket__a_client_that_breaks_the_protocol_is_closed),
		TEST(websocket__a_full_queue_is_dropped_whole_and_reset),
		TEST(websocket__a_client_that_takes_nothing_is_cut_off),
		TEST(websocket__a_client_that_does_not_read_counts_as_stalled),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
