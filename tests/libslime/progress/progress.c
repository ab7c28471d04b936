/* SPDX-License-Identifier: Apache-2.0 */
/* Who makes progress: one thread that drives two contexts, what a callback of one may do with the
 * other, tokens of both held at once, and several threads that wait for one context. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "base/clock.h"
#include "src/progress/context.h"
#include "src/progress/progress_token.h"
#include "src/core/futex.h"
#include <slime/slime.h>

#define PATIENCE_MS 60000
#define CALLS	    1000

#define assert_ok(expr) assert_int_equal(expr, 0)

struct side {
	struct slime_context *ctx;
	struct slime_endpoint *ep;
	struct slime_op *op;	   /* waited for */
	struct slime_op *answered; /* called back */
	struct side *other;
};

static struct side sides[2];
static unsigned n_calls;

static void send_imm(struct side *from)
{
	assert_true(slime_op_test(from->op));
	assert_ok(slime_write_imm(from->ep, NULL, 0, 0, 1, from->op));
}

/* An immediate arrived here. The next goes to the other or comes here again, which the other's
 * endpoint sees to: both are submitted inside our callback. */
static void on_imm(void *arg, struct slime_op *op)
{
	struct side *s = arg;
	struct side *o = s->other;

	if (slime_op_status(op))
		return;
	assert_int_equal(slime_context_poll(o->ctx), -EDEADLK);
	assert_int_equal(slime_context_arm(o->ctx), -EDEADLK);
	assert_int_equal(slime_op_wait(o->answered, 0), -EDEADLK);
	assert_int_equal(slime_endpoint_destroy(o->ep), -EDEADLK);
	assert_int_equal(slime_context_destroy(o->ctx), -EDEADLK);
	assert_ok(slime_imm_recv(s->ep, s->answered));
	if (++n_calls < CALLS)
		send_imm(n_calls % 3 ? s : o);
}

static void side_open(struct side *s)
{
	struct slime_op_attr attr = { .fn = on_imm, .arg = s };
	struct slime_context_attr manual = SLIME_CONTEXT_ATTR_INIT;

	manual.manual = true;
	assert_ok(slime_context_create(&manual, &s->ctx));
	assert_ok(slime_endpoint_create(s->ctx, NULL, &s->ep));
	assert_ok(slime_op_create(s->ctx, NULL, &s->op));
	assert_ok(slime_op_create(s->ctx, &attr, &s->answered));
}

static void connect_to(struct side *s)
{
	uint8_t desc[SLIME_ENDPOINT_DESC_MAX];
	int len = slime_endpoint_export(s->other->ep, desc, sizeof(desc));

	assert_true(len > 0);
	assert_ok(slime_endpoint_connect(s->ep, desc, (size_t)len, PATIENCE_MS, s->op));
}

static void poll_both(void)
{
	for (int i = 0; i < 2; i++)
		assert_true(slime_context_poll(sides[i].ctx) >= 0);
}

static int setup(void **state)
{
	(void)state;
	memset(sides, 0, sizeof(sides));
	n_calls = 0;
	for (int i = 0; i < 2; i++) {
		sides[i].other = &sides[!i];
		side_open(&sides[i]);
	}
	for (int i = 0; i < 2; i++)
		connect_to(&sides[i]);
	while (!slime_op_test(sides[0].op) || !slime_op_test(sides[1].op))
		poll_both();
	for (int i = 0; i < 2; i++)
		assert_ok(slime_op_status(sides[i].op));
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++)
		slime_endpoint_close(sides[i].ep);
	while (!slime_op_test(sides[0].answered) || !slime_op_test(sides[1].answered))
		poll_both();
	for (int i = 0; i < 2; i++) {
		assert_ok(slime_endpoint_destroy(sides[i].ep));
		assert_ok(slime_op_destroy(sides[i].op));
		assert_ok(slime_op_destroy(sides[i].answered));
		assert_ok(slime_context_destroy(sides[i].ctx));
	}
	return 0;
}

