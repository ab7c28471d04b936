/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long operations take: of each kind and transport one operation of SLIME_LATENCY_EVERY of an
 * endpoint is timed, and those that succeed are counted here. So most operations read no clock, and
 * threads meet at these counters seldom.
 */
#ifndef SL_LATENCY_H
#define SL_LATENCY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <slime/context.h>
#include <slime/stats.h>

struct sl_latency {
	_Atomic uint64_t counts[SLIME_LATENCY_BUCKETS];
	_Atomic uint64_t sum_ns;
};

struct sl_latencies {
	struct sl_latency of[SLIME_TRANSPORT_MAX][SLIME_KIND_MAX];
};

/* Whether one of the operations from number `from` on, up to but without number `to`, is timed. */
static inline bool sl_latency_is_due(uint64_t from, uint64_t to)
{
	return (from + SLIME_LATENCY_EVERY - 1) / SLIME_LATENCY_EVERY !=
	       (to + SLIME_LATENCY_EVERY - 1) / SLIME_LATENCY_EVERY;
}

void sl_latency_add(struct sl_latency *l, uint64_t ns);
void sl_latency_read(const struct sl_latency *l, struct slime_latency *out);

#endif
