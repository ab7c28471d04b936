/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that drive at the same time: each is an agent of its own, with all threads of a rung.
 * They measure each rung together, and their figures are summed. With groups each group of
 * processes has a device and CPUs near it, and a row of its own beside the sum.
 */
#ifndef BENCH_PAGE_CREW_H
#define BENCH_PAGE_CREW_H

#include "bench/page/groups.h"
#include "bench/page/page.h"

/* What a process of a crew is told by; both are -1 for one that drives alone. */
struct crew_seat {
	int in, out;
};

#define CREW_ALONE                  \
	{                           \
		.in = -1, .out = -1 \
	}

/* Wait until every process of the crew is here. -EPIPE: another one failed. */
int crew_meet(const struct crew_seat *seat);

/* Of one process: drive with these settings, and fill out. Returns the exit status. */
typedef int crew_fn(const struct settings *settings, const struct crew_seat *seat,
		    struct page_result *out);

/*
 * Before there are threads. Run n processes of each group (n_groups 0: one group without a device)
 * and sum up. What is wrong is said on standard error by the process that finds it; returns the
 * exit status.
 */
int crew_run(const struct settings *settings, const struct page_group *groups, size_t n_groups,
	     unsigned n, crew_fn *fn, struct page_result *out);

#endif
