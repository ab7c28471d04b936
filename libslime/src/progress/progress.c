/* SPDX-License-Identifier: Apache-2.0 */
#include "src/progress/progress.h"

#include <assert.h>
#include <errno.h>
#include <sched.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "src/progress/context.h"
#include "src/core/futex.h"
#include "src/progress/manual.h"
#include "src/progress/progress_spin.h"
#include "src/progress/progress_thread.h"
#include "src/progress/progress_token.h"

/* How often a caller that finds the token taken looks again before it sleeps. */
#define GUEST_SPINS    2000
#define UNTIL_SLICE_MS 5

bool sl_progress_in_callback(void)
{
	return sl_in_pass != NULL;
}

/* A caller has the token: peers need not ring, and the thread need not wake. */
static void caller_entered(struct slime_context *ctx)
{
	struct sl_progress *p = &ctx->progress;
	uint32_t deep = SL_THREAD_DEEP;

	/* With the token no other thread counts. */
	atomic_store_explicit(&p->n_calls,
			      atomic_load_explicit(&p->n_calls, memory_order_relaxed) + 1,
			      memory_order_relaxed);
	if (p->has_thread &&
	    atomic_load_explicit(&p->thread_state, memory_order_relaxed) == SL_THREAD_DEEP &&
	    atomic_compare_exchange_strong(&p->thread_state, &deep, SL_THREAD_WATCH))
		sl_thread_wake(p);
	if (p->armed) {
		p->owes_wake = !p->has_thread;
		sl_token_disarm_armed(ctx);
	}
}

/*
 * A caller leaves. First it delivers completions that a submit produced and no pass has seen: in
 * one pass only, because callbacks may submit without end. The context's thread does the rest; in
 * WATCH it comes by itself, so nothing is armed. In a manual context it wakes the program that may
 * sleep on the descriptor that we disarmed, so that this arms it again.
 */
static void caller_leaves(struct slime_context *ctx)
{
	struct sl_progress *p = &ctx->progress;
	bool owes_wake = p->owes_wake;

	p->owes_wake = false;
	sl_token_give(ctx);
	if (sl_token_has_quiet_work(ctx) && sl_token_try(p)) {
		sl_token_pass(ctx);
		sl_token_give(ctx);
		if (sl_token_has_quiet_work(ctx))
			sl_progress_kick(ctx);
	}
	if (owes_wake)
		sl_poller_wake(&ctx->poller);
}

void sl_progress_enter(struct slime_context *ctx)
{
	struct sl_progress *p = &ctx->progress;
	uint32_t ticket;

	/* A callback that waited for another context's holder could wait for one that waits for it.
	 */
	assert(!sl_in_pass);
	atomic_fetch_add(&p->n_waiting, 1);
	atomic_fetch_add(&p->n_control, 1);
	/* In order: a thread that comes back at once leaves the token to those that wait. */
	ticket = atomic_fetch_add(&p->next_ticket, 1);
	while (atomic_load(&p->ticket) != ticket || !sl_token_try(p)) {
		if (atomic_load(&p->sleeping))
			sl_poller_wake(&ctx->poller);
		sched_yield();
	}
	atomic_store(&p->ticket, ticket + 1);
	atomic_fetch_sub(&p->n_control, 1);
	atomic_fetch_sub(&p->n_waiting, 1);
	caller_entered(ctx);
}

void sl_progress_leave(struct slime_context *ctx)
{
	caller_leaves(ctx);
}

/* ---- callers ---- */

/*
 * Another thread holds the token of a manual context, polls everything, and wakes us when it
 * leaves. Until then the descriptor is not readable for events that this thread will handle. False:
 * we have the token after all.
 */
static bool park(struct slime_context *ctx)
{
	struct sl_progress *p = &ctx->progress;

	sl_manual_tell(ctx, false);
	/* Set this first, then check: the leaving thread does it in the opposite order. */
	atomic_store(&p->thread_state, SL_THREAD_PARKED);
	return atomic_load(&p->token) || !sl_token_try(p);
}

static void unpark(struct slime_context *ctx)
{
	if (!ctx->attr.manual)
		return;
	atomic_store(&ctx->progress.thread_state, SL_THREAD_DEEP);
	sl_manual_tell(ctx, true);
}

