/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "src/transport/rdma/rdma.h"

/* A work request's id: where its queue pair is in the table, which of its lives it is, whether it
 * is a receive, and its number or buffer. */
#define ID_SLOT_SHIFT 48
#define ID_LIFE_MASK  (UINT64_C(0x7fff) << 33)
#define ID_RECEIVE    (UINT64_C(1) << 32)
#define ID_LIFE(life) ((uint64_t)(life) << 33 & ID_LIFE_MASK)

/* Of a place in the table that stays a queue pair's which could not be destroyed: no id is like it.
 */
#define KEPT UINT64_MAX

/* ---- the table ---- */

int rdma_table_add(struct rdma_transport *t, struct rdma_qp *q)
{
	const uint32_t n = 1u << RDMA_TABLE_BITS;
	int ret = -ENOSPC;

	pthread_mutex_lock(&t->lock);
	for (uint32_t i = 0; i < n && ret; i++) {
		uint32_t slot = t->next_slot++ % n;

		if (atomic_load(&t->table[slot].qp) || atomic_load(&t->table[slot].wr_id) == KEPT)
			continue;
		q->slot = slot;
		atomic_store(&t->table[slot].qp, q);
		ret = 0;
	}
	pthread_mutex_unlock(&t->lock);
	return ret;
}

void rdma_qp_disown(struct rdma_qp *q)
{
	struct rdma_transport *t = q->nic->t;

	pthread_mutex_lock(&t->lock);
	q->wr_id = (uint64_t)q->slot << ID_SLOT_SHIFT | ID_LIFE(++t->next_life);
	atomic_store(&t->table[q->slot].wr_id, q->wr_id);
	pthread_mutex_unlock(&t->lock);
}

/* Of one that stays, events name that place, as long as the device is there. */
static void leave_place(struct rdma_qp *q, uint32_t slot)
{
	struct rdma_entry *e = &q->nic->t->table[slot];

	if (q->stays && !atomic_load(&q->nic->dead))
		atomic_store(&e->wr_id, KEPT);
	atomic_store(&e->qp, NULL);
}

void rdma_table_remove(struct rdma_qp *q)
{
	leave_place(q, q->slot);
}

/* NULL: of a life that is over. */
static struct rdma_qp *find(struct rdma_transport *t, uint64_t wr_id)
{
	struct rdma_entry *e = &t->table[wr_id >> ID_SLOT_SHIFT];
	struct rdma_qp *q = atomic_load_explicit(&e->qp, memory_order_acquire);
	uint64_t mask = ~(uint64_t)(ID_RECEIVE | UINT32_MAX);

	return q && atomic_load_explicit(&e->wr_id, memory_order_relaxed) == (wr_id & mask) ? q
											    : NULL;
}

/* ---- life ---- */

static struct ibv_qp *create_ibv(struct rdma_qp *q, struct ibv_pd *pd, uint32_t max_inline)
{
	struct ibv_qp_init_attr attr = {
		/* An event of one that cannot be destroyed may come when we have let go of it. */
		.qp_context = &q->nic->t->table[q->slot],
		.send_cq = q->cq->ibv,
		.recv_cq = q->cq->ibv,
		.cap = { .max_send_wr = RDMA_SENDS,
			 .max_recv_wr = q->n_receives,
			 .max_send_sge = q->nic->n_sges,
			 .max_recv_sge = 1,
			 .max_inline_data = max_inline },
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *ibv = ibv_create_qp(pd, &attr);

	q->max_inline = attr.cap.max_inline_data;
	return ibv;
}

/* Devices say no to more inline bytes than they can, and do not say beforehand how many. */
static int create_with_inline(struct rdma_qp *q, struct ibv_pd *pd)
{
	static const uint32_t wishes[] = { RDMA_INLINE, RDMA_FRAME_PITCH, 0 };
	int err = 0;

	for (size_t i = 0; i < sizeof(wishes) / sizeof(wishes[0]) && !q->ibv; i++) {
		errno = 0;
		q->ibv = create_ibv(q, pd, wishes[i]);
		err = errno ? errno : EIO;
		if (!q->ibv && err != EINVAL)
			break;
	}
	q->is_new = true;
	return q->ibv ? 0 : -err;
}

/* Room for all that it may have to say. */
static int reserve(struct rdma_qp *q)
{
	struct rdma_cq *cq;
	int ret = rdma_cq_reserve(q->nic, RDMA_SENDS + q->n_receives, &cq);

	if (!ret)
		atomic_store(&q->cq, cq);
	return ret;
}

static void release(struct rdma_qp *q, struct rdma_cq *cq)
{
	rdma_cq_release(cq, RDMA_SENDS + q->n_receives);
}

int rdma_qp_create(struct rdma_nic *nic, struct ibv_pd *pd, uint32_t n_receives,
		   struct rdma_qp **out)
{
	struct rdma_qp *q = calloc(1, sizeof(*q));
	int ret;

