/* SPDX-License-Identifier: Apache-2.0 */
#include "src/progress/progress_token.h"

#include "base/clock.h"
#include "src/core/futex.h"
#include "src/progress/manual.h"

/* The poller is a system call, and tells of what is not worth one in every pass: it is looked at
 * when this time has passed, which is asked every so many passes. */
#define PASSES_PER_POLLER 64
#define POLLER_NS	  (50 * SL_NS_PER_US)
/* Passes that only took what was expected, until one looks at everything. */
#define EXPECTED_IN_A_ROW 8

/* A caller asleep on its op. */
struct guest {
	struct sl_list link;
	struct slime_op *op;
};

SL_PER_THREAD struct slime_context *sl_in_pass;

/* ---- handing over ---- */

/* Wakes the context's thread, or in a manual context the sleeper on its descriptor. It stays PARKED
 * until it runs: the next holder may consume this wake-up, and then wakes it again when it leaves.
 */
static void wake_parked(struct sl_progress *p)
{
	struct slime_context *ctx = SL_CONTAINER_OF(p, struct slime_context, progress);
	uint32_t parked = SL_THREAD_PARKED;

	if (ctx->attr.manual) {
		sl_manual_tell(ctx, true);
		sl_poller_wake(&ctx->poller);
	} else if (atomic_compare_exchange_strong(&p->thread_state, &parked, SL_THREAD_WATCH)) {
		sl_futex_wake(&p->thread_state);
	}
}

void sl_token_wake_successor(struct sl_progress *p)
{
	if (atomic_load(&p->n_waiting)) {
		pthread_mutex_lock(&p->lock);
		if (!sl_list_empty(&p->sleepers)) {
			struct guest *g = SL_CONTAINER_OF(p->sleepers.next, struct guest, link);

			/* The word changes, otherwise a thread that is about to sleep on it would
			 * sleep. */
			if (atomic_fetch_and(&g->op->state, ~(uint32_t)SL_OP_WAITED) & SL_OP_WAITED)
				sl_futex_wake(&g->op->state);
		}
		pthread_mutex_unlock(&p->lock);
	}
	if (atomic_load_explicit(&p->thread_state, memory_order_relaxed) == SL_THREAD_PARKED)
		wake_parked(p);
}

void sl_token_await(struct sl_progress *p, struct slime_op *op, uint64_t deadline_ns)
{
	struct guest here = { .op = op };
	uint32_t state;

	pthread_mutex_lock(&p->lock);
	sl_list_append(&p->sleepers, &here.link);
	pthread_mutex_unlock(&p->lock);
	state = atomic_load(&op->state);
	while (state && !atomic_compare_exchange_weak(&op->state, &state, state | SL_OP_WAITED))
		;
	/* The holder looks at sleepers after it gave the token: look at the token after being one.
	 */
	if (state && atomic_load(&p->token))
		sl_futex_wait(&op->state, state | SL_OP_WAITED, deadline_ns);
	pthread_mutex_lock(&p->lock);
	sl_list_remove(&here.link);
	pthread_mutex_unlock(&p->lock);
}

/* Threads that fell asleep on an op just when it was finished quietly. */
static void wake_from_finished(struct sl_progress *p)
{
	struct sl_list *e;

	pthread_mutex_lock(&p->lock);
	/* A thread in the list waits for its op, so it is there; it may be pending again. */
	sl_list_for_each (e, &p->sleepers) {
		struct slime_op *op = SL_CONTAINER_OF(e, struct guest, link)->op;

		if (!(atomic_load_explicit(&op->state, memory_order_relaxed) & SL_OP_WAITED))
			sl_futex_wake(&op->state);
	}
	pthread_mutex_unlock(&p->lock);
}

void sl_progress_run_after_now(struct sl_progress *p)
{
	void (*fn)(void *arg) = p->after;
	void *arg = p->after_arg;

	p->after = NULL;
	p->after_arg = NULL;
	/* The ops are finished before the check; a sleeping thread counts itself first, then marks
	 * its op. */
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&p->n_waiting, memory_order_relaxed))
		wake_from_finished(p);
	fn(arg);
}

