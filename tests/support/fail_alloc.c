/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tests/support/fail_alloc.h>

#define HAPPENED -1

static _Atomic long left; /* until it fails; 0: none does; HAPPENED: it did */

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_reallocarray(void *old, size_t n, size_t size);
char *__real_strdup(const char *text);
int __real_vasprintf(char **out, const char *fmt, va_list args);

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_reallocarray(void *old, size_t n, size_t size);
char *__wrap_strdup(const char *text);
int __wrap_vasprintf(char **out, const char *fmt, va_list args)
	__attribute__((format(printf, 2, 0)));

void fail_alloc_at(long n)
{
	atomic_store(&left, n);
}

bool fail_alloc_end(void)
{
	return atomic_exchange(&left, 0) == HAPPENED;
}

static bool fails(void)
{
	long n = atomic_load(&left);

	do {
		if (n <= 0)
			return false;
	} while (!atomic_compare_exchange_weak(&left, &n, n == 1 ? HAPPENED : n - 1));
	if (n > 1)
		return false;
	errno = ENOMEM;
	return true;
}

void *__wrap_malloc(size_t size)
{
	return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
	return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
	return fails() ? NULL : __real_aligned_alloc(alignment, size);
}

void *__wrap_realloc(void *old, size_t size)
{
	return fails() ? NULL : __real_realloc(old, size);
}

void *__wrap_reallocarray(void *old, size_t n, size_t size)
{
	return fails() ? NULL : __real_reallocarray(old, n, size);
}

char *__wrap_strdup(const char *text)
{
	return fails() ? NULL : __real_strdup(text);
}

int __wrap_vasprintf(char **out, const char *fmt, va_list args)
{
	return fails() ? -1 : __real_vasprintf(out, fmt, args);
}

void *fail_alloc_malloc(size_t size)
{
	return malloc(size);
}

void *fail_alloc_realloc(void *old, size_t size)
{
	return realloc(old, size);
}

void fail_alloc_free(void *memory)
{
	free(memory);
}
