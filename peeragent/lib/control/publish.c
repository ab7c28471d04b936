/* SPDX-License-Identifier: Apache-2.0 */
#include "peeragent/lib/control/publish.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <event2/event.h>

#include "base/log.h"
#include "base/random.h"
#include "nanoctrl/net/loop.h"

#define RETRY_MS 300 /* half of it is jitter */

static void retry_later(struct publisher *pub)
{
	if (!evtimer_pending(pub->retry, NULL))
		loop_set_timer(pub->retry, RETRY_MS / 2 + sl_random_up_to(RETRY_MS / 2 - 1));
}

static void send_if_due(struct publisher *pub, struct publication *p)
{
	int ret;

	if (!pub->up || p->sending || publication_is_settled(p))
		return;
	p->sending = p->content;
	ret = p->ops->send(p);
	if (!ret)
		return;
	if (ret != -EAGAIN && !pub->said) {
		pub->said = true;
		sl_error("agent", "a region or link cannot be published: %s: tried again, and on",
			 strerror(-ret));
	}
	p->sending = 0;
	retry_later(pub);
}

static void send_all(struct publisher *pub)
{
	struct sl_list *e, *tmp;

	sl_list_for_each_safe (e, tmp, &pub->publications)
		send_if_due(pub, SL_CONTAINER_OF(e, struct publication, node));
}

static void on_retry(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	send_all(arg);
}

int publisher_init(struct publisher *pub, struct event_base *base)
{
	*pub = (struct publisher){ .up = false };
	sl_list_init(&pub->publications);
	pub->retry = evtimer_new(base, on_retry, pub);
	return pub->retry ? 0 : -ENOMEM;
}

void publisher_fini(struct publisher *pub)
{
	assert(sl_list_empty(&pub->publications));
	event_free(pub->retry);
}

void publisher_up(struct publisher *pub, bool fresh)
{
	struct sl_list *e;

	pub->up = true;
	if (fresh) {
		sl_list_for_each (e, &pub->publications)
			SL_CONTAINER_OF(e, struct publication, node)->settled = 0;
	}
	send_all(pub);
}

void publisher_down(struct publisher *pub)
{
	pub->up = false;
	evtimer_del(pub->retry);
}

void publication_init(struct publication *p, const struct publication_ops *ops)
{
	*p = (struct publication){ .ops = ops };
	sl_list_init(&p->node);
}

void publication_change(struct publisher *pub, struct publication *p)
{
	p->content = ++pub->last;
	if (sl_list_empty(&p->node))
		sl_list_append(&pub->publications, &p->node);
	send_if_due(pub, p);
}

void publication_outdo(struct publisher *pub, struct publication *p, uint64_t number)
{
	if (pub->last < number)
		pub->last = number;
	publication_change(pub, p);
}

void publication_sent(struct publisher *pub, struct publication *p, int result)
{
	uint64_t sent = p->sending;

	p->sending = 0;
	if (result == -EAGAIN) {
		retry_later(pub);
		return;
	}
	p->settled = sent;
	if (!publication_is_settled(p))
		send_if_due(pub, p);
	else if (p->ops->settled)
		p->ops->settled(p, result);
}

bool publication_is_settled(const struct publication *p)
{
	return p->settled == p->content;
}

void publication_fini(struct publication *p)
{
	sl_list_remove(&p->node);
}
