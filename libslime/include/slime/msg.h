/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Send and receive with tags. A receive matches the first send, in the order sent, whose tag equals
 * its own under the mask; a send matches the first such receive in the order posted. A send
 * completes when it was matched or refused. A send that is longer than its receive fails both with
 * -EMSGSIZE; nothing is ever truncated.
 */
#ifndef SLIME_MSG_H
#define SLIME_MSG_H

#include <stdint.h>
#include <slime/export.h>

SLIME_BEGIN_DECLS

struct slime_endpoint;
struct slime_mr;
struct slime_op;

#define SLIME_TAG_ALL UINT64_MAX /* mask: every bit of the tag counts */
#define SLIME_TAG_ANY 0		 /* mask: any tag */

/*
 * Send len bytes at offset of mr. mr NULL with len 0 sends an empty message.
 *   -EAGAIN    max_pending_ops reached, or the peer has too many sends it has not received: try
 * again later -EINVAL, -ERANGE, -EBUSY, -ENOTCONN as for slime_read()
 */
SLIME_API SLIME_CHECKED int slime_send(struct slime_endpoint *ep, struct slime_mr *mr,
				       uint64_t offset, uint64_t len, uint64_t tag,
				       struct slime_op *op);

/* Receive at most len bytes; slime_op_bytes() and slime_op_tag() say what came. Errors as for
 * slime_send(). */
SLIME_API SLIME_CHECKED int slime_recv(struct slime_endpoint *ep, struct slime_mr *mr,
				       uint64_t offset, uint64_t len, uint64_t tag, uint64_t mask,
				       struct slime_op *op);

/* Take back a receive that nothing matched yet: it completes with -ECANCELED. -ENOENT when it is
 * not waiting. */
SLIME_API int slime_recv_cancel(struct slime_endpoint *ep, struct slime_op *op);

SLIME_END_DECLS

#endif
