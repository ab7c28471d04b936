/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/rounds/ticks.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

#define SETTING_NS (10 * SL_NS_PER_MS)
#define LOOKS	   8

struct ticks ticks;

struct look {
	uint64_t count;
	uint64_t clock_ns;
};

/* At both at once: of some looks the one that was interrupted the least. */
static struct look look_at_both(void)
{
	struct look best = { 0 };
	uint64_t shortest = UINT64_MAX;

	for (int i = 0; i < LOOKS; i++) {
		uint64_t before = ticks_count();
		uint64_t clock_ns = sl_clock_ns();
		uint64_t took = ticks_count() - before;

		if (took >= shortest)
			continue;
		shortest = took;
		best = (struct look){ .count = before + took / 2, .clock_ns = clock_ns };
	}
	return best;
}

void ticks_start(void)
{
	const struct timespec setting = { .tv_nsec = SETTING_NS };
	struct look begin, end;

	if (ticks.ns > 0)
		return;
	begin = look_at_both();
	clock_nanosleep(CLOCK_MONOTONIC, 0, &setting, NULL);
	end = look_at_both();
	ticks.begin = begin.count;
	ticks.begin_ns = begin.clock_ns;
	ticks.ns = (double)(end.clock_ns - begin.clock_ns) / (double)(end.count - begin.count);
}

int ticks_check(void)
{
	struct look now = look_at_both();
	double by_clock = (double)(now.clock_ns - ticks.begin_ns);
	double by_count = (double)(now.count - ticks.begin) * ticks.ns;

	if (by_count > by_clock * 0.99 && by_count < by_clock * 1.01)
		return 0;
	fprintf(stderr,
		"the processor's counter is no clock here: %.0f us by it, %.0f by the kernel's\n",
		by_count / 1e3, by_clock / 1e3);
	return -ERANGE;
}
