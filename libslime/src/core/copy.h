/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies between two mappings. Plain memcpy, but for what was measured to be better
 * (docs/measurements/shared-memory.md): two relations of the addresses where a processor's string
 * moves crawl, and bytes that no cache would hold, which go past it.
 */
#ifndef SL_COPY_H
#define SL_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* An op of so many bytes goes past the cache. */
#define SL_COPY_STREAM_FROM (UINT64_C(8) << 20)

/* Of this length and more the C library may use string moves. */
#define SL_COPY_STRING_MOVES_FROM 2048

void sl_copy_long(void *to, const void *from, size_t len);

static inline void sl_copy(void *to, const void *from, size_t len)
{
	if (len < SL_COPY_STRING_MOVES_FROM)
		memcpy(to, from, len);
	else
		sl_copy_long(to, from, len);
}

/* 1 to 64 bytes, in at most four loads and without a call; some may be read twice. */
static inline void sl_copy_short(void *to, const void *from, size_t len)
{
	uint8_t *t = to;
	const uint8_t *f = from;

	if (len > 32) {
		memcpy(t, f, 32);
		memcpy(t + len - 32, f + len - 32, 32);
	} else if (len > 16) {
		memcpy(t, f, 16);
		memcpy(t + len - 16, f + len - 16, 16);
	} else if (len >= 8) {
		memcpy(t, f, 8);
		memcpy(t + len - 8, f + len - 8, 8);
	} else if (len >= 4) {
		memcpy(t, f, 4);
		memcpy(t + len - 4, f + len - 4, 4);
	} else {
		t[0] = f[0];
		t[len / 2] = f[len / 2];
		t[len - 1] = f[len - 1];
	}
}

/* As sl_copy(), past the cache: not visible to others before sl_copy_stream_fence(). */
void sl_copy_stream(void *to, const void *from, size_t len);
void sl_copy_stream_fence(void);

/* The bytes of an op that are in one piece. */
static inline void sl_copy_whole(void *to, const void *from, size_t len)
{
	if (len < SL_COPY_STREAM_FROM) {
		sl_copy(to, from, len);
		return;
	}
	sl_copy_stream(to, from, len);
	sl_copy_stream_fence();
}

/* The lines that are read next: the first ones and the address of their page, which the processor's
 * own prefetcher does not guess. */
static inline void sl_copy_fetch(const uint8_t *from)
{
	__builtin_prefetch(from);
	__builtin_prefetch(from + 64);
	__builtin_prefetch(from + 128);
	__builtin_prefetch(from + 192);
}

#endif
