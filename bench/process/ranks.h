/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that drive at the same time: each is an agent of its own, with all threads of a rung.
 * They measure each rung together, and their figures are summed. With groups each group of
 * processes has a device and CPUs near it, and a row of its own beside the sum.
 */
#ifndef BENCH_RANKS_H
#define BENCH_RANKS_H

#include "bench/host/nic_groups.h"
#include "bench/page/page.h"

/* The pipes of a process to the one that started it; both are -1 for one that drives alone. */
struct rank {
	int in, out;
};

#define RANK_ALONE                  \
	{                           \
		.in = -1, .out = -1 \
	}

/* Wait until every process is here. -EPIPE: another one failed. */
int rank_barrier(const struct rank *seat);

/* Of one process: drive with these settings, and fill out. Returns the exit status. */
typedef int ranks_fn(const struct settings *settings, const struct rank *seat,
		     struct page_result *out);

/*
 * Before there are threads. Run n processes of each group (n_groups 0: one group without a device)
 * and sum up. What is wrong is said on standard error by the process that finds it; returns the
 * exit status.
 */
int ranks_run(const struct settings *settings, const struct nic_group *groups, size_t n_groups,
	      unsigned n, ranks_fn *fn, struct page_result *out);

#endif
