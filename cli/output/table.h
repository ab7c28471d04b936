/* SPDX-License-Identifier: Apache-2.0 */
/* Rows and columns, for a terminal (aligned) or for machines (CSV). */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct cli_column {
	const char *title; /* the heading of the aligned table; NULL leaves the column out there */
	const char *key;   /* the heading in CSV; NULL leaves the column out there */
	bool right;	   /* numbers stand right */
};

enum cli_table_style {
	CLI_TABLE_ASCII,
	CLI_TABLE_UTF8, /* a drawn rule below the headings */
};

struct cli_table;

/* columns has to outlive the table. */
int cli_table_create(struct cli_table **out, const struct cli_column *columns, size_t n_columns);
void cli_table_destroy(struct cli_table *t);

/*
 * Cells come one after the other, row by row. Control characters become '?', so that foreign text
 * cannot drive a terminal; width is counted in UTF-8 characters. After -ENOMEM printing says
 * -ENOMEM too.
 */
int cli_table_cell(struct cli_table *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

size_t cli_table_n_rows(const struct cli_table *t);

/* UTF-8 when the locale says so (LC_ALL, LC_CTYPE, LANG), else ASCII. */
enum cli_table_style cli_table_style_of_locale(void);

/* An incomplete last row is filled with empty cells. 0, -ENOMEM, what write(2) says, or -EIO. */
int cli_table_print(const struct cli_table *t, enum cli_table_style style, FILE *to);

/* RFC 4180 with '\n': cells with a comma, quote or newline are quoted. */
int cli_table_print_csv(const struct cli_table *t, FILE *to);

#endif
