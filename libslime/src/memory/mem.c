/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "base/memory.h"
#include "src/progress/context.h"
#include "src/core/region.h"
#include "src/memory/mem.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MFD_HUGE_2MB
#define MFD_HUGE_2MB (21U << 26)
#endif
#ifndef MFD_HUGE_1GB
#define MFD_HUGE_1GB (30U << 26)
#endif
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

#define NODES_MAX 1024

/* memfd_create(2) has room for so many bytes of a name. */
#define NAME_LEN_MAX 249

/* The memory that is populated between two checks whether it is still wanted. */
#define POPULATE_STEP ((size_t)64 << 20)

static size_t page_size(enum slime_huge_pages huge)
{
	if (huge == SLIME_HUGE_2M)
		return (size_t)2 << 20;
	if (huge == SLIME_HUGE_1G)
		return (size_t)1 << 30;
	return (size_t)sysconf(_SC_PAGESIZE);
}

static int create_file(const struct slime_mem_attr *attr, size_t len)
{
	unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	char name[NAME_LEN_MAX + 1];
	int fd, ret;

	if (attr->huge == SLIME_HUGE_2M)
		flags |= MFD_HUGETLB | MFD_HUGE_2MB;
	else if (attr->huge == SLIME_HUGE_1G)
		flags |= MFD_HUGETLB | MFD_HUGE_1GB;
	snprintf(name, sizeof(name), "%s", attr->name ? attr->name : "slime");
	fd = memfd_create(name, flags);
	/* A process that may not use huge pages has none. */
	if (fd < 0)
		return errno == EPERM && flags & MFD_HUGETLB ? -ENOMEM : -errno;
	if (ftruncate(fd, (off_t)len) || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW)) {
		ret = -errno;
		close(fd);
		return ret;
	}
	return fd;
}

/* A kernel that knows of no nodes has one. Containers are kept from binding unless they have
 * CAP_SYS_NICE. */
static int not_bound(int node, int error)
{
	if (error == ENOSYS)
		return node == 0 ? 0 : -ENODEV;
	if (error == EPERM)
		sl_error("mem",
			 "memory cannot be bound to NUMA node %d: without CAP_SYS_NICE "
			 "a container may not call mbind",
			 node);
	return error == EINVAL ? -ENODEV : -error;
}

static int bind_to_node(void *addr, size_t len, int node)
{
	unsigned long mask[NODES_MAX / (8 * sizeof(unsigned long))] = { 0 };

	if (node == SLIME_NUMA_ANY)
		return 0;
	if (node < 0 || node >= NODES_MAX)
		return -ENODEV;
	mask[(size_t)node / (8 * sizeof(mask[0]))] |= 1UL << ((size_t)node % (8 * sizeof(mask[0])));
	if (syscall(SYS_mbind, addr, len, MPOL_BIND, mask, (unsigned long)NODES_MAX, 0UL))
		return not_bound(node, errno);
	return 0;
}

/* Populating more than the machine or our control group has left fails as well, but only when the
 * kernel has killed processes to find it. Huge pages are counted when they are mapped. */
static bool is_too_much(const struct slime_mem *mem, const struct slime_mem_attr *attr)
{
	struct sl_memory left;

	if (attr->huge == SLIME_HUGE_2M || attr->huge == SLIME_HUGE_1G)
		return false;
	sl_memory_left("", &left);
	return mem->len > sl_memory_total(&left);
}

/* For a kernel before 5.14. A file's page is made by reading it, too. Parts of the memory may be
 * poisoned. */
__attribute__((no_sanitize("address"))) static void read_pages(const uint8_t *addr, size_t len)
{
	size_t step = (size_t)sysconf(_SC_PAGESIZE);

	for (size_t at = 0; at < len; at += step)
		(void)*(const volatile uint8_t *)(addr + at);
}

int sl_mem_populate(uint8_t *addr, size_t len)
{
	if (madvise(addr, len, MADV_POPULATE_WRITE) == 0)
		return 0;
	if (errno != EINVAL)
		return errno == EFAULT || errno == EHWPOISON ? -ENOMEM : -errno;
	read_pages(addr, len);
	return 0;
}

static bool is_cancelled(const struct slime_mem_attr *attr)
{
	return attr->cancelled && attr->cancelled(attr->arg);
}

static int populate(uint8_t *addr, size_t len, const struct slime_mem_attr *attr)
{
	size_t page = page_size(attr->huge);
	size_t step = page > POPULATE_STEP ? page : POPULATE_STEP;
	int ret = 0;

	for (size_t at = 0; at < len && !ret; at += step) {
		size_t part = len - at < step ? len - at : step;

		ret = is_cancelled(attr) ? -ECANCELED : sl_mem_populate(addr + at, part);
	}
	return ret;
}

static int map_file(struct slime_mem *mem, const struct slime_mem_attr *attr)
{
	void *addr = mmap(NULL, mem->len, PROT_READ | PROT_WRITE, MAP_SHARED, mem->fd, 0);
	int ret;

	if (addr == MAP_FAILED)
		return -errno;
	ret = bind_to_node(addr, mem->len, attr->numa_node);
	/* A wish: shared memory has transparent huge pages only where the administrator allows
	 * them. */
	if (!ret && attr->huge == SLIME_HUGE_AUTO)
		(void)madvise(addr, mem->len, MADV_HUGEPAGE);
	if (!ret)
		ret = populate(addr, mem->len, attr);
	if (ret) {
		munmap(addr, mem->len);
		return ret;
	}
	mem->addr = addr;
	return 0;
}

