/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an agent should look like, as plain data: checked, copied, compared. No I/O, no state.
 */
#ifndef AGENT_TOPOLOGY_H
#define AGENT_TOPOLOGY_H

#include <stdbool.h>
#include <slime/agent.h>

#define TOPOLOGY_DEFAULT_PROFILE "default"
#define TOPOLOGY_MAX_LABELS	 64
#define TOPOLOGY_MAX_REGIONS	 1024
#define TOPOLOGY_MAX_LINKS	 1024
#define TOPOLOGY_MAX_ALLOW	 64

/* Whether text is a name: 1 to max of [A-Za-z0-9._:@-], and not "." or "..", which no path of the
 * HTTP API can have. */
bool topology_is_name(const char *text, size_t max);

/* Whether text is a scope: a name without ':' that the store has not reserved. */
bool topology_is_scope(const char *text);

/* Whether `to` names labels rather than an agent. */
bool topology_is_selector(const char *to);

/* Whether every "key=value" of the selector is among the labels; the key "name" is the agent's
 * name. */
bool topology_selects(const char *selector, const char *name, const struct slime_label *labels,
		      size_t n_labels);

/* Whether a link is meant for the agent called name. */
bool topology_link_matches(const struct slime_agent_link *link, const char *name,
			   const struct slime_label *labels, size_t n_labels);

/* The link's profile, "default" when it names none. */
const char *topology_profile(const struct slime_agent_link *link);

/* Whether a list of SLIME_TRANSPORT_MAX, or one that SLIME_TRANSPORT_NONE ends, has only
 * transports, each once. */
bool topology_transports_fine(const enum slime_transport *list);

/* Whether what the link asks of rdma can be asked for. */
bool topology_rdma_fine(const struct slime_agent_link *link);

/* Whether two links are made in the same way, whatever they are called. */
bool topology_links_alike(const struct slime_agent_link *a, const struct slime_agent_link *b);

/* A deep copy: one allocation, freed with free(). -ENOMEM. */
int topology_copy(const struct slime_topology *from, struct slime_topology **out);

enum plan_verb {
	PLAN_LINK_CLOSE,       /* index in have.links */
	PLAN_REGION_WITHDRAW,  /* index in have.regions */
	PLAN_REGION_OFFER,     /* index in want.regions */
	PLAN_REGION_REPUBLISH, /* index in want.regions: the same memory, other readers */
	PLAN_LABELS,	       /* the labels of want replace those of have */
	PLAN_LINK_OPEN,	       /* index in want.links */
};

struct plan_step {
	enum plan_verb verb;
	size_t index;
};

/* Steps in the order in which they are to be carried out; free() steps. */
struct plan {
	struct plan_step *steps;
	size_t n;
};

/*
 * The changes that lead from have to want, both checked. Order of elements has no meaning; elements
 * that are the same in both are not in the plan. A region whose memory or access differs is
 * withdrawn and offered anew; a link with other transports is closed and opened. -ENOMEM.
 */
int topology_diff(const struct slime_topology *want, const struct slime_topology *have,
		  struct plan *out);

#endif
