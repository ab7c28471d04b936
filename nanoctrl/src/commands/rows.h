/* SPDX-License-Identifier: Apache-2.0 */
/* Objects of one kind, as the API says them: what `nanoctrl get` and `describe` read. */
#ifndef NANOCTRL_ROWS_H
#define NANOCTRL_ROWS_H

#include "commands/kind.h"
#include "commands/obs_source.h"

struct row {
	char *scope; /* "" where the kind is of none */
	char *text;
	struct json_slice doc;
	uint64_t now_ms; /* the server's clock when it said so */
};

struct rows {
	struct row *at;
	size_t n, room;
};

/* The query. */
struct rows_query {
	const struct kind *kind;
	const char *scope;
	const char *selector; /* of labels; NULL: all */
};

/* Adds the rows of a scope, all pages. 0, or a negative errno with why. */
int rows_read(struct rows *r, struct obs_source *source, const struct rows_query *query, char *why,
	      size_t room);

/* Adds one; takes the text over, also on an error. -ENOMEM. */
int rows_add(struct rows *r, const char *scope, char *text, uint64_t now_ms);

/* Removes rows that are not about the agent or not in the state; NULL: any. */
void rows_filter(struct rows *r, const struct kind *kind, const char *agent, const char *state);

void rows_clear(struct rows *r);

#endif
