/* SPDX-License-Identifier: Apache-2.0 */
/* Results under their head, which says where and by what they were measured: as a table, as CSV or
 * as a JSON document. */
#ifndef BENCH_DOCUMENT_H
#define BENCH_DOCUMENT_H

#include <jansson.h>
#include <stdio.h>

#include "cli/output/table.h"

enum report_format {
	REPORT_TABLE,
	REPORT_CSV,
	REPORT_JSON,
	REPORT_HEAD, /* alone */
	REPORT_ROWS, /* CSV without its head */
};

/* A result of some kind, in rows. What returns JSON returns NULL without memory. */
struct document {
	const char *bench;   /* the kind */
	const char *flags;   /* the command line */
	const char *between; /* who was measured */
	const char *rails;   /* what each rail of their link did; NULL: it has none */
	const void *result;
	size_t n;
	const struct cli_column *columns;
	size_t n_columns;
	void (*cells)(struct cli_table *t, const void *result, size_t i);
	json_t *(*json)(const void *result, size_t i);
	int (*add_run)(const void *result,
		       json_t *run); /* who was measured, and how: not 0: no memory */
};

/* Print them. -ENOMEM, what slime_topo_get() says, what write(2) says. */
int document_print(const struct document *rows, enum report_format format, FILE *to);

#endif
