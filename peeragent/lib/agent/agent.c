/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's life, and its face to the caller's threads. */
#include "peeragent/lib/agent/agent.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "peeragent/lib/plan/topology.h"

/* The goodbye has had its answer by then, or none will come. */
#define STOP_TIMEOUT_MS (CTRL_CALL_TIMEOUT_MS + 1000)

const char *slime_agent_state_name(enum slime_agent_state state)
{
	static const char *const names[] = { "starting", "ready", "detached", "refused", "ended" };

	return (unsigned)state < sizeof(names) / sizeof(names[0]) ? names[state] : "unknown";
}

/* ---- the loop's side ---- */

static void on_state(void *arg, enum slime_agent_state state, int cause, const char *text)
{
	struct slime_agent *agent = arg;
	const struct slime_agent_attr *attr = &agent->settings.attr;

	/* The holder of the name, where this agent cannot have it. */
	sl_log(cause == -EADDRINUSE ? SLIME_LOG_WARN : SLIME_LOG_INFO, "agent", "%s is %s%s%s",
	       attr->name, slime_agent_state_name(state), text[0] ? ": " : "", text);
	agent_look_at_waiters(agent);
	agent_look_up_again(agent);
	agent_look_at_targets(agent);
	if (attr->on_state)
		attr->on_state(attr->arg, agent, state, cause, text);
}

static void on_session(void *arg)
{
	agent_look_up_again(arg);
	agent_resolve_targets(arg);
}

static void on_region(void *arg, const char *peer, const char *region)
{
	agent_region_changed(arg, peer, region);
}

static void on_peer_end(void *arg, const struct slime_peer_end *end)
{
	agent_peer_ended(arg, end);
}

static void on_left(void *arg)
{
	struct slime_agent *agent = arg;

	loop_signal(agent->loop, &agent->left);
}

static int init_reconcile(struct slime_agent *agent)
{
	const struct slime_agent_attr *attr = &agent->settings.attr;
	struct reconcile_attr r = {
		.ctrl = {
			.name = attr->name,
			.scope = attr->scope,
			.urls = attr->urls,
			.n_urls = attr->n_urls,
			.token = attr->token,
			.incarnation = agent->identity.incarnation,
			.owner_key = agent->identity.owner_key,
			.address = attr->address,
			.labels = attr->topology.labels,
			.n_labels = attr->topology.n_labels,
			.attributes = agent->nics.attributes,
			.n_attributes = agent->nics.n,
			.services = (const char *const *)agent->services,
			.n_services = agent->n_services,
		},
		.loop = agent->loop,
		.helper = agent->helper,
		.ctx = agent->ctx,
		.data = &attr->data,
		.service = agent->service,
		.transports = attr->transports,
		.connect_timeout_ms = attr->connect_timeout_ms,
		.retry_min_ms = attr->retry_min_ms,
		.retry_max_ms = attr->retry_max_ms,
		.snapshot_ms = attr->snapshot_ms,
		.on_state = on_state,
		.on_session = on_session,
		.on_region = on_region,
		.on_peer_end = on_peer_end,
		.on_left = on_left,
		.arg = agent,
	};

	return reconcile_init(&agent->reconcile, &r);
}

/* ---- create, start ---- */

static int create_threads(struct slime_agent *agent)
{
	struct event_base *base = agent->settings.attr.loop;
	int ret = base ? loop_adopt(base, &agent->loop) : loop_create(&agent->loop);

	if (ret)
		return ret;
	if (!base)
		ret = loop_run(agent->loop, "slime-agent");
	if (!ret)
		ret = helper_create(agent->loop, &agent->helper);
	if (ret)
		loop_destroy(agent->loop);
	return ret;
}

static bool uses_rdma(const struct slime_agent_attr *attr)
{
	for (int i = 0; i < SLIME_TRANSPORT_MAX; i++)
		if (attr->transports[i] == SLIME_TRANSPORT_RDMA)
			return true;
	return false;
}

static int create_data(struct slime_agent *agent)
{
	const struct slime_agent_attr *attr = &agent->settings.attr;
	int ret = slime_context_create(&attr->data, &agent->ctx);

	if (ret)
		return ret;
	ret = slime_rpc_service_create(agent->ctx, &agent->service);
	if (ret)
		goto destroy_context;
	ret = uses_rdma(attr) ? nics_init(&agent->nics, NULL) : 0;
	if (!ret)
		return 0;
	slime_rpc_service_destroy(agent->service);
destroy_context:
	slime_context_destroy(agent->ctx);
	return ret;
}

static void destroy_data(struct slime_agent *agent)
{
	nics_fini(&agent->nics);
	slime_rpc_service_destroy(agent->service);
	/* Memory that a peer reaches must not be freed before the process ends, and the context
	 * with it. */
	if (slime_context_destroy(agent->ctx) && !agent->reconcile.regions.any_kept)
		sl_error("agent", "%s: regions or ops of the caller are left in its context",
			 slime_agent_name(agent));
}

