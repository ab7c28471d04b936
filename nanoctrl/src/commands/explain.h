/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `nanoctrl explain`: one agent and its links, each with what both ends say of it: why it is
 * connected as it is, or is not.
 */
#ifndef NANOCTRL_EXPLAIN_H
#define NANOCTRL_EXPLAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "commands/links_list.h"

enum explain_life {
	EXPLAIN_ALIVE,
	EXPLAIN_STARTING,
	EXPLAIN_OVERDUE, /* its lease has run out, and no server has ended it yet */
	EXPLAIN_STALE,	 /* of another control plane, or without a server: silent for --stale-ms */
	EXPLAIN_LEFT,
	EXPLAIN_GONE,	 /* not registered */
	EXPLAIN_UNKNOWN, /* nothing is known about it */
};

extern const char *const explain_life_names[];

struct explain_agent {
	const char *name;
	enum explain_life life;
	bool asked;	 /* a server was asked whether it is registered */
	bool registered; /* and what follows is known */
	char incarnation[65], address[254];
	uint64_t generation, registered_at_ms;
	int64_t lease_left_ms;
	bool session;
	const struct obs_snapshot *snapshot; /* NULL: none */
};

struct explain_link {
	const char *peer, *profile;
	const struct links_end *own, *other; /* NULL: not reported; one of them is */
	enum explain_life peer_life;
	bool peer_is_silent; /* registered and without a session, where the ends differ */
};

struct explanation {
	struct explain_agent agent;
	struct explain_link *links; /* by peer and profile */
	size_t n;
	const char *scope;
	uint64_t now_ms; /* the clock of registered_at_ms */
};

/* Whether both ends say the same: the state, and the transport. */
bool explain_ends_agree(const struct explain_link *k);

void explain_print(const struct explanation *x, FILE *to);
int explain_print_json(const struct explanation *x); /* 0 or a negative errno */

struct cli_args;
struct options;
struct runtime;
struct settings;

/* Reads and prints what the operands name: an agent, and perhaps its peer. The exit status. */
int explain_show(const struct settings *settings, const struct options *options,
		 const struct runtime *rt, const struct cli_args *args);

#endif
