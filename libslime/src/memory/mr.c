/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "src/progress/context.h"
#include "src/core/desc.h"
#include "src/memory/mem.h"
#include "src/transport/auth.h"

/* Devices unpin some GiB a second; one that takes longer is broken. */
#define DEVICES_NS (60 * SL_NS_PER_S)

/* Whether every page of it is mapped: an answer for now, which is all that can be known. */
static int check_mapped(const uint8_t *addr, size_t len)
{
	unsigned char pages[4096];
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t at = (uintptr_t)addr & ~(page - 1);
	uintptr_t end = (uintptr_t)addr + len;

	while (at < end) {
		size_t step = sizeof(pages) * page;

		if (step > end - at)
			step = end - at;
		if (mincore((void *)at, step, pages))
			return errno == ENOMEM ? -EFAULT : -errno;
		at += step;
	}
	return 0;
}

static void release_mem(struct slime_context *ctx, struct slime_mem *mem)
{
	if (!mem)
		return;
	pthread_mutex_lock(&ctx->lock);
	mem->n_regions--;
	pthread_mutex_unlock(&ctx->lock);
}

static int hold_mem(struct slime_context *ctx, const struct sl_region *what, struct slime_mem **out)
{
	int ret;

	pthread_mutex_lock(&ctx->lock);
	ret = sl_mem_hold(ctx, what, out);
	pthread_mutex_unlock(&ctx->lock);
	return ret;
}

static int check_attr(const uint8_t *addr, size_t len, const struct slime_mr_attr *attr)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);

	if (!len || len > INT64_MAX || (uintptr_t)addr + len < (uintptr_t)addr ||
	    attr->access & ~(uint32_t)(SLIME_ACCESS_REMOTE_READ | SLIME_ACCESS_REMOTE_WRITE))
		return -EINVAL;
	/* The maker of such memory says where it is. */
	if (attr->device_memory && attr->on_demand)
		return -EINVAL;
	if (attr->dmabuf_fd < 0)
		return attr->device_memory && !addr ? -EINVAL : 0;
	if (!attr->device_memory || attr->dmabuf_offset + len < len)
		return -EINVAL;
	return addr && ((uintptr_t)addr ^ attr->dmabuf_offset) & (page - 1) ? -EINVAL : 0;
}

/* Memory of which we know only the address. */
static int describe_device(const struct slime_mr_attr *attr, struct sl_region *what)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);

	what->kind = SL_REGION_DEVICE;
	what->has_address = what->base;
	if (attr->dmabuf_fd < 0)
		return 0;
	what->dmabuf_offset = attr->dmabuf_offset;
	/* Any will do that is in its page as the offset is, and no null pointer. */
	if (!what->base)
		what->base = (uint8_t *)(page + (attr->dmabuf_offset & (page - 1)));
	what->dmabuf_fd = fcntl(attr->dmabuf_fd, F_DUPFD_CLOEXEC, 0);
	return what->dmabuf_fd < 0 ? -errno : 0;
}

static int describe_host(struct slime_context *ctx, struct sl_region *what, struct slime_mem **mem)
{
	int ret = hold_mem(ctx, what, mem);

	if (ret)
		return ret;
	if (!*mem)
		return check_mapped(what->base, what->len);
	what->kind = SL_REGION_MEMFD;
	what->memfd = (*mem)->fd;
	what->memfd_offset = (uint64_t)(what->base - (*mem)->addr);
	what->memfd_len = (*mem)->len;
	return 0;
}

static void release_memory(struct slime_context *ctx, struct slime_mem *mem, int dmabuf_fd)
{
	release_mem(ctx, mem);
	if (dmabuf_fd >= 0)
		close(dmabuf_fd);
}

/* The region did not come to be: no peer saw the memory. */
static void undo(struct slime_context *ctx, const struct sl_region *what, struct slime_mem *mem)
{
	if (mem && what->access) {
		pthread_mutex_lock(&ctx->lock);
		mem->n_shown--;
		pthread_mutex_unlock(&ctx->lock);
	}
	release_memory(ctx, mem, what->dmabuf_fd);
}

static int create(struct slime_context *ctx, struct sl_region *what, struct slime_mem *mem,
		  struct slime_mr **out)
{
	struct slime_mr *mr = malloc(sizeof(*mr));
	int ret = mr ? sl_auth_random(what->secret, sizeof(what->secret)) : -ENOMEM;

