/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests of one-sided work: what one has to know of its piece, and how it is written down in its
 * connection's list, to be posted. Under the connection's lock, all of it.
 */
#ifndef SL_RDMA_REQUEST_H
#define SL_RDMA_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "src/core/op.h"
#include "src/transport/rdma/conn.h"
#include "src/transport/rdma/key.h"
#include "src/transport/rdma/qp.h"

/* A chain that is being built. */
struct rdma_chain {
	struct rdma_conn *c;
	struct rdma_qp *q;
	uint32_t n;
	uint32_t room;
	uint64_t bytes;
	uint64_t share;		/* how many there may be */
	struct rdma_sent *last; /* the record of the last request, of one-sided work */
};

static inline bool rdma_is_write(const struct slime_op *op)
{
	return op->work.kind != SLIME_KIND_READ;
}

/* Those of op that there is room for: 0 it has no bytes left, -EAGAIN no room, -EINPROGRESS a
 * region was asked for, -EACCES, -ERANGE or another cause of which it fails. */
int rdma_request_add_op(struct rdma_chain *ch, struct slime_op *op);

/* Requests for the bytes at which w stands, a copy of op's work, once more with that key: as many
 * as there is room for. The key is that of a request that was posted, so its chunk is known. */
void rdma_request_add_again(struct rdma_chain *ch, struct slime_op *op, struct sl_work *w,
			    struct rdma_key *key);

/* The request that is all of op, of one piece without a stride, in an empty chain: signaled, and
 * the last of it. False: a region has to be asked for, or it would be more than one. */
bool rdma_request_alone(struct rdma_chain *ch, struct slime_op *op);

#endif
