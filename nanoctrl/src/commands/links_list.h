/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ends of the links of a scope: as their agents report them, with what their last snapshots
 * count for them; without a server as the snapshots alone have them.
 */
#ifndef NANOCTRL_LINKS_LIST_H
#define NANOCTRL_LINKS_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "commands/obs_source.h"

#define LINKS_STORY 512
#define LINKS_CAUSE 1024 /* as nanoctrl takes them, with the zero */

/* How it came to be as it is, in its agent's words; "" and 0 where it says nothing of it. */
struct links_story {
	char transports[64]; /* allowed, in the order of preference: "shm,rdma,tcp" */
	char order[16];	     /* the end whose order counted: "own" or "peer" */
	char passed_over[LINKS_STORY];
	char no_foreign_memory[LINKS_STORY]; /* why such memory is out of reach */
	char last_error[LINKS_STORY];	     /* it broke with, or was lost for */
	uint64_t max_bandwidth;		     /* bits per second */
	uint64_t n_connects;		     /* how often it came up */
	uint64_t n_failures;		     /* in a row */
};

struct links_end {
	char agent[OBS_TEXT], peer[OBS_TEXT], profile[OBS_TEXT], transport[64], cause[LINKS_CAUSE];
	char state[32];
	uint64_t age_ms;
	char local[OBS_TEXT], remote[OBS_TEXT];
	bool ours;     /* of an agent of this control plane that has not left: what is waited for */
	bool reported; /* by its agent, and age_ms is of its state */
	bool missing;  /* not heard of, while the other end says it is connected */
	char source[OBS_TEXT];	 /* what wants the link: "topology serving", "the agent", "the
				    program", "the peer"; "" where its agent does not report it */
	char topology[OBS_TEXT]; /* that wants it; "": none does */
	uint64_t topology_revision, topology_age_ms; /* of its last change; 0: not known */
	bool wanted_only; /* no agent reports it, and age_ms is since it is wanted, or since the
			     topology changed */
	struct links_story *story; /* NULL: it was not asked for, or the agent reports none */
	bool counted;
	uint64_t bytes, pending, errors;
	double bps;
	struct json_slice conn_id, rails; /* in the snapshot's text */
};

/* A topology, as its last expansion left it. */
struct links_topology {
	bool known;	   /* there is one of that name */
	bool expanded;	   /* as it is now */
	uint64_t n_absent; /* expected agents */
	char state[32];
	char note[800]; /* the first one, or "" */
};

struct links_list {
	struct obs_source *source;
	const char
		*about; /* ends of one agent alone, and its peers', with their stories; NULL: all */
	const char *selector; /* of the labels of the agents that report; NULL: all */
	const char *topology; /* that is waited for; NULL: none */
	struct links_topology of;
	struct obs_list snapshots;
	struct links_end *ends; /* by agent, peer and profile */
	size_t n, room;
	unsigned n_pages;
	bool done;
	char error[320]; /* "" when the list is complete */
};

/* In place of what the list had; source, about and selector are set. error says whether it worked.
 */
void links_list_read(struct links_list *l);
void links_list_clear(struct links_list *l);

/* NULL when there is none. */
const struct links_end *links_list_find(const struct links_list *l, const char *agent,
					const char *peer, const char *profile);
/* The last snapshot of an agent; NULL when there is none. */
const struct obs_snapshot *links_list_snapshot(const struct links_list *l, const char *agent);

/* For code that adds ends: room for one, NULL without memory; the end like this one among the first
 * n, which are in order, NULL: none; and all in order again. */
struct links_end *links_list_new(struct links_list *l);
struct links_end *links_list_find_first(const struct links_list *l, size_t n,
					const struct links_end *like);
void links_list_sort(struct links_list *l);

bool links_end_is_connected(const struct links_end *e);

#endif
