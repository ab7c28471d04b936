/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/log.h"
#include "src/context.h"
#include "src/futex.h"

/* Empty rounds between two looks at the clock. */
#define ROUNDS_PER_CLOCK 64
/* The poller is a system call, and tells of what is not worth one in every round: it is looked at
 * when this time has passed, which is asked every so many rounds. */
#define ROUNDS_PER_POLLER 64
#define POLLER_NS	  (50 * SL_NS_PER_US)
/*
 * A spinner whose CPU another thread may be waiting for, perhaps the very one that will answer,
 * yields: after a few microseconds of empty rounds at most, and then every so many. When a yield of
 * a length within these bounds was followed by an event, the next comes after a quarter as many
 * rounds: two ends on one CPU soon hand it to and fro. A shorter one found nobody, and a longer one
 * lost the CPU to somebody with work of his own: the next comes later.
 */
#define ROUNDS_BEFORE_YIELD 128
#define ROUNDS_PER_YIELD    16
/* What a look that was a system call counts as, in rounds that only look at memory. */
#define ROUNDS_PER_CALL	    8
#define YIELD_HELPED_MIN_NS 1800
#define YIELD_HELPED_MAX_NS (200 * SL_NS_PER_US)
/*
 * A peer that has several messages on the way writes the next one while we look for it, and each
 * look takes the cache line from it. So after a round of some events the next comes a little later,
 * and finds more of them; after one of many there is more to do than there is time.
 */
#define SOME_EVENTS	  2
#define MANY_EVENTS	  32
#define PAUSES_AFTER_SOME 8
/* How often a caller that finds the token taken looks again before it sleeps. */
#define GUEST_SPINS 2000
/* Callers that come more often than this leave peers nothing to wait for. */
#define VISIT_NS       (64 * SL_NS_PER_US)
#define UNTIL_SLICE_MS 5

/* A caller asleep on its op. */
struct guest {
	struct sl_list link;
	struct slime_op *op;
};

/* The context whose token this thread holds while it runs its round: callbacks happen only in
 * there. */
static SL_PER_THREAD struct slime_context *in_round;

bool sl_progress_in_callback(void)
{
	return in_round != NULL;
}

/* ---- the token ---- */

static bool try_token(struct sl_progress *p)
{
	uint32_t is_free = 0;

	return atomic_load_explicit(&p->token, memory_order_relaxed) == 0 &&
	       atomic_compare_exchange_strong_explicit(&p->token, &is_free, 1, memory_order_acquire,
						       memory_order_relaxed);
}

/* Work that is not announced by any descriptor. */
static bool has_quiet_work(struct slime_context *ctx)
{
	return sl_completions_waiting(&ctx->completions) || atomic_load(&ctx->n_todo);
}

static void disarm(struct slime_context *ctx)
{
	struct sl_progress *p = &ctx->progress;

	if (!p->armed)
		return;
	p->armed = false;
	atomic_store(&p->sleeping, 0);
	for (int i = 0; i < SLIME_TRANSPORT_MAX; i++) {
		if (ctx->transports[i])
			ctx->transports[i]->ops->disarm(ctx->transports[i]);
	}
}

/* From here on every event rings the poller. The caller looks once more before it sleeps. */
static void arm(struct slime_context *ctx)
{
	struct sl_progress *p = &ctx->progress;

	if (p->armed)
		return;
	p->armed = true;
	for (int i = 0; i < SLIME_TRANSPORT_MAX; i++) {
		if (ctx->transports[i])
			ctx->transports[i]->ops->arm(ctx->transports[i]);
	}
	atomic_store(&p->sleeping, 1);
	atomic_thread_fence(memory_order_seq_cst);
}

static unsigned look_at_transports(struct slime_context *ctx)
{
	unsigned n = 0;

	for (int i = 0; i < SLIME_TRANSPORT_MAX; i++) {
		if (ctx->transports[i])
			n += ctx->transports[i]->ops->progress(ctx->transports[i]);
	}
	return n;
}