	if (ret)
		goto free_mr;
	mr->ctx = ctx;
	mr->mem = mem;
	what->handle = mr;
	ret = sl_region_add(&ctx->regions, what, &mr->region);
	if (ret)
		goto free_mr;
	atomic_fetch_add(&ctx->n_regions, 1);
	*out = mr;
	return 0;

free_mr:
	free(mr);
	return ret;
}

int slime_mr_create_attr(struct slime_context *ctx, void *addr, size_t len,
			 const struct slime_mr_attr *attr, struct slime_mr **out)
{
	static const struct slime_mr_attr defaults = SLIME_MR_ATTR_INIT;
	struct sl_region what = { .base = addr, .len = len, .memfd = -1, .dmabuf_fd = -1 };
	struct slime_mem *mem = NULL;
	int ret = sl_context_check(ctx);

	if (!attr)
		attr = &defaults;
	if (!ret)
		ret = check_attr(addr, len, attr);
	if (ret)
		return ret;
	what.access = attr->access;
	what.restricted = attr->restricted;
	what.on_demand = attr->on_demand;
	ret = attr->device_memory ? describe_device(attr, &what) : describe_host(ctx, &what, &mem);
	if (ret)
		return ret;
	ret = create(ctx, &what, mem, out);
	if (ret)
		undo(ctx, &what, mem);
	return ret;
}

void slime_mr_attr_init(struct slime_mr_attr *attr)
{
	*attr = (struct slime_mr_attr)SLIME_MR_ATTR_INIT;
}

int slime_mr_create(struct slime_context *ctx, void *addr, size_t len, uint32_t access,
		    struct slime_mr **out)
{
	struct slime_mr_attr attr = SLIME_MR_ATTR_INIT;

	attr.access = access;
	return slime_mr_create_attr(ctx, addr, len, &attr, out);
}

struct registering {
	const struct slime_mr *mr;
	struct sl_transport *t;
	int ret;
};

/* [token] */
static bool is_registered(void *arg)
{
	struct registering *g = arg;

	g->ret = g->t->ops->prepare(g->t, g->mr->region);
	return g->ret != -EINPROGRESS;
}

int slime_mr_register(struct slime_mr *mr, int64_t timeout_ms)
{
	struct registering g = { .mr = mr };
	struct sl_region *r = mr->region;
	int ret = sl_context_check(mr->ctx);

	if (ret)
		return ret;
	g.t = mr->ctx->transports[SLIME_TRANSPORT_RDMA];
	if (!g.t)
		return -ENOTSUP;
	/* Count first, then check: the thread that withdraws the region does it in the opposite
	 * order. */
	atomic_fetch_add(&r->n_ops, 1);
	ret = atomic_load(&r->state) == SL_REGION_LIVE ? 0 : -EINVAL;
	if (!ret)
		ret = sl_progress_until(mr->ctx, is_registered, &g, sl_deadline_ns(timeout_ms));
	atomic_fetch_sub(&r->n_ops, 1);
	return ret ? ret : g.ret;
}

void slime_mr_progress(const struct slime_mr *mr, struct slime_mr_progress *out)
{
	struct sl_transport *t;

	*out = (struct slime_mr_progress){ 0 };
	if (sl_context_check(mr->ctx))
		return;
	t = mr->ctx->transports[SLIME_TRANSPORT_RDMA];
	if (t)
		t->ops->prepared(t, mr->region, out);
}

struct fence {
	struct slime_mr *mr;
	uint64_t asked_ns; /* since when the peers that reach it are silent */
	bool by_peers;	   /* there are such; else only devices of ours have it yet */
};

/* [token] */
static bool out_of_reach(void *arg)
{
	struct fence *f = arg;
	struct slime_mr *mr = f->mr;
	struct sl_region *r = mr->region;
	bool gone = atomic_load(&r->n_users) == 0;

	f->asked_ns = gone ? 0 : sl_clock_ns();
	f->by_peers = !gone;
	for (int i = 0; i < SLIME_TRANSPORT_MAX; i++) {
		struct sl_transport *t = mr->ctx->transports[i];
		uint64_t asked_ns = 0;

		if (!t || t->ops->withdraw(t, r, &asked_ns))
			continue;
		gone = false;
		if (asked_ns == SL_NEVER)
			continue;
		f->by_peers = true;
		if (!asked_ns)
			asked_ns = sl_clock_ns();
		if (asked_ns > f->asked_ns)
			f->asked_ns = asked_ns;
	}
	return gone;
}

