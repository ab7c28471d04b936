/* SPDX-License-Identifier: Apache-2.0 */
/* Results of calls between agents, printed. */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include <stddef.h>
#include <stdio.h>

#include "bench/output/document.h"
#include "bench/service/job.h"

struct report_row {
	struct bench_job job;
	struct bench_result result;
};

struct report {
	const char *from; /* the agent that initiated */
	const char *peer;
	const char *flags; /* the command line as given */
	const struct report_row *rows;
	size_t n_rows;
};

/* As document_print(). REPORT_ROWS are those of a file of results (bench/rpc/sweep.h), of calls
 * only. */
int report_print(const struct report *r, enum report_format format, FILE *to);

#endif
