/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Send and receive with tags. A receive matches the first send, in the order sent, whose tag equals
 * its own under the mask; a send matches the first such receive in the order posted. A send
 * completes when it was matched or refused. A send that is longer than its receive fails both with
 * -EMSGSIZE; nothing is ever truncated.
 *
 * Up to SLIME_SEND_EAGER bytes travel with the message. The receiver reads the bytes of a longer
 * send from the sender's region, which has to grant SLIME_ACCESS_REMOTE_READ; the memory of a
 * receive needs no access. Messages without a receive stay in their slots; with 64 of them on a
 * link the sender gets -EAGAIN until one was received.
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

#define SLIME_SEND_EAGER 1024

/*
 * Send len bytes at offset of mr. mr NULL with len 0 sends an empty message. Returns 0 when it was
 * accepted; otherwise nothing was sent and op is untouched:
 *   -EAGAIN    max_pending_ops reached, or too many sends that the peer has not received
 *   -EINVAL    mr or op is of another context, or mr half destroyed
 *   -ERANGE    the message leaves its region
 *   -EOPNOTSUPP  the region is memory of a device
 *   -EACCES    longer than SLIME_SEND_EAGER, and the region does not grant remote reads
 *   -EBUSY     op is pending                 -ENOTCONN not connected, or the connection failed
 * Besides what slime/op.h says, the op may end with -EOPNOTSUPP: the peer's transport cannot read
 * that memory (on one host: memory that is not from slime_mem_alloc).
 */
SLIME_API SLIME_CHECKED int slime_send(struct slime_endpoint *ep, struct slime_mr *mr,
				       uint64_t offset, uint64_t len, uint64_t tag,
				       struct slime_op *op);

/*
 * Receive at most len bytes; slime_op_bytes() and slime_op_tag() say what came. mr NULL with len 0
 * receives an empty message. Errors as for slime_send(), without -EACCES.
 */
SLIME_API SLIME_CHECKED int slime_recv(struct slime_endpoint *ep, struct slime_mr *mr,
				       uint64_t offset, uint64_t len, uint64_t tag, uint64_t mask,
				       struct slime_op *op);

/* Take back a receive that nothing matched yet: it completes with -ECANCELED. -ENOENT when it is
 * not waiting. */
SLIME_API int slime_recv_cancel(struct slime_endpoint *ep, struct slime_op *op);

SLIME_END_DECLS

#endif
