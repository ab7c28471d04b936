/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>

#include "base/cpu.h"
#include "base/thread.h"
#include "src/core/worker.h"

/* The counter of the job that this thread runs. */
static SL_PER_THREAD const _Atomic uint32_t *running;

/* The next job, counted as running; NULL when it is time to stop. */
static struct sl_job *take(struct sl_workers *w)
{
	struct sl_list *e;
	struct sl_job *job = NULL;

	pthread_mutex_lock(&w->lock);
	while (sl_list_empty(&w->jobs) && !w->stop) {
		w->n_idle++;
		pthread_cond_signal(&w->idle);
		pthread_cond_wait(&w->more, &w->lock);
		w->n_idle--;
	}
	e = sl_list_pop(&w->jobs);
	if (e) {
		job = SL_CONTAINER_OF(e, struct sl_job, link);
		atomic_fetch_add(job->n_running, 1);
		if (job->state)
			atomic_store_explicit(job->state, job->taken, memory_order_release);
	}
	pthread_mutex_unlock(&w->lock);
	return job;
}

static void *work(void *arg)
{
	struct sl_workers *w = arg;
	struct sl_job *job;

	while ((job = take(w))) {
		_Atomic uint32_t *n_running = job->n_running;

		running = n_running;
		job->run(job);
		running = NULL;
		atomic_fetch_sub(n_running, 1);
	}
	return NULL;
}

void sl_workers_init(struct sl_workers *w)
{
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->more, NULL);
	pthread_cond_init(&w->idle, NULL);
	sl_list_init(&w->jobs);
	w->n_idle = 0;
	w->stop = false;
	w->n_threads = 0;
	w->threads = NULL;
}

static void stop(struct sl_workers *w)
{
	pthread_mutex_lock(&w->lock);
	w->stop = true;
	pthread_cond_broadcast(&w->more);
	pthread_mutex_unlock(&w->lock);
	for (unsigned i = 0; i < w->n_threads; i++)
		pthread_join(w->threads[i], NULL);
	free(w->threads);
	w->threads = NULL;
	w->n_threads = 0;
	w->stop = false;
}

/* Until they wait for jobs: what a thread needs to begin is not had while others work. */
static void await_all(struct sl_workers *w)
{
	pthread_mutex_lock(&w->lock);
	while (w->n_idle < w->n_threads)
		pthread_cond_wait(&w->idle, &w->lock);
	pthread_mutex_unlock(&w->lock);
}

int sl_workers_start(struct sl_workers *w, unsigned n)
{
	int ret = 0;

	if (w->n_threads)
		return 0;
	w->threads = calloc(n, sizeof(*w->threads));
	if (!w->threads)
		return -ENOMEM;
	while (w->n_threads < n && !ret) {
		ret = sl_thread_create(&w->threads[w->n_threads], "slime-worker", work, w);
		w->n_threads += !ret;
	}
	if (ret)
		stop(w);
	else
		await_all(w);
	return ret;
}

void sl_workers_fini(struct sl_workers *w)
{
	stop(w);
	pthread_cond_destroy(&w->idle);
	pthread_cond_destroy(&w->more);
	pthread_mutex_destroy(&w->lock);
}

void sl_workers_put(struct sl_workers *w, struct sl_job *job)
{
	pthread_mutex_lock(&w->lock);
	sl_list_append(&w->jobs, &job->link);
	if (w->n_idle)
		pthread_cond_signal(&w->more);
	pthread_mutex_unlock(&w->lock);
}

bool sl_workers_take_back(struct sl_workers *w, struct sl_job *job)
{
	bool queued;

	pthread_mutex_lock(&w->lock);
	/* A job that was taken is a list of one. */
	queued = !sl_list_empty(&job->link);
	sl_list_remove(&job->link);
	pthread_mutex_unlock(&w->lock);
	return queued;
}

bool sl_workers_inside(const _Atomic uint32_t *n_running)
{
	return running == n_running;
}
