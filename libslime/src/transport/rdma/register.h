/* SPDX-License-Identifier: Apache-2.0 */
/* One range of a region, registered with one device. */
#ifndef SL_RDMA_REGISTER_H
#define SL_RDMA_REGISTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

struct rdma_mr;
struct rdma_nic;

/* len bytes at that place of it, with one device: NULL, and errno; *read_only: so that nothing is
 * written to them. Control call. */
struct ibv_mr *rdma_register(const struct rdma_nic *nic, struct ibv_pd *pd,
			     const struct rdma_mr *mr, uint8_t *at, uint64_t len, bool *read_only);
/* That errno in words, and what is missing. */
void rdma_register_why(const struct rdma_mr *mr, int err, char *out, size_t cap);

#endif
