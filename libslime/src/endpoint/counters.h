/* SPDX-License-Identifier: Apache-2.0 */
/* The counters of an endpoint for one kind of operation. */
#ifndef SL_COUNTERS_H
#define SL_COUNTERS_H

#include <stdatomic.h>
#include <stdint.h>

struct sl_kind_counters {
	_Atomic uint64_t submitted;
	_Atomic uint64_t completed;
	_Atomic uint64_t failed;
	_Atomic uint64_t bytes;
};

/* Where one thread at a time counts. */
static inline void sl_endpoint_count_alone(struct sl_kind_counters *c, int status, uint64_t bytes)
{
	_Atomic uint64_t *n = status ? &c->failed : &c->completed;

	atomic_store_explicit(n, atomic_load_explicit(n, memory_order_relaxed) + 1,
			      memory_order_relaxed);
	if (!status)
		atomic_store_explicit(&c->bytes,
				      atomic_load_explicit(&c->bytes, memory_order_relaxed) + bytes,
				      memory_order_relaxed);
}

#endif
