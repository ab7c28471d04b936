/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Targets: the current destination of transfers by name. A target's loop side follows the link and
 * the directory; callers read its result behind a gate. The loop changes that only while the gate
 * is shut and no thread is inside, so that a caller needs no lock.
 */
#include <slime/target.h>

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <event2/event.h>

#include "base/log.h"
#include "peeragent/lib/agent/agent.h"
#include "peeragent/lib/plan/topology.h"

#define SHUT		 (UINT32_C(1) << 31) /* of the gate; the other bits count the threads inside */
#define RETRY_MIN_MS	 200
#define RETRY_MAX_MS	 5000
#define DESCRIPTIONS_MAX 1024 /* of one connection, each with memory until it ends */

/* The memory to which ops of a connection point until they end. */
struct description {
	struct connection_memory memory;
	struct slime_remote_mr remote;
};

/* A question to nanoctrl, which may be answered after its target is gone. */
struct question {
	struct sl_list node;	     /* of the agent */
	struct slime_target *target; /* NULL: no thread waits for the answer */
};

/* Where transfers go. */
struct aim {
	struct connection *connection; /* held; NULL: not connected */
	const struct slime_remote_mr *remote;
	int why; /* there is no remote */
};

struct slime_target {
	/* ---- of callers ---- */
	_Atomic uint32_t gate;
	_Atomic int shut_because;  /* while no thread may enter */
	_Atomic bool stale;	   /* a caller found the region withdrawn */
	struct slime_endpoint *ep; /* as aim, behind the gate */
	const struct slime_remote_mr *remote;
	int why;
	struct loop_task look; /* a thread left a shut gate, or found the region withdrawn */

	/* ---- of the loop ---- */
	struct slime_agent *agent;
	struct sl_list node; /* of the agent */
	struct sl_list waiters;
	struct link_watcher watcher;
	struct aim aim;		      /* what callers see, or saw until the gate was shut */
	struct aim next;	      /* the result for callers once no thread is inside */
	bool moving;		      /* from aim to next */
	struct slime_remote_mr known; /* the last answer of the directory */
	int known_why;		      /* there is none */
	bool known_stale;	      /* it was withdrawn since, as the link says */
	uint32_t n_descriptions;
	struct question *question; /* under way; NULL: none */
	bool ask_again;		   /* when it is answered */
	struct event *retry;
	uint32_t retry_ms;
	bool put; /* freed by the next look */
	char peer[SLIME_AGENT_NAME_MAX + 1];
	char profile[SLIME_AGENT_NAME_MAX + 1];
	char region[SLIME_AGENT_NAME_MAX + 1]; /* "": none */
};

/* ---- callers ---- */

/* 0, and the caller leaves again; else why the gate is shut. */
static inline int enter(struct slime_target *t)
{
	if (atomic_load_explicit(&t->gate, memory_order_relaxed) & SHUT)
		return atomic_load(&t->shut_because);
	if (!(atomic_fetch_add_explicit(&t->gate, 1, memory_order_acquire) & SHUT))
		return 0;
	if (atomic_fetch_sub(&t->gate, 1) == (SHUT | 1))
		loop_post(t->agent->loop, &t->look);
	return -EAGAIN;
}

static inline void leave(struct slime_target *t)
{
	/* The last one out of a shut gate tells the loop, which waits for that. */
	if (atomic_fetch_sub_explicit(&t->gate, 1, memory_order_release) == (SHUT | 1))
		loop_post(t->agent->loop, &t->look);
}

/* The region is looked up before any watcher is told that it is gone. */
__attribute__((cold)) static int found_stale(struct slime_target *t)
{
	if (!atomic_exchange(&t->stale, true))
		loop_post(t->agent->loop, &t->look);
	return -EAGAIN;
}

static inline int begin(struct slime_target *t, struct slime_xfer *xfers, size_t n)
{
	int ret = enter(t);

	if (ret)
		return ret;
	if (!t->remote) {
		ret = t->why;
		leave(t);
		return ret;
	}
	for (size_t i = 0; xfers && i < n; i++)
		xfers[i].remote = t->remote;
	return 0;
}

static inline int end(struct slime_target *t, int ret)
{
	if (__builtin_expect(ret == -ESTALE, 0))
		ret = found_stale(t);
	leave(t);
	return ret;
}

int slime_target_read(struct slime_target *t, struct slime_xfer *xfers, size_t n, uint32_t flags,
		      struct slime_op *op)
{
	int ret = begin(t, xfers, n);

	return ret ? ret : end(t, slime_read(t->ep, xfers, n, flags, op));
}

