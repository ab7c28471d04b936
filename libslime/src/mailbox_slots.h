/* SPDX-License-Identifier: Apache-2.0 */
/* Which slots are free for calls: small ones and large ones, taken and given back by any thread. */
#ifndef SL_MAILBOX_SLOTS_H
#define SL_MAILBOX_SLOTS_H

#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>

#include "src/transport/transport.h"

_Static_assert(SL_CALL_SLOTS_SMALL == 64, "one word has a bit for each small slot");

struct sl_call_slots {
	atomic_flag gate;	/* held by who takes a small slot, or begins a call with one */
	uint64_t small;		/* a bit for each that is free; under the gate */
	_Atomic uint64_t given; /* small ones that were given back since */
	_Atomic uint64_t large;
};

static inline void sl_call_slots_init(struct sl_call_slots *s)
{
	atomic_flag_clear(&s->gate);
	s->small = UINT64_MAX;
	atomic_init(&s->given, 0);
	atomic_init(&s->large, (UINT64_C(1) << SL_CALL_SLOTS_LARGE) - 1);
}

static inline void sl_call_slots_enter(struct sl_call_slots *s)
{
	while (atomic_flag_test_and_set_explicit(&s->gate, memory_order_acquire))
		sched_yield();
}

static inline void sl_call_slots_leave(struct sl_call_slots *s)
{
	atomic_flag_clear_explicit(&s->gate, memory_order_release);
}

/* The lowest one, which was used last if calls are few; -1: all are taken. Inside the gate. */
static inline int sl_call_slots_take_small(struct sl_call_slots *s)
{
	int slot;

	if (atomic_load(&s->given))
		s->small |= atomic_exchange(&s->given, 0);
	if (!s->small)
		return -1;
	slot = __builtin_ctzll(s->small);
	s->small &= s->small - 1;
	return slot;
}

static inline int sl_call_slots_take_large(struct sl_call_slots *s)
{
	uint64_t m = atomic_load_explicit(&s->large, memory_order_relaxed);

	while (m) {
		if (atomic_compare_exchange_weak_explicit(
			    &s->large, &m, m & (m - 1), memory_order_acquire, memory_order_relaxed))
			return __builtin_ctzll(m) + SL_CALL_SLOTS_SMALL;
	}
	return -1;
}

/* Any slot, better a small one; -1: all are taken. */
static inline int sl_call_slots_take(struct sl_call_slots *s)
{
	int slot;

	sl_call_slots_enter(s);
	slot = sl_call_slots_take_small(s);
	sl_call_slots_leave(s);
	return slot < 0 ? sl_call_slots_take_large(s) : slot;
}

/* Fully ordered: who waits for a slot counts himself, then looks for one; who gives one back looks
 * at the count afterwards. */
static inline void sl_call_slots_give(struct sl_call_slots *s, unsigned slot)
{
	if (slot < SL_CALL_SLOTS_SMALL)
		atomic_fetch_or(&s->given, UINT64_C(1) << slot);
	else
		atomic_fetch_or(&s->large, UINT64_C(1) << (slot - SL_CALL_SLOTS_SMALL));
}

#endif
