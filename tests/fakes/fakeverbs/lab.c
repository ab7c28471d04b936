/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fakes/fakeverbs/lab.h"

#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define PATIENCE_MS 10000

struct fv_lab fv_lab = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static void forget_memory(void)
{
	fakeverbs_add_device_memory(NULL, 0, NULL);
}

union ibv_gid fakeverbs_gid(const char *address)
{
	union ibv_gid gid = { 0 };

	if (strchr(address, ':')) {
		if (inet_pton(AF_INET6, address, gid.raw) != 1)
			abort();
	} else {
		gid.raw[10] = gid.raw[11] = 0xff;
		if (inet_pton(AF_INET, address, gid.raw + 12) != 1)
			abort();
	}
	return gid;
}

static void fill_port(struct fakeverbs_port *p, unsigned i)
{
	char link_local[32], ipv4[32];

	snprintf(link_local, sizeof(link_local), "fe80::10:%x", i + 1);
	snprintf(ipv4, sizeof(ipv4), "10.88.0.%u", i + 1);
	p->link_layer = IBV_LINK_LAYER_ETHERNET;
	p->state = IBV_PORT_ACTIVE;
	p->max_mtu = IBV_MTU_4096;
	p->active_mtu = IBV_MTU_1024;
	p->max_msg_sz = 1u << 30;
	p->active_width = 2;  /* 4x */
	p->active_speed = 32; /* EDR */
	p->pkeys[0] = 0xffff;
	for (unsigned g = 0; g < 4; g++) {
		p->gids[g].gid = fakeverbs_gid(g < 2 ? link_local : ipv4);
		p->gids[g].type = g % 2 ? IBV_GID_TYPE_ROCE_V2 : IBV_GID_TYPE_ROCE_V1;
		p->gids[g].ndev_ifindex = i + 2;
	}
}

static void fill_device(struct fakeverbs_device *d, unsigned i)
{
	*d = (struct fakeverbs_device){
		.node_type = IBV_NODE_CA,
		.transport_type = IBV_TRANSPORT_IB,
		.guid = 0x5ca1ab1e00000001 + i,
		.fw_ver = "1.0",
		.vendor_id = 0xffffff,
		.n_ports = 1,
		.max_qp = FV_QPS,
		.max_qp_wr = 16384,
		.max_sge = 30,
		.max_sge_rd = 30,
		.max_cq = 4096,
		.max_cqe = 1 << 20,
		.max_mr = FV_MRS,
		.max_pd = 4096,
		.max_srq = 1024,
		.max_srq_wr = 16384,
		.max_srq_sge = 30,
		.max_inline = 256,
		.max_rd_atomic = 16,
		.max_init_rd_atomic = 16,
		.max_mr_size = UINT64_C(1) << 46,
		.max_pinned = UINT64_MAX,
		.n_comp_vectors = 4,
		.dmabuf_errno = EOPNOTSUPP,
	};
	snprintf(d->name, sizeof(d->name), "fake%u", i);
	snprintf(d->ibdev_path, sizeof(d->ibdev_path), "/sys/class/infiniband/fake%u", i);
	fill_port(&d->ports[0], i);
}

void fv_lock(void)
{
	pthread_mutex_lock(&fv_lab.lock);
}

void fv_unlock(void)
{
	pthread_mutex_unlock(&fv_lab.lock);
}

static void init_device(struct fv_device *dev, unsigned i)
{
	if (dev->contexts.next && !sl_list_empty(&dev->contexts)) {
		fprintf(stderr, "fakeverbs: reset while %s is open\n", dev->is.name);
		abort();
	}
	memset(dev, 0, sizeof(*dev));
	dev->index = i;
	sl_list_init(&dev->contexts);
	if (i < 2)
		fill_device(&dev->is, i);
}

/* Before main, and before other constructors: a program that never asks for anything has the two
 * devices. */
__attribute__((constructor(101))) static void begin(void)
{
	sl_list_init(&fv_lab.orphans);
	fakeverbs_reset();
}

