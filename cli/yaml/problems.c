/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "cli/yaml/arena.h"
#include "cli/yaml/problems.h"

#define TEXT_MAX 768

/* Errors of the file come before those of values set over it, which stay in their order. */
static bool before(const struct cli_place *a, const struct cli_place *b)
{
	if (a->origin || b->origin)
		return !a->origin && b->origin;
	return a->line != b->line ? a->line < b->line : a->column < b->column;
}

static char *line_of(struct cli_problems *p, struct cli_place place, const char *path,
		     const char *text)
{
	const char *sep = path && *path ? ": " : "";
	const char *program = p->program ? p->program : "";
	const char *after = p->program ? ": " : "";

	if (!path)
		path = "";
	if (place.origin)
		return cli_arena_printf(p->arena, "%s%s%s: %s%s%s", program, after, place.origin,
					path, sep, text);
	if (!p->file)
		return cli_arena_printf(p->arena, "%s%sconfiguration: %s%s%s", program, after, path,
					sep, text);
	if (!place.line)
		return cli_arena_printf(p->arena, "%s: %s%s%s", p->file, path, sep, text);
	return cli_arena_printf(p->arena, "%s:%u:%u: %s%s%s", p->file, place.line, place.column,
				path, sep, text);
}

int cli_problems_vadd(struct cli_problems *p, struct cli_place place, const char *path,
		      const char *fmt, va_list args)
{
	char text[TEXT_MAX];
	char *line;
	size_t i;

	if (p->n == CLI_PROBLEMS_MAX) {
		p->n_more++;
		return -EINVAL;
	}
	vsnprintf(text, sizeof(text), fmt, args);
	line = line_of(p, place, path, text);
	if (!line)
		return -ENOMEM;
	sl_utf8_make_printable(line);
	for (i = p->n; i && before(&place, &p->list[i - 1].place); i--)
		p->list[i] = p->list[i - 1];
	p->list[i] = (struct cli_problem){ .place = place, .text = line };
	p->n++;
	return -EINVAL;
}

int cli_problems_add(struct cli_problems *p, struct cli_place place, const char *path,
		     const char *fmt, ...)
{
	va_list args;
	int ret;

	va_start(args, fmt);
	ret = cli_problems_vadd(p, place, path, fmt, args);
	va_end(args);
	return ret;
}
