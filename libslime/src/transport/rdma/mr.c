/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "src/transport/rdma/rdma.h"

/* A restricted region has two lives in a domain: as memory of ours, and with the rights it grants.
 */
static _Atomic(struct rdma_mr *) *place_of(struct rdma_domain *d, const struct sl_region *r,
					   enum rdma_mr_use use)
{
	return &d->mrs[2 * r->id + (use == RDMA_MR_SHOWN && r->restricted)];
}

static uint32_t access_for(const struct sl_region *r, enum rdma_mr_use use)
{
	return use == RDMA_MR_SHOWN || !r->restricted ? r->access : 0;
}

static struct rdma_mr *load(_Atomic(struct rdma_mr *) *place)
{
	return atomic_load_explicit(place, memory_order_acquire);
}

static bool is_ready_for(const struct rdma_mr *mr, const struct sl_region *r)
{
	return atomic_load_explicit(&mr->state, memory_order_acquire) == RDMA_MR_READY &&
	       atomic_load_explicit(&mr->generation, memory_order_relaxed) == r->generation;
}

/* ---- on a worker ---- */

void rdma_mr_deregister(struct rdma_mr *mr)
{
	for (unsigned i = 0; i < RDMA_RAILS_MAX; i++)
		rdma_nic_deregister(&mr->ibv[i]);
}

static struct ibv_mr *register_in(struct ibv_pd *pd, const struct rdma_mr *mr)
{
	int access = IBV_ACCESS_LOCAL_WRITE;
	struct ibv_mr *ibv;

	if (mr->access & SLIME_ACCESS_REMOTE_READ)
		access |= IBV_ACCESS_REMOTE_READ;
	if (mr->access & SLIME_ACCESS_REMOTE_WRITE)
		access |= IBV_ACCESS_REMOTE_WRITE;
	errno = 0;
	ibv = ibv_reg_mr(pd, mr->base, mr->len, access);
	/* Memory that cannot be written to can still be read. */
	if (!ibv && errno == EFAULT && !(mr->access & SLIME_ACCESS_REMOTE_WRITE))
		ibv = ibv_reg_mr(pd, mr->base, mr->len, access & ~IBV_ACCESS_LOCAL_WRITE);
	return ibv;
}

static void work(struct rdma_job *job)
{
	struct rdma_mr *mr = SL_CONTAINER_OF(job, struct rdma_mr, job);
	struct rdma_domain *d = mr->domain;

	rdma_mr_deregister(mr);
	mr->status = 0;
	for (unsigned i = 0; i < d->n_nics && mr->wanted && !mr->status; i++) {
		if (!d->pds[i] || atomic_load(&job->t->nics[i]->dead))
			continue;
		mr->ibv[i] = register_in(d->pds[i], mr);
		if (mr->ibv[i])
			continue;
		mr->status = errno ? -errno : -EIO;
		sl_error("rdma", "%s: region %u of %llu bytes cannot be registered: %s%s",
			 job->t->nics[i]->device.name, mr->id, (unsigned long long)mr->len,
			 strerror(-mr->status),
			 mr->status == -ENOMEM ? " (is the limit of locked memory, ulimit -l, "
						 "large enough?)"
					       : "");
	}
	if (mr->status)
		rdma_mr_deregister(mr);
}

/* [token] */
static void done(struct rdma_job *job)
{
	struct rdma_mr *mr = SL_CONTAINER_OF(job, struct rdma_mr, job);
	struct rdma_transport *t = job->t;
	struct sl_list *e;

	pthread_mutex_lock(&t->mr_lock);
	atomic_store_explicit(&mr->state,
			      mr->status   ? RDMA_MR_FAILED
			      : mr->wanted ? RDMA_MR_READY
					   : RDMA_MR_NONE,
			      memory_order_release);
	atomic_fetch_sub(&mr->domain->n_busy, 1);
	pthread_mutex_unlock(&t->mr_lock);
	sl_list_for_each (e, &t->conns)
		rdma_conn_call(SL_CONTAINER_OF(e, struct rdma_conn, link));
}

/* ---- asking for it ---- */

/* Under mr_lock. */
static void begin(struct rdma_mr *mr, bool wanted)
{
	mr->wanted = wanted;
	atomic_fetch_add(&mr->domain->n_busy, 1);
	atomic_store(&mr->state, RDMA_MR_BUSY);
	rdma_job_start(mr->domain->t, &mr->job, work, done);
}

/* Under mr_lock. */
static void begin_to_register(struct rdma_mr *mr, const struct sl_region *r, uint32_t access)
{
	mr->id = r->id;
	mr->base = r->base;
	mr->len = r->len;
	mr->access = access;
	atomic_store(&mr->domain->t->base.env->regions->slots[r->id].pinned, true);
	atomic_store(&mr->generation, r->generation);
	begin(mr, true);
}

static struct rdma_mr *create(struct rdma_domain *d, _Atomic(struct rdma_mr *) *place)
{
	struct rdma_mr *mr = calloc(1, sizeof(*mr));

	if (!mr)
		return NULL;
	mr->domain = d;
	atomic_store_explicit(place, mr, memory_order_release);
	return mr;
}

/* Under mr_lock. */
static int look(struct rdma_domain *d, const struct sl_region *r, enum rdma_mr_use use,
		struct rdma_mr **out)
{
	_Atomic(struct rdma_mr *) *place = place_of(d, r, use);
	struct rdma_mr *mr = load(place);
	bool same;

	if (!mr)
		mr = create(d, place);
	if (!mr)
		return -ENOMEM;
	same = atomic_load(&mr->generation) == r->generation;
	switch (atomic_load(&mr->state)) {
	case RDMA_MR_READY:
		if (same) {
			*out = mr;
			return 0;
		}
		break;
	case RDMA_MR_FAILED:
		if (same) {
			/* Whoever asks next tries again. */
			atomic_store(&mr->state, RDMA_MR_NONE);
			return mr->status;
		}
		break;
	case RDMA_MR_BUSY:
		return -EINPROGRESS;
	default:
		break;
	}
	begin_to_register(mr, r, access_for(r, use));
	return -EINPROGRESS;
}

int rdma_mr_get(struct rdma_domain *d, const struct sl_region *r, enum rdma_mr_use use,
		struct rdma_mr **out)
{
	struct rdma_mr *mr = load(place_of(d, r, use));
	int ret;

	if (mr && is_ready_for(mr, r)) {
		*out = mr;
		return 0;
	}
	pthread_mutex_lock(&d->t->mr_lock);
	ret = look(d, r, use, out);
	pthread_mutex_unlock(&d->t->mr_lock);
	return ret;
}

/* ---- letting go ---- */

/* Under mr_lock: whether it is gone already. */
static bool let_go(struct rdma_mr *mr)
{
	uint32_t state = mr ? atomic_load(&mr->state) : RDMA_MR_NONE;

	/* When its domain is being closed that lets go of it. */
	if (state == RDMA_MR_READY && !mr->domain->closing)
		begin(mr, false);
	return state != RDMA_MR_READY && state != RDMA_MR_BUSY;
}

bool rdma_mr_release(struct rdma_transport *t, const struct sl_region *r)
{
	bool gone = true;
	struct sl_list *e;

	pthread_mutex_lock(&t->mr_lock);
	sl_list_for_each (e, &t->domains) {
		struct rdma_domain *d = SL_CONTAINER_OF(e, struct rdma_domain, link);

		for (unsigned i = 0; i < 2; i++)
			gone = let_go(load(&d->mrs[2 * r->id + i])) && gone;
	}
	pthread_mutex_unlock(&t->mr_lock);
	return gone;
}
