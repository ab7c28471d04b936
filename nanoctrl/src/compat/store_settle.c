/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who looks through an index first waits until the learner has learned what others wrote to Redis
 * before. A store asks for all that wait at once, and again for those that came meanwhile.
 */
#include <errno.h>
#include <stdlib.h>
#include "nanoctrl/net/loop.h"
#include "store/redis_store.h"

struct settle_post {
	struct store_hub *hub;
	unsigned slot;
};

static struct store *store_in(struct store_hub *hub, unsigned slot)
{
	struct store *store;

	pthread_mutex_lock(&hub->lock);
	store = hub->stores[slot];
	pthread_mutex_unlock(&hub->lock);
	return store;
}

/* Has fn run on the loop of the store in the slot `to`; nothing when that one is gone. */
static int post(struct store_hub *hub, unsigned to, loop_fn *fn, unsigned slot)
{
	struct settle_post *p = malloc(sizeof(*p));
	int ret = 0;

	if (!p)
		return -ENOMEM;
	*p = (struct settle_post){ hub, slot };
	pthread_mutex_lock(&hub->lock);
	if (hub->stores[to])
		ret = loop_post(hub->stores[to]->loop, fn, p);
	if (!hub->stores[to] || ret)
		free(p);
	pthread_mutex_unlock(&hub->lock);
	return ret;
}

static struct settle_post take_post(void *arg)
{
	struct settle_post p = *(struct settle_post *)arg;

	free(arg);
	return p;
}

/* ---- on the first loop ---- */

static void on_asked(void *arg)
{
	struct settle_post p = take_post(arg);
	struct store *first = store_in(p.hub, 0);

	if (first)
		learner_settle(first->learner, p.slot);
}

static void on_settled(void *arg)
{
	struct settle_post p = take_post(arg);
	struct store *store = store_in(p.hub, p.slot);

	if (!store)
		return;
	store->settled = true;
	event_active(store->turn, EV_TIMEOUT, 0);
}

int store_tell_settled(struct store_hub *hub, unsigned slot)
{
	return post(hub, slot, on_settled, slot);
}

/* ---- on each ---- */

/* Those that wait are asked for; at once settled where nobody learns: in a cluster, while the first
 * loop ends, and without memory to ask. */
static void ask(struct store *store)
{
	sl_list_splice(&store->settling, &store->to_settle);
	if (!store->closing && !store_is_cluster(store) && store_in(store->hub, 0) &&
	    !post(store->hub, 0, on_asked, store->slot))
		return;
	store->settled = true;
	event_active(store->turn, EV_TIMEOUT, 0);
}

void store_settle(struct store *store, struct store_later *later)
{
	sl_list_append(&store->to_settle, &later->node);
	if (sl_list_empty(&store->settling))
		ask(store);
}

void store_flush_settled(struct store *store)
{
	struct sl_list now, *e;

	if (!store->settled)
		return;
	store->settled = false;
	sl_list_init(&now);
	sl_list_splice(&now, &store->settling);
	if (!sl_list_empty(&store->to_settle))
		ask(store);
	while ((e = sl_list_pop(&now))) {
		struct store_later *later = SL_CONTAINER_OF(e, struct store_later, node);

		later->fn(later);
	}
}

void store_end_settling(struct store *store)
{
	store->settled = true;
	store_flush_settled(store);
}
