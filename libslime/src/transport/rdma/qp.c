/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "src/core/lock.h"
#include "src/transport/rdma/conn.h"
#include "src/transport/rdma/cq.h"
#include "src/transport/rdma/limits.h"
#include "src/transport/rdma/nic.h"
#include "src/transport/rdma/path.h"
#include "src/transport/rdma/qp.h"
#include "src/transport/rdma/transport.h"
#include "src/transport/rdma/wire.h"

/* Of a place in the table that stays a queue pair's which could not be destroyed: no id is like it.
 */
#define KEPT UINT64_MAX

/* ---- the table ---- */

static int table_add(struct rdma_transport *t, struct rdma_qp *q)
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
	q->wr_id = (uint64_t)q->slot << RDMA_ID_SLOT_SHIFT | RDMA_ID_LIFE(++t->next_life);
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

static void table_remove(struct rdma_qp *q)
{
	leave_place(q, q->slot);
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
	q->n_receives = q->n_first = n_receives;
	q->sent = calloc(RDMA_SENDS, sizeof(*q->sent));
	ret = q->sent ? sl_auth_random(&q->psn, sizeof(q->psn)) : -ENOMEM;
	if (ret)
		goto free_q;
	q->psn &= RDMA_NUMBER_MASK;
	ret = reserve(q);
	if (ret)
		goto free_q;
	ret = table_add(nic->t, q);
	if (ret)
		goto release;
	ret = create_with_inline(q, pd);
	if (ret)
		goto remove;
	*out = q;
	return 0;

remove:
	table_remove(q);
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
	ret = table_add(q->nic->t, q);
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
	/* The peer may lead over it as soon as it has risen. */
	q->n_first = q->n_receives;
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
	table_remove(q);
	/* Its remaining completions still go there. */
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
	/* The thread that takes the last of them at this moment reads in the opposite order. */
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
			.wr_id = q->wr_id | RDMA_ID_RECEIVE | which[k],
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

int rdma_qp_post_until(struct rdma_qp *q, uint32_t n)
{
	uint32_t which[RDMA_POLL];
	int ret = 0;

	while (q->n_begun < n && !ret) {
		uint32_t k = 0;

		while (k < RDMA_POLL && q->n_begun < n)
			which[k++] = q->n_begun++;
		ret = rdma_qp_post_receives(q, which, k);
	}
	return ret;
}

static void fail_without_receives(struct rdma_qp *q)
{
	sl_lock(&q->conn->lock);
	rdma_path_fail_locked(q->path, -EIO, "a receive cannot be posted");
	sl_unlock(&q->conn->lock);
}

void rdma_qp_post_returned(struct rdma_qp *q)
{
	uint32_t n = q->n_returned;

	q->n_returned = 0;
	if (rdma_qp_post_receives(q, q->returned, n))
		fail_without_receives(q);
}

void rdma_qp_post_rest(struct rdma_qp *q)
{
	if (!q->draining && rdma_qp_post_until(q, q->n_receives))
		fail_without_receives(q);
}
