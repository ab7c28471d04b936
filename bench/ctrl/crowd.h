/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Simulated agents, a client of nanoctrl each, on one event loop. What is measured is a step:
 * it begins calls, crowd_run() runs the loop until the step says crowd_finish(), and then until no
 * call is under way. The first thing that goes wrong, or a signal, ends the step and the rest.
 */
#ifndef CTRL_CROWD_H
#define CTRL_CROWD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/list.h"
#include "bench/settings.h"
#include "nanoctrl/client/nanoctrl_client.h"

struct crowd;
struct event;

struct agent {
	struct crowd *crowd;
	struct nc_client *client; /* NULL: it was killed */
	size_t index;
	char name[NC_NAME_MAX + 1];
	bool registered;
	bool in_session;
	uint64_t kept_ns; /* when its lease was last extended by a call of ours */

	/* For the step at hand. */
	struct sl_list idle;
	uint64_t begin_ns;
};

/* What agents hear of others goes to the step at hand; NULL where it does not want it. */
struct crowd_step {
	void (*event)(void *arg, struct agent *to, const struct nc_event *event);
	void (*reset)(void *arg, struct agent *to);		      /* events were lost */
	void (*down)(void *arg, struct agent *of, const char *cause); /* its session broke */
	void *arg;
};

struct crowd {
	struct event_base *base;
	struct agent *agents;
	size_t n;
	char prefix[NC_NAME_MAX + 1];
	char incarnation[33];
	char owner_key[65];
	uint32_t ttl_ms, grace_ms; /* of the leases */

	const struct crowd_step *step; /* NULL: nobody listens */
	size_t n_calls;		       /* under way */
	size_t n_missing;	       /* agents or sessions that are waited for */
	uint64_t heard_ns;	       /* when the last event came */
	bool finished;
	bool over;   /* something went wrong, or a signal came: nothing new is begun */
	bool failed; /* the first of them was said */
	int caught;  /* the signal, or 0 */
	int signals; /* descriptor */
	struct event *on_signal;
	struct event *limit;
	struct event *tick; /* keeps leases; sees that no event comes any more */
};

/* Blocks the signals: before there are threads. What fails is said; crowd_fini() follows anyway. */
int crowd_init(struct crowd *c, const struct settings *settings, const char *token);

/* Register all as a new generation, to which what was before is no news, and wait for it. 0, or -1
 * when it is over. */
int crowd_register(struct crowd *c);

/* Open all sessions, and wait until each was told of the others. 0, or -1 when it is over. */
int crowd_open_sessions(struct crowd *c);

/* From here on, until there are sessions: beat for agents of which no call does. */
void crowd_keep(struct crowd *c);

/* Those that are registered leave; with a limit in time. */
void crowd_leave(struct crowd *c);
void crowd_fini(struct crowd *c);

/* Run a step, at most so long. 0; -1 when it is over. */
int crowd_run(struct crowd *c, const struct crowd_step *step, const char *what, int64_t limit_ms);
void crowd_finish(struct crowd *c);

/* A call of this agent was accepted, or not: ret is what its function returned. */
void crowd_called(struct agent *g, const char *what, int ret);

/* It has ended. Returns whether the step goes on; with an error it does not. */
bool crowd_answered(struct agent *g, const char *what, const struct nc_error *error);

/* Register this agent, again if it is; fn gets the agent as arg, and begins with crowd_granted(),
 * which returns what crowd_answered() does. */
int crowd_register_one(struct agent *g, nc_grant_fn *fn);
bool crowd_granted(struct agent *g, const struct nc_error *error, const struct nc_grant *grant);

/* The agent vanishes without a word. */
void crowd_kill(struct agent *g);

/* The agent of that name; NULL when it is none of ours. */
struct agent *crowd_find(struct crowd *c, const char *name);

/* Says it once, for the first, unless a signal came. */
void crowd_fail(struct crowd *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
