/* SPDX-License-Identifier: Apache-2.0 */
/* The state of one loop of the server: its connections, its store, its counters. Used on the loop's
 * thread. */
#ifndef NANOCTRL_WORKER_H
#define NANOCTRL_WORKER_H

#include <stdatomic.h>
#include <time.h>
#include "base/list.h"
#include "http/budget.h"
#include "http/metrics.h"
#include "http/server.h"
#include "nanoctrl/net/loop.h"

struct conn_ops;
struct event;

enum worker_phase {
	WORKER_SERVING,
	WORKER_DRAINING, /* still answering; every reply closes its connection */
	WORKER_CLOSING,	 /* nothing new is read */
};

/* Tasks that the server has every worker run on its loop. */
enum worker_task {
	WORKER_ANSWER, /* that its loop runs */
	WORKER_DRAIN,
	WORKER_CLOSE_IDLE,
	WORKER_CLOSE_ALL,
	WORKER_TASKS
};

struct worker {
	struct server *server;
	unsigned index;
	struct loop_task tasks[WORKER_TASKS];
	const struct server_config *config;
	const struct conn_ops *ops; /* of its connections */
	struct loop *loop;
	struct store *store;
	void *task; /* of server_hooks; NULL: none */
	struct metrics *metrics;
	struct sl_list conns;
	struct sl_list unsent; /* connections with something in their output */
	struct event *send;    /* the end of a turn in which there are any */
	enum worker_phase phase;
	struct budget budget;
	struct event *trim; /* memory that requests gave back goes to the system */
	uint64_t id_seed;   /* random: where request ids begin */
	uint64_t n_ids;	    /* made */
	time_t date_at;	    /* the second that date says */
	char date[32];
	_Atomic bool asked;	  /* server_loops_run() posted something that has not run */
	_Atomic unsigned n_conns; /* handed over and not yet closed; the listener reads it */
};

/* The time for the Date field. */
const char *worker_date(struct worker *w);

/* Random below n: for spreading, not for secrets. */
unsigned worker_random(unsigned n);

#endif
