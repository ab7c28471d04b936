/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "cli/output/table.h"
#include "cli/output/utf8.h"

struct cli_table {
	const struct cli_column *columns;
	size_t n_columns;
	char **cells;
	size_t n_cells, room;
	bool failed; /* a cell is missing for want of memory */
};

int cli_table_create(struct cli_table **out, const struct cli_column *columns, size_t n_columns)
{
	struct cli_table *t = calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	t->columns = columns;
	t->n_columns = n_columns;
	*out = t;
	return 0;
}

void cli_table_destroy(struct cli_table *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->n_cells; i++)
		free(t->cells[i]);
	free(t->cells);
	free(t);
}

static bool grow(struct cli_table *t)
{
	size_t room = t->room ? 2 * t->room : 64;
	char **cells;

	if (t->n_cells < t->room)
		return true;
	cells = reallocarray(t->cells, room, sizeof(*cells));
	if (!cells)
		return false;
	t->cells = cells;
	t->room = room;
	return true;
}

int cli_table_cell(struct cli_table *t, const char *fmt, ...)
{
	va_list args;
	char *text;
	int n = -1;

	if (!t->failed && grow(t)) {
		va_start(args, fmt);
		n = vasprintf(&text, fmt, args);
		va_end(args);
	}
	if (n < 0) {
		t->failed = true;
		return -ENOMEM;
	}
	sl_utf8_make_printable(text);
	t->cells[t->n_cells++] = text;
	return 0;
}

size_t cli_table_n_rows(const struct cli_table *t)
{
	return (t->n_cells + t->n_columns - 1) / t->n_columns;
}

static const char *cell(const struct cli_table *t, size_t row, size_t column)
{
	size_t i = row * t->n_columns + column;

	return i < t->n_cells ? t->cells[i] : "";
}

enum cli_table_style cli_table_style_of_locale(void)
{
	static const char *const names[] = { "LC_ALL", "LC_CTYPE", "LANG" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *locale = getenv(names[i]);

		if (locale && *locale)
			return strcasestr(locale, "UTF-8") || strcasestr(locale, "UTF8")
				       ? CLI_TABLE_UTF8
				       : CLI_TABLE_ASCII;
	}
	return CLI_TABLE_ASCII;
}

static size_t width_of(const char *text)
{
	size_t n = 0;

	while (*text) {
		text += cli_utf8_len(text);
		n++;
	}
	return n;
}

static size_t width_of_column(const struct cli_table *t, size_t column)
{
	size_t most = width_of(t->columns[column].title);

	for (size_t row = 0; row < cli_table_n_rows(t); row++) {
		size_t width = width_of(cell(t, row, column));

		most = width > most ? width : most;
	}
	return most;
}

static void put(const char *text, size_t times, FILE *to)
{
	while (times--)
		fputs(text, to);
}

/* The last column is not filled: no line ends in blanks. */
static void print_cell(const char *text, size_t width, bool right, bool last, FILE *to)
{
	size_t gap = width - width_of(text);

	put(" ", right ? gap : 0, to);
	fputs(text, to);
	if (last)
		putc('\n', to);
	else
		put(" ", (right ? 0 : gap) + 2, to);
}

/* The columns of the aligned table and their widths. */
struct layout {
	size_t *column, *width;
	size_t n;
};

static void print_row(const struct cli_table *t, const struct layout *l, size_t row, FILE *to)
{
	for (size_t i = 0; i < l->n; i++)
		print_cell(cell(t, row, l->column[i]), l->width[i], t->columns[l->column[i]].right,
			   i + 1 == l->n, to);
}

static void print_head(const struct cli_table *t, const struct layout *l,
		       enum cli_table_style style, FILE *to)
{
	for (size_t i = 0; i < l->n; i++) {
		const struct cli_column *c = &t->columns[l->column[i]];

		print_cell(c->title, l->width[i], c->right, i + 1 == l->n, to);
	}
	for (size_t i = 0; i < l->n; i++) {
		put(style == CLI_TABLE_UTF8 ? "\u2500" : "-", l->width[i], to);
		fputs(i + 1 == l->n ? "\n" : "  ", to);
	}
}

static int finish(FILE *to)
{
	if (fflush(to))
		return -errno;
	return ferror(to) ? -EIO : 0;
}

int cli_table_print(const struct cli_table *t, enum cli_table_style style, FILE *to)
{
	struct layout l = { 0 };

	if (t->failed)
		return -ENOMEM;
	l.column = calloc(2 * t->n_columns, sizeof(*l.column));
	if (!l.column)
		return -ENOMEM;
	l.width = l.column + t->n_columns;
	for (size_t i = 0; i < t->n_columns; i++) {
		if (!t->columns[i].title)
			continue;
		l.column[l.n] = i;
		l.width[l.n++] = width_of_column(t, i);
	}
	print_head(t, &l, style, to);
	for (size_t row = 0; row < cli_table_n_rows(t); row++)
		print_row(t, &l, row, to);
	free(l.column);
	return finish(to);
}

static void print_csv_cell(const char *text, bool first, FILE *to)
{
	if (!first)
		putc(',', to);
	if (!strpbrk(text, ",\"\n")) {
		fputs(text, to);
		return;
	}
	putc('"', to);
	for (; *text; text++) {
		if (*text == '"')
			putc('"', to);
		putc(*text, to);
	}
	putc('"', to);
}

/* row is -1 for the headings. */
static void print_csv_row(const struct cli_table *t, ssize_t row, FILE *to)
{
	bool first = true;

	for (size_t i = 0; i < t->n_columns; i++) {
		const char *key = t->columns[i].key;

		if (!key)
			continue;
		print_csv_cell(row < 0 ? key : cell(t, (size_t)row, i), first, to);
		first = false;
	}
	putc('\n', to);
}

int cli_table_print_csv(const struct cli_table *t, FILE *to)
{
	if (t->failed)
		return -ENOMEM;
	for (ssize_t row = -1; row < (ssize_t)cli_table_n_rows(t); row++)
		print_csv_row(t, row, to);
	return finish(to);
}
