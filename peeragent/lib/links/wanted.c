/* SPDX-License-Identifier: Apache-2.0 */
#include "peeragent/lib/links/wanted.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "peeragent/lib/plan/topology.h"

static void on_report_sent(void *arg, int result)
{
	struct wanted *w = arg;

	publication_sent(w->set->publisher, &w->report, result);
}

static int send_report(struct publication *p)
{
	struct wanted *w = SL_CONTAINER_OF(p, struct wanted, report);
	struct ctrl_link report = {
		.peer = w->link->to,
		.profile = topology_profile(w->link),
		.revision = p->content,
		.state = SLIME_LINK_CONNECTING,
		.cause = "no agent matches",
		.age_ms = (sl_clock_ns() - w->since_ns) / SL_NS_PER_MS,
	};

	if (w->matched || w->dropped)
		return ctrl_forget_link(w->set->ctrl, report.peer, report.profile, report.revision,
					on_report_sent, w);
	return ctrl_report_link(w->set->ctrl, &report, on_report_sent, w);
}

static void report_settled(struct publication *p, int result)
{
	struct wanted *w = SL_CONTAINER_OF(p, struct wanted, report);

	(void)result;
	if (w->dropped)
		wanted_destroy(w);
}

static const struct publication_ops report_ops = { send_report, report_settled };

static void report(struct wanted *w)
{
	w->since_ns = sl_clock_ns();
	publication_change(w->set->publisher, &w->report);
}

/* One that was dropped and is not gone yet comes back: its reports stay in order. */
static struct wanted *find_dropped(const struct links *set, const struct slime_agent_link *link)
{
	struct sl_list *node;

	sl_list_for_each (node, &set->dropped) {
		struct wanted *w = SL_CONTAINER_OF(node, struct wanted, node);

		if (!strcmp(w->link->to, link->to) &&
		    !strcmp(topology_profile(w->link), topology_profile(link)))
			return w;
	}
	return NULL;
}

static struct wanted *create(struct links *set)
{
	struct wanted *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->set = set;
	publication_init(&w->report, &report_ops);
	sl_list_init(&w->node);
	return w;
}

int wanted_create(struct links *set, const struct slime_agent_link *link, struct wanted **out)
{
	struct slime_topology one = { .links = link, .n_links = 1 };
	struct wanted *w = find_dropped(set, link);
	struct slime_topology *copy;

	if (topology_copy(&one, &copy))
		return -ENOMEM;
	if (!w)
		w = create(set);
	if (!w) {
		free(copy);
		return -ENOMEM;
	}
	free(w->topology);
	w->topology = copy;
	w->link = &copy->links[0];
	w->dropped = w->matched = w->told = w->ending = false;
	free(w->cluster);
	w->cluster = NULL;
	w->refusal = NULL;
	w->shared[0] = '\0';
	sl_list_remove(&w->node);
	sl_list_append(&set->wanted, &w->node);
	if (topology_is_selector(w->link->to))
		report(w);
	*out = w;
	return 0;
}

void wanted_match(struct wanted *w, bool matched)
{
	if (w->matched == matched)
		return;
	w->matched = matched;
	report(w);
}

void wanted_drop(struct wanted *w)
{
	if (!w->report.content || (w->matched && publication_is_settled(&w->report))) {
		wanted_destroy(w);
		return;
	}
	w->dropped = true;
	sl_list_remove(&w->node);
	sl_list_append(&w->set->dropped, &w->node);
	report(w);
}

void wanted_destroy(struct wanted *w)
{
	publication_fini(&w->report);
	sl_list_remove(&w->node);
	free(w->topology);
	free(w->cluster);
	free(w);
}
