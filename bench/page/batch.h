/* SPDX-License-Identifier: Apache-2.0 */
/* A request for n pages, with their keys and the memory for their bytes. */
#ifndef BENCH_PAGE_BATCH_H
#define BENCH_PAGE_BATCH_H

#include "bench/client.h"

#define PAGE_KEY_LEN 64

struct page_batch {
	uint32_t n;
	uint64_t page_size;
	struct slime_pages_request *req;
	struct slime_mem *mem;
	struct slime_mr *mr;
	struct slime_pages_item *items;
	struct slime_pages_buf *bufs;
	uint64_t *indices;
	char (*keys)[PAGE_KEY_LEN];
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
		    uint32_t n, uint64_t page_size);
void page_batch_fini(struct page_batch *b);

/* Item i is the object of this index, of pages of this kind. */
void page_batch_set(struct page_batch *b, uint32_t i, const char *kind, uint64_t index);

static inline uint8_t *page_batch_bytes(const struct page_batch *b, uint32_t i)
{
	return (uint8_t *)slime_mem_addr(b->mem) + i * b->page_size;
}

/* 0; -ETIMEDOUT: it takes more than a minute, or a signal came. */
int page_batch_wait(struct page_batch *b, const struct client *c);

#endif
