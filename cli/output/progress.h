/* SPDX-License-Identifier: Apache-2.0 */
/* One line that says how far it is, rewritten in place: on a terminal only, nothing in a pipe. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct cli_progress {
	FILE *to;
	bool shown;
	bool terminal;
	uint64_t next_ns;
};

void cli_progress_init(struct cli_progress *p, FILE *to);

/* At most ten times a second; cut at the terminal's width. */
void cli_progress_say(struct cli_progress *p, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Before other output and at the end: the line goes away. */
void cli_progress_clear(struct cli_progress *p);

#endif
