/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory. A region (mr) is memory of this process that peers may reach within its bounds and access
 * rights. A peer needs its descriptor to reach it: versioned bytes, and a secret of the peers for
 * which it is made.
 */
#ifndef SLIME_MR_H
#define SLIME_MR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <slime/export.h>

SLIME_BEGIN_DECLS

struct slime_context;
struct slime_mem;
struct slime_mr;

enum slime_access {
	SLIME_ACCESS_REMOTE_READ = 1,
	SLIME_ACCESS_REMOTE_WRITE = 2,
};

enum slime_huge_pages {
	SLIME_HUGE_AUTO, /* reserved ones of 2 MiB where there are as many and an eighth more is
			  * enough, else transparent ones, else ordinary pages */
	SLIME_HUGE_OFF,
	SLIME_HUGE_2M, /* reserved huge pages, or -ENOMEM */
	SLIME_HUGE_1G,
};

#define SLIME_NUMA_ANY (-1)

struct slime_mem_attr {
	enum slime_huge_pages huge;
	int numa_node;	  /* bind to this node; SLIME_NUMA_ANY: the kernel's choice */
	const char *name; /* shown in /proc/PID/maps, its first 249 bytes; NULL: "slime" */
	bool (*cancelled)(void *arg); /* asked on the calling thread before each part of the
					 memory, of a fraction of a second: true ends the call.
					 NULL: no question */
	void *arg;
};

#define SLIME_MEM_ATTR_INIT                                          \
	{                                                            \
		.huge = SLIME_HUGE_AUTO, .numa_node = SLIME_NUMA_ANY \
	}
SLIME_API void slime_mem_attr_init(struct slime_mem_attr *attr);

/*
 * Allocate len bytes (rounded up to pages) of zeroed memory that peers on this host can map: a
 * sealed memfd, populated here, so that no later fault charges or kills another process.
 *   -EINVAL  len is 0, or attr is malformed       -ENODEV  no such NUMA node
 *   -ENOMEM  not so much memory, or no such huge pages
 *   -EPERM   numa_node is given, and mbind is forbidden: a container without CAP_SYS_NICE
 *   -EMFILE, -ENFILE  no descriptor is left      -ECANCELED  attr's cancelled said so
 */
SLIME_API SLIME_CHECKED int slime_mem_alloc(struct slime_context *ctx, size_t len,
					    const struct slime_mem_attr *attr,
					    struct slime_mem **out);

SLIME_API void *slime_mem_addr(const struct slime_mem *mem);
SLIME_API size_t slime_mem_len(const struct slime_mem *mem);

/* Its regions must have been destroyed: -EBUSY otherwise. destroy(NULL) is 0. */
SLIME_API int slime_mem_destroy(struct slime_mem *mem);

/*
 * Offer len bytes at addr as a region. Peers reach it that have its descriptor: that has a random
 * secret of 128 bits, which a link shows the owner before its first use of the region. A message
 * longer than 1 KiB, and a long call, lend their peer the whole region that they name, not only the
 * bytes of the call. The memory stays the caller's and must stay mapped until the
 * region is destroyed. Memory from slime_mem_alloc is recognised by its address and mapped by peers
 * on this host; for other memory see foreign_memory in slime/context.h. access 0 makes a region for
 * local use only.
 *
 * Over rdma the secret protects restricted regions only. From its first use on, by this process or
 * by a peer, any other region is open to each peer of a link that is not isolated: a peer that
 * breaks the protocol can guess its key, which has 32 bits.
 *   -EINVAL  len is 0, or the range wraps         -ENOSPC  max_regions reached
 *   -EFAULT  the range is not mapped              -ENOMEM
 *   -EACCES  peers could write to memory of slime_mem_alloc() whose first region that they reach
 *            is for reading only: it is sealed for good; or that memory has, or had, a restricted
 *            region
 */
SLIME_API SLIME_CHECKED int slime_mr_create(struct slime_context *ctx, void *addr, size_t len,
					    uint32_t access, struct slime_mr **out);