/* The poller, if its time has come, and what is not looked at in every round. */
static unsigned poller_turn(struct slime_context *ctx)
{
	struct sl_progress *p = &ctx->progress;
	uint64_t now = sl_clock_ns();
	unsigned n;

	p->rounds = 0;
	if (now - p->poller_ns < POLLER_NS)
		return 0;
	p->poller_ns = now;
	p->look_at_all = true;
	n = look_at_transports(ctx);
	p->look_at_all = false;
	n += sl_poller_run(&ctx->poller, 0);
	return n + sl_completions_deliver(&ctx->completions);
}

/* The next round looks at the poller, whenever the last did. */
static void want_poller(struct sl_progress *p)
{
	p->rounds = ROUNDS_PER_POLLER;
	p->poller_ns = 0;
}

/* One look at everything that does not sleep: the number of events handled. */
static unsigned one_round(struct slime_context *ctx)
{
	struct sl_progress *p = &ctx->progress;
	unsigned n = 0;

	in_round = ctx;
	n += look_at_transports(ctx);
	if (atomic_load_explicit(&ctx->n_todo, memory_order_acquire))
		n += sl_endpoint_run_todo(ctx);
	n += sl_completions_deliver(&ctx->completions);
	if (++p->rounds >= ROUNDS_PER_POLLER)
		n += poller_turn(ctx);
	in_round = NULL;
	return n;
}

static unsigned poller_round(struct slime_context *ctx)
{
	unsigned n;

	in_round = ctx;
	n = poller_turn(ctx);
	in_round = NULL;
	return n;
}

/* Sleep on the poller with the token; everything is armed and was looked at once more. */
static void sleep_holding(struct slime_context *ctx, uint64_t deadline_ns)
{
	in_round = ctx;
	sl_poller_run(&ctx->poller, deadline_ns);
	sl_completions_deliver(&ctx->completions);
	in_round = NULL;
}

/* Hand over: to a caller that sleeps, else to the thread if it relies on that. */
static void wake_successor(struct sl_progress *p)
{
	uint32_t parked = SL_THREAD_PARKED;

	if (atomic_load(&p->n_waiting)) {
		pthread_mutex_lock(&p->lock);
		if (!sl_list_empty(&p->sleepers)) {
			struct guest *g = SL_CONTAINER_OF(p->sleepers.next, struct guest, link);
			uint32_t waited = SL_OP_WAITED;

			/* The word changes, or one who is about to sleep on it would. */
			if (atomic_compare_exchange_strong(&g->op->state, &waited, SL_OP_PENDING))
				sl_futex_wake(&g->op->state);
		}
		pthread_mutex_unlock(&p->lock);
	}
	if (atomic_load_explicit(&p->thread_state, memory_order_relaxed) == SL_THREAD_PARKED &&
	    atomic_compare_exchange_strong(&p->thread_state, &parked, SL_THREAD_WATCH))
		sl_futex_wake(&p->thread_state);
}

static void give_token(struct slime_context *ctx)
{
	struct sl_progress *p = &ctx->progress;

	/* Fully ordered: who wants the token counts himself, then looks at it; we the other way
	 * round. */
	atomic_store(&p->token, 0);
	if (atomic_load(&p->n_waiting) ||
	    atomic_load_explicit(&p->thread_state, memory_order_relaxed) == SL_THREAD_PARKED)
		wake_successor(p);
}

/* Wake the thread that sleeps on the poller, or is about to. */
static void wake_thread(struct sl_progress *p)
{
	uint64_t one = 1;
	ssize_t n = write(p->thread_fd, &one, sizeof(one));

	/* A full counter is readable already. */
	(void)n;
}

/*
 * A caller has the token: peers need not ring, and the thread need not wake.
 */
static void caller_entered(struct slime_context *ctx)
{
	struct sl_progress *p = &ctx->progress;
	uint32_t deep = SL_THREAD_DEEP;

	/* With the token nobody else counts. */
	atomic_store_explicit(&p->n_visits,
			      atomic_load_explicit(&p->n_visits, memory_order_relaxed) + 1,
			      memory_order_relaxed);
	if (p->has_thread &&
	    atomic_load_explicit(&p->thread_state, memory_order_relaxed) == SL_THREAD_DEEP &&
	    atomic_compare_exchange_strong(&p->thread_state, &deep, SL_THREAD_WATCH))
		wake_thread(p);
	disarm(ctx);
}

