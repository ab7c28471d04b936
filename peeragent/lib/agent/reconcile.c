/* SPDX-License-Identifier: Apache-2.0 */
#include "peeragent/lib/agent/reconcile.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "peeragent/lib/plan/topology.h"

/* ---- the agent's state ---- */

static void set_state(struct reconcile *r, enum slime_agent_state state, int cause,
		      const char *text)
{
	if (r->state == SLIME_AGENT_ENDED || (r->state == state && r->cause == cause))
		return;
	r->state = state;
	r->cause = cause;
	snprintf(r->text, sizeof(r->text), "%s", text);
	r->on_state(r->arg, state, cause, r->text);
}

/* Ready is: registered, and every region is there. Once it was, one that comes later and cannot be
 * had is an error of its own. */
static void look(struct reconcile *r)
{
	int regions = regions_status(&r->regions);

	if (!r->publisher.up || r->leaving)
		return;
	r->was_ready |= !regions;
	if (!regions || (r->was_ready && regions != -EAGAIN))
		set_state(r, SLIME_AGENT_READY, 0, "");
	else if (regions != -EAGAIN)
		set_state(r, SLIME_AGENT_STARTING, regions, "a region cannot be had");
}

static const char *how_it_left(const struct reconcile *r)
{
	if (r->state == SLIME_AGENT_REFUSED)
		return "another process keeps the name";
	return r->registered ? "left" : "it was not registered";
}

static void finish_leaving(struct reconcile *r)
{
	if (r->left || !r->said_goodbye || !sl_list_empty(&r->links.connections.all))
		return;
	r->left = true;
	set_state(r, SLIME_AGENT_ENDED, 0, how_it_left(r));
	r->on_left(r->arg);
}

static void on_connections_gone(void *arg)
{
	finish_leaving(arg);
}

static void on_regions_change(void *arg)
{
	look(arg);
}

static void on_peer_end(void *arg, const struct slime_peer_end *end)
{
	struct reconcile *r = arg;

	r->on_peer_end(r->arg, end);
}

static void on_link_change(void *arg)
{
	struct reconcile *r = arg;

	snapshots_soon(&r->snapshots);
}

/* ---- what nanoctrl says ---- */

static void on_up(void *arg, bool fresh)
{
	struct reconcile *r = arg;

	r->registered = true;
	publisher_up(&r->publisher, fresh);
	snapshots_up(&r->snapshots);
	look(r);
	r->on_session(r->arg);
}

static void on_down(void *arg, enum ctrl_trouble trouble, const char *text)
{
	struct reconcile *r = arg;

	publisher_down(&r->publisher);
	snapshots_down(&r->snapshots);
	if (r->leaving)
		return;
	switch (trouble) {
	case CTRL_UNREACHABLE:
		set_state(r, r->registered ? SLIME_AGENT_DETACHED : SLIME_AGENT_STARTING, -EAGAIN,
			  text);
		break;
	case CTRL_NAME_HELD:
		set_state(r, r->registered ? SLIME_AGENT_DETACHED : SLIME_AGENT_STARTING,
			  -EADDRINUSE, text);
		break;
	case CTRL_NAME_TAKEN:
		set_state(r, SLIME_AGENT_REFUSED, -EADDRINUSE, text);
		break;
	case CTRL_FORBIDDEN:
		set_state(r, r->registered ? SLIME_AGENT_DETACHED : SLIME_AGENT_STARTING, -EACCES,
			  text);
		break;
	case CTRL_SUPERSEDED:
		links_close_all(&r->links);
		set_state(r, SLIME_AGENT_ENDED, -EOWNERDEAD, text);
		break;
	}
}

static void on_peer(void *arg, const struct ctrl_peer *peer)
{
	struct reconcile *r = arg;

	links_peer(&r->links, peer);
}

static void on_peer_gone(void *arg, const char *name, uint64_t epoch, uint64_t generation,
			 bool left)
{
	struct reconcile *r = arg;

	links_peer_gone(&r->links, name, epoch, generation, left);
}

static void on_list_begin(void *arg)
{
	struct reconcile *r = arg;

	links_list_begin(&r->links);
}

static void on_list_end(void *arg)
{
	struct reconcile *r = arg;

	links_list_end(&r->links);
}

static void on_offer(void *arg, const struct ctrl_offer *offer)
{
	struct reconcile *r = arg;

	links_offer(&r->links, offer);
}

static void on_offer_gone(void *arg, const char *from, const char *profile, uint64_t number)
{
	struct reconcile *r = arg;

	links_offer_gone(&r->links, from, profile, number);
}

