/* SPDX-License-Identifier: Apache-2.0 */
/* The links that topologies want of this agent: one list, read page by page when nanoctrl says that
 * it changed. A reading that was interrupted goes on where it was. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "peeragent/lib/control/ctrl_state.h"
#include "peeragent/lib/control/ctrl_wanted.h"
#include "peeragent/lib/plan/topology.h"

/* nanoctrl has no more in a scope. */
#define WANTED_MAX 100000

static enum slime_transport transport_named(const char *name)
{
	static const struct {
		const char *name;
		enum slime_transport transport;
	} all[] = { { "rdma", SLIME_TRANSPORT_RDMA },
		    { "shm", SLIME_TRANSPORT_SHM },
		    { "tcp", SLIME_TRANSPORT_TCP } };

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		if (!strcmp(all[i].name, name))
			return all[i].transport;
	return SLIME_TRANSPORT_NONE;
}

/* Why a link is no link of this agent; NULL: it is one. */
static const char *why_impossible(const struct ctrl *ctrl, const struct nc_wanted_link *from)
{
	if (!topology_is_name(from->peer, SLIME_AGENT_NAME_MAX) || !strcmp(from->peer, ctrl->name))
		return "its peer is no agent that there can be";
	if (!topology_is_name(from->profile, SLIME_AGENT_NAME_MAX))
		return "its profile is longer than an agent's may be";
	return NULL;
}

/* Why this agent cannot have a link as it is wanted; NULL: it can. */
static const char *take_transports(const struct nc_wanted_link *from, struct slime_agent_link *out)
{
	if (from->n_transports > SLIME_TRANSPORT_MAX)
		return "it has more transports than there are";
	for (size_t i = 0; i < from->n_transports; i++) {
		out->transports[i] = transport_named(from->transports[i]);
		if (out->transports[i] == SLIME_TRANSPORT_NONE)
			return "this agent does not know a transport of it";
	}
	return topology_transports_fine(out->transports) ? NULL : "it has a transport twice";
}

/* The same of what it asks of rdma. */
static const char *take_rdma(const struct nc_wanted_link *from, struct slime_agent_link *out)
{
	out->qps = from->qps;
	out->rails = from->rails == NC_RAILS_ALL ? 0 : from->rails;
	out->devices = *from->devices ? from->devices : NULL;
	out->peer_devices = *from->peer_devices ? from->peer_devices : NULL;
	out->min_bandwidth = from->min_bandwidth;
	return topology_rdma_fine(out) ? NULL : "this agent cannot have its qps, rails or devices";
}

static void warn(const struct nc_wanted_link *link, const char *why)
{
	static struct sl_log_limit limit = SL_LOG_LIMIT_INIT(4, 10000);
	uint32_t held_back;

	if (sl_log_allow(&limit, &held_back))
		sl_warn("agent", "link %s/%s of topology %s: %s (%u more like it)", link->peer,
			link->profile, link->topology, why, held_back);
}

/* ---- the list, read page by page ---- */

static void free_links(struct ctrl_wanted *links, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free((char *)(uintptr_t)links[i].link.to);
	free(links);
}

void ctrl_forget_wanted(struct ctrl *ctrl)
{
	free_links(ctrl->wanted, ctrl->n_wanted);
	free(ctrl->wanted_after);
	ctrl->wanted = NULL;
	ctrl->n_wanted = ctrl->wanted_room = 0;
	ctrl->wanted_after = NULL;
}

/* The next list begins with nothing, also one that the agent asks for meanwhile. */
static void report(struct ctrl *ctrl)
{
	struct ctrl_wanted *links = ctrl->wanted;
	size_t n = ctrl->n_wanted;

	ctrl->wanted = NULL;
	ctrl->n_wanted = ctrl->wanted_room = 0;
	ctrl->ops->wanted(ctrl->arg, links, n);
	free_links(links, n);
}