int slime_target_write(struct slime_target *t, struct slime_xfer *xfers, size_t n, uint32_t flags,
		       struct slime_op *op)
{
	int ret = begin(t, xfers, n);

	return ret ? ret : end(t, slime_write(t->ep, xfers, n, flags, op));
}

int slime_target_write_imm(struct slime_target *t, struct slime_xfer *xfers, size_t n,
			   uint32_t flags, uint32_t imm, struct slime_op *op)
{
	int ret = begin(t, xfers, n);

	return ret ? ret : end(t, slime_write_imm(t->ep, xfers, n, flags, imm, op));
}

int slime_target_imm_recv(struct slime_target *t, struct slime_op *op)
{
	int ret = enter(t);

	if (ret)
		return ret;
	ret = slime_imm_recv(t->ep, op);
	leave(t);
	return ret;
}

int slime_target_send(struct slime_target *t, struct slime_mr *mr, uint64_t offset, uint64_t len,
		      uint64_t tag, struct slime_op *op)
{
	int ret = enter(t);

	if (ret)
		return ret;
	ret = slime_send(t->ep, mr, offset, len, tag, op);
	leave(t);
	return ret;
}

int slime_target_recv(struct slime_target *t, struct slime_mr *mr, uint64_t offset, uint64_t len,
		      uint64_t tag, uint64_t mask, struct slime_op *op)
{
	int ret = enter(t);

	if (ret)
		return ret;
	ret = slime_recv(t->ep, mr, offset, len, tag, mask, op);
	leave(t);
	return ret;
}

int slime_target_recv_cancel(struct slime_target *t, struct slime_op *op)
{
	int ret = enter(t);

	if (ret)
		return ret;
	ret = slime_recv_cancel(t->ep, op);
	leave(t);
	return ret;
}

/* ---- waiting threads ---- */

struct target_waiter {
	struct sl_list node;
	struct slime_target *target;
	bool done;
	int result;
};

/* 0 when transfers can be submitted, else what they return. */
static int usability(const struct slime_target *t)
{
	if (t->agent->reconcile.links.closing)
		return -ESHUTDOWN;
	if (t->moving)
		return -EAGAIN;
	if (!t->aim.connection)
		return -ENOTCONN;
	return t->aim.remote || !t->region[0] ? 0 : t->aim.why;
}

static void look_at_target(struct slime_target *t)
{
	struct sl_list *node, *tmp;
	int result = usability(t);

	if (result && result != -ESHUTDOWN)
		return;
	sl_list_for_each_safe (node, tmp, &t->waiters) {
		struct target_waiter *w = SL_CONTAINER_OF(node, struct target_waiter, node);

		sl_list_remove(&w->node);
		w->result = result;
		loop_signal(t->agent->loop, &w->done);
	}
}

void agent_look_at_targets(struct slime_agent *agent)
{
	struct sl_list *node;

	sl_list_for_each (node, &agent->targets)
		look_at_target(SL_CONTAINER_OF(node, struct slime_target, node));
}

/* ---- where transfers go ---- */

static void free_description(struct connection_memory *memory)
{
	free(SL_CONTAINER_OF(memory, struct description, memory));
}

/* The region as a connection's ops may use it until they end. */
static struct aim describe(struct slime_target *t, struct connection *c)
{
	struct aim aim = { .connection = c, .why = t->known_why };
	struct slime_endpoint_info info;
	struct description *d;

	if (!c)
		return (struct aim){ .why = -ENOTCONN };
	slime_endpoint_info(c->ep, &info);
	if (!aim.why && t->known_stale)
		aim.why = -ESTALE;
	/* The directory is behind the link, or the link behind the directory. */
	if (!aim.why && info.peer != t->known.owner)
		aim.why = -EAGAIN;
	if (aim.why)
		return aim;
	if (t->n_descriptions == DESCRIPTIONS_MAX) {
		aim.why = -ESTALE;
		return aim;
	}
	d = malloc(sizeof(*d));
	if (!d) {
		aim.why = -ENOMEM;
		return aim;
	}
	t->n_descriptions++;
	d->memory.free = free_description;
	sl_list_init(&d->memory.node);
	d->remote = t->known;
	connection_keep(c, &d->memory);
	aim.remote = &d->remote;
	return aim;
}

static void arrive(struct slime_target *t)
{
	t->moving = false;
	if (t->aim.connection != t->next.connection) {
		if (t->next.connection)
			connection_hold(t->next.connection);
		if (t->aim.connection)
			connection_release(t->aim.connection);
	}
	t->aim = t->next;
	t->remote = t->aim.remote;
	t->why = t->aim.why;
	t->ep = t->aim.connection ? t->aim.connection->ep : NULL;
	atomic_store(&t->stale, false);
	if (t->ep)
		atomic_fetch_and(&t->gate, ~SHUT);
	look_at_target(t);
}

