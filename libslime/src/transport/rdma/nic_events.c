/* SPDX-License-Identifier: Apache-2.0 */
/* Async events of a device, and what follows for the rails that use it. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/epoll.h>

#include "base/list.h"
#include "base/log.h"
#include "src/core/lock.h"
#include "src/transport/rdma/conn.h"
#include "src/transport/rdma/cq.h"
#include "src/transport/rdma/async_events.h"
#include "src/transport/rdma/nic.h"
#include "src/transport/rdma/offer.h"
#include "src/transport/rdma/path.h"
#include "src/transport/rdma/qp.h"
#include "src/transport/rdma/transport.h"

#define GONE "the device is gone"

static bool uses(const struct rdma_path *p, const struct rdma_nic *nic, const struct rdma_cq *cq)
{
	bool any = !cq;

	for (unsigned i = 0; i < p->n_qps && cq; i++)
		any = any || p->qps[i]->cq == cq;
	return p->rail->nic == nic && any;
}

/* Each rail of a connection that uses it; cq NULL: any queue of it. */
static void for_each_path(struct rdma_nic *nic, const struct rdma_cq *cq,
			  void (*fn)(struct rdma_path *p, const char *why), const char *why)
{
	struct sl_list *e, *tmp;

	sl_list_for_each_safe (e, tmp, &nic->t->conns) {
		struct rdma_conn *c = SL_CONTAINER_OF(e, struct rdma_conn, link);

		for (unsigned i = 0; i < c->n_paths; i++) {
			if (uses(&c->paths[i], nic, cq))
				fn(&c->paths[i], why);
		}
	}
}

static void fail_path(struct rdma_path *p, const char *why)
{
	sl_lock(&p->c->lock);
	if (p->state != RDMA_PATH_DOWN)
		rdma_path_fail_locked(p, -EIO, why);
	sl_unlock(&p->c->lock);
}

static void try_path(struct rdma_path *p, const char *why)
{
	(void)why;
	rdma_path_port_changed(p);
}

static void bring_back_path(struct rdma_path *p, const char *why)
{
	(void)why;
	rdma_path_port_up(p);
}

static void fail_all(struct rdma_nic *nic, const struct rdma_cq *cq, const char *what)
{
	char why[160];

	sl_error("rdma", "%s: %s", nic->device.name, what);
	snprintf(why, sizeof(why), "%.40s: %s", nic->device.name, what);
	for_each_path(nic, cq, fail_path, why);
}

void rdma_nic_cq_failed(struct rdma_cq *cq, const char *what)
{
	/* soft-RoCE says so again for each completion that is lost. */
	if (rdma_cq_fail(cq))
		fail_all(cq->nic, cq, what);
}

static void fail_device(struct rdma_nic *nic, const char *what)
{
	if (atomic_exchange(&nic->dead, true))
		return;
	atomic_store(&nic->t->failed, true);
	fail_all(nic, NULL, what);
}

/* Its descriptors say so for ever once the kernel has taken the device away: they are not watched
 * any more. */
static void check_gone(struct rdma_nic *nic, struct sl_source *s, uint32_t events)
{
	if (!(events & (EPOLLERR | EPOLLHUP)))
		return;
	sl_poller_remove(rdma_poller(nic->t), s);
	fail_device(nic, GONE);
}

static void on_channel(struct sl_source *s, uint32_t events)
{
	struct rdma_nic *nic = SL_CONTAINER_OF(s, struct rdma_nic, channel_source);
	struct ibv_cq *ibv;
	void *cq;

	while (ibv_get_cq_event(nic->channel, &ibv, &cq) == 0)
		rdma_cq_rang(cq);
	check_gone(nic, s, events);
}