/*
 * A caller leaves. What was finished by a submit meanwhile, and by nobody seen, is delivered first;
 * with the thread in WATCH it comes by itself, so nothing is armed.
 */
static void caller_leaves(struct slime_context *ctx)
{
	struct sl_progress *p = &ctx->progress;

	for (;;) {
		give_token(ctx);
		if (!has_quiet_work(ctx) || !try_token(p))
			return;
		one_round(ctx);
	}
}

void sl_progress_enter(struct slime_context *ctx)
{
	struct sl_progress *p = &ctx->progress;

	/* A callback that waited for another context's holder could wait for one that waits for it.
	 */
	assert(!in_round);
	atomic_fetch_add(&p->n_waiting, 1);
	atomic_fetch_add(&p->n_control, 1);
	while (!try_token(p)) {
		if (atomic_load(&p->sleeping))
			sl_poller_wake(&ctx->poller);
		sched_yield();
	}
	atomic_fetch_sub(&p->n_control, 1);
	atomic_fetch_sub(&p->n_waiting, 1);
	caller_entered(ctx);
}

void sl_progress_leave(struct slime_context *ctx)
{
	caller_leaves(ctx);
}

/* ---- callers ---- */

int sl_progress_poll(struct slime_context *ctx)
{
	int n;

	if (in_round)
		return -EDEADLK;
	if (!try_token(&ctx->progress))
		return 0;
	caller_entered(ctx);
	n = (int)one_round(ctx);
	/* A caller that polls now and then must find everything. */
	if (!n)
		n = (int)poller_round(ctx);
	caller_leaves(ctx);
	return n;
}

int sl_progress_arm(struct slime_context *ctx)
{
	unsigned n;

	if (in_round)
		return -EDEADLK;
	if (!try_token(&ctx->progress))
		return -EAGAIN;
	arm(ctx);
	n = one_round(ctx);
	if (n || has_quiet_work(ctx)) {
		disarm(ctx);
		give_token(ctx);
		return -EAGAIN;
	}
	want_poller(&ctx->progress);
	give_token(ctx);
	return 0;
}

static bool op_done(struct slime_op *op)
{
	return atomic_load_explicit(&op->state, memory_order_acquire) == SL_OP_IDLE;
}

/* How long a spinner goes on without an event. */
struct spin {
	uint64_t empty; /* rounds, weighed by what they cost; with polling busy there is no end */
	uint64_t yield_at; /* when there are more */
	uint64_t clock_at; /* same */
	bool yielded;	   /* before the round */
	bool long_yield;   /* and somebody else ran */
	uint64_t until_ns; /* 0: not known yet */
};

static struct spin spin_begin(const struct sl_progress *p)
{
	return (struct spin){ .yield_at = p->yield_after, .clock_at = ROUNDS_PER_CLOCK };
}

enum spin_verdict { SPIN_ON, SPIN_SLEEP, SPIN_TIMEOUT };

/* Let others have the CPU; whether it may have been the one that answers. */
static bool yield_cpu(void)
{
	uint64_t took = sl_clock_ns();

	sched_yield();
	took = sl_clock_ns() - took;
	return took >= YIELD_HELPED_MIN_NS && took <= YIELD_HELPED_MAX_NS;
}

/* A spinner looked, and found n events: if it had yielded before, whether that helped. */
static void learn_from_yield(struct sl_progress *p, const struct spin *s, unsigned n)
{
	if (!s->yielded)
		return;
	if (n && s->long_yield)
		p->yield_after /= 4;
	else if (p->yield_after < ROUNDS_BEFORE_YIELD)
		p->yield_after = 2 * p->yield_after + 1;
}