	if (!q)
		return -ENOMEM;
	q->nic = nic;
	q->posting = nic->t->base.env->posting;
	q->n_receives = n_receives;
	q->sent = calloc(RDMA_SENDS, sizeof(*q->sent));
	ret = q->sent ? sl_auth_random(&q->psn, sizeof(q->psn)) : -ENOMEM;
	if (ret)
		goto free_q;
	q->psn &= RDMA_NUMBER_MASK;
	ret = reserve(q);
	if (ret)
		goto free_q;
	ret = rdma_table_add(nic->t, q);
	if (ret)
		goto release;
	ret = create_with_inline(q, pd);
	if (ret)
		goto remove;
	*out = q;
	return 0;

remove:
	rdma_table_remove(q);
release:
	release(q, q->cq);
free_q:
	free(q->sent);
	free(q);
	return ret;
}

/* The former one, which the device keeps, has its room and its place for good. */
static int part_from_former(struct rdma_qp *q)
{
	struct rdma_cq *cq = atomic_load(&q->cq);
	uint32_t slot = q->slot;
	int ret = reserve(q);

	if (ret)
		return ret;
	ret = rdma_table_add(q->nic->t, q);
	if (ret) {
		release(q, atomic_exchange(&q->cq, cq));
		return ret;
	}
	leave_place(q, slot);
	rdma_qp_disown(q);
	q->stays = false;
	return 0;
}

/* In a queue that works. */
static int reserve_again(struct rdma_qp *q)
{
	struct rdma_cq *former = atomic_load(&q->cq);
	int ret;

	if (q->stays)
		return part_from_former(q);
	if (!atomic_load(&former->failed))
		return 0;
	ret = reserve(q);
	if (!ret)
		release(q, former);
	return ret;
}

int rdma_qp_renew(struct rdma_qp *q, struct ibv_pd *pd)
{
	int ret = sl_auth_random(&q->psn, sizeof(q->psn));

	if (!ret)
		ret = reserve_again(q);
	if (ret)
		return ret;
	q->psn &= RDMA_NUMBER_MASK;
	q->n_heard = 0;
	return create_with_inline(q, pd);
}

int rdma_qp_close(struct rdma_qp *q)
{
	uint32_t num = q->ibv ? q->ibv->qp_num : 0;
	int ret = q->ibv ? ibv_destroy_qp(q->ibv) : 0;

	q->stays |= ret != 0;
	if (ret && !rdma_nic_took_along(q->nic, ret))
		sl_error("rdma", "%s: queue pair 0x%x cannot be destroyed: %s", q->nic->device.name,
			 num, strerror(ret));
	q->ibv = NULL;
	q->draining = true;
	q->drained = true;
	return -ret;
}

void rdma_qp_free(struct rdma_qp *q)
{
	rdma_table_remove(q);
	/* What it has to say still goes there. */
	if (!q->stays)
		release(q, q->cq);
	free(q->sent);
	free(q);
}

/* ---- down ---- */

/* A request behind all others: once its flush was seen nothing of the send queue is left. */
static bool post_marker(struct rdma_qp *q)
{
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_RDMA_WRITE };

	/* Before it is posted: the next poll may find its flush. */
	q->marker = q->head;
	q->marked = true;
	*rdma_qp_entry(q, q->head) = (struct rdma_sent){ 0 };
	rdma_qp_number(q, &wr, q->head, true);
	q->head++;
	return ibv_post_send(q->ibv, &wr, &bad) == 0;
}

/* Some devices take no request in ERR (bnxt_re): then the flushes of the receives have to tell,
 * which come behind all that was done before. */
static void do_without_marker(struct rdma_qp *q)
{
	q->marker_seen = true;
	/* Who takes the last of them this moment looks the other way round. */
	if (!q->n_posted)
		q->drained = true;
}

void rdma_qp_kill(struct rdma_qp *q)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	bool killed;

	/* It was, or is no more. */
	if (q->marked || !q->ibv)
		return;

	/* From here on no receive is posted: soft-RoCE does not flush those of a queue pair in ERR.
	 */
	q->draining = true;
	killed = ibv_modify_qp(q->ibv, &attr, IBV_QP_STATE) == 0;
	sl_lock(&q->conn->lock);
	/* A device that cannot even do that flushes nothing, and a completion queue that failed
	 * tells of nothing: destroying the queue pair ends it. */
	if (!killed || atomic_load(&q->cq->failed))
		q->drained = true;
	else if (!post_marker(q))
		do_without_marker(q);
	sl_unlock(&q->conn->lock);
}

