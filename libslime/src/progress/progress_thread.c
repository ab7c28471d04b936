/* SPDX-License-Identifier: Apache-2.0 */
#include "src/progress/progress_thread.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "src/progress/context.h"
#include "src/core/futex.h"
#include "src/progress/progress_spin.h"
#include "src/progress/progress_token.h"

/* Callers that come more often than this leave peers nothing to wait for. */
#define CALL_NS (64 * SL_NS_PER_US)
/* Those that come out of posts and no more often than this make long ones: a post to an adapter is
 * over in a part of a microsecond. */
#define LONG_POST_NS (16 * SL_NS_PER_US)

void sl_thread_wake(struct sl_progress *p)
{
	uint64_t one = 1;
	ssize_t n = write(p->thread_fd, &one, sizeof(one));

	/* A full counter is readable already. */
	(void)n;
}

/* Whether a caller is inside a post, and has not been for too long: he comes soon. */
static bool is_posting(const struct sl_progress *p)
{
	return atomic_load_explicit(&p->posting, memory_order_relaxed) &&
	       p->posting_ns < SL_POSTING_MAX_US * SL_NS_PER_US;
}

/* Serve until there is nothing to do, or a caller wants the token, or it is time to stop. */
static void serve(struct slime_context *ctx)
{
	struct sl_progress *p = &ctx->progress;
	struct sl_spin spin = sl_spin_begin(p);

	while (!atomic_load_explicit(&p->stop, memory_order_relaxed)) {
		unsigned n;

		if (p->one_cpu && is_posting(p)) {
			atomic_store(&p->thread_state, SL_THREAD_WATCH);
			return;
		}
		n = sl_token_pass(ctx);
		p->posting_ns = 0;
		if (atomic_load_explicit(&p->n_waiting, memory_order_relaxed)) {
			atomic_store(&p->thread_state, SL_THREAD_WATCH);
			return;
		}
		if (sl_spin_next(ctx, &spin, n, SL_NEVER) == SL_SPIN_SLEEP) {
			sl_token_arm(ctx);
			if (!sl_token_pass(ctx) && !sl_token_has_quiet_work(ctx))
				return;
			sl_token_disarm(ctx);
			spin = sl_spin_begin(p);
		}
	}
}

/* Sleep on the poller without the token; nothing is taken out of it. */
static void sleep_deep(struct slime_context *ctx)
{
	struct pollfd fds[] = {
		{ .fd = ctx->poller.fd, .events = POLLIN },
		{ .fd = ctx->progress.thread_fd, .events = POLLIN },
	};
	uint64_t count;
	uint64_t next = atomic_load(&ctx->poller.next_timer_ns);

	if (poll(fds, 2, sl_poller_wait_ms(next)) > 0 && fds[1].revents) {
		ssize_t n = read(ctx->progress.thread_fd, &count, sizeof(count));

		(void)n;
	}
}

static void thread_deep(struct slime_context *ctx)
{
	struct sl_progress *p = &ctx->progress;
	uint32_t deep = SL_THREAD_DEEP;

	if (!sl_token_try(p)) {
		atomic_compare_exchange_strong(&p->thread_state, &deep, SL_THREAD_WATCH);
		return;
	}
	sl_token_disarm(ctx);
	sl_spin_woke(p);
	sl_token_want_poller(p);
	serve(ctx);
	sl_token_give(ctx);
	if (atomic_load(&p->thread_state) == SL_THREAD_DEEP && !atomic_load(&p->stop))
		sleep_deep(ctx);
}

static void watch_less(struct sl_progress *p, uint64_t max_us)
{
	uint64_t twice = 2 * p->watch_ns;

	p->watch_ns = twice < max_us * SL_NS_PER_US ? twice : max_us * SL_NS_PER_US;
}

/* The time until the next check: each interrupts the thread that shares the CPU, and callers that
 * hold the token most of the time serve peers themselves. */
