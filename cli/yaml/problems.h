/* SPDX-License-Identifier: Apache-2.0 */
/* The first errors of a configuration, in the order of the file. */
#ifndef CLI_PROBLEMS_H
#define CLI_PROBLEMS_H

#include <stdarg.h>
#include <stddef.h>

#include "cli/yaml/tree.h"

#define CLI_PROBLEMS_MAX 20

struct cli_problem {
	struct cli_place place;
	char *text;
};

struct cli_problems {
	const char *program; /* stands before what is not of the file; NULL: nothing does */
	const char *file;    /* what errors call it; NULL while there is none */
	struct cli_problem list[CLI_PROBLEMS_MAX];
	size_t n;
	size_t n_more; /* beyond the list */
	struct cli_arena *arena;
};

/* "PLACE: PATH: ..."; path may be NULL. Returns -EINVAL, or -ENOMEM. */
int cli_problems_add(struct cli_problems *p, struct cli_place place, const char *path,
		     const char *fmt, ...) __attribute__((format(printf, 4, 5)));
int cli_problems_vadd(struct cli_problems *p, struct cli_place place, const char *path,
		      const char *fmt, va_list args) __attribute__((format(printf, 4, 0)));

#endif
