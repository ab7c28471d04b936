/* SPDX-License-Identifier: Apache-2.0 */
/* A job that a thread of the transport does for callers that must not wait: verbs control calls. */
#ifndef SL_RDMA_JOB_H
#define SL_RDMA_JOB_H

#include "base/list.h"
#include "src/core/worker.h"

struct rdma_transport;

struct rdma_job {
	struct sl_job job;
	struct rdma_transport *t;
	void (*work)(struct rdma_job *job); /* on a worker */
	void (*done)(struct rdma_job *job); /* then; [token] */
	struct sl_list link;
};

/* Any thread. */
void rdma_job_start(struct rdma_transport *t, struct rdma_job *job, void (*work)(struct rdma_job *),
		    void (*done)(struct rdma_job *));
/* The same, on the threads that register memory: it may take seconds. */
void rdma_registration_start(struct rdma_transport *t, struct rdma_job *job,
			     void (*work)(struct rdma_job *), void (*done)(struct rdma_job *));
/* The jobs that are done; how many. [token] */
unsigned rdma_jobs_run_done(struct rdma_transport *t);
/* Until there is none. */
void rdma_jobs_finish(struct rdma_transport *t);

#endif
