/* SPDX-License-Identifier: Apache-2.0 */
/* Monotonic time. Wall time is never used to measure or to wait. */
#ifndef SL_BASE_CLOCK_H
#define SL_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define SL_NS_PER_US UINT64_C(1000)
#define SL_NS_PER_MS UINT64_C(1000000)
#define SL_NS_PER_S  UINT64_C(1000000000)

/* A deadline that never comes. */
#define SL_NEVER UINT64_MAX

static inline uint64_t sl_clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * SL_NS_PER_S + (uint64_t)ts.tv_nsec;
}

/* The same, behind by a tick of the kernel, SL_COARSE_NS, at most: a tenth of the price. */
#define SL_COARSE_NS (10 * SL_NS_PER_MS)

static inline uint64_t sl_clock_coarse_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
	return (uint64_t)ts.tv_sec * SL_NS_PER_S + (uint64_t)ts.tv_nsec;
}

static inline uint64_t sl_clock_ms(void)
{
	return sl_clock_ns() / SL_NS_PER_MS;
}

static inline uint64_t sl_earlier(uint64_t a_ns, uint64_t b_ns)
{
	return a_ns < b_ns ? a_ns : b_ns;
}

/* The moment wait_ns from now. One that is seconds away may be late by SL_COARSE_NS. */
static inline uint64_t sl_moment_ns(uint64_t wait_ns)
{
	if (wait_ns < SL_NS_PER_S)
		return sl_clock_ns() + wait_ns;
	return sl_clock_coarse_ns() + SL_COARSE_NS + wait_ns;
}

/* Decades: what is longer never comes, and nanoseconds could not count all of it. */
#define SL_TIMEOUT_MAX_MS (INT64_C(1) << 40)

/* The moment timeout_ms from now; a negative timeout is no deadline. */
static inline uint64_t sl_deadline_ns(int64_t timeout_ms)
{
	if (timeout_ms < 0 || timeout_ms > SL_TIMEOUT_MAX_MS)
		return SL_NEVER;
	return sl_moment_ns((uint64_t)timeout_ms * SL_NS_PER_MS);
}

#endif
