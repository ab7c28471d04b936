/* SPDX-License-Identifier: Apache-2.0 */
/* The meaning of a failed completion. */
#ifndef SL_RDMA_ERROR_H
#define SL_RDMA_ERROR_H

#include <stdbool.h>
#include <stddef.h>

#include <infiniband/verbs.h>

struct rdma_qp;

/*
 * The result of a failed completion: the status of its op and the end of its connection. Of a
 * message: memory of the library that a peer refuses is gone, and the peer with it; elsewhere a
 * refusal is about a region.
 */
int rdma_error_status(enum ibv_wc_status status, bool of_message);
/* Whether it is the rail's, so that the same may succeed on another. */
bool rdma_error_is_of_rail(enum ibv_wc_status status);
/* In words: also what to do about it. */
void rdma_error_text(const struct rdma_qp *q, const struct ibv_wc *wc, bool of_message, char *out,
		     size_t cap);

#endif
