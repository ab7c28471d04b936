/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which rails of two ends go together: a function of both candidates, so that each end comes to the
 * same without asking. Rails that agree in what the pairing looks at go together, those of one NUMA
 * node in the order of their positions; what has no partner is not used. When no two agree, all go
 * together in their order; so do those that are left when an end names ports of the other.
 */
#ifndef SL_RDMA_PAIRING_H
#define SL_RDMA_PAIRING_H

#include <stdbool.h>
#include <stddef.h>

#include <slime/context.h>

#include "src/transport/rdma/wire.h"

struct rdma_paired {
	unsigned ours, peers; /* indexes of rails */
	int at;		      /* the position or NUMA node that they agree in */
};

struct rdma_pairing {
	enum slime_rdma_pair by;
	bool in_order; /* no two agree */
	bool named;    /* an end names the other's ports: in the order of both lists */
	unsigned n;
	uint64_t bandwidth;			  /* of all of them, bits per second */
	struct rdma_paired rails[RDMA_RAILS_MAX]; /* in an order that both ends share */
};

/* -EPROTONOSUPPORT when the ends pair in different ways. An end with one rail goes along with the
 * other's way. -ENODEV: an end names ports of the other that this one does not offer. -ENOSPC: the
 * rails are slower than an end wants them; *out is filled. */
int rdma_pairing_make(const struct rdma_candidate *ours, const struct rdma_candidate *peers,
		      struct rdma_pairing *out);

/* "position", "NUMA node", "name" */
const char *rdma_pair_words(enum slime_rdma_pair by);
/* Why the rail's two ports are a pair, for people. */
void rdma_pairing_text(const struct rdma_pairing *p, unsigned rail, char *out, size_t cap);

#endif