struct slime_mr_attr {
	uint32_t access;    /* enum slime_access; 0: for local use only */
	bool restricted;    /* only peers with the descriptor reach it. Over rdma, where a peer may
			     * guess a key, only isolated endpoints (slime/endpoint.h) reach it: peers
			     * of other endpoints get -EACCES. Over shm and tcp the secret of the
			     * descriptor is sufficient. It has to be the only region with remote
			     * access in its memory of slime_mem_alloc(), else -EACCES: peers over
			     * shm map all of that memory */
	bool on_demand;	    /* rdma: its pages are not locked; a device asks for each page when it
			     * needs it. If the device cannot, transfers are -EOPNOTSUPP. Over later
			     * links peers wait 10 ms for a page, six times by default */
	bool device_memory; /* memory of a GPU or another device, which no CPU touches, at this
			     * address of the process: for one-sided transfers over rdma only,
			     * else -EOPNOTSUPP. docs/rdma.md has the requirements */
	int dmabuf_fd; /* of device memory: its dmabuf, duplicated; -1: none. addr may be NULL then,
			* and else lies in its page as dmabuf_offset does */
	uint64_t dmabuf_offset; /* where the region begins in it */
};

#define SLIME_MR_ATTR_INIT      \
	{                       \
		.dmabuf_fd = -1 \
	}
SLIME_API void slime_mr_attr_init(struct slime_mr_attr *attr);

/*
 * As slime_mr_create(), with more to say; attr NULL: for local use only. Also
 *   -EINVAL  a dmabuf of memory that is not a device's, or addr does not fit its offset; a
 *            device's memory without either, or on demand
 *   -EBADF, -EMFILE  dmabuf_fd is no descriptor, or the process has too many
 */
SLIME_API SLIME_CHECKED int slime_mr_create_attr(struct slime_context *ctx, void *addr, size_t len,
						 const struct slime_mr_attr *attr,
						 struct slime_mr **out);

/*
 * Register a region with the rdma devices of the context now rather than at its first use, which
 * may take seconds for many GiB. To wait in shorter steps, call it again. Isolated endpoints make
 * their own registrations.
 *   -ETIMEDOUT  not within timeout_ms (negative: no limit); it goes on
 *   -ENODEV and others: no device can be used      -ENOMEM, -EFAULT, ...: as the log line says
 *   -EINVAL  it is being destroyed                 -EDEADLK  inside a callback
 */
SLIME_API SLIME_CHECKED int slime_mr_register(struct slime_mr *mr, int64_t timeout_ms);

/* How far that is. */
struct slime_mr_progress {
	uint64_t registered; /* bytes, on all devices together */
	uint64_t total;	     /* 0: it has not begun, or no device is left; less once one is gone */
	uint32_t chunks;     /* that each device has it in */
};

/* Any thread. */
SLIME_API void slime_mr_progress(const struct slime_mr *mr, struct slime_mr_progress *out);

/*
 * Withdraw a region: peers are told, fail new ops with -ESTALE, finish what runs and acknowledge; a
 * tcp peer that stays silent loses its connection. Waits for that, up to tcp_user_timeout_ms of
 * the context on every transport; of a peer on this host that has been silent for so long already
 * it does not, but for half a second with the first region that it is asked for meanwhile. RDMA
 * devices are waited for until they have let go of it, for up to a minute.
 *   -EBUSY  own ops still use it, a peer on this host that is neither dead nor answering can still
 *           reach it, or a device has not let go of it in that time: the region stays, and the call
 *           can be repeated
 *   -EDEADLK  inside a callback, while a peer can reach it: the same
 * destroy(NULL) is 0.
 */
SLIME_API int slime_mr_destroy(struct slime_mr *mr);

/* Of a dmabuf without an address: nothing that can be used. */
SLIME_API void *slime_mr_addr(const struct slime_mr *mr);
SLIME_API size_t slime_mr_len(const struct slime_mr *mr);

#define SLIME_MR_DESC_MAX 128

/* Write the region's descriptor, at most SLIME_MR_DESC_MAX bytes. Returns its length, or -ENOSPC.
 */
SLIME_API SLIME_CHECKED int slime_mr_export(const struct slime_mr *mr, void *buf, size_t cap);

/* What is known of a peer's region: a plain value that owns nothing. */
struct slime_remote_mr {
	uint64_t owner; /* the context that offers it */
	uint64_t addr;	/* in the owner's address space; offsets count from here */
	uint64_t len;
	uint64_t generation; /* never used again by the owner */
	uint32_t id;
	uint32_t access;    /* enum slime_access */
	uint32_t kind;	    /* how the owner's memory came to be; the library's business */
	uint64_t secret[2]; /* shown to the owner at the first use over a link */
};

/* Read a descriptor: -EINVAL malformed, -EPROTONOSUPPORT a version this library does not know. */
SLIME_API SLIME_CHECKED int slime_remote_mr_import(const void *buf, size_t len,
						   struct slime_remote_mr *out);

SLIME_END_DECLS

#endif
