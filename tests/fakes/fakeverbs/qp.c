/* SPDX-License-Identifier: Apache-2.0 */
/* Queue pairs: made, asked, flushed, destroyed. Their moves are in modify.c. */
#include "tests/fakes/fakeverbs/lab.h"

#include <stdlib.h>

static int check_caps(const struct fakeverbs_device *d, const struct ibv_qp_init_attr *init)
{
	const struct ibv_qp_cap *c = &init->cap;

	if (init->qp_type != IBV_QPT_RC)
		return EOPNOTSUPP;
	if (!init->send_cq || !init->recv_cq)
		return EINVAL;
	if (c->max_send_wr > (uint32_t)d->max_qp_wr || c->max_send_sge > (uint32_t)d->max_sge ||
	    c->max_inline_data > d->max_inline)
		return EINVAL;
	if (!init->srq &&
	    (c->max_recv_wr > (uint32_t)d->max_qp_wr || c->max_recv_sge > (uint32_t)d->max_sge))
		return EINVAL;
	return 0;
}

static uint32_t at_least(uint32_t wanted, uint32_t step, uint32_t max)
{
	uint32_t granted = (wanted + step - 1) / step * step;

	return granted < max ? granted : max;
}

static void grant(const struct fakeverbs_device *d, struct ibv_qp_init_attr *init)
{
	struct ibv_qp_cap *c = &init->cap;

	if (init->srq)
		c->max_recv_wr = c->max_recv_sge = 0;
	if (!d->grants_more)
		return;
	c->max_send_wr = at_least(c->max_send_wr + 1, 64, (uint32_t)d->max_qp_wr);
	c->max_send_sge = at_least(c->max_send_sge, 4, (uint32_t)d->max_sge);
	c->max_inline_data = at_least(c->max_inline_data, 64, d->max_inline);
	if (!init->srq)
		c->max_recv_wr = at_least(c->max_recv_wr + 1, 64, (uint32_t)d->max_qp_wr);
}

static void free_qp(struct fv_qp *qp)
{
	fv_rq_fini(&qp->rq);
	free(qp->sq);
	free(qp->sges);
	free(qp->inline_area);
	free(qp);
}

static int init_queues(struct fv_qp *qp)
{
	const struct ibv_qp_cap *c = &qp->init.cap;
	size_t n = c->max_send_wr;

	qp->sq = calloc(n + 1, sizeof(*qp->sq));
	qp->sges = calloc(n * c->max_send_sge + 1, sizeof(*qp->sges));
	qp->inline_area = calloc(1, n * c->max_inline_data + 1);
	if (!qp->sq || !qp->sges || !qp->inline_area)
		return ENOMEM;
	for (size_t i = 0; i < n; i++) {
		qp->sq[i].sge = &qp->sges[i * c->max_send_sge];
		qp->sq[i].inlined = &qp->inline_area[i * c->max_inline_data];
	}
	return fv_rq_init(&qp->rq, c->max_recv_wr, c->max_recv_sge);
}

/* The lowest number that is free: who forgets to forget a queue pair meets its successor. */
static int take_number(struct fv_qp *qp)
{
	for (uint32_t i = 0; i < FV_QPS && i < (uint32_t)qp->dev->is.max_qp; i++) {
		if (qp->dev->qps[i])
			continue;
		qp->dev->qps[i] = qp;
		qp->ibv.qp_num = FV_FIRST_QPN + i;
		return 0;
	}
	return ENOMEM;
}

static void use(const struct fv_qp *qp, int by)
{
	fv_pd(qp->ibv.pd)->obj.n_users += (unsigned)by;
	fv_cq(qp->ibv.send_cq)->obj.n_users += (unsigned)by;
	fv_cq(qp->ibv.recv_cq)->obj.n_users += (unsigned)by;
	if (qp->ibv.srq)
		fv_srq(qp->ibv.srq)->obj.n_users += (unsigned)by;
}

static int new_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init, struct fv_qp **out)
{
	struct fv_context *ctx = fv_context(pd->context);
	struct fv_qp *qp = calloc(1, sizeof(*qp));

	if (!qp)
		return ENOMEM;
	qp->dev = ctx->dev;
	qp->init = *init;
	grant(&ctx->dev->is, &qp->init);
	if (init_queues(qp) || take_number(qp)) {
		free_qp(qp);
		return ENOMEM;
	}
	fv_object_add(ctx, &qp->obj, FV_QP);
	qp->ibv.context = pd->context;
	qp->ibv.qp_context = init->qp_context;
	qp->ibv.pd = pd;
	qp->ibv.send_cq = init->send_cq;
	qp->ibv.recv_cq = init->recv_cq;
	qp->ibv.srq = init->srq;
	qp->ibv.handle = (uint32_t)qp->obj.nr;
	qp->ibv.qp_type = init->qp_type;
	use(qp, 1);
	fv_qp_reset(qp);
	init->cap = qp->init.cap;
	*out = qp;
	return 0;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	struct fv_device *dev = fv_context(pd->context)->dev;
	struct fv_qp *qp = NULL;
	int err = fv_enter(FAKEVERBS_CREATE_QP, dev);

	if (!err)
		err = check_caps(&dev->is, init);
	if (!err)
		err = new_qp(pd, init, &qp);
	fv_leave();
	if (err)
		errno = err;
	return qp ? &qp->ibv : NULL;
}

static void forget_completions(struct fv_qp *qp, bool drop)
{
	fv_cq_forget(fv_cq(qp->ibv.send_cq), qp, drop);
	fv_cq_forget(fv_cq(qp->ibv.recv_cq), qp, drop);
}

