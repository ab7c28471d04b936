/* SPDX-License-Identifier: Apache-2.0 */
#include "src/core/latency.h"

/* Steps of 1, 2.5 and 5 from 250 ns to 5 s. */
static const uint64_t bounds_ns[SLIME_LATENCY_BUCKETS - 1] = {
	250,	  500,	     1000,	2500,	   5000,       10000,	   25000,    50000,
	100000,	  250000,    500000,	1000000,   2500000,    5000000,	   10000000, 25000000,
	50000000, 100000000, 250000000, 500000000, 1000000000, 5000000000,
};

uint64_t slime_latency_bound_ns(unsigned bucket)
{
	return bucket < SLIME_LATENCY_BUCKETS - 1 ? bounds_ns[bucket] : UINT64_MAX;
}

void sl_latency_add(struct sl_latency *l, uint64_t ns)
{
	unsigned b = 0;

	while (b < SLIME_LATENCY_BUCKETS - 1 && ns > bounds_ns[b])
		b++;
	atomic_fetch_add_explicit(&l->counts[b], 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&l->sum_ns, ns, memory_order_relaxed);
}

void sl_latency_read(const struct sl_latency *l, struct slime_latency *out)
{
	*out = (struct slime_latency){ .sum_ns = atomic_load_explicit(&l->sum_ns,
								      memory_order_relaxed) };
	for (unsigned b = 0; b < SLIME_LATENCY_BUCKETS; b++) {
		out->counts[b] = atomic_load_explicit(&l->counts[b], memory_order_relaxed);
		out->n += out->counts[b];
	}
}
