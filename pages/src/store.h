/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pages of one tenant: memory, an index of keys, and what is evicted when it is full. It knows
 * no peers: the caller that puts a page copies the bytes between page_store_reserve() and
 * page_store_commit().
 *
 * The memory is cut into slabs of equal size. A slab belongs to one size class while it is in use
 * and has as many pages as fit. Headers stand before the slabs, so that pages are aligned to
 * PAGE_ALIGNMENT. Within a class pages are evicted by S3-FIFO (a short queue for what is new, a
 * long one for what was found again; a table remembers hashes of what left the short one). A class
 * that finds nothing to evict takes the slab of another one.
 *
 * Threads: functions with _locked in their name need the lock, all others take it.
 */
#ifndef PAGES_STORE_H
#define PAGES_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pages/src/page.h"

#define PAGE_CLASSES_MAX 16
#define PAGE_ALIGNMENT	 4096
#define PAGE_SLAB_MIN	 (UINT64_C(2) << 20)

struct page_store;

struct page_store_attr {
	void *mem; /* aligned to PAGE_ALIGNMENT; outlives the store */
	uint64_t size;
	const uint32_t *classes; /* lengths of pages, ascending */
	unsigned n_classes;
	unsigned high_percent; /* used bytes at which a commit begins to evict */
	unsigned low_percent;  /* and at which it stops */
};

/* -EINVAL: classes are none, too many or not ascending, a class is 0; percentages make no sense; or
 * size does not hold a slab for each class. -ENOMEM. */
int page_store_create(const struct page_store_attr *attr, struct page_store **out);
void page_store_destroy(struct page_store *store);

void page_store_lock(struct page_store *store);
void page_store_unlock(struct page_store *store);

/* The seed of page_hash() for keys of this store. */
uint64_t page_store_seed(const struct page_store *store);

/* Where a committed page is. Offsets count from the store's memory. */
struct page_place {
	uint64_t page;
	uint64_t header;
	uint64_t generation;
	uint32_t len;
};

/* Find a key: true, and *out. touch: it counts as used. */
bool page_store_find_locked(struct page_store *store, const void *key, size_t key_len, bool touch,
			    struct page_place *out);

/*
 * Take a page for key, to be filled with len bytes at *offset; it is neither found nor evicted
 * until it is committed. 0, or -EEXIST    the key is there, and replace is not set -EMSGSIZE  len
 * is more than the largest class    -EINVAL  key_len is 0 or above PAGE_KEY_MAX -ENOSPC    nothing
 * can be evicted: pages are pinned, or being filled -ENOMEM
 */
int page_store_reserve(struct page_store *store, const void *key, size_t key_len, uint32_t len,
		       bool replace, uint32_t *page, uint64_t *offset);

/*
 * The bytes are there: the key is found from now on. checksum is what the writer computed of its
 * bytes. On an error the page is given back:
 *   -EEXIST  another writer was faster; with replace the other's page is replaced
 *   -EIO     the bytes are not those that the writer had: it used its memory again meanwhile
 */
int page_store_commit(struct page_store *store, uint32_t page, uint64_t checksum, bool replace);

/* The bytes did not come. */
void page_store_abort(struct page_store *store, uint32_t page);

/* -ENOENT. */
int page_store_delete(struct page_store *store, const void *key, size_t key_len);

/*
 * Keep a page from being evicted until deadline_ns, or until it was unpinned as often as pinned.
 * Deleting and replacing it are not hindered. -ENOENT; -ENOSPC: half of the memory is pinned.
 */
int page_store_pin(struct page_store *store, const void *key, size_t key_len, uint64_t deadline_ns);
int page_store_unpin(struct page_store *store, const void *key, size_t key_len);

/* Delete every page that is not being filled; the lock is let go of now and then. Returns how many.
 */
uint64_t page_store_clear(struct page_store *store);

enum page_gone {
	PAGE_GONE_EVICTED, /* by age and use */
	PAGE_GONE_SLAB,	   /* another class took its slab */
	PAGE_GONE_DELETED,
	PAGE_GONE_REPLACED,
	PAGE_GONE_MAX,
};

struct page_store_stat {
	uint64_t size;	/* bytes that pages can have */
	uint64_t used;	/* bytes of the pages that are taken */
	uint64_t pages; /* committed */
	uint64_t bytes; /* in use in them */
	uint64_t pinned;
	uint64_t filling;
	uint64_t found, missed; /* look-ups */
	uint64_t put, refused;	/* committed; refused for want of room */
	uint64_t gone[PAGE_GONE_MAX];
};

void page_store_stat(struct page_store *store, struct page_store_stat *out);

#endif
