/* SPDX-License-Identifier: Apache-2.0 */
/* Which slots are free for calls: small ones and large ones, taken and given back by any thread. */
#ifndef SL_MAILBOX_SLOTS_H
#define SL_MAILBOX_SLOTS_H

#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>

#include "src/transport/transport.h"

_Static_assert(SL_CALL_SLOTS_SMALL == 64, "one word has a bit for each small slot");

/* A small slot is free while its two bits are the same: the taker turns one, the giver the other,
 * so neither needs a locked instruction. */
struct sl_call_slots {
	atomic_flag gate; /* held by a thread that takes a small slot, or begins a call with one */
	uint64_t taken;	  /* under the gate */
	_Atomic uint64_t given; /* [token] */
	_Atomic uint64_t large; /* a bit for each that is free */
};

static inline void sl_call_slots_init(struct sl_call_slots *s)
{
	atomic_flag_clear(&s->gate);
	s->taken = 0;
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
	uint64_t is_free = ~(s->taken ^ atomic_load(&s->given));

	if (!is_free)
		return -1;
	s->taken ^= is_free & -is_free;
	return __builtin_ctzll(is_free);
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

static inline void sl_call_slots_give_large(struct sl_call_slots *s, unsigned slot)
{
	atomic_fetch_or(&s->large, UINT64_C(1) << (slot - SL_CALL_SLOTS_SMALL));
}

/* A slot that a call had. A waiting thread counts itself first, then looks for a slot; a thread
 * that gives one back reads the count after a fence, or a locked instruction and
 * sl_cpu_fence_after_lock(). [token] */
static inline void sl_call_slots_give(struct sl_call_slots *s, unsigned slot)
{
	uint64_t given = atomic_load_explicit(&s->given, memory_order_relaxed);

	if (slot < SL_CALL_SLOTS_SMALL)
		atomic_store_explicit(&s->given, given ^ UINT64_C(1) << slot, memory_order_release);
	else
		sl_call_slots_give_large(s, slot);
}

/* One that was taken and not used. Fully ordered. */
static inline void sl_call_slots_put_back(struct sl_call_slots *s, unsigned slot)
{
	if (slot >= SL_CALL_SLOTS_SMALL) {
		sl_call_slots_give_large(s, slot);
		return;
	}
	sl_call_slots_enter(s);
	s->taken ^= UINT64_C(1) << slot;
	sl_call_slots_leave(s);
	atomic_thread_fence(memory_order_seq_cst);
}

#endif
