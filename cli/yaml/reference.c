/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "cli/yaml/reference.h"

#define PATH_ROOM 256

/* A bar would end the cell. */
static void print_cell(const char *text, FILE *to)
{
	for (; *text; text++) {
		if (*text == '|')
			putc('\\', to);
		putc(*text, to);
	}
}

static void print_default(const struct cli_setting *s, FILE *to)
{
	if (s->required)
		fputs("required", to);
	else if (s->def && *s->def)
		fprintf(to, "`%s`", s->def);
}

static void print_entry(const struct cli_setting *s, const char *path, FILE *to)
{
	char expected[512];

	cli_setting_expected(s, expected, sizeof(expected));
	fprintf(to, "| `%s` | ", path);
	print_cell(expected, to);
	fputs(" | ", to);
	print_default(s, to);
	fputs(" | ", to);
	print_cell(s->help ? s->help : "", to);
	fputs(" |\n", to);
}

static void print_table(const struct cli_setting *table, const char *prefix, FILE *to)
{
	for (; table->name; table++) {
		char path[PATH_ROOM];

		snprintf(path, sizeof(path), "%s%s%s", prefix, *prefix ? "." : "", table->name);
		print_entry(table, path, to);
		if (!table->table)
			continue;
		if (table->type == CLI_TYPE_LIST)
			strncat(path, "[]", sizeof(path) - strlen(path) - 1);
		print_table(table->table, path, to);
	}
}

void cli_reference_print(const struct cli_setting *table, FILE *to)
{
	fputs("| Key | Value | Default | Meaning |\n|---|---|---|---|\n", to);
	print_table(table, "", to);
}
