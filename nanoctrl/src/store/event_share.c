/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads of a scope's events that many followers want at once: when all agents come back, each has
 * to get the events since it registered, and most of these are the same. Such reads go out one at a
 * time for each scope, in the order asked for, and one answer serves all that wait for a part of
 * it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "store/redis_store.h"

struct want {
	struct sl_list node;
	struct store_cursor behind;
	store_events_fn *fn;
	void *arg;
};

/* A scope of which a read is out. */
struct share {
	struct sl_list node;
	struct store *store;
	struct store_cursor from; /* where the read that is out begins */
	struct sl_list wants;
	char scope[KEY_NAME_MAX + 1];
};

static void on_read(void *arg, int result, const struct store_events *ev);

static void read_next(struct share *s)
{
	s->from = SL_CONTAINER_OF(s->wants.next, struct want, node)->behind;
	store_read_events(s->store, s->scope, &s->from, STORE_SHARED_EVENTS, on_read, s);
}

/* Whether the answer says what the want asks, too: nothing is missing between the two. */
static bool serves(const struct share *s, const struct store_events *ev, const struct want *w)
{
	uint64_t last = ev->n ? ev->events[ev->n - 1].id : ev->last;

	if (w->behind.epoch != s->from.epoch)
		return false;
	return w->behind.id == s->from.id ||
	       (!ev->reset && w->behind.id > s->from.id && w->behind.id <= last);
}

/* A served request is called back, and may ask for more from inside; the others keep their order.
 */
static void tell(struct share *s, int result, const struct store_events *ev)
{
	struct sl_list todo;
	struct sl_list left;
	struct sl_list *e;

	sl_list_init(&todo);
	sl_list_init(&left);
	sl_list_splice(&todo, &s->wants);
	while ((e = sl_list_pop(&todo))) {
		struct want *w = SL_CONTAINER_OF(e, struct want, node);

		if (result == STORE_OK && !serves(s, ev, w)) {
			sl_list_append(&left, e);
			continue;
		}
		w->fn(w->arg, result, ev);
		free(w);
	}
	sl_list_splice(&left, &s->wants);
	sl_list_splice(&s->wants, &left);
}

static void on_read(void *arg, int result, const struct store_events *ev)
{
	struct share *s = arg;

	tell(s, result, ev);
	if (!sl_list_empty(&s->wants)) {
		read_next(s);
		return;
	}
	sl_list_remove(&s->node);
	free(s);
}

static struct share *find(struct store *store, const char *scope)
{
	struct sl_list *bucket = &store->shares[store_bucket(store->hub, scope)], *e;

	sl_list_for_each (e, bucket) {
		struct share *s = SL_CONTAINER_OF(e, struct share, node);

		if (strcmp(s->scope, scope) == 0)
			return s;
	}
	return NULL;
}

static struct share *create(struct store *store, const char *scope)
{
	struct share *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->store = store;
	sl_list_init(&s->wants);
	memcpy(s->scope, scope, strlen(scope) + 1);
	sl_list_append(&store->shares[store_bucket(store->hub, scope)], &s->node);
	return s;
}

void store_share_events(struct store *store, const char *scope, const struct store_cursor *behind,
			store_events_fn *fn, void *arg)
{
	struct share *s = find(store, scope);
	struct want *w = malloc(sizeof(*w));
	bool first = !s;

	if (w && first)
		s = create(store, scope);
	if (!w || !s) {
		free(w);
		fn(arg, -ENOMEM, NULL);
		return;
	}
	*w = (struct want){ .behind = *behind, .fn = fn, .arg = arg };
	sl_list_append(&s->wants, &w->node);
	if (first)
		read_next(s);
}