/* After a round that handled n events. */
static enum spin_verdict spin_next(struct slime_context *ctx, struct spin *s, unsigned n,
				   uint64_t deadline_ns)
{
	struct sl_progress *p = &ctx->progress;
	uint64_t now;

	learn_from_yield(p, s, n);
	if (n) {
		*s = spin_begin(p);
		p->vain_calls = 0;
		for (int i = 0; i < PAUSES_AFTER_SOME && n >= SOME_EVENTS && n < MANY_EVENTS; i++)
			sl_cpu_relax();
		return SPIN_ON;
	}
	s->empty += 1 + ROUNDS_PER_CALL * p->vain_calls;
	p->vain_calls = 0;
	s->yielded = s->empty > s->yield_at;
	if (s->yielded) {
		s->long_yield = yield_cpu();
		s->yield_at = s->empty + ROUNDS_PER_YIELD;
	} else {
		sl_cpu_relax();
	}
	if (ctx->attr.polling == SLIME_POLLING_EVENT)
		return SPIN_SLEEP;
	if (s->empty < s->clock_at)
		return SPIN_ON;

	s->clock_at = s->empty + ROUNDS_PER_CLOCK;
	now = sl_clock_ns();
	if (now >= deadline_ns)
		return SPIN_TIMEOUT;
	if (ctx->attr.polling == SLIME_POLLING_BUSY)
		return SPIN_ON;
	if (!s->until_ns)
		s->until_ns = now + p->spin_ns;
	return now >= s->until_ns ? SPIN_SLEEP : SPIN_ON;
}

/* Arm, look once more, sleep. */
static void caller_sleeps(struct slime_context *ctx, struct slime_op *op, uint64_t deadline_ns)
{
	arm(ctx);
	if (!one_round(ctx) && !has_quiet_work(ctx) && !op_done(op))
		sleep_holding(ctx, deadline_ns);
	disarm(ctx);
}

/* With the token, until op is done or the time is over; -EAGAIN: control work wants it. */
static int wait_holding(struct slime_context *ctx, struct slime_op *op, uint64_t deadline_ns)
{
	struct sl_progress *p = &ctx->progress;
	struct spin spin = spin_begin(p);

	for (;;) {
		unsigned n = one_round(ctx);

		if (op_done(op)) {
			learn_from_yield(p, &spin, n);
			return 0;
		}
		if (atomic_load_explicit(&p->n_control, memory_order_relaxed))
			return -EAGAIN;
		switch (spin_next(ctx, &spin, n, deadline_ns)) {
		case SPIN_ON:
			break;
		case SPIN_TIMEOUT:
			return -ETIMEDOUT;
		case SPIN_SLEEP:
			if (deadline_ns != SL_NEVER && sl_clock_ns() >= deadline_ns)
				return -ETIMEDOUT;
			caller_sleeps(ctx, op, deadline_ns);
			spin = spin_begin(p);
			break;
		}
	}
}

/* Asleep on the op: whoever finishes it wakes us, and so does a holder that leaves. */
static void sleep_as_guest(struct sl_progress *p, struct slime_op *op, uint64_t deadline_ns)
{
	struct guest here = { .op = op };
	uint32_t pending = SL_OP_PENDING;

	pthread_mutex_lock(&p->lock);
	sl_list_append(&p->sleepers, &here.link);
	pthread_mutex_unlock(&p->lock);
	atomic_compare_exchange_strong(&op->state, &pending, SL_OP_WAITED);
	/* The holder looks at sleepers after it gave the token: look at the token after being one.
	 */
	if (atomic_load(&p->token))
		sl_futex_wait(&op->state, SL_OP_WAITED, deadline_ns);
	pthread_mutex_lock(&p->lock);
	sl_list_remove(&here.link);
	pthread_mutex_unlock(&p->lock);
}

/* Another thread holds the token: 0 the op is done, -ETIMEDOUT, -EAGAIN the token may be free. */
static int wait_as_guest(struct slime_context *ctx, struct slime_op *op, uint64_t deadline_ns)
{
	struct sl_progress *p = &ctx->progress;
	unsigned spins = ctx->attr.polling == SLIME_POLLING_EVENT || p->one_cpu ? 1 : GUEST_SPINS;

	for (unsigned i = 0; i < spins; i++) {
		if (op_done(op))
			return 0;
		if (!atomic_load_explicit(&p->token, memory_order_relaxed))
			return -EAGAIN;
		sl_cpu_relax();
	}
	if (deadline_ns != SL_NEVER && sl_clock_ns() >= deadline_ns)
		return -ETIMEDOUT;
	sleep_as_guest(p, op, deadline_ns);
	return op_done(op) ? 0 : -EAGAIN;
}

