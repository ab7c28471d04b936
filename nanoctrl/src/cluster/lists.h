/* SPDX-License-Identifier: Apache-2.0 */
/* The lists of wanted links of all agents of a scope, in the order of the agents' names. */
#ifndef NANOCTRL_LISTS_H
#define NANOCTRL_LISTS_H

#include "topology/expand.h"

struct wanted_list {
	char *agent;
	char *text; /* JSON */
};

struct wanted_lists {
	struct wanted_list *at;
	size_t n, room;
};

/* Copies both; behind those that are there. -ENOMEM. */
int lists_add(struct wanted_lists *l, const char *agent, const char *text, size_t len);

/* Puts them in order; of an agent that is there several times one stays. */
void lists_sort(struct wanted_lists *l);
void lists_fini(struct wanted_lists *l);

/* One for each of these agents that is not gone; they are in order. -ENOMEM. */
int lists_make(struct wanted_lists *out, const struct expansion *e,
	       const struct topology_agent *agents, size_t n);

/* The changes that lead from the list `have` to `want`, both in order: fn for each list that
 * differs, with "" for a list that goes. Ends early with a result of fn that is not 0. */
typedef int lists_fn(void *arg, const char *agent, const char *text);
int lists_compare(const struct wanted_lists *have, const struct wanted_lists *want, lists_fn *fn,
		  void *arg);

#endif
