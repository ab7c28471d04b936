/* SPDX-License-Identifier: Apache-2.0 */
#include "peeragent/lib/loop/helper.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/thread.h"

struct helper {
	struct loop *loop;
	pthread_t thread;
	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t more;
	struct sl_list jobs;
	bool ending;
};

/* The next job; NULL when there will be none. */
static struct job *next_job(struct helper *h)
{
	struct sl_list *node;

	pthread_mutex_lock(&h->lock);
	while (sl_list_empty(&h->jobs) && !h->ending)
		pthread_cond_wait(&h->more, &h->lock);
	node = sl_list_pop(&h->jobs);
	pthread_mutex_unlock(&h->lock);
	return node ? SL_CONTAINER_OF(node, struct job, node) : NULL;
}

static void *work(void *arg)
{
	struct helper *h = arg;
	struct job *job;

	while ((job = next_job(h))) {
		job->run(job->arg);
		loop_post(h->loop, &job->report);
	}
	return NULL;
}

int helper_create(struct loop *loop, struct helper **out)
{
	struct helper *h = calloc(1, sizeof(*h));
	int ret;

	if (!h)
		return -ENOMEM;
	h->loop = loop;
	sl_list_init(&h->jobs);
	pthread_mutex_init(&h->lock, NULL);
	pthread_cond_init(&h->more, NULL);
	ret = sl_thread_create(&h->thread, "slime-helper", work, h);
	if (ret) {
		free(h);
		return ret;
	}
	*out = h;
	return 0;
}

void helper_destroy(struct helper *h)
{
	if (!h)
		return;
	pthread_mutex_lock(&h->lock);
	h->ending = true;
	pthread_cond_signal(&h->more);
	pthread_mutex_unlock(&h->lock);
	pthread_join(h->thread, NULL);
	pthread_cond_destroy(&h->more);
	pthread_mutex_destroy(&h->lock);
	free(h);
}

void helper_submit(struct helper *h, struct job *job, loop_fn *run, loop_fn *done, void *arg)
{
	job->run = run;
	job->done = done;
	job->arg = arg;
	loop_task_init(&job->report, done, arg);
	pthread_mutex_lock(&h->lock);
	sl_list_append(&h->jobs, &job->node);
	pthread_cond_signal(&h->more);
	pthread_mutex_unlock(&h->lock);
}