void slime_agent_attr_init(struct slime_agent_attr *attr)
{
	*attr = (struct slime_agent_attr)SLIME_AGENT_ATTR_INIT;
}

int slime_agent_create(const struct slime_agent_attr *attr, struct slime_agent **out)
{
	struct slime_agent *agent = calloc(1, sizeof(*agent));
	int ret;

	if (!agent)
		return -ENOMEM;
	sl_list_init(&agent->ready_waiters);
	sl_list_init(&agent->lookups);
	sl_list_init(&agent->targets);
	sl_list_init(&agent->questions);
	sl_list_init(&agent->watches);
	ret = settings_init(&agent->settings, attr);
	if (ret)
		goto free_agent;
	ret = identity_load(&agent->identity, agent->settings.attr.state_dir,
			    agent->settings.attr.scope, agent->settings.attr.name);
	if (ret)
		goto fini_settings;
	ret = create_data(agent);
	if (ret)
		goto fini_settings;
	ret = create_threads(agent);
	if (ret)
		goto destroy_data;
	*out = agent;
	return 0;

destroy_data:
	destroy_data(agent);
fini_settings:
	settings_fini(&agent->settings);
free_agent:
	free(agent);
	return ret;
}

int slime_agent_method_add(struct slime_agent *agent, const char *name,
			   const struct slime_rpc_method_attr *attr)
{
	return agent->started ? -EBUSY : slime_rpc_method_add(agent->service, name, attr);
}

int slime_agent_method_remove(struct slime_agent *agent, const char *name)
{
	return agent->started ? -EBUSY : slime_rpc_method_remove(agent->service, name);
}

int slime_agent_service_add(struct slime_agent *agent, const char *name)
{
	if (agent->started)
		return -EBUSY;
	if (!topology_is_name(name, SLIME_AGENT_NAME_MAX))
		return -EINVAL;
	for (size_t i = 0; i < agent->n_services; i++) {
		if (!strcmp(agent->services[i], name))
			return -EEXIST;
	}
	if (agent->n_services == AGENT_MAX_SERVICES)
		return -ENOSPC;
	agent->services[agent->n_services] = strdup(name);
	return agent->services[agent->n_services] ? (agent->n_services++, 0) : -ENOMEM;
}

struct start {
	struct slime_agent *agent;
	int ret;
};

static void start(void *arg)
{
	struct start *s = arg;
	struct slime_agent *agent = s->agent;

	s->ret = agent->left ? -ESHUTDOWN : init_reconcile(agent);
	if (s->ret)
		return;
	agent->started = true;
	s->ret = reconcile_apply(&agent->reconcile, &agent->settings.attr.topology);
	if (!s->ret)
		reconcile_start(&agent->reconcile);
}

int slime_agent_start(struct slime_agent *agent)
{
	struct start s = { .agent = agent };

	if (agent->started)
		return -EALREADY;
	loop_call(agent->loop, start, &s);
	return s.ret;
}

/* ---- stop, destroy ---- */

static void leave(void *arg)
{
	struct slime_agent *agent = arg;

	if (agent->started) {
		reconcile_leave(&agent->reconcile);
		return;
	}
	on_left(agent);
	agent_look_at_waiters(agent);
}

int slime_agent_stop(struct slime_agent *agent, int64_t timeout_ms)
{
	loop_call(agent->loop, leave, agent);
	return loop_wait(agent->loop, &agent->left, timeout_ms);
}

struct count {
	struct slime_agent *agent;
	bool held;
};

static void look_for_holders(void *arg)
{
	struct count *c = arg;
	struct sl_list *node;

	c->held = !sl_list_empty(&c->agent->targets);
	if (!c->agent->started)
		return;
	sl_list_for_each (node, &c->agent->reconcile.links.connections.all)
		c->held |= SL_CONTAINER_OF(node, struct connection, node)->n_holds > 0;
}

static void close_all(void *arg)
{
	struct slime_agent *agent = arg;

	if (agent->started)
		reconcile_close(&agent->reconcile);
	agent_drop_lookups(agent);
	agent_drop_questions(agent);
}

static void fini_all(void *arg)
{
	struct slime_agent *agent = arg;

	loop_flush(agent->loop);
	if (agent->started)
		reconcile_fini(&agent->reconcile);
}

int slime_agent_destroy(struct slime_agent *agent)
{
	struct count holders = { agent, false };

	if (!agent)
		return 0;
	if (loop_take(agent->loop))
		return -EDEADLK;
	slime_agent_stop(agent, STOP_TIMEOUT_MS);
	loop_call(agent->loop, look_for_holders, &holders);
	if (holders.held)
		return -EBUSY;
	loop_call(agent->loop, close_all, agent);
	helper_destroy(agent->helper);
	loop_call(agent->loop, fini_all, agent);
	loop_destroy(agent->loop);
	destroy_data(agent);
	for (size_t i = 0; i < agent->n_services; i++)
		free(agent->services[i]);
	settings_fini(&agent->settings);
	free(agent);
	return 0;
}
