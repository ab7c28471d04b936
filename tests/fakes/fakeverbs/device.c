/* SPDX-License-Identifier: Apache-2.0 */
/* Devices, opened and asked. */
#include "tests/fakes/fakeverbs/lab.h"

#include <arpa/inet.h>
#include <endian.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#undef ibv_query_port

struct ibv_device **ibv_get_device_list(int *n_devices)
{
	struct ibv_device **list = NULL;
	int n = 0;
	int err = fv_enter(FAKEVERBS_GET_DEVICE_LIST, NULL);

	if (!err)
		list = calloc(FAKEVERBS_DEVICES + 1, sizeof(struct ibv_device *));
	for (unsigned i = 0; list && i < FAKEVERBS_DEVICES; i++) {
		struct fv_device *dev = &fv_lab.devices[i];

		if (!dev->is.name[0] || dev->dead)
			continue;
		dev->ibv.node_type = dev->is.node_type;
		dev->ibv.transport_type = dev->is.transport_type;
		memcpy(dev->ibv.name, dev->is.name, sizeof(dev->ibv.name));
		snprintf(dev->ibv.dev_name, sizeof(dev->ibv.dev_name), "uverbs%u", i);
		snprintf(dev->ibv.dev_path, sizeof(dev->ibv.dev_path),
			 "/sys/class/infiniband_verbs/uverbs%u", i);
		memcpy(dev->ibv.ibdev_path, dev->is.ibdev_path, sizeof(dev->ibv.ibdev_path));
		list[n++] = &dev->ibv;
	}
	fv_leave();
	if (!list)
		errno = err ? err : ENOMEM;
	else if (n_devices)
		*n_devices = n;
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

const char *ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

static struct fv_device *device_of(struct ibv_device *ibv)
{
	return SL_CONTAINER_OF(ibv, struct fv_device, ibv);
}

__be64 ibv_get_device_guid(struct ibv_device *device)
{
	return htobe64(device_of(device)->is.guid);
}

int ibv_get_device_index(struct ibv_device *device)
{
	return (int)device_of(device)->index;
}

/* ---- queries ---- */

static void fill_attr(const struct fakeverbs_device *d, struct ibv_device_attr *a)
{
	memset(a, 0, sizeof(*a));
	memcpy(a->fw_ver, d->fw_ver, sizeof(a->fw_ver));
	a->node_guid = a->sys_image_guid = htobe64(d->guid);
	a->max_mr_size = d->max_mr_size;
	a->page_size_cap = 0xfffff000;
	a->vendor_id = d->vendor_id;
	a->vendor_part_id = d->vendor_part_id;
	a->hw_ver = d->hw_ver;
	a->max_qp = d->max_qp;
	a->max_qp_wr = d->max_qp_wr;
	a->device_cap_flags = IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_PORT_ACTIVE_EVENT;
	a->max_sge = d->max_sge;
	a->max_sge_rd = d->max_sge_rd;
	a->max_cq = d->max_cq;
	a->max_cqe = d->max_cqe;
	a->max_mr = d->max_mr;
	a->max_pd = d->max_pd;
	a->max_qp_rd_atom = d->max_rd_atomic;
	a->max_res_rd_atom = d->max_rd_atomic * d->max_qp;
	a->max_qp_init_rd_atom = d->max_init_rd_atomic;
	a->atomic_cap = IBV_ATOMIC_HCA;
	a->max_srq = d->max_srq;
	a->max_srq_wr = d->max_srq_wr;
	a->max_srq_sge = d->max_srq_sge;
	a->max_pkeys = FAKEVERBS_PKEYS;
	a->local_ca_ack_delay = 15;
	a->phys_port_cnt = d->n_ports;
}

int ibv_query_device(struct ibv_context *ibv, struct ibv_device_attr *attr)
{
	struct fv_device *dev = fv_context(ibv)->dev;
	int err = fv_enter(FAKEVERBS_QUERY_DEVICE, dev);

	if (!err)
		fill_attr(&dev->is, attr);
	fv_leave();
	return err;
}

static int query_device_ex(struct ibv_context *ibv, const struct ibv_query_device_ex_input *input,
			   struct ibv_device_attr_ex *attr, size_t len)
{
	struct fv_device *dev = fv_context(ibv)->dev;
	struct ibv_device_attr_ex a = { 0 };
	int err = fv_enter(FAKEVERBS_QUERY_DEVICE, dev);

