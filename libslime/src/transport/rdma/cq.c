/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/log.h"
#include "src/transport/rdma/cq.h"
#include "src/transport/rdma/job.h"
#include "src/transport/rdma/nic.h"
#include "src/transport/rdma/transport.h"

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
	cq->len = cq->room = len;
	*out = cq;
	return 0;
}

static struct rdma_cq *find(struct rdma_nic *nic, uint32_t n)
{
	unsigned n_cqs = atomic_load(&nic->n_cqs);

	for (unsigned i = 0; i < n_cqs; i++) {
		struct rdma_cq *cq = atomic_load(&nic->cqs[i]);

		if (cq && !atomic_load(&cq->failed) && cq->room >= n) {
			cq->room -= n;
			return cq;
		}
	}
	return NULL;
}

/* In the first place that is free. Under cq_lock. */
static bool add(struct rdma_nic *nic, struct rdma_cq *cq)
{
	unsigned n_cqs = atomic_load(&nic->n_cqs);
	unsigned i = 0;

	while (i < n_cqs && atomic_load(&nic->cqs[i]))
		i++;
	if (i == RDMA_CQS_MAX)
		return false;
	atomic_store_explicit(&nic->cqs[i], cq, memory_order_release);
	if (i == n_cqs)
		atomic_store_explicit(&nic->n_cqs, n_cqs + 1, memory_order_release);
	return true;
}

/* One more, with room for n taken. A thread that makes another meanwhile has that one, too. */
static int make(struct rdma_nic *nic, uint32_t n, struct rdma_cq **out)
{
	struct rdma_cq *made, *cq;
	int ret = create(nic, n, &made);

	if (ret)
		return ret;
	made->room -= n;
	pthread_mutex_lock(&nic->t->cq_lock);
	/* The thread that took the last place meanwhile may have left room there. */
	cq = add(nic, made) ? made : find(nic, n);
	pthread_mutex_unlock(&nic->t->cq_lock);
	if (cq != made)
		rdma_cq_close(made);
	if (!cq)
		return -ENOSPC;
	*out = cq;
	return 0;
}

int rdma_cq_reserve(struct rdma_nic *nic, uint32_t n, struct rdma_cq **out)
{
	struct rdma_cq *cq;

	pthread_mutex_lock(&nic->t->cq_lock);
	cq = find(nic, n);
	pthread_mutex_unlock(&nic->t->cq_lock);
	/* The device takes long, and the token's holder takes that lock. */
	if (!cq)
		return make(nic, n, out);
	*out = cq;
	return 0;
}

void rdma_cq_release(struct rdma_cq *cq, uint32_t n)
{
	pthread_mutex_lock(&cq->nic->t->cq_lock);
	cq->room += n;
	pthread_mutex_unlock(&cq->nic->t->cq_lock);
}

static void acknowledge(struct rdma_cq *cq)
{
	if (cq->n_events)
		ibv_ack_cq_events(cq->ibv, cq->n_events);
	cq->n_events = 0;
}

/* Whether it is there no more; a device that is gone says EIO to it, and takes it along. */
static bool destroy(struct rdma_cq *cq)
{
	int ret = ibv_destroy_cq(cq->ibv);

	if (ret && !rdma_nic_took_along(cq->nic, ret))
		sl_error("rdma", "%s: a completion queue cannot be destroyed: %s",
			 cq->nic->device.name, strerror(ret));
	return !ret || ret == EIO;
}

void rdma_cq_close(struct rdma_cq *cq)
{
	acknowledge(cq);
	(void)destroy(cq);
	free(cq);
}

/* ---- one that failed ---- */

static void work_destroy(struct rdma_job *job)
{
	struct rdma_cq *cq = SL_CONTAINER_OF(job, struct rdma_cq, job);

	cq->stays = !destroy(cq);
}

static void done_destroy(struct rdma_job *job)
{
	struct rdma_cq *cq = SL_CONTAINER_OF(job, struct rdma_cq, job);

	if (!cq->stays) {
		free(cq);
		return;
	}
	/* It goes with its nic; where there is no place for it any more it is never freed. */
	pthread_mutex_lock(&job->t->cq_lock);
	(void)add(cq->nic, cq);
	pthread_mutex_unlock(&job->t->cq_lock);
}

void rdma_cq_reap(struct rdma_nic *nic, unsigned i)
{
	struct rdma_cq *cq = atomic_load(&nic->cqs[i]);
	bool unused;

	pthread_mutex_lock(&nic->t->cq_lock);
	unused = cq->room == cq->len && !cq->stays;
	if (unused)
		atomic_store(&nic->cqs[i], NULL);
	pthread_mutex_unlock(&nic->t->cq_lock);
	if (unused)
		rdma_job_start(nic->t, &cq->job, work_destroy, done_destroy);
}

bool rdma_cq_fail(struct rdma_cq *cq)
{
	bool failed;

	pthread_mutex_lock(&cq->nic->t->cq_lock);
	failed = atomic_exchange(&cq->failed, true);
	pthread_mutex_unlock(&cq->nic->t->cq_lock);
	/* Destroying it waits for them. */
	acknowledge(cq);
	return !failed;
}

/* ---- events ---- */

void rdma_cq_arm(struct rdma_nic *nic)
{
	unsigned n_cqs = atomic_load(&nic->n_cqs);

	if (atomic_load_explicit(&nic->dead, memory_order_relaxed))
		return;
	for (unsigned i = 0; i < n_cqs; i++) {
		struct rdma_cq *cq = atomic_load(&nic->cqs[i]);

		if (cq && !cq->armed && !atomic_load(&cq->failed))
			cq->armed = ibv_req_notify_cq(cq->ibv, 0) == 0;
	}
}

void rdma_cq_rang(struct rdma_cq *cq)
{
	cq->armed = false;
	if (++cq->n_events == EVENTS_PER_ACK || atomic_load(&cq->failed))
		acknowledge(cq);
}
