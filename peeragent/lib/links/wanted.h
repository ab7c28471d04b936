/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A link that the agent wants. One to a selector without a match is reported to nanoctrl in its own
 * name, so that a client that waits for all links waits for it too; wishes with a match are
 * reported as the links they are (entry.h).
 */
#ifndef AGENT_WANTED_H
#define AGENT_WANTED_H

#include "peeragent/lib/links/links.h"

struct wanted {
	struct sl_list node;
	struct links *set;
	struct slime_topology *topology; /* a copy: its only link */
	const struct slime_agent_link *link;
	/* An agent that matches and whose link another wish brought about; "": none is known. */
	char shared[SLIME_AGENT_NAME_MAX + 1];
	enum link_source source;
	char *cluster;	     /* of LINK_OF_CLUSTER: the topology that wants it */
	const char *refusal; /* of the same: why this agent cannot have it as it is wanted; NULL: it
				can */
	bool listed;	     /* in the list of the cluster that is taken now */
	bool ending;  /* of the cluster: wanted no more, and its peer may only be out of reach */
	bool matched; /* an agent matches the selector */
	bool dropped; /* stays only until nanoctrl knows */
	bool told;    /* the log says that no agent matches */
	uint64_t since_ns;
	struct publication report;
};

/* Of set->wanted. -ENOMEM. */
int wanted_create(struct links *set, const struct slime_agent_link *link, struct wanted **out);

/* Whether an agent matches the selector, as far as is known. */
void wanted_match(struct wanted *w, bool matched);

/* It is wanted no more. */
void wanted_drop(struct wanted *w);

/* At the agent's end: no callbacks. */
void wanted_destroy(struct wanted *w);

#endif
