/* SPDX-License-Identifier: Apache-2.0 */
/* Offers of peers for us. A list names as many as nanoctrl keeps, which is more than the client
 * makes calls at one time: they are read some at a time. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "peeragent/lib/control/ctrl_offers.h"
#include "peeragent/lib/control/ctrl_state.h"
#include "peeragent/lib/plan/topology.h"

#define MAX_READING 64

struct unread {
	struct sl_list node;
	const char *profile; /* behind the name */
	char from[];
};

static void add_unread(struct ctrl *ctrl, const char *from, const char *profile)
{
	size_t from_size = strlen(from) + 1, profile_size = strlen(profile) + 1;
	struct unread *u = malloc(sizeof(*u) + from_size + profile_size);

	if (!u) {
		ctrl_list_again(ctrl);
		return;
	}
	memcpy(u->from, from, from_size);
	u->profile = memcpy(u->from + from_size, profile, profile_size);
	sl_list_append(&ctrl->unread, &u->node);
}

static void drop_unread(struct ctrl *ctrl)
{
	struct sl_list *node;

	while ((node = sl_list_pop(&ctrl->unread)))
		free(SL_CONTAINER_OF(node, struct unread, node));
}

static void on_listed_offer(void *arg, const struct nc_error *error, const struct nc_offer *offer);

static void read_more(struct ctrl *ctrl)
{
	while (ctrl->n_reading < MAX_READING && !sl_list_empty(&ctrl->unread) &&
	       ctrl->state != CTRL_ENDED) {
		struct unread *u = SL_CONTAINER_OF(ctrl->unread.next, struct unread, node);

		if (nc_get_offer(ctrl->client, u->from, u->profile, on_listed_offer, ctrl)) {
			/* The next that ends makes room. */
			if (!ctrl->n_reading)
				ctrl_list_again(ctrl);
			return;
		}
		ctrl->n_reading++;
		sl_list_remove(&u->node);
		free(u);
	}
}

void ctrl_on_offer(void *arg, const struct nc_error *error, const struct nc_offer *offer)
{
	struct ctrl *ctrl = arg;
	struct ctrl_offer o;

	if (error) {
		if (error->err != -ENOENT)
			ctrl_list_again(ctrl);
		return;
	}
	if (!topology_is_name(offer->from, SLIME_AGENT_NAME_MAX) ||
	    !topology_is_name(offer->profile, SLIME_AGENT_NAME_MAX))
		return;
	o = (struct ctrl_offer){
		.from = offer->from,
		.profile = offer->profile,
		.incarnation = offer->incarnation,
		.epoch = ctrl->epoch,
		.generation = offer->generation,
		.number = offer->connection_epoch,
		.descriptor = offer->descriptor,
		.len = offer->descriptor_len,
	};
	ctrl->ops->offer(ctrl->arg, &o);
}

static void on_listed_offer(void *arg, const struct nc_error *error, const struct nc_offer *offer)
{
	struct ctrl *ctrl = arg;

	ctrl->n_reading--;
	if (error && error->err != -ENOENT)
		drop_unread(ctrl); /* the next list has them */
	ctrl_on_offer(ctrl, error, offer);
	read_more(ctrl);
}

void ctrl_read_offers(struct ctrl *ctrl, const struct nc_page *page)
{
	for (size_t i = 0; i < page->n; i++)
		add_unread(ctrl, page->offers[i].from, page->offers[i].profile);
	read_more(ctrl);
}

void ctrl_drop_offers(struct ctrl *ctrl)
{
	drop_unread(ctrl);
	ctrl->n_reading = 0;
}
