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

#define POLL_MS 250 /* for scopes that have topologies now */

struct expander {
	struct scope_place place;
	struct event *timer;
	struct sl_list scopes;
	size_t n_scopes;
	bool querying; /* a question for the scopes is out */
	bool closing;
};

static void free_if_done(struct expander *e)
{
	if (e->closing && !e->querying && !e->n_scopes)
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
	e->querying = false;
	for (size_t i = 0; !result && !e->closing && i < n; i++) {
		if (knows(e, scopes[i].name))
			continue;
		/* Without memory the next query finds it. */
		if (!scope_create(&e->place, scopes[i].name, &e->scopes, on_scope_ended, e))
			e->n_scopes++;
	}
	free_if_done(e);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct expander *e = arg;

	(void)fd;
	(void)what;
	if (e->querying)
		return;
	e->querying = true;
	store_topology_scopes(e->place.store, on_scopes, e);
}

static int start_worker(struct expander *e)
{
	int ret = loop_create(&e->place.worker);

	return ret ? ret : loop_run(e->place.worker, "expander");
}

static int start_timer(struct expander *e)
{
	struct timeval every = { .tv_usec = POLL_MS * 1000 };

	e->timer = event_new(loop_base(e->place.loop), -1, EV_PERSIST, on_timer, e);
	return e->timer && !event_add(e->timer, &every) ? 0 : -ENOMEM;
}

int expander_create(struct store *store, struct loop *loop, struct expander **out)
{
	struct expander *e = calloc(1, sizeof(*e));
	int ret;

	if (!e)
		return -ENOMEM;
	e->place = (struct scope_place){ .store = store, .loop = loop };
	sl_list_init(&e->scopes);
	ret = start_worker(e);
	if (!ret)
		ret = start_timer(e);
	if (ret)
		goto destroy;
	*out = e;
	return 0;

destroy:
	if (e->timer)
		event_free(e->timer);
	loop_destroy(e->place.worker);
	free(e);
	return ret;
}

void expander_destroy(struct expander *e)
{
	struct sl_list *node, *next;

	event_free(e->timer);
	/* The expansion that it has finished is posted, and ends with the scope. */
	loop_destroy(e->place.worker);
	e->closing = true;
	e->n_scopes++; /* it is not freed in the midst of this */
	sl_list_for_each_safe (node, next, &e->scopes)
		scope_close(node);
	e->n_scopes--;
	free_if_done(e);
}