/* Not so much larger as to matter. */
static bool suits_huge_pages(size_t len)
{
	size_t page = page_size(SLIME_HUGE_2M);
	size_t over = (page - len % page) % page;

	return len >= page && over <= len / 8;
}

static int allocate(struct slime_mem *mem, const struct slime_mem_attr *attr, size_t len)
{
	size_t page = page_size(attr->huge);
	int ret;

	mem->len = (len + page - 1) / page * page;
	mem->fd = is_too_much(mem, attr) ? -ENOMEM : create_file(attr, mem->len);
	if (mem->fd < 0)
		return mem->fd;
	ret = map_file(mem, attr);
	if (ret)
		close(mem->fd);
	return ret;
}

/* From the pages that the system has in reserve and that are free; they are there at once, or
 * never. */
static int allocate_huge(struct slime_mem *mem, const struct slime_mem_attr *attr, size_t len)
{
	struct slime_mem_attr huge = *attr;

	huge.huge = SLIME_HUGE_2M;
	return allocate(mem, &huge, len);
}

void slime_mem_attr_init(struct slime_mem_attr *attr)
{
	*attr = (struct slime_mem_attr)SLIME_MEM_ATTR_INIT;
}

int slime_mem_alloc(struct slime_context *ctx, size_t len, const struct slime_mem_attr *attr,
		    struct slime_mem **out)
{
	static const struct slime_mem_attr defaults = SLIME_MEM_ATTR_INIT;
	struct slime_mem *mem;
	int ret = sl_context_check(ctx);

	if (ret)
		return ret;
	if (!attr)
		attr = &defaults;
	if ((unsigned)attr->huge > SLIME_HUGE_1G)
		return -EINVAL;
	if (!len || len > PTRDIFF_MAX)
		return -EINVAL;
	mem = calloc(1, sizeof(*mem));
	if (!mem)
		return -ENOMEM;
	mem->ctx = ctx;
	ret = -ENOMEM;
	if (attr->huge == SLIME_HUGE_AUTO && suits_huge_pages(len))
		ret = allocate_huge(mem, attr, len);
	if (ret && ret != -ECANCELED && ret != -EPERM)
		ret = allocate(mem, attr, len);
	if (ret) {
		free(mem);
		return ret;
	}

	pthread_mutex_lock(&ctx->lock);
	sl_list_append(&ctx->mems, &mem->link);
	pthread_mutex_unlock(&ctx->lock);
	*out = mem;
	return 0;
}

void *slime_mem_addr(const struct slime_mem *mem)
{
	return mem->addr;
}

size_t slime_mem_len(const struct slime_mem *mem)
{
	return mem->len;
}

int slime_mem_destroy(struct slime_mem *mem)
{
	struct slime_context *ctx;
	bool busy;

	if (!mem)
		return 0;
	ctx = mem->ctx;
	if (sl_context_check(ctx) == 0) {
		pthread_mutex_lock(&ctx->lock);
		busy = mem->n_regions > 0;
		if (!busy)
			sl_list_remove(&mem->link);
		pthread_mutex_unlock(&ctx->lock);
		if (busy)
			return -EBUSY;
	}
	munmap(mem->addr, mem->len);
	close(mem->fd);
	free(mem);
	return 0;
}

/*
 * The seal is per file and for ever. Without write access it must be there before any peer gets the
 * descriptor: one that was opened read-only can be opened again for writing.
 */
static int seal(struct slime_mem *mem, bool peers_may_write)
{
	int seals = F_SEAL_SEAL | (peers_may_write ? 0 : F_SEAL_FUTURE_WRITE);

	if (fcntl(mem->fd, F_ADD_SEALS, seals)) {
		int ret = -errno;

		sl_error("mem", "memfd of %zu bytes cannot be sealed: %s", mem->len,
			 strerror(-ret));
		return ret;
	}
	mem->sealed = true;
	mem->peers_may_write = peers_may_write;
	return 0;
}

static struct slime_mem *find(struct slime_context *ctx, const uint8_t *addr, size_t len)
{
	struct sl_list *e;

	sl_list_for_each (e, &ctx->mems) {
		struct slime_mem *mem = SL_CONTAINER_OF(e, struct slime_mem, link);

		if (addr >= mem->addr && addr < mem->addr + mem->len &&
		    len <= (size_t)(mem->addr + mem->len - addr))
			return mem;
	}
	return NULL;
}

/* Whether the region and those that were before it may be parts of one file. */
static bool may_share(const struct slime_mem *mem, const struct sl_region *what)
{
	return !mem->n_shown || (!mem->restricted && !what->restricted);
}

int sl_mem_hold(struct slime_context *ctx, const struct sl_region *what, struct slime_mem **out)
{
	struct slime_mem *mem = find(ctx, what->base, what->len);
	bool write = what->access & SLIME_ACCESS_REMOTE_WRITE;
	int ret = 0;

	if (mem && what->access && !may_share(mem, what))
		ret = -EACCES;
	else if (mem && what->access && !mem->sealed)
		ret = seal(mem, write);
	else if (mem && write && !mem->peers_may_write)
		ret = -EACCES;
	if (ret)
		return ret;
	if (mem)
		mem->n_regions++;
	if (mem && what->access) {
		mem->n_shown++;
		mem->restricted = what->restricted;
	}
	*out = mem;
	return 0;
}