int sl_progress_poll(struct slime_context *ctx)
{
	int n;

	if (sl_in_pass)
		return -EDEADLK;
	if (!sl_token_try(&ctx->progress))
		return 0;
	if (atomic_load_explicit(&ctx->progress.thread_state, memory_order_relaxed) ==
	    SL_THREAD_PARKED)
		unpark(ctx);
	caller_entered(ctx);
	/* This thread is the one that armed. */
	ctx->progress.owes_wake = false;
	n = (int)sl_token_pass(ctx);
	/* A caller that polls now and then must find everything. */
	if (!n)
		n = (int)sl_token_poller_pass(ctx);
	caller_leaves(ctx);
	return n;
}

void sl_progress_pass(struct slime_context *ctx)
{
	struct sl_progress *p = &ctx->progress;

	if (sl_in_pass || atomic_load_explicit(&p->n_control, memory_order_relaxed) ||
	    !sl_token_try(p))
		return;
	caller_entered(ctx);
	/* A caller that tests now and then must find everything. */
	if (!sl_token_pass(ctx))
		(void)sl_token_poller_pass(ctx);
	caller_leaves(ctx);
}

int sl_progress_arm(struct slime_context *ctx)
{
	unsigned n;

	if (sl_in_pass)
		return -EDEADLK;
	if (!sl_token_try(&ctx->progress)) {
		if (!ctx->attr.manual)
			return -EAGAIN;
		if (park(ctx))
			return 0;
	}
	unpark(ctx);
	sl_token_arm(ctx);
	n = sl_token_pass(ctx);
	if (n || sl_token_has_quiet_work(ctx)) {
		sl_token_disarm(ctx);
		sl_token_give(ctx);
		return -EAGAIN;
	}
	sl_token_want_poller(&ctx->progress);
	if (ctx->attr.manual)
		sl_poller_set_alarm(&ctx->poller);
	sl_token_give(ctx);
	return 0;
}

/* Arm, look once more, sleep. */
static void caller_sleeps(struct slime_context *ctx, struct slime_op *op, uint64_t deadline_ns)
{
	sl_token_arm(ctx);
	if (!sl_token_pass(ctx) && !sl_token_has_quiet_work(ctx) && !sl_op_is_idle(op)) {
		sl_token_sleep(ctx, deadline_ns);
		sl_spin_woke(&ctx->progress);
	}
	sl_token_disarm(ctx);
}

/* With the token, until op is done or the time is over; -EAGAIN: control work wants it. */
static int wait_holding(struct slime_context *ctx, struct slime_op *op, uint64_t deadline_ns)
{
	struct sl_progress *p = &ctx->progress;
	struct sl_spin spin = sl_spin_begin(p);

	for (;;) {
		unsigned n = sl_token_pass(ctx);

		if (sl_op_is_idle(op)) {
			sl_spin_learn(p, &spin, n);
			return 0;
		}
		if (atomic_load_explicit(&p->n_control, memory_order_relaxed))
			return -EAGAIN;
		switch (sl_spin_next(ctx, &spin, n, deadline_ns)) {
		case SL_SPIN_ON:
			break;
		case SL_SPIN_TIMEOUT:
			return -ETIMEDOUT;
		case SL_SPIN_SLEEP:
			if (deadline_ns != SL_NEVER && sl_clock_ns() >= deadline_ns)
				return -ETIMEDOUT;
			caller_sleeps(ctx, op, deadline_ns);
			spin = sl_spin_begin(p);
			break;
		}
	}
}

/* Another thread holds the token: 0 the op is done, -ETIMEDOUT, -EAGAIN the token may be free. */
static int wait_as_guest(struct slime_context *ctx, struct slime_op *op, uint64_t deadline_ns)
{
	struct sl_progress *p = &ctx->progress;
	unsigned spins = ctx->attr.polling == SLIME_POLLING_EVENT || p->one_cpu ? 1 : GUEST_SPINS;

	for (unsigned i = 0; i < spins; i++) {
		if (sl_op_is_idle(op))
			return 0;
		if (!atomic_load_explicit(&p->token, memory_order_relaxed))
			return -EAGAIN;
		sl_cpu_relax();
	}
	if (deadline_ns != SL_NEVER && sl_clock_ns() >= deadline_ns)
		return -ETIMEDOUT;
	sl_token_await(p, op, deadline_ns);
	return sl_op_is_idle(op) ? 0 : -EAGAIN;
}