	(void)input;
	if (!err) {
		fill_attr(&dev->is, &a.orig_attr);
		a.odp_caps = dev->is.odp_caps;
		a.device_cap_flags_ex = a.orig_attr.device_cap_flags;
		a.phys_port_cnt_ex = dev->is.n_ports;
		memcpy(attr, &a, len < sizeof(a) ? len : sizeof(a));
	}
	fv_leave();
	return err;
}

static struct fakeverbs_port *port_of(struct fv_device *dev, uint32_t num)
{
	return num >= 1 && num <= dev->is.n_ports ? &dev->is.ports[num - 1] : NULL;
}

static void fill_port_attr(const struct fakeverbs_port *p, struct ibv_port_attr *a)
{
	a->state = p->state;
	a->max_mtu = p->max_mtu;
	a->active_mtu = p->active_mtu;
	a->gid_tbl_len = FAKEVERBS_GIDS;
	a->max_msg_sz = p->max_msg_sz;
	a->pkey_tbl_len = FAKEVERBS_PKEYS;
	a->lid = p->lid;
	a->sm_lid = p->sm_lid;
	a->max_vl_num = 1;
	a->active_width = p->active_width;
	a->active_speed = p->active_speed;
	a->phys_state = p->state == IBV_PORT_ACTIVE ? 5 /* link up */ : 3 /* disabled */;
	a->link_layer = p->link_layer;
	a->flags = p->grh_required || p->link_layer == IBV_LINK_LAYER_ETHERNET
			   ? IBV_QPF_GRH_REQUIRED
			   : 0;
}

static int query_port(struct ibv_context *ibv, uint8_t num, struct ibv_port_attr *attr, size_t len)
{
	struct fv_device *dev = fv_context(ibv)->dev;
	struct ibv_port_attr a = { 0 };
	int err = fv_enter(FAKEVERBS_QUERY_PORT, dev);

	if (!err && !port_of(dev, num))
		err = EINVAL;
	if (!err) {
		fill_port_attr(port_of(dev, num), &a);
		memcpy(attr, &a, len < sizeof(a) ? len : sizeof(a));
	}
	fv_leave();
	return err;
}

/* What programs of before verbs_context call: a struct that ends before port_cap_flags2. */
int ibv_query_port(struct ibv_context *ibv, uint8_t num, struct _compat_ibv_port_attr *attr)
{
	return query_port(ibv, num, (struct ibv_port_attr *)(void *)attr,
			  offsetof(struct ibv_port_attr, port_cap_flags2));
}

/* ---- tables ---- */

static bool is_empty(const struct fakeverbs_gid *g)
{
	static const union ibv_gid none;

	return !memcmp(&g->gid, &none, sizeof(none));
}

static void fill_gid(const struct fakeverbs_gid *g, uint32_t port, uint32_t index,
		     struct ibv_gid_entry *e)
{
	e->gid = g->gid;
	e->gid_index = index;
	e->port_num = port;
	e->gid_type = g->type;
	e->ndev_ifindex = g->ndev_ifindex;
}

int _ibv_query_gid_ex(struct ibv_context *ibv, uint32_t num, uint32_t index,
		      struct ibv_gid_entry *entry, uint32_t flags, size_t len)
{
	struct fv_device *dev = fv_context(ibv)->dev;
	const struct fakeverbs_port *p = port_of(dev, num);
	struct ibv_gid_entry e = { 0 };
	int err = fv_enter(FAKEVERBS_QUERY_GID, dev);

