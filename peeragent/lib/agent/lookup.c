/* SPDX-License-Identifier: Apache-2.0 */
/* Questions of the caller's threads to nanoctrl, through the agent's session. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <event2/event.h>

#include "peeragent/lib/agent/agent.h"
#include "peeragent/lib/agent/listing.h"
#include "peeragent/lib/plan/topology.h"

#define AGAIN_MS 200
#define ASK_MS	 50 /* whether the asker is interrupted */

enum lookup_kind {
	LOOKUP_REGION,	  /* of peer */
	LOOKUP_PEER,	  /* is it there? */
	LOOKUP_PEERS,	  /* a page: selector, after */
	LOOKUP_REGIONS,	  /* all of peer */
	LOOKUP_PROVIDERS, /* peer is the name of a service: which agents offer it? */
};

/* A question, which may be answered after its asker has given up: on the heap. */
struct lookup {
	struct sl_list node;
	struct slime_agent *agent;
	enum lookup_kind kind;
	char peer[SLIME_AGENT_NAME_MAX + 1];
	char region[SLIME_AGENT_NAME_MAX + 1];
	char *selector, *after; /* NULL: none */
	struct slime_remote_mr remote;
	struct slime_agent_peers *peers;
	struct slime_agent_regions *regions;
	char names[CTRL_PROVIDERS_MAX][SLIME_AGENT_NAME_MAX + 1];
	size_t n_names;
	int result;
	bool waits;	     /* for a session, or a call that is free */
	struct event *again; /* asks again while it does; NULL before it first did */
	bool done;
	bool abandoned;
};

/* Its answer belongs to the asking thread already, or to none. */
static void free_lookup(struct lookup *l)
{
	free(l->peers);
	free(l->regions);
	free(l->selector);
	free(l->after);
	free(l);
}

