/* SPDX-License-Identifier: Apache-2.0 */
/* Users of an agent that want to know when a peer ends: each has a bounded queue of its own. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "peeragent/lib/agent/agent.h"

#define ENDS_MAX 256

struct slime_agent_watch {
	struct sl_list node; /* of the agent */
	struct slime_agent *agent;
	slime_agent_end_fn *fn; /* NULL: fd tells, and the caller takes */
	void *arg;
	int fd;
	struct loop_task deliver; /* to fn: outside of what found the end */
	bool destroyed;		  /* freed by deliver */
	pthread_mutex_t lock;
	struct slime_peer_end ends[ENDS_MAX]; /* a ring */
	size_t first, n;
	uint32_t n_lost; /* had no place since the last one that was taken */
};

const char *slime_peer_end_name(enum slime_peer_end_reason reason)
{
	static const char *const names[] = { "left", "expired", "reset", "superseded" };

	return (unsigned)reason < sizeof(names) / sizeof(names[0]) ? names[reason] : "unknown";
}

static bool take(struct slime_agent_watch *w, struct slime_peer_end *out)
{
	eventfd_t count;
	bool any;

	pthread_mutex_lock(&w->lock);
	any = w->n > 0;
	if (any) {
		*out = w->ends[w->first];
		out->n_lost = w->n_lost;
		w->n_lost = 0;
		w->first = (w->first + 1) % ENDS_MAX;
		w->n--;
	}
	/* Readable while there is one. */
	if (!w->n && w->fd >= 0)
		eventfd_read(w->fd, &count);
	pthread_mutex_unlock(&w->lock);
	return any;
}

static void put_end(struct slime_agent_watch *w, const struct slime_peer_end *end)
{
	pthread_mutex_lock(&w->lock);
	if (w->n == ENDS_MAX) {
		w->first = (w->first + 1) % ENDS_MAX;
		w->n--;
		w->n_lost++;
	}
	w->ends[(w->first + w->n++) % ENDS_MAX] = *end;
	if (w->fd >= 0)
		eventfd_write(w->fd, 1);
	pthread_mutex_unlock(&w->lock);
	if (w->fn)
		loop_post(w->agent->loop, &w->deliver);
}

void agent_peer_ended(struct slime_agent *agent, const struct slime_peer_end *end)
{
	struct sl_list *node;

	sl_list_for_each (node, &agent->watches)
		put_end(SL_CONTAINER_OF(node, struct slime_agent_watch, node), end);
}

static void free_watch(struct slime_agent_watch *w)
{
	if (w->fd >= 0)
		close(w->fd);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

static void deliver(void *arg)
{
	struct slime_agent_watch *w = arg;
	struct slime_peer_end end;

	while (!w->destroyed && w->fn && take(w, &end))
		w->fn(w->arg, w->agent, &end);
	if (!w->destroyed)
		return;
	/* Its own function may have destroyed it, just now. */
	loop_cancel(w->agent->loop, &w->deliver);
	free_watch(w);
}

static void begin_watch(void *arg)
{
	struct slime_agent_watch *w = arg;

	sl_list_append(&w->agent->watches, &w->node);
}

int slime_agent_watch_create(struct slime_agent *agent, slime_agent_end_fn *fn, void *arg,
			     struct slime_agent_watch **out)
{
	struct slime_agent_watch *w = calloc(1, sizeof(*w));
	int ret;

	if (!w)
		return -ENOMEM;
	w->agent = agent;
	w->fn = fn;
	w->arg = arg;
	w->fd = fn ? -1 : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (!fn && w->fd < 0) {
		ret = -errno;
		free(w);
		return ret;
	}
	pthread_mutex_init(&w->lock, NULL);
	sl_list_init(&w->node);
	loop_task_init(&w->deliver, deliver, w);
	loop_call(agent->loop, begin_watch, w);
	*out = w;
	return 0;
}

int slime_agent_watch_fd(const struct slime_agent_watch *w)
{
	return w->fd >= 0 ? w->fd : -ENOTSUP;
}

int slime_agent_watch_next(struct slime_agent_watch *w, struct slime_peer_end *out)
{
	if (w->fn)
		return -ENOTSUP;
	return take(w, out) ? 0 : -EAGAIN;
}

/* It may be inside its own callback. */
static void end_watch(void *arg)
{
	struct slime_agent_watch *w = arg;

	sl_list_remove(&w->node);
	w->destroyed = true;
	loop_post(w->agent->loop, &w->deliver);
}

void slime_agent_watch_destroy(struct slime_agent_watch *w)
{
	if (w)
		loop_call(w->agent->loop, end_watch, w);
}
