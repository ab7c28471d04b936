/* SPDX-License-Identifier: Apache-2.0 */
#include "base/list.h"
#include "src/transport/rdma/job.h"
#include "src/transport/rdma/transport.h"

/* On a worker. */
static void run_job(struct sl_job *base)
{
	struct rdma_job *job = SL_CONTAINER_OF(base, struct rdma_job, job);
	struct rdma_transport *t = job->t;
	const struct sl_transport_env *env = t->base.env;

	job->work(job);
	pthread_mutex_lock(&t->lock);
	sl_list_append(&t->done, &job->link);
	atomic_fetch_add(&t->n_done, 1);
	pthread_cond_signal(&t->idle);
	pthread_mutex_unlock(&t->lock);
	env->kick(env->arg);
}

static void start(struct sl_workers *workers, struct rdma_transport *t, struct rdma_job *job,
		  void (*work)(struct rdma_job *), void (*done)(struct rdma_job *))
{
	job->t = t;
	job->work = work;
	job->done = done;
	job->job.run = run_job;
	job->job.n_running = &t->n_running;
	job->job.state = NULL;
	sl_list_init(&job->link);
	sl_list_init(&job->job.link);
	pthread_mutex_lock(&t->lock);
	t->n_jobs++;
	pthread_mutex_unlock(&t->lock);
	sl_workers_put(workers, &job->job);
}

void rdma_job_start(struct rdma_transport *t, struct rdma_job *job, void (*work)(struct rdma_job *),
		    void (*done)(struct rdma_job *))
{
	start(&t->workers, t, job, work, done);
}

void rdma_registration_start(struct rdma_transport *t, struct rdma_job *job,
			     void (*work)(struct rdma_job *), void (*done)(struct rdma_job *))
{
	start(&t->registrars, t, job, work, done);
}

/* The next job that is done. */
static struct rdma_job *take_done(struct rdma_transport *t)
{
	struct sl_list *e;

	pthread_mutex_lock(&t->lock);
	e = sl_list_pop(&t->done);
	if (e) {
		t->n_jobs--;
		atomic_fetch_sub(&t->n_done, 1);
	}
	pthread_mutex_unlock(&t->lock);
	return e ? SL_CONTAINER_OF(e, struct rdma_job, link) : NULL;
}

unsigned rdma_jobs_run_done(struct rdma_transport *t)
{
	struct rdma_job *job;
	unsigned n = 0;

	while ((job = take_done(t))) {
		job->done(job);
		n++;
	}
	return n;
}

void rdma_jobs_finish(struct rdma_transport *t)
{
	pthread_mutex_lock(&t->lock);
	while (t->n_jobs) {
		while (sl_list_empty(&t->done))
			pthread_cond_wait(&t->idle, &t->lock);
		pthread_mutex_unlock(&t->lock);
		(void)rdma_jobs_run_done(t);
		pthread_mutex_lock(&t->lock);
	}
	pthread_mutex_unlock(&t->lock);
}
