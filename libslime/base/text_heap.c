/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text_heap.h"

#include <stdlib.h>
#include <string.h>

#define BLOCK_ROOM 65536 /* of a longer text its length */

struct text_block {
	struct text_block *next;
	size_t len, room;
	char bytes[];
};

static struct text_block *new_block(struct text_heap *h, size_t len)
{
	size_t room = len > BLOCK_ROOM ? len : BLOCK_ROOM;
	struct text_block *b = malloc(sizeof(*b) + room);

	if (!b)
		return NULL;
	*b = (struct text_block){ .next = h->blocks, .room = room };
	h->blocks = b;
	return b;
}

const char *text_heap_keep(struct text_heap *h, const char *text, size_t len)
{
	struct text_block *b = h->blocks;
	char *kept;

	if (!b || b->room - b->len < len + 1)
		b = new_block(h, len + 1);
	if (!b) {
		h->failed = true;
		return "";
	}
	kept = b->bytes + b->len;
	if (len)
		memcpy(kept, text, len);
	kept[len] = '\0';
	b->len += len + 1;
	return kept;
}

void text_heap_fini(struct text_heap *h)
{
	struct text_block *b;

	while ((b = h->blocks)) {
		h->blocks = b->next;
		free(b);
	}
	h->failed = false;
}