int ibv_destroy_qp(struct ibv_qp *ibv)
{
	struct fv_qp *qp = fv_qp(ibv);
	struct fv_context *ctx = fv_context(ibv->context);
	int err = fv_enter(FAKEVERBS_DESTROY_QP, NULL);
	int answer = 0;

	if (!err) {
		fv_qp_reset(qp);
		qp->dev->qps[ibv->qp_num - FV_FIRST_QPN] = NULL;
		fv_events_forget(ctx, &qp->obj);
		forget_completions(qp, qp->dev->is.forgets_completions);
		use(qp, -1);
		fv_object_remove(ctx, &qp->obj);
		answer = fv_last_answer(ctx);
	}
	fv_leave();
	if (err)
		return err;
	free_qp(qp);
	return answer;
}

int ibv_query_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask,
		 struct ibv_qp_init_attr *init)
{
	struct fv_qp *qp = fv_qp(ibv);
	int err = fv_enter(FAKEVERBS_QUERY_QP, qp->dev);

	(void)mask;
	if (!err) {
		*attr = qp->attr;
		attr->qp_state = attr->cur_qp_state = ibv->state = qp->state;
		attr->rq_psn = qp->expected_psn;
		attr->sq_psn = qp->send_psn;
		attr->cap = qp->init.cap;
		attr->sq_draining = qp->state == IBV_QPS_SQD && qp->completed != qp->executed;
		*init = qp->init;
	}
	fv_leave();
	return err;
}

void fv_qp_reset(struct fv_qp *qp)
{
	if (qp->state != IBV_QPS_RESET && qp->dev->is.forgets_completions)
		forget_completions(qp, true);
	qp->state = IBV_QPS_RESET;
	memset(&qp->attr, 0, sizeof(qp->attr));
	qp->posted = qp->executed = qp->completed = qp->freed = 0;
	qp->rq.posted = qp->rq.taken = qp->rq.freed = 0;
	qp->n_reads = qp->n_replies = 0;
	qp->wait_until = qp->last_due = qp->last_ack = 0;
	qp->flush_at = qp->run_at = FV_NEVER;
	qp->failing = qp->spoke = qp->drained_told = qp->last_wqe_told = false;
}

void fv_qp_error(struct fv_qp *qp)
{
	if (qp->state == IBV_QPS_RESET)
		return;
	if (qp->state != IBV_QPS_ERR) {
		uint64_t delay = fv_delay();

		qp->state = IBV_QPS_ERR;
		qp->flush_at = delay ? fv_now() + delay : 0;
	}
	fv_qp_run(qp);
}

struct fv_qp *fv_qp_find(struct fv_device *dev, uint32_t qp_num)
{
	return qp_num >= FV_FIRST_QPN && qp_num < FV_FIRST_QPN + FV_QPS
		       ? dev->qps[qp_num - FV_FIRST_QPN]
		       : NULL;
}

/* ---- what libibverbs has and these devices have not ---- */

int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	(void)qp;
	(void)ece;
	return EOPNOTSUPP;
}

int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	(void)qp;
	(void)ece;
	return EOPNOTSUPP;
}

struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	(void)qp;
	return NULL;
}

int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
	(void)qp;
	(void)op;
	(void)flags;
	return 0;
}

/* ---- what tests do to them ---- */

static struct fv_qp *must_find(unsigned device, uint32_t qp_num)
{
	struct fv_qp *qp =
		device < FAKEVERBS_DEVICES ? fv_qp_find(&fv_lab.devices[device], qp_num) : NULL;

	if (!qp)
		abort();
	return qp;
}

size_t fakeverbs_qps(unsigned device, uint32_t *qp_nums, size_t cap)
{
	size_t n = 0;
	unsigned long last = 0;

	fv_lock();
	for (;;) {
		const struct fv_qp *next = NULL;

		for (unsigned i = 0; i < FV_QPS; i++) {
			const struct fv_qp *qp = fv_lab.devices[device].qps[i];

			if (qp && qp->obj.nr > last && (!next || qp->obj.nr < next->obj.nr))
				next = qp;
		}
		if (!next)
			break;
		last = next->obj.nr;
		if (n < cap)
			qp_nums[n] = next->ibv.qp_num;
		n++;
	}
	fv_unlock();
	return n;
}

void fakeverbs_break_cq(unsigned device, uint32_t qp_num)
{
	fv_lock();
	fv_cq_overrun(fv_cq(must_find(device, qp_num)->init.send_cq));
	fv_unlock();
}

void fakeverbs_hold_qp(unsigned device, uint32_t qp_num, bool held)
{
	struct fv_qp *qp;

	fv_lock();
	qp = must_find(device, qp_num);
	qp->held = held;
	fv_qp_run(qp);
	fv_unlock();
}

void fakeverbs_drop_completion(unsigned device, uint32_t qp_num)
{
	fv_lock();
	must_find(device, qp_num)->n_drop++;
	fv_unlock();
}

void fakeverbs_duplicate_completion(unsigned device, uint32_t qp_num)
{
	fv_lock();
	must_find(device, qp_num)->n_duplicate++;
	fv_unlock();
}

void fakeverbs_lose_acks(unsigned device, uint32_t qp_num, unsigned n)
{
	fv_lock();
	must_find(device, qp_num)->n_lose_acks = n;
	fv_unlock();
}

void fakeverbs_raise_qp(unsigned device, uint32_t qp_num, enum ibv_event_type type)
{
	struct fv_qp *qp;

	fv_lock();
	qp = must_find(device, qp_num);
	fv_raise_qp(qp, type);
	if (type == IBV_EVENT_QP_FATAL || type == IBV_EVENT_QP_REQ_ERR ||
	    type == IBV_EVENT_QP_ACCESS_ERR)
		fv_qp_error(qp);
	fv_unlock();
}
