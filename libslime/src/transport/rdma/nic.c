/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/log.h"
#include "src/transport/rdma/rdma.h"

#define GONE "the device is gone"

/* ---- events ---- */

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
static void look_whether_gone(struct rdma_nic *nic, struct sl_source *s, uint32_t events)
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
	look_whether_gone(nic, s, events);
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
		rdma_devices_look_elsewhere(nic->t);
	} else if (event->event_type == IBV_EVENT_PORT_ACTIVE) {
		nic->port_is_down = false;
		rdma_devices_stay(nic->t);
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

void rdma_nic_look(struct rdma_nic *nic)
{
	struct ibv_async_event event;

	while (ibv_get_async_event(nic->device.ibv, &event) == 0) {
		rdma_news_count(nic, &event);
		on_event(nic, &event);
		ibv_ack_async_event(&event);
	}
}

bool rdma_nic_is_gone(struct rdma_nic *nic)
{
	struct pollfd fd = { .fd = nic->device.ibv->async_fd };

	rdma_nic_look(nic);
	if (poll(&fd, 1, 0) == 1 && fd.revents & (POLLERR | POLLHUP))
		fail_device(nic, GONE);
	return atomic_load(&nic->dead);
}

static void on_async(struct sl_source *s, uint32_t events)
{
	struct rdma_nic *nic = SL_CONTAINER_OF(s, struct rdma_nic, async_source);

	rdma_nic_look(nic);
	look_whether_gone(nic, s, events);
}

static int watch(struct rdma_nic *nic, struct sl_source *s, sl_source_fn *fn, int fd)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK))
		return -errno;
	s->fn = fn;
	return sl_poller_add(rdma_poller(nic->t), s, fd, EPOLLIN);
}

/* ---- what it can do ---- */

static uint8_t clamp_u8(int n)
{
	return (uint8_t)(n < 0 ? 0 : n > 255 ? 255 : n);
}

static int read_limits(struct rdma_nic *nic, struct sl_why *why)
{
	const struct ibv_device_attr *a = &nic->device.attr.orig_attr;

	if (a->max_qp_wr < (int)RDMA_RECEIVES) {
		snprintf(why->text, sizeof(why->text),
			 "%.40s: queues of %d entries, and %d are needed", nic->device.name,
			 a->max_qp_wr, (int)RDMA_RECEIVES);
		return -EOPNOTSUPP;
	}
	nic->n_sges = a->max_sge < RDMA_SGES ? (uint32_t)a->max_sge : RDMA_SGES;
	if (a->max_sge_rd > 0 && a->max_sge_rd < (int)nic->n_sges)
		nic->n_sges = (uint32_t)a->max_sge_rd;
	nic->max_rd_atomic = clamp_u8(a->max_qp_init_rd_atom);
	nic->max_dest_rd_atomic = clamp_u8(a->max_qp_rd_atom);
	if (!nic->max_rd_atomic || !nic->max_dest_rd_atomic) {
		snprintf(why->text, sizeof(why->text), "%.40s: it has no RDMA reads",
			 nic->device.name);
		return -EOPNOTSUPP;
	}
	return 0;
}

/* A queue pair that has none is tried again and again, as if the peer were to blame. */
static int check_pkey(const struct rdma_nic *nic, const struct sl_port *port, struct sl_why *why)
{
	uint32_t index = nic->t->base.env->attr->rdma_pkey_index;

	if (index < port->attr.pkey_tbl_len)
		return 0;
	snprintf(why->text, sizeof(why->text),
		 "%.40s: the port has %u partition keys, and none at index %u (configured)",
		 nic->device.name, port->attr.pkey_tbl_len, index);
	return -EADDRNOTAVAIL;
}