static void set_watch_interval(struct sl_progress *p, uint64_t n_calls, bool held)
{
	if (is_posting(p) && n_calls * LONG_POST_NS < p->watch_ns)
		watch_less(p, SL_WATCH_POSTING_US);
	else if (!held && n_calls * CALL_NS < p->watch_ns)
		p->watch_ns = SL_WATCH_US * SL_NS_PER_US;
	else if (p->watch_ns > SL_WATCH_MAX_US * SL_NS_PER_US)
		p->watch_ns = p->watch_ns / 2;
	else
		watch_less(p, SL_WATCH_MAX_US);
}

static void thread_watch(struct slime_context *ctx)
{
	struct sl_progress *p = &ctx->progress;
	uint64_t n_calls = atomic_load(&p->n_calls);
	uint32_t watch = SL_THREAD_WATCH;
	bool held;

	sl_futex_wait(&p->thread_state, SL_THREAD_WATCH, sl_clock_ns() + p->watch_ns);
	n_calls = atomic_load(&p->n_calls) - n_calls;
	held = atomic_load(&p->token);
	if (n_calls)
		p->posting_ns = 0;
	if (!held && !n_calls && is_posting(p)) {
		p->posting_ns += p->watch_ns;
		watch_less(p, SL_WATCH_POSTING_US);
		return;
	}
	if (!held && (!n_calls || sl_token_has_quiet_work(ctx))) {
		p->watch_ns = SL_WATCH_US * SL_NS_PER_US;
		atomic_compare_exchange_strong(&p->thread_state, &watch, SL_THREAD_DEEP);
		return;
	}
	if (n_calls || p->watch_ns < SL_WATCH_MAX_US * SL_NS_PER_US) {
		set_watch_interval(p, n_calls, held);
		return;
	}
	if (atomic_compare_exchange_strong(&p->thread_state, &watch, SL_THREAD_PARKED) &&
	    /* The holder may have left before it could see that we park. */
	    !atomic_load(&p->token))
		atomic_store(&p->thread_state, SL_THREAD_DEEP);
}

static void *run(void *arg)
{
	struct slime_context *ctx = arg;
	struct sl_progress *p = &ctx->progress;

	while (!atomic_load(&p->stop)) {
		switch (atomic_load(&p->thread_state)) {
		case SL_THREAD_DEEP:
			thread_deep(ctx);
			break;
		case SL_THREAD_WATCH:
			thread_watch(ctx);
			break;
		default:
			sl_futex_wait(&p->thread_state, SL_THREAD_PARKED, SL_NEVER);
			break;
		}
	}
	return NULL;
}

static int create_thread(struct slime_context *ctx)
{
	struct sl_progress *p = &ctx->progress;
	int ret = sl_thread_create(&p->thread, "slime-progress", run, ctx);

	p->has_thread = !ret;
	return ret;
}

static int bind_thread(struct slime_context *ctx)
{
	cpu_set_t cpus;
	int ret;

	if (ctx->attr.cpu < 0)
		return 0;
	CPU_ZERO(&cpus);
	CPU_SET((unsigned)ctx->attr.cpu, &cpus);
	ret = pthread_setaffinity_np(ctx->progress.thread, sizeof(cpus), &cpus);
	if (ret)
		sl_error("context", "cpu %d: the progress thread cannot be bound to it",
			 ctx->attr.cpu);
	return -ret;
}

int sl_thread_start(struct slime_context *ctx)
{
	struct sl_progress *p = &ctx->progress;
	int ret;

	p->watch_ns = SL_WATCH_US * SL_NS_PER_US;
	p->thread_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (p->thread_fd < 0)
		return -errno;
	ret = create_thread(ctx);
	if (ret) {
		close(p->thread_fd);
		return ret;
	}
	ret = bind_thread(ctx);
	if (ret)
		sl_thread_stop(ctx);
	return ret;
}

void sl_thread_stop(struct slime_context *ctx)
{
	struct sl_progress *p = &ctx->progress;

	if (!p->has_thread)
		return;
	atomic_store(&p->stop, true);
	atomic_store(&p->thread_state, SL_THREAD_DEEP);
	sl_futex_wake(&p->thread_state);
	sl_thread_wake(p);
	pthread_join(p->thread, NULL);
	p->has_thread = false;
	close(p->thread_fd);
	p->thread_fd = -1;
}
