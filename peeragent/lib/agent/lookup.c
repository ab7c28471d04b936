/* SPDX-License-Identifier: Apache-2.0 */
/* What threads of the caller ask nanoctrl, through the agent's session. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <event2/event.h>

#include "peeragent/lib/agent/agent.h"
#include "peeragent/lib/plan/topology.h"

#define AGAIN_MS 200

/* A question, which may be answered after its asker has given up: on the heap. */
struct lookup {
	struct sl_list node;
	struct slime_agent *agent;
	char peer[SLIME_AGENT_NAME_MAX + 1];   /* "": who is there? */
	char region[SLIME_AGENT_NAME_MAX + 1]; /* "": is the peer there? */
	bool by_service; /* peer is the name of a service: which agents offer it? */
	struct slime_remote_mr remote;
	char names[CTRL_PROVIDERS_MAX][SLIME_AGENT_NAME_MAX + 1];
	size_t n_names;
	int result;
	bool waits;	     /* for a session, or a call that is free */
	struct event *again; /* asks again while it does; NULL before it first did */
	bool done;
	bool abandoned;
};

static void end_lookup(struct lookup *l, int result)
{
	sl_list_remove(&l->node);
	if (l->again)
		event_free(l->again);
	l->result = result;
	if (l->abandoned)
		free(l);
	else
		loop_signal(l->agent->loop, &l->done);
}

static void try_lookup(struct lookup *l);

static void on_again(evutil_socket_t fd, short what, void *arg)
{
	struct lookup *l = arg;

	(void)fd;
	(void)what;
	if (l->waits)
		try_lookup(l);
}

/* It is asked in the next session, of which we hear; and every now and then, since nobody tells of
 * a call that is free again. */
static void wait_to_ask(struct lookup *l)
{
	const struct timeval soon = { .tv_usec = AGAIN_MS * 1000 };

	if (!l->again)
		l->again = evtimer_new(loop_base(l->agent->loop), on_again, l);
	l->waits = l->again && evtimer_add(l->again, &soon) == 0;
	if (!l->waits)
		end_lookup(l, -ENOMEM);
}

/* Without a session there is none to answer: it is asked in the next one. */
static void take_answer(struct lookup *l, int result)
{
	if (result == -EAGAIN && !l->agent->reconcile.publisher.up && !l->abandoned)
		wait_to_ask(l);
	else
		end_lookup(l, result);
}

static void on_region(void *arg, int result, const void *descriptor, size_t len)
{
	struct lookup *l = arg;

	if (!result && slime_remote_mr_import(descriptor, len, &l->remote))
		result = -EPROTO;
	take_answer(l, result);
}

static void on_peer(void *arg, int result)
{
	take_answer(arg, result);
}

static void on_names(void *arg, int result, const char *const *names, size_t n)
{
	struct lookup *l = arg;

	for (size_t i = 0; !result && i < n && i < CTRL_PROVIDERS_MAX; i++)
		snprintf(l->names[l->n_names++], sizeof(l->names[0]), "%s", names[i]);
	take_answer(l, result);
}

void agent_drop_lookups(struct slime_agent *agent)
{
	struct sl_list *node, *tmp;

	sl_list_for_each_safe (node, tmp, &agent->lookups)
		end_lookup(SL_CONTAINER_OF(node, struct lookup, node), -ESHUTDOWN);
}

static int send_lookup(struct lookup *l)
{
	struct ctrl *ctrl = l->agent->reconcile.ctrl;
	int ret = agent_started(l->agent);

	if (ret)
		return ret;
	if (l->by_service)
		return ctrl_list_providers(ctrl, l->peer, on_names, l);
	if (!l->peer[0])
		return ctrl_list_names(ctrl, on_names, l);
	if (!l->region[0])
		return ctrl_find_agent(ctrl, l->peer, on_peer, l);
	return ctrl_get_region(ctrl, l->peer, l->region, on_region, l);
}

static void try_lookup(struct lookup *l)
{
	int ret = send_lookup(l);

	if (ret && l->agent->reconcile.state == SLIME_AGENT_ENDED)
		ret = -ESHUTDOWN;
	l->waits = false;
	if (ret == -EAGAIN)
		wait_to_ask(l);
	else if (ret)
		end_lookup(l, ret);
}

