/* SPDX-License-Identifier: Apache-2.0 */
/* Regions of ours with the devices: what is registered in each protection domain. */
#ifndef SL_RDMA_MR_H
#define SL_RDMA_MR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "src/core/region.h"
#include "src/transport/rdma/domain.h"
#include "src/transport/rdma/job.h"
#include "src/transport/rdma/wire.h"

#define RDMA_REGISTRARS_MAX 8  /* threads that register */
#define RDMA_ONE_CHUNK	    63 /* shift of a region that is in one piece */

/* Of one that is registered: what it is ready for, by what an op of ours does at the peer. */
enum rdma_mr_state {
	RDMA_MR_NONE,
	RDMA_MR_DESTINATION = SLIME_ACCESS_REMOTE_READ, /* a bit: reads write to it */
	RDMA_MR_SOURCE = SLIME_ACCESS_REMOTE_WRITE,	/* a bit: its bytes leave */
	RDMA_MR_READY = RDMA_MR_DESTINATION | RDMA_MR_SOURCE,
	RDMA_MR_BUSY = 4, /* a worker is at it */
	RDMA_MR_FAILED = 8,
};

/* The purpose for which a region is registered. */
enum rdma_mr_use {
	RDMA_MR_OURS,  /* a place of our own work */
	RDMA_MR_SHOWN, /* the peer is given its key */
};

/* The part of it that one thread does. */
struct rdma_run {
	struct rdma_job job;
	struct rdma_mr *mr;
};

/*
 * A region with the devices: in one piece, or in chunks when it is longer than rdma_chunk of the
 * context. A chunk is what of it lies in one block of 2^shift bytes of addresses; each has keys of
 * its own.
 */
struct rdma_mr {
	struct rdma_domain *domain;
	_Atomic uint32_t state; /* enum rdma_mr_state; changes under the transport's mr_lock */
	_Atomic uint64_t generation;
	uint8_t *base;
	uint64_t len;
	uint32_t access;
	uint32_t id;
	bool on_demand;
	bool is_device;	  /* memory that no CPU touches */
	bool has_address; /* of it: base is one of this process */
	int dmabuf_fd;	  /* of it; -1: none */
	uint64_t dmabuf_offset;
	unsigned shift;
	unsigned n_chunks;
	struct ibv_mr **parts; /* by nic, and of each by chunk; NULL: nothing is registered */
	struct ibv_mr *few[RDMA_RAILS_MAX]; /* those of a single chunk */

	bool wanted; /* it is to be registered; else the old one only is taken back */
	_Atomic int status;
	unsigned failed_nic;	       /* where that comes from */
	_Atomic bool read_only;	       /* of some of it the process may not write to the memory */
	bool was_refused;	       /* a read into it, which was logged; under mr_lock */
	_Atomic unsigned next;	       /* part that no thread took yet */
	_Atomic unsigned n_at_it;      /* threads */
	_Atomic uint64_t n_registered; /* bytes, on all devices */
	_Atomic uint64_t n_left_out;   /* same, of devices that are no more */
	unsigned n_runs;	       /* that are not done; [token] */
	struct rdma_run runs[RDMA_REGISTRARS_MAX];
};

static inline unsigned rdma_mr_chunk(const struct rdma_mr *mr, uint64_t addr)
{
	return (unsigned)((addr >> mr->shift) - ((uintptr_t)mr->base >> mr->shift));
}

/* Of that nic, with the chunk that addr is in. */
static inline const struct ibv_mr *rdma_mr_part(const struct rdma_mr *mr, unsigned nic,
						uint64_t addr)
{
	return mr->parts[nic * mr->n_chunks + rdma_mr_chunk(mr, addr)];
}

/* Bytes from addr to the end of its block. */
static inline uint64_t rdma_chunk_left(unsigned shift, uint64_t addr)
{
	return (((addr >> shift) + 1) << shift) - addr;
}

/* Without a lock. A thread that sees this region's generation sees a state that is not from before
 * it: see begin_to_register(). */
static inline bool rdma_mr_is_ready_for(const struct rdma_mr *mr, const struct sl_region *r,
					uint32_t need)
{
	return atomic_load_explicit(&mr->generation, memory_order_acquire) == r->generation &&
	       atomic_load_explicit(&mr->state, memory_order_acquire) & need;
}

/* Where one is found. A restricted region has two lives in a domain: as memory of ours, and with
 * the rights it grants. */
static inline _Atomic(struct rdma_mr *) *
rdma_mr_place(struct rdma_domain *d, const struct sl_region *r, enum rdma_mr_use use)
{
	return &d->mrs[2 * r->id + (use == RDMA_MR_SHOWN && r->restricted)];
}

/* The region for that use, if it is ready for what is needed, one of the bits; NULL: as
 * rdma_mr_get() says. */
static inline struct rdma_mr *rdma_mr_at_hand(struct rdma_domain *d, const struct sl_region *r,
					      enum rdma_mr_use use, uint32_t need)
{
	struct rdma_mr *mr = atomic_load_explicit(rdma_mr_place(d, r, use), memory_order_acquire);

	return mr && rdma_mr_is_ready_for(mr, r, need) ? mr : NULL;
}

/*
 * The region, registered: 0, or -EINPROGRESS (its users are run when a worker is done), or why it
 * cannot be: -EFAULT also where RDMA_MR_DESTINATION is needed, and the memory of it, or of a part
 * of it, is read-only. The caller keeps it from being withdrawn. Any thread.
 */
int rdma_mr_get(struct rdma_domain *d, const struct sl_region *r, enum rdma_mr_use use,
		uint32_t need, struct rdma_mr **out);
/* Begin to register it, unless that has begun. rdma_mr_get() has the result. Any thread. */
void rdma_mr_begin(struct rdma_domain *d, const struct sl_region *r, enum rdma_mr_use use);
/* How far it is, for our own use. Any thread. */
void rdma_mr_progress(struct rdma_domain *d, const struct sl_region *r,
		      struct slime_mr_progress *out);
/* It is not in use: deregister it. True when all devices have, in all domains; else ask again
 * after env->tidy(). Any thread. */
bool rdma_mr_release(struct rdma_transport *t, const struct sl_region *r);
/* At once; no worker is at it. Control calls. */
void rdma_mr_deregister(struct rdma_mr *mr);
void rdma_mr_free(struct rdma_mr *mr); /* only its memory */

#endif
