/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "src/core/copy.h"

#if defined(__x86_64__)
#include <emmintrin.h>

#define STEP 64

/* Up to this length the C library uses the string moves. */
#define STRING_MOVES_UNTIL (256 * 1024)

/*
 * On Zen 3 "rep movsb" moves 3 GB/s instead of 38 when the target is less than a cache line behind
 * the source, counted within a page.
 */
static bool string_moves_crawl(const void *to, const void *from)
{
	size_t ahead = ((uintptr_t)to - (uintptr_t)from) & 4095;

	return ahead && ahead < STEP;
}

static __attribute__((noinline)) void by_vectors(uint8_t *to, const uint8_t *from, size_t len)
{
	size_t at;

	for (at = 0; at + STEP <= len; at += STEP) {
		const __m128i *f = (const __m128i *)(const void *)(from + at);
		__m128i *t = (__m128i *)(void *)(to + at);
		__m128i a = _mm_loadu_si128(f), b = _mm_loadu_si128(f + 1);
		__m128i c = _mm_loadu_si128(f + 2), d = _mm_loadu_si128(f + 3);

		_mm_storeu_si128(t, a);
		_mm_storeu_si128(t + 1, b);
		_mm_storeu_si128(t + 2, c);
		_mm_storeu_si128(t + 3, d);
	}
	memcpy(to + at, from + at, len - at);
}

/* Where the C library stops to use them, at the size of a CPU's own cache, a source that is in no
 * cache takes longer. */
static __attribute__((noinline)) void by_parts(uint8_t *to, const uint8_t *from, size_t len)
{
	while (len > STRING_MOVES_UNTIL) {
		memcpy(to, from, STRING_MOVES_UNTIL);
		to += STRING_MOVES_UNTIL;
		from += STRING_MOVES_UNTIL;
		len -= STRING_MOVES_UNTIL;
	}
	memcpy(to, from, len);
}

void sl_copy_long(void *to, const void *from, size_t len)
{
	if (string_moves_crawl(to, from))
		by_vectors(to, from, len);
	else if (len <= STRING_MOVES_UNTIL)
		memcpy(to, from, len);
	else
		by_parts(to, from, len);
}

/* A line that is written in two parts goes to memory twice: begin at a whole one. */
static size_t to_next_line(const uint8_t *to)
{
	return -(uintptr_t)to & (STEP - 1);
}

void sl_copy_stream(void *to_, const void *from_, size_t len)
{
	const uint8_t *from = from_;
	uint8_t *to = to_;
	size_t at = to_next_line(to);

	if (len < 2 * STEP) {
		memcpy(to, from, len);
		return;
	}
	memcpy(to, from, at);
	for (; at + STEP <= len; at += STEP) {
		const __m128i *f = (const __m128i *)(const void *)(from + at);
		__m128i *t = (__m128i *)(void *)(to + at);
		__m128i a = _mm_loadu_si128(f), b = _mm_loadu_si128(f + 1);
		__m128i c = _mm_loadu_si128(f + 2), d = _mm_loadu_si128(f + 3);

		_mm_stream_si128(t, a);
		_mm_stream_si128(t + 1, b);
		_mm_stream_si128(t + 2, c);
		_mm_stream_si128(t + 3, d);
	}
	memcpy(to + at, from + at, len - at);
}

void sl_copy_stream_fence(void)
{
	_mm_sfence();
}

#else

void sl_copy_long(void *to, const void *from, size_t len)
{
	memcpy(to, from, len);
}

void sl_copy_stream(void *to, const void *from, size_t len)
{
	memcpy(to, from, len);
}

void sl_copy_stream_fence(void)
{
}

#endif
