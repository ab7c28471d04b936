/* SPDX-License-Identifier: Apache-2.0 */
/* Completions: each is looked up, and goes to the connection of its queue pair. */
#include <stdio.h>

#include "src/core/lock.h"
#include "src/transport/rdma/completion.h"
#include "src/transport/rdma/conn.h"
#include "src/transport/rdma/cq.h"
#include "src/transport/rdma/error.h"
#include "src/transport/rdma/limits.h"
#include "src/transport/rdma/msg.h"
#include "src/transport/rdma/nic.h"
#include "src/transport/rdma/path.h"
#include "src/transport/rdma/qp.h"
#include "src/transport/rdma/receive.h"
#include "src/transport/rdma/transport.h"
#include "src/transport/rdma/work.h"

/* NULL: of a life that is over. */
static struct rdma_qp *find(struct rdma_transport *t, uint64_t wr_id)
{
	struct rdma_entry *e = &t->table[wr_id >> RDMA_ID_SLOT_SHIFT];
	struct rdma_qp *q = atomic_load_explicit(&e->qp, memory_order_acquire);
	uint64_t mask = ~(uint64_t)(RDMA_ID_RECEIVE | UINT32_MAX);

	return q && atomic_load_explicit(&e->wr_id, memory_order_relaxed) == (wr_id & mask) ? q
											    : NULL;
}

static void check_drained(struct rdma_qp *q)
{
	if (q->drained || !q->marker_seen || q->n_posted)
		return;
	q->drained = true;
	rdma_conn_call(q->conn);
}

/* Requests complete in their order: this one, and all before it that were not signaled. */
static void sent(struct rdma_qp *q, uint32_t number)
{
	struct rdma_conn *c = q->conn;
	bool ready = false, left;

	sl_lock(&c->lock);
	/* Unless it is told twice. */
	if (number - q->tail < q->head - q->tail) {
		uint64_t n_bytes = q->n_bytes;

		while (q->tail != number + 1) {
			const struct rdma_sent *s = rdma_qp_entry(q, q->tail++);

			ready |= s->ready;
			rdma_work_reclaim(q, s);
		}
		n_bytes -= q->n_bytes;
		q->path->n_moved += n_bytes;
		if (c->n_paths > 1 && n_bytes)
			rdma_path_measure(q->path, n_bytes);
		if (rdma_msg_waits(c))
			rdma_msg_pump(c);
		if (rdma_work_waits(c))
			rdma_work_pump(c);
	}
	left = atomic_load(&c->left);
	sl_unlock(&c->lock);
	if (left)
		rdma_conn_call(c);
	if (ready)
		rdma_conn_heard(c, q->path);
}

/* Whether the completion after this one says all that it does: then this one is left out. */
static bool is_said_again(const struct ibv_wc *wc, const struct ibv_wc *next)
{
	/* Not backwards: a number that was told before says nothing new. */
	return wc->status == IBV_WC_SUCCESS && next->status == IBV_WC_SUCCESS &&
	       !(wc->wr_id & RDMA_ID_RECEIVE) && wc->wr_id >> 32 == next->wr_id >> 32 &&
	       (int32_t)((uint32_t)next->wr_id - (uint32_t)wc->wr_id) >= 0;
}

/* A request failed: whether it is a message. The op that it is a part of learns the cause, unless
 * another rail may do better. */
static bool blame(struct rdma_qp *q, uint32_t number, enum ibv_wc_status status)
{
	bool may_go_on = q->conn->n_paths > 1 && rdma_error_is_of_rail(status);
	bool of_message = false;

	sl_lock(&q->conn->lock);
	if (number - q->tail < q->head - q->tail) {
		const struct rdma_sent *s = rdma_qp_entry(q, number);

		of_message = s->frame;
		if (s->op && !may_go_on)
			rdma_work_blame(s->op, rdma_error_status(status, of_message));
	}
	sl_unlock(&q->conn->lock);
	return of_message;
}