static void end_lookup(struct lookup *l, int result)
{
	sl_list_remove(&l->node);
	if (l->again)
		event_free(l->again);
	l->result = result;
	if (l->abandoned)
		free_lookup(l);
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

/* It is asked in the next session, of whose begin we are told; and at times before, since no event
 * reports that a call is free again. */
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

static void on_peers(void *arg, int result, const struct nc_page *page)
{
	struct lookup *l = arg;

	if (!result)
		l->peers = listing_peers(page, slime_agent_name(l->agent));
	take_answer(l, !result && !l->peers ? -ENOMEM : result);
}

static void on_regions(void *arg, int result, const struct nc_page *page)
{
	struct lookup *l = arg;

	if (!result)
		l->regions = listing_regions(page);
	take_answer(l, !result && !l->regions ? -ENOMEM : result);
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
	switch (l->kind) {
	case LOOKUP_PEER:
		return ctrl_find_agent(ctrl, l->peer, on_peer, l);
	case LOOKUP_PEERS:
		return ctrl_list_agents(ctrl, l->selector, l->after, on_peers, l);
	case LOOKUP_REGIONS:
		return ctrl_list_regions(ctrl, l->peer, on_regions, l);
	case LOOKUP_PROVIDERS:
		return ctrl_list_providers(ctrl, l->peer, on_names, l);
	case LOOKUP_REGION:
		break;
	}
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

static struct lookup *create_lookup(enum lookup_kind kind, const char *peer, const char *region)
{
	struct lookup *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->kind = kind;
	snprintf(l->peer, sizeof(l->peer), "%s", peer);
	snprintf(l->region, sizeof(l->region), "%s", region);
	return l;
}

/* As loop_wait(); -EINTR: the asker is interrupted. */
static int wait_for_answer(const struct slime_agent *agent, const struct lookup *l,
			   int64_t timeout_ms)
{
	const struct slime_agent_attr *attr = &agent->settings.attr;

	while (attr->interrupted) {
		int64_t part = timeout_ms < 0 || timeout_ms > ASK_MS ? ASK_MS : timeout_ms;
		int ret = loop_wait(agent->loop, &l->done, part);

		if (ret != -ETIMEDOUT || part == timeout_ms)
			return ret;
		if (attr->interrupted(attr->arg))
			return -EINTR;
		if (timeout_ms > 0)
			timeout_ms -= part;
	}
	return loop_wait(agent->loop, &l->done, timeout_ms);
}

/* 0, and the lookup is the caller's to free; or how it ended, and it is not. */
static int look_up(struct slime_agent *agent, struct lookup *l, int64_t timeout_ms)
{
	struct abandon a = { .lookup = l };
	int ret;

	if (!l)
		return -ENOMEM;
	l->agent = agent;
	loop_call(agent->loop, begin_lookup, l);
	ret = wait_for_answer(agent, l, timeout_ms);
	if (ret) {
		a.why = ret;
		loop_call(agent->loop, abandon_lookup, &a);
		if (a.abandoned)
			return ret;
	}
	ret = l->result;
	if (ret)
		free_lookup(l);
	return ret;
}

static bool is_name(const char *text)
{
	return topology_is_name(text, SLIME_AGENT_NAME_MAX);
}

int slime_agent_region_remote(struct slime_agent *agent, const char *peer, const char *region,
			      int64_t timeout_ms, struct slime_remote_mr *out)
{
	struct lookup *l;
	int ret;

	if (!is_name(peer) || !is_name(region))
		return -EINVAL;
	l = create_lookup(LOOKUP_REGION, peer, region);
	ret = look_up(agent, l, timeout_ms);
	if (ret)
		return ret;
	*out = l->remote;
	free_lookup(l);
	return 0;
}

int slime_agent_peer_find(struct slime_agent *agent, const char *peer, int64_t timeout_ms)
{
	struct lookup *l;
	int ret;

	if (!is_name(peer))
		return -EINVAL;
	l = create_lookup(LOOKUP_PEER, peer, "");
	ret = look_up(agent, l, timeout_ms);
	if (!ret)
		free_lookup(l);
	return ret;
}

static int copy_text(const char *text, char **out)
{
	*out = text ? strdup(text) : NULL;
	return text && !*out ? -ENOMEM : 0;
}

int slime_agent_peers(struct slime_agent *agent, const char *selector, const char *after,
		      int64_t timeout_ms, struct slime_agent_peers **out)
{
	struct lookup *l = create_lookup(LOOKUP_PEERS, "", "");
	int ret;

	if (!l)
		return -ENOMEM;
	if (copy_text(selector, &l->selector) || copy_text(after, &l->after)) {
		free_lookup(l);
		return -ENOMEM;
	}
	ret = look_up(agent, l, timeout_ms);
	if (ret)
		return ret;
	*out = l->peers;
	l->peers = NULL;
	free_lookup(l);
	return 0;
}

int slime_agent_regions(struct slime_agent *agent, const char *peer, int64_t timeout_ms,
			struct slime_agent_regions **out)
{
	struct lookup *l;
	int ret;

	if (!is_name(peer))
		return -EINVAL;
	l = create_lookup(LOOKUP_REGIONS, peer, "");
	ret = look_up(agent, l, timeout_ms);
	if (ret)
		return ret;
	*out = l->regions;
	l->regions = NULL;
	free_lookup(l);
	return 0;
}

int slime_agent_providers(struct slime_agent *agent, const char *service,
			  char (*names)[SLIME_AGENT_NAME_MAX + 1], size_t n, int64_t timeout_ms)
{
	struct lookup *l;
	int ret;

	if (!is_name(service))
		return -EINVAL;
	l = create_lookup(LOOKUP_PROVIDERS, service, "");
	ret = look_up(agent, l, timeout_ms);
	if (ret)
		return ret;
	if (n > l->n_names)
		n = l->n_names;
	memcpy(names, l->names, n * sizeof(*names));
	free_lookup(l);
	return (int)n;
}