static void on_wanted(void *arg, const struct ctrl_wanted *links, size_t n)
{
	struct reconcile *r = arg;

	links_set_cluster(&r->links, links, n);
}

static void on_region(void *arg, const char *agent, const char *name)
{
	struct reconcile *r = arg;

	r->on_region(r->arg, agent, name);
}

static void on_region_gone(void *arg, const char *name, uint64_t revision)
{
	struct reconcile *r = arg;

	regions_gone(&r->regions, name, revision);
}

static const struct ctrl_ops ctrl_ops = {
	.up = on_up,
	.down = on_down,
	.peer = on_peer,
	.peer_gone = on_peer_gone,
	.list_begin = on_list_begin,
	.list_end = on_list_end,
	.offer = on_offer,
	.offer_gone = on_offer_gone,
	.wanted = on_wanted,
	.region = on_region,
	.region_gone = on_region_gone,
};

/* ---- life ---- */

static void init_regions(struct reconcile *r, const struct reconcile_attr *attr)
{
	regions_init(&r->regions);
	r->regions.ctx = attr->ctx;
	r->regions.ctrl = r->ctrl;
	r->regions.publisher = &r->publisher;
	r->regions.helper = attr->helper;
	r->regions.base = loop_base(attr->loop);
	r->regions.on_change = on_regions_change;
	r->regions.arg = r;
}

/* How long each transport waits for a peer that says nothing. Over shm the kernel tells of the end
 * of a process. A link over rdma that is idle looks four times in the user timeout, and then a
 * device may take four times its own timeout for each try. */
static void set_silence(uint32_t silent_ms[SLIME_TRANSPORT_MAX],
			const struct slime_context_attr *data)
{
	uint64_t device_ns =
		(data->rdma_retry_count + 1) * 4 * (UINT64_C(4096) << data->rdma_timeout);
	uint64_t rdma_ms = data->tcp_user_timeout_ms / 4 + device_ns / SL_NS_PER_MS;

	silent_ms[SLIME_TRANSPORT_SHM] = 0;
	silent_ms[SLIME_TRANSPORT_TCP] = data->tcp_user_timeout_ms;
	silent_ms[SLIME_TRANSPORT_RDMA] = rdma_ms < UINT32_MAX ? (uint32_t)rdma_ms : UINT32_MAX;
}

static void init_links(struct reconcile *r, const struct reconcile_attr *attr)
{
	struct links *l = &r->links;

	links_init(l);
	l->name = attr->ctrl.name;
	l->base = loop_base(attr->loop);
	l->ctrl = r->ctrl;
	l->publisher = &r->publisher;
	l->connections.loop = attr->loop;
	l->connections.helper = attr->helper;
	l->connections.ctx = attr->ctx;
	l->connections.service = attr->service;
	l->connections.isolated = &r->regions.any_restricted;
	l->connections.on_empty = on_connections_gone;
	l->connections.arg = r;
	memcpy(l->transports, attr->transports, sizeof(l->transports));
	l->connect_timeout_ms = attr->connect_timeout_ms;
	l->retry_min_ms = attr->retry_min_ms;
	l->retry_max_ms = attr->retry_max_ms;
	l->on_change = on_link_change;
	l->on_peer_end = on_peer_end;
	set_silence(l->silent_ms, attr->data);
	l->arg = r;
}

static int init_snapshots(struct reconcile *r, const struct reconcile_attr *attr)
{
	struct snapshots *s = &r->snapshots;

	s->ctrl = r->ctrl;
	s->links = &r->links;
	s->regions = &r->regions;
	return snapshots_init(s, loop_base(attr->loop), attr->ctrl.name, attr->snapshot_ms);
}

int reconcile_init(struct reconcile *r, const struct reconcile_attr *attr)
{
	static const struct slime_topology empty = { .n_labels = 0 };
	struct slime_topology labels = {
		.labels = attr->ctrl.labels,
		.n_labels = attr->ctrl.n_labels,
	};
	struct event_base *base = loop_base(attr->loop);
	int ret;

	*r = (struct reconcile){ .on_state = attr->on_state,
				 .on_session = attr->on_session,
				 .on_region = attr->on_region,
				 .on_peer_end = attr->on_peer_end,
				 .on_left = attr->on_left,
				 .arg = attr->arg };
	ret = topology_copy(labels.n_labels ? &labels : &empty, &r->have);
	if (ret)
		return ret;
	ret = publisher_init(&r->publisher, base);
	if (ret)
		goto free_have;
	ret = ctrl_create(base, &attr->ctrl, &ctrl_ops, r, &r->ctrl);
	if (ret)
		goto fini_publisher;
	init_regions(r, attr);
	init_links(r, attr);
	ret = init_snapshots(r, attr);
	if (!ret)
		return 0;
	ctrl_destroy(r->ctrl);
fini_publisher:
	publisher_fini(&r->publisher);
free_have:
	free(r->have);
	return ret;
}