static void callback__of_one_context_submits_to_both_and_waits_for_neither(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++)
		assert_ok(slime_imm_recv(sides[i].ep, sides[i].answered));
	send_imm(&sides[0]);
	while (n_calls < CALLS)
		poll_both();
	/* Outside of it all is as before. */
	for (int i = 0; i < 2; i++)
		assert_int_equal(slime_op_wait(sides[i].answered, 0), -ETIMEDOUT);
}

static void enter__of_two_contexts_is_left_in_any_order(void **state)
{
	(void)state;
	for (int first = 0; first < 2; first++) {
		sl_progress_enter(sides[0].ctx);
		sl_progress_enter(sides[1].ctx);
		sl_progress_leave(sides[first].ctx);
		assert_true(atomic_load(&sides[!first].ctx->progress.token));
		assert_true(slime_context_poll(sides[first].ctx) >= 0);
		sl_progress_enter(sides[first].ctx);
		sl_progress_leave(sides[first].ctx);
		sl_progress_leave(sides[!first].ctx);
		/* Its token is free again. */
		while (slime_context_arm(sides[!first].ctx))
			assert_true(slime_context_poll(sides[!first].ctx) >= 0);
	}
}

/* ---- several threads, one context ---- */

static struct slime_context *manual_context(void)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;
	struct slime_context *ctx;

	attr.manual = true;
	assert_ok(slime_context_create(&attr, &ctx));
	return ctx;
}

static bool within_patience(uint64_t began_ns)
{
	sched_yield();
	return sl_clock_ns() - began_ns < PATIENCE_MS * SL_NS_PER_MS;
}

struct waiter {
	struct slime_op *op;
	pthread_t thread;
};

static void *wait_for_op(void *arg)
{
	struct waiter *w = arg;

	return (void *)(intptr_t)slime_op_wait(w->op, -1);
}

/* A pending op, and a thread that sleeps on it: somebody else has the token. */
static void waiter_begin(struct waiter *w, struct slime_context *ctx)
{
	assert_ok(slime_op_create(ctx, NULL, &w->op));
	assert_ok(sl_op_begin(w->op));
	assert_ok(pthread_create(&w->thread, NULL, wait_for_op, w));
	while (!(atomic_load(&w->op->state) & SL_OP_WAITED))
		sched_yield();
}

static void waiter_end(struct waiter *w)
{
	void *ret;

	assert_ok(pthread_join(w->thread, &ret));
	assert_null(ret);
	assert_ok(slime_op_destroy(w->op));
}

/* The first in line has its op when the token is left to it, and does not run yet. */
static void waiter__that_is_done_leaves_the_token_to_the_next(void **state)
{
	struct slime_context *ctx = manual_context();
	struct waiter first, second;
	uint64_t began;
	bool taken;

	(void)state;
	sl_progress_enter(ctx);
	waiter_begin(&first, ctx);
	waiter_begin(&second, ctx);
	atomic_store(&first.op->state, SL_OP_IDLE);
	sl_progress_leave(ctx);
	sl_futex_wake(&first.op->state);
	began = sl_clock_ns();
	do
		taken = atomic_load(&ctx->progress.token);
	while (!taken && within_patience(began));
	sl_op_finish(second.op, 0, 0);
	sl_progress_kick(ctx);
	waiter_end(&first);
	waiter_end(&second);
	assert_ok(slime_context_destroy(ctx));
	assert_true(taken);
}

/* ---- the context's thread ---- */

static uint32_t thread_state(const struct slime_context *ctx)
{
	return atomic_load(&ctx->progress.thread_state);
}

static void await_thread(const struct slime_context *ctx, uint32_t state)
{
	uint64_t began = sl_clock_ns();

	while (thread_state(ctx) != state && within_patience(began))
		;
	assert_int_equal(thread_state(ctx), state);
}