static int make_room(struct ctrl *ctrl, size_t n)
{
	size_t room = ctrl->wanted_room ? ctrl->wanted_room : 64;
	struct ctrl_wanted *bigger;

	if (n > WANTED_MAX)
		return -E2BIG;
	while (room < n)
		room *= 2;
	if (room == ctrl->wanted_room)
		return 0;
	bigger = realloc(ctrl->wanted, room * sizeof(*bigger));
	if (!bigger)
		return -ENOMEM;
	ctrl->wanted = bigger;
	ctrl->wanted_room = room;
	return 0;
}

static char *append(char *to, const char *from, const char **out)
{
	size_t len = strlen(from) + 1;

	*out = memcpy(to, from, len);
	return to + len;
}

static int take_link(struct ctrl *ctrl, const struct nc_wanted_link *from)
{
	struct ctrl_wanted *to = &ctrl->wanted[ctrl->n_wanted];
	char *text = malloc(strlen(from->peer) + strlen(from->profile) + strlen(from->topology) +
			    strlen(from->devices) + strlen(from->peer_devices) + 5);

	if (!text)
		return -ENOMEM;
	memset(to, 0, sizeof(*to));
	to->refusal = take_transports(from, &to->link);
	if (!to->refusal)
		to->refusal = take_rdma(from, &to->link);
	if (to->refusal)
		memset(&to->link, 0, sizeof(to->link));
	text = append(text, from->peer, &to->link.to);
	text = append(text, from->profile, &to->link.profile);
	text = append(text, from->topology, &to->topology);
	if (to->link.devices)
		text = append(text, from->devices, &to->link.devices);
	if (to->link.peer_devices)
		append(text, from->peer_devices, &to->link.peer_devices);
	ctrl->n_wanted++;
	return 0;
}

static int take_page(struct ctrl *ctrl, const struct nc_wanted *page)
{
	char *after = page->next ? strdup(page->next) : NULL;
	int ret = make_room(ctrl, ctrl->n_wanted + page->n);

	if (!ret && page->next && !after)
		ret = -ENOMEM;
	for (size_t i = 0; i < page->n && !ret; i++) {
		const struct nc_wanted_link *from = &page->list[i];
		const char *why = why_impossible(ctrl, from);

		if (why)
			warn(from, why);
		else
			ret = take_link(ctrl, from);
	}
	free(ctrl->wanted_after);
	ctrl->wanted_after = after;
	return ret;
}

static void read_page(struct ctrl *ctrl);

static void on_wanted(void *arg, const struct nc_error *error, const struct nc_wanted *page)
{
	struct ctrl *ctrl = arg;
	int ret;

	ctrl->wanted_reading = false;
	/* The list is another one by now. */
	if (error && error->err == -ESTALE && ctrl->wanted_after) {
		ctrl_forget_wanted(ctrl);
		read_page(ctrl);
		return;
	}
	if (error) {
		/* A former release knows no topologies. */
		if (error->err != -ENOENT)
			ctrl_list_again(ctrl);
		return;
	}
	ret = take_page(ctrl, page);
	if (ret) {
		sl_error("agent", "the links that topologies want cannot be read: %s",
			 strerror(-ret));
		ctrl_forget_wanted(ctrl);
		if (ret == -ENOMEM)
			ctrl_list_again(ctrl);
		return;
	}
	if (ctrl->wanted_after) {
		read_page(ctrl);
		return;
	}
	if (ctrl->wanted_again)
		ctrl_read_wanted(ctrl);
	if (page->known)
		report(ctrl);
	else
		ctrl_forget_wanted(ctrl);
}

static void read_page(struct ctrl *ctrl)
{
	ctrl->wanted_reading = true;
	if (nc_get_wanted(ctrl->client, ctrl->wanted_after, on_wanted, ctrl)) {
		ctrl->wanted_reading = false;
		ctrl_list_again(ctrl);
	}
}

void ctrl_read_wanted(struct ctrl *ctrl)
{
	ctrl->wanted_again = ctrl->wanted_reading;
	if (!ctrl->wanted_reading)
		read_page(ctrl);
}

void ctrl_drop_wanted(struct ctrl *ctrl)
{
	ctrl->wanted_reading = ctrl->wanted_again = false;
}
