/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of texts that go together. All zero it has none. */
#ifndef NANOCTRL_TEXT_HEAP_H
#define NANOCTRL_TEXT_HEAP_H

#include <stdbool.h>
#include <stddef.h>

struct text_heap {
	struct text_block *blocks; /* the newest first */
	bool failed;		   /* there was no memory for one of them */
};

/* The copy, with a NUL behind it; "" without memory. */
const char *text_heap_keep(struct text_heap *h, const char *text, size_t len);

void text_heap_fini(struct text_heap *h);

#endif
