/* SPDX-License-Identifier: Apache-2.0 */
/* The store of a loop: how it begins and ends, its connection, and the turns of its loop. */
#include "store/beat.h"
#include "store/call.h"
#include "store/event.h"
#include "store/call_moved.h"
#include "store/reaper.h"
#include "store/redis_store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <event2/buffer.h>
#include "nanoctrl/net/loop.h"

bool store_is_crowded(const struct store *store)
{
	return redis_is_crowded(store->redis);
}

const struct store_config *store_config(const struct store *store)
{
	return &store->hub->config;
}

uint64_t store_leases(const struct store *store)
{
	return atomic_load(&store->hub->n_held);
}

const char *store_trouble(const struct store *store)
{
	const char *trouble = redis_trouble(store->redis);

	if (!trouble && atomic_load(&store->hub->n_up) < atomic_load(&store->hub->n_loops))
		trouble = "a connection of another loop is not there yet";
	if (!trouble && atomic_load(&store->hub->deaf))
		trouble = "it refuses PSUBSCRIBE, which event notifications need; the log has why";
	if (!trouble && atomic_load(&store->hub->forbidden))
		trouble = "it refuses EVALSHA, which all work needs; the log has why";
	return trouble;
}

const char *store_place(const struct store *store)
{
	return store->hub->url.shown;
}

void store_warnings(const struct store *store, struct evbuffer *out)
{
	if (atomic_load(&store->hub->refusing))
		evbuffer_add_printf(out, "Redis refuses writes: agents neither register nor beat, "
					 "and none is given up; the log has why\n");
	if (store->hub->hooks)
		store->hub->hooks->warnings(store->hub, out);
}

void store_load_scripts(struct store *store, const struct script *table, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const char *args[] = { "SCRIPT", "LOAD", (const char *)table[i].text };
		size_t lens[] = { 6, 4, table[i].len };

		/* A failure shows as NOSCRIPT later and is handled there. */
		redis_command(store->redis, 3, args, lens, NULL, NULL);
	}
}

static void on_up(void *arg, const char *run_id)
{
	struct store *store = arg;

	atomic_fetch_add(&store->hub->n_reconnects, 1);
	atomic_fetch_add(&store->hub->n_up, 1);
	store_load_scripts(store, scripts, N_SCRIPTS);
	if (store->reaper) /* of the first loop: once is enough */
		reaper_up(store->reaper, run_id);
	if (store->compat)
		store->hub->hooks->up(store);
	store_moved_up(store);
	store_wake_all(store);
}

static void on_down(void *arg)
{
	struct store *store = arg;

	atomic_fetch_sub(&store->hub->n_up, 1);
	if (store->reaper)
		reaper_down(store->reaper);
	if (store->compat)
		store->hub->hooks->down(store);
}

static void on_turn(evutil_socket_t fd, short what, void *arg)
{
	struct store *store = arg;

	(void)fd;
	(void)what;
	if (store->compat)
		store->hub->hooks->turn(store);
	store_flush_beats(store);
	store_end_calls(store);
}

static int take_slot(struct store_hub *hub, struct store *store, bool *first)
{
	int ret = -ENOSPC;

	pthread_mutex_lock(&hub->lock);
	for (unsigned i = 0; i < STORE_LOOPS_MAX && ret; i++) {
		if (hub->stores[i])
			continue;
		hub->stores[i] = store;
		store->slot = i;
		atomic_fetch_add(&hub->n_loops, 1);
		*first = i == 0;
		ret = 0;
	}
	pthread_mutex_unlock(&hub->lock);
	return ret;
}

static void give_slot(struct store_hub *hub, const struct store *store)
{
	pthread_mutex_lock(&hub->lock);
	for (unsigned i = 0; i < STORE_LOOPS_MAX; i++)
		if (hub->stores[i] == store) {
			hub->stores[i] = NULL;
			atomic_fetch_sub(&hub->n_loops, 1);
		}
	pthread_mutex_unlock(&hub->lock);
}

/* docs/redis-keys.md: of everything that this release writes. */
#define FORM "2"

static struct redis_words ask_schema(const struct key_names *keys)
{
	const struct script *s = &scripts[SCRIPT_SCHEMA];
	const char *text = (const char *)s->text;

	return (struct redis_words){
		.n = 7,
		.args = { "EVAL", text, "2", keys->schema, keys->run, "0", FORM },
		.lens = { strlen("EVAL"), s->len, 1, strlen(keys->schema), strlen(keys->run), 1,
			  strlen(FORM) },
	};
}

/* An empty store without a connection. */
static struct store *new_store(struct store_hub *hub, struct loop *loop)
{
	struct store *store = calloc(1, sizeof(*store));

	if (!store)
		return NULL;
	store->hub = hub;
	store->loop = loop;
	store->base = loop_base(loop);
	loop_task_init(&store->take_wakes, store_take_wakes, store);
	sl_list_init(&store->ended);
	sl_list_init(&store->beats);
	for (unsigned i = 0; i < SCOPE_BUCKETS; i++) {
		sl_list_init(&store->feeds[i]);
		sl_list_init(&store->shares[i]);
	}
	sl_list_init(&store->waiting);
	return store;
}

static int connect_store(struct store *store)
{
	struct store_hub *hub = store->hub;
	struct redis_attr attr = { .url = &hub->url,
				   .name = "nanoctrl",
				   .timeout_ms = hub->config.timeout_ms,
				   .max_inflight = hub->config.max_inflight,
				   .check_ms = hub->config.check_ms,
				   .admit = ask_schema(&hub->keys),
				   .up = on_up,
				   .down = on_down,
				   .arg = store };

	return redis_create(store->base, &attr, &store->redis);
}

int store_create(struct store_hub *hub, struct loop *loop, struct store **out)
{
	struct store *store = new_store(hub, loop);
	bool first = false;
	int ret;

	if (!store)
		return -ENOMEM;
	store->turn = event_new(store->base, -1, 0, on_turn, store);
	ret = store->turn ? store_moved_init(store) : -ENOMEM;
	if (!ret)
		ret = connect_store(store);
	if (!ret)
		ret = take_slot(hub, store, &first);
	if (!ret && first)
		ret = reaper_create(store, &store->reaper);
	if (!ret && hub->hooks)
		ret = hub->hooks->create(store, first);
	if (ret) {
		store_destroy(store);
		return ret;
	}
	*out = store;
	return 0;
}

void store_destroy(struct store *store)
{
	if (!store)
		return;
	store->closing = true;
	give_slot(store->hub, store);
	loop_cancel(store->loop, &store->take_wakes);
	if (store->redis && !redis_trouble(store->redis))
		atomic_fetch_sub(&store->hub->n_up, 1); /* down is not called */
	redis_destroy(store->redis);
	store_moved_fini(store);
	/* Calls that callbacks started meanwhile have ended by now; they are called back here. */
	while (!sl_list_empty(&store->ended) || !sl_list_empty(&store->beats) ||
	       (store->compat && store->hub->hooks->is_busy(store))) {
		if (store->compat)
			store->hub->hooks->turn(store);
		store_fail_beats(store);
		store_end_calls(store);
	}
	reaper_destroy(store->reaper);
	if (store->compat)
		store->hub->hooks->destroy(store);
	if (store->turn)
		event_free(store->turn);
	free(store);
}
