/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "bench/load/pattern.h"

/* The finalizer of splitmix64 (Steele, Lea, Flood 2014): every word differs from its neighbours. */
static uint64_t word_at(uint64_t seed, uint64_t offset)
{
	uint64_t z = seed + (offset / 8 + 1) * UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

void load_pattern_fill(void *to, uint64_t len, uint64_t seed, uint64_t offset)
{
	uint8_t *p = to;

	for (uint64_t at = 0; at < len; at += 8) {
		uint64_t w = word_at(seed, offset + at);

		memcpy(p + at, &w, len - at < 8 ? len - at : 8);
	}
}

bool load_pattern_check(const void *start, uint64_t len, uint64_t seed, uint64_t offset,
			uint64_t *wrong)
{
	const uint8_t *p = start;

	for (uint64_t at = 0; at < len; at += 8) {
		uint64_t w = word_at(seed, offset + at);
		uint64_t n = len - at < 8 ? len - at : 8;

		if (memcmp(p + at, &w, n)) {
			*wrong = at;
			while (p[*wrong] == ((const uint8_t *)&w)[*wrong - at])
				++*wrong;
			return false;
		}
	}
	return true;
}

void load_pattern_poison(void *to, uint64_t len)
{
	memset(to, 0xdb, len);
}
