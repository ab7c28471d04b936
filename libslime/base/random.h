/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers for jitter: processes that began together do not stay in step. */
#ifndef SL_BASE_RANDOM_H
#define SL_BASE_RANDOM_H

#include <stdint.h>
#include <sys/random.h>

/* From 0 to most. Without random bytes it is 0: there is no jitter, which costs load and nothing
 * else. */
static inline uint64_t sl_random_up_to(uint64_t most)
{
	uint64_t v = 0;

	if (getrandom(&v, sizeof(v), GRND_NONBLOCK) != (ssize_t)sizeof(v))
		return 0;
	return most == UINT64_MAX ? v : v % (most + 1);
}

#endif
