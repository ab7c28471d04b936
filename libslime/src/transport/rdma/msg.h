/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of a connection, and the control frames between them. */
#ifndef SL_RDMA_MSG_H
#define SL_RDMA_MSG_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "src/transport/transport.h"

struct rdma_conn;
struct rdma_qp;
struct slime_op;

uint8_t *rdma_slot(struct sl_conn *conn, enum sl_area area, unsigned slot);
void rdma_post(struct sl_conn *conn, const struct sl_post *posts, size_t n);
void rdma_take_imm(struct sl_conn *conn, uint64_t taken);
/* Under lock. */
void rdma_msg_put(struct rdma_conn *c, const struct sl_msg *m);
void rdma_msg_put_over(struct rdma_qp *q, const struct sl_msg *m); /* at once; room was there */
void rdma_msg_pump(struct rdma_conn *c); /* what waits, as far as there is room */
/* Put it before all that wait: false: there is no room. */
bool rdma_msg_put_back(struct rdma_conn *c, const struct sl_msg *m);
/* Prepare the request for m as the n-th of a chain on the lead; op, if any, is done with it. Under
 * lock. */
void rdma_msg_prepare(struct rdma_conn *c, uint32_t n, const struct sl_msg *m, struct slime_op *op);
#endif
