/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An op is the future of one operation: a batch, a send, a receive, a connect. It is created once
 * and reused for ever; nothing is allocated when it is submitted. It completes exactly once per
 * submission, and finishing it is the last time the library touches it. How the completion is seen
 * is fixed at creation: by a wait or test, by a callback, or through the context's queue and fd.
 */
#ifndef SLIME_OP_H
#define SLIME_OP_H

#include <stdbool.h>
#include <stdint.h>
#include <slime/export.h>

SLIME_BEGIN_DECLS

struct slime_context;
struct slime_op;

/*
 * Runs on the thread that makes progress, after the op has its result. In here the op is not
 * pending: it may be submitted again or destroyed. To every other thread it is pending until the
 * callback has returned, or has submitted or destroyed it: their test is false, their destroy and
 * submit are -EBUSY, and their wait goes on.
 */
typedef void slime_op_fn(void *arg, struct slime_op *op);

enum slime_op_flags {
	SLIME_OP_QUEUED = 1, /* completions go to slime_context_next(); excludes a callback */
};

struct slime_op_attr {
	slime_op_fn *fn; /* NULL: waited for, tested, or queued */
	void *arg;
	uint32_t flags; /* enum slime_op_flags */
};

/* attr NULL: an op to wait for. -EINVAL, -ENOMEM. */
SLIME_API SLIME_CHECKED int
slime_op_create(struct slime_context *ctx, const struct slime_op_attr *attr, struct slime_op **out);

/* -EBUSY while the op is pending, and nothing changed. destroy(NULL) is 0. */
SLIME_API int slime_op_destroy(struct slime_op *op);

/*
 * Wait until the op is not pending, making progress meanwhile. A negative timeout waits for as long
 * as it takes. Returns 0 when the op completed: its result is slime_op_status(). Otherwise nothing
 * but the waiting ended:
 *   -ETIMEDOUT  the op is still pending, and it and its memory still the library's
 *   -EDEADLK    called inside a callback or inline handler
 *   -EPERM      called in a child after fork()
 */
SLIME_API SLIME_CHECKED int slime_op_wait(struct slime_op *op, int64_t timeout_ms);

/*
 * Whether the op completed, and its callback returned, or it never was submitted. Of one that is
 * pending it makes one pass of progress, without sleeping, unless another thread makes progress;
 * callbacks and inline handlers may run in it. Inside a callback or inline handler, and in a child
 * after fork(), it only looks.
 */
SLIME_API bool slime_op_test(struct slime_op *op);

/* The result of the last completed submission; valid until the next. 0 or a negative errno:
 *   -ECONNRESET   the connection died, or the peer closed it; which bytes arrived is unknown
 *   -ESTALE       the remote region was withdrawn
 *   -EMSGSIZE     a send was longer than its receive (at both ends)
 *   -ECANCELED    cancelled, or its endpoint was closed
 *   -EREMOTEIO    the peer refused the access; over rdma also a transfer whose peer is killed, and
 *                 its memory went first
 *   -ENOMEM, -EMFILE  the remote region could not be mapped: not so much memory, or no descriptor
 *   -EFAULT       over rdma: devices cannot have the local memory, or it is read-only and the op
 *                 would write to it
 *   -EOPNOTSUPP   the transport cannot reach that memory
 */
SLIME_API int slime_op_status(const struct slime_op *op);

/* Bytes moved: of a batch all of them, of a receive the message's. 0 when the op failed. */
SLIME_API uint64_t slime_op_bytes(const struct slime_op *op);

/* The immediate that came with a slime_imm_recv(). */
SLIME_API uint32_t slime_op_imm(const struct slime_op *op);

/* The tag that came with a slime_recv(). */
SLIME_API uint64_t slime_op_tag(const struct slime_op *op);

/* The arg given at creation. */
SLIME_API void *slime_op_arg(const struct slime_op *op);

SLIME_END_DECLS

#endif
