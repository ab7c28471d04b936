/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A deep copy in one allocation: the copying function takes its parts twice, first while the length
 * is counted, then in memory of that length.
 */
#ifndef AGENT_BLOCK_H
#define AGENT_BLOCK_H

#include <stddef.h>
#include <slime/agent.h>

struct block {
	char *at; /* NULL while the length is counted */
	size_t len;
};

/* len bytes, aligned to a power of 2; NULL while the length is counted, as below. */
void *block_take(struct block *b, size_t len, size_t align);

/* NULL is NULL. */
const char *block_take_text(struct block *b, const char *text);
const char *const *block_take_texts(struct block *b, const char *const *texts, size_t n);
const struct slime_label *block_take_labels(struct block *b, const struct slime_label *labels,
					    size_t n);

#endif
