/* SPDX-License-Identifier: Apache-2.0 */
/* One party of the run: a context, its threads, and a side of each of its links. */
#ifndef STRESS_NODE_H
#define STRESS_NODE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "tests/stress/board.h"

struct later;
struct slot;

struct node {
	struct board *board;
	int index;
	uint32_t incarnation;
	struct slime_context *ctx;
	bool manual;
	bool foreign;
	char where[32];

	_Atomic bool stop;  /* of the threads below */
	pthread_t pump;	    /* takes completed ops from the queue, and polls a manual context */
	pthread_t reaper;   /* destroys ops and calls of others as soon as that is possible */
	pthread_t answerer; /* answers requests later */
	pthread_mutex_t lock;
	struct slot *reaped; /* list */
	struct later *later; /* list */
};

/* Live as node index until the board says that the run ends, and leave nothing behind. */
void node_run(struct board *board, int index);

/* Have the reaper destroy the slot's op or call, which is pending. */
void node_reap(struct node *node, struct slot *slot);

#endif
