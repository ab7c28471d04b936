/* SPDX-License-Identifier: Apache-2.0 */
#include "src/progress/progress_spin.h"

#include <sched.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "src/progress/context.h"
#include "src/progress/progress_token.h"

/*
 * A spinner whose CPU another thread may be waiting for, perhaps the very one that will answer,
 * yields: after a few microseconds of empty passes at most, and then every so many. When a yield of
 * a length within these bounds was followed by an event, the next comes after a quarter as many
 * passes: two ends on one CPU soon hand it to and fro. After a shorter one no other thread
 * ran, and after a longer one a thread with other work had the CPU: the next comes later.
 */
#define PASSES_BEFORE_YIELD 128
#define PASSES_PER_YIELD    16
/* The weight of a poll that was a system call, in passes that only read memory. */
#define PASSES_PER_CALL	    8
#define YIELD_HELPED_MIN_NS 1800
#define YIELD_HELPED_MAX_NS (200 * SL_NS_PER_US)
/*
 * A peer that has several messages on the way writes the next one while we look for it, and each
 * look takes the cache line from it. So after a pass of some events the next comes a little later,
 * and finds more of them; after one of many there is more to do than there is time. When the peer
 * says how many there are we wait for a part of them. A device's queue of completions is not
 * looked at that way.
 */
#define SOME_EVENTS	  2
#define MANY_EVENTS	  32
#define PAUSES_AFTER_SOME 8
#define PAUSES_PER_COMING 4
#define PAUSES_MAX	  64

/* How often a spinner polls the message that is expected next, between two passes; and after how
 * many passes in a row without it no message is expected. */
#define POLLS_OF_NEXT  16
#define NEXT_UNMET_MAX 64

/*
 * A thread whose waits are much longer than its spin takes a CPU that the other side may need, and
 * sleeps in the end: the next spin is halved, down to none. This counts only waits of more than 8
 * times the longest spin, so that neither a slow answer nor a wake-up at both ends stops the spin.
 */
#define WAITS_IN_VAIN  8  /* times the longest spin */
#define PATIENCE_PARTS 16 /* a spin that many times shorter than the longest is none */

void sl_spin_init(struct sl_progress *p, uint64_t spin_ns)
{
	p->spin_ns = spin_ns;
	p->patience_ns = spin_ns;
	p->asleep_ns = 0;
	p->yield_after = PASSES_BEFORE_YIELD;
}

/* Let others have the CPU; whether it may have been the one that answers. */
static bool yield_cpu(void)
{
	uint64_t took = sl_clock_ns();

	sched_yield();
	took = sl_clock_ns() - took;
	return took >= YIELD_HELPED_MIN_NS && took <= YIELD_HELPED_MAX_NS;
}

void sl_spin_learn(struct sl_progress *p, const struct sl_spin *s, unsigned n)
{
	if (!s->yielded)
		return;
	if (n && s->long_yield)
		p->yield_after /= 4;
	else if (p->yield_after < PASSES_BEFORE_YIELD)
		p->yield_after = 2 * p->yield_after + 1;
}

void sl_spin_woke(struct sl_progress *p)
{
	if (!p->asleep_ns)
		return;
	if (sl_clock_ns() - p->asleep_ns < WAITS_IN_VAIN * p->spin_ns)
		p->patience_ns = p->spin_ns;
	else
		p->patience_ns /= 2;
	if (p->patience_ns < p->spin_ns / PATIENCE_PARTS)
		p->patience_ns = 0;
	p->asleep_ns = 0;
}

/*
 * Polls until the expected event is there, or it is time for a pass that polls everything. Returns
 * how often it polled. There is no pause after a pass that polled a device: that pass took time
 * already, and a pause would delay each answer; an emulated CPU leaves its loop for a pause.
 */
static unsigned await_next(struct sl_progress *p)
{
	unsigned n = 0;

	if (!p->next.word && p->slow_poll)
		return 1;
	do
		sl_cpu_relax();
	while (++n < POLLS_OF_NEXT && p->next.word && !sl_token_next_is_here(p));
	if (n == POLLS_OF_NEXT && ++p->n_unmet >= NEXT_UNMET_MAX)
		p->next.word = NULL;
	return n;
}

/* Messages were handled, and others may be on their way. */
static void pause_after(struct sl_progress *p, unsigned n)
{
	bool some = n >= SOME_EVENTS && n < MANY_EVENTS && !p->slow_poll;
	uint32_t pauses = some ? PAUSES_AFTER_SOME : 0;

	if (p->n_coming)
		pauses = p->n_coming * PAUSES_PER_COMING;
	if (pauses > PAUSES_MAX)
		pauses = PAUSES_MAX;
	p->n_coming = 0;
	for (uint32_t i = 0; i < pauses; i++)
		sl_cpu_relax();
}

/* Let threads that want the CPU run first: sleeping and waking up for each of several events that
 * come one by one costs more than finding them together. */
static enum sl_spin_verdict sleep_at_once(struct sl_progress *p, struct sl_spin *s)
{
	if (!s->let_others) {
		s->let_others = true;
		sched_yield();
		return SL_SPIN_ON;
	}
	p->asleep_ns = sl_clock_ns();
	return SL_SPIN_SLEEP;
}

enum sl_spin_verdict sl_spin_next(struct slime_context *ctx, struct sl_spin *s, unsigned n,
				  uint64_t deadline_ns)
{
	struct sl_progress *p = &ctx->progress;
	uint64_t now;

	sl_spin_learn(p, s, n);
	if (n) {
		*s = sl_spin_begin(p);
		p->vain_calls = 0;
		pause_after(p, n);
		/* Passes that always find something look at the clock for the poller. */
		return p->poller_ns < deadline_ns ? SL_SPIN_ON : SL_SPIN_TIMEOUT;
	}
	s->empty += 1 + PASSES_PER_CALL * p->vain_calls;
	p->vain_calls = 0;
	s->yielded = s->empty > s->yield_at;
	if (s->yielded) {
		s->long_yield = yield_cpu();
		s->yield_at = s->empty + PASSES_PER_YIELD;
	} else if (ctx->attr.polling == SLIME_POLLING_EVENT) {
		sl_cpu_relax();
	} else {
		s->empty += await_next(p) / 2;
	}
	if (ctx->attr.polling == SLIME_POLLING_EVENT)
		return SL_SPIN_SLEEP;
	if (ctx->attr.polling == SLIME_POLLING_ADAPTIVE && !p->patience_ns)
		return sleep_at_once(p, s);
	if (s->empty < s->clock_at)
		return SL_SPIN_ON;

	s->clock_at = s->empty + SL_SPIN_PASSES_PER_CLOCK;
	now = sl_clock_ns();
	if (now >= deadline_ns)
		return SL_SPIN_TIMEOUT;
	if (ctx->attr.polling == SLIME_POLLING_BUSY)
		return SL_SPIN_ON;
	if (!s->begun_ns)
		s->begun_ns = now;
	if (now - s->begun_ns < p->patience_ns)
		return SL_SPIN_ON;
	p->asleep_ns = s->begun_ns;
	return SL_SPIN_SLEEP;
}
