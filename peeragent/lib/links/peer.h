/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Another agent that a link of ours leads to, as nanoctrl knows it. Later registrations are greater
 * in (epoch, generation); what is said of an older one is ignored.
 */
#ifndef AGENT_PEER_H
#define AGENT_PEER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "peeragent/lib/control/ctrl.h"

struct peer {
	struct sl_list node;
	struct sl_list links;
	char name[SLIME_AGENT_NAME_MAX + 1];
	char incarnation[CTRL_INCARNATION_MAX + 1]; /* "": never seen */
	uint64_t epoch;
	uint64_t generation;
	uint64_t gone_epoch; /* registrations up to this one have ended */
	uint64_t gone_generation;
	bool up;
	bool reset_told; /* since a link to it was connected last */
	bool listed;	 /* by the list under way */
};

enum peer_change {
	PEER_OLD,	  /* of a registration older than the one we know */
	PEER_SAME,	  /* nothing new */
	PEER_AGAIN,	  /* the same process, registered again */
	PEER_INCARNATION, /* another process, or the first we hear of it */
};

/* NULL without memory. */
struct peer *peer_create(const char *name);
void peer_destroy(struct peer *peer);

/* Take a registration that stands. */
enum peer_change peer_update(struct peer *peer, const char *incarnation, uint64_t epoch,
			     uint64_t generation);

/* A registration ended: whether it was the one we know, or a later one. */
bool peer_end(struct peer *peer, uint64_t epoch, uint64_t generation);

#endif
