/* SPDX-License-Identifier: Apache-2.0 */
#include "api/event_cursor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct event_cursor {
	struct store *store;
	struct store_follower follower;
	struct store_cursor at;
	struct store_cursor heard; /* where the store was when it told us during the read */
	event_cursor_fn *fn;
	void (*idle)(void *arg); /* called when the read ends */
	void *arg;
	bool known;   /* at is a place */
	bool reading; /* a read is out */
	bool again;   /* there is more behind it */
	bool failed;  /* the last read had no answer */
	bool closed;  /* to be freed when the read is back */
	char scope[STORE_NAME_MAX + 1];
};

struct store_cursor event_cursor_at(const struct event_cursor *t)
{
	return t->at;
}

static void read_on(struct event_cursor *t);

/* Tell what is behind t->at of a batch that begins no later than that. */
static void tell(struct event_cursor *t, const struct store_events *ev)
{
	struct store_events rest = *ev;

	while (rest.n && rest.events->id <= t->at.id) {
		rest.events++;
		rest.n--;
	}
	if (!rest.n)
		return;
	t->at.id = rest.events[rest.n - 1].id;
	t->fn(t->arg, &rest);
}

/* The answer to our own read. */
static void take_read(struct event_cursor *t, const struct store_events *ev)
{
	if (!t->known) {
		t->known = true;
		t->at = (struct store_cursor){ ev->epoch, ev->last };
		return;
	}
	/* A scope that had no epoch has one now: its events begin with the first. */
	if (!t->at.epoch && ev->epoch) {
		t->at = (struct store_cursor){ ev->epoch, 0 };
		t->again = true;
		return;
	}
	if (ev->reset || ev->epoch != t->at.epoch) {
		t->at = (struct store_cursor){ ev->epoch, ev->last };
		t->fn(t->arg, ev);
		return;
	}
	t->again = t->again || (ev->n && ev->events[ev->n - 1].id < ev->last);
	tell(t, ev);
}

/* Whether there was more than the read has told: it may have been answered before that. */
static bool is_behind(const struct event_cursor *t)
{
	return t->heard.epoch && (t->heard.epoch != t->at.epoch || t->heard.id > t->at.id);
}

static void on_read(void *arg, int result, const struct store_events *ev)
{
	struct event_cursor *t = arg;

	/* reading stays set, so that closing from inside leaves the cursor to us. */
	t->failed = result != STORE_OK;
	if (result == STORE_OK && !t->closed)
		take_read(t, ev);
	t->reading = false;
	if (t->closed)
		free(t);
	else if ((t->again || is_behind(t)) && !t->failed)
		read_on(t);
	else if (t->idle)
		t->idle(t->arg);
}

static void read_on(struct event_cursor *t)
{
	t->again = false;
	t->reading = true;
	t->heard = (struct store_cursor){ 0 };
	store_share_events(t->store, t->scope, &t->at, on_read, t);
}

/* Whether the batch shows that there is something between us and it, or that our place is not one
 * any more. */
static bool is_apart(const struct event_cursor *t, const struct store_events *ev)
{
	if (!t->known || ev->reset || ev->epoch != t->at.epoch)
		return true;
	return ev->n ? ev->events->id > t->at.id + 1 : ev->last != t->at.id;
}

/* A batch of events that the store sends to all followers: taken if it continues ours, else a sign
 * to read. */
static void on_batch(void *arg, const struct store_events *ev)
{
	struct event_cursor *t = arg;

	if (t->reading) {
		t->again = t->again || ev->reset;
		t->heard = (struct store_cursor){ ev->epoch,
						  ev->n ? ev->events[ev->n - 1].id : ev->last };
		return;
	}
	if (is_apart(t, ev)) {
		read_on(t);
		return;
	}
	t->reading = true;
	tell(t, ev);
	t->reading = false;
	if (t->closed)
		free(t);
}

int event_cursor_open(struct store *store, const char *scope, const struct store_cursor *from,
		      event_cursor_fn *fn, void *arg, struct event_cursor **out)
{
	struct event_cursor *t = calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	t->store = store;
	t->fn = fn;
	t->arg = arg;
	t->follower.events = on_batch;
	t->follower.arg = t;
	memcpy(t->scope, scope, strlen(scope) + 1);
	if (from) {
		t->at = *from;
		t->known = true;
	}
	if (store_follow(store, scope, &t->follower)) {
		free(t);
		return -ENOMEM;
	}
	read_on(t);
	*out = t;
	return 0;
}

void event_cursor_close(struct event_cursor *t)
{
	if (!t)
		return;
	store_unfollow(t->store, &t->follower);
	t->closed = true;
	if (!t->reading)
		free(t);
}

bool event_cursor_await(struct event_cursor *t, void (*idle)(void *arg))
{
	if (t->reading)
		t->idle = idle;
	return t->reading;
}

bool event_cursor_failed(const struct event_cursor *t)
{
	return t->failed;
}

void event_cursor_poke(struct event_cursor *t)
{
	if (t->failed && !t->reading)
		read_on(t);
}
