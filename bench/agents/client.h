/* SPDX-License-Identifier: Apache-2.0 */
/* The ephemeral agent of slime-bench, which measures by itself or has another agent do it. */
#ifndef BENCH_CLIENT_H
#define BENCH_CLIENT_H

#include <pthread.h>

#include "bench/agents/interrupt.h"
#include "bench/service/job.h"
#include "bench/settings.h"
#include "cli/output/progress.h"

#define CLIENT_TROUBLE_MAX 320

struct client;

/* What the agent offers to others. */
/* All but prepare are only called when prepare has set the state. */
struct client_role {
	uint32_t workers;		    /* threads for handlers */
	int (*prepare)(struct client *c);   /* before the agent starts: 0, a negative errno */
	int (*offer)(struct client *c);	    /* when it is ready: the same */
	void (*withdraw)(struct client *c); /* before the agent leaves; only after prepare */
	int (*fini)(struct client *c); /* when its links are closed: -EBUSY when a peer that stands
					  still keeps the memory */
};

struct client {
	const struct settings *settings;
	struct slime_agent *agent;
	pthread_mutex_t lock;		  /* trouble is written by the agent's loop */
	char trouble[CLIENT_TROUBLE_MAX]; /* why we are not registered, "" when it is not known */
	struct slime_endpoint *from;	  /* NULL: this process initiates */
	const struct client_role *role;	  /* NULL: the agent offers nothing */
	void *state;			  /* of the role; NULL until it is prepared */
	struct cli_progress progress;
	struct interrupt interrupt;
};

/* All of these return 0, or -1 after saying on standard error what is wrong, unless a signal came.
 */

/* Block the signals: before there are threads. */
int client_init(struct client *c, const struct settings *settings);

/* Join the scope, and link ourselves to the agent that initiates, if it is another one. Whatever
 * this returns, client_fini() follows. */
int client_open(struct client *c);

/* control and latency as of bench_job_run(), which may be NULL. When control's begin() ended it
 * with -EPIPE nothing is said: another process failed, and said why. */
int client_run(struct client *c, const struct bench_job *job, const struct load_control *control,
	       struct bench_result *out, struct load_histogram *latency);

/* Leave. Returns the signal that ended it, or 0. */
int client_fini(struct client *c);

/* Say that a signal ended it. Returns the exit status. */
int client_interrupted(int sig);

/*
 * Be an agent of this role until a signal comes, with a control plane of its own where the settings
 * say so. "NAME WHAT until it is interrupted" stands on standard output once peers can use it.
 * Returns the exit status.
 */
int client_serve(const struct settings *settings, const struct client_role *role, const char *what);

#endif
