/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From wishes and the agents that are registered to links: a pure function, so that every replica
 * of nanoctrl comes to the same links.
 *
 * A link is one of (unordered pair of agents, profile); `lower` is the name that sorts first, whose
 * agent initiates. Topologies come in the order in which they were first applied: of two wishes for
 * one link with different parameters the first one has it, and the other one is in conflict.
 */
#ifndef NANOCTRL_EXPAND_H
#define NANOCTRL_EXPAND_H

#include "topology/topology.h"

struct expanded_link {
	const char *lower, *upper;
	const struct topology *topology; /* the topology with the wish, */
	const struct topology_params *params;
	bool from_upper; /* the first end of params is upper */
};

enum topology_state {
	TOPOLOGY_OK,
	TOPOLOGY_WAITING,	 /* expected agents are absent */
	TOPOLOGY_CONFLICTED,	 /* another wish has some of its links */
	TOPOLOGY_TOO_MANY_LINKS, /* it is not expanded: its links stay as they were */
};

#define EXPANDED_NOTES_MAX 20  /* of one topology; others are counted */
#define EXPANDED_NOTE_LEN  700 /* two names of 253 bytes and a sentence fit */

/* The result of a topology. */
struct expanded_topology {
	enum topology_state state;
	size_t n_links;
	size_t n_conflicts;
	size_t n_absent; /* expected agents */
	size_t n_notes;
	char (*notes)[EXPANDED_NOTE_LEN]; /* for people: warnings and conflicts */
};

struct expansion {
	struct expanded_link *links; /* in the order of lower, upper, profile */
	size_t n_links;
	struct expanded_topology *topologies; /* as they were given */
	size_t n_topologies;
};

/*
 * Agents are in the order of their names, each once. kept: the links that a topology has so far,
 * for those that come out as TOPOLOGY_TOO_MANY_LINKS. What is given has to outlive the result.
 * -ENOMEM.
 */
int expand(const struct topology *topologies, size_t n, const struct topology_agent *agents,
	   size_t n_agents, const struct expanded_link *kept, size_t n_kept, struct expansion *out);
void expansion_fini(struct expansion *e);

#endif
