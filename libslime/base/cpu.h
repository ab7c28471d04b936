/* SPDX-License-Identifier: Apache-2.0 */
/* Support for fast paths: mostly hints to the CPU, on which only speed depends. */
#ifndef SL_BASE_CPU_H
#define SL_BASE_CPU_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* A variable of each thread, found without a call: the library is not loaded late and often. */
#define SL_PER_THREAD _Thread_local __attribute__((tls_model("initial-exec")))

/* We spin. */
static inline void sl_cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/* A fence of all that is before the last locked instruction and all that comes now: where that
 * instruction is one itself, it costs nothing. */
static inline void sl_cpu_fence_after_lock(void)
{
#if defined(__x86_64__) || defined(__i386__)
	atomic_signal_fence(memory_order_seq_cst);
#else
	atomic_thread_fence(memory_order_seq_cst);
#endif
}

/* The cache line of p will be read. */
static inline void sl_cpu_fetch(const void *p)
{
	__builtin_prefetch(p, 0);
}

/* The cache line of p will be written, and another CPU may have it: get it from there. */
static inline void sl_cpu_fetch_to_write(const void *p)
{
#if defined(__x86_64__)
	/* The compiler's own takes it only to read, unless told of a CPU that knows this one; those
	 * that do not know it pass over it. */
	__asm__ volatile("prefetchw %0" : : "m"(*(const char *)p));
#else
	__builtin_prefetch(p, 1);
#endif
}

/* The same for all lines of len bytes. */
static inline void sl_cpu_fetch_all_to_write(const uint8_t *p, size_t len)
{
	for (size_t i = 0; i < len; i += 64)
		sl_cpu_fetch_to_write(p + i);
}

#endif
