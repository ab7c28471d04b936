/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers that a seed repeats, and patterns of bytes that a seed names. */
#ifndef STRESS_DICE_H
#define STRESS_DICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dice {
	uint64_t state;
};

static inline uint64_t mix(uint64_t x)
{
	x += UINT64_C(0x9e3779b97f4a7c15);
	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

static inline struct dice dice_of(uint64_t seed, uint64_t a, uint64_t b, uint64_t c)
{
	return (struct dice){ mix(mix(mix(seed + a) + b) + c) };
}

static inline uint64_t roll(struct dice *dice)
{
	return dice->state = mix(dice->state);
}

/* 0 to n - 1; n is not 0. */
static inline uint64_t roll_below(struct dice *dice, uint64_t n)
{
	return (roll(dice) >> 16) % n;
}

static inline bool roll_percent(struct dice *dice, unsigned percent)
{
	return roll_below(dice, 100) < percent;
}

/* A length up to most: often a small one, often the largest of a class. */
static inline size_t roll_len(struct dice *dice, size_t most)
{
	static const size_t edges[] = { 0, 8, 64, 128, 1024, 4096, 16384, 65536, 262144 };
	size_t len = edges[roll_below(dice, sizeof(edges) / sizeof(edges[0]))];

	if (len > most)
		len = most;
	switch (roll_below(dice, 4)) {
	case 0:
		return len;
	case 1:
		return len < most ? len + 1 : len;
	default:
		return roll_below(dice, len + 1);
	}
}

/* Byte i of the pattern that a seed names. */
static inline uint8_t pattern(uint64_t seed, size_t i)
{
	return (uint8_t)(mix(seed + i / 8) >> i % 8 * 8);
}

void pattern_fill(void *to, size_t len, uint64_t seed, size_t from);

/* Whether the bytes are those; where not, *at is the first that is not. */
bool pattern_check(const void *bytes, size_t len, uint64_t seed, size_t from, size_t *at);

#endif
