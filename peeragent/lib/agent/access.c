/* SPDX-License-Identifier: Apache-2.0 */
/* Questions of the caller's threads to a running agent: each question is one task of the loop. */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "peeragent/lib/agent/agent.h"
#include "peeragent/lib/plan/topology.h"

/* ---- ready ---- */

struct ready_waiter {
	struct sl_list node;
	struct slime_agent *agent;
	bool done;
	int result;
};

static int readiness(const struct slime_agent *agent)
{
	const struct reconcile *r = &agent->reconcile;
	int regions;

	if (!agent->started)
		return agent->left ? -ESHUTDOWN : -EAGAIN;
	regions = regions_status(&r->regions);
	if (r->state == SLIME_AGENT_ENDED)
		return -ESHUTDOWN;
	if (r->state == SLIME_AGENT_REFUSED)
		return -EADDRINUSE;
	if (regions)
		return regions;
	return r->state == SLIME_AGENT_READY || r->state == SLIME_AGENT_DETACHED ? 0 : -EAGAIN;
}

static void look(struct ready_waiter *w)
{
	w->result = readiness(w->agent);
	if (w->result == -EAGAIN)
		return;
	sl_list_remove(&w->node);
	loop_signal(w->agent->loop, &w->done);
}

void agent_look_at_waiters(struct slime_agent *agent)
{
	struct sl_list *node, *tmp;

	sl_list_for_each_safe (node, tmp, &agent->ready_waiters)
		look(SL_CONTAINER_OF(node, struct ready_waiter, node));
}

static void begin_wait(void *arg)
{
	struct ready_waiter *w = arg;

	sl_list_append(&w->agent->ready_waiters, &w->node);
	look(w);
}

static void end_wait(void *arg)
{
	struct ready_waiter *w = arg;

	sl_list_remove(&w->node);
}

int slime_agent_wait_ready(struct slime_agent *agent, int64_t timeout_ms)
{
	struct ready_waiter w = { .agent = agent };
	int ret;

	loop_call(agent->loop, begin_wait, &w);
	ret = loop_wait(agent->loop, &w.done, timeout_ms);
	if (ret)
		loop_call(agent->loop, end_wait, &w);
	return w.result == -EAGAIN ? ret : w.result;
}

struct state_question {
	struct slime_agent *agent;
	enum slime_agent_state state;
};

static void answer_state(void *arg)
{
	struct state_question *q = arg;

	if (q->agent->started)
		q->state = q->agent->reconcile.state;
	else
		q->state = q->agent->left ? SLIME_AGENT_ENDED : SLIME_AGENT_STARTING;
}

enum slime_agent_state slime_agent_state(struct slime_agent *agent)
{
	struct state_question q = { .agent = agent };

	loop_call(agent->loop, answer_state, &q);
	return q.state;
}

/* ---- topology and links ---- */

struct change {
	struct slime_agent *agent;
	const struct slime_topology *topology;
	const struct slime_agent_link *link;
	int ret;
};

static void apply(void *arg)
{
	struct change *c = arg;
	const char *name = slime_agent_name(c->agent);
	struct slime_topology_fault fault;

	c->ret = agent_started(c->agent);
	if (c->ret)
		return;
	c->ret = slime_topology_check(c->topology, name, &fault);
	if (c->ret)
		sl_error("agent", "topology refused: %s: %s", fault.path, fault.expected);
	else
		c->ret = reconcile_apply(&c->agent->reconcile, c->topology);
}

int slime_agent_apply(struct slime_agent *agent, const struct slime_topology *topology)
{
	struct change c = { .agent = agent, .topology = topology };

	loop_call(agent->loop, apply, &c);
	return c.ret;
}

struct move {
	struct slime_agent *agent;
	const char *const *urls;
	size_t n_urls;
	int ret;
};

