/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Protection domains, in which regions of ours are registered with the devices.
 *
 * A key of a region is a number of 32 bits that a peer may guess; what it cannot get around is the
 * protection domain of its queue pairs. All links share one, and every region that is not
 * restricted is registered in it with the rights that it grants. An isolated link has a domain of
 * its own, in which a restricted region is registered with these rights when that link's peer has
 * shown that it was given the descriptor. Elsewhere it is only memory that we read and write.
 */
#ifndef SL_RDMA_DOMAIN_H
#define SL_RDMA_DOMAIN_H

#include <stdatomic.h>
#include <stdbool.h>

#include <infiniband/verbs.h>

#include "base/list.h"
#include "src/transport/rdma/wire.h"

struct rdma_mr;
struct rdma_transport;

/* A protection domain of each nic. */
struct rdma_domain {
	struct rdma_transport *t;
	struct sl_list link; /* in the transport's; under mr_lock */
	bool isolated;
	bool closing; /* under mr_lock */
	unsigned n_nics;
	struct ibv_pd *pds[RDMA_RAILS_MAX]; /* by nic; NULL where it was dead */
	_Atomic unsigned n_busy;	    /* regions that a worker is at */
	_Atomic(struct rdma_mr *)
		*mrs; /* two for each region, by its id; NULL until there is one */
};

/* For the nics that are open. Under setup_lock, or while nics come and go no more. */
int rdma_domain_create(struct rdma_transport *t, bool isolated, struct rdma_domain **out);
/* Let go of all that is in it: no queue pair of it is left, and no worker is at it. Control calls.
 */
void rdma_domain_close(struct rdma_domain *d);
void rdma_domain_free(struct rdma_domain *d); /* after close, or in a child after fork */

/* Whether it can be closed: no worker is at a region of it, and none is let go by others from here
 * on. Else a worker calls all connections when it is done. */
bool rdma_domain_begin_to_close(struct rdma_domain *d);

#endif
