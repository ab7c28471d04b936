/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/stress/image.h"

#include <string.h>

#include "tests/stress/dice.h"

void pattern_fill(void *to, size_t len, uint64_t seed, size_t from)
{
	uint8_t *bytes = to;
	size_t i = 0;

	for (; i < len && (from + i) % 8; i++)
		bytes[i] = pattern(seed, from + i);
	for (; i + 8 <= len; i += 8) {
		uint64_t word = mix(seed + (from + i) / 8);

		memcpy(bytes + i, &word, 8);
	}
	for (; i < len; i++)
		bytes[i] = pattern(seed, from + i);
}

bool pattern_check(const void *bytes, size_t len, uint64_t seed, size_t from, size_t *at)
{
	const uint8_t *b = bytes;

	for (size_t i = 0; i < len;) {
		uint64_t word = mix(seed + (from + i) / 8);

		if ((from + i) % 8 == 0 && i + 8 <= len && memcmp(b + i, &word, 8) == 0) {
			i += 8;
			continue;
		}
		if (b[i] != (uint8_t)(word >> (from + i) % 8 * 8)) {
			*at = i;
			return false;
		}
		i++;
	}
	return true;
}

void image_fill(struct image *image, uint64_t seed)
{
	pattern_fill(image->mem, image->len, seed, 0);
	memcpy(image->expect, image->mem, image->len);
	memset(image->known, 1, image->len);
}

void image_expect(struct image *image, size_t offset, const uint8_t *bytes, size_t len)
{
	memcpy(image->expect + offset, bytes, len);
	memset(image->known + offset, 1, len);
}

void image_forget(struct image *image, size_t offset, size_t len)
{
	memset(image->known + offset, 0, len);
}

bool image_check(const struct image *image, size_t *at)
{
	size_t i = 0;

	while (i < image->len) {
		const uint8_t *unknown = memchr(image->known + i, 0, image->len - i);
		size_t end = unknown ? (size_t)(unknown - image->known) : image->len;
		const uint8_t *next;

		if (memcmp(image->mem + i, image->expect + i, end - i) != 0) {
			while (image->mem[i] == image->expect[i])
				i++;
			*at = i;
			return false;
		}
		next = memchr(image->known + end, 1, image->len - end);
		i = next ? (size_t)(next - image->known) : image->len;
	}
	return true;
}
