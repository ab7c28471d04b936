/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One-sided transfers. A batch is one call with n pieces. Operations of a link are unordered among
 * each other; SLIME_FENCE orders one after all earlier writes of its link.
 */
#ifndef SLIME_XFER_H
#define SLIME_XFER_H

#include <stddef.h>
#include <stdint.h>
#include <slime/export.h>
#include <slime/mr.h>

SLIME_BEGIN_DECLS

struct slime_endpoint;
struct slime_op;

/*
 * A piece: len bytes between a local and a remote region, or, with count above 1, a run of count
 * blocks of len bytes, the i-th at offset + i * stride on each side.
 */
struct slime_xfer {
	struct slime_mr *local;
	const struct slime_remote_mr *remote;
	uint64_t local_offset;
	uint64_t remote_offset;
	uint64_t len;
	uint64_t local_stride;
	uint64_t remote_stride;
	uint32_t count; /* 0 means 1 */
};

enum slime_xfer_flags {
	SLIME_FENCE = 1,
};

/*
 * Submit a batch; op completes once every piece did, or with the first error. xfers, what they
 * point to, op and the memory belong to the library until then. An empty batch completes at once.
 *
 * Returns 0 when the whole batch was accepted, however long it is. On an error nothing was
 * submitted and op is untouched:
 *   -EAGAIN    max_pending_ops reached, or for write_imm too many immediates that the peer has
 *              not taken: try again after a completion
 *   -EINVAL    a piece is malformed, flags are unknown, a region is of another context or peer, or
 *              op of another context
 *   -ERANGE    a piece leaves its region
 *   -EACCES    the region does not grant that access
 *   -ESTALE    the remote region was withdrawn
 *   -EBUSY     op is pending
 *   -ENOTCONN  not connected, or the connection failed
 *   -EOPNOTSUPP  the transport cannot reach that memory; the log names what is missing
 * What only the transport finds out may be the op's status instead. A read whose memory here is
 * read-only, or a part of whose region is, ends with -EFAULT over rdma, and the link goes on; over
 * shm and tcp it is like a store of the process's own.
 */
SLIME_API SLIME_CHECKED int slime_read(struct slime_endpoint *ep, const struct slime_xfer *xfers,
				       size_t n, uint32_t flags, struct slime_op *op);

/* As slime_read, the other way. */
SLIME_API SLIME_CHECKED int slime_write(struct slime_endpoint *ep, const struct slime_xfer *xfers,
					size_t n, uint32_t flags, struct slime_op *op);

/* As slime_write; the peer's next slime_imm_recv() completes with imm, once, after all the bytes
 * have arrived. */
SLIME_API SLIME_CHECKED int slime_write_imm(struct slime_endpoint *ep,
					    const struct slime_xfer *xfers, size_t n,
					    uint32_t flags, uint32_t imm, struct slime_op *op);

/* ---- batches that are submitted many times ---- */

struct slime_batch;

enum slime_batch_kind { SLIME_BATCH_READ, SLIME_BATCH_WRITE };

/*
 * Prepare a batch of this endpoint: what slime_read() and slime_write() check of each piece is
 * checked here, once. Pieces that are neighbours at both sides are joined. xfers and the remote
 * descriptors are copied; the local regions are kept: destroying one is -EBUSY until the batch is
 * destroyed. The endpoint may go before it.
 *   -ENOTCONN  not connected
 *   -ENOMEM
 *   and -EINVAL, -ERANGE, -EACCES, -ESTALE, -EOPNOTSUPP as of slime_read()
 */
SLIME_API SLIME_CHECKED int slime_batch_create(struct slime_endpoint *ep,
					       enum slime_batch_kind kind,
					       const struct slime_xfer *xfers, size_t n,
					       struct slime_batch **out);

/*
 * Submit it, as slime_read() or slime_write() would. Any number of submits of one batch, by any
 * threads, may be under way, each with an op of its own.
 *   -EINVAL  ep is not the endpoint it was prepared for, flags are unknown, or op is of another
 *            context
 *   -ESTALE  a remote region was withdrawn
 *   -EAGAIN, -EBUSY, -ENOTCONN, -EOPNOTSUPP  as of slime_read()
 */
SLIME_API SLIME_CHECKED int slime_batch_submit(struct slime_endpoint *ep, struct slime_batch *batch,
					       uint32_t flags, struct slime_op *op);

/* -EBUSY while a submit of it is under way, and nothing changed. destroy(NULL) is 0. */
SLIME_API int slime_batch_destroy(struct slime_batch *batch);

/*
 * Complete op with the next immediate of the link that was not taken yet: slime_op_imm() returns
 * it, and slime_op_bytes() the bytes of its write. Immediates are taken in the order in which they
 * arrive.
 *   -EBUSY  op is pending     -EAGAIN  max_pending_ops reached     -EINVAL  as for slime_read()
 *   -ENOTCONN  not connected, and none is left of those that arrived before
 */
SLIME_API SLIME_CHECKED int slime_imm_recv(struct slime_endpoint *ep, struct slime_op *op);

SLIME_END_DECLS

#endif
