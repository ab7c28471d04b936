/* SPDX-License-Identifier: Apache-2.0 */
/* Where and by what something was measured: above every table, and in every document. */
#ifndef BENCH_HEAD_H
#define BENCH_HEAD_H

#include <jansson.h>
#include <stdio.h>

#include <slime/slime.h>

struct head {
	struct slime_topo topo;
	char date[32];
	const char *flags; /* the command line */
};

/* Of this host, now. 0, or what slime_topo_get() says. */
int head_read(struct head *h, const char *flags);

/* Lines that begin with mark; between says who was measured. */
void head_print(const struct head *h, const char *between, const char *mark, FILE *to);

/* The same as an object, without between. NULL without memory. */
json_t *head_json(const struct head *h);

/* Print a document and let it go. NULL is -ENOMEM; else 0, or what write(2) says. */
int head_print_json(json_t *document, FILE *to);

#endif
