/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request for n pages, with their keys and the memory for their bytes. Of keys there may be
 * several sets, made before what is measured.
 */
#ifndef BENCH_PAGE_BATCH_H
#define BENCH_PAGE_BATCH_H

#include <slime/pages.h>

#include "bench/agents/client.h"

#define PAGE_KEY_LEN 64

struct page_batch {
	uint32_t n;
	uint64_t page_size;
	struct slime_pages_request *req;
	struct slime_mem *mem;
	struct slime_mr *mr;
	struct slime_pages_buf *bufs;
	/* Of the set in use. */
	struct slime_pages_item *items;
	uint64_t *indices;
	char (*keys)[PAGE_KEY_LEN];

	uint32_t n_sets;
	struct slime_pages_item *all_items;
	uint64_t *all_indices;
	char (*all_keys)[PAGE_KEY_LEN];
};

/* The next of a sequence (xorshift) that begins with a state other than 0. */
static inline uint64_t page_random(uint64_t *state)
{
	uint64_t x = *state;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	*state = x;
	return x;
}

/* 0, a negative errno; page_batch_fini() follows in any case. */
int page_batch_init(struct page_batch *b, struct slime_agent *agent, struct slime_pages *pages,
		    uint32_t n, uint64_t page_size, uint32_t n_sets);
void page_batch_fini(struct page_batch *b);

/* Use this set, from 0: what was set of the others stays. */
void page_batch_use(struct page_batch *b, uint32_t set);

/* Item i is the object of this index, of pages of this kind. */
void page_batch_set(struct page_batch *b, uint32_t i, const char *kind, uint64_t index);

static inline uint8_t *page_batch_bytes(const struct page_batch *b, uint32_t i)
{
	return (uint8_t *)slime_mem_addr(b->mem) + i * b->page_size;
}

/* 0; -ETIMEDOUT: it takes more than a minute, or a signal came. */
int page_batch_wait(struct page_batch *b, const struct client *c);

#endif
