/* SPDX-License-Identifier: Apache-2.0 */
#include "compat/store.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <event2/buffer.h>
#include "store/metrics.h"

static int hub_create(struct store_hub *hub)
{
	hub->compat = calloc(1, sizeof(*hub->compat));
	if (!hub->compat)
		return -ENOMEM;
	private_port_init(&hub->compat->port);
	return 0;
}

static void hub_destroy(struct store_hub *hub)
{
	if (!hub->compat)
		return;
	private_port_fini(&hub->compat->port);
	free(hub->compat);
}

static void metrics(struct store_hub *hub, struct evbuffer *out)
{
	struct compat_hub *c = hub->compat;

	metrics_counter(out, "compat_agents_expired",
			"Agents of DLSlime's whose time this server saw run out, and names that "
			"were expected and never came.",
			&c->n_peers_ended);
	metrics_counter(out, "compat_entities_expired",
			"Entities of DLSlime's whose time this server saw run out.",
			&c->n_entities_ended);
	metrics_gauge(out, "store_told",
		      "Whether Redis tells of keys that others write, by its events.",
		      atomic_load(&c->told));
	metrics_gauge(out, "store_looking",
		      "Whether all keys are being scanned for those of other programs.",
		      atomic_load(&c->scanning));
	metrics_counter(out, "store_heard", "Keys that others wrote, as Redis told.", &c->n_heard);
}

static void warnings(struct store_hub *hub, struct evbuffer *out)
{
	if (atomic_load(&hub->compat->untold))
		evbuffer_add_printf(
			out,
			"Redis does not report keys that other programs write, since it refuses "
			"CONFIG: lists have them some seconds later; the log has why\n");
	reach_warn(hub, out);
}

static int create(struct store *store, bool first)
{
	struct compat_store *c = calloc(1, sizeof(*c));
	int ret;

	if (!c)
		return -ENOMEM;
	store->compat = c;
	sl_list_init(&c->later);
	index_wait_init(&c->wait);
	for (unsigned i = 0; i < STORE_GROUPS; i++) {
		sl_list_init(&c->groups[i].waiting);
		sl_list_init(&c->groups[i].sent);
	}
	sl_list_init(&c->lists);
	sl_list_init(&c->probes);
	if (!first)
		return 0;
	ret = reach_create(store);
	if (!ret && !store_is_cluster(store))
		ret = key_indexer_create(store, index_wait_end, &c->indexer);
	return ret;
}

static void destroy(struct store *store)
{
	if (!store->compat)
		return;
	key_indexer_destroy(store->compat->indexer);
	reach_destroy(store);
	free(store->compat);
}

static void up(struct store *store)
{
	struct compat_store *c = store->compat;

	store_load_scripts(store, compat_scripts, N_COMPAT_SCRIPTS);
	if (c->reach_timer)
		reach_up(store);
	if (c->indexer)
		key_indexer_up(c->indexer);
}

static void down(struct store *store)
{
	struct compat_store *c = store->compat;

	if (c->reach_timer)
		reach_down(store);
	if (c->indexer)
		key_indexer_down(c->indexer);
}

void store_do_later(struct store *store, struct store_later *later)
{
	sl_list_append(&store->compat->later, &later->node);
	event_active(store->turn, EV_TIMEOUT, 0);
}

struct sl_list *store_lists(struct store *store)
{
	return &store->compat->lists;
}

static void do_later(struct store *store)
{
	struct sl_list now, *e;

	sl_list_init(&now);
	sl_list_splice(&now, &store->compat->later);
	while ((e = sl_list_pop(&now))) {
		struct store_later *later = SL_CONTAINER_OF(e, struct store_later, node);

		later->fn(later);
	}
}

static void turn(struct store *store)
{
	if (store->closing)
		reach_end(store);
	do_later(store);
	index_wait_flush(store);
	store_flush_groups(store);
}

static bool is_busy(const struct store *store)
{
	const struct compat_store *c = store->compat;

	return !sl_list_empty(&c->probes) || !sl_list_empty(&c->later) ||
	       !sl_list_empty(&c->wait.asked) || !store_groups_empty(store);
}

const struct store_compat compat_store = {
	.hub_create = hub_create,
	.hub_destroy = hub_destroy,
	.metrics = metrics,
	.warnings = warnings,
	.create = create,
	.destroy = destroy,
	.up = up,
	.down = down,
	.turn = turn,
	.is_busy = is_busy,
	.sweep = store_sweep_compat,
	.expect_write = written_expect,
	.forget_write = written_forget,
};
