/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "pages/src/index.h"

int page_index_init(struct page_index *index, uint32_t n)
{
	uint32_t cells = 16;

	while (cells < 2 * n)
		cells *= 2;
	index->cells = calloc(cells, sizeof(*index->cells));
	index->mask = cells - 1;
	return index->cells ? 0 : -ENOMEM;
}

void page_index_fini(struct page_index *index)
{
	free(index->cells);
}

static uint64_t cell_of(uint64_t hash, uint32_t page)
{
	return (hash >> 32 << 32) | (page + 1);
}

void page_index_add(struct page_index *index, uint64_t hash, uint32_t page)
{
	uint32_t at = page_index_home(index, hash);

	while (index->cells[at])
		at = (at + 1) & index->mask;
	index->cells[at] = cell_of(hash, page);
}

void page_index_remove(struct page_index *index, uint64_t hash, uint32_t page,
		       uint64_t (*hash_of)(void *arg, uint32_t page), void *arg)
{
	uint32_t hole = page_index_home(index, hash);
	uint64_t cell;

	while (index->cells[hole] != cell_of(hash, page)) {
		assert(index->cells[hole]);
		hole = (hole + 1) & index->mask;
	}
	/* The entry behind the hole moves into it unless it would come before its home. */
	for (uint32_t at = (hole + 1) & index->mask; (cell = index->cells[at]) != 0;
	     at = (at + 1) & index->mask) {
		uint32_t home = page_index_home(index, hash_of(arg, (uint32_t)cell - 1));

		if (((at - home) & index->mask) < ((at - hole) & index->mask))
			continue;
		index->cells[hole] = cell;
		hole = at;
	}
	index->cells[hole] = 0;
}
