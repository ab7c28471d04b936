/* SPDX-License-Identifier: Apache-2.0 */
/* What a probe finds at real sockets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>
#include <event2/event.h>

#include "mooncake/probe.h"

/* A socket at a port of the kernel's choice. It listens for n connections, or not at all. */
static int open_socket(int n, uint16_t *port)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&at, len), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
	if (n >= 0)
		assert_int_equal(listen(fd, n), 0);
	*port = ntohs(at.sin_port);
	return fd;
}

static void on_outcome(void *arg, enum probe_outcome outcome)
{
	*(int *)arg = outcome;
}

static int outcome_at(const char *address, uint16_t port)
{
	struct event_base *base = event_base_new();
	int outcome = -1;

	assert_non_null(base);
	assert_non_null(probe_begin(base, address, port, on_outcome, &outcome));
	while (outcome < 0)
		event_base_loop(base, EVLOOP_ONCE);
	event_base_free(base);
	return outcome;
}

static void probe__of_a_listener_is_alive(void **state)
{
	uint16_t port;
	int fd = open_socket(4, &port);

	(void)state;
	assert_int_equal(outcome_at("127.0.0.1", port), PROBE_ALIVE);
	close(fd);
}

static void probe__of_a_port_without_listener_is_refused(void **state)
{
	uint16_t port;
	int fd = open_socket(-1, &port);

	(void)state;
	assert_int_equal(outcome_at("127.0.0.1", port), PROBE_REFUSED);
	close(fd);
}

/* A listener whose queue is full lets the kernel drop what comes. It takes the whole of PROBE_MS.
 */
static void probe__without_an_answer_is_silent(void **state)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	uint16_t port;
	int fd = open_socket(0, &port), filler;

	(void)state;
	to.sin_port = htons(port);
	filler = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(filler, (struct sockaddr *)&to, sizeof(to)), 0);
	assert_int_equal(outcome_at("127.0.0.1", port), PROBE_SILENT);
	close(filler);
	close(fd);
}

static void probe__of_text_that_is_no_address_does_not_begin(void **state)
{
	struct event_base *base = event_base_new();

	(void)state;
	assert_null(probe_begin(base, "host.example", 1, on_outcome, NULL));
	assert_null(probe_begin(base, "", 1, on_outcome, NULL));
	event_base_free(base);
}

static void cancel__before_the_outcome_leaves_nothing(void **state)
{
	struct event_base *base = event_base_new();
	uint16_t port;
	int fd = open_socket(-1, &port), outcome = -1;
	struct probe *probe = probe_begin(base, "127.0.0.1", port, on_outcome, &outcome);

	(void)state;
	assert_non_null(probe);
	probe_cancel(probe);
	event_base_loop(base, EVLOOP_NONBLOCK);
	assert_int_equal(outcome, -1);
	event_base_free(base);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(probe__of_a_listener_is_alive),
		cmocka_unit_test(probe__of_a_port_without_listener_is_refused),
		cmocka_unit_test(probe__without_an_answer_is_silent),
		cmocka_unit_test(probe__of_text_that_is_no_address_does_not_begin),
		cmocka_unit_test(cancel__before_the_outcome_leaves_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
