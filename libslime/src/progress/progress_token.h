/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The token of a context's progress, and what its holder does with it: look at everything, arm,
 * sleep, hand over.
 */
#ifndef SL_PROGRESS_TOKEN_H
#define SL_PROGRESS_TOKEN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/cpu.h"
#include "src/progress/context.h"

/* The context whose token this thread holds while it runs its pass: callbacks happen only in
 * there. */
extern SL_PER_THREAD struct slime_context *sl_in_pass;

static inline bool sl_token_try(struct sl_progress *p)
{
	uint32_t is_free = 0;

	return atomic_load_explicit(&p->token, memory_order_relaxed) == 0 &&
	       atomic_compare_exchange_strong_explicit(&p->token, &is_free, 1, memory_order_acquire,
						       memory_order_relaxed);
}

/* Hand over: to a caller that sleeps, else to the thread if it relies on that. */
void sl_token_wake_successor(struct sl_progress *p);

static inline void sl_token_give(struct slime_context *ctx)
{
	struct sl_progress *p = &ctx->progress;

	/* Fully ordered: a thread that wants the token counts itself, then checks the token; we
	 * do both in the opposite order. */
	atomic_store(&p->token, 0);
	if (atomic_load(&p->n_waiting) ||
	    atomic_load_explicit(&p->thread_state, memory_order_relaxed) == SL_THREAD_PARKED)
		sl_token_wake_successor(p);
}

/* Another thread holds the token: sleep until it leaves, op is finished, or the time is over. May
 * return early. The caller is counted in n_waiting. */
void sl_token_await(struct sl_progress *p, struct slime_op *op, uint64_t deadline_ns);

/* Whether there is work that no descriptor announces. */
static inline bool sl_token_has_quiet_work(struct slime_context *ctx)
{
	return sl_completions_waiting(&ctx->completions) || atomic_load(&ctx->tasks.n);
}

/* All from here on: [token]. */

/* From here on every event wakes the poller. The caller polls once more before it sleeps. */
void sl_token_arm(struct slime_context *ctx);
void sl_token_disarm_armed(struct slime_context *ctx);

static inline void sl_token_disarm(struct slime_context *ctx)
{
	if (ctx->progress.armed)
		sl_token_disarm_armed(ctx);
}

/* Whether what a transport expects has happened. */
static inline bool sl_token_next_is_here(const struct sl_progress *p)
{
	return p->next.word &&
	       atomic_load_explicit(p->next.word, memory_order_relaxed) == p->next.value;
}

/* One pass: take the expected message, if it is there, or poll everything, which happens every
 * few passes in any case. Returns the number of events handled. */
unsigned sl_token_pass(struct slime_context *ctx);

/* Poll the poller too, if its time has come. After want_poller the next sl_token_pass() polls it in
 * any case. */
unsigned sl_token_poller_pass(struct slime_context *ctx);
void sl_token_want_poller(struct sl_progress *p);

/* Sleep on the poller. Everything is armed, and was polled once more. */
void sl_token_sleep(struct slime_context *ctx, uint64_t deadline_ns);

#endif
