/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Durations counted in log-linear buckets: 64 to each power of two, so a value is known to 1.6 %.
 * Exact below 128 ns; what is longer than 2^42 ns (over an hour) counts as that.
 */
#ifndef LOAD_HISTOGRAM_H
#define LOAD_HISTOGRAM_H

#include <stdint.h>

#define LOAD_SUB_BITS 6
#define LOAD_BUCKETS  ((42 - LOAD_SUB_BITS + 1) << LOAD_SUB_BITS)

struct load_histogram {
	uint64_t n;
	uint64_t sum_ns;
	uint64_t min_ns;
	uint64_t max_ns;
	uint64_t buckets[LOAD_BUCKETS];
};

void load_histogram_init(struct load_histogram *h);
void load_histogram_add(struct load_histogram *h, uint64_t ns);
void load_histogram_merge(struct load_histogram *into, const struct load_histogram *from);

/* The value that permille of a thousand are not above; 0 when it is empty. */
uint64_t load_histogram_permille(const struct load_histogram *h, unsigned permille);

#endif
