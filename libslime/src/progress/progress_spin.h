/* SPDX-License-Identifier: Apache-2.0 */
/* How long a thread polls without an event: when it yields the CPU, and when it sleeps. */
#ifndef SL_PROGRESS_SPIN_H
#define SL_PROGRESS_SPIN_H

#include <stdbool.h>
#include <stdint.h>

#include "src/progress/progress.h"

/* Empty passes between two looks at the clock. */
#define SL_SPIN_PASSES_PER_CLOCK 64

/* How long a spinner goes on without an event. */
struct sl_spin {
	uint64_t empty; /* passes, weighed by what they cost; with polling busy there is no end */
	uint64_t yield_at; /* when there are more */
	uint64_t clock_at; /* same */
	bool yielded;	   /* before the pass */
	bool long_yield;   /* and another thread ran */
	bool let_others;   /* it yielded once, and would sleep now */
	uint64_t begun_ns; /* 0: not known yet */
};

enum sl_spin_verdict { SL_SPIN_ON, SL_SPIN_SLEEP, SL_SPIN_TIMEOUT };

static inline struct sl_spin sl_spin_begin(const struct sl_progress *p)
{
	return (struct sl_spin){ .yield_at = p->yield_after, .clock_at = SL_SPIN_PASSES_PER_CLOCK };
}

/* Before the first spinner of a context. */
void sl_spin_init(struct sl_progress *p, uint64_t spin_ns);

/* After a pass that handled n events. [token] */
enum sl_spin_verdict sl_spin_next(struct slime_context *ctx, struct sl_spin *s, unsigned n,
				  uint64_t deadline_ns);

/* The thread slept as it was told to, and is awake again. [token] */
void sl_spin_woke(struct sl_progress *p);

/* The spinner leaves after a pass of n events: if it had yielded before, whether that helped.
 * [token] */
void sl_spin_learn(struct sl_progress *p, const struct sl_spin *s, unsigned n);

#endif
