/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The threads that run a context's pool handlers. A job is embedded in what it works on, so that
 * queueing never fails; the number of jobs is bounded by their makers: a request has a slot.
 */
#ifndef SL_WORKER_H
#define SL_WORKER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

struct sl_job {
	struct sl_list link;
	void (*run)(struct sl_job *job); /* the job is not touched any more once this was called */
	_Atomic uint32_t *n_running;	 /* counts the job while it runs; outlives it */
	_Atomic uint32_t
		*state; /* is `taken` from when it cannot be taken back; NULL: nothing is */
	uint32_t taken;
};

struct sl_workers {
	pthread_mutex_t lock;
	pthread_cond_t more;
	pthread_cond_t idle; /* one more is */
	struct sl_list jobs;
	unsigned n_idle;
	bool stop;
	unsigned n_threads;
	pthread_t *threads;
};

void sl_workers_init(struct sl_workers *w);

/* Have n threads, at least 1, that wait for jobs; none is queued yet. A second call changes
 * nothing. -ENOMEM, or pthread_create's error. */
int sl_workers_start(struct sl_workers *w, unsigned n);

/* Stop and join. No job is queued. */
void sl_workers_fini(struct sl_workers *w);

void sl_workers_put(struct sl_workers *w, struct sl_job *job);

/* Take a queued job back: false when it runs, or ran, and its state says so. */
bool sl_workers_take_back(struct sl_workers *w, struct sl_job *job);

/* Whether this thread is inside of a job that n_running counts. */
bool sl_workers_inside(const _Atomic uint32_t *n_running);

#endif
