/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lock of this process that is nearly always free: taking it and giving it back are an atomic
 * operation each where they stand, without a call. A thread that finds it taken sleeps. Not
 * recursive; threads have no turns. The word's states are those of mutex2 in Ulrich Drepper's
 * "Futexes Are Tricky".
 */
#ifndef SL_LOCK_H
#define SL_LOCK_H

#include <stdatomic.h>
#include <stdint.h>

struct sl_lock {
	_Atomic uint32_t word; /* enum sl_lock_state; zero: it is free */
};

enum sl_lock_state {
	SL_LOCK_FREE,
	SL_LOCK_TAKEN,
	SL_LOCK_AWAITED, /* taken, and a thread may sleep on it */
};

/* lock.c */
void sl_lock_wait(struct sl_lock *l);
void sl_lock_wake(struct sl_lock *l);

static inline void sl_lock(struct sl_lock *l)
{
	uint32_t state = SL_LOCK_FREE;

	if (__builtin_expect(!atomic_compare_exchange_strong_explicit(
				     &l->word, &state, SL_LOCK_TAKEN, memory_order_acquire,
				     memory_order_relaxed),
			     0))
		sl_lock_wait(l);
}

static inline void sl_unlock(struct sl_lock *l)
{
	if (__builtin_expect(atomic_exchange_explicit(&l->word, SL_LOCK_FREE,
						      memory_order_release) == SL_LOCK_AWAITED,
			     0))
		sl_lock_wake(l);
}

#endif
