/* SPDX-License-Identifier: Apache-2.0 */
/* Completions of completion queues. */
#ifndef SL_RDMA_COMPLETION_H
#define SL_RDMA_COMPLETION_H

#include <infiniband/verbs.h>

struct rdma_nic;
struct rdma_transport;

/* Take some of what is in the queues of a port: how many. [token] */
unsigned rdma_completions_poll(struct rdma_nic *nic);
/* One of them. [token] */
void rdma_completed(struct rdma_transport *t, const struct ibv_wc *wc);

#endif
