/* SPDX-License-Identifier: Apache-2.0 */
/* Many tcp links of one context: what a call costs must not grow with them. Two manual contexts of
 * one thread. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <time.h>

#include "support/echo.h"
#include "support/manual_link.h"
#include <slime/slime.h>

#define N	     40
#define LEN	     64
#define TIMEOUT_MS   400
#define assert_ok(e) assert_int_equal(e, 0)

static unsigned n_reads;

ssize_t __real_readv(int fd, const struct iovec *iov, int n);
ssize_t __wrap_readv(int fd, const struct iovec *iov, int n);
ssize_t __wrap_readv(int fd, const struct iovec *iov, int n)
{
	n_reads++;
	return __real_readv(fd, iov, n);
}

static unsigned n_looks;

int __real_getsockopt(int fd, int level, int name, void *value, socklen_t *len);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *len);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *len)
{
	n_looks += name == TCP_INFO && level == IPPROTO_TCP;
	return __real_getsockopt(fd, level, name, value, len);
}

int __real_ioctl(int fd, unsigned long request, void *arg);
int __wrap_ioctl(int fd, unsigned long request, void *arg);
int __wrap_ioctl(int fd, unsigned long request, void *arg)
{
	n_looks += request == SIOCOUTQ;
	return __real_ioctl(fd, request, arg);
}

struct crowd {
	struct manual_side a, b;
	struct manual_link links[N];
	struct slime_call *call;
	uint8_t request[LEN], reply[LEN];
};

static int setup(void **state)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;
	struct crowd *c = calloc(1, sizeof(*c));

	attr.tcp_streams = 1;
	attr.tcp_user_timeout_ms = TIMEOUT_MS;
	manual_side_open(&c->a, &attr, test_echo);
	manual_side_open(&c->b, &attr, test_echo);
	for (int i = 0; i < N; i++)
		manual_link_open(&c->links[i], &c->a, &c->b, SLIME_TRANSPORT_TCP);
	assert_ok(slime_call_create(c->a.ctx, NULL, &c->call));
	*state = c;
	return 0;
}

static int teardown(void **state)
{
	struct crowd *c = *state;

	assert_ok(slime_call_destroy(c->call));
	for (int i = 0; i < N; i++)
		manual_link_close(&c->links[i]);
	manual_side_close(&c->a);
	manual_side_close(&c->b);
	free(c);
	return 0;
}

/* One call on that link; returns how often both ends read a socket. */
static unsigned call(struct crowd *c, int link, uint8_t byte)
{
	const struct slime_call_args args = {
		.method = slime_rpc_method_id("echo"),
		.request = c->request,
		.request_len = LEN,
		.reply = c->reply,
		.reply_cap = LEN,
		.timeout_ms = 60000,
	};

	memset(c->request, byte, LEN);
	n_reads = 0;
	assert_ok(slime_call_start(c->links[link].a, &args, c->call));
	assert_ok(manual_link_end_call(&c->links[link], c->call));
	assert_memory_equal(c->reply, c->request, LEN);
	return n_reads;
}

/* The request and the reply are one read each; what else is read finds nothing. */
static void calls__on_many_links_in_turn_read_the_sockets_that_have_something(void **state)
{
	struct crowd *c = *state;
	unsigned reads = 0;

	for (int i = 0; i < N; i++)
		(void)call(c, i, (uint8_t)i);
	for (int i = 0; i < 2 * N; i++)
		reads += call(c, i % N, (uint8_t)i);
	assert_in_range(reads, 2 * 2 * N, 3 * 2 * N);
}

/* What the poller told of before is looked at itself again. */
static void calls__on_one_link_after_many_are_found_without_the_poller(void **state)
{
	struct crowd *c = *state;
	unsigned reads = 0;

	for (int i = 0; i < N; i++)
		(void)call(c, i, (uint8_t)i);
	for (int i = 0; i < 200; i++)
		reads = call(c, 7, (uint8_t)i);
	assert_true(reads > 2);
	for (int i = 0; i < N; i++)
		(void)call(c, i, (uint8_t)i);
}

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* How often both ends look whether a peer's host is silent, while links do nothing. */
static unsigned looks_in(struct crowd *c, int64_t ms)
{
	int64_t until = now_ms() + ms;

	n_looks = 0;
	while (now_ms() < until)
		manual_link_poll(&c->links[0]);
	return n_looks;
}

/* But for one of all that lead to a host. */
static void links__that_rest_are_not_looked_at(void **state)
{
	struct crowd *c = *state;

	for (int i = 0; i < N; i++)
		(void)call(c, i, (uint8_t)i);
	/* All was acknowledged by the next look. */
	assert_true(looks_in(c, TIMEOUT_MS / 2) > 0);
	assert_in_range(looks_in(c, TIMEOUT_MS / 2), 0, N / 4);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(calls__on_many_links_in_turn_read_the_sockets_that_have_something),
		TEST(links__that_rest_are_not_looked_at),
		TEST(calls__on_one_link_after_many_are_found_without_the_poller),
	};

	return cmocka_run_group_tests_name("tcp crowd", tests, NULL, NULL);
}
