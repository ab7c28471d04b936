/* SPDX-License-Identifier: Apache-2.0 */
/* The ephemeral agent of slime-bench, which measures by itself or has another agent do it. */
#ifndef BENCH_CLIENT_H
#define BENCH_CLIENT_H

#include <pthread.h>

#include "bench/agents/interrupt.h"
#include "bench/service/job.h"
#include "bench/settings.h"
#include <slime/pages.h>
#include "cli/output/progress.h"

#define CLIENT_TROUBLE_MAX 320

struct client {
	const struct settings *settings;
	struct slime_agent *agent;
	pthread_mutex_t lock;		  /* trouble is written by the agent's loop */
	char trouble[CLIENT_TROUBLE_MAX]; /* why we are not registered, "" when nobody knows */
	struct slime_endpoint *from;	  /* NULL: this process initiates */
	struct slime_pages_owner *owner;  /* of `page serve`; NULL: this agent has no pages */
	bool owns_pages;		  /* it is to have some */
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
int client_run(struct client *c, const struct bench_job *job, struct bench_result *out);

/* Leave. Returns the signal that ended it, or 0. */
int client_fini(struct client *c);

#endif
