/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "src/transport/rdma/conn.h"
#include "src/transport/rdma/move.h"
#include "src/transport/rdma/msg.h"
#include "src/transport/rdma/path.h"
#include "src/transport/rdma/qp.h"
#include "src/transport/rdma/wire.h"
#include "src/transport/rdma/work.h"

/*
 * Requests are executed in their order, and so those before a message that arrived have been: the
 * number behind the last such message, of count that arrived.
 */
static int find_executed(struct rdma_qp *q, uint64_t count, uint32_t *out)
{
	uint64_t n = q->n_acked;

	/* The peer's device took some that the peer has not seen: they cannot be sent again. */
	if (count < n)
		return -ECONNRESET;
	*out = q->tail;
	for (uint32_t i = q->tail; i != q->head && n < count; i++) {
		if (!rdma_qp_entry(q, i)->frame)
			continue;
		n++;
		*out = i + 1;
	}
	return n == count ? 0 : -EPROTO;
}

/* Executed work is done; but a read's bytes may not have come. The rest is for another rail. */
static void sort_out(struct rdma_qp *q, struct rdma_sent *s, bool executed)
{
	struct slime_op *op = s->op;

	if (op && !s->frame && (!executed || op->work.kind == SLIME_KIND_READ)) {
		rdma_work_again(op, s);
		return;
	}
	if (s->frame && !executed) {
		if (!op)
			return; /* put back below */
		rdma_work_unsaid(op);
	}
	s->probe = false;
	q->path->n_moved += executed ? s->len : 0;
	rdma_work_reclaim(q, s);
	*s = (struct rdma_sent){ 0 };
}

/* From the last on, so that they are in their order again, and before all that wait. */
static int put_messages_back(struct rdma_qp *q)
{
	struct rdma_conn *c = q->conn;

	for (uint32_t i = q->head; i-- != q->tail;) {
		struct rdma_sent *s = rdma_qp_entry(q, i);
		struct sl_msg m;

		if (!s->frame)
			continue;
		rdma_frame_read(&m, s->frame);
		*s = (struct rdma_sent){ 0 };
		/* A rail on whose end both agreed is up. */
		if (m.kind == RDMA_READY)
			continue;
		/* It does not wait for agreements. */
		if (m.kind == RDMA_STOPPED)
			rdma_path_tell(&c->paths[m.slot], m.w[0]);
		else if (!rdma_msg_put_back(c, &m))
			return -ENOBUFS;
	}
	return 0;
}

static int move_qp(struct rdma_qp *q, uint64_t count)
{
	uint32_t executed;
	int ret = find_executed(q, count, &executed);

	if (ret)
		return ret;
	for (uint32_t i = q->tail; i != q->head; i++)
		sort_out(q, rdma_qp_entry(q, i), i - q->tail < executed - q->tail);
	ret = put_messages_back(q);
	q->n_acked = q->n_received = 0;
	return ret;
}

int rdma_move_begin(struct rdma_path *p, uint64_t count)
{
	int ret = 0;

	/* The last message of a rail that never led is a READY, which no end needs any more,
	 * wherever it is, and which tells nothing of requests before it. And so is the first of
	 * another, whose peer's device took it and lost it. */
	if (!p->led)
		count = p->qps[0]->n_acked;
	else if (p->greeted && !count && p->qps[0]->n_acked)
		count = 1;
	for (unsigned i = 0; i < p->n_qps && !ret; i++)
		ret = move_qp(p->qps[i], i ? 0 : count);
	if (!ret && !p->moving) {
		p->moving = true;
		p->c->n_moving++;
	}
	return ret;
}
