/* SPDX-License-Identifier: Apache-2.0 */
/* A completion queue of a port, and the room that queue pairs reserve in it. */
#ifndef SL_RDMA_CQ_H
#define SL_RDMA_CQ_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "src/transport/rdma/job.h"

struct rdma_nic;

#define RDMA_CQS_MAX 64 /* of a nic */
#define RDMA_CQ_LEN  16384

struct rdma_cq {
	struct rdma_nic *nic;
	struct ibv_cq *ibv;
	uint32_t len;
	uint32_t room;	     /* entries that are not reserved; under cq_lock */
	_Atomic bool failed; /* no room is reserved any more; it is destroyed with the last user */
	bool armed;	     /* [token] */
	unsigned n_events;   /* not acknowledged; [token] */
	struct rdma_job job; /* that destroys it */
	bool stays;	     /* the device says no to that: its events name it. [token], as job */
};

/* Reserve room for n completions in a queue of the nic, in a new one if needed. Any thread. */
int rdma_cq_reserve(struct rdma_nic *nic, uint32_t n, struct rdma_cq **out);
void rdma_cq_release(struct rdma_cq *cq, uint32_t n);
/* [token], these four. */
/* The nic's queue at that place failed: destroy it, if no room in it is reserved. */
void rdma_cq_reap(struct rdma_nic *nic, unsigned i);
void rdma_cq_arm(struct rdma_nic *nic);
void rdma_cq_rang(struct rdma_cq *cq);	/* its event arrived */
bool rdma_cq_fail(struct rdma_cq *cq);	/* it does not work any more; whether that was not known */
void rdma_cq_close(struct rdma_cq *cq); /* it is not in use. Any thread; control calls */

#endif
