/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>

#include "src/transport/rdma/rdma.h"

/* Events are acknowledged in lots: each time takes a lock of libibverbs'. */
#define EVENTS_PER_ACK 64

/* ---- room ---- */

static int create(struct rdma_nic *nic, uint32_t n, struct rdma_cq **out)
{
	uint32_t max = (uint32_t)nic->device.attr.orig_attr.max_cqe;
	uint32_t len = n > RDMA_CQ_LEN ? n : RDMA_CQ_LEN;
	struct rdma_cq *cq;

	if (len > max)
		len = max;
	if (n > len)
		return -ENOSPC;
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return -ENOMEM;
	cq->nic = nic;
	cq->ibv = ibv_create_cq(nic->device.ibv, (int)len, cq, nic->channel, 0);
	if (!cq->ibv) {
		free(cq);
		return errno ? -errno : -EIO;
	}
	cq->room = len;
	*out = cq;
	return 0;
}

static struct rdma_cq *find(struct rdma_nic *nic, uint32_t n)
{
	unsigned n_cqs = atomic_load(&nic->n_cqs);

	for (unsigned i = 0; i < n_cqs; i++) {
		if (nic->cqs[i]->room >= n) {
			nic->cqs[i]->room -= n;
			return nic->cqs[i];
		}
	}
	return NULL;
}

int rdma_cq_reserve(struct rdma_nic *nic, uint32_t n, struct rdma_cq **out)
{
	struct rdma_cq *cq;
	unsigned n_cqs;
	int ret = 0;

	pthread_mutex_lock(&nic->t->cq_lock);
	cq = find(nic, n);
	n_cqs = atomic_load(&nic->n_cqs);
	if (!cq && n_cqs == RDMA_CQS_MAX) {
		ret = -ENOSPC;
	} else if (!cq) {
		ret = create(nic, n, &cq);
		if (!ret) {
			cq->room -= n;
			nic->cqs[n_cqs] = cq;
			atomic_store_explicit(&nic->n_cqs, n_cqs + 1, memory_order_release);
		}
	}
	pthread_mutex_unlock(&nic->t->cq_lock);
	if (!ret)
		*out = cq;
	return ret;
}

void rdma_cq_release(struct rdma_cq *cq, uint32_t n)
{
	pthread_mutex_lock(&cq->nic->t->cq_lock);
	cq->room += n;
	pthread_mutex_unlock(&cq->nic->t->cq_lock);
}

void rdma_cq_close(struct rdma_cq *cq)
{
	if (cq->n_events)
		ibv_ack_cq_events(cq->ibv, cq->n_events);
	ibv_destroy_cq(cq->ibv);
	free(cq);
}

/* ---- rounds ---- */

unsigned rdma_cq_poll(struct rdma_cq *cq)
{
	struct ibv_wc wc[RDMA_POLL];
	unsigned sum = 0;
	int n = RDMA_POLL;

	for (unsigned i = 0; i < RDMA_POLLS && n == RDMA_POLL; i++) {
		n = ibv_poll_cq(cq->ibv, RDMA_POLL, wc);
		for (int k = 0; k < n; k++)
			rdma_qp_completed(cq->nic->t, &wc[k]);
		/* A buffer is back before the peer can know of what it brought. */
		for (int k = 0; k < n; k++)
			rdma_qp_flush_completed(cq->nic->t, &wc[k]);
		sum += n > 0 ? (unsigned)n : 0;
	}
	return sum;
}

void rdma_cq_arm(struct rdma_cq *cq)
{
	if (cq->armed || atomic_load_explicit(&cq->nic->dead, memory_order_relaxed))
		return;
	cq->armed = ibv_req_notify_cq(cq->ibv, 0) == 0;
}

void rdma_cq_rang(struct rdma_cq *cq)
{
	cq->armed = false;
	if (++cq->n_events == EVENTS_PER_ACK) {
		ibv_ack_cq_events(cq->ibv, cq->n_events);
		cq->n_events = 0;
	}
}
