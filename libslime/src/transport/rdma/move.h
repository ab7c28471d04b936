/* SPDX-License-Identifier: Apache-2.0 */
/* The work that a rail leaves when it ends. */
#ifndef SL_RDMA_MOVE_H
#define SL_RDMA_MOVE_H

#include <stdint.h>

struct rdma_path;

/*
 * Both ends are without the rail's queue pairs, and the peer had count messages over it: finish
 * what is known to be done, put messages back, and leave requests to rdma_work_pump(). A negative
 * errno when that cannot be: the connection is to end. Under lock.
 */
int rdma_move_begin(struct rdma_path *p, uint64_t count);

#endif
