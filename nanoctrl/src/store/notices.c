/* SPDX-License-Identifier: Apache-2.0 */
/*
 * On the first loop of every replica: the connection that hears that something happened in a scope,
 * and wakes the loops for it. What happens while it does not hear waits in Redis.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <base/log.h>
#include "store/notices.h"
#include "store/redis_store.h"
#include "store/reply.h"

struct notices {
	struct store *store;
	struct redis *redis;
	bool hears;
};

static void subscribe(struct notices *n)
{
	const char *args[] = { "PSUBSCRIBE", n->store->hub->keys.wake };

	redis_command(n->redis, 2, args, NULL, NULL, NULL);
}

static void on_up(void *arg, const char *run_id)
{
	(void)run_id;
	subscribe(arg);
}

static void on_down(void *arg)
{
	struct notices *n = arg;

	n->hears = false;
}

/* As by an ACL without the channel, or while a script runs. It is tried again with each look. */
static void take_refusal(struct notices *n, const char *why)
{
	if (n->hears)
		return; /* a PING was refused, and Redis is there */
	if (!atomic_exchange(&n->store->hub->deaf, true))
		sl_error("notices", "cannot subscribe to event notifications: %s", why);
}

/* Events before the subscription were not reported. */
static void begin_to_hear(struct notices *n)
{
	n->hears = true;
	if (atomic_exchange(&n->store->hub->deaf, false))
		sl_info("notices", "event notifications arrive again");
	store_hub_wake(n->store->hub, NULL);
}

/* {"pmessage", pattern, channel, text}, the confirmation of the subscription, or an error */
static void on_notice(void *arg, const redisReply *message)
{
	struct notices *n = arg;
	const char *kind = store_string(message, 0, NULL);
	char scope[KEY_NAME_MAX + 1];
	const char *channel;
	size_t len;

	if (message->type == REDIS_REPLY_ERROR) {
		take_refusal(n, message->str);
		return;
	}
	if (strcmp(kind, "psubscribe") == 0) {
		begin_to_hear(n);
		return;
	}
	channel = store_string(message, 2, &len);
	if (strcmp(kind, "pmessage") == 0 &&
	    key_wake_scope(&n->store->hub->keys, channel, len, scope))
		store_hub_wake(n->store->hub, scope);
}

void notices_look(struct notices *n)
{
	if (atomic_load(&n->store->hub->deaf))
		subscribe(n);
}

void notices_keep_up(struct notices *n)
{
	uint16_t port, there_port;
	const char *host = redis_host(n->redis, &port);
	const char *there = redis_host(n->store->redis, &there_port);

	if (store_is_cluster(n->store) && (port != there_port || strcmp(host, there) != 0))
		redis_reconnect(n->redis);
}

int notices_create(struct store *store, struct notices **out)
{
	struct notices *n = calloc(1, sizeof(*n));
	struct redis_attr attr = { .url = &store->hub->url,
				   .name = "nanoctrl-notices",
				   .timeout_ms = store->hub->config.timeout_ms,
				   .max_inflight = 16,
				   .up = on_up,
				   .down = on_down,
				   .push = on_notice,
				   .arg = n };

	if (!n)
		return -ENOMEM;
	n->store = store;
	if (redis_create(store->base, &attr, &n->redis)) {
		free(n);
		return -ENOMEM;
	}
	*out = n;
	return 0;
}

void notices_destroy(struct notices *n)
{
	if (!n)
		return;
	redis_destroy(n->redis);
	free(n);
}
