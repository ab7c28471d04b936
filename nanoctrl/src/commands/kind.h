/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kinds of objects that `nanoctrl get` and `describe` show: where the API lists them, and which
 * columns they have. An object is a row of JSON, as the API says it.
 */
#ifndef NANOCTRL_KIND_H
#define NANOCTRL_KIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "text/json_slice.h"

enum kind_cell {
	CELL_TEXT,   /* a string, or any value as JSON */
	CELL_NUMBER, /* the same, to the right */
	CELL_BYTES,  /* "1.5MB" */
	CELL_RATE,   /* bits per second as GB/s */
	CELL_AGE,    /* milliseconds */
	CELL_SINCE,  /* a time in milliseconds: how long ago that was */
	CELL_PAIRS,  /* an object as "key=value,..." */
	CELL_LIST,   /* an array of strings */
	CELL_NAMES,  /* an array of objects: their names */
	CELL_FIRST,  /* the first string of an array */
	CELL_HOLDER, /* of an agent: what keeps its name */
};

struct kind_column {
	const char *title; /* NULL ends the columns */
	const char *path;  /* "result.state"; "agent|from": the first of these that is there */
	enum kind_cell cell;
	bool wide; /* shown by -o wide alone */
};

struct kind {
	const char *name;   /* "agents", as the API lists them */
	const char *one;    /* "agent" */
	const char *id[3];  /* the members that name one, NULL after the last */
	const char *who[3]; /* those that name an agent */
	bool labels;	    /* the API selects by labels of agents */
	unsigned limit;	    /* of a page; 0: as many as of others */
	unsigned last;	    /* so many of them, the last ones; 0: all */
	bool scanned;	    /* the API lists them in no order, and one may come twice */
	const struct kind_column *columns;
};

/* By either name; NULL: there is none. */
const struct kind *kind_find(const char *name);

/* All names of the one or the other form, "agents|links|...", for help and errors. */
#define KIND_NAMES "topologies|agents|links|regions|services|events|scopes"
#define KIND_ONES  "topology|agent|link|region|service|scope"

#define KIND_TEXT 1024

/* The cell's words, "-" for none; cut to room. now_ms is the clock of its times. */
void kind_write_cell(const struct kind_column *c, struct json_slice row, uint64_t now_ms, char *out,
		     size_t room);

/* Whether the cell changes by itself. */
bool kind_cell_is_age(const struct kind_column *c);

/* Whether it stands right in its column. */
bool kind_cell_is_right(const struct kind_column *c);

/* "agent/name"; cut to room. */
void kind_write_id(const struct kind *k, struct json_slice row, char *out, size_t room);

/* Whether the row is about this agent. */
bool kind_is_about(const struct kind *k, struct json_slice row, const char *agent);

/* The words of the column STATE; "" where the kind has none. */
void kind_write_state(const struct kind *k, struct json_slice row, char *out, size_t room);

#endif
