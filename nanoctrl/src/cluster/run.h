/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One expansion of a scope: from its topologies, agents and lists to the lists that agents are to
 * have. It knows no store and no loop, and may run on any thread while no other thread touches what
 * it points to.
 */
#ifndef NANOCTRL_CLUSTER_RUN_H
#define NANOCTRL_CLUSTER_RUN_H

#include "cluster/lists.h"
#include "model/topology.h"

struct run {
	/* As they were read; the texts are copies. */
	char **docs, **reports;
	uint64_t *revisions;
	size_t n;
	/* Their contents, of the revision of the scope for which they were parsed. */
	struct model_topology *parsed;
	struct topology *topologies;
	bool is_parsed;
	uint64_t settle_ms; /* the longest of a ring; 0: there is none */

	struct topology_agent *agents;
	size_t n_agents;
	const struct wanted_lists *have;

	struct wanted_lists want;
	struct expansion expansion;
	uint64_t next_ms; /* until a place in a ring is kept no more; 0: none is */
	int result;
};

/* Takes topologies over in place of those that it has. -ENOMEM. */
int run_take(struct run *r, const struct store_topologies *t);
/* Their reports alone. -ENOMEM. */
int run_take_reports(struct run *r, const struct store_topologies *t);

/* Parses what is not parsed yet and expands. The result is in the run: -EPROTO for a topology that
 * cannot be read, which is logged by scope. */
void run_expand(struct run *r, const char *scope);

/* The result goes, topologies stay. */
void run_clear(struct run *r);
void run_fini(struct run *r);

#endif
