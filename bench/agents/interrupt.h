/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SIGINT and SIGTERM end a measurement in order: a thread stops the agent, which closes its links
 * and gives its lease back; what waits for them ends with an error. A second signal kills.
 */
#ifndef BENCH_INTERRUPT_H
#define BENCH_INTERRUPT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdatomic.h>

#include <slime/agent.h>

struct interrupt {
	struct slime_agent *agent;
	pthread_t thread;
	bool watching;
	int signals; /* descriptors */
	int quit;
	_Atomic int caught; /* the signal; 0: none */
};

/* Block the signals: before there are threads. 0, a negative errno. */
int interrupt_init(struct interrupt *in);

/* From here on a signal, also one that came since init, stops the agent. 0, a negative errno. */
int interrupt_watch(struct interrupt *in, struct slime_agent *agent);

/* The agent is not touched any more. Returns the signal that came, or 0. */
int interrupt_fini(struct interrupt *in);

#endif
