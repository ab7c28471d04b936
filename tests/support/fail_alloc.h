/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that runs out: the n-th allocation of the code that is linked into the test fails. Only
 * calls from our own libraries count, which are wrapped by the linker; shared libraries are asked
 * to use ours where they can be.
 */
#ifndef TESTS_SUPPORT_FAIL_ALLOC_H
#define TESTS_SUPPORT_FAIL_ALLOC_H

#include <stdbool.h>
#include <stddef.h>

/* The n-th allocation from now fails, of all threads, n >= 1. */
void fail_alloc_at(long n);

/* None does any more: whether one did. */
bool fail_alloc_end(void);

/* For libraries that take functions. */
void *fail_alloc_malloc(size_t size);
void *fail_alloc_realloc(void *old, size_t size);
void fail_alloc_free(void *memory);

#endif
