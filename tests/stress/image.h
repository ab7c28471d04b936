/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory beside what it is expected to hold. A byte is known, or it is not while an operation may
 * change it, or after one failed that was to change it. Unknown bytes are not even read.
 */
#ifndef STRESS_IMAGE_H
#define STRESS_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct image {
	uint8_t *mem;	 /* NULL: of another process */
	uint8_t *expect; /* as many bytes */
	uint8_t *known;	 /* 1 or 0 for each */
	size_t len;
};

/* Write a pattern to all of the memory. */
void image_fill(struct image *image, uint64_t seed);

/* From now on these bytes are to be there. */
void image_expect(struct image *image, size_t offset, const uint8_t *bytes, size_t len);

/* Nothing is known of these bytes any more. */
void image_forget(struct image *image, size_t offset, size_t len);

/* Whether each known byte is as expected; where not, *at is the first that is not. */
bool image_check(const struct image *image, size_t *at);

#endif