void reconcile_close(struct reconcile *r)
{
	ctrl_destroy(r->ctrl);
	r->ctrl = NULL;
	publisher_down(&r->publisher);
	snapshots_fini(&r->snapshots);
	links_fini(&r->links);
	regions_close(&r->regions);
}

void reconcile_fini(struct reconcile *r)
{
	regions_fini(&r->regions);
	publisher_fini(&r->publisher);
	free(r->have);
}

void reconcile_start(struct reconcile *r)
{
	ctrl_start(r->ctrl);
}

/* ---- the plan ---- */

static int carry_out(struct reconcile *r, const struct plan_step *step,
		     const struct slime_topology *want)
{
	switch (step->verb) {
	case PLAN_LINK_CLOSE:
		links_close(&r->links, &r->have->links[step->index], LINK_OF_FILE);
		return 0;
	case PLAN_REGION_WITHDRAW:
		region_withdraw(&r->regions, r->have->regions[step->index].name, false);
		return 0;
	case PLAN_REGION_OFFER:
		return region_allocate(&r->regions, &want->regions[step->index]);
	case PLAN_REGION_REPUBLISH:
		return region_allow(&r->regions, &want->regions[step->index]);
	case PLAN_LABELS:
		return ctrl_set_labels(r->ctrl, want->labels, want->n_labels);
	case PLAN_LINK_OPEN:
		return links_open(&r->links, &want->links[step->index], LINK_OF_FILE);
	}
	return 0;
}

static int carry_out_all(struct reconcile *r, const struct plan *plan,
			 const struct slime_topology *want)
{
	int ret = 0;

	for (size_t i = 0; i < plan->n && !ret; i++)
		ret = carry_out(r, &plan->steps[i], want);
	return ret;
}

/* Two of one name would take turns in the directory. */
static int check_names(const struct reconcile *r, const struct slime_topology *want)
{
	for (size_t i = 0; i < want->n_regions; i++) {
		const char *name = want->regions[i].name;

		if (region_is_shown(&r->regions, name)) {
			sl_error("agent",
				 "topology refused: regions.%zu.name: %s is offered already, by a "
				 "service or the program: the earlier topology stays",
				 i, name);
			return -EEXIST;
		}
	}
	return 0;
}

int reconcile_apply(struct reconcile *r, const struct slime_topology *want)
{
	struct slime_topology *copy;
	struct plan plan;
	int ret = r->links.closing ? -ESHUTDOWN : check_names(r, want);

	if (!ret)
		ret = topology_copy(want, &copy);
	if (ret)
		return ret;
	ret = topology_diff(copy, r->have, &plan);
	if (ret)
		goto free_copy;
	ret = carry_out_all(r, &plan, copy);
	free(plan.steps);
	if (ret)
		goto free_copy;
	free(r->have);
	r->have = copy;
	ctrl_list(r->ctrl); /* new selectors match agents that we have heard of before */
	look(r);
	return 0;

free_copy:
	free(copy);
	return ret;
}

int reconcile_add_link(struct reconcile *r, const struct slime_agent_link *link)
{
	int ret;

	if (r->links.closing)
		return -ESHUTDOWN;
	ret = links_wants(&r->links, link) ? -EEXIST : links_open(&r->links, link, LINK_OF_CALLER);
	if (!ret)
		ctrl_list(r->ctrl);
	return ret;
}

int reconcile_remove_link(struct reconcile *r, const struct slime_agent_link *link)
{
	if (!links_close(&r->links, link, LINK_OF_CALLER))
		return -ENOENT;
	ctrl_list(r->ctrl); /* a selector may match its peer */
	return 0;
}

/* ---- the end ---- */

static void on_goodbye(void *arg, int result)
{
	struct reconcile *r = arg;

	if (result)
		sl_warn("agent", "nanoctrl did not take our goodbye: the lease ends by itself");
	r->said_goodbye = true;
	finish_leaving(r);
}

void reconcile_leave(struct reconcile *r)
{
	if (r->leaving)
		return;
	r->leaving = true;
	snapshots_last(&r->snapshots);
	regions_cancel(&r->regions);
	links_close_all(&r->links);
	publisher_down(&r->publisher);
	snapshots_down(&r->snapshots);
	if (ctrl_leave(r->ctrl, on_goodbye, r)) {
		r->said_goodbye = true;
		finish_leaving(r);
	}
}
