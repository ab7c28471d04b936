/* SPDX-License-Identifier: Apache-2.0 */
/* One-sided work of a connection: from the op to the requests that are posted, and back. */
#ifndef SL_RDMA_WORK_H
#define SL_RDMA_WORK_H

#include "src/transport/rdma/conn.h"
#include "src/transport/rdma/key.h"
#include "src/transport/rdma/path.h"
#include "src/transport/rdma/qp.h"
#include "src/transport/transport.h"

int rdma_submit(struct sl_conn *conn, struct slime_op *op);
void rdma_work_pump(struct rdma_conn *c); /* under lock */
/* A region of the peer's turned out to have several chunks: what was looked ahead at knew of one.
 * Under lock. */
void rdma_work_ask_again(struct rdma_conn *c);
void rdma_work_done(struct rdma_conn *c, struct slime_op *op); /* a part is. Under lock */
void rdma_work_fail_all(struct rdma_conn *c, int status);      /* nothing is in flight. [token] */
/* The status that op shall end with, when its connection fails. Under lock. */
void rdma_work_blame(struct slime_op *op, int status);
/* A request of it is to be sent again: a part of its own from here on; or its immediate, for which
 * rdma_work_done() is the next to be called. Under lock. */
void rdma_work_again(struct slime_op *op, struct rdma_sent *s);
void rdma_work_unsaid(struct slime_op *op);

/* The request is done. Under lock. */
static inline void rdma_work_reclaim(struct rdma_qp *q, const struct rdma_sent *s)
{
	q->n_bytes -= s->len;
	q->n_acked += s->frame != NULL;
	if (s->key)
		rdma_key_put(q->conn, s->key);
	if (s->bye)
		atomic_store(&q->conn->left, true);
	if (s->probe)
		rdma_path_probed(q->path);
	if (s->last)
		rdma_work_done(q->conn, s->op);
}

#endif
