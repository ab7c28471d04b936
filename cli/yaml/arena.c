/* SPDX-License-Identifier: Apache-2.0 */
#include <stdalign.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/yaml/arena.h"

/* One allocation each: the memory is small, and the sanitizers see every overrun. */
struct piece {
	struct piece *next;
	alignas(max_align_t) char bytes[];
};

struct cli_arena {
	struct piece *pieces;
};

struct cli_arena *cli_arena_create(void)
{
	return calloc(1, sizeof(struct cli_arena));
}

void cli_arena_destroy(struct cli_arena *arena)
{
	struct piece *p;

	if (!arena)
		return;
	while ((p = arena->pieces)) {
		arena->pieces = p->next;
		free(p);
	}
	free(arena);
}

void *cli_arena_alloc(struct cli_arena *arena, size_t n, size_t size)
{
	struct piece *p;

	if (size && n > (SIZE_MAX / 2) / size)
		return NULL;
	p = calloc(1, sizeof(*p) + n * size);
	if (!p)
		return NULL;
	p->next = arena->pieces;
	arena->pieces = p;
	return p->bytes;
}

char *cli_arena_strndup(struct cli_arena *arena, const char *text, size_t len)
{
	char *copy = cli_arena_alloc(arena, len + 1, 1);

	if (copy && len)
		memcpy(copy, text, len);
	return copy;
}

char *cli_arena_strdup(struct cli_arena *arena, const char *text)
{
	return cli_arena_strndup(arena, text, strlen(text));
}

char *cli_arena_printf(struct cli_arena *arena, const char *fmt, ...)
{
	va_list args;
	char *text;
	int n;

	va_start(args, fmt);
	n = vsnprintf(NULL, 0, fmt, args);
	va_end(args);
	if (n < 0)
		return NULL;
	text = cli_arena_alloc(arena, (size_t)n + 1, 1);
	if (!text)
		return NULL;
	va_start(args, fmt);
	vsnprintf(text, (size_t)n + 1, fmt, args);
	va_end(args);
	return text;
}
