/* SPDX-License-Identifier: Apache-2.0 */
/* The server: its connections, loops, numbers, and its end. */
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>
#include <event2/buffer.h>
#include <event2/event.h>

#include "tests/nanoctrl/http/client.h"

static void connection__without_a_request_is_closed_without_a_word(void **state)
{
	(void)state;
	fx.config.idle_ms = 50;
	http_fixture_start();
	http_exchange("");
	assert_string_equal(fx.said, "");
}

/* What /metrics says behind these words. */
static double number_behind(const char *words)
{
	const char *at;

	assert_has(words);
	at = strstr(fx.said, words);
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

	for (char *at = fx.said; (at = strstr(at, bucket));) {
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
	http_exchange(METRICS);
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
	http_say(fd, "GET /loop HTTP/1.1\r\n" HOST "\r\n");
	http_read(fd, ")");
	snprintf(loop, 40, "%s", strchr(fx.said, '('));
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

/* Clients that are turned away together do not come back together. */
static void assert_retry_after_is_spread(void)
{
	double first = 0, next = 0;

	for (int i = 0; i < 200 && next == first; i++) {
		assert_exchange("", "HTTP/1.1 503 ");
		next = number_behind("\r\nRetry-After: ");
		assert_true(next >= 1);
		first = i ? first : next;
	}
	assert_true(next != first);
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
	http_say(second, "GET /hello HTTP/1.1\r\n" HOST "\r\n");
	http_read(second, "hello");
	assert_retry_after_is_spread();
	snprintf(length, sizeof(length), "Content-Length: %zu\r\n",
		 strlen(strstr(fx.said, "\r\n\r\n") + 4));
	assert_has(length);
	close(first);
	close(second);
}

/* ---- accepting ---- */

static _Atomic int accepts_to_fail, listens_to_fail; /* the next so many */

static bool takes(_Atomic int *left)
{
	int n = atomic_load(left);

	while (n > 0)
		if (atomic_compare_exchange_weak(left, &n, n - 1))
			return true;
	return false;
}

static bool is_listener(int fd)
{
	socklen_t len = sizeof(int);
	int listens = 0;

	return fd >= 0 && !getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) && listens;
}

int __real_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags);
int __wrap_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags);
int __wrap_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	if (!takes(&accepts_to_fail))
		return __real_accept4(fd, addr, len, flags);
	errno = EMFILE;
	return -1;
}

int __real_event_add(struct event *ev, const struct timeval *tv);
int __wrap_event_add(struct event *ev, const struct timeval *tv);
int __wrap_event_add(struct event *ev, const struct timeval *tv)
{
	if (!is_listener(event_get_fd(ev)) || !takes(&listens_to_fail))
		return __real_event_add(ev, tv);
	errno = ENOSPC;
	return -1;
}

static void accept__that_cannot_be_resumed_at_once_is_later(void **state)
{
	(void)state;
	http_fixture_start();
	atomic_store(&listens_to_fail, 2);
	atomic_store(&accepts_to_fail, 1);
	assert_exchange("GET /hello HTTP/1.1\r\n" CLOSE, "hello");
	assert_int_equal(atomic_load(&accepts_to_fail), 0);
	assert_int_equal(atomic_load(&listens_to_fail), 0);
}

static void drain__what_is_in_flight_ends_and_the_server_is_done(void **state)
{
	int waiting, ws;

	(void)state;
	fx.config.drain_accept_ms = 5000; /* it still answers for so long */
	http_fixture_start();
	waiting = http_connect();
	http_say(waiting, "GET /wait HTTP/1.1\r\n" HOST "\r\n");
	ws = http_open_ws();
	http_send_frame(ws, 0x81, "here", 4);
	http_read(ws, "here");
	/* The request is with its handler when metrics, on any loop, counts it beside itself. */
	do
		http_exchange("GET /metrics HTTP/1.1\r\n" CLOSE);
	while (!strstr(fx.said, "requests_in_flight 2\n"));

	http_fixture_drain();
	http_read(waiting, NULL);
	assert_has("Connection: close\r\n");
	assert_has("ended");
	assert_exchange("GET /readyz?local=1 HTTP/1.1\r\n" HOST "\r\n", "HTTP/1.1 503 ");
	assert_has("shutting down");
	http_read(ws, "drain");
	http_send_frame(ws, 0x88, "\x03\xe9", 2);
	http_read(ws, NULL);
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

#define TEST(name) cmocka_unit_test_setup_teardown(name, http_fixture_setup, http_fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(connection__without_a_request_is_closed_without_a_word),
		TEST(metrics__of_a_route_have_its_statuses_and_times),
		TEST(connection__goes_to_the_loop_with_the_fewest),
		TEST(connections__more_than_allowed_are_turned_away),
		TEST(accept__that_cannot_be_resumed_at_once_is_later),
		TEST(drain__what_is_in_flight_ends_and_the_server_is_done),
		TEST(create__an_address_in_use_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
