/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that say where they belong: a function of a seed and their offset, so that any part can be
 * checked alone. */
#ifndef LOAD_PATTERN_H
#define LOAD_PATTERN_H

#include <stdbool.h>
#include <stdint.h>

/* What a bench region holds when nobody wrote to it. */
#define LOAD_PATTERN_SEED UINT64_C(0x736c696d65)

/* Fill len bytes that lie at offset of the patterned memory; offset is a multiple of 8. */
void load_pattern_fill(void *to, uint64_t len, uint64_t seed, uint64_t offset);

/* Whether they are right; if not, *wrong is the first byte that is not, counted from at. */
bool load_pattern_check(const void *at, uint64_t len, uint64_t seed, uint64_t offset,
			uint64_t *wrong);

/* Overwrite it with something that no check accepts. */
void load_pattern_poison(void *to, uint64_t len);

#endif
