/* SPDX-License-Identifier: Apache-2.0 */
/* Counts what the process allocates while counting is on, on any thread. For one file of a program:
 * without sanitizers it defines malloc. */
#ifndef TEST_ALLOCATIONS_H
#define TEST_ALLOCATIONS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

static _Atomic bool counting;
static _Atomic uint64_t n_allocations;

static void note_allocation(void)
{
	if (counting)
		n_allocations++;
}

#ifdef __has_feature /* clang */
#define ALLOCATIONS_SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ALLOCATIONS_SANITIZED 1
#else
#define ALLOCATIONS_SANITIZED 0
#endif

#if ALLOCATIONS_SANITIZED
/* As sanitizer/allocator_interface.h has it, which comes with clang only. */
int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void *ptr,
								size_t len),
					      void (*on_free)(const volatile void *ptr));

static void on_malloc(const volatile void *ptr, size_t len)
{
	(void)ptr;
	(void)len;
	note_allocation();
}

static void on_free(const volatile void *ptr)
{
	(void)ptr;
}

static void hook_malloc(void)
{
	assert_true(__sanitizer_install_malloc_and_free_hooks(on_malloc, on_free) > 0);
}
#else
void *__libc_malloc(size_t len);
void *__libc_calloc(size_t n, size_t len);
void *__libc_realloc(void *ptr, size_t len);

void *malloc(size_t len)
{
	note_allocation();
	return __libc_malloc(len);
}

void *calloc(size_t n, size_t len)
{
	note_allocation();
	return __libc_calloc(n, len);
}

void *realloc(void *ptr, size_t len)
{
	note_allocation();
	return __libc_realloc(ptr, len);
}

static void hook_malloc(void)
{
}
#endif

/* Install it if need be, and say whether it counts. */
static bool hook_works(void)
{
	/* Volatile, or the compiler sees that it could do without. */
	void *volatile something;

	hook_malloc();
	counting = true;
	something = malloc(1);
	counting = false;
	free(something);
	return n_allocations > 0;
}

#endif
