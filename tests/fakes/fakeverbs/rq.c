/* SPDX-License-Identifier: Apache-2.0 */
/* Receive queues, of a queue pair or shared by several. */
#include "tests/fakes/fakeverbs/lab.h"

#include <stdlib.h>

int fv_rq_init(struct fv_rq *rq, uint32_t max_wr, uint32_t max_sge)
{
	rq->max_wr = max_wr;
	rq->max_sge = max_sge;
	rq->ring = calloc(max_wr ? max_wr : 1, sizeof(*rq->ring));
	rq->sges = calloc((size_t)max_wr * max_sge + 1, sizeof(*rq->sges));
	if (!rq->ring || !rq->sges) {
		fv_rq_fini(rq);
		return ENOMEM;
	}
	for (uint32_t i = 0; i < max_wr; i++)
		rq->ring[i].sge = &rq->sges[(size_t)i * max_sge];
	return 0;
}

void fv_rq_fini(struct fv_rq *rq)
{
	free(rq->ring);
	free(rq->sges);
	rq->ring = NULL;
	rq->sges = NULL;
}

int fv_rq_post(struct fv_rq *rq, const struct ibv_recv_wr *wr)
{
	struct fv_recv *r;

	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > rq->max_sge)
		return EINVAL;
	if (rq->posted - rq->freed >= rq->max_wr)
		return ENOMEM;
	r = &rq->ring[rq->posted++ % rq->max_wr];
	r->wr_id = wr->wr_id;
	r->n_sge = wr->num_sge;
	if (wr->num_sge)
		memcpy(r->sge, wr->sg_list, (size_t)wr->num_sge * sizeof(*r->sge));
	fv_lab.counts.recv_wrs++;
	return 0;
}

struct fv_recv *fv_rq_take(struct fv_rq *rq)
{
	return rq->taken == rq->posted ? NULL : &rq->ring[rq->taken++ % rq->max_wr];
}

/* ---- shared ---- */

static int check_srq(const struct fv_device *dev, const struct ibv_srq_attr *attr)
{
	if (!attr->max_wr || attr->max_wr > (uint32_t)dev->is.max_srq_wr ||
	    attr->max_sge > (uint32_t)dev->is.max_srq_sge)
		return EINVAL;
	return dev->n_objects[FV_SRQ] < dev->is.max_srq ? 0 : ENOMEM;
}

static int new_srq(struct ibv_pd *pd, const struct ibv_srq_init_attr *init, struct fv_srq **out)
{
	struct fv_context *ctx = fv_context(pd->context);
	struct fv_srq *srq;
	int err = check_srq(ctx->dev, &init->attr);

	if (err)
		return err;
	srq = calloc(1, sizeof(*srq));
	if (!srq || fv_rq_init(&srq->rq, init->attr.max_wr, init->attr.max_sge)) {
		free(srq);
		return ENOMEM;
	}
	fv_object_add(ctx, &srq->obj, FV_SRQ);
	fv_pd(pd)->obj.n_users++;
	srq->ibv.context = pd->context;
	srq->ibv.srq_context = init->srq_context;
	srq->ibv.pd = pd;
	srq->ibv.handle = (uint32_t)srq->obj.nr;
	*out = srq;
	return 0;
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *init)
{
	struct fv_srq *srq = NULL;
	int err = fv_enter(FAKEVERBS_CREATE_SRQ, fv_context(pd->context)->dev);

	if (!err)
		err = new_srq(pd, init, &srq);
	fv_leave();
	if (err)
		errno = err;
	return srq ? &srq->ibv : NULL;
}

int ibv_modify_srq(struct ibv_srq *ibv, struct ibv_srq_attr *attr, int mask)
{
	struct fv_srq *srq = fv_srq(ibv);
	int err = fv_enter(FAKEVERBS_MODIFY_SRQ, fv_context(ibv->context)->dev);

	if (!err && mask & IBV_SRQ_MAX_WR)
		err = EOPNOTSUPP;
	if (!err && mask & IBV_SRQ_LIMIT) {
		if (attr->srq_limit > srq->rq.max_wr)
			err = EINVAL;
		else
			srq->limit = attr->srq_limit;
	}
	fv_leave();
	return err;
}

int ibv_query_srq(struct ibv_srq *ibv, struct ibv_srq_attr *attr)
{
	struct fv_srq *srq = fv_srq(ibv);
	int err = fv_enter(FAKEVERBS_QUERY_SRQ, fv_context(ibv->context)->dev);

	if (!err) {
		attr->max_wr = srq->rq.max_wr;
		attr->max_sge = srq->rq.max_sge;
		attr->srq_limit = srq->limit;
	}
	fv_leave();
	return err;
}

int ibv_destroy_srq(struct ibv_srq *ibv)
{
	struct fv_srq *srq = fv_srq(ibv);
	struct fv_context *ctx = fv_context(ibv->context);
	int err = fv_enter(FAKEVERBS_DESTROY_SRQ, NULL);

	if (!err && srq->obj.n_users)
		err = EBUSY;
	if (!err) {
		fv_events_forget(ctx, &srq->obj);
		fv_pd(ibv->pd)->obj.n_users--;
		fv_object_remove(ctx, &srq->obj);
	}
	fv_leave();
	if (err)
		return err;
	fv_rq_fini(&srq->rq);
	free(srq);
	return 0;
}

void fv_srq_took(struct fv_srq *srq)
{
	struct ibv_async_event event = { .element.srq = &srq->ibv,
					 .event_type = IBV_EVENT_SRQ_LIMIT_REACHED };

	if (!srq->limit || srq->rq.posted - srq->rq.taken >= srq->limit)
		return;
	srq->limit = 0; /* told once */
	fv_raise(fv_context(srq->ibv.context), &event);
}

int fv_post_srq_recv(struct ibv_srq *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	int err = fv_enter(FAKEVERBS_POST_SRQ_RECV, fv_context(ibv->context)->dev);

	for (; !err && wr; wr = wr->next) {
		err = fv_rq_post(&fv_srq(ibv)->rq, wr);
		if (err)
			break;
	}
	if (err)
		*bad = wr;
	fv_leave();
	return err;
}
