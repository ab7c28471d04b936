/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agents of a scope in the order of their names, as of an event; of those that left of late
 * what is known of them, since their places in rings are kept for a while.
 */
#ifndef NANOCTRL_MEMBERS_H
#define NANOCTRL_MEMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "topology/topology.h"

struct store_agent;

#define MEMBERS_DIRTY_MAX 256 /* that are read one by one; of more all are read */

struct member {
	char *name;
	struct topology_label *labels;
	size_t n_labels;
	void *memory;
	uint64_t left_ms; /* when it left, by the store's clock; 0: nothing was heard of that */
	bool gone;
};

struct members {
	struct member *at;
	size_t n, room;
	bool known;			/* all that are registered are here, but for dirty ones */
	bool changed;			/* since its reader cleared this */
	char *dirty[MEMBERS_DIRTY_MAX]; /* names of agents that have to be read again */
	size_t n_dirty;
};

/* Forgets the agents that are registered, but not those that left. */
void members_forget(struct members *m);
void members_fini(struct members *m);

/* The agent is as it was read. -ENOMEM. */
int members_put(struct members *m, const struct store_agent *agent);
/* It is not registered. */
void members_remove(struct members *m, const char *name);

/* It has to be read again. left_ms: when it was heard to leave; 0: it was not. reading: the last
 * one of dirty is being read now. */
void members_note(struct members *m, const char *name, uint64_t left_ms, bool reading);
/* The last one of dirty was read. */
void members_pop_dirty(struct members *m);

/* Agents that left more than TOPOLOGY_SETTLE_MAX_MS ago, or stay for no ring, are forgotten. */
void members_settle(struct members *m, uint64_t now_ms, bool has_rings);

/* As topology_agent, n of them; labels and names belong to the members. NULL without memory. */
struct topology_agent *members_agents(const struct members *m, uint64_t now_ms);

#endif