int sl_progress_wait_op(struct slime_context *ctx, struct slime_op *op, uint64_t deadline_ns)
{
	struct sl_progress *p = &ctx->progress;
	int ret;

	if (sl_op_is_idle(op))
		return 0;
	if (sl_in_pass)
		return -EDEADLK;
	do {
		if (!atomic_load_explicit(&p->n_control, memory_order_relaxed) && sl_token_try(p)) {
			caller_entered(ctx);
			ret = wait_holding(ctx, op, deadline_ns);
			caller_leaves(ctx);
		} else {
			/* Counted only here: a holder that leaves looks after those alone. */
			atomic_fetch_add(&p->n_waiting, 1);
			ret = wait_as_guest(ctx, op, deadline_ns);
			atomic_fetch_sub(&p->n_waiting, 1);
			/* The token may have been left to us, although we do not want it any more.
			 */
			if (ret != -EAGAIN && !atomic_load(&p->token))
				sl_token_wake_successor(p);
		}
	} while (ret == -EAGAIN);
	return ret;
}

/* Arm, look once more, sleep: at most a slice of time, since not all that done looks at rings. */
static void until_sleeps(struct slime_context *ctx, bool (*done)(void *arg), void *arg,
			 uint64_t deadline_ns)
{
	uint64_t slice = sl_clock_ns() + UNTIL_SLICE_MS * SL_NS_PER_MS;

	sl_token_arm(ctx);
	if (!sl_token_pass(ctx) && !sl_token_has_quiet_work(ctx) && !done(arg))
		sl_token_sleep(ctx, slice < deadline_ns ? slice : deadline_ns);
	sl_token_disarm(ctx);
}

int sl_progress_until(struct slime_context *ctx, bool (*done)(void *arg), void *arg,
		      uint64_t deadline_ns)
{
	struct sl_progress *p = &ctx->progress;
	bool owes_wake = false;

	if (sl_in_pass)
		return sl_in_pass == ctx && done(arg) ? 0 : -EDEADLK;
	for (;;) {
		uint64_t now = sl_clock_ns();
		bool is_done;

		sl_progress_enter(ctx);
		owes_wake |= p->owes_wake;
		sl_token_pass(ctx);
		is_done = done(arg);
		if (!is_done) {
			until_sleeps(ctx, done, arg, deadline_ns);
			is_done = done(arg);
		}
		/* Until our last poll, peers need no other thread. */
		p->owes_wake = owes_wake && (is_done || now >= deadline_ns);
		sl_progress_leave(ctx);
		if (is_done)
			return 0;
		if (now >= deadline_ns)
			return -ETIMEDOUT;
	}
}

/* Whether a thread sleeps on the poller, and has to be woken. */
static bool wake_sleeper(struct slime_context *ctx)
{
	/* Publish before checking for sleepers. */
	atomic_thread_fence(memory_order_seq_cst);
	if (!atomic_load(&ctx->progress.sleeping))
		return false;
	sl_poller_wake(&ctx->poller);
	return true;
}

void sl_progress_nudge(struct slime_context *ctx)
{
	if (sl_in_pass != ctx)
		(void)wake_sleeper(ctx);
}

void sl_progress_kick(struct slime_context *ctx)
{
	struct sl_progress *p = &ctx->progress;
	uint32_t watch = SL_THREAD_WATCH;

	if (sl_in_pass == ctx || wake_sleeper(ctx))
		return;
	if (!atomic_load(&p->token) && atomic_load(&p->thread_state) == SL_THREAD_WATCH &&
	    atomic_compare_exchange_strong(&p->thread_state, &watch, SL_THREAD_DEEP))
		sl_futex_wake(&p->thread_state);
}

/* ---- life ---- */

int sl_progress_start(struct slime_context *ctx)
{
	struct sl_progress *p = &ctx->progress;
	cpu_set_t cpus;
	int ret;

	pthread_mutex_init(&p->lock, NULL);
	sl_list_init(&p->sleepers);
	sl_spin_init(p, ctx->attr.spin_us * SL_NS_PER_US);
	p->one_cpu = sched_getaffinity(0, sizeof(cpus), &cpus) == 0 && CPU_COUNT(&cpus) < 2;
	ret = ctx->attr.manual ? 0 : sl_thread_start(ctx);
	if (ret)
		pthread_mutex_destroy(&p->lock);
	return ret;
}

void sl_progress_stop(struct slime_context *ctx)
{
	sl_thread_stop(ctx);
	pthread_mutex_destroy(&ctx->progress.lock);
}
