/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/expander.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <event2/event.h>

#include "cluster/scope.h"
#include "nanoctrl/net/loop.h"
#include "store/store.h"

#define LOOK_MS 250 /* for scopes that have topologies now */

struct expander {
	struct store *store;
	struct event_base *base;
	struct event *timer;
	struct sl_list scopes;
	size_t n_scopes;
	bool looking; /* a question for the scopes is out */
	bool closing;
};

static void free_if_done(struct expander *e)
{
	if (e->closing && !e->looking && !e->n_scopes)
		free(e);
}

static void on_scope_ended(void *arg)
{
	struct expander *e = arg;

	e->n_scopes--;
	free_if_done(e);
}

static bool knows(const struct expander *e, const char *name)
{
	struct sl_list *node;

	sl_list_for_each (node, &e->scopes)
		if (!strcmp(scope_name(node), name))
			return true;
	return false;
}

static void on_scopes(void *arg, int result, const struct store_scope *scopes, size_t n,
		      const char *next)
{
	struct expander *e = arg;

	(void)next;
	e->looking = false;
	for (size_t i = 0; !result && !e->closing && i < n; i++) {
		if (knows(e, scopes[i].name))
			continue;
		/* Without memory the next look finds it. */
		if (!scope_create(e->store, e->base, scopes[i].name, &e->scopes, on_scope_ended, e))
			e->n_scopes++;
	}
	free_if_done(e);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct expander *e = arg;

	(void)fd;
	(void)what;
	if (e->looking)
		return;
	e->looking = true;
	store_topology_scopes(e->store, on_scopes, e);
}

int expander_create(struct store *store, struct loop *loop, struct expander **out)
{
	struct timeval every = { .tv_usec = LOOK_MS * 1000 };
	struct expander *e = calloc(1, sizeof(*e));

	if (!e)
		return -ENOMEM;
	e->store = store;
	e->base = loop_base(loop);
	sl_list_init(&e->scopes);
	e->timer = event_new(e->base, -1, EV_PERSIST, on_timer, e);
	if (!e->timer || event_add(e->timer, &every)) {
		if (e->timer)
			event_free(e->timer);
		free(e);
		return -ENOMEM;
	}
	*out = e;
	return 0;
}

void expander_destroy(struct expander *e)
{
	struct sl_list *node, *next;

	event_free(e->timer);
	e->closing = true;
	e->n_scopes++; /* it is not freed in the midst of this */
	sl_list_for_each_safe (node, next, &e->scopes)
		scope_close(node);
	e->n_scopes--;
	free_if_done(e);
}
