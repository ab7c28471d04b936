/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "bench/load/histogram.h"

#define SUB (UINT64_C(1) << LOAD_SUB_BITS)

static unsigned bucket_of(uint64_t ns)
{
	unsigned shift = 0;
	unsigned i;

	if (ns < 2 * SUB)
		return (unsigned)ns;
	/* The top LOAD_SUB_BITS + 1 bits choose the bucket. */
	shift = 63 - (unsigned)__builtin_clzll(ns) - LOAD_SUB_BITS;
	i = (shift << LOAD_SUB_BITS) + (unsigned)(ns >> shift);
	return i < LOAD_BUCKETS ? i : LOAD_BUCKETS - 1;
}

/* The largest value that falls into bucket i. */
static uint64_t top_of(unsigned i)
{
	unsigned shift;

	if (i < 2 * SUB)
		return i;
	shift = (i >> LOAD_SUB_BITS) - 1;
	return (((i & (SUB - 1)) + SUB + 1) << shift) - 1;
}

void load_histogram_init(struct load_histogram *h)
{
	memset(h, 0, sizeof(*h));
	h->min_ns = UINT64_MAX;
}

void load_histogram_add(struct load_histogram *h, uint64_t ns)
{
	h->n++;
	h->sum_ns += ns;
	if (ns < h->min_ns)
		h->min_ns = ns;
	if (ns > h->max_ns)
		h->max_ns = ns;
	h->buckets[bucket_of(ns)]++;
}

void load_histogram_merge(struct load_histogram *into, const struct load_histogram *from)
{
	into->n += from->n;
	into->sum_ns += from->sum_ns;
	if (from->min_ns < into->min_ns)
		into->min_ns = from->min_ns;
	if (from->max_ns > into->max_ns)
		into->max_ns = from->max_ns;
	for (unsigned i = 0; i < LOAD_BUCKETS; i++)
		into->buckets[i] += from->buckets[i];
}

uint64_t load_histogram_permille(const struct load_histogram *h, unsigned permille)
{
	/* Rounded up: the smallest count that covers the share. */
	uint64_t wanted = (h->n * permille + 999) / 1000;
	uint64_t seen = 0;

	if (!h->n)
		return 0;
	for (unsigned i = 0; i < LOAD_BUCKETS; i++) {
		seen += h->buckets[i];
		if (seen >= wanted && seen)
			return top_of(i) < h->max_ns ? top_of(i) : h->max_ns;
	}
	return h->max_ns;
}
