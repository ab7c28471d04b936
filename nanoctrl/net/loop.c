/* SPDX-License-Identifier: Apache-2.0 */
#include "nanoctrl/net/loop.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/eventfd.h>
#include <event2/event.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "nanoctrl/net/event_log.h"
#include "nanoctrl/net/busy_poll.h"

static struct sl_log_limit no_timer = SL_LOG_LIMIT_INIT(10, 1000);

struct loop {
	struct event_base *base;
	bool own;		   /* base is ours */
	_Atomic(pthread_t) thread; /* that runs base; of a caller's loop the one of its last turn */
	pthread_t own_thread;
	bool joinable; /* own_thread was made */
	uint64_t busy_poll_ns;
	_Atomic uint64_t vain_ns; /* polled without finding anything */
	int wake_fd;
	struct event *wake;
	_Atomic bool stopping;
	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t signalled;
	struct sl_list tasks;
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

static void on_wake(evutil_socket_t fd, short what, void *arg)
{
	struct loop *loop = arg;
	eventfd_t count;
	bool stopping;

	(void)what;
	atomic_store(&loop->thread, pthread_self());
	/* Empty the descriptor first: what is posted after the last task was taken wakes it again.
	 */
	eventfd_read(fd, &count);
	stopping = loop->stopping;
	loop_flush(loop);
	if (stopping)
		event_base_loopbreak(loop->base);
}

/* ---- life ---- */

static int init_lock(struct loop *loop)
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

static int create(struct event_base *base, bool own, struct loop **out)
{
	struct loop *loop = calloc(1, sizeof(*loop));
	int ret = -ENOMEM;

	if (!loop)
		return -ENOMEM;
	sl_list_init(&loop->tasks);
	loop->own = own;
	loop->base = base;
	atomic_store(&loop->thread, pthread_self());
	ret = init_lock(loop);
	if (ret)
		goto free_loop;
	ret = init_wake(loop);
	if (ret)
		goto destroy_lock;
	*out = loop;
	return 0;

destroy_lock:
	pthread_cond_destroy(&loop->signalled);
	pthread_mutex_destroy(&loop->lock);
free_loop:
	free(loop);
	return ret;
}

static struct event_base *new_base(void)
{
	struct event_config *config = event_config_new();
	struct event_base *base;

	if (!config)
		return NULL;
	event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK | EVENT_BASE_FLAG_IGNORE_ENV);
	base = event_base_new_with_config(config);
	event_config_free(config);
	return base;
}

int loop_create(struct loop **out)
{
	struct event_base *base = new_base();
	int ret = base ? create(base, true, out) : -ENOMEM;

	nc_event_log_take();
	if (ret && base)
		event_base_free(base);
	return ret;
}

/* First in the next turn of a caller's loop we learn which thread runs it. */
static void ask_for_thread(struct loop *loop)
{
	event_active(loop->wake, EV_READ, 0);
}

int loop_adopt(struct event_base *base, struct loop **out)
{
	int ret = create(base, false, out);

	if (!ret)
		ask_for_thread(*out);
	return ret;
}

void loop_join(struct loop *loop)
{
	if (!loop->joinable)
		return;
	loop_stop(loop);
	pthread_join(loop->own_thread, NULL);
	loop->joinable = false;
	atomic_store(&loop->thread, pthread_self());
}

void loop_destroy(struct loop *loop)
{
	if (!loop)
		return;
	loop_join(loop);
	loop_flush(loop);
	event_free(loop->wake);
	close(loop->wake_fd);
	if (loop->own) {
		/* A connection with a deferred callback is freed by that callback, also when it has
		 * no callback to call; a cancelled lookup ends likewise. */
		event_base_loop(loop->base, EVLOOP_NONBLOCK);
		event_base_free(loop->base);
	}
	pthread_cond_destroy(&loop->signalled);
	pthread_mutex_destroy(&loop->lock);
	free(loop);
}

/* ---- running ---- */

/* As event_base_dispatch() does, but busy_poll.h decides when it sleeps. */
static void run_busy(struct loop *loop)
{
	struct busy_poll poll;
	bool on = false;

	busy_poll_init(&poll, loop->busy_poll_ns, sl_clock_ns());
	do {
		bool found;

		if (event_base_loop(loop->base, on ? EVLOOP_NONBLOCK : EVLOOP_ONCE) < 0)
			break;
		found = event_base_get_max_events(loop->base, EVENT_BASE_COUNT_ACTIVE, 1) > 0;
		on = busy_poll_again(&poll, sl_clock_ns(), found);
		if (found)
			continue;
		atomic_store_explicit(&loop->vain_ns, poll.vain_ns, memory_order_relaxed);
		if (on)
			sched_yield();
	} while (!event_base_got_break(loop->base));
}

void loop_serve(struct loop *loop)
{
	atomic_store(&loop->thread, pthread_self());
	/* Without NO_EXIT_ON_EMPTY the loop lives as long as its wake event, which is until it is
	 * destroyed. */
	if (loop->busy_poll_ns)
		run_busy(loop);
	else
		event_base_dispatch(loop->base);
}

void loop_busy_poll(struct loop *loop, uint64_t ns)
{
	loop->busy_poll_ns = ns;
}

uint64_t loop_vain_ns(const struct loop *loop)
{
	return atomic_load_explicit(&loop->vain_ns, memory_order_relaxed);
}

static void *thread_main(void *arg)
{
	loop_serve(arg);
	return NULL;
}

int loop_run(struct loop *loop, const char *name)
{
	int ret = sl_thread_create(&loop->own_thread, name, thread_main, loop);

	if (ret)
		return ret;
	loop->joinable = true;
	atomic_store(&loop->thread, loop->own_thread);
	return 0;
}

void loop_stop(struct loop *loop)
{
	loop->stopping = true;
	/* Only a full counter can refuse, and then the loop is awake already. */
	eventfd_write(loop->wake_fd, 1);
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
	/* It refuses within a turn, on whichever thread that runs; that thread may have noted
	 * itself meanwhile. */
	if (event_base_loop(loop->base, EVLOOP_NONBLOCK) >= 0)
		return 0;
	atomic_compare_exchange_strong(&loop->thread, &us, before);
	return -EDEADLK;
}

/* ---- tasks and timers ---- */

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

void loop_cancel(struct loop *loop, struct loop_task *task)
{
	pthread_mutex_lock(&loop->lock);
	if (task->queued)
		sl_list_remove(&task->node);
	task->queued = false;
	pthread_mutex_unlock(&loop->lock);
}

void loop_set_timer(struct event *timer, uint64_t ms)
{
	loop_set_timer_us(timer, ms * 1000);
}

void loop_set_timer_us(struct event *timer, uint64_t us)
{
	struct timeval tv = { .tv_sec = (time_t)(us / 1000000),
			      .tv_usec = (suseconds_t)(us % 1000000) };
	uint32_t held_back;

	if (!event_add(timer, &tv))
		return;
	if (sl_log_allow(&no_timer, &held_back))
		sl_error("loop", "no memory for a timer: it runs out at once (%u lines held back)",
			 held_back);
	event_active(timer, EV_TIMEOUT, 0);
}

/* ---- waiting for the loop ---- */

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
