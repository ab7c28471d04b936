/* SPDX-License-Identifier: Apache-2.0 */
/* What completion queues tell. */
#ifndef SL_RDMA_COMPLETION_H
#define SL_RDMA_COMPLETION_H

struct rdma_nic;

/* Take some of what is in the queues of a port: how many. [token] */
unsigned rdma_completions_poll(struct rdma_nic *nic);

#endif
