/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shared memory of both ends of a shm connection: one memfd with two halves, each written by
 * one end and read by the other. The reader trusts nothing in it: it copies a message once and
 * checks the copy.
 */
#ifndef SL_SHM_SEGMENT_H
#define SL_SHM_SEGMENT_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "src/transport/transport.h"

#define SL_CACHE_LINE 64

/* One message is one cache line, with a short payload two neighbours: the sequence number is
 * written last. */
struct shm_entry {
	_Atomic uint64_t seq; /* the entry's number, from 1 on */
	struct sl_msg m;      /* the slot in which SHM_SLOT_HERE says that the payload is here */
	uint8_t payload[SL_SHORT_LEN];
} __attribute__((aligned(2 * SL_CACHE_LINE)));

#define SHM_SLOT_HERE 0x8000

_Static_assert(offsetof(struct shm_entry, payload) == SL_CACHE_LINE, "a message is a cache line");
_Static_assert(sizeof(struct shm_entry) == 2 * SL_CACHE_LINE, "an entry is two of them");

struct shm_half {
	_Atomic uint64_t nonce; /* proves that both map the same memory */
	/* Not 0 from before its owner gives back the first op that the end of the connection ends:
	 * memory that was read of the owner may be other bytes by then. */
	_Atomic uint32_t ended;
	_Atomic uint32_t n_heard; /* bells that its owner took out of the socket */
	_Atomic uint32_t looks;	  /* not 0: its owner looks at the other's ring in every pass */
	_Atomic uint64_t imm_taken __attribute__((aligned(SL_CACHE_LINE)));
	struct shm_entry ring[SL_RING_ENTRIES] __attribute__((aligned(2 * SL_CACHE_LINE)));
	uint8_t slots[SL_SLOTS_LEN] __attribute__((aligned(SL_CACHE_LINE)));
};

struct shm_segment {
	struct shm_half initiator;
	struct shm_half acceptor;
};

_Static_assert(sizeof(struct shm_segment) < 1 << 20, "a link costs less than 1 MiB");

/* The entry of the message after n others. */
static inline struct shm_entry *shm_half_entry(struct shm_half *half, uint64_t n)
{
	return &half->ring[n % SL_RING_ENTRIES];
}

#define SHM_MARK_LEN 16

/*
 * A context's page that its peers read: whether a thread there sleeps and must be rung; and random
 * bytes. A peer that copies from or to memory of this process by its number looks for them where
 * the owner has this page: they are not there once the process runs another program.
 */
struct shm_page {
	_Atomic uint32_t sleeping;
	uint8_t mark[SHM_MARK_LEN] __attribute__((aligned(16)));
};

#define SHM_BOARD_WORDS 64
#define SHM_BOARD_BITS	(64 * SHM_BOARD_WORDS)

/*
 * A context's board that its peers write: the bit of each link that has a message for it, where it
 * does not look at the link's ring in every pass. Links may share a bit. It is a hint: each peer
 * can set and clear all bits.
 */
struct shm_board {
	_Atomic uint64_t marked; /* words that have a bit */
	_Atomic uint64_t words[SHM_BOARD_WORDS];
} __attribute__((aligned(SL_CACHE_LINE)));

/* A new segment, mapped; *fd is the memfd to give to the peer, and the caller's. */
int shm_segment_create(struct shm_segment **out, int *fd);

/* Map a segment that a peer made, after a look at its seals and size. fd stays the caller's.
 * -EPROTO. */
int shm_segment_map(int fd, struct shm_segment **out);

void shm_segment_unmap(struct shm_segment *s);

/* The page of a context, with its mark: only we can write it, and its memfd is read-only for all
 * others. */
int shm_page_create(struct shm_page **out, int *fd);
int shm_page_map(int fd, const struct shm_page **out);
void shm_page_unmap(const struct shm_page *page);

/* The board of a context; its memfd is for all peers to write. */
int shm_board_create(struct shm_board **out, int *fd);
int shm_board_map(int fd, struct shm_board **out);
void shm_board_unmap(struct shm_board *board);

/*
 * Map the whole of a peer's memfd: it must be sealed against growing, shrinking and new seals, and
 * be len long. -EPROTO when it is not.
 */
int shm_map_sealed(int fd, uint64_t len, int prot, void **out);

#endif
