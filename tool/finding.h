/* SPDX-License-Identifier: Apache-2.0 */
/* The findings of `slime doctor`: one line each, with the problem and its remedy. */
#ifndef TOOL_FINDING_H
#define TOOL_FINDING_H

#include <stdbool.h>
#include <stdio.h>

enum finding_level {
	FINDING_OK,
	FINDING_NOTE, /* slower than it could be, or of no use to some */
	FINDING_BAD,  /* something will not work */
};

/* The report of one run. */
struct report {
	FILE *to;
	bool quiet; /* lines that say ok are left out */
	unsigned n_of[3];
};

/* One line: the level, what was looked at, and the text. Control characters in it become '?'. */
void report_add(struct report *r, enum finding_level level, const char *what, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

#endif