int sl_progress_wait_op(struct slime_context *ctx, struct slime_op *op, uint64_t deadline_ns)
{
	struct sl_progress *p = &ctx->progress;
	int ret;

	if (op_done(op))
		return 0;
	if (in_round)
		return -EDEADLK;
	do {
		if (!atomic_load_explicit(&p->n_control, memory_order_relaxed) && try_token(p)) {
			caller_entered(ctx);
			ret = wait_holding(ctx, op, deadline_ns);
			caller_leaves(ctx);
		} else {
			/* Counted only here: a holder that leaves looks after those alone. */
			atomic_fetch_add(&p->n_waiting, 1);
			ret = wait_as_guest(ctx, op, deadline_ns);
			atomic_fetch_sub(&p->n_waiting, 1);
		}
	} while (ret == -EAGAIN);
	return ret;
}

/* Arm, look once more, sleep: at most a slice of time, since not all that done looks at rings. */
static void until_sleeps(struct slime_context *ctx, bool (*done)(void *arg), void *arg,
			 uint64_t deadline_ns)
{
	uint64_t slice = sl_clock_ns() + UNTIL_SLICE_MS * SL_NS_PER_MS;

	arm(ctx);
	if (!one_round(ctx) && !has_quiet_work(ctx) && !done(arg))
		sleep_holding(ctx, slice < deadline_ns ? slice : deadline_ns);
	disarm(ctx);
}

int sl_progress_until(struct slime_context *ctx, bool (*done)(void *arg), void *arg,
		      uint64_t deadline_ns)
{
	if (in_round)
		return in_round == ctx && done(arg) ? 0 : -EDEADLK;
	for (;;) {
		uint64_t now = sl_clock_ns();
		bool is_done;

		sl_progress_enter(ctx);
		one_round(ctx);
		is_done = done(arg);
		if (!is_done) {
			until_sleeps(ctx, done, arg, deadline_ns);
			is_done = done(arg);
		}
		sl_progress_leave(ctx);
		if (is_done)
			return 0;
		if (now >= deadline_ns)
			return -ETIMEDOUT;
	}
}

/* Whether somebody sleeps on the poller, and is woken. */
static bool wake_sleeper(struct slime_context *ctx)
{
	/* What was published comes before the look at who sleeps. */
	atomic_thread_fence(memory_order_seq_cst);
	if (!atomic_load(&ctx->progress.sleeping))
		return false;
	sl_poller_wake(&ctx->poller);
	return true;
}

void sl_progress_nudge(struct slime_context *ctx)
{
	if (in_round != ctx)
		(void)wake_sleeper(ctx);
}

void sl_progress_kick(struct slime_context *ctx)
{
	struct sl_progress *p = &ctx->progress;
	uint32_t watch = SL_THREAD_WATCH;

	if (in_round == ctx || wake_sleeper(ctx))
		return;
	if (!atomic_load(&p->token) && atomic_load(&p->thread_state) == SL_THREAD_WATCH &&
	    atomic_compare_exchange_strong(&p->thread_state, &watch, SL_THREAD_DEEP))
		sl_futex_wake(&p->thread_state);
}

/* ---- the context's thread ---- */