static void fail_qp(struct rdma_nic *nic, struct ibv_qp *ibv, const char *what, bool fatal)
{
	struct rdma_entry *e = ibv->qp_context;
	struct rdma_qp *q = atomic_load(&e->qp);
	char why[160];

	/* Of a device that failed another's may be in that place. */
	if (!q || q->nic != nic || !q->conn)
		return;
	snprintf(why, sizeof(why), "%.40s: %s", nic->device.name, what);
	/* The others are the peer's requests, which would be as wrong on another rail. */
	if (fatal)
		fail_path(q->path, why);
	else
		rdma_conn_fail(q->conn, -EIO, why);
}

static void on_port_event(struct rdma_nic *nic, const struct ibv_async_event *event)
{
	const char *what = ibv_event_type_str(event->event_type);

	sl_info("rdma", "%s port %d: %s", nic->device.name, event->element.port_num, what);
	if (event->element.port_num != nic->port)
		return;
	if (event->event_type == IBV_EVENT_PORT_ERR) {
		nic->port_is_down = true;
		for_each_path(nic, NULL, rdma_path_port_down, "its port went down");
		nic->t->on_port(nic->t, false);
	} else if (event->event_type == IBV_EVENT_PORT_ACTIVE) {
		nic->port_is_down = false;
		nic->t->on_port(nic->t, true);
		for_each_path(nic, NULL, bring_back_path, what);
	} else {
		/* A port that is down says so as well: its addresses go with its interface. */
		for_each_path(nic, NULL, try_path, what);
	}
}

static void on_event(struct rdma_nic *nic, const struct ibv_async_event *event)
{
	const char *what = ibv_event_type_str(event->event_type);

	switch (event->event_type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
		fail_qp(nic, event->element.qp, what, event->event_type == IBV_EVENT_QP_FATAL);
		break;
	case IBV_EVENT_CQ_ERR:
		rdma_nic_cq_failed(event->element.cq->cq_context, what);
		break;
	case IBV_EVENT_DEVICE_FATAL:
		fail_device(nic, what);
		break;
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_GID_CHANGE:
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_PKEY_CHANGE:
		on_port_event(nic, event);
		break;
	default:
		sl_debug("rdma", "%s: %s", nic->device.name, what);
	}
}

void rdma_nic_poll_events(struct rdma_nic *nic)
{
	struct ibv_async_event event;

	while (ibv_get_async_event(nic->device.ibv, &event) == 0) {
		rdma_async_events_count(nic, &event);
		on_event(nic, &event);
		ibv_ack_async_event(&event);
	}
}

bool rdma_nic_is_gone(struct rdma_nic *nic)
{
	struct pollfd fd = { .fd = nic->device.ibv->async_fd };

	rdma_nic_poll_events(nic);
	if (poll(&fd, 1, 0) == 1 && fd.revents & (POLLERR | POLLHUP))
		fail_device(nic, GONE);
	return atomic_load(&nic->dead);
}

static void on_async(struct sl_source *s, uint32_t events)
{
	struct rdma_nic *nic = SL_CONTAINER_OF(s, struct rdma_nic, async_source);

	rdma_nic_poll_events(nic);
	check_gone(nic, s, events);
}

static int watch(struct rdma_nic *nic, struct sl_source *s, sl_source_fn *fn, int fd)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK))
		return -errno;
	s->fn = fn;
	return sl_poller_add(rdma_poller(nic->t), s, fd, EPOLLIN);
}

int rdma_nic_watch(struct rdma_nic *nic, struct sl_why *why)
{
	int ret = watch(nic, &nic->channel_source, on_channel, nic->channel->fd);

	if (!ret)
		ret = watch(nic, &nic->async_source, on_async, nic->device.ibv->async_fd);
	if (!ret)
		return 0;
	snprintf(why->text, sizeof(why->text), "%.40s: its events cannot be watched: %s",
		 nic->device.name, strerror(-ret));
	atomic_store(&nic->dead, true);
	atomic_store(&nic->t->failed, true);
	return ret;
}

void rdma_nic_unwatch(struct rdma_nic *nic)
{
	sl_poller_remove(rdma_poller(nic->t), &nic->async_source);
	sl_poller_remove(rdma_poller(nic->t), &nic->channel_source);
}
