/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CLOCK_MONOTONIC by the processor's counter, as perftest takes its times: where the kernel's clock
 * is a system call, as in some guests, looking at it is a part of a latency that can be seen. Where
 * a program cannot read the counter it is that clock itself.
 */
#ifndef ROUNDS_TICKS_H
#define ROUNDS_TICKS_H

#include <stdint.h>

#include "base/clock.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

/* What ticks_start() found. */
struct ticks {
	uint64_t begin;	   /* the counter */
	uint64_t begin_ns; /* and the clock, then */
	double ns;	   /* of a tick */
};

extern struct ticks ticks;

/* Set the counter against CLOCK_MONOTONIC: 10 ms, once for a process, before the first look. */
void ticks_start(void);

/* 0; -ERANGE, and a line on standard error: the counter did not go as fast as the clock since, to a
 * hundredth. What was timed by it says nothing. */
int ticks_check(void);

static inline uint64_t ticks_count(void)
{
#if defined(__x86_64__)
	return __rdtsc();
#elif defined(__aarch64__)
	uint64_t count;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(count));
	return count;
#else
	return sl_clock_ns();
#endif
}

/* As sl_clock_ns(), within a thousandth of the time since ticks_start(), where the counter is a
 * clock: ticks_check(). */
static inline uint64_t ticks_ns(void)
{
	return ticks.begin_ns + (uint64_t)((double)(ticks_count() - ticks.begin) * ticks.ns);
}

#endif
