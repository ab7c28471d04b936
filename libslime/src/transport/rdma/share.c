/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "src/transport/rdma/share.h"

/* The weight of a measurement beside those before it. */
#define PARTS 4

void rdma_share_begin(struct rdma_share *s, uint64_t n_bytes, uint64_t now_ns)
{
	if (!s->n_bytes) {
		s->since_ns = now_ns;
		s->n_done = 0;
	}
	s->n_bytes += n_bytes;
}

void rdma_share_end(struct rdma_share *s, uint64_t n_bytes, uint64_t now_ns)
{
	uint64_t rate;

	s->n_bytes -= n_bytes < s->n_bytes ? n_bytes : s->n_bytes;
	s->n_done += n_bytes;
	if (s->n_done < (s->n_bytes ? RDMA_SHARE_SAMPLE : RDMA_SHARE_LEAST) ||
	    now_ns <= s->since_ns)
		return;
	rate = s->n_done * SL_NS_PER_MS / (now_ns - s->since_ns);
	if (s->rate && now_ns - s->measured_ns < RDMA_SHARE_STALE_NS)
		rate = ((PARTS - 1) * s->rate + rate) / PARTS;
	s->rate = rate ? rate : 1;
	s->since_ns = s->measured_ns = now_ns;
	s->n_done = 0;
}

void rdma_share_reset(struct rdma_share *s)
{
	*s = (struct rdma_share){ 0 };
}

uint32_t rdma_share_weight(const struct rdma_share *s, uint64_t max_rate)
{
	uint32_t weight;

	/* A rail that was not measured yet counts as the fastest. */
	if (!s->rate || s->rate >= max_rate)
		return RDMA_SHARE_WHOLE;
	weight = (uint32_t)((double)s->rate / (double)max_rate * RDMA_SHARE_WHOLE);
	return weight ? weight : 1;
}

bool rdma_share_is_stale(const struct rdma_share *s, uint64_t now_ns)
{
	return s->rate && !s->n_bytes && now_ns >= s->measured_ns + RDMA_SHARE_STALE_NS;
}
