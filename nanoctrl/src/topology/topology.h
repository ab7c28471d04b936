/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A topology: a named set of wishes for the links of a scope, as plain data. Texts belong to the
 * creator of the struct.
 */
#ifndef NANOCTRL_TOPOLOGY_H
#define NANOCTRL_TOPOLOGY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TOPOLOGY_LINKS_MAX     100000 /* that one topology names or expands to */
#define TOPOLOGY_RAILS_ALL     UINT32_MAX
#define TOPOLOGY_N_TRANSPORTS  3
#define TOPOLOGY_SETTLE_MS     2000 /* where a ring says nothing */
#define TOPOLOGY_SETTLE_MAX_MS 60000

struct topology_label {
	const char *key, *value;
};

/* A registered agent, or one that has left and keeps its place in rings for a while. */
struct topology_agent {
	const char *name;
	const struct topology_label *labels;
	size_t n_labels;
	bool gone;
	uint64_t gone_ms; /* how long ago it left */
};

/* How a link is to be made. Of two links with equal parameters one is as good as the other. */
struct topology_params {
	const char *profile;
	const char *transports[TOPOLOGY_N_TRANSPORTS]; /* in order of preference; NULL ends them */
	uint32_t qps;		/* 0: as the agents have it, as for the next */
	uint32_t rails;		/* or TOPOLOGY_RAILS_ALL */
	uint64_t min_bandwidth; /* bits per second */
	/* RDMA ports of the first end, and of the other: "mlx5_0,mlx5_1:2"; NULL: any. */
	const char *devices, *peer_devices;
};

enum wish_kind { WISH_MESH, WISH_FROM_TO, WISH_PAIRS, WISH_RING, WISH_STAR };

struct wish_pair {
	const char *a, *b;
};

/* A selector is LABEL=VALUE,...; what has no '=' is an agent's name. */
struct wish {
	enum wish_kind kind;
	const char *from;   /* MESH, RING: the members; STAR: the center */
	const char *to;	    /* FROM_TO; STAR: the leaves */
	const char *by;	    /* RING: the label that orders it, */
	uint64_t settle_ms; /* and how long it keeps the place of an agent that left */
	struct wish_pair *pairs;
	size_t n_pairs;
	struct topology_params params;
	char *devices, *peer_devices; /* of params; NULL: none */
};

/* Agents that should be there. */
struct expected {
	const char *who;	       /* a selector or a name */
	uint64_t count;		       /* at least */
	struct topology_label *labels; /* that each of them should have */
	size_t n_labels;
};

struct topology {
	const char *name;
	uint64_t revision; /* of its last change */
	struct expected *expected;
	size_t n_expected;
	struct wish *wishes;
	size_t n_wishes;
};

bool wish_is_selector(const char *who);

/* Whether the agent is meant. */
bool wish_selects(const char *who, const struct topology_agent *agent);

/* turned: the first end of one is the other end of the other. */
bool wish_params_equal(const struct topology_params *a, const struct topology_params *b,
		       bool turned);

#endif
