/* SPDX-License-Identifier: Apache-2.0 */
/* How much memory this process can still have, by the kernel's account. */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

#include <stdint.h>

/* Bytes. */
struct sl_memory {
	uint64_t ram;  /* without swapping; UINT64_MAX: not known */
	uint64_t swap; /* what swap could make free beyond that */
};

/*
 * The memory of the machine, but no more than the limits of our control group and of those above it
 * leave, of version 2 or 1. Caches of files count as free. root stands before /proc and /sys: ""
 * but in tests.
 */
void sl_memory_left(const char *root, struct sl_memory *out);

/* The most that there can be: of the machine, and within those limits, however much is in use now.
 */
void sl_memory_most(const char *root, struct sl_memory *out);

/* The sum, without overflow. */
static inline uint64_t sl_memory_total(const struct sl_memory *m)
{
	return m->ram > UINT64_MAX - m->swap ? UINT64_MAX : m->ram + m->swap;
}

#endif