/* The next result for callers: at once when none of them is inside. */
static void move(struct slime_target *t, struct aim next)
{
	t->next = next;
	t->moving = true;
	atomic_store(&t->shut_because, next.connection ? -EAGAIN : -ENOTCONN);
	if ((atomic_fetch_or(&t->gate, SHUT) & ~SHUT) == 0)
		arrive(t);
}

static struct connection *connection_of_target(const struct slime_target *t)
{
	return t->moving ? t->next.connection : t->aim.connection;
}

/* ---- the directory ---- */

static void ask(struct slime_target *t);

static void ask_later(struct slime_target *t)
{
	const struct timeval tv = { t->retry_ms / 1000, t->retry_ms % 1000 * 1000 };

	if (evtimer_add(t->retry, &tv))
		sl_error("agent", "target %s of %s: no memory for a timer", t->region, t->peer);
	t->retry_ms = t->retry_ms < RETRY_MAX_MS / 2 ? t->retry_ms * 2 : RETRY_MAX_MS;
}

static bool are_same(const struct slime_remote_mr *a, const struct slime_remote_mr *b)
{
	return a->owner == b->owner && a->id == b->id && a->generation == b->generation;
}

static void take_answer(struct slime_target *t, int result, const struct slime_remote_mr *remote)
{
	struct connection *c = connection_of_target(t);
	bool known = !result && !t->known_why && are_same(remote, &t->known);
	bool used = !result && t->aim.remote && are_same(remote, t->aim.remote);
	bool stale = atomic_load(&t->stale);
	struct aim next;

	if (result == -EAGAIN) {
		ask_later(t);
		return;
	}
	if (used && !stale && !t->moving)
		return;
	/* nanoctrl was asked, and has none but the one that was withdrawn. */
	t->known_stale = (used && stale) || (known && t->known_stale);
	if (!result)
		t->known = *remote;
	t->known_why = result;
	next = describe(t, c);
	if (c)
		move(t, next);
	if (next.remote)
		t->retry_ms = RETRY_MIN_MS;
	else if (c || result)
		ask_later(t);
}

static void on_answer(void *arg, int result, const void *descriptor, size_t len)
{
	struct question *q = arg;
	struct slime_target *t = q->target;
	struct slime_remote_mr remote = { 0 };

	sl_list_remove(&q->node);
	free(q);
	if (!t)
		return;
	t->question = NULL;
	if (t->ask_again) {
		ask(t);
		return;
	}
	if (!result && slime_remote_mr_import(descriptor, len, &remote))
		result = -EPROTO;
	take_answer(t, result, &remote);
}

static void ask(struct slime_target *t)
{
	struct reconcile *r = &t->agent->reconcile;
	struct question *q;

	if (!t->region[0] || r->links.closing)
		return;
	/* The answer that is under way may be older than what happened. */
	t->ask_again = t->question != NULL;
	if (t->question)
		return;
	evtimer_del(t->retry);
	q = calloc(1, sizeof(*q));
	if (q && !ctrl_get_region(r->ctrl, t->peer, t->region, on_answer, q)) {
		sl_list_append(&t->agent->questions, &q->node);
		q->target = t;
		t->question = q;
		return;
	}
	/* Without a session it is asked in the next one; with too many calls under way, soon. */
	free(q);
	ask_later(t);
}

static void on_retry(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	ask(arg);
}

void agent_region_changed(struct slime_agent *agent, const char *peer, const char *region)
{
	struct sl_list *node;

	sl_list_for_each (node, &agent->targets) {
		struct slime_target *t = SL_CONTAINER_OF(node, struct slime_target, node);

		if (!strcmp(t->peer, peer) && !strcmp(t->region, region))
			ask(t);
	}
}

void agent_drop_questions(struct slime_agent *agent)
{
	struct sl_list *node;

	while ((node = sl_list_pop(&agent->questions)))
		free(SL_CONTAINER_OF(node, struct question, node));
}

void agent_resolve_targets(struct slime_agent *agent)
{
	struct sl_list *node;

	sl_list_for_each (node, &agent->targets) {
		struct slime_target *t = SL_CONTAINER_OF(node, struct slime_target, node);

		if (!t->aim.remote)
			ask(t);
	}
}

/* ---- the link ---- */

/* Another life of the peer has other regions; of the same one what is known holds. */
static void on_link(struct link_watcher *w, struct connection *c)
{
	struct slime_target *t = SL_CONTAINER_OF(w, struct slime_target, watcher);
	struct aim next;

	t->n_descriptions = 0;
	next = describe(t, c);
	move(t, next);
	if (c && !next.remote) {
		t->retry_ms = RETRY_MIN_MS;
		ask(t);
	}
}

