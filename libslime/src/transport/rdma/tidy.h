/* SPDX-License-Identifier: Apache-2.0 */
/* Asking again for what abandon() refused. */
#ifndef SL_RDMA_TIDY_H
#define SL_RDMA_TIDY_H

struct rdma_transport;

/* A device let go of something: have a thread ask again for what abandon() refused. [token] */
void rdma_tidy(struct rdma_transport *t);

#endif
