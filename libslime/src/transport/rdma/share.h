/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast a rail is, of what it did: bytes while it had some on the way all the time. What it is
 * given of a batch follows from that. No clock of its own, no lock.
 */
#ifndef SL_RDMA_SHARE_H
#define SL_RDMA_SHARE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

/* So many bytes make a measurement; fewer, when nothing is on the way behind them. */
#define RDMA_SHARE_SAMPLE (UINT64_C(256) << 10)
#define RDMA_SHARE_LEAST  (UINT64_C(64) << 10)
/* One that is older says little. */
#define RDMA_SHARE_STALE_NS (100 * SL_NS_PER_MS)

struct rdma_share {
	uint64_t rate;	   /* bytes in a millisecond, of late; 0: not measured */
	uint64_t n_bytes;  /* on the way */
	uint64_t since_ns; /* of what is measured now */
	uint64_t n_done;
	uint64_t measured_ns; /* when, last */
};

/* Bytes leave; bytes have arrived. */
void rdma_share_begin(struct rdma_share *s, uint64_t n_bytes, uint64_t now_ns);
void rdma_share_end(struct rdma_share *s, uint64_t n_bytes, uint64_t now_ns);
/* Nothing is on the way any more, and it may be another when it comes back. */
void rdma_share_reset(struct rdma_share *s);

/* The weight of one beside the fastest of those in use, which has max_rate. 1 to RDMA_SHARE_WHOLE.
 */
#define RDMA_SHARE_WHOLE 1024
uint32_t rdma_share_weight(const struct rdma_share *s, uint64_t max_rate);

/* Whether it is idle, and was measured too long ago. */
bool rdma_share_is_stale(const struct rdma_share *s, uint64_t now_ns);

#endif
