/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>

#include "base/list.h"
#include "src/transport/rdma/domain.h"
#include "src/transport/rdma/mr.h"
#include "src/transport/rdma/nic.h"
#include "src/transport/rdma/transport.h"

static uint32_t n_slots(const struct rdma_domain *d)
{
	return 2 * d->t->base.env->attr->max_regions;
}

static int alloc_pds(struct rdma_domain *d)
{
	for (; d->n_nics < d->t->n_open; d->n_nics++) {
		const struct rdma_nic *nic = d->t->nics[d->n_nics];

		if (atomic_load(&nic->dead))
			continue;
		errno = 0;
		d->pds[d->n_nics] = ibv_alloc_pd(nic->device.ibv);
		if (!d->pds[d->n_nics])
			return errno ? -errno : -EIO;
	}
	return 0;
}

static void dealloc_pds(struct rdma_domain *d)
{
	while (d->n_nics) {
		struct ibv_pd *pd = d->pds[--d->n_nics];

		if (pd)
			ibv_dealloc_pd(pd);
	}
}

int rdma_domain_create(struct rdma_transport *t, bool isolated, struct rdma_domain **out)
{
	struct rdma_domain *d = calloc(1, sizeof(*d));
	int ret;

	if (!d)
		return -ENOMEM;
	d->t = t;
	d->isolated = isolated;
	/* Its pages come when there are regions. */
	d->mrs = calloc(n_slots(d), sizeof(*d->mrs));
	ret = d->mrs ? alloc_pds(d) : -ENOMEM;
	if (ret) {
		dealloc_pds(d);
		rdma_domain_free(d);
		return ret;
	}
	pthread_mutex_lock(&t->mr_lock);
	sl_list_append(&t->domains, &d->link);
	pthread_mutex_unlock(&t->mr_lock);
	*out = d;
	return 0;
}

bool rdma_domain_begin_to_close(struct rdma_domain *d)
{
	bool idle;

	pthread_mutex_lock(&d->t->mr_lock);
	idle = !atomic_load(&d->n_busy);
	d->closing = d->closing || idle;
	pthread_mutex_unlock(&d->t->mr_lock);
	return idle;
}

void rdma_domain_close(struct rdma_domain *d)
{
	pthread_mutex_lock(&d->t->mr_lock);
	d->closing = true;
	pthread_mutex_unlock(&d->t->mr_lock);
	for (uint32_t i = 0; i < n_slots(d); i++) {
		struct rdma_mr *mr = atomic_load(&d->mrs[i]);

		if (mr)
			rdma_mr_deregister(mr);
	}
	pthread_mutex_lock(&d->t->mr_lock);
	sl_list_remove(&d->link);
	pthread_mutex_unlock(&d->t->mr_lock);
	dealloc_pds(d);
}

void rdma_domain_free(struct rdma_domain *d)
{
	for (uint32_t i = 0; d->mrs && i < n_slots(d); i++)
		rdma_mr_free(atomic_load(&d->mrs[i]));
	free(d->mrs);
	free(d);
}
