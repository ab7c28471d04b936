/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>

#include "bench/rounds/walk.h"

static uint64_t next_random(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x;
}

/* The same order in every run. */
static uint32_t *shuffled(uint64_t n)
{
	uint64_t seed = UINT64_C(0x9e3779b97f4a7c15);
	uint32_t *order = malloc(n * sizeof(*order));

	if (!order)
		return NULL;
	for (uint64_t i = 0; i < n; i++)
		order[i] = (uint32_t)i;
	for (uint64_t i = n - 1; i > 0; i--) {
		uint64_t j = next_random(&seed) % (i + 1);
		uint32_t swap = order[i];

		order[i] = order[j];
		order[j] = swap;
	}
	return order;
}

int walk_init(struct walk *w, uint64_t block, uint64_t n_batch, bool cold, bool scattered)
{
	uint64_t pool = cold ? WALK_COLD_POOL : block * n_batch;

	if (!block || !n_batch || block > WALK_COLD_POOL / n_batch)
		return -EINVAL;
	*w = (struct walk){
		.block = block,
		.n_batch = n_batch,
		.n_pool = (pool + block * n_batch - 1) / (block * n_batch) * n_batch,
	};
	if (scattered) {
		w->order = shuffled(w->n_pool);
		if (!w->order)
			return -ENOMEM;
	}
	return 0;
}

void walk_fini(struct walk *w)
{
	free(w->order);
}
