/* SPDX-License-Identifier: Apache-2.0 */
#include "peeragent/lib/plan/block.h"

#include <string.h>

void *block_take(struct block *b, size_t len, size_t align)
{
	void *p;

	b->len = (b->len + align - 1) & ~(align - 1);
	p = b->at ? b->at + b->len : NULL;
	b->len += len;
	return p;
}

const char *block_take_text(struct block *b, const char *text)
{
	char *p;

	if (!text)
		return NULL;
	p = block_take(b, strlen(text) + 1, 1);
	return p ? strcpy(p, text) : NULL;
}

const char *const *block_take_texts(struct block *b, const char *const *texts, size_t n)
{
	const char **list = block_take(b, n * sizeof(*list), _Alignof(char *));

	for (size_t i = 0; i < n; i++) {
		const char *text = block_take_text(b, texts[i]);

		if (list)
			list[i] = text;
	}
	return list;
}

const struct slime_label *block_take_labels(struct block *b, const struct slime_label *labels,
					    size_t n)
{
	struct slime_label *list = block_take(b, n * sizeof(*list), _Alignof(struct slime_label));

	for (size_t i = 0; i < n; i++) {
		struct slime_label label = { block_take_text(b, labels[i].key),
					     block_take_text(b, labels[i].value) };

		if (list)
			list[i] = label;
	}
	return list;
}
