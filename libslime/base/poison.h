/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that waits to be used again. In builds with the address sanitizer an access to it is
 * reported as one to freed memory is; in other builds this does nothing.
 */
#ifndef BASE_POISON_H
#define BASE_POISON_H

#include <stddef.h>

#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define SL_POISONS 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define SL_POISONS 1
#endif

#ifdef SL_POISONS
#include <sanitizer/asan_interface.h>

static inline void sl_poison(const void *at, size_t len)
{
	__asan_poison_memory_region(at, len);
}

/* Before it is used again, and before it is unmapped. */
static inline void sl_unpoison(const void *at, size_t len)
{
	__asan_unpoison_memory_region(at, len);
}
#else
static inline void sl_poison(const void *at, size_t len)
{
	(void)at;
	(void)len;
}

static inline void sl_unpoison(const void *at, size_t len)
{
	(void)at;
	(void)len;
}
#endif

#endif
