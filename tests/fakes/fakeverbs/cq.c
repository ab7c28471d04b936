/* SPDX-License-Identifier: Apache-2.0 */
/* Completion queues and the channels that announce them. */
#include "tests/fakes/fakeverbs/lab.h"

#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

static struct fv_channel *channel_of(struct ibv_comp_channel *ibv)
{
	return (struct fv_channel *)(void *)ibv;
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *ibv)
{
	struct fv_context *ctx = fv_context(ibv);
	struct fv_channel *ch = NULL;
	int err = fv_enter(FAKEVERBS_CREATE_COMP_CHANNEL, ctx->dev);
	int fd = err ? -1 : eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);

	if (fd >= 0)
		ch = calloc(1, sizeof(*ch));
	if (ch) {
		fv_object_add(ctx, &ch->obj, FV_CHANNEL);
		ch->ibv.context = ibv;
		ch->ibv.fd = fd;
		sl_list_init(&ch->cqs);
	}
	fv_leave();
	if (ch)
		return &ch->ibv;
	if (fd >= 0)
		close(fd);
	errno = err ? err : ENOMEM;
	return NULL;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *ibv)
{
	int err = fv_enter(FAKEVERBS_DESTROY_COMP_CHANNEL, NULL);

	if (!err && ibv->refcnt)
		err = EBUSY;
	if (!err)
		fv_object_remove(fv_context(ibv->context), &channel_of(ibv)->obj);
	fv_leave();
	if (err)
		return err;
	close(ibv->fd);
	free(channel_of(ibv));
	return 0;
}

/* ---- queues ---- */

static int new_cq(struct fv_context *ctx, int cqe, struct fv_cq **out)
{
	struct fv_cq *cq = calloc(1, sizeof(*cq));

	if (!cq)
		return ENOMEM;
	cq->ibv.cqe = cqe;
	cq->ring = calloc((size_t)cqe, sizeof(*cq->ring));
	if (!cq->ring) {
		free(cq);
		return ENOMEM;
	}
	sl_list_init(&cq->channel_node);
	fv_object_add(ctx, &cq->obj, FV_CQ);
	*out = cq;
	return 0;
}

static int check_cq(const struct fv_device *dev, int cqe, int comp_vector)
{
	if (cqe < 1 || cqe > dev->is.max_cqe || comp_vector < 0 ||
	    comp_vector >= dev->is.n_comp_vectors)
		return EINVAL;
	return dev->n_objects[FV_CQ] < dev->is.max_cq ? 0 : ENOMEM;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *ibv, int cqe, void *cq_context,
			     struct ibv_comp_channel *channel, int comp_vector)
{
	struct fv_context *ctx = fv_context(ibv);
	struct fv_cq *cq = NULL;
	int err = fv_enter(FAKEVERBS_CREATE_CQ, ctx->dev);

	if (!err)
		err = check_cq(ctx->dev, cqe, comp_vector);
	if (!err)
		err = new_cq(ctx, cqe, &cq);
	if (cq) {
		cq->ibv.context = ibv;
		cq->ibv.channel = channel;
		cq->ibv.cq_context = cq_context;
		cq->ibv.handle = (uint32_t)cq->obj.nr;
		if (channel) {
			channel->refcnt++;
			sl_list_append(&channel_of(channel)->cqs, &cq->channel_node);
		}
	}
	fv_leave();
	if (err)
		errno = err;
	return cq ? &cq->ibv : NULL;
}

int ibv_destroy_cq(struct ibv_cq *ibv)
{
	struct fv_cq *cq = fv_cq(ibv);
	struct fv_context *ctx = fv_context(ibv->context);
	int err = fv_enter(FAKEVERBS_DESTROY_CQ, NULL);
	int answer = 0;

	if (!err && cq->obj.n_users)
		err = EBUSY;
	if (!err) {
		for (; cq->n_pending; cq->n_pending--)
			fv_fd_remove(ibv->channel->fd);
		sl_list_remove(&cq->channel_node);
		fv_await_acks(&cq->n_taken, &cq->n_acked, "completion queue", ibv->handle);
		fv_events_forget(ctx, &cq->obj);
		if (ibv->channel)
			ibv->channel->refcnt--;
		fv_object_remove(ctx, &cq->obj);
		answer = fv_last_answer(ctx);
	}
	fv_leave();
	if (err)
		return err;
	free(cq->ring);
	free(cq);
	return answer;
}

int ibv_resize_cq(struct ibv_cq *ibv, int cqe)
{
	(void)ibv;
	(void)cqe;
	return EOPNOTSUPP;
}

static void announce(struct fv_cq *cq)
{
	cq->armed = FV_UNARMED;
	if (!cq->ibv.channel)
		return;
	if (!cq->n_pending++)
		cq->pending_nr = ++fv_lab.counts.cq_events;
	fv_fd_add(cq->ibv.channel->fd);
}

