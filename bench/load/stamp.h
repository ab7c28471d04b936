/* SPDX-License-Identifier: Apache-2.0 */
/* A message's number, at both ends of it as far as it is that long: so that another one's is seen.
 */
#ifndef LOAD_STAMP_H
#define LOAD_STAMP_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline void stamp(uint8_t *p, uint64_t size, uint64_t number)
{
	/* Of a known length each is one instruction, where calls take less than a microsecond. */
	if (size >= sizeof(number)) {
		memcpy(p, &number, sizeof(number));
		memcpy(p + size - sizeof(number), &number, sizeof(number));
	} else {
		memcpy(p, &number, size);
	}
}

static inline bool stamped(const uint8_t *p, uint64_t size, uint64_t number)
{
	if (size < sizeof(number))
		return !memcmp(p, &number, size);
	return !memcmp(p, &number, sizeof(number)) &&
	       !memcmp(p + size - sizeof(number), &number, sizeof(number));
}

#endif