/* ---- work ---- */

int rdma_qp_probe(struct rdma_qp *q)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE };

	*rdma_qp_entry(q, q->head) = (struct rdma_sent){ .probe = true };
	rdma_qp_number(q, &wr, q->head, true);
	return rdma_qp_post(q, &wr, 1);
}

int rdma_qp_post_receives(struct rdma_qp *q, const uint32_t *which, uint32_t n)
{
	struct ibv_recv_wr wrs[RDMA_POLL];
	struct ibv_sge sges[RDMA_POLL];
	struct ibv_recv_wr *bad = wrs;
	int ret;

	for (uint32_t k = 0; k < n; k++) {
		sges[k] = (struct ibv_sge){
			.addr = (uintptr_t)(q->receives + which[k] * RDMA_FRAME_PITCH),
			.length = RDMA_FRAME_PITCH,
			.lkey = q->lkey,
		};
		wrs[k] = (struct ibv_recv_wr){
			.wr_id = q->wr_id | ID_RECEIVE | which[k],
			.next = k + 1 < n ? &wrs[k + 1] : NULL,
			.sg_list = &sges[k],
			.num_sge = 1,
		};
	}
	if (!n)
		return 0;
	q->n_posted += n; /* before the first can complete */
	ret = ibv_post_recv(q->ibv, wrs, &bad);
	if (ret)
		q->n_posted -= n - (uint32_t)(bad - wrs);
	return ret;
}

void rdma_qp_post_returned(struct rdma_qp *q)
{
	uint32_t n = q->n_returned;

	q->n_returned = 0;
	if (rdma_qp_post_receives(q, q->returned, n)) {
		sl_lock(&q->conn->lock);
		rdma_path_fail_locked(q->path, -EIO, "a receive cannot be posted");
		sl_unlock(&q->conn->lock);
	}
}

/* ---- completions ---- */

static void look_whether_drained(struct rdma_qp *q)
{
	if (q->drained || !q->marker_seen || q->n_posted)
		return;
	q->drained = true;
	rdma_conn_call(q->conn);
}

static inline void reclaim(struct rdma_qp *q, const struct rdma_sent *s)
{
	q->n_bytes -= s->len;
	q->n_acked += s->frame != NULL;
	if (s->key)
		rdma_key_put(q->conn, s->key);
	if (s->bye)
		atomic_store(&q->conn->left, true);
	if (s->probe)
		rdma_path_probed(q->path);
	if (s->last)
		rdma_work_done(q->conn, s->op);
}

void rdma_qp_reclaim(struct rdma_qp *q, const struct rdma_sent *s)
{
	reclaim(q, s);
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
			reclaim(q, s);
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

bool rdma_qp_is_said_again(const struct ibv_wc *wc, const struct ibv_wc *next)
{
	/* Not backwards: one that is told twice is no news. */
	return wc->status == IBV_WC_SUCCESS && next->status == IBV_WC_SUCCESS &&
	       !(wc->wr_id & ID_RECEIVE) && wc->wr_id >> 32 == next->wr_id >> 32 &&
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

static __attribute__((cold, noinline)) void failed(struct rdma_qp *q, uint32_t number,
						   const struct ibv_wc *wc)
{
	bool of_message = false;

	if (!(wc->wr_id & ID_RECEIVE) && wc->status != IBV_WC_WR_FLUSH_ERR)
		of_message = blame(q, number, wc->status);
	rdma_conn_qp_failed(q->conn, q, wc, of_message);
}

void rdma_qp_completed(struct rdma_transport *t, const struct ibv_wc *wc)
{
	struct rdma_qp *q = find(t, wc->wr_id);
	uint32_t number = (uint32_t)wc->wr_id;

	if (!q || !q->conn)
		return;
	if (wc->wr_id & ID_RECEIVE)
		q->n_posted--;
	else if (q->marked && number == q->marker)
		q->marker_seen = true;

	if (wc->status != IBV_WC_SUCCESS) {
		failed(q, number, wc);
	} else if (wc->wr_id & ID_RECEIVE) {
		q->n_received++;
		rdma_msg_received(q->conn, q, number, wc);
	} else {
		sent(q, number);
	}
	if (q->draining)
		look_whether_drained(q);
}