/* The queue is broken for good, and with it whoever completes into it. */
void fv_cq_overrun(struct fv_cq *cq)
{
	struct fv_context *ctx = fv_context(cq->ibv.context);
	struct ibv_async_event event = { .element.cq = &cq->ibv, .event_type = IBV_EVENT_CQ_ERR };

	/* Told each time, as soft-RoCE does. */
	fv_raise(ctx, &event);
	if (cq->overrun)
		return;
	cq->overrun = true;
	for (unsigned i = 0; i < FV_QPS; i++) {
		struct fv_qp *qp = ctx->dev->qps[i];

		if (!qp || qp->state == IBV_QPS_ERR || qp->state == IBV_QPS_RESET)
			continue;
		if (qp->init.send_cq != &cq->ibv && qp->init.recv_cq != &cq->ibv)
			continue;
		fv_raise_qp(qp, IBV_EVENT_QP_FATAL);
		fv_qp_error(qp);
	}
}

void fakeverbs_break_new_cq(struct ibv_cq *cq)
{
	fv_lock();
	fv_cq_overrun(fv_cq(cq));
	fv_unlock();
}

void fv_cq_add(struct fv_cq *cq, const struct fv_cqe *cqe, bool solicited)
{
	if (cq->overrun)
		return;
	if (cq->added - cq->polled == (uint64_t)cq->ibv.cqe) {
		fv_cq_overrun(cq);
		return;
	}
	cq->ring[cq->added++ % (uint64_t)cq->ibv.cqe] = *cqe;
	if (cq->armed == FV_ARMED || (cq->armed == FV_ARMED_SOLICITED && solicited))
		announce(cq);
}

void fv_cq_forget(struct fv_cq *cq, struct fv_qp *qp, bool drop)
{
	uint64_t size = (uint64_t)cq->ibv.cqe, kept = cq->polled;

	for (uint64_t i = cq->polled; i != cq->added; i++) {
		struct fv_cqe cqe = cq->ring[i % size];

		if (cqe.qp == qp && drop)
			continue;
		if (cqe.qp == qp)
			cqe.qp = NULL;
		cq->ring[kept++ % size] = cqe;
	}
	cq->added = kept;
}

/* A work request's place is free again now that the user knows of its end. */
static void give_back(const struct fv_cqe *cqe)
{
	if (cqe->srq)
		cqe->srq->rq.freed++;
	if (!cqe->qp)
		return;
	if (!cqe->is_recv && cqe->sq_free > cqe->qp->freed)
		cqe->qp->freed = cqe->sq_free;
	else if (cqe->is_recv && !cqe->srq)
		cqe->qp->rq.freed++;
}

int fv_poll_cq(struct ibv_cq *ibv, int n, struct ibv_wc *wc)
{
	struct fv_cq *cq = fv_cq(ibv);
	int i = 0;
	int err = fv_enter(FAKEVERBS_POLL_CQ, NULL);

	fv_clock_catch_up();
	/* Of a poll that fails they are as gone, and nobody is told how many there were. */
	for (; i < n && cq->polled != cq->added; i++) {
		const struct fv_cqe *cqe = &cq->ring[cq->polled++ % (uint64_t)ibv->cqe];

		wc[i] = cqe->wc;
		give_back(cqe);
	}
	if (!err)
		fv_lab.counts.completions += (uint64_t)i;
	if (!i)
		fv_lab.counts.empty_polls++;
	fv_leave();
	return err ? -err : i;
}

int fv_req_notify_cq(struct ibv_cq *ibv, int solicited_only)
{
	struct fv_cq *cq = fv_cq(ibv);
	int err = fv_enter(FAKEVERBS_REQ_NOTIFY_CQ, fv_context(ibv->context)->dev);

	if (!err) {
		if (cq->polled != cq->added)
			fv_lab.counts.busy_arms++;
		if (!solicited_only)
			cq->armed = FV_ARMED;
		else if (cq->armed == FV_UNARMED)
			cq->armed = FV_ARMED_SOLICITED;
	}
	fv_leave();
	return err;
}

/* ---- completion events ---- */

static struct fv_cq *first_pending(struct fv_channel *ch)
{
	struct fv_cq *first = NULL;
	struct sl_list *e;

	sl_list_for_each (e, &ch->cqs) {
		struct fv_cq *cq = SL_CONTAINER_OF(e, struct fv_cq, channel_node);

		if (cq->n_pending && (!first || cq->pending_nr < first->pending_nr))
			first = cq;
	}
	return first;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **out, void **cq_context)
{
	struct fv_cq *cq;
	uint64_t one;
	int err = fv_enter(FAKEVERBS_GET_CQ_EVENT, NULL);

	fv_leave();
	if (err) {
		errno = err;
		return -1;
	}
	do {
		if (read(channel->fd, &one, sizeof(one)) != sizeof(one))
			return -1;
		fv_lock();
		cq = first_pending(channel_of(channel));
		if (cq) {
			cq->n_pending--;
			cq->n_taken++;
			*out = &cq->ibv;
			*cq_context = cq->ibv.cq_context;
		}
		fv_unlock();
	} while (!cq); /* the queue it was of went away */
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *ibv, unsigned n)
{
	struct fv_cq *cq = fv_cq(ibv);

	fv_lock();
	if (n > cq->n_taken - cq->n_acked)
		fv_wrong("completion queue %u: %u events acknowledged, %u taken", ibv->handle, n,
			 cq->n_taken - cq->n_acked);
	else
		cq->n_acked += n;
	pthread_cond_broadcast(&fv_lab.changed);
	fv_unlock();
}