/* A peer that has been silent for long is not waited for again: for several regions of a stopped
 * peer this is one wait. */
static int wait_for_peers(struct fence *f)
{
	struct slime_context *ctx = f->mr->ctx;
	uint64_t timeout_ns = ctx->attr.tcp_user_timeout_ms * SL_NS_PER_MS;
	int ret = sl_progress_until(ctx, out_of_reach, f, 0);

	if (ret == -ETIMEDOUT)
		ret = sl_progress_until(ctx, out_of_reach, f, f->asked_ns + timeout_ns);
	/* A transport that gave up on a peer with that ends its link in the next pass. */
	if (ret == -ETIMEDOUT)
		ret = sl_progress_until(ctx, out_of_reach, f, 0);
	/* No peer is at fault. */
	if (ret == -ETIMEDOUT && !f->by_peers)
		ret = sl_progress_until(ctx, out_of_reach, f, sl_clock_ns() + DEVICES_NS);
	return ret;
}

/* Withdraw it, and wait until no peer can reach it. */
static int fence(struct slime_mr *mr)
{
	struct sl_region *r = mr->region;
	struct fence f = { .mr = mr };
	int ret;

	if (atomic_load(&r->n_ops))
		return -EBUSY;
	if (atomic_load(&r->state) == SL_REGION_LIVE) {
		atomic_store(&r->state, SL_REGION_CLOSING);
		/* A submit counts itself first and then looks at the state. */
		if (atomic_load(&r->n_ops)) {
			atomic_store(&r->state, SL_REGION_LIVE);
			return -EBUSY;
		}
		sl_region_withdraw(r);
	}
	ret = wait_for_peers(&f);
	if (ret != -ETIMEDOUT)
		return ret;
	sl_warn("mr", "region %u: %s: kept", r->id,
		f.by_peers ? "a peer can still reach it and does not answer"
			   : "a device does not let go of it");
	return -EBUSY;
}

/* No peer reaches it any more. */
static void free_mr(struct slime_mr *mr)
{
	struct slime_context *ctx = mr->ctx;
	int dmabuf_fd = mr->region->dmabuf_fd;

	mr->region->handle = NULL;
	sl_region_remove(&ctx->regions, mr->region);
	atomic_fetch_sub(&ctx->n_regions, 1);
	release_memory(ctx, mr->mem, dmabuf_fd);
	free(mr);
}

bool sl_mr_abandon(struct slime_mr *mr)
{
	struct sl_region *r = mr->region;

	sl_region_withdraw(r);
	if (atomic_load(&r->n_users))
		return false;
	for (int i = 0; i < SLIME_TRANSPORT_MAX; i++) {
		struct sl_transport *t = mr->ctx->transports[i];

		if (t && t->ops->abandon && !t->ops->abandon(t, r))
			return false;
	}
	free_mr(mr);
	return true;
}

int slime_mr_destroy(struct slime_mr *mr)
{
	int ret;

	if (!mr)
		return 0;
	if (sl_context_check(mr->ctx)) {
		free(mr);
		return 0;
	}
	ret = fence(mr);
	if (!ret)
		free_mr(mr);
	return ret;
}

void *slime_mr_addr(const struct slime_mr *mr)
{
	return mr->region->base;
}

size_t slime_mr_len(const struct slime_mr *mr)
{
	return mr->region->len;
}

int slime_mr_export(const struct slime_mr *mr, void *buf, size_t cap)
{
	struct slime_remote_mr r = {
		.owner = mr->ctx->id,
		.addr = (uintptr_t)mr->region->base,
		.len = mr->region->len,
		.generation = mr->region->generation,
		.id = mr->region->id,
		.access = mr->region->access,
		.secret = { mr->region->secret[0], mr->region->secret[1] },
		.kind = (uint32_t)mr->region->kind,
	};
	int ret = sl_context_check(mr->ctx);

	return ret ? ret : sl_desc_write_region(&r, buf, cap);
}

int slime_remote_mr_import(const void *buf, size_t len, struct slime_remote_mr *out)
{
	return sl_desc_read_region(out, buf, len);
}