static void set_urls(void *arg)
{
	struct move *m = arg;

	m->ret = agent_started(m->agent);
	if (!m->ret && m->agent->reconcile.links.closing)
		m->ret = -ESHUTDOWN;
	if (!m->ret)
		m->ret = ctrl_set_urls(m->agent->reconcile.ctrl, m->urls, m->n_urls);
}

int slime_agent_urls_set(struct slime_agent *agent, const char *const *urls, size_t n_urls)
{
	struct move m = { .agent = agent, .urls = urls, .n_urls = n_urls };

	loop_call(agent->loop, set_urls, &m);
	return m.ret;
}

static void add_link(void *arg)
{
	struct change *c = arg;
	struct slime_topology one = { .links = c->link, .n_links = 1 };
	struct slime_topology_fault fault;

	c->ret = agent_started(c->agent);
	if (c->ret)
		return;
	c->ret = slime_topology_check(&one, slime_agent_name(c->agent), &fault);
	if (c->ret)
		sl_error("agent", "link refused: %s: %s", fault.path, fault.expected);
	else
		c->ret = reconcile_add_link(&c->agent->reconcile, c->link);
}

int slime_agent_link_add(struct slime_agent *agent, const struct slime_agent_link *link)
{
	struct change c = { .agent = agent, .link = link };

	loop_call(agent->loop, add_link, &c);
	return c.ret;
}

static void remove_link(void *arg)
{
	struct change *c = arg;

	c->ret = c->agent->started ? reconcile_remove_link(&c->agent->reconcile, c->link) : -ENOENT;
}

int slime_agent_link_remove(struct slime_agent *agent, const char *to, const char *profile)
{
	struct slime_agent_link link = { .to = to, .profile = profile };
	struct change c = { .agent = agent, .link = &link };

	loop_call(agent->loop, remove_link, &c);
	return c.ret;
}

struct links_question {
	struct slime_agent *agent;
	struct slime_agent_link_info *out;
	size_t n;
	int ret;
};

static void answer_links(void *arg)
{
	struct links_question *q = arg;

	q->ret = q->agent->started ? links_info(&q->agent->reconcile.links, q->out, q->n) : 0;
}

int slime_agent_links(struct slime_agent *agent, struct slime_agent_link_info *out, size_t n)
{
	struct links_question q = { .agent = agent, .out = out, .n = n };

	loop_call(agent->loop, answer_links, &q);
	return q.ret;
}

struct stats_question {
	struct slime_agent *agent;
	struct slime_agent_stats *out;
};

static void answer_stats(void *arg)
{
	struct stats_question *q = arg;

	memset(q->out, 0, sizeof(*q->out));
	if (q->agent->started)
		links_stats(&q->agent->reconcile.links, q->out);
}

void slime_agent_stats(struct slime_agent *agent, struct slime_agent_stats *out)
{
	struct stats_question q = { .agent = agent, .out = out };

	loop_call(agent->loop, answer_stats, &q);
}

/* ---- endpoints ---- */

struct get {
	struct link_waiter waiter;
	struct slime_agent *agent;
	struct slime_endpoint *ep;
	bool done;
	bool known;
	bool closing;
};

static void on_endpoint(struct link_waiter *waiter, struct slime_endpoint *ep)
{
	struct get *g = SL_CONTAINER_OF(waiter, struct get, waiter);

	g->ep = ep;
	g->closing = !ep;
	loop_signal(g->agent->loop, &g->done);
}

static void begin_get(void *arg)
{
	struct get *g = arg;
	struct links *links = &g->agent->reconcile.links;

	sl_list_init(&g->waiter.node);
	if (g->agent->started)
		g->ep = links_hold(links, g->waiter.peer, g->waiter.profile, &g->known);
	g->closing = g->agent->started ? links->closing : g->agent->left;
	if (g->ep || g->closing)
		loop_signal(g->agent->loop, &g->done);
	else if (g->agent->started)
		links_wait(links, &g->waiter);
}

