/* SPDX-License-Identifier: Apache-2.0 */
#include "peeragent/lib/loop/loop.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <event2/event.h>

#include "base/clock.h"
#include "base/thread.h"

struct loop {
	struct event_base *base;
	bool own;		   /* base and thread are ours */
	_Atomic(pthread_t) thread; /* that runs base; of a caller's loop the one of its last turn */
	pthread_t own_thread;
	int wake_fd;
	struct event *wake;
	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t signalled;
	struct sl_list tasks;
	bool ending;
};

void loop_task_init(struct loop_task *task, loop_fn *fn, void *arg)
{
	*task = (struct loop_task){ .fn = fn, .arg = arg };
	sl_list_init(&task->node);
}

static struct loop_task *next_task(struct loop *loop)
{
	struct loop_task *task = NULL;
	struct sl_list *node;

	pthread_mutex_lock(&loop->lock);
	node = sl_list_pop(&loop->tasks);
	if (node) {
		task = SL_CONTAINER_OF(node, struct loop_task, node);
		task->queued = false;
	}
	pthread_mutex_unlock(&loop->lock);
	return task;
}

void loop_flush(struct loop *loop)
{
	struct loop_task *task;

	while ((task = next_task(loop)))
		task->fn(task->arg);
}

static bool is_ending(struct loop *loop)
{
	bool ending;

	pthread_mutex_lock(&loop->lock);
	ending = loop->ending;
	pthread_mutex_unlock(&loop->lock);
	return ending;
}

static void on_wake(evutil_socket_t fd, short what, void *arg)
{
	struct loop *loop = arg;
	eventfd_t count;

	(void)what;
	atomic_store(&loop->thread, pthread_self());
	eventfd_read(fd, &count);
	loop_flush(loop);
	if (is_ending(loop))
		event_base_loopbreak(loop->base);
}

static void *serve(void *arg)
{
	struct loop *loop = arg;

	event_base_loop(loop->base, EVLOOP_NO_EXIT_ON_EMPTY);
	return NULL;
}

static int init_signal(struct loop *loop)
{
	pthread_condattr_t attr;

	if (pthread_condattr_init(&attr))
		return -ENOMEM;
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&loop->signalled, &attr);
	pthread_condattr_destroy(&attr);
	pthread_mutex_init(&loop->lock, NULL);
	return 0;
}

static int init_wake(struct loop *loop)
{
	loop->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (loop->wake_fd < 0)
		return -errno;
	loop->wake = event_new(loop->base, loop->wake_fd, EV_READ | EV_PERSIST, on_wake, loop);
	if (!loop->wake || event_priority_set(loop->wake, 0) || event_add(loop->wake, NULL)) {
		if (loop->wake)
			event_free(loop->wake);
		close(loop->wake_fd);
		return -ENOMEM;
	}
	return 0;
}

/* Before anything else in the next turn of a caller's loop we learn whose it is. */
static void ask_for_thread(struct loop *loop)
{
	event_active(loop->wake, EV_READ, 0);
}

static int start(struct loop *loop)
{
	int ret;

	atomic_store(&loop->thread, pthread_self());
	if (!loop->own) {
		ask_for_thread(loop);
		return 0;
	}
	ret = sl_thread_create(&loop->own_thread, "slime-agent", serve, loop);
	if (!ret)
		atomic_store(&loop->thread, loop->own_thread);
	return ret;
}

int loop_create(struct event_base *base, struct loop **out)
{
	struct loop *loop = calloc(1, sizeof(*loop));
	int ret = -ENOMEM;

	if (!loop)
		return -ENOMEM;
	sl_list_init(&loop->tasks);
	loop->own = !base;
	loop->base = base ? base : event_base_new();
	if (!loop->base)
		goto free_loop;
	ret = init_signal(loop);
	if (ret)
		goto free_base;
	ret = init_wake(loop);
	if (ret)
		goto free_base;
	ret = start(loop);
	if (ret)
		goto free_wake;
	*out = loop;
	return 0;

free_wake:
	event_free(loop->wake);
	close(loop->wake_fd);
free_base:
	if (loop->own)
		event_base_free(loop->base);
free_loop:
	free(loop);
	return ret;
}

void loop_destroy(struct loop *loop)
{
	if (!loop)
		return;
	if (loop->own) {
		pthread_mutex_lock(&loop->lock);
		loop->ending = true;
		pthread_mutex_unlock(&loop->lock);
		eventfd_write(loop->wake_fd, 1);
		pthread_join(loop->own_thread, NULL);
	}
	loop_flush(loop);
	event_free(loop->wake);
	close(loop->wake_fd);
	if (loop->own) {
		/* A connection with a deferred callback is freed by that callback, even when it has
		 * nobody to call. */
		event_base_loop(loop->base, EVLOOP_NONBLOCK);
		event_base_free(loop->base);
	}
	pthread_cond_destroy(&loop->signalled);
	pthread_mutex_destroy(&loop->lock);
	free(loop);
}

