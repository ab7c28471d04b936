/* SPDX-License-Identifier: Apache-2.0 */
/* The parts that wait for a peer: queue pairs on each rail, and memory that the peer writes to. */
#ifndef SL_RDMA_OFFER_H
#define SL_RDMA_OFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "base/list.h"
#include "src/core/desc.h"
#include "src/transport/rdma/gid.h"
#include "src/transport/rdma/job.h"
#include "src/transport/rdma/slot.h"
#include "src/transport/rdma/wire.h"
#include "src/transport/transport.h"

struct rdma_domain;
struct rdma_nic;
struct rdma_qp;
struct rdma_transport;

struct rdma_rail {
	struct rdma_nic *nic;
	struct rdma_rail_address local;
	uint8_t gid_index;
	char gid_why[SL_GID_WHY_MAX];
	struct ibv_mr *in;  /* slots that the peer writes */
	struct ibv_mr *out; /* slots of ours */
	struct ibv_mr *own; /* its receives and frames */
	uint8_t *memory;    /* they are there */
	struct rdma_qp *qps[RDMA_QPS_MAX];
};

struct rdma_offer {
	struct rdma_transport *t;
	struct sl_list link;	    /* in the transport's list, under its lock */
	struct rdma_job job;	    /* to be dropped */
	struct rdma_domain *domain; /* of its queue pairs: its own when isolated, else all links' */
	uint8_t *memory;
	size_t memory_len;
	uint8_t *in_slots;
	uint8_t *out_slots;
	unsigned n_rails;
	unsigned n_qps;				/* of a rail */
	struct rdma_rail rails[RDMA_RAILS_MAX]; /* of the ports that could be used */
	uint8_t bytes[SL_CANDIDATE_MAX];	/* as the peer has it */
	size_t len;
};

/* Whether its port is not, or is not as, what it was when the offer was made; in words. Asks the
 * device. */
bool rdma_rail_has_changed(const struct rdma_rail *rail, char *why, size_t cap);

int rdma_offer_create(struct rdma_transport *t, const struct slime_endpoint_attr *attr,
		      struct rdma_offer **out, struct sl_why *why);
/* The state of its port now. Under setup_lock. */
void rdma_rail_describe(struct rdma_rail *rail);
/* Destroys what is left of its queue pairs; control calls. */
void rdma_offer_close(struct rdma_offer *o);
void rdma_offer_free(struct rdma_offer *o);
/* Both, on a worker. Any thread. */
void rdma_offer_drop(struct rdma_offer *o);
void rdma_offer_forget(struct rdma_offer *o); /* in a child after fork */

#endif