/* Of a message of ours or not. */
static void qp_failed(struct rdma_conn *c, struct rdma_qp *q, const struct ibv_wc *wc,
		      bool of_message)
{
	int cause = rdma_error_status(wc->status, of_message);
	bool flushed = wc->status == IBV_WC_WR_FLUSH_ERR;
	enum rdma_path_state was = q->path->state;
	bool is_news = was != RDMA_PATH_FALLEN && was != RDMA_PATH_SPOILED;
	uint32_t state = rdma_state(c);
	char why[160];

	if (flushed && (atomic_load(&c->ending) || (state < RDMA_CONN_UP && !is_news)) &&
	    state != RDMA_CONN_LEAVING)
		return;
	rdma_error_text(q, wc, of_message, why, sizeof(why));
	sl_lock(&c->lock);
	if (state < RDMA_CONN_UP) {
		if (!atomic_load(&c->ending))
			rdma_conn_lose_locked(q->path, cause, why);
	} else if (!q->path->failed &&
		   !(rdma_error_is_of_rail(wc->status) && rdma_path_leave(q->path, why))) {
		rdma_conn_end_because(c, cause, why, false, flushed);
	}
	sl_unlock(&c->lock);
}

static __attribute__((cold, noinline)) void failed(struct rdma_qp *q, uint32_t number,
						   const struct ibv_wc *wc)
{
	bool of_message = false;

	if (!(wc->wr_id & RDMA_ID_RECEIVE) && wc->status != IBV_WC_WR_FLUSH_ERR)
		of_message = blame(q, number, wc->status);
	qp_failed(q->conn, q, wc, of_message);
}

/* A symbol of its own: tests/bench/count.sh counts what it comes to. */
void rdma_completed(struct rdma_transport *t, const struct ibv_wc *wc)
{
	struct rdma_qp *q = find(t, wc->wr_id);
	uint32_t number = (uint32_t)wc->wr_id;

	if (!q || !q->conn)
		return;
	if (wc->wr_id & RDMA_ID_RECEIVE)
		q->n_posted--;
	else if (q->marked && number == q->marker)
		q->marker_seen = true;

	if (wc->status != IBV_WC_SUCCESS) {
		failed(q, number, wc);
	} else if (wc->wr_id & RDMA_ID_RECEIVE) {
		q->n_received++;
		rdma_receive(q->conn, q, number, wc);
	} else {
		sent(q, number);
	}
	if (q->draining)
		check_drained(q);
}

__attribute__((always_inline)) static inline unsigned poll(struct rdma_cq *cq)
{
	struct ibv_wc wc[RDMA_POLL];
	unsigned sum = 0;
	int n = RDMA_POLL;

	for (unsigned i = 0; i < RDMA_POLLS && n == RDMA_POLL; i++) {
		n = ibv_poll_cq(cq->ibv, RDMA_POLL, wc);
		for (int k = 0; k < n; k++) {
			if (k + 1 < n && is_said_again(&wc[k], &wc[k + 1]))
				continue;
			rdma_completed(cq->nic->t, &wc[k]);
		}
		sum += n > 0 ? (unsigned)n : 0;
	}
	/* The completions before the bad one may be taken by now, and no connection has them. */
	if (n < 0)
		rdma_nic_cq_failed(cq, "a completion queue cannot be polled");
	return sum;
}

unsigned rdma_completions_poll(struct rdma_nic *nic)
{
	unsigned n_cqs = atomic_load_explicit(&nic->n_cqs, memory_order_acquire);
	unsigned n = 0;

	for (unsigned i = 0; i < n_cqs; i++) {
		struct rdma_cq *cq = atomic_load_explicit(&nic->cqs[i], memory_order_acquire);

		if (!cq)
			continue;
		n += poll(cq);
		if (atomic_load_explicit(&cq->failed, memory_order_relaxed))
			rdma_cq_reap(nic, i);
	}
	return n;
}
