/* SPDX-License-Identifier: Apache-2.0 */
/* Asynchronous events, and the descriptors that announce events of both kinds. */
#include "tests/fakes/fakeverbs/lab.h"

#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

void fv_fd_add(int fd)
{
	if (eventfd_write(fd, 1))
		abort();
}

/* Whoever reads it at the same time finds nothing behind it, and looks again. */
void fv_fd_remove(int fd)
{
	uint64_t one;
	struct iovec iov = { &one, sizeof(one) };

	if (preadv2(fd, &iov, 1, -1, RWF_NOWAIT) < 0 && errno != EAGAIN)
		abort();
}

void fv_raise(struct fv_context *ctx, const struct ibv_async_event *event)
{
	if (ctx->n_raised - ctx->n_taken == FV_EVENTS) {
		fv_wrong("%s: %u asynchronous events wait and nobody takes them", ctx->dev->is.name,
			 FV_EVENTS);
		return;
	}
	ctx->events[ctx->n_raised++ % FV_EVENTS] = *event;
	fv_fd_add(ctx->verbs.context.async_fd);
}

void fv_raise_port(struct fv_device *dev, enum ibv_event_type type, uint8_t port)
{
	struct ibv_async_event event = { .element.port_num = port, .event_type = type };
	struct sl_list *e;

	sl_list_for_each (e, &dev->contexts)
		fv_raise(SL_CONTAINER_OF(e, struct fv_context, node), &event);
}

void fv_raise_qp(struct fv_qp *qp, enum ibv_event_type type)
{
	struct ibv_async_event event = { .element.qp = &qp->ibv, .event_type = type };

	fv_raise(fv_context(qp->ibv.context), &event);
}

/* What of the event is acknowledged with an object; NULL: it is of the device or a port. */
static struct fv_object *object_of(const struct ibv_async_event *event)
{
	switch (event->event_type) {
	case IBV_EVENT_CQ_ERR:
		return &fv_cq(event->element.cq)->obj;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		return &fv_srq(event->element.srq)->obj;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		return &fv_qp(event->element.qp)->obj;
	default:
		return NULL;
	}
}

void fv_events_forget(struct fv_context *ctx, struct fv_object *obj)
{
	static const unsigned none;
	unsigned kept = ctx->n_taken;

	for (unsigned i = ctx->n_taken; i != ctx->n_raised; i++) {
		const struct ibv_async_event event = ctx->events[i % FV_EVENTS];

		if (object_of(&event) == obj)
			fv_fd_remove(ctx->verbs.context.async_fd);
		else
			ctx->events[kept++ % FV_EVENTS] = event;
	}
	ctx->n_raised = kept;
	fv_await_acks(&obj->n_async, &none, "the element of asynchronous events, object",
		      (uint32_t)obj->nr);
}

int ibv_get_async_event(struct ibv_context *ibv, struct ibv_async_event *event)
{
	struct fv_context *ctx = fv_context(ibv);
	struct fv_object *obj;
	uint64_t one;
	int err = fv_enter(FAKEVERBS_GET_ASYNC_EVENT, NULL);

	fv_leave();
	for (;;) {
		if (err || read(ibv->async_fd, &one, sizeof(one)) != sizeof(one)) {
			if (err)
				errno = err;
			return -1;
		}
		fv_lock();
		if (ctx->n_taken != ctx->n_raised)
			break;
		fv_unlock();
	}
	*event = ctx->events[ctx->n_taken++ % FV_EVENTS];
	obj = object_of(event);
	if (obj)
		obj->n_async++;
	fv_unlock();
	return 0;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
	struct fv_object *obj = object_of(event);

	if (!obj)
		return;
	fv_lock();
	if (!obj->n_async)
		fv_wrong("an asynchronous event is acknowledged twice");
	else
		obj->n_async--;
	pthread_cond_broadcast(&fv_lab.changed);
	fv_unlock();
}
