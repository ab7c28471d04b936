/* SPDX-License-Identifier: Apache-2.0 */
#include "src/core/lock.h"

#include "src/core/futex.h"

void sl_lock_wait(struct sl_lock *l)
{
	while (atomic_exchange_explicit(&l->word, SL_LOCK_AWAITED, memory_order_acquire) !=
	       SL_LOCK_FREE)
		sl_futex_wait(&l->word, SL_LOCK_AWAITED, SL_NEVER);
}

void sl_lock_wake(struct sl_lock *l)
{
	sl_futex_wake_some(&l->word, 1);
}
