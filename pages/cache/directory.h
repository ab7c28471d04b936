/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DLSlimeCache's directory: which slabs of a cache hold which bytes of which agent. The bytes
 * themselves are elsewhere; here are numbers, in memory, of one thread.
 *
 * An assignment is cut into pieces of at most a slab, and each piece, one of no bytes as well, has
 * a slab of its own. Without memory there are no slabs, and pieces keep the offsets they came with.
 */
#ifndef PAGES_CACHE_DIRECTORY_H
#define PAGES_CACHE_DIRECTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DIRECTORY_SLAB_MIN    (UINT64_C(128) << 10)
#define DIRECTORY_SLAB_MAX    (UINT64_C(1) << 30)
#define DIRECTORY_SLABS_MAX   (UINT64_C(1) << 24)
#define DIRECTORY_STORE_MAX   65536		  /* pieces of one manifest */
#define DIRECTORY_ENTRIES_MAX (UINT64_C(1) << 20) /* manifests; without memory, pieces as well */
#define DIRECTORY_PEER_MAX    1024		  /* bytes of an agent's name */

struct directory;

struct directory_piece {
	uint64_t mr_key, remote_mr_key; /* the storing agent's; they mean nothing here */
	uint64_t target_offset, source_offset, length;
};

struct directory_manifest {
	char *peer;
	uint64_t version; /* from 1, of the whole directory */
	uint64_t total_bytes;
	uint32_t *slabs; /* of the pieces; NULL without memory */
	struct directory_piece *pieces;
	size_t n_pieces;
};

struct directory_stats {
	uint64_t slab_size, memory_size, n_slabs;
	uint64_t used, free; /* slabs; without memory used counts pieces */
	uint64_t n_peers, n_entries, n_pieces, bytes;
};

/* memory_size is 0 or a multiple of slab_size. -EINVAL for sizes beyond the bounds, -ENOMEM. */
int directory_create(uint64_t slab_size, uint64_t memory_size, struct directory **out);
void directory_destroy(struct directory *d);

/*
 * All or nothing. The manifest lives until it is deleted.
 *   -EINVAL  no name, or one that is too long    -E2BIG  more than DIRECTORY_STORE_MAX pieces
 *   -ENOSPC  not enough free slabs, or the directory is full
 *   -ENOMEM
 */
int directory_store(struct directory *d, const char *peer, const struct directory_piece *list,
		    size_t n, const struct directory_manifest **out);

/* NULL when there is none. */
const struct directory_manifest *directory_query(const struct directory *d, const char *peer,
						 uint64_t version);
/* Whether it was there. */
bool directory_delete(struct directory *d, const char *peer, uint64_t version);

void directory_stats(const struct directory *d, struct directory_stats *out);

#endif
