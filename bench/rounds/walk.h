/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which blocks of a pool a batch touches. Ours and the reference walk the same way, so that they
 * find the same bytes in the same caches: warm is one batch again and again, cold is a pool that no
 * cache holds.
 */
#ifndef ROUNDS_WALK_H
#define ROUNDS_WALK_H

#include <stdbool.h>
#include <stdint.h>

#define WALK_COLD_POOL (UINT64_C(512) << 20)

struct walk {
	uint64_t block;	  /* bytes */
	uint64_t n_batch; /* blocks of a batch */
	uint64_t n_pool;  /* blocks of the pool, a multiple of n_batch */
	uint64_t at;	  /* the next batch's first block, in the order of the walk */
	uint32_t *order;  /* scattered: a permutation of the pool's blocks; else NULL */
};

/* -EINVAL when a batch is no positive number of bytes or does not fit a pool, -ENOMEM. */
int walk_init(struct walk *w, uint64_t block, uint64_t n_batch, bool cold, bool scattered);
void walk_fini(struct walk *w);

static inline uint64_t walk_batch_bytes(const struct walk *w)
{
	return w->block * w->n_batch;
}

static inline uint64_t walk_pool_bytes(const struct walk *w)
{
	return w->block * w->n_pool;
}

/* Where in the pool the i-th block of the batch at hand is. */
static inline uint64_t walk_offset(const struct walk *w, uint64_t i)
{
	return (w->order ? w->order[w->at + i] : w->at + i) * w->block;
}

/* On to the next batch. */
static inline void walk_next(struct walk *w)
{
	w->at += w->n_batch;
	if (w->at == w->n_pool)
		w->at = 0;
}

#endif
