/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A page in memory, as its owner keeps it and readers read it: the bytes, and elsewhere in the same
 * region a header that says which bytes they are. Only the owner writes either.
 *
 * The generation is even while the page holds committed bytes, and odd while it does not. The owner
 * makes it odd before it changes a byte of the page, and even, one higher, after the last. So a
 * reader has the bytes of generation g if
 *   - it finds g in the header, and the seal in the same header is that of g and the bytes; or
 *   - it finds g in the header after all of the bytes had arrived.
 * A header is not read in one step: a reader may find the generation and the hash of one page, and
 * a seal that was written for the next. The seal covers both, so that such a header fits no bytes.
 */
#ifndef PAGES_PAGE_H
#define PAGES_PAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of a key, with the owner's seed: tells a reader which page it reads. The owner itself compares
 * whole keys. */
struct page_hash {
	uint64_t low;
	uint64_t high;
};

/* One cache line. Little-endian, as all of our hosts are. */
struct page_header {
	_Atomic uint64_t generation;
	struct page_hash hash;
	uint64_t seal; /* page_seal() */
	uint32_t len;  /* bytes of the page in use */
	uint32_t reserved[7];
};

#define PAGE_HEADER_LEN sizeof(struct page_header)

_Static_assert(sizeof(struct page_header) == 64, "one cache line");
_Static_assert(sizeof(_Atomic uint64_t) == 8, "as a peer reads it");

#define PAGE_KEY_MAX 1024

struct page_hash page_hash(const void *key, size_t len, uint64_t seed);

/* XXH3 of 64 bits over bytes that may lie in several places: begin, add each, end. */
uint64_t page_checksum(const void *data, size_t len);

struct page_sum;
struct page_sum *page_sum_create(void); /* NULL: no memory */
void page_sum_destroy(struct page_sum *sum);
void page_sum_begin(struct page_sum *sum);
void page_sum_add(struct page_sum *sum, const void *data, size_t len);
uint64_t page_sum_end(const struct page_sum *sum);

/* The expected properties of a page that was found: its header must say the same. */
struct page_identity {
	uint64_t generation;
	struct page_hash hash;
	uint32_t len;
};

/* Whether a copy of a header is that of the page. */
bool page_is(const struct page_header *copy, const struct page_identity *wanted);

/* Of a page with this identity, whose bytes have this checksum. */
uint64_t page_seal(const struct page_identity *page, uint64_t checksum);

#endif
