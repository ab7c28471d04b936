/* SPDX-License-Identifier: Apache-2.0 */
/* Sleeping on a word of this process. Spurious returns are normal: callers look at the word again.
 */
#ifndef SL_FUTEX_H
#define SL_FUTEX_H

#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

/* Sleep while *word is value, at most until deadline_ns (monotonic; SL_NEVER). */
static inline void sl_futex_wait(_Atomic uint32_t *word, uint32_t value, uint64_t deadline_ns)
{
	struct timespec ts = {
		.tv_sec = (time_t)(deadline_ns / SL_NS_PER_S),
		.tv_nsec = (long)(deadline_ns % SL_NS_PER_S),
	};

	syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, value,
		deadline_ns == SL_NEVER ? NULL : &ts, NULL, FUTEX_BITSET_MATCH_ANY);
}

/* Of those that sleep. The word is only a name here: it may be gone. */
static inline void sl_futex_wake_some(_Atomic uint32_t *word, int n)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

static inline void sl_futex_wake(_Atomic uint32_t *word)
{
	sl_futex_wake_some(word, INT32_MAX);
}

#endif
