/* SPDX-License-Identifier: Apache-2.0 */
/* From the hash of a key to numbers of pages that may have it: open addressing, at most half full.
 * The caller compares keys. */
#ifndef PAGES_INDEX_H
#define PAGES_INDEX_H

#include <stdint.h>

struct page_index {
	uint64_t *cells; /* 0: empty; else the hash's upper half, and the page plus one */
	uint32_t mask;
};

/* For at most n pages, below 2^30. -ENOMEM. */
int page_index_init(struct page_index *index, uint32_t n);
void page_index_fini(struct page_index *index);

static inline uint32_t page_index_home(const struct page_index *index, uint64_t hash)
{
	return (uint32_t)hash & index->mask;
}

static inline void page_index_prefetch(const struct page_index *index, uint64_t hash)
{
	__builtin_prefetch(&index->cells[page_index_home(index, hash)]);
}

#define PAGE_NONE UINT32_MAX

/* The next page that may have this hash, from cell *at on, which begins at page_index_home();
 * PAGE_NONE at the end. */
static inline uint32_t page_index_next(const struct page_index *index, uint64_t hash, uint32_t *at)
{
	uint64_t cell;

	while ((cell = index->cells[*at]) != 0) {
		*at = (*at + 1) & index->mask;
		if (cell >> 32 == hash >> 32)
			return (uint32_t)cell - 1;
	}
	return PAGE_NONE;
}

void page_index_add(struct page_index *index, uint64_t hash, uint32_t page);

/* It is there. hash_of gives the hash of other pages, which may move closer to their homes. */
void page_index_remove(struct page_index *index, uint64_t hash, uint32_t page,
		       uint64_t (*hash_of)(void *arg, uint32_t page), void *arg);

#endif
