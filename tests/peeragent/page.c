/* SPDX-License-Identifier: Apache-2.0 */
/* The page of /metrics, and how many clients it has at a time. */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>
#include <event2/buffer.h>
#include <event2/event.h>

#include "base/clock.h"
#include "peeragent/src/page.h"

#define MAX_CLIENTS 3
#define GET	    "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
#define LARGE	    (4 * 1024 * 1024)

static struct event_base *base;
static struct page *page;
static size_t page_len;
static int n_rendered;

static void render(void *arg, struct evbuffer *out)
{
	static char text[LARGE];

	(void)arg;
	n_rendered++;
	memset(text, 'x', page_len);
	evbuffer_add(out, text, page_len);
}

static void open_page(int timeout_ms)
{
	const struct page_attr attr = { .host = "127.0.0.1",
					.path = "/metrics",
					.type = "text/plain; version=0.0.4",
					.max_clients = MAX_CLIENTS,
					.timeout_ms = timeout_ms,
					.render = render };

	base = event_base_new();
	assert_int_equal(page_create(base, &attr, &page), 0);
}

static int setup(void **state)
{
	(void)state;
	page_len = 5;
	n_rendered = 0;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	page_destroy(page);
	event_base_loop(base, EVLOOP_NONBLOCK); /* it closes what is not used any more */
	event_base_free(base);
	return 0;
}

/* A connection, with which the page may have nothing to do yet. */
static int send_request(const char *request)
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	char host[32];
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(host, sizeof(host), "%s", page_address(page));
	at.sin_port = htons((uint16_t)atoi(strchr(host, ':') + 1));
	*strchr(host, ':') = '\0';
	assert_int_equal(inet_pton(AF_INET, host, &at.sin_addr), 1);
	assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(send(fd, request, strlen(request), MSG_NOSIGNAL), strlen(request));
	return fd;
}

/* What the page says until it closes the connection. */
static const char *answer_of(int fd)
{
	static char text[LARGE + 4096];
	size_t len = 0;
	ssize_t n;

	while ((n = recv(fd, text + len, sizeof(text) - 1 - len, MSG_DONTWAIT))) {
		assert_true(n > 0 || errno == EAGAIN || errno == ECONNRESET);
		if (n < 0 && errno == ECONNRESET)
			break;
		if (n > 0)
			len += (size_t)n;
		else
			event_base_loop(base, EVLOOP_NONBLOCK);
	}
	text[len] = '\0';
	close(fd);
	return text;
}

static void assert_answer(const char *request, const char *begins)
{
	assert_int_equal(strncmp(answer_of(send_request(request)), begins, strlen(begins)), 0);
}

/* Everything that the page can do now is done. */
static void settle(void)
{
	for (int i = 0; i < 10; i++)
		event_base_loop(base, EVLOOP_NONBLOCK);
}

static void page__is_for_who_asks_for_it(void **state)
{
	static const char status[] = "HTTP/1.1 200 OK\r\nDate: ", zone[] = " GMT\r\n";
	const char *answer, *rest;

	(void)state;
	open_page(60000);
	answer = answer_of(send_request(GET));
	rest = strstr(answer, zone);
	assert_int_equal(strncmp(answer, status, strlen(status)), 0);
	assert_non_null(rest);
	assert_string_equal(rest + strlen(zone),
			    "Content-Type: text/plain; version=0.0.4\r\n"
			    "Content-Length: 5\r\nAllow: GET\r\nConnection: close\r\n\r\nxxxxx");
	assert_answer("GET /metrics?name=a HTTP/1.0\r\n\r\n", "HTTP/1.1 200 OK\r\n");
	assert_answer("GET /metrics2 HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 404 Not Found\r\n");
	assert_answer("GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 404 Not Found\r\n");
	assert_answer("POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
		      "HTTP/1.1 405 Method Not Allowed\r\n");
	assert_answer("\r\n\r\n", "HTTP/1.1 400 Bad Request\r\n");
	assert_answer("GET /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 400 Bad Request\r\n");
	assert_answer("POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n",
		      "HTTP/1.1 413 ");
	assert_int_equal(n_rendered, 2);
}

static void page__of_an_endless_request_is_none(void **state)
{
	static char request[10000];

	(void)state;
	open_page(60000);
	memset(request, 'x', sizeof(request) - 1);
	assert_answer(request, "HTTP/1.1 414 ");
}

static void page__that_is_large_comes_whole_to_who_has_said_all(void **state)
{
	int fd;

	(void)state;
	page_len = LARGE;
	open_page(60000);
	fd = send_request(GET);
	shutdown(fd, SHUT_WR);
	assert_int_equal(strlen(strstr(answer_of(fd), "\r\n\r\n") + 4), LARGE);
}

static void client__beyond_the_limit_waits_until_one_leaves(void **state)
{
	int fds[MAX_CLIENTS], fd;

	(void)state;
	open_page(60000);
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < MAX_CLIENTS; i++)
			fds[i] = send_request("GET /met");
		fd = send_request(GET);
		settle();
		assert_int_equal(n_rendered, round);
		close(fds[0]);
		assert_int_equal(strncmp(answer_of(fd), "HTTP/1.1 200 ", 13), 0);
		for (int i = 1; i < MAX_CLIENTS; i++)
			close(fds[i]);
	}
}

/* However it spends it: who says a little now and then has no more. */
static void client__that_stays_too_long_is_disconnected(void **state)
{
	uint64_t start = sl_clock_ns();
	int fds[MAX_CLIENTS], fd;

	(void)state;
	open_page(300);
	for (int i = 0; i < MAX_CLIENTS; i++)
		fds[i] = send_request("GET /met");
	fd = send_request(GET);
	while (!n_rendered) {
		event_base_loop(base, EVLOOP_NONBLOCK);
		send(fds[0], "r", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
	}
	/* The loop's clock is that of its turn. */
	assert_true(sl_clock_ns() - start >= 200 * SL_NS_PER_MS);
	assert_int_equal(strncmp(answer_of(fd), "HTTP/1.1 200 ", 13), 0);
	for (int i = 0; i < MAX_CLIENTS; i++)
		close(fds[i]);
}

static void destroy__with_clients_disconnects_them(void **state)
{
	int fds[MAX_CLIENTS + 1];

	(void)state;
	page_len = LARGE;
	open_page(60000);
	for (int i = 0; i <= MAX_CLIENTS; i++)
		fds[i] = send_request(i ? GET : "GET /met");
	settle();
	page_destroy(page);
	page = NULL;
	settle();
	for (int i = 0; i <= MAX_CLIENTS; i++) {
		char byte;

		while (recv(fds[i], &byte, 1, 0) > 0)
			;
		close(fds[i]);
	}
}

static void create__where_it_cannot_listen_says_why(void **state)
{
	struct page_attr attr = { .host = "127.0.0.1", .path = "/", .max_clients = 1 };
	struct page *second;

	(void)state;
	open_page(60000);
	attr.port = (uint16_t)atoi(strchr(page_address(page), ':') + 1);
	assert_int_equal(page_create(base, &attr, &second), -EADDRINUSE);
	attr.host = "no address";
	assert_int_equal(page_create(base, &attr, &second), -EINVAL);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(page__is_for_who_asks_for_it),
		T(page__of_an_endless_request_is_none),
		T(page__that_is_large_comes_whole_to_who_has_said_all),
		T(client__beyond_the_limit_waits_until_one_leaves),
		T(client__that_stays_too_long_is_disconnected),
		T(destroy__with_clients_disconnects_them),
		T(create__where_it_cannot_listen_says_why),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