/* Serve until there is nothing to do, or a caller wants the token, or it is time to stop. */
static void serve(struct slime_context *ctx)
{
	struct sl_progress *p = &ctx->progress;
	struct spin spin = spin_begin(p);

	while (!atomic_load_explicit(&p->stop, memory_order_relaxed)) {
		unsigned n = one_round(ctx);

		if (atomic_load_explicit(&p->n_waiting, memory_order_relaxed)) {
			atomic_store(&p->thread_state, SL_THREAD_WATCH);
			return;
		}
		if (spin_next(ctx, &spin, n, SL_NEVER) == SPIN_SLEEP) {
			arm(ctx);
			if (!one_round(ctx) && !has_quiet_work(ctx))
				return;
			disarm(ctx);
			spin = spin_begin(p);
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
	uint64_t now = sl_clock_ns();
	int ms = -1;

	if (next != SL_NEVER)
		ms = next <= now ? 0 : (int)((next - now) / SL_NS_PER_MS) + 1;
	if (poll(fds, 2, ms) > 0 && fds[1].revents) {
		ssize_t n = read(ctx->progress.thread_fd, &count, sizeof(count));

		(void)n;
	}
}

static void thread_deep(struct slime_context *ctx)
{
	struct sl_progress *p = &ctx->progress;
	uint32_t deep = SL_THREAD_DEEP;

	if (!try_token(p)) {
		atomic_compare_exchange_strong(&p->thread_state, &deep, SL_THREAD_WATCH);
		return;
	}
	disarm(ctx);
	want_poller(p);
	serve(ctx);
	give_token(ctx);
	if (atomic_load(&p->thread_state) == SL_THREAD_DEEP && !atomic_load(&p->stop))
		sleep_deep(ctx);
}

/* How long until the next look: each is an interrupt of whoever shares the CPU, and callers that
 * hold the token most of the time serve peers themselves. */
static void pace_watch(struct sl_progress *p, uint64_t visits, bool held)
{
	if (!held && visits * VISIT_NS < p->watch_ns)
		p->watch_ns = SL_WATCH_US * SL_NS_PER_US;
	else if (p->watch_ns < SL_WATCH_MAX_US * SL_NS_PER_US)
		p->watch_ns *= 2;
}

static void thread_watch(struct slime_context *ctx)
{
	struct sl_progress *p = &ctx->progress;
	uint64_t visits = atomic_load(&p->n_visits);
	uint32_t watch = SL_THREAD_WATCH;
	bool held;

	sl_futex_wait(&p->thread_state, SL_THREAD_WATCH, sl_clock_ns() + p->watch_ns);
	visits = atomic_load(&p->n_visits) - visits;
	held = atomic_load(&p->token);
	if (!held && (!visits || has_quiet_work(ctx))) {
		p->watch_ns = SL_WATCH_US * SL_NS_PER_US;
		atomic_compare_exchange_strong(&p->thread_state, &watch, SL_THREAD_DEEP);
		return;
	}
	if (visits || p->watch_ns < SL_WATCH_MAX_US * SL_NS_PER_US) {
		pace_watch(p, visits, held);
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

/* Signals are the program's, not this thread's. */
static int start_thread(struct slime_context *ctx)
{
	struct sl_progress *p = &ctx->progress;
	sigset_t all, old;
	cpu_set_t cpus;
	int ret;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	ret = pthread_create(&p->thread, NULL, run, ctx);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (ret)
		return -ret;
	pthread_setname_np(p->thread, "slime-progress");
	p->has_thread = true;
	if (ctx->attr.cpu < 0)
		return 0;

	CPU_ZERO(&cpus);
	CPU_SET((unsigned)ctx->attr.cpu, &cpus);
	ret = pthread_setaffinity_np(p->thread, sizeof(cpus), &cpus);
	if (ret) {
		sl_error("context", "cpu %d: the progress thread cannot be bound to it",
			 ctx->attr.cpu);
		sl_progress_stop(ctx);
	}
	return -ret;
}

int sl_progress_start(struct slime_context *ctx)
{
	struct sl_progress *p = &ctx->progress;
	cpu_set_t cpus;
	int ret;

	pthread_mutex_init(&p->lock, NULL);
	sl_list_init(&p->sleepers);
	p->spin_ns = ctx->attr.spin_us * SL_NS_PER_US;
	p->yield_after = ROUNDS_BEFORE_YIELD;
	p->watch_ns = SL_WATCH_US * SL_NS_PER_US;
	p->one_cpu = sched_getaffinity(0, sizeof(cpus), &cpus) == 0 && CPU_COUNT(&cpus) < 2;
	p->thread_fd = -1;
	if (ctx->attr.manual)
		return 0;
	p->thread_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (p->thread_fd < 0)
		return -errno;
	ret = start_thread(ctx);
	if (ret && p->thread_fd >= 0)
		close(p->thread_fd);
	return ret;
}

void sl_progress_stop(struct slime_context *ctx)
{
	struct sl_progress *p = &ctx->progress;

	if (p->has_thread) {
		atomic_store(&p->stop, true);
		atomic_store(&p->thread_state, SL_THREAD_DEEP);
		sl_futex_wake(&p->thread_state);
		wake_thread(p);
		pthread_join(p->thread, NULL);
		p->has_thread = false;
		close(p->thread_fd);
		p->thread_fd = -1;
	}
	pthread_mutex_destroy(&p->lock);
}