static void end_get(void *arg)
{
	struct get *g = arg;

	links_stop_waiting(&g->waiter);
	if (!g->ep && g->agent->started)
		g->ep = links_hold(&g->agent->reconcile.links, g->waiter.peer, g->waiter.profile,
				   &g->known);
}

int slime_agent_endpoint_get(struct slime_agent *agent, const char *peer, const char *profile,
			     int64_t timeout_ms, struct slime_endpoint **out)
{
	struct get g = {
		.waiter = { .peer = peer,
			    .profile = profile ? profile : TOPOLOGY_DEFAULT_PROFILE,
			    .done = on_endpoint },
		.agent = agent,
	};
	int ret;

	loop_call(agent->loop, begin_get, &g);
	ret = timeout_ms ? loop_wait(agent->loop, &g.done, timeout_ms) : -ETIMEDOUT;
	if (ret)
		loop_call(agent->loop, end_get, &g);
	if (g.ep) {
		*out = g.ep;
		return 0;
	}
	if (g.closing)
		return -ESHUTDOWN;
	return ret == -ETIMEDOUT && !g.known ? -ENOENT : ret;
}

struct put {
	struct slime_agent *agent;
	struct slime_endpoint *ep;
};

static void put(void *arg)
{
	struct put *p = arg;

	if (!p->agent->started || links_release(&p->agent->reconcile.links, p->ep))
		sl_error("agent", "endpoint_put: not an endpoint that was got");
}

void slime_agent_endpoint_put(struct slime_agent *agent, struct slime_endpoint *ep)
{
	struct put p = { agent, ep };

	loop_call(agent->loop, put, &p);
}

/* ---- regions ---- */

struct region_change {
	struct slime_agent *agent;
	const char *name;
	struct slime_mr *mr;
	uint32_t access;
	const char *const *allow;
	size_t n_allow;
	int ret;
};

static void offer_region(void *arg)
{
	struct region_change *c = arg;

	c->ret = agent_started(c->agent);
	if (!c->ret)
		c->ret = region_show(&c->agent->reconcile.regions, c->name, c->mr, c->access,
				     c->allow, c->n_allow);
}

int slime_agent_region_offer(struct slime_agent *agent, const char *name, struct slime_mr *mr,
			     uint32_t access, const char *const *allow, size_t n_allow)
{
	struct region_change c = { agent, name, mr, access, allow, n_allow, 0 };
	struct slime_agent_region spec = { .name = name,
					   .size = slime_mr_len(mr),
					   .access = access,
					   .allow = allow,
					   .n_allow = n_allow };
	struct slime_topology one = { .regions = &spec, .n_regions = 1 };
	struct slime_topology_fault fault;

	if (slime_topology_check(&one, slime_agent_name(agent), &fault)) {
		sl_error("agent", "region refused: %s: %s", fault.path, fault.expected);
		return -EINVAL;
	}
	loop_call(agent->loop, offer_region, &c);
	return c.ret;
}

static void withdraw_region(void *arg)
{
	struct region_change *c = arg;

	c->ret = c->agent->started ? region_withdraw(&c->agent->reconcile.regions, c->name, true)
				   : -ENOENT;
}

int slime_agent_region_withdraw(struct slime_agent *agent, const char *name)
{
	struct region_change c = { .agent = agent, .name = name };

	loop_call(agent->loop, withdraw_region, &c);
	return c.ret;
}

static void find_region(void *arg)
{
	struct region_change *c = arg;

	c->ret = c->agent->started ? region_find(&c->agent->reconcile.regions, c->name, &c->mr)
				   : -ENOENT;
}

int slime_agent_region_local(struct slime_agent *agent, const char *name, struct slime_mr **out)
{
	struct region_change c = { .agent = agent, .name = name };

	loop_call(agent->loop, find_region, &c);
	if (!c.ret)
		*out = c.mr;
	return c.ret;
}
