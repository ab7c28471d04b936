/* SPDX-License-Identifier: Apache-2.0 */
/* The shared state of the stores of all loops, and the scopes of which each loop has to read
 * events. */
#include <base/log.h>
#include "store/hub.h"
#include "store/redis_store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <event2/util.h>
#include "nanoctrl/net/loop.h"

int store_hub_create(const struct store_config *config, struct store_hub **out)
{
	struct store_hub *hub = calloc(1, sizeof(*hub));
	const char *why = "";
	int ret;

	if (!hub)
		return -ENOMEM;
	hub->config = *config;
	hub->hooks = config->compat;
	evutil_secure_rng_get_bytes(&hub->seed, sizeof(hub->seed));
	ret = redis_url_parse(config->url, &hub->url, &why);
	if (ret) {
		if (ret == -EINVAL)
			sl_error("store", "the Redis URL is malformed: %s", why);
		free(hub);
		return ret;
	}
	hub->config.url = hub->url.shown;
	key_names_init(&hub->keys, hub->url.kind == REDIS_CLUSTER);
	pthread_mutex_init(&hub->lock, NULL);
	ret = hub->hooks ? hub->hooks->hub_create(hub) : 0;
	if (ret) {
		store_hub_destroy(hub);
		return ret;
	}
	*out = hub;
	return 0;
}

void store_hub_destroy(struct store_hub *hub)
{
	if (!hub)
		return;
	if (hub->hooks)
		hub->hooks->hub_destroy(hub);
	pthread_mutex_destroy(&hub->lock);
	redis_url_fini(&hub->url);
	free(hub);
}

bool store_is_cluster(const struct store *store)
{
	return store->hub->url.kind == REDIS_CLUSTER;
}

/* ---- waking the loops ---- */

unsigned store_bucket(const struct store_hub *hub, const char *scope)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325) ^ hub->seed;

	while (*scope) /* FNV-1a */
		h = (h ^ (unsigned char)*scope++) * UINT64_C(0x100000001b3);
	return (unsigned)((h ^ h >> 32) % SCOPE_BUCKETS);
}

static void note_wake(const struct store_hub *hub, struct wakes *w, const char *scope)
{
	unsigned bucket;

	w->all |= !scope;
	if (w->all)
		return;
	for (unsigned i = 0; i < w->n; i++)
		if (strcmp(w->scopes[i], scope) == 0)
			return;
	if (w->n < WAKES_MAX) {
		snprintf(w->scopes[w->n++], sizeof(w->scopes[0]), "%s", scope);
		return;
	}
	bucket = store_bucket(hub, scope);
	w->buckets[bucket / 64] |= UINT64_C(1) << bucket % 64;
}

void store_hub_wake(struct store_hub *hub, const char *scope)
{
	pthread_mutex_lock(&hub->lock);
	for (unsigned i = 0; i < STORE_LOOPS_MAX; i++) {
		if (!hub->stores[i])
			continue;
		note_wake(hub, &hub->stores[i]->wakes, scope);
		loop_post(hub->stores[i]->loop, &hub->stores[i]->take_wakes);
	}
	pthread_mutex_unlock(&hub->lock);
}