struct event_base *loop_base(const struct loop *loop)
{
	return loop->base;
}

bool loop_is_current(const struct loop *loop)
{
	return pthread_equal(atomic_load(&loop->thread), pthread_self());
}

int loop_take(struct loop *loop)
{
	pthread_t us = pthread_self(), before = atomic_load(&loop->thread);

	if (loop->own)
		return loop_is_current(loop) ? -EDEADLK : 0;
	atomic_store(&loop->thread, us);
	/* Which it refuses within a turn, whosever that is; he may have said so meanwhile. */
	if (event_base_loop(loop->base, EVLOOP_NONBLOCK) >= 0)
		return 0;
	atomic_compare_exchange_strong(&loop->thread, &us, before);
	return -EDEADLK;
}

void loop_post(struct loop *loop, struct loop_task *task)
{
	bool first;

	pthread_mutex_lock(&loop->lock);
	first = sl_list_empty(&loop->tasks);
	if (!task->queued) {
		task->queued = true;
		sl_list_append(&loop->tasks, &task->node);
	}
	pthread_mutex_unlock(&loop->lock);
	if (first)
		eventfd_write(loop->wake_fd, 1);
}

struct call {
	struct loop *loop;
	loop_fn *fn;
	void *arg;
	bool done;
};

static void run_call(void *arg)
{
	struct call *call = arg;

	call->fn(call->arg);
	loop_signal(call->loop, &call->done);
}

void loop_call(struct loop *loop, loop_fn *fn, void *arg)
{
	struct call call = { loop, fn, arg, false };
	struct loop_task task;

	if (loop_is_current(loop)) {
		fn(arg);
		return;
	}
	loop_task_init(&task, run_call, &call);
	loop_post(loop, &task);
	loop_wait(loop, &call.done, -1);
}

void loop_signal(struct loop *loop, bool *done)
{
	pthread_mutex_lock(&loop->lock);
	*done = true;
	pthread_cond_broadcast(&loop->signalled);
	pthread_mutex_unlock(&loop->lock);
}

static void timespec_of(uint64_t ns, struct timespec *out)
{
	out->tv_sec = (time_t)(ns / SL_NS_PER_S);
	out->tv_nsec = (long)(ns % SL_NS_PER_S);
}

static int wait_beside(struct loop *loop, const bool *done, uint64_t deadline)
{
	int ret = 0;

	pthread_mutex_lock(&loop->lock);
	while (!*done && !ret) {
		struct timespec until;

		if (deadline == SL_NEVER) {
			pthread_cond_wait(&loop->signalled, &loop->lock);
			continue;
		}
		timespec_of(deadline, &until);
		ret = -pthread_cond_timedwait(&loop->signalled, &loop->lock, &until);
	}
	if (*done)
		ret = 0;
	pthread_mutex_unlock(&loop->lock);
	return ret;
}

static void on_deadline(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	*(bool *)arg = true;
}

static int run_until(struct loop *loop, const bool *done, const bool *late)
{
	while (!*done && !*late) {
		if (event_base_loop(loop->base, EVLOOP_ONCE) < 0)
			return -EDEADLK;
	}
	return *done ? 0 : -ETIMEDOUT;
}

static int wait_by_running(struct loop *loop, const bool *done, int64_t timeout_ms)
{
	struct timeval tv = { timeout_ms / 1000, timeout_ms % 1000 * 1000 };
	bool late = false;
	struct event *timer;
	int ret;

	if (timeout_ms < 0)
		return run_until(loop, done, &late);
	timer = evtimer_new(loop->base, on_deadline, &late);
	if (!timer || evtimer_add(timer, &tv)) {
		ret = -ENOMEM;
		goto free_timer;
	}
	ret = run_until(loop, done, &late);
free_timer:
	if (timer)
		event_free(timer);
	return ret;
}

int loop_wait(struct loop *loop, const bool *done, int64_t timeout_ms)
{
	int ret;

	if (!loop_is_current(loop))
		return wait_beside(loop, done, sl_deadline_ns(timeout_ms));
	if (loop->own)
		return -EDEADLK;
	ret = wait_by_running(loop, done, timeout_ms);
	ask_for_thread(loop); /* it may be another one's from here on */
	return ret;
}
