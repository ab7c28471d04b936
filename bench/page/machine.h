/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Readers of this host: one process, several, or so many for each RDMA device, on the CPUs of its
 * NUMA node. Several measure each rung together, and their figures are summed: a row for each
 * device, and one of all.
 */
#ifndef BENCH_PAGE_MACHINE_H
#define BENCH_PAGE_MACHINE_H

#include "bench/page/page.h"

/* Before there are threads. What is wrong is said on standard error; returns the exit status. */
int machine_drive(const struct settings *settings, struct page_result *out);

#endif
