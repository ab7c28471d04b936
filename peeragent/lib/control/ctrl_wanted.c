/* SPDX-License-Identifier: Apache-2.0 */
/* The links that topologies want of this agent: one list, read when nanoctrl says that it changed.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "peeragent/lib/control/ctrl_state.h"
#include "peeragent/lib/control/ctrl_wanted.h"
#include "peeragent/lib/plan/topology.h"

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

/* Why a link cannot be had as it is wanted; NULL: it can. */
static const char *take(const struct ctrl *ctrl, const struct nc_wanted_link *from,
			struct ctrl_wanted *out)
{
	if (!topology_is_name(from->peer, SLIME_AGENT_NAME_MAX) || !strcmp(from->peer, ctrl->name))
		return "its peer is no agent that there can be";
	if (!topology_is_name(from->profile, SLIME_AGENT_NAME_MAX))
		return "its profile is longer than an agent's may be";
	if (from->n_transports > SLIME_TRANSPORT_MAX)
		return "it has more transports than there are";
	*out = (struct ctrl_wanted){ .link = { .to = from->peer, .profile = from->profile },
				     .topology = from->topology };
	for (size_t i = 0; i < from->n_transports; i++) {
		out->link.transports[i] = transport_named(from->transports[i]);
		if (out->link.transports[i] == SLIME_TRANSPORT_NONE)
			return "this agent does not know its transport";
	}
	return topology_transports_fine(out->link.transports) ? NULL : "it has a transport twice";
}

static void warn(const struct nc_wanted_link *link, const char *why)
{
	static struct sl_log_limit limit = SL_LOG_LIMIT_INIT(4, 10000);
	uint32_t held_back;

	if (sl_log_allow(&limit, &held_back))
		sl_warn("agent", "link %s/%s of topology %s: %s (%u more like it)", link->peer,
			link->profile, link->topology, why, held_back);
}

static void report(struct ctrl *ctrl, const struct nc_wanted *wanted)
{
	struct ctrl_wanted *links = calloc(wanted->n + 1, sizeof(*links));
	size_t n = 0;

	if (!links) {
		ctrl_list_again(ctrl);
		return;
	}
	for (size_t i = 0; i < wanted->n; i++) {
		const struct nc_wanted_link *from = &wanted->list[i];
		const char *why = take(ctrl, from, &links[n]);

		if (!why && (from->qps || from->rails || from->min_bandwidth))
			warn(from, "agents do not heed qps, rails and min_bandwidth yet");
		if (why)
			warn(from, why);
		else
			n++;
	}
	ctrl->ops->wanted(ctrl->arg, links, n);
	free(links);
}

static void on_wanted(void *arg, const struct nc_error *error, const struct nc_wanted *wanted)
{
	struct ctrl *ctrl = arg;

	ctrl->wanted_reading = false;
	if (error) {
		/* A former release knows no topologies. */
		if (error->err != -ENOENT)
			ctrl_list_again(ctrl);
		return;
	}
	if (ctrl->wanted_again)
		ctrl_read_wanted(ctrl);
	if (wanted->known)
		report(ctrl, wanted);
}

void ctrl_read_wanted(struct ctrl *ctrl)
{
	ctrl->wanted_again = ctrl->wanted_reading;
	if (ctrl->wanted_reading)
		return;
	ctrl->wanted_reading = true;
	if (nc_get_wanted(ctrl->client, on_wanted, ctrl)) {
		ctrl->wanted_reading = false;
		ctrl_list_again(ctrl);
	}
}

void ctrl_drop_wanted(struct ctrl *ctrl)
{
	ctrl->wanted_reading = ctrl->wanted_again = false;
}