static void thread__stays_aside_while_a_caller_posts(void **state)
{
	const uint64_t aside_ns = SL_POSTING_MAX_US / 2 * SL_NS_PER_US;
	struct slime_context *ctx;
	uint64_t began;
	uint32_t found;

	(void)state;
	assert_ok(slime_context_create(NULL, &ctx));
	atomic_store(&ctx->progress.posting, 1);
	began = sl_clock_ns();
	sl_progress_enter(ctx);
	sl_progress_leave(ctx);
	while ((found = thread_state(ctx)) == SL_THREAD_WATCH && sl_clock_ns() - began < aside_ns)
		sched_yield();
	assert_true(found == SL_THREAD_WATCH || sl_clock_ns() - began >= aside_ns);
	atomic_store(&ctx->progress.posting, 0);
	await_thread(ctx, SL_THREAD_DEEP);
	assert_ok(slime_context_destroy(ctx));
}

/* Each look is an interrupt of a post where they share a CPU. */
static void thread__looks_rarely_while_callers_come_from_posts(void **state)
{
	struct slime_context *ctx;
	uint64_t began = sl_clock_ns();

	(void)state;
	assert_ok(slime_context_create(NULL, &ctx));
	atomic_store(&ctx->progress.posting, 1);
	while (ctx->progress.watch_ns < SL_WATCH_POSTING_US * SL_NS_PER_US &&
	       within_patience(began)) {
		uint64_t seen = ctx->progress.watch_ns;

		sl_progress_enter(ctx);
		sl_progress_leave(ctx);
		while (ctx->progress.watch_ns == seen && within_patience(began))
			sched_yield();
	}
	assert_int_equal(ctx->progress.watch_ns, SL_WATCH_POSTING_US * SL_NS_PER_US);
	atomic_store(&ctx->progress.posting, 0);
	assert_ok(slime_context_destroy(ctx));
}

static void count_call(void *arg, struct slime_op *op)
{
	(void)op;
	atomic_fetch_add((_Atomic unsigned *)arg, 1);
}

/* Where a caller stays inside posts for ever what is there is handled all the same. */
static void thread__with_one_cpu_leaves_it_to_a_post_and_serves_now_and_then(void **state)
{
	_Atomic unsigned n_called = 0;
	struct slime_op_attr attr = { .fn = count_call, .arg = &n_called };
	struct slime_context *ctx;
	struct slime_op *op;
	cpu_set_t all, one;
	uint64_t began;

	(void)state;
	assert_ok(sched_getaffinity(0, sizeof(all), &all));
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	assert_ok(sched_setaffinity(0, sizeof(one), &one));
	assert_ok(slime_context_create(NULL, &ctx));
	assert_ok(sched_setaffinity(0, sizeof(all), &all));
	assert_ok(slime_op_create(ctx, &attr, &op));
	atomic_store(&ctx->progress.posting, 1);
	sl_progress_kick(ctx);
	await_thread(ctx, SL_THREAD_WATCH);
	assert_ok(sl_op_begin(op));
	sl_op_finish(op, 0, 0);
	began = sl_clock_ns();
	while (!n_called && within_patience(began))
		;
	assert_int_equal(n_called, 1);
	atomic_store(&ctx->progress.posting, 0);
	assert_ok(slime_op_wait(op, PATIENCE_MS));
	assert_ok(slime_op_destroy(op));
	assert_ok(slime_context_destroy(ctx));
}

/* ---- asleep on the descriptor ---- */

/* As slime/context.h shows it. */
static void sleep_until(struct slime_context *ctx, struct slime_op *op)
{
	struct pollfd fd = { .fd = slime_context_fd(ctx), .events = POLLIN };

	for (;;) {
		while (slime_context_poll(ctx) > 0 || slime_context_arm(ctx) == -EAGAIN)
			;
		if (slime_op_test(op))
			return;
		assert_int_equal(poll(&fd, 1, PATIENCE_MS), 1);
	}
}

