/* SPDX-License-Identifier: Apache-2.0 */
/* Protection domains and memory regions. */
#include "tests/fakes/fakeverbs/lab.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

/* Memory of a GPU that a test told of; one such is enough for what is tested. */
static struct {
	uint8_t *addr;
	size_t len;
	uint8_t *backing;
} gpu;

void fakeverbs_add_device_memory(void *addr, size_t len, void *backing)
{
	fv_lock();
	gpu.addr = addr;
	gpu.len = len;
	gpu.backing = backing;
	fv_unlock();
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *ibv)
{
	struct fv_context *ctx = fv_context(ibv);
	struct fv_pd *pd = NULL;
	int err = fv_enter(FAKEVERBS_ALLOC_PD, ctx->dev);

	if (!err && ctx->dev->n_objects[FV_PD] < ctx->dev->is.max_pd)
		pd = calloc(1, sizeof(*pd));
	if (pd) {
		fv_object_add(ctx, &pd->obj, FV_PD);
		pd->ibv.context = ibv;
		pd->ibv.handle = (uint32_t)pd->obj.nr;
	}
	fv_leave();
	if (!pd)
		errno = err ? err : ENOMEM;
	return pd ? &pd->ibv : NULL;
}

int ibv_dealloc_pd(struct ibv_pd *ibv)
{
	struct fv_pd *pd = fv_pd(ibv);
	struct fv_context *ctx = fv_context(ibv->context);
	int err = fv_enter(FAKEVERBS_DEALLOC_PD, NULL);
	int answer = 0;

	if (!err && pd->obj.n_users)
		err = EBUSY;
	if (!err) {
		fv_object_remove(ctx, &pd->obj);
		answer = fv_last_answer(ctx);
	}
	fv_leave();
	if (err)
		return err;
	free(pd);
	return answer;
}

/* ---- regions ---- */

static const unsigned known_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				     IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
				     IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB |
				     IBV_ACCESS_OPTIONAL_RANGE;

static int check_access(const struct fv_device *dev, unsigned access)
{
	if (access & ~known_access)
		return EINVAL;
	if (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC) &&
	    !(access & IBV_ACCESS_LOCAL_WRITE))
		return EINVAL;
	if (access & IBV_ACCESS_ON_DEMAND && !(dev->is.odp_caps.general_caps & IBV_ODP_SUPPORT))
		return EOPNOTSUPP;
	return 0;
}

/* As a kernel pins: the pages come into being, where the process may use them so. */
static int pin(void *addr, size_t len, unsigned access)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t from = (uintptr_t)addr & ~(page - 1);
	uintptr_t to = ((uintptr_t)addr + len + page - 1) & ~(page - 1);

	if (access & IBV_ACCESS_ON_DEMAND)
		return 0;
	return madvise((void *)from, to - from,
		       access & IBV_ACCESS_LOCAL_WRITE ? MADV_POPULATE_WRITE : MADV_POPULATE_READ)
		       ? EFAULT
		       : 0;
}

/* Where the bytes of the range are, for a device. */
static int resolve(const struct fv_device *dev, void *addr, size_t len, unsigned access,
		   uint8_t **base)
{
	uint8_t *at = addr;

	if (gpu.len && at >= gpu.addr && at + len <= gpu.addr + gpu.len) {
		if (!dev->is.has_peer_memory)
			return EFAULT;
		*base = gpu.backing + (at - gpu.addr);
		return 0;
	}
	*base = at;
	return pin(addr, len, access);
}

/* A free place in the device's table, as late as possible the same again. */
static int take_key(struct fv_device *dev, struct fv_mr *mr)
{
	for (unsigned n = 0; n < FV_MRS; n++) {
		unsigned i = (dev->last_mr + 1 + n) % FV_MRS;

		if (dev->mrs[i])
			continue;
		dev->mrs[i] = mr;
		dev->last_mr = i;
		mr->ibv.lkey = (dev->index + 1) << 28 | i << 8 | ++dev->mr_tags[i];
		mr->ibv.rkey = mr->ibv.lkey;
		return 0;
	}
	return ENOMEM;
}

/* The region of pd over len bytes that the user calls addr; base is where they are. */
static int add_mr(struct ibv_pd *pd, void *addr, uint8_t *base, size_t len, uint64_t iova,
		  unsigned access, struct fv_mr **out)
{
	struct fv_context *ctx = fv_context(pd->context);
	struct fv_mr *mr = calloc(1, sizeof(*mr));

	if (!mr || take_key(ctx->dev, mr)) {
		free(mr);
		return ENOMEM;
	}
	fv_object_add(ctx, &mr->obj, FV_MR);
	fv_pd(pd)->obj.n_users++;
	mr->ibv.context = pd->context;
	mr->ibv.pd = pd;
	mr->ibv.addr = addr;
	mr->ibv.length = len;
	mr->ibv.handle = (uint32_t)mr->obj.nr;
	mr->iova = iova;
	mr->base = base;
	mr->access = access;
	if (!(access & IBV_ACCESS_ON_DEMAND))
		ctx->dev->pinned += len;
	*out = mr;
	return 0;
}

