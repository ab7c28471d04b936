/* SPDX-License-Identifier: Apache-2.0 */
/* How fast the rails of a connection are beside each other, and what each is given of a batch. */
#include "base/clock.h"
#include "src/transport/rdma/conn.h"
#include "src/transport/rdma/path.h"
#include "src/transport/rdma/share.h"

void rdma_path_weigh(struct rdma_conn *c)
{
	uint64_t max_rate = 0;

	for (unsigned i = 0; i < c->n_paths; i++) {
		const struct rdma_path *p = &c->paths[i];

		if (p->usable && p->share.rate > max_rate)
			max_rate = p->share.rate;
	}
	for (unsigned i = 0; i < c->n_paths; i++)
		c->paths[i].weight = rdma_share_weight(&c->paths[i].share, max_rate);
}

void rdma_path_took(struct rdma_path *p, uint64_t n_bytes)
{
	p->c->moved_ns = sl_clock_ns();
	rdma_share_begin(&p->share, n_bytes, p->c->moved_ns);
}

void rdma_path_measure(struct rdma_path *p, uint64_t n_bytes)
{
	uint64_t rate = p->share.rate;

	p->c->moved_ns = sl_clock_ns();
	rdma_share_end(&p->share, n_bytes, p->c->moved_ns);
	if (p->share.rate != rate)
		rdma_path_weigh(p->c);
}

uint64_t rdma_path_part(const struct rdma_path *p, uint64_t all_bytes)
{
	const struct rdma_conn *c = p->c;
	uint64_t sum = 0;

	for (unsigned i = 0; i < c->n_paths; i++)
		sum += c->paths[i].usable ? c->paths[i].weight : 0;
	/* Without the product, which need not fit. */
	return sum ? all_bytes / sum * p->weight + all_bytes % sum * p->weight / sum : all_bytes;
}

/* Others are measured with what they carry anyhow. */
bool rdma_path_is_due(const struct rdma_path *p)
{
	return p->weight < RDMA_SHARE_WHOLE / 2 && rdma_share_is_stale(&p->share, p->c->moved_ns);
}
