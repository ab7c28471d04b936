/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A child after fork() destroys what it inherited: all of its memory goes, and the parent's link
 * notices nothing. The contexts have no threads, so that nothing is left on stacks that the child
 * does not have.
 */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/libslime/rpc/pair.h"
#include "src/endpoint/endpoint.h"

#ifdef __has_feature /* clang */
#define HAS_LSAN __has_feature(address_sanitizer)
#elif defined(__SANITIZE_ADDRESS__)
#define HAS_LSAN 1
#else
#define HAS_LSAN 0
#endif

#if HAS_LSAN
/* As sanitizer/lsan_interface.h has it, which comes with clang only. */
int __lsan_do_recoverable_leak_check(void);

static int find_leaks(void)
{
	return __lsan_do_recoverable_leak_check();
}
#else
static int find_leaks(void)
{
	return 0;
}
#endif

static const size_t lens[] = { 10, 5000, 300000 };

static int open_manual_pair(void **state)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;

	attr.manual = true;
	*state = pair_open(pair_transport(), &attr);
	return 0;
}

static void call(struct pair *p, const char *method, size_t len)
{
	struct slime_call_args args = SLIME_CALL_ARGS_INIT;
	uint8_t *out = malloc(len), *in = malloc(len);
	struct slime_call *call;

	assert_int_equal(slime_call_create(p->a.ctx, NULL, &call), 0);
	pattern_fill(out, len, 3);
	args.method = slime_rpc_method_id(method);
	args.request = out;
	args.request_len = len;
	args.reply = in;
	args.reply_cap = len;
	assert_int_equal(slime_call_start(p->a.ep, &args, call), 0);
	while (!slime_call_test(call)) {
		slime_context_poll(p->a.ctx);
		slime_context_poll(p->b.ctx);
	}
	assert_int_equal(slime_call_status(call), 0);
	assert_true(pattern_ok(in, len, 3));
	assert_int_equal(slime_call_destroy(call), 0);
	free(in);
	free(out);
}

static void call_each(struct pair *p)
{
	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		call(p, "echo_inline", lens[i]);
		call(p, "echo_in_place", lens[i]);
	}
}

static int destroy_side(struct side *s)
{
	return slime_endpoint_destroy(s->ep) || slime_op_destroy(s->op) ||
	       slime_rpc_service_destroy(s->service) || slime_context_destroy(s->ctx);
}

/* In the child: 0 when all went and nothing is left. */
static int destroy_all(struct pair *p)
{
	int failed = destroy_side(&p->a) || destroy_side(&p->b);

	/* Where they were, and the stack, may still hold their addresses. */
	p->a = (struct side){ 0 };
	p->b = (struct side){ 0 };
	return failed ? 2 : find_leaks();
}

static void expect_nothing_left_in_a_child(struct pair *p)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		alarm(PAIR_TIMEOUT_MS / 1000);
		_exit(destroy_all(p));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void destroy__in_a_fork_child_leaves_nothing_behind(void **state)
{
	struct pair *p = *state;

	call_each(p);
	expect_nothing_left_in_a_child(p);
	call_each(p);
}

/* Another thread of the parent had a lock. */
static void info__in_a_fork_child_waits_for_nobody(void **state)
{
	struct pair *p = *state;
	struct slime_endpoint_info info;
	int status;
	pid_t pid;

	pthread_mutex_lock(&p->a.ep->lock);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		alarm(PAIR_TIMEOUT_MS / 1000);
		slime_endpoint_info(p->a.ep, &info);
		_exit(0);
	}
	pthread_mutex_unlock(&p->a.ep->lock);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
}

static void renew_endpoint(struct side *s)
{
	struct slime_endpoint_attr attr = SLIME_ENDPOINT_ATTR_INIT;

	assert_int_equal(slime_endpoint_destroy(s->ep), 0);
	attr.transports[0] = pair_transport();
	attr.service = s->service;
	assert_int_equal(slime_endpoint_create(s->ctx, &attr, &s->ep), 0);
}

static bool is_connected(const struct side *s)
{
	struct slime_endpoint_info info;

	slime_endpoint_info(s->ep, &info);
	return info.state == SLIME_ENDPOINT_CONNECTED;
}

/* Greetings, pending handshakes, descriptors on their way: whatever there is after each step. */
static void destroy__in_a_fork_child_forgets_a_link_that_comes_up(void **state)
{
	struct pair *p = *state;

	renew_endpoint(&p->a);
	renew_endpoint(&p->b);
	connect_to(p->a.ep, p->b.ep, p->a.op);
	connect_to(p->b.ep, p->a.ep, p->b.op);
	while (!is_connected(&p->a) || !is_connected(&p->b)) {
		expect_nothing_left_in_a_child(p);
		slime_context_poll(p->a.ctx);
		expect_nothing_left_in_a_child(p);
		slime_context_poll(p->b.ctx);
	}
	call_each(p);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(destroy__in_a_fork_child_leaves_nothing_behind,
						open_manual_pair, pair_teardown),
		cmocka_unit_test_setup_teardown(info__in_a_fork_child_waits_for_nobody,
						open_manual_pair, pair_teardown),
		cmocka_unit_test_setup_teardown(
			destroy__in_a_fork_child_forgets_a_link_that_comes_up, open_manual_pair,
			pair_teardown),
	};

	return PAIR_RUN("fork", tests);
}
