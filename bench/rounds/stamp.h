/* SPDX-License-Identifier: Apache-2.0 */
/* A message's number, at both ends of it as far as it is that long: so that another one's is seen.
 */
#ifndef ROUNDS_STAMP_H
#define ROUNDS_STAMP_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline void stamp(uint8_t *p, uint64_t size, uint64_t number)
{
	size_t n = size < sizeof(number) ? size : sizeof(number);

	memcpy(p, &number, n);
	memcpy(p + size - n, &number, n);
}

static inline bool stamped(const uint8_t *p, uint64_t size, uint64_t number)
{
	size_t n = size < sizeof(number) ? size : sizeof(number);

	return !memcmp(p, &number, n) && !memcmp(p + size - n, &number, n);
}

#endif
