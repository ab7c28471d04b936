/* SPDX-License-Identifier: Apache-2.0 */
#include "nanoctrl/net/loop.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/eventfd.h>
#include <event2/event.h>

#include "base/list.h"
#include "base/log.h"
#include "nanoctrl/net/event_log.h"
#include "nanoctrl/net/pace.h"

struct posted {
	struct sl_list link;
	loop_fn *fn;
	void *arg;
};

struct loop {
	struct event_base *base;
	struct event *wake;
	unsigned index;
	pthread_t thread;
	bool joinable;
	uint64_t busy_poll_ns;
	_Atomic uint64_t vain_ns; /* looked on without finding anything */
	pthread_t owner;	  /* whose thread it is; valid while running */
	_Atomic bool running;

	int wake_fd;
	_Atomic bool stopping;
	pthread_mutex_t lock;
	struct sl_list posted; /* under lock */
};

static void run_posted(struct loop *loop)
{
	struct sl_list now, *e;

	sl_list_init(&now);
	pthread_mutex_lock(&loop->lock);
	sl_list_splice(&now, &loop->posted);
	pthread_mutex_unlock(&loop->lock);

	while ((e = sl_list_pop(&now))) {
		struct posted *p = SL_CONTAINER_OF(e, struct posted, link);

		p->fn(p->arg);
		free(p);
	}
}

static void on_wake(evutil_socket_t fd, short what, void *arg)
{
	struct loop *loop = arg;
	bool stopping;
	uint64_t n;

	(void)what;
	/* Empty the descriptor first: what is posted after the list was taken wakes the loop again.
	 */
	if (read(fd, &n, sizeof(n)) < 0 && errno != EAGAIN)
		sl_error("loop", "eventfd: %s", strerror(errno));
	stopping = loop->stopping;
	run_posted(loop);
	if (stopping)
		event_base_loopbreak(loop->base);
}

static int open_base(struct loop *loop)
{
	struct event_config *config = event_config_new();

	if (!config)
		return -ENOMEM;
	event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK | EVENT_BASE_FLAG_IGNORE_ENV);
	loop->base = event_base_new_with_config(config);
	event_config_free(config);
	if (!loop->base)
		return -ENOMEM;
	loop->wake = event_new(loop->base, loop->wake_fd, EV_READ | EV_PERSIST, on_wake, loop);
	return loop->wake && !event_add(loop->wake, NULL) ? 0 : -ENOMEM;
}

int loop_create(unsigned index, struct loop **out)
{
	struct loop *loop = calloc(1, sizeof(*loop));
	int ret;

	if (!loop)
		return -ENOMEM;
	nc_event_log_take();
	loop->index = index;
	pthread_mutex_init(&loop->lock, NULL);
	sl_list_init(&loop->posted);
	loop->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	ret = loop->wake_fd < 0 ? -errno : open_base(loop);
	if (ret) {
		loop_destroy(loop);
		return ret;
	}
	*out = loop;
	return 0;
}

/* As event_base_dispatch() does, but that pace says when it sleeps. */
static void run_busy(struct loop *loop)
{
	struct pace pace;
	bool on = false;

	pace_init(&pace, loop->busy_poll_ns, sl_clock_ns());
	do {
		bool found;

		if (event_base_loop(loop->base, on ? EVLOOP_NONBLOCK : EVLOOP_ONCE) < 0)
			break;
		found = event_base_get_max_events(loop->base, EVENT_BASE_COUNT_ACTIVE, 1) > 0;
		on = pace_looked(&pace, sl_clock_ns(), found);
		if (found)
			continue;
		atomic_store_explicit(&loop->vain_ns, pace.vain_ns, memory_order_relaxed);
		if (on)
			sched_yield();
	} while (!event_base_got_break(loop->base));
}

void loop_serve(struct loop *loop)
{
	loop->owner = pthread_self();
	loop->running = true;
	/* Without NO_EXIT_ON_EMPTY the loop lives as long as its wake event, which is until it is
	 * destroyed. */
	if (loop->busy_poll_ns)
		run_busy(loop);
	else
		event_base_dispatch(loop->base);
	loop->running = false;
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

int loop_run(struct loop *loop)
{
	int err = pthread_create(&loop->thread, NULL, thread_main, loop);

	if (err)
		return -err;
	loop->joinable = true;
	return 0;
}

static void wake(struct loop *loop)
{
	uint64_t one = 1;

	/* Only a full counter can refuse, and then the loop is awake already. */
	if (write(loop->wake_fd, &one, sizeof(one)) < 0 && errno != EAGAIN)
		sl_error("loop", "eventfd: %s", strerror(errno));
}

int loop_post(struct loop *loop, loop_fn *fn, void *arg)
{
	struct posted *p = malloc(sizeof(*p));
	bool first;

	if (!p)
		return -ENOMEM;
	p->fn = fn;
	p->arg = arg;
	pthread_mutex_lock(&loop->lock);
	first = sl_list_empty(&loop->posted);
	sl_list_append(&loop->posted, &p->link);
	pthread_mutex_unlock(&loop->lock);
	if (first)
		wake(loop);
	return 0;
}

void loop_stop(struct loop *loop)
{
	loop->stopping = true;
	wake(loop);
}

void loop_join(struct loop *loop)
{
	if (!loop->joinable)
		return;
	loop_stop(loop);
	pthread_join(loop->thread, NULL);
	loop->joinable = false;
}

void loop_destroy(struct loop *loop)
{
	if (!loop)
		return;
	loop_join(loop);
	run_posted(loop);
	if (loop->wake)
		event_free(loop->wake);
	if (loop->base) {
		/* What is left of connections and lookups ends in a turn. */
		event_base_loop(loop->base, EVLOOP_NONBLOCK);
		event_base_free(loop->base);
	}
	if (loop->wake_fd >= 0)
		close(loop->wake_fd);
	pthread_mutex_destroy(&loop->lock);
	free(loop);
}

void loop_set_timer(struct event *timer, unsigned ms)
{
	struct timeval tv = { .tv_sec = ms / 1000, .tv_usec = (ms % 1000) * 1000 };

	event_add(timer, &tv);
}

struct event_base *loop_base(const struct loop *loop)
{
	return loop->base;
}

unsigned loop_index(const struct loop *loop)
{
	return loop->index;
}

bool loop_is_current(const struct loop *loop)
{
	return loop->running && pthread_equal(loop->owner, pthread_self());
}
