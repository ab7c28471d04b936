/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "src/transport/rdma/rdma.h"

static struct rdma_mr *load(struct rdma_transport *t, uint32_t id)
{
	return atomic_load_explicit(&t->mrs[id], memory_order_acquire);
}

static bool is_ready_for(const struct rdma_mr *mr, const struct sl_region *r)
{
	return atomic_load_explicit(&mr->state, memory_order_acquire) == RDMA_MR_READY &&
	       atomic_load_explicit(&mr->generation, memory_order_relaxed) == r->generation;
}

/* ---- on a worker ---- */

static void deregister(struct rdma_mr *mr)
{
	for (unsigned i = 0; i < RDMA_RAILS_MAX; i++)
		rdma_nic_deregister(&mr->ibv[i]);
}

static struct ibv_mr *register_with(struct rdma_nic *nic, const struct rdma_mr *mr)
{
	int access = IBV_ACCESS_LOCAL_WRITE;
	struct ibv_mr *ibv;

	if (mr->access & SLIME_ACCESS_REMOTE_READ)
		access |= IBV_ACCESS_REMOTE_READ;
	if (mr->access & SLIME_ACCESS_REMOTE_WRITE)
		access |= IBV_ACCESS_REMOTE_WRITE;
	errno = 0;
	ibv = ibv_reg_mr(nic->pd, mr->base, mr->len, access);
	/* Memory that cannot be written to can still be read. */
	if (!ibv && errno == EFAULT && !(mr->access & SLIME_ACCESS_REMOTE_WRITE))
		ibv = ibv_reg_mr(nic->pd, mr->base, mr->len, access & ~IBV_ACCESS_LOCAL_WRITE);
	return ibv;
}

static void work(struct rdma_job *job)
{
	struct rdma_mr *mr = SL_CONTAINER_OF(job, struct rdma_mr, job);
	unsigned n = atomic_load(&job->t->n_nics);

	deregister(mr);
	mr->status = 0;
	for (unsigned i = 0; i < n && mr->wanted && !mr->status; i++) {
		if (atomic_load(&job->t->nics[i]->dead))
			continue;
		mr->ibv[i] = register_with(job->t->nics[i], mr);
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
		deregister(mr);
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
	pthread_mutex_unlock(&t->mr_lock);
	sl_list_for_each (e, &t->conns)
		rdma_conn_call(SL_CONTAINER_OF(e, struct rdma_conn, link));
}

/* ---- asking for it ---- */

/* Under mr_lock. */
static void begin(struct rdma_transport *t, struct rdma_mr *mr, const struct sl_region *r,
		  bool wanted)
{
	mr->id = r->id;
	mr->base = r->base;
	mr->len = r->len;
	mr->access = r->access;
	mr->wanted = wanted;
	if (wanted)
		atomic_store(&t->base.env->regions->slots[r->id].pinned, true);
	atomic_store(&mr->generation, r->generation);
	atomic_store(&mr->state, RDMA_MR_BUSY);
	rdma_job_start(t, &mr->job, work, done);
}

/* Under mr_lock. */
static int look(struct rdma_transport *t, const struct sl_region *r, struct rdma_mr **out)
{
	struct rdma_mr *mr = load(t, r->id);
	bool same;

	if (!mr) {
		mr = calloc(1, sizeof(*mr));
		if (!mr)
			return -ENOMEM;
		atomic_store_explicit(&t->mrs[r->id], mr, memory_order_release);
	}
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
	begin(t, mr, r, true);
	return -EINPROGRESS;
}

int rdma_mr_get(struct rdma_transport *t, const struct sl_region *r, struct rdma_mr **out)
{
	struct rdma_mr *mr = load(t, r->id);
	int ret;

	if (mr && is_ready_for(mr, r)) {
		*out = mr;
		return 0;
	}
	pthread_mutex_lock(&t->mr_lock);
	ret = look(t, r, out);
	pthread_mutex_unlock(&t->mr_lock);
	return ret;
}

/* ---- letting go ---- */

bool rdma_mr_release(struct rdma_transport *t, const struct sl_region *r)
{
	struct rdma_mr *mr = load(t, r->id);
	bool gone = true;

	if (!mr)
		return true;
	pthread_mutex_lock(&t->mr_lock);
	if (atomic_load(&mr->state) == RDMA_MR_BUSY) {
		gone = false;
	} else if (atomic_load(&mr->state) == RDMA_MR_READY) {
		begin(t, mr, r, false);
		gone = false;
	}
	pthread_mutex_unlock(&t->mr_lock);
	return gone;
}

void rdma_mr_release_all(struct rdma_transport *t)
{
	for (uint32_t i = 0; i < t->base.env->attr->max_regions; i++) {
		struct rdma_mr *mr = load(t, i);

		if (!mr)
			continue;
		deregister(mr);
		free(mr);
	}
}
