/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fakes/fakectrl_inbox.h"

#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "tests/fakes/fakectrl_server.h"

struct msg *inbox_tell(struct inbox *in, enum msg_kind kind)
{
	struct msg *m = calloc(1, sizeof(*m));

	must(m);
	m->kind = kind;
	sl_list_append(&in->msgs, &m->node);
	eventfd_write(in->fd, 1);
	return m;
}

static struct nc_pairs labels_of(struct listed *l)
{
	for (size_t i = 0; i < l->labels->n_labels; i++)
		l->pairs[i] =
			(struct nc_pair){ l->labels->labels[i].key, l->labels->labels[i].value };
	return (struct nc_pairs){ l->pairs, l->labels->n_labels };
}

static void deliver_page(struct msg *m)
{
	struct nc_agent agents[FAKE_PAGE] = { 0 };
	struct nc_region regions[FAKE_PAGE] = { 0 };
	struct nc_page page = { .n = m->n, .next = m->more ? m->name : NULL };

	for (size_t i = 0; m->agents && i < m->n; i++) {
		struct listed *l = &m->agents[i];

		agents[i] = (struct nc_agent){
			.name = l->name,
			.address = "here",
			.generation = l->generation,
			.labels = labels_of(l),
			.attributes = { l->attributes, l->n_attributes },
			.services = l->services,
			.n_services = l->n_services,
		};
	}
	for (size_t i = 0; m->regions && i < m->n; i++)
		regions[i] = (struct nc_region){
			.name = m->regions[i].name,
			.size = m->regions[i].size,
			.access = m->regions[i].access,
			.generation = m->regions[i].generation,
			.revision = m->regions[i].revision,
		};
	page.agents = agents;
	page.regions = regions;
	m->page_done(m->arg, m->result, m->result ? NULL : &page);
}

static void deliver(struct inbox *in, struct msg *m)
{
	const char *name = m->name;
	struct ctrl_peer peer = { m->name, m->incarnation, m->epoch, m->generation, NULL, 0 };
	struct ctrl_offer offer = { m->name,	   m->profile, m->incarnation, m->epoch,
				    m->generation, m->number,  m->bytes,       m->len };

	switch (m->kind) {
	case MSG_UP:
		in->ops->up(in->arg, m->flag);
		break;
	case MSG_DOWN:
		in->ops->down(in->arg, m->trouble, "as the fake was told");
		break;
	case MSG_PEER:
		peer.labels = m->labels->labels;
		peer.n_labels = m->labels->n_labels;
		in->ops->peer(in->arg, &peer);
		break;
	case MSG_GONE:
		in->ops->peer_gone(in->arg, m->name, m->epoch, m->generation, m->flag);
		break;
	case MSG_LIST_BEGIN:
		in->ops->list_begin(in->arg);
		break;
	case MSG_LIST_END:
		in->ops->list_end(in->arg);
		break;
	case MSG_OFFER:
		in->ops->offer(in->arg, &offer);
		break;
	case MSG_OFFER_GONE:
		in->ops->offer_gone(in->arg, m->name, m->profile, m->number);
		break;
	case MSG_REGION_CHANGED:
		in->ops->region(in->arg, m->name, m->profile);
		break;
	case MSG_REGION_GONE:
		in->ops->region_gone(in->arg, m->name, m->number);
		break;
	case MSG_DONE:
		m->done(m->arg, m->result);
		break;
	case MSG_REGION:
		m->region_done(m->arg, m->result, m->bytes, m->len);
		break;
	case MSG_PAGE:
		deliver_page(m);
		break;
	case MSG_NAMES:
		m->names_done(m->arg, 0, m->len ? &name : NULL, m->len);
		break;
	}
}

static struct msg *next_msg(struct inbox *in)
{
	struct sl_list *node;

	server_lock();
	node = sl_list_pop(&in->msgs);
	server_unlock();
	return node ? SL_CONTAINER_OF(node, struct msg, node) : NULL;
}

static void free_msg(struct msg *m)
{
	for (size_t i = 0; m->agents && i < m->n; i++)
		free(m->agents[i].labels);
	free(m->agents);
	free(m->regions);
	free(m->labels);
	free(m);
}

static void on_inbox(evutil_socket_t fd, short what, void *arg)
{
	struct inbox *in = arg;
	struct msg *m;
	eventfd_t n;

	(void)what;
	eventfd_read(fd, &n);
	while ((m = next_msg(in))) {
		deliver(in, m);
		free_msg(m);
	}
}

void inbox_init(struct inbox *in, struct event_base *base, const struct ctrl_ops *ops, void *arg)
{
	in->ops = ops;
	in->arg = arg;
	sl_list_init(&in->msgs);
	in->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	in->event = event_new(base, in->fd, EV_READ | EV_PERSIST, on_inbox, in);
	must(in->fd >= 0 && in->event && !event_add(in->event, NULL));
}

void inbox_fini(struct inbox *in)
{
	struct sl_list *node;

	while ((node = sl_list_pop(&in->msgs)))
		free_msg(SL_CONTAINER_OF(node, struct msg, node));
	event_free(in->event);
	close(in->fd);
}
