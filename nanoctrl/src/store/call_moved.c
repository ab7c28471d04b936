/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls whose slot a node of the cluster said to be elsewhere, or on its way: no node has executed
 * them, so they are sent again, until the slot has arrived or they have waited long enough.
 *
 * While the slot is on its way (ASK), nothing is sent to its new node before all of it is there. A
 * script reads and writes many keys, of which some would still be missing there. Its KEYS[1] never
 * exists, therefore the node that the slot leaves does not run half of a script either.
 */
#include <errno.h>
#include <string.h>
#include "nanoctrl/net/loop.h"
#include <base/clock.h>
#include "store/call.h"
#include "store/call_moved.h"
#include "store/hold.h"
#include "store/redis_store.h"

#define AGAIN_MS 50
#define WAIT_MS	 2000 /* at most, and no longer than an answer may take */

bool store_is_redirect(const redisReply *reply)
{
	return reply->type == REDIS_REPLY_ERROR &&
	       (!strncmp(reply->str, "MOVED ", 6) || !strncmp(reply->str, "ASK ", 4));
}

bool store_wait_for_cluster(struct store_call *call)
{
	struct store *store = call->store;
	const struct store_config *config = &store->hub->config;
	uint64_t now = sl_clock_ns();
	uint64_t wait_ms = config->timeout_ms < WAIT_MS ? config->timeout_ms : WAIT_MS;

	if (!call->until_ns)
		call->until_ns = now + wait_ms * SL_NS_PER_MS;
	if (store->closing || now >= call->until_ns || store->n_waiting >= config->max_inflight)
		return false;
	atomic_fetch_add(&store->hub->n_redirected, 1);
	hold_refused(store->hub); /* it may be a beat */
	sl_list_append(&store->waiting, &call->node);
	if (!store->n_waiting++)
		loop_set_timer(store->again, AGAIN_MS);
	return true;
}

static void send_all(evutil_socket_t fd, short what, void *arg)
{
	struct store *store = arg;
	struct sl_list now;
	struct sl_list *e;

	(void)fd;
	(void)what;
	sl_list_init(&now);
	sl_list_splice(&now, &store->waiting);
	store->n_waiting = 0;
	while ((e = sl_list_pop(&now))) {
		struct store_call *call = SL_CONTAINER_OF(e, struct store_call, node);

		/* The obstacle to sending it may pass before its time is over. */
		if (store_send_call(call) && !store_wait_for_cluster(call))
			store_end_call(call, -EAGAIN, NULL);
	}
}

void store_moved_up(struct store *store)
{
	if (store->n_waiting)
		loop_set_timer(store->again, 0);
}

int store_moved_init(struct store *store)
{
	store->again = event_new(store->base, -1, 0, send_all, store);
	return store->again ? 0 : -ENOMEM;
}

void store_moved_fini(struct store *store)
{
	struct sl_list *e;

	while ((e = sl_list_pop(&store->waiting))) {
		store->n_waiting--;
		store_end_call(SL_CONTAINER_OF(e, struct store_call, node), -ENOTCONN, NULL);
	}
	if (store->again)
		event_free(store->again);
}