	if (!err && (!p || index >= FAKEVERBS_GIDS || flags))
		err = EINVAL;
	else if (!err && is_empty(&p->gids[index]))
		err = ENODATA;
	if (!err) {
		fill_gid(&p->gids[index], num, index, &e);
		memcpy(entry, &e, len < sizeof(e) ? len : sizeof(e));
	}
	fv_leave();
	return err;
}

/* As the old calls end: the error is in errno. */
static int leave_with(int err)
{
	fv_leave();
	if (err)
		errno = err;
	return err ? -1 : 0;
}

/* An empty entry is a GID of zeros here. */
int ibv_query_gid(struct ibv_context *ibv, uint8_t num, int index, union ibv_gid *gid)
{
	struct fv_device *dev = fv_context(ibv)->dev;
	const struct fakeverbs_port *p = port_of(dev, num);
	int err = fv_enter(FAKEVERBS_QUERY_GID, dev);

	if (!err && (!p || index < 0 || index >= FAKEVERBS_GIDS))
		err = EINVAL;
	if (!err)
		*gid = p->gids[index].gid;
	return leave_with(err);
}

ssize_t _ibv_query_gid_table(struct ibv_context *ibv, struct ibv_gid_entry *entries, size_t cap,
			     uint32_t flags, size_t len)
{
	struct fv_device *dev = fv_context(ibv)->dev;
	size_t n = 0;
	int err = fv_enter(FAKEVERBS_QUERY_GID, dev);

	if (!err && (flags || len != sizeof(*entries)))
		err = EINVAL;
	for (uint32_t p = 1; !err && p <= dev->is.n_ports; p++)
		for (uint32_t i = 0; !err && i < FAKEVERBS_GIDS; i++) {
			const struct fakeverbs_gid *g = &dev->is.ports[p - 1].gids[i];

			if (is_empty(g))
				continue;
			if (n == cap)
				err = EINVAL;
			else
				fill_gid(g, p, i, &entries[n++]);
		}
	fv_leave();
	return err ? -err : (ssize_t)n;
}

int ibv_query_pkey(struct ibv_context *ibv, uint8_t num, int index, __be16 *pkey)
{
	struct fv_device *dev = fv_context(ibv)->dev;
	const struct fakeverbs_port *p = port_of(dev, num);
	int err = fv_enter(FAKEVERBS_QUERY_PKEY, dev);

	if (!err && (!p || index < 0 || index >= FAKEVERBS_PKEYS))
		err = EINVAL;
	if (!err)
		*pkey = htons(p->pkeys[index]);
	return leave_with(err);
}

int ibv_get_pkey_index(struct ibv_context *ibv, uint8_t num, __be16 pkey)
{
	__be16 there;

	for (int i = 0; i < FAKEVERBS_PKEYS; i++)
		if (!ibv_query_pkey(ibv, num, i, &there) && there == pkey)
			return i;
	return -1;
}

/* ---- contexts ---- */

static int advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
		     struct ibv_sge *sg_list, uint32_t n)
{
	struct fv_device *dev = fv_context(pd->context)->dev;
	int err = fv_enter(FAKEVERBS_ADVISE_MR, dev);

	(void)advice;
	(void)flags;
	if (!err && !(dev->is.odp_caps.general_caps & IBV_ODP_SUPPORT))
		err = EOPNOTSUPP;
	for (uint32_t i = 0; !err && i < n; i++)
		if (!fv_mr_at(dev, pd, sg_list[i].lkey, sg_list[i].addr, sg_list[i].length, 0))
			err = EINVAL;
	fv_leave();
	return err;
}

static struct fv_context *new_context(struct fv_device *dev)
{
	struct fv_context *ctx = calloc(1, sizeof(*ctx));

	if (!ctx)
		return NULL;
	ctx->dev = dev;
	sl_list_init(&ctx->objects);
	ctx->verbs.sz = sizeof(ctx->verbs);
	ctx->verbs.query_port = query_port;
	ctx->verbs.query_device_ex = query_device_ex;
	ctx->verbs.advise_mr = advise_mr;
	ctx->verbs.context.device = &dev->ibv;
	ctx->verbs.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	ctx->verbs.context.cmd_fd = -1;
	ctx->verbs.context.num_comp_vectors = dev->is.n_comp_vectors;
	ctx->verbs.context.ops.poll_cq = fv_poll_cq;
	ctx->verbs.context.ops.req_notify_cq = fv_req_notify_cq;
	ctx->verbs.context.ops.post_send = fv_post_send;
	ctx->verbs.context.ops.post_recv = fv_post_recv;
	ctx->verbs.context.ops.post_srq_recv = fv_post_srq_recv;
	ctx->verbs.context.async_fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
	if (ctx->verbs.context.async_fd < 0) {
		free(ctx);
		return NULL;
	}
	return ctx;
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct fv_device *dev = device_of(device);
	struct fv_context *ctx = NULL;
	int err = fv_enter(FAKEVERBS_OPEN_DEVICE, dev);

	if (!err) {
		ctx = new_context(dev);
		err = ctx ? 0 : ENOMEM;
	}
	if (ctx)
		sl_list_append(&dev->contexts, &ctx->node);
	fv_leave();
	if (err)
		errno = err;
	return ctx ? &ctx->verbs.context : NULL;
}

static bool any_open(void)
{
	for (unsigned i = 0; i < FAKEVERBS_DEVICES; i++)
		if (!sl_list_empty(&fv_lab.devices[i].contexts))
			return true;
	return false;
}

/* With objects in it, the context stays for those who have pointers to them; a device would stop
 * them, and so does this one. */
