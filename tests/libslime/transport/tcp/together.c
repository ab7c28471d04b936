/* SPDX-License-Identifier: Apache-2.0 */
/* What leaves over tcp in one system call: requests that begin together, and answers to those that
 * came together. Two manual contexts of one thread, whose clock goes as the test says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "support/manual_link.h"
#include <slime/slime.h>

#define N	     8
#define LEN	     64
#define HANDLER_NS   50000 /* longer than an answer waits for others */
#define LOOK_NS	     100
#define assert_ok(e) assert_int_equal(e, 0)

static bool own_clock;
static int64_t now_ns;

int __real_clock_gettime(clockid_t clock, struct timespec *ts);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ts);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
	int ret = __real_clock_gettime(clock, ts);

	if (!own_clock || (clock != CLOCK_MONOTONIC && clock != CLOCK_MONOTONIC_COARSE))
		return ret;
	now_ns += LOOK_NS;
	ts->tv_sec = now_ns / 1000000000;
	ts->tv_nsec = now_ns % 1000000000;
	return ret;
}

static unsigned n_sends;

ssize_t __real_sendmsg(int fd, const struct msghdr *mh, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *mh, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *mh, int flags)
{
	n_sends++;
	return __real_sendmsg(fd, mh, flags);
}

struct calls {
	struct manual_side a, b;
	struct manual_link link;
	struct slime_call *calls[N];
	uint8_t requests[N][LEN], replies[N][LEN];
	struct slime_call_args args[N];
};

static bool slow;

static void echo(void *arg, struct slime_rpc_request *req)
{
	(void)arg;
	if (slow)
		now_ns += HANDLER_NS;
	slime_rpc_reply(req, slime_rpc_request_data(req), slime_rpc_request_len(req));
}

static int setup(void **state)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;
	struct calls *p = calloc(1, sizeof(*p));
	struct timespec now;

	attr.tcp_streams = 1;
	manual_side_open(&p->a, &attr, echo);
	manual_side_open(&p->b, &attr, echo);
	manual_link_open(&p->link, &p->a, &p->b, SLIME_TRANSPORT_TCP);
	for (int i = 0; i < N; i++) {
		assert_ok(slime_call_create(p->a.ctx, NULL, &p->calls[i]));
		memset(p->requests[i], 'a' + i, LEN);
		p->args[i] = (struct slime_call_args)SLIME_CALL_ARGS_INIT;
		p->args[i].method = slime_rpc_method_id("echo");
		p->args[i].request = p->requests[i];
		p->args[i].request_len = LEN;
		p->args[i].reply = p->replies[i];
		p->args[i].reply_cap = LEN;
	}
	slow = false;
	clock_gettime(CLOCK_MONOTONIC, &now);
	now_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
	own_clock = true;
	*state = p;
	return 0;
}

static int teardown(void **state)
{
	struct calls *p = *state;

	own_clock = false;
	for (int i = 0; i < N; i++)
		assert_ok(slime_call_destroy(p->calls[i]));
	manual_link_close(&p->link);
	manual_side_close(&p->a);
	manual_side_close(&p->b);
	free(p);
	return 0;
}

/* The first n calls, which are under way, are answered: in how many sends. */
static unsigned answer(struct calls *p, int n)
{
	struct slime_endpoint_stats stats;
	const struct slime_kind_stats *served = &stats.kinds[SLIME_KIND_SERVE];
	uint64_t before;
	unsigned sends;

	slime_endpoint_stats(p->link.b, &stats);
	before = served->completed;
	n_sends = 0;
	do {
		assert_true(slime_context_poll(p->b.ctx) >= 0);
		slime_endpoint_stats(p->link.b, &stats);
	} while (served->completed < before + (uint64_t)n);
	sends = n_sends;
	for (int i = 0; i < n; i++) {
		while (!slime_call_test(p->calls[i]))
			assert_true(slime_context_poll(p->a.ctx) >= 0);
		assert_ok(slime_call_status(p->calls[i]));
		assert_memory_equal(p->replies[i], p->requests[i], LEN);
	}
	return sends;
}

static void start_together(struct calls *p, int n)
{
	struct slime_call_item items[N];

	for (int i = 0; i < n; i++)
		items[i] = (struct slime_call_item){ p->calls[i], &p->args[i] };
	n_sends = 0;
	assert_int_equal(slime_call_start_many(p->link.a, items, (size_t)n), n);
}

static void call__alone_leaves_and_is_answered_in_one_send_each(void **state)
{
	struct calls *p = *state;

	for (int i = 0; i < 3; i++) {
		n_sends = 0;
		assert_ok(slime_call_start(p->link.a, &p->args[0], p->calls[0]));
		assert_int_equal(n_sends, 1);
		assert_int_equal(answer(p, 1), 1);
	}
}

static void calls__that_begin_together_leave_and_are_answered_in_one_send_each(void **state)
{
	struct calls *p = *state;

	for (int i = 0; i < 3; i++) {
		start_together(p, N);
		assert_int_equal(n_sends, 1);
		assert_int_equal(answer(p, N), 1);
	}
}

static void calls__that_arrive_together_are_answered_in_one_send(void **state)
{
	struct calls *p = *state;

	for (int i = 0; i < N; i++)
		assert_ok(slime_call_start(p->link.a, &p->args[i], p->calls[i]));
	assert_int_equal(answer(p, N), 1);
}

/* The first answer leaves with the second, each other one by itself. */
static void answers__of_slow_handlers_do_not_wait_for_all_others(void **state)
{
	struct calls *p = *state;

	slow = true;
	start_together(p, N);
	assert_int_equal(answer(p, N), N - 1);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(call__alone_leaves_and_is_answered_in_one_send_each),
		TEST(calls__that_begin_together_leave_and_are_answered_in_one_send_each),
		TEST(calls__that_arrive_together_are_answered_in_one_send),
		TEST(answers__of_slow_handlers_do_not_wait_for_all_others),
	};

	return cmocka_run_group_tests_name("tcp together", tests, NULL, NULL);
}