static int check_range(const struct fv_device *dev, uint64_t start, size_t len, uint64_t iova,
		       unsigned access)
{
	if (!len || start + len < start || iova + len < iova || len > dev->is.max_mr_size)
		return EINVAL;
	if (dev->n_objects[FV_MR] >= dev->is.max_mr)
		return ENOMEM;
	if (!(access & IBV_ACCESS_ON_DEMAND) &&
	    (dev->pinned >= dev->is.max_pinned || len > dev->is.max_pinned - dev->pinned))
		return ENOMEM;
	return check_access(dev, access);
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova,
				unsigned access)
{
	struct fv_device *dev = fv_context(pd->context)->dev;
	struct fv_mr *mr = NULL;
	uint8_t *base;
	int err = fv_enter(FAKEVERBS_REG_MR, dev);

	if (!err)
		err = check_range(dev, (uintptr_t)addr, len, iova, access);
	fv_leave();
	/* The slow part, as on a kernel, holds up nobody else. */
	if (!err)
		err = resolve(dev, addr, len, access, &base);
	if (!err) {
		fv_lock();
		err = add_mr(pd, addr, base, len, iova, access, &mr);
		fv_unlock();
	}
	if (err)
		errno = err;
	return mr ? &mr->ibv : NULL;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t len, int access)
{
	return ibv_reg_mr_iova2(pd, addr, len, (uintptr_t)addr, (unsigned)access);
}

struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova, int access)
{
	return ibv_reg_mr_iova2(pd, addr, len, iova, (unsigned)access);
}

/* A memfd stands for a dmabuf: whoever has it mapped sees what the device does. */
static int reg_dmabuf(struct ibv_pd *pd, uint64_t offset, size_t len, uint64_t iova, int fd,
		      unsigned access, struct fv_mr **out)
{
	struct fv_device *dev = fv_context(pd->context)->dev;
	void *map;
	int err = dev->is.dmabuf_errno;

	if (!err)
		err = check_range(dev, offset, len, iova, access);
	/* As uverbs has it. */
	if (!err && (offset ^ iova) & ((uint64_t)sysconf(_SC_PAGESIZE) - 1))
		err = EINVAL;
	if (err)
		return err;
	map = mmap(NULL, offset + len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return errno == EACCES ? EPERM : errno;
	err = add_mr(pd, NULL, (uint8_t *)map + offset, len, iova, access, out);
	if (err) {
		munmap(map, offset + len);
		return err;
	}
	(*out)->map = map;
	(*out)->map_len = offset + len;
	return 0;
}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t len, uint64_t iova,
				 int fd, int access)
{
	struct fv_mr *mr = NULL;
	int err = fv_enter(FAKEVERBS_REG_DMABUF_MR, fv_context(pd->context)->dev);

	if (!err)
		err = reg_dmabuf(pd, offset, len, iova, fd, (unsigned)access, &mr);
	fv_leave();
	if (err)
		errno = err;
	return mr ? &mr->ibv : NULL;
}

int ibv_dereg_mr(struct ibv_mr *ibv)
{
	struct fv_mr *mr = (struct fv_mr *)(void *)ibv;
	struct fv_context *ctx = fv_context(ibv->context);
	int err = fv_enter(FAKEVERBS_DEREG_MR, NULL);
	int answer = 0;

	if (!err) {
		ctx->dev->mrs[ibv->lkey >> 8 & (FV_MRS - 1)] = NULL;
		if (!(mr->access & IBV_ACCESS_ON_DEMAND))
			ctx->dev->pinned -= ibv->length;
		fv_pd(ibv->pd)->obj.n_users--;
		fv_object_remove(ctx, &mr->obj);
		answer = fv_last_answer(ctx);
	}
	fv_leave();
	if (err)
		return err;
	if (mr->map)
		munmap(mr->map, mr->map_len);
	free(mr);
	return answer;
}

uint8_t *fv_mr_at(struct fv_device *dev, const struct ibv_pd *pd, uint32_t key, uint64_t addr,
		  uint64_t len, unsigned access)
{
	const struct fv_mr *mr = dev->mrs[key >> 8 & (FV_MRS - 1)];

	if (!mr || mr->ibv.lkey != key || mr->ibv.pd != pd || (mr->access & access) != access)
		return NULL;
	if (addr < mr->iova || len > mr->ibv.length || addr - mr->iova > mr->ibv.length - len)
		return NULL;
	return mr->base + (addr - mr->iova);
}