void agent_look_up_again(struct slime_agent *agent)
{
	struct sl_list *node, *tmp;

	sl_list_for_each_safe (node, tmp, &agent->lookups) {
		struct lookup *l = SL_CONTAINER_OF(node, struct lookup, node);

		if (l->waits)
			try_lookup(l);
	}
}

static void begin_lookup(void *arg)
{
	struct lookup *l = arg;

	sl_list_append(&l->agent->lookups, &l->node);
	try_lookup(l);
}

struct abandon {
	struct lookup *lookup;
	int why;
	bool abandoned; /* the lookup is not ours any more */
};

static void abandon_lookup(void *arg)
{
	struct abandon *a = arg;
	struct lookup *l = a->lookup;

	if (!l->done && l->waits) {
		end_lookup(l, a->why == -ETIMEDOUT ? -EAGAIN : a->why);
		return;
	}
	a->abandoned = !l->done;
	l->abandoned = a->abandoned;
}

/* 0, and *answered is the caller's to free; or how it ended. */
static int look_up_what(struct slime_agent *agent, struct lookup *l, int64_t timeout_ms,
			struct lookup **answered)
{
	struct abandon a = { .lookup = l };
	int ret;

	l->agent = agent;
	loop_call(agent->loop, begin_lookup, l);
	ret = loop_wait(agent->loop, &l->done, timeout_ms);
	if (ret) {
		a.why = ret;
		loop_call(agent->loop, abandon_lookup, &a);
		if (a.abandoned)
			return ret;
	}
	ret = l->result;
	if (ret)
		free(l);
	else
		*answered = l;
	return ret;
}

static int look_up(struct slime_agent *agent, const char *peer, const char *region,
		   int64_t timeout_ms, struct lookup **answered)
{
	struct lookup *l = calloc(1, sizeof(*l));

	if (!l)
		return -ENOMEM;
	snprintf(l->peer, sizeof(l->peer), "%s", peer);
	snprintf(l->region, sizeof(l->region), "%s", region);
	return look_up_what(agent, l, timeout_ms, answered);
}

static bool is_name(const char *text)
{
	return topology_is_name(text, SLIME_AGENT_NAME_MAX);
}

int slime_agent_region_remote(struct slime_agent *agent, const char *peer, const char *region,
			      int64_t timeout_ms, struct slime_remote_mr *out)
{
	struct lookup *l;
	int ret = -EINVAL;

	if (is_name(peer) && is_name(region))
		ret = look_up(agent, peer, region, timeout_ms, &l);
	if (ret)
		return ret;
	*out = l->remote;
	free(l);
	return 0;
}

int slime_agent_peer_find(struct slime_agent *agent, const char *peer, int64_t timeout_ms)
{
	struct lookup *l;
	int ret = is_name(peer) ? look_up(agent, peer, "", timeout_ms, &l) : -EINVAL;

	if (!ret)
		free(l);
	return ret;
}

/* Frees it. */
static int take_names(struct lookup *l, char (*names)[SLIME_AGENT_NAME_MAX + 1], size_t n)
{
	if (n > l->n_names)
		n = l->n_names;
	memcpy(names, l->names, n * sizeof(*names));
	free(l);
	return (int)n;
}

int slime_agent_peers(struct slime_agent *agent, char (*names)[SLIME_AGENT_NAME_MAX + 1], size_t n,
		      int64_t timeout_ms)
{
	struct lookup *l;
	int ret = look_up(agent, "", "", timeout_ms, &l);

	return ret ? ret : take_names(l, names, n);
}

int slime_agent_providers(struct slime_agent *agent, const char *service,
			  char (*names)[SLIME_AGENT_NAME_MAX + 1], size_t n, int64_t timeout_ms)
{
	struct lookup *l;
	int ret;

	if (!is_name(service))
		return -EINVAL;
	l = calloc(1, sizeof(*l));
	if (!l)
		return -ENOMEM;
	l->by_service = true;
	snprintf(l->peer, sizeof(l->peer), "%s", service);
	ret = look_up_what(agent, l, timeout_ms, &l);
	return ret ? ret : take_names(l, names, n);
}