static void manual_context__is_woken_by_its_timers(void **state)
{
	static const enum slime_transport transports[] = { SLIME_TRANSPORT_SHM,
							   SLIME_TRANSPORT_TCP };
	struct slime_context *ctx = manual_context();
	struct slime_context *other = manual_context();

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct slime_endpoint_attr attr = SLIME_ENDPOINT_ATTR_INIT;
		struct slime_endpoint *ep, *peer;
		uint8_t desc[SLIME_ENDPOINT_DESC_MAX];
		struct slime_op *op;
		int len;

		attr.transports[0] = transports[i];
		assert_ok(slime_endpoint_create(ctx, &attr, &ep));
		assert_ok(slime_endpoint_create(other, &attr, &peer));
		assert_ok(slime_op_create(ctx, NULL, &op));
		len = slime_endpoint_export(peer, desc, sizeof(desc));
		assert_true(len > 0);
		/* It does not come. */
		assert_ok(slime_endpoint_connect(ep, desc, (size_t)len, 50, op));
		sleep_until(ctx, op);
		assert_int_equal(slime_op_status(op), -ETIMEDOUT);
		assert_ok(slime_op_destroy(op));
		assert_ok(slime_endpoint_destroy(ep));
		assert_ok(slime_endpoint_destroy(peer));
	}
	assert_ok(slime_context_destroy(ctx));
	assert_ok(slime_context_destroy(other));
}

static void *wait_a_moment(void *arg)
{
	return (void *)(intptr_t)slime_op_wait(arg, 1);
}

/* For each way to come while somebody sleeps. */
static void manual_context__is_told_again_after_another_thread_came(void **state)
{
	struct side *s = &sides[0];
	struct pollfd fd = { .fd = slime_context_fd(s->ctx), .events = POLLIN };
	struct slime_op *op;

	(void)state;
	assert_ok(slime_op_create(s->ctx, NULL, &op));
	for (int by_control = 0; by_control < 2; by_control++) {
		pthread_t thread;
		void *ret;

		assert_ok(slime_imm_recv(s->ep, op));
		while (slime_context_poll(s->ctx) > 0 || slime_context_arm(s->ctx) == -EAGAIN)
			;
		if (by_control) {
			sl_progress_enter(s->ctx);
			sl_progress_leave(s->ctx);
		} else {
			assert_ok(pthread_create(&thread, NULL, wait_a_moment, op));
			assert_ok(pthread_join(thread, &ret));
			assert_int_equal((intptr_t)ret, -ETIMEDOUT);
		}
		send_imm(s->other);
		assert_int_equal(poll(&fd, 1, PATIENCE_MS), 1);
		sleep_until(s->ctx, op);
		assert_ok(slime_op_status(op));
		while (!slime_op_test(s->other->op))
			poll_both();
	}
	assert_ok(slime_op_destroy(op));
}

static bool is_readable(const struct slime_context *ctx, int timeout_ms)
{
	struct pollfd fd = { .fd = ctx->manual_fd, .events = POLLIN };

	return poll(&fd, 1, timeout_ms) == 1;
}

static void arm_at_once(struct slime_context *ctx)
{
	unsigned n = 0;

	while (slime_context_poll(ctx) > 0 || slime_context_arm(ctx) == -EAGAIN)
		assert_true(++n < 1000);
}

/* What the other one is about to find is not told. */
static void manual_context__sleeps_while_another_thread_makes_progress(void **state)
{
	struct slime_op_attr queued = { .flags = SLIME_OP_QUEUED };
	struct slime_context *ctx = manual_context();
	struct slime_event event;
	struct slime_op *op;

	(void)state;
	assert_ok(slime_op_create(ctx, &queued, &op));
	assert_ok(sl_op_begin(op));
	sl_progress_enter(ctx);
	arm_at_once(ctx);
	sl_poller_wake(&ctx->poller);
	assert_false(is_readable(ctx, 0));
	/* What can be taken without progress is. */
	sl_op_finish(op, 0, 0);
	assert_true(is_readable(ctx, 0));
	assert_true(slime_context_next(ctx, &event));
	assert_ptr_equal(event.op, op);
	assert_false(slime_context_next(ctx, &event));
	arm_at_once(ctx);
	assert_false(is_readable(ctx, 0));
	sl_progress_leave(ctx);

	assert_true(is_readable(ctx, PATIENCE_MS));
	arm_at_once(ctx);
	assert_false(is_readable(ctx, 0));
	sl_poller_wake(&ctx->poller);
	assert_true(is_readable(ctx, PATIENCE_MS));
	assert_ok(slime_op_destroy(op));
	assert_ok(slime_context_destroy(ctx));
}

