/* SPDX-License-Identifier: Apache-2.0 */
/* The figures of several systems side by side, and how often theirs go into ours. */
#ifndef BENCH_COMPARISON_H
#define BENCH_COMPARISON_H

#include <stdbool.h>
#include <stdio.h>

#include "bench/rpc/results.h"

/*
 * Print it: for people a table each of average, median, 99th percentile and bandwidth, with columns
 * S/Ray and the like: theirs by ours, for bandwidth ours by theirs, so that we win above 1; for
 * machines all of it in one table. Systems without figures are left out. -ENOMEM, -EIO.
 */
int comparison_print(const struct results *r, bool csv, FILE *to);

#endif