/* ---- life ---- */

static void free_target(struct slime_target *t)
{
	event_free(t->retry);
	free(t);
}

static void look(void *arg)
{
	struct slime_target *t = arg;

	if (t->put) {
		free_target(t);
		return;
	}
	if (t->moving && atomic_load(&t->gate) == SHUT)
		arrive(t);
	if (atomic_load(&t->stale))
		ask(t);
}

/* "node-b" or "node-b/kv". */
static int take_names(struct slime_target *t, const char *peer, const char *region)
{
	const char *slash = strchr(peer, '/');
	size_t len = slash ? (size_t)(slash - peer) : strlen(peer);
	const char *profile = slash ? slash + 1 : TOPOLOGY_DEFAULT_PROFILE;

	if (len > SLIME_AGENT_NAME_MAX || !topology_is_name(profile, SLIME_AGENT_NAME_MAX) ||
	    (region && !topology_is_name(region, SLIME_AGENT_NAME_MAX)))
		return -EINVAL;
	memcpy(t->peer, peer, len);
	if (!topology_is_name(t->peer, SLIME_AGENT_NAME_MAX))
		return -EINVAL;
	memcpy(t->profile, profile, strlen(profile) + 1);
	if (region)
		memcpy(t->region, region, strlen(region) + 1);
	return 0;
}

struct target_question {
	struct slime_target *target;
	int ret;
};

static void begin_target(void *arg)
{
	struct target_question *q = arg;
	struct slime_target *t = q->target;
	struct slime_agent *agent = t->agent;

	q->ret = agent_started(agent);
	if (!q->ret && agent->reconcile.links.closing)
		q->ret = -ESHUTDOWN;
	if (q->ret)
		return;
	t->retry = evtimer_new(loop_base(agent->loop), on_retry, t);
	if (!t->retry) {
		q->ret = -ENOMEM;
		return;
	}
	sl_list_append(&agent->targets, &t->node);
	ask(t);
	links_watch(&agent->reconcile.links, &t->watcher);
}

int slime_agent_target_get(struct slime_agent *agent, const char *peer, const char *region,
			   struct slime_target **out)
{
	struct slime_target *t = calloc(1, sizeof(*t));
	struct target_question q = { .target = t };

	if (!t)
		return -ENOMEM;
	q.ret = take_names(t, peer, region);
	if (q.ret)
		goto free_target;
	t->agent = agent;
	atomic_init(&t->gate, SHUT);
	atomic_init(&t->shut_because, -ENOTCONN);
	t->known_why = region ? -EAGAIN : -EINVAL;
	t->retry_ms = RETRY_MIN_MS;
	sl_list_init(&t->node);
	sl_list_init(&t->waiters);
	sl_list_init(&t->watcher.node);
	t->watcher.peer = t->peer;
	t->watcher.profile = t->profile;
	t->watcher.changed = on_link;
	loop_task_init(&t->look, look, t);
	loop_call(agent->loop, begin_target, &q);
	if (q.ret)
		goto free_target;
	*out = t;
	return 0;

free_target:
	free(t);
	return q.ret;
}

static void begin_wait(void *arg)
{
	struct target_waiter *w = arg;

	sl_list_append(&w->target->waiters, &w->node);
	look_at_target(w->target);
}

static void end_wait(void *arg)
{
	struct target_waiter *w = arg;

	sl_list_remove(&w->node);
	if (!w->done)
		w->result = usability(w->target);
}

int slime_agent_target_wait(struct slime_target *t, int64_t timeout_ms)
{
	struct target_waiter w = { .target = t };
	int ret;

	loop_call(t->agent->loop, begin_wait, &w);
	ret = loop_wait(t->agent->loop, &w.done, timeout_ms);
	if (!ret)
		return w.result;
	loop_call(t->agent->loop, end_wait, &w);
	return ret == -ETIMEDOUT ? w.result : ret;
}

/* No thread is inside, and none comes; the check that may be due finds the target put. */
static void put(void *arg)
{
	struct slime_target *t = arg;

	links_stop_watching(&t->watcher);
	sl_list_remove(&t->node);
	evtimer_del(t->retry);
	if (t->question)
		t->question->target = NULL;
	if (t->aim.connection)
		connection_release(t->aim.connection);
	t->put = true;
	loop_post(t->agent->loop, &t->look);
}

void slime_agent_target_put(struct slime_target *t)
{
	if (t)
		loop_call(t->agent->loop, put, t);
}