/* Who has the token next takes the wake-up for his own. */
static void manual_context__whose_wake_up_another_holder_took_is_told_again(void **state)
{
	struct slime_context *ctx = manual_context();

	(void)state;
	sl_progress_enter(ctx);
	arm_at_once(ctx);
	sl_progress_leave(ctx);
	sl_progress_enter(ctx);
	sl_token_poller_pass(ctx);
	assert_false(is_readable(ctx, 0));
	sl_progress_leave(ctx);
	assert_true(is_readable(ctx, PATIENCE_MS));
	/* The poller is looked at now and then, and at last when the loop has come for it. */
	arm_at_once(ctx);
	arm_at_once(ctx);
	assert_false(is_readable(ctx, 0));
	assert_ok(slime_context_destroy(ctx));
}

static void *wait_for_imm(void *arg)
{
	return (void *)(intptr_t)slime_op_wait(arg, PATIENCE_MS);
}

/* One waits; the other one sleeps until that one has gone, and serves from then on. */
static void manual_context__is_served_by_a_waiter_and_then_by_who_slept(void **state)
{
	struct side *s = &sides[0];
	struct slime_op *op, *next;
	pthread_t thread;
	void *ret;

	(void)state;
	assert_ok(slime_op_create(s->ctx, NULL, &op));
	assert_ok(slime_op_create(s->ctx, NULL, &next));
	assert_ok(slime_imm_recv(s->ep, op));
	assert_ok(slime_imm_recv(s->ep, next));
	assert_ok(pthread_create(&thread, NULL, wait_for_imm, op));
	while (!atomic_load(&s->ctx->progress.token))
		sched_yield();
	arm_at_once(s->ctx);
	send_imm(s->other);
	assert_ok(pthread_join(thread, &ret));
	assert_null(ret);
	while (!slime_op_test(s->other->op))
		assert_true(slime_context_poll(s->other->ctx) >= 0);
	send_imm(s->other);
	assert_true(is_readable(s->ctx, PATIENCE_MS));
	sleep_until(s->ctx, next);
	assert_ok(slime_op_status(next));
	while (!slime_op_test(s->other->op))
		poll_both();
	assert_ok(slime_op_destroy(op));
	assert_ok(slime_op_destroy(next));
}

static void poller__waits_for_a_timer_of_months_within_what_poll_takes(void **state)
{
	static const uint64_t days[] = { 24, 30, 50, 10000 };
	const uint64_t day_ms = UINT64_C(24) * 3600 * 1000;

	(void)state;
	for (int i = 0; i < 4; i++) {
		int ms = sl_poller_wait_ms(sl_clock_ns() + days[i] * day_ms * SL_NS_PER_MS);

		assert_in_range(ms, 23 * day_ms, days[i] * day_ms);
	}
	assert_int_equal(sl_poller_wait_ms(SL_NEVER), -1);
	assert_int_equal(sl_poller_wait_ms(1), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			callback__of_one_context_submits_to_both_and_waits_for_neither, setup,
			teardown),
		cmocka_unit_test_setup_teardown(enter__of_two_contexts_is_left_in_any_order, setup,
						teardown),
		cmocka_unit_test(waiter__that_is_done_leaves_the_token_to_the_next),
		cmocka_unit_test(thread__stays_aside_while_a_caller_posts),
		cmocka_unit_test(thread__looks_rarely_while_callers_come_from_posts),
		cmocka_unit_test(thread__with_one_cpu_leaves_it_to_a_post_and_serves_now_and_then),
		cmocka_unit_test(manual_context__is_woken_by_its_timers),
		cmocka_unit_test(manual_context__sleeps_while_another_thread_makes_progress),
		cmocka_unit_test(manual_context__whose_wake_up_another_holder_took_is_told_again),
		cmocka_unit_test_setup_teardown(
			manual_context__is_served_by_a_waiter_and_then_by_who_slept, setup,
			teardown),
		cmocka_unit_test(poller__waits_for_a_timer_of_months_within_what_poll_takes),
		cmocka_unit_test_setup_teardown(
			manual_context__is_told_again_after_another_thread_came, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
