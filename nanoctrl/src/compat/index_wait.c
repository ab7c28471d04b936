/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store asks the key indexer once for all requests that wait, and again for those that came
 * meanwhile.
 */
#include "compat/index_wait.h"

#include <errno.h>
#include <stdlib.h>
#include "compat/store.h"
#include "nanoctrl/net/loop.h"

void index_wait_init(struct index_wait *wait)
{
	sl_list_init(&wait->asked);
	sl_list_init(&wait->behind);
}

struct wait_post {
	struct loop_task task;
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
	struct wait_post *p = malloc(sizeof(*p));

	if (!p)
		return -ENOMEM;
	*p = (struct wait_post){ .hub = hub, .slot = slot };
	loop_task_init(&p->task, fn, p);
	pthread_mutex_lock(&hub->lock);
	if (hub->stores[to])
		loop_post(hub->stores[to]->loop, &p->task);
	else
		free(p);
	pthread_mutex_unlock(&hub->lock);
	return 0;
}

static struct wait_post take_post(void *arg)
{
	struct wait_post p = *(struct wait_post *)arg;

	free(arg);
	return p;
}

/* ---- on the first loop ---- */

static void on_asked(void *arg)
{
	struct wait_post p = take_post(arg);
	struct store *first = store_in(p.hub, 0);

	if (first)
		key_indexer_wait(first->compat->indexer, p.slot);
}

static void on_indexed(void *arg)
{
	struct wait_post p = take_post(arg);
	struct store *store = store_in(p.hub, p.slot);

	if (!store)
		return;
	store->compat->wait.over = true;
	event_active(store->turn, EV_TIMEOUT, 0);
}

int index_wait_end(struct store_hub *hub, unsigned slot)
{
	return post(hub, slot, on_indexed, slot);
}

/* ---- on each ---- */

/* Without an indexer the wait is over at once: in a cluster, while the first loop ends, and without
 * memory to ask. */
static void ask(struct store *store)
{
	struct index_wait *w = &store->compat->wait;

	sl_list_splice(&w->asked, &w->behind);
	if (!store->closing && !store_is_cluster(store) && store_in(store->hub, 0) &&
	    !post(store->hub, 0, on_asked, store->slot))
		return;
	w->over = true;
	event_active(store->turn, EV_TIMEOUT, 0);
}

void store_wait_for_index(struct store *store, struct store_later *later)
{
	struct index_wait *w = &store->compat->wait;

	sl_list_append(&w->behind, &later->node);
	if (sl_list_empty(&w->asked))
		ask(store);
}

void index_wait_flush(struct store *store)
{
	struct index_wait *w = &store->compat->wait;
	struct sl_list now, *e;

	if (!w->over && !store->closing)
		return;
	w->over = false;
	sl_list_init(&now);
	sl_list_splice(&now, &w->asked);
	if (!sl_list_empty(&w->behind))
		ask(store);
	while ((e = sl_list_pop(&now))) {
		struct store_later *later = SL_CONTAINER_OF(e, struct store_later, node);

		later->fn(later);
	}
}
