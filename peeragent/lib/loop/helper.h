/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one thread beside the loop, for what blocks: allocating and withdrawing memory, destroying
 * endpoints. Jobs run one after the other, in the order of submission, and report back on the loop.
 */
#ifndef AGENT_HELPER_H
#define AGENT_HELPER_H

#include "nanoctrl/net/loop.h"

struct helper;

struct job {
	struct sl_list node;
	loop_fn *run;  /* on the helper's thread */
	loop_fn *done; /* then on the loop; the job may be freed here */
	void *arg;
	struct loop_task report;
};

/* -ENOMEM, -EAGAIN. */
int helper_create(struct loop *loop, struct helper **out);

/* Runs what was submitted, then joins the thread; what was done is still reported. */
void helper_destroy(struct helper *helper);

/* The job belongs to the helper until done was called. */
void helper_submit(struct helper *helper, struct job *job, loop_fn *run, loop_fn *done, void *arg);

#endif