void fakeverbs_reset(void)
{
	fakeverbs_hold_time(false);
	fakeverbs_set_delay(0, 0, 0);
	fakeverbs_fail_call(0, 0);
	fv_lock();
	for (unsigned i = 0; i < FAKEVERBS_DEVICES; i++)
		init_device(&fv_lab.devices[i], i);
	memset(&fv_lab.counts, 0, sizeof(fv_lab.counts));
	fv_lab.fork_status = IBV_FORK_UNNEEDED;
	fv_lab.patience_ms = PATIENCE_MS;
	fv_unlock();
	forget_memory();
}

struct fakeverbs_device *fakeverbs_device(unsigned i)
{
	if (i >= FAKEVERBS_DEVICES)
		abort();
	if (!fv_lab.devices[i].is.name[0])
		fill_device(&fv_lab.devices[i].is, i);
	return &fv_lab.devices[i].is;
}

void fakeverbs_make_infiniband(unsigned i, uint16_t lid, uint64_t subnet_prefix)
{
	struct fakeverbs_port *p = &fakeverbs_device(i)->ports[0];

	memset(p->gids, 0, sizeof(p->gids));
	p->link_layer = IBV_LINK_LAYER_INFINIBAND;
	p->lid = lid;
	p->sm_lid = 1;
	p->active_mtu = IBV_MTU_4096;
	p->gids[0].type = IBV_GID_TYPE_IB;
	p->gids[0].gid.global.subnet_prefix = htobe64(subnet_prefix);
	p->gids[0].gid.global.interface_id = htobe64(0x5ca1ab1e0000ff00 + i);
}

void fakeverbs_set_fork_status(enum ibv_fork_status status)
{
	fv_lock();
	fv_lab.fork_status = status;
	fv_unlock();
}

void fakeverbs_set_patience(unsigned ms)
{
	fv_lock();
	fv_lab.patience_ms = ms;
	fv_unlock();
}

void fv_wrong(const char *format, ...)
{
	va_list ap;

	fv_lab.n_wrong++;
	fputs("fakeverbs: ", stderr);
	va_start(ap, format);
	vfprintf(stderr, format, ap);
	va_end(ap);
	fputc('\n', stderr);
}

void fv_object_add(struct fv_context *ctx, struct fv_object *obj, enum fv_kind kind)
{
	obj->kind = kind;
	obj->nr = ++fv_lab.n_created;
	sl_list_append(&ctx->objects, &obj->node);
	ctx->dev->n_objects[kind]++;
}

void fv_object_remove(struct fv_context *ctx, struct fv_object *obj)
{
	sl_list_remove(&obj->node);
	ctx->dev->n_objects[obj->kind]--;
}

void fv_await_acks(const unsigned *taken, const unsigned *acked, const char *what, uint32_t handle)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += fv_lab.patience_ms / 1000;
	until.tv_nsec += fv_lab.patience_ms % 1000 * 1000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000;
	}
	while (*acked < *taken) {
		if (!pthread_cond_timedwait(&fv_lab.changed, &fv_lab.lock, &until))
			continue;
		fv_wrong("%s %u is destroyed with %u events not acknowledged: a device would wait "
			 "for ever",
			 what, handle, *taken - *acked);
		return;
	}
}

static unsigned tell_objects(const struct fv_context *ctx)
{
	static const char *const names[FV_KINDS] = { "protection domain",    "memory region",
						     "completion channel",   "completion queue",
						     "shared receive queue", "queue pair" };
	unsigned n = 0;
	struct sl_list *e;

	sl_list_for_each (e, &ctx->objects) {
		const struct fv_object *obj = SL_CONTAINER_OF(e, struct fv_object, node);

		fprintf(stderr, "fakeverbs: %s: a %s is left (object %lu)\n", ctx->dev->is.name,
			names[obj->kind], obj->nr);
		n++;
	}
	return n;
}

unsigned fakeverbs_check(void)
{
	unsigned n;
	struct sl_list *e;

	fv_lock();
	n = fv_lab.n_wrong;
	fv_lab.n_wrong = 0;
	for (unsigned i = 0; i < FAKEVERBS_DEVICES; i++)
		sl_list_for_each (e, &fv_lab.devices[i].contexts) {
			fprintf(stderr, "fakeverbs: %s is open\n", fv_lab.devices[i].is.name);
			n += 1 + tell_objects(SL_CONTAINER_OF(e, struct fv_context, node));
		}
	fv_unlock();
	return n;
}