/* ---- arming ---- */

void sl_token_disarm_armed(struct slime_context *ctx)
{
	struct sl_progress *p = &ctx->progress;

	p->armed = false;
	atomic_store(&p->sleeping, 0);
	for (int i = 0; i < SLIME_TRANSPORT_MAX; i++) {
		if (ctx->transports[i])
			ctx->transports[i]->ops->disarm(ctx->transports[i]);
	}
}

void sl_token_arm(struct slime_context *ctx)
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

/* ---- looking ---- */

__attribute__((always_inline)) static inline unsigned poll_transports(struct slime_context *ctx)
{
	unsigned n = 0;

	for (int i = 0; i < SLIME_TRANSPORT_MAX; i++) {
		struct sl_transport *t = ctx->transports[i];

		if (t && !sl_transport_rests(t))
			n += t->ops->progress(t);
	}
	sl_progress_run_after(&ctx->progress);
	return n;
}

/* The poller, if its time has come, and what is not looked at in every pass. */
static unsigned poller_turn(struct slime_context *ctx)
{
	struct sl_progress *p = &ctx->progress;
	uint64_t now = sl_clock_ns();
	unsigned n;

	p->passes = 0;
	if (now - p->poller_ns < POLLER_NS)
		return 0;
	p->poller_ns = now;
	p->poll_all = true;
	n = poll_transports(ctx);
	p->poll_all = false;
	n += sl_poller_run(&ctx->poller, 0);
	sl_progress_run_after(p);
	return n + sl_completions_deliver(&ctx->completions, &ctx->progress.passes);
}

void sl_token_want_poller(struct sl_progress *p)
{
	p->passes = PASSES_PER_POLLER;
	p->poller_ns = 0;
}

/* Those that are there now: a task may put itself on the list again. */
static unsigned run_tasks(struct slime_context *ctx)
{
	unsigned max = sl_todo_count(&ctx->tasks);
	unsigned n = 0;

	while (n < max) {
		struct sl_todo_entry *e = sl_todo_take(&ctx->tasks);
		struct sl_task *task;

		if (!e)
			break;
		task = SL_CONTAINER_OF(e, struct sl_task, todo);
		task->run(task);
		n++;
	}
	return n;
}

static unsigned poll_everything(struct slime_context *ctx)
{
	unsigned n = poll_transports(ctx);

	ctx->progress.n_expected = 0;
	if (sl_todo_count(&ctx->tasks))
		n += run_tasks(ctx);
	return n;
}

static unsigned take_next(struct sl_progress *p)
{
	unsigned n;

	p->n_expected++;
	p->n_unmet = 0;
	p->slow_poll = false;
	n = p->next.take(p->next.arg);
	sl_progress_run_after(p);
	return n;
}

unsigned sl_token_pass(struct slime_context *ctx)
{
	struct sl_progress *p = &ctx->progress;
	unsigned n;

	sl_in_pass = ctx;
	if (sl_token_next_is_here(p) && p->n_expected < EXPECTED_IN_A_ROW && !p->armed)
		n = take_next(p);
	else
		n = poll_everything(ctx);
	n += sl_completions_deliver(&ctx->completions, &ctx->progress.passes);
	if (++p->passes >= PASSES_PER_POLLER)
		n += poller_turn(ctx);
	sl_in_pass = NULL;
	return n;
}

unsigned sl_token_poller_pass(struct slime_context *ctx)
{
	unsigned n;

	sl_in_pass = ctx;
	n = poller_turn(ctx);
	sl_in_pass = NULL;
	return n;
}

void sl_token_sleep(struct slime_context *ctx, uint64_t deadline_ns)
{
	sl_in_pass = ctx;
	sl_poller_run(&ctx->poller, deadline_ns);
	sl_progress_run_after(&ctx->progress);
	sl_completions_deliver(&ctx->completions, &ctx->progress.passes);
	sl_in_pass = NULL;
}