static int use_port(struct rdma_nic *nic, const struct sl_port *port, struct sl_why *why)
{
	const struct slime_context_attr *attr = nic->t->base.env->attr;
	struct sl_gid_choice choice;
	struct sl_device_why said;
	uint32_t max_msg;
	int ret = sl_port_check(port, &said);

	if (ret) {
		snprintf(why->text, sizeof(why->text), "%.40s: %.140s", nic->device.name,
			 said.text);
		return ret;
	}
	ret = check_pkey(nic, port, why);
	if (ret)
		return ret;
	ret = sl_gid_choose(port->gids, port->n_gids, port->link_layer, attr->rdma_gid_index,
			    &choice);
	if (ret) {
		snprintf(why->text, sizeof(why->text), "%.40s: %.140s", nic->device.name,
			 choice.why);
		return ret;
	}
	if (memcmp(&nic->gid, &choice.gid, sizeof(nic->gid)))
		sl_info("rdma", "%s port %u: %s", nic->device.name, port->num, choice.why);
	nic->link_layer = port->link_layer;
	/* Of RoCE it is no news. */
	nic->grh_required = port->link_layer == SLIME_LINK_INFINIBAND &&
			    port->attr.flags & IBV_QPF_GRH_REQUIRED;
	nic->gid = choice.gid;
	nic->lid = port->attr.lid;
	nic->mtu = port->attr.active_mtu;
	memcpy(nic->gid_why, choice.why, sizeof(nic->gid_why));
	/* mana's driver does not say: then it is more than our requests have. */
	max_msg = port->attr.max_msg_sz ? port->attr.max_msg_sz : UINT32_MAX;
	atomic_store_explicit(&nic->max_msg, max_msg, memory_order_relaxed);
	return 0;
}

int rdma_nic_refresh(struct rdma_nic *nic, struct sl_why *why)
{
	struct sl_device_why said;
	struct sl_port port;
	int ret;

	ret = sl_port_init(&port, &nic->device, nic->port, &said);
	if (ret) {
		snprintf(why->text, sizeof(why->text), "%.180s", said.text);
	} else {
		ret = use_port(nic, &port, why);
		sl_port_fini(&port);
	}
	nic->usable = !ret;
	return ret;
}

bool rdma_nic_took_along(const struct rdma_nic *nic, int err)
{
	return err == EIO && atomic_load(&nic->dead);
}

void rdma_nic_deregister(const struct rdma_nic *nic, struct ibv_mr **ibv)
{
	struct ibv_mr *mr = *ibv;
	void *addr = mr ? mr->addr : NULL;
	size_t len = mr ? mr->length : 0;
	int ret = mr ? ibv_dereg_mr(mr) : 0;

	if (ret && !rdma_nic_took_along(nic, ret))
		sl_error("rdma", "%s: %zu bytes at %p cannot be deregistered: %s", nic->device.name,
			 len, addr, strerror(ret));
	*ibv = NULL;
}

/* ---- life ---- */

static int fail(struct rdma_nic *nic, struct sl_why *why, const char *what)
{
	int err = errno ? errno : EIO;

	snprintf(why->text, sizeof(why->text), "%.40s: %s: %s", nic->device.name, what,
		 strerror(err));
	return -err;
}

int rdma_nic_open(struct rdma_transport *t, const char *device, uint8_t port, unsigned index,
		  struct rdma_nic **out, struct sl_why *why)
{
	struct rdma_nic *nic = calloc(1, sizeof(*nic));
	struct sl_device_why said;
	int ret;

	if (!nic) {
		snprintf(why->text, sizeof(why->text), "no memory");
		return -ENOMEM;
	}
	nic->t = t;
	nic->index = index;
	nic->port = port;
	nic->channel_source.fd = -1;
	nic->async_source.fd = -1;
	ret = sl_device_init(&nic->device, device, &said);
	if (ret) {
		snprintf(why->text, sizeof(why->text), "%.180s", said.text);
		goto free_nic;
	}
	ret = read_limits(nic, why);
	if (ret)
		goto fini_device;
	errno = 0;
	nic->channel = ibv_create_comp_channel(nic->device.ibv);
	if (!nic->channel) {
		ret = fail(nic, why, "no completion channel");
		goto fini_device;
	}
	*out = nic;
	return 0;

fini_device:
	sl_device_fini(&nic->device);
free_nic:
	free(nic);
	return ret;
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

void rdma_nic_close(struct rdma_nic *nic)
{
	for (unsigned i = 0; i < nic->n_cqs; i++) {
		struct rdma_cq *cq = atomic_exchange(&nic->cqs[i], NULL);

		if (cq)
			rdma_cq_close(cq);
	}
	ibv_destroy_comp_channel(nic->channel);
	sl_device_fini(&nic->device);
}
