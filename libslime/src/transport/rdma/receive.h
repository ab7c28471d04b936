/* SPDX-License-Identifier: Apache-2.0 */
/* The input of a connection. All of [token]. */
#ifndef SL_RDMA_RECEIVE_H
#define SL_RDMA_RECEIVE_H

#include <stdint.h>

#include <infiniband/verbs.h>

struct rdma_conn;
struct rdma_qp;

/* A receive completed, of buffer i. */
void rdma_receive(struct rdma_conn *c, struct rdma_qp *q, uint32_t i, const struct ibv_wc *wc);
/* Take the message that the peer sent before we were up; or drop it, as we end. */
void rdma_receive_early(struct rdma_conn *c);
void rdma_receive_forget_early(struct rdma_conn *c);

#endif
