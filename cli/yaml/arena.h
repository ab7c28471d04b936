/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is given back all at once: what was read from a command line or a file. */
#ifndef CLI_ARENA_H
#define CLI_ARENA_H

#include <stddef.h>

struct cli_arena;

struct cli_arena *cli_arena_create(void);
void cli_arena_destroy(struct cli_arena *arena);

/* Zeroed, aligned for any type; NULL when there is no memory. n * size must not overflow. */
void *cli_arena_alloc(struct cli_arena *arena, size_t n, size_t size);
char *cli_arena_strndup(struct cli_arena *arena, const char *text, size_t len);
char *cli_arena_strdup(struct cli_arena *arena, const char *text);
char *cli_arena_printf(struct cli_arena *arena, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

#endif
