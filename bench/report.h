/* SPDX-License-Identifier: Apache-2.0 */
/* What is printed of results: a table, CSV, or JSON, each headed by what was measured on. */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include <stddef.h>
#include <stdio.h>

#include "bench/service/job.h"

enum report_format {
	REPORT_TABLE,
	REPORT_CSV,
	REPORT_JSON,
};

struct report_row {
	struct bench_job job;
	struct bench_result result;
};

struct report {
	enum bench_kind kind;
	const char *from; /* the agent that initiated */
	const char *peer;
	const char *flags; /* the command line as given */
	const struct report_row *rows;
	size_t n_rows;
};

/* Print it. -EIO, -ENOMEM. */
int report_print(const struct report *r, enum report_format format, FILE *to);

#endif