static void close_context(struct fv_context *ctx)
{
	struct sl_list *e;

	sl_list_remove(&ctx->node);
	close(ctx->verbs.context.async_fd);
	if (sl_list_empty(&ctx->objects)) {
		free(ctx);
		return;
	}
	sl_list_for_each (e, &ctx->objects) {
		struct fv_object *obj = SL_CONTAINER_OF(e, struct fv_object, node);

		fv_wrong("%s is closed with object %lu in it", ctx->dev->is.name, obj->nr);
		if (obj->kind == FV_QP)
			fv_qp_reset(SL_CONTAINER_OF(obj, struct fv_qp, obj));
	}
	sl_list_append(&fv_lab.orphans, &ctx->node);
}

int ibv_close_device(struct ibv_context *ibv)
{
	bool last = false;
	int err = fv_enter(FAKEVERBS_CLOSE_DEVICE, NULL);

	if (!err) {
		close_context(fv_context(ibv));
		last = !any_open();
	}
	fv_leave();
	if (last)
		fv_clock_stop();
	return err;
}

int ibv_fork_init(void)
{
	int err = fv_enter(FAKEVERBS_FORK_INIT, NULL);

	if (!err && fv_lab.fork_status == IBV_FORK_DISABLED)
		fv_lab.fork_status = IBV_FORK_ENABLED;
	fv_leave();
	return err;
}

enum ibv_fork_status ibv_is_fork_initialized(void)
{
	enum ibv_fork_status status;

	fv_lock();
	status = fv_lab.fork_status;
	fv_unlock();
	return status;
}

/* ---- what tests do to devices ---- */

static struct fv_device *nth(unsigned i)
{
	if (i >= FAKEVERBS_DEVICES)
		abort();
	return &fv_lab.devices[i];
}

void fakeverbs_set_port_state(unsigned device, uint8_t port, enum ibv_port_state state)
{
	struct fv_device *dev = nth(device);

	fv_lock();
	dev->is.ports[port - 1].state = state;
	fv_raise_port(dev, state == IBV_PORT_ACTIVE ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR,
		      port);
	fv_unlock();
}

void fakeverbs_set_gid(unsigned device, uint8_t port, unsigned index, const union ibv_gid *gid,
		       enum ibv_gid_type type)
{
	struct fakeverbs_gid *g = &nth(device)->is.ports[port - 1].gids[index];

	fv_lock();
	memset(&g->gid, 0, sizeof(g->gid));
	if (gid)
		g->gid = *gid;
	g->type = type;
	fv_raise_port(nth(device), IBV_EVENT_GID_CHANGE, port);
	fv_unlock();
}

void fakeverbs_set_cut(unsigned a, unsigned b, bool cut)
{
	fv_lock();
	nth(a)->cut[b] = cut;
	nth(b)->cut[a] = cut;
	fv_unlock();
}

/* Under the lab's lock. */
static void kill_device(struct fv_device *dev)
{
	for (unsigned i = 0; i < FV_QPS; i++)
		if (dev->qps[i])
			fv_qp_error(dev->qps[i]);
	dev->dead = true;
}

void fakeverbs_kill_device(unsigned device)
{
	fv_lock();
	kill_device(nth(device));
	fv_raise_port(nth(device), IBV_EVENT_DEVICE_FATAL, 0);
	fv_unlock();
}

void fakeverbs_remove_device(unsigned device)
{
	fv_lock();
	kill_device(nth(device));
	nth(device)->removed = true;
	fv_unlock();
}

/* A pipe that nobody reads is in error for ever. */
static void break_fd(int fd)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) || close(ends[0]) || dup3(ends[1], fd, O_CLOEXEC) != fd ||
	    close(ends[1]))
		abort();
}

void fakeverbs_end_events(unsigned device)
{
	struct sl_list *e;

	fv_lock();
	sl_list_for_each (e, &nth(device)->contexts)
		break_fd(SL_CONTAINER_OF(e, struct fv_context, node)->verbs.context.async_fd);
	fv_unlock();
}

void fakeverbs_revive_device(unsigned device)
{
	struct fv_device *dev = nth(device);

	fv_lock();
	if (!sl_list_empty(&dev->contexts))
		fv_wrong("%s is revived while it is open", dev->is.name);
	dev->dead = dev->removed = false;
	fv_unlock();
}

void fakeverbs_raise(unsigned device, enum ibv_event_type type, uint8_t port)
{
	fv_lock();
	fv_raise_port(nth(device), type, port);
	fv_unlock();
}
