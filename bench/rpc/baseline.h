/* SPDX-License-Identifier: Apache-2.0 */
/* What users would pick instead: the same calls by a program baseline-NAME, into a file of the
 * results. */
#ifndef BENCH_BASELINE_H
#define BENCH_BASELINE_H

#include "bench/rpc/results.h"
#include "bench/settings.h"
#include "cli/output/progress.h"

enum baseline_outcome {
	BASELINE_MEASURED,
	BASELINE_ABSENT, /* it is not installed */
	BASELINE_FAILED,
	BASELINE_INTERRUPTED,
};

/* Calls of each size before those that count, ours and theirs. */
#define BASELINE_WARMUP 20

struct baseline_attr {
	const struct rpc_settings *rpc; /* sizes, iterations, where the results and programs are */
	int signals;			/* of cli_signals_open() */
	struct cli_progress *progress;	/* cleared before anything is said */
};

/* How many calls of a size count: what was asked for, else 50 MB worth, from 50 to 500. */
uint64_t baseline_iterations(const struct rpc_settings *rpc, uint64_t size);

/* Measure it. What is not measured is said in one line on standard error; *caught is the signal
 * that interrupted it. */
enum baseline_outcome baseline_run(const struct baseline_attr *attr, enum system system,
				   int *caught);

#endif
