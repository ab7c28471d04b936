/* SPDX-License-Identifier: Apache-2.0 */
/* Events of a scope: reading them, and feeds that tell followers of new ones. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "nanoctrl/net/loop.h"
#include "store/call.h"
#include "store/event.h"
#include "store/redis_store.h"
#include "store/reply.h"

#define FEED_BATCH 256
#define LATER_MS   100 /* to a read in the place of one that was refused */

/* ---- reading ---- */

static const char *field(const redisReply *fields, char name)
{
	for (size_t i = 0; fields && i + 1 < fields->elements; i += 2) {
		const char *key = store_string(fields, i, NULL);

		if (key[0] == name && !key[1])
			return store_string(fields, i + 1, NULL);
	}
	return "";
}

/* {"id-0", {t, type, a, agent, g, generation, i, incarnation, o, object, d, to, n, number, m,
 * time}} */
static bool read_event(const redisReply *row, struct store_event *e)
{
	const redisReply *fields = store_item(row, 1, REDIS_REPLY_ARRAY);
	char *end;

	*e = (struct store_event){
		.id = strtoull(store_string(row, 0, NULL), &end, 10),
		.type = field(fields, 't'),
		.agent = field(fields, 'a'),
		.generation = strtoull(field(fields, 'g'), NULL, 10),
		.incarnation = field(fields, 'i'),
		.object = field(fields, 'o'),
		.to = field(fields, 'd'),
		.number = strtoull(field(fields, 'n'), NULL, 10),
		.at_ms = strtoull(field(fields, 'm'), NULL, 10),
	};
	return e->id && *end == '-' && *e->type && *e->agent;
}

/* Events of an answer, with room for the texts that are made of them. */
struct parsed_events {
	struct store_event *events;
	char **texts;
	size_t room;
};

static void free_events(struct parsed_events *p)
{
	for (size_t i = 0; p->texts && i < p->room; i++)
		free(p->texts[i]);
	free(p->texts);
	free(p->events);
}

/* Junk in the stream is a gap, and a gap is a reset. */
static void take_rows(const struct store_call *call, const redisReply *rows,
		      struct parsed_events *p, struct store_events *ev)
{
	for (ev->n = 0; ev->n < rows->elements; ev->n++) {
		struct store_event *e = &p->events[ev->n];

		if (!read_event(rows->element[ev->n], e) || (ev->n && e->id != e[-1].id + 1)) {
			atomic_fetch_add(&call->store->hub->n_skipped, 1);
			ev->reset = true;
			break;
		}
		e->text = &p->texts[ev->n];
	}
	if (ev->reset)
		ev->n = 0;
}

/* {outcome, epoch, reset, last, entries, now or nothing} */
static int read_events(const struct store_call *call, const redisReply *reply,
		       struct parsed_events *p, struct store_events *ev)
{
	const redisReply *rows = store_item(reply, 4, REDIS_REPLY_ARRAY);
	uint64_t reset;

	if (!store_u64(reply, 1, &ev->epoch) || !store_u64(reply, 2, &reset) ||
	    !store_u64(reply, 3, &ev->last) || !rows)
		return -EPROTO;
	store_u64(reply, 5, &ev->now_ms);
	p->room = rows->elements;
	p->events = calloc(p->room + 1, sizeof(*p->events));
	p->texts = calloc(p->room + 1, sizeof(*p->texts));
	if (!p->events || !p->texts)
		return -ENOMEM;
	ev->reset = reset != 0;
	ev->events = p->events;
	take_rows(call, rows, p, ev);
	return 0;
}

static void finish_events(struct store_call *call, int result, const redisReply *reply)
{
	struct parsed_events parsed = { .room = 0 };
	struct store_events ev = { .n = 0 };

	if (result == STORE_OK)
		result = read_events(call, reply, &parsed, &ev);
	atomic_fetch_add(&call->store->hub->n_events, ev.n);
	call->fn.events(call->arg, result, result == STORE_OK ? &ev : NULL);
	free_events(&parsed);
}

void store_read_events(struct store *store, const char *scope, const struct store_cursor *behind,
		       unsigned limit, store_events_fn *fn, void *arg)
{
	struct store_args a = { .n = 0 };

	store_arg_number(&a, behind->epoch);
	store_arg_number(&a, behind->id);
	store_arg_number(&a, limit);
	store_send(store, scope, &scripts[SCRIPT_EVENTS], &a, finish_events,
		   (union store_answer){ .events = fn }, arg);
}

void store_read_last_events(struct store *store, const char *scope, unsigned limit,
			    store_events_fn *fn, void *arg)
{
	struct store_args a = { .n = 0 };

	store_arg_number(&a, limit);
	store_send(store, scope, &scripts[SCRIPT_EVENTS_LAST], &a, finish_events,
		   (union store_answer){ .events = fn }, arg);
}

/* ---- feeds ---- */

/* How far a scope's events were told to its followers. Lives while it has some, or a read is out.
 */
struct feed {
	struct sl_list node;
	struct store *store;
	struct sl_list followers;
	struct event *later; /* reads */
	struct store_cursor at;
	bool known;   /* at is a place: the first read was answered */
	bool reading; /* a read is out */
	bool again;   /* something happened since it went out */
	bool lost;    /* events may be lost: tell followers where the events end */
	char scope[KEY_NAME_MAX + 1];
};

static void read_on(struct feed *f);

static void drop_if_idle(struct feed *f)
{
	if (f->reading || !sl_list_empty(&f->followers))
		return;
	sl_list_remove(&f->node);
	event_free(f->later);
	free(f);
}

/* Followers may leave, or others come, from inside; each present at the start is told once. */
static void tell(struct feed *f, const struct store_events *events)
{
	struct sl_list todo;
	struct sl_list *e;

	sl_list_init(&todo);
	sl_list_splice(&todo, &f->followers);
	while ((e = sl_list_pop(&todo))) {
		struct store_follower *one = SL_CONTAINER_OF(e, struct store_follower, node);

		sl_list_append(&f->followers, e);
		one->events(one->arg, events);
	}
}

/* Whether followers need the answer. They need the first one: earlier events may be missing in the
 * answers to reads that were sent before it. */
static bool move_on(struct feed *f, const struct store_events *ev)
{
	if (!f->known || ev->reset || ev->epoch != f->at.epoch) {
		f->known = true;
		f->at = (struct store_cursor){ ev->epoch, ev->last };
		return true;
	}
	if (ev->n)
		f->at.id = ev->events[ev->n - 1].id;
	return ev->n;
}

static void take_events(struct feed *f, const struct store_events *ev)
{
	bool is_new;

	/* A scope that had no epoch has one now: its events begin with the first. */
	if (f->known && !f->at.epoch && ev->epoch) {
		f->at = (struct store_cursor){ ev->epoch, 0 };
		f->again = true;
		return;
	}
	is_new = move_on(f, ev) || f->lost;
	f->lost = false;
	if (f->at.id < ev->last)
		f->again = true;
	if (is_new)
		tell(f, ev);
}

static void on_events(void *arg, int result, const struct store_events *ev)
{
	struct feed *f = arg;
	/* Then all are woken when it is back; but it may have come back before this answer. */
	bool broken = result == -ENOTCONN || result == -EIO;

	if (result == STORE_OK)
		take_events(f, ev);
	f->reading = false;
	if (sl_list_empty(&f->followers) || f->store->closing)
		drop_if_idle(f);
	else if (result == STORE_OK && f->again)
		read_on(f);
	else if (result != STORE_OK && (f->again || !broken))
		loop_set_timer(f->later, LATER_MS);
}

static void on_later(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	read_on(arg);
}

static void read_on(struct feed *f)
{
	if (f->reading) {
		f->again = true;
		return;
	}
	f->reading = true;
	f->again = false;
	store_read_events(f->store, f->scope, &f->at, FEED_BATCH, on_events, f);
}

static struct feed *find_feed(struct store *store, const char *scope)
{
	struct sl_list *bucket = &store->feeds[store_bucket(store->hub, scope)], *e;

	sl_list_for_each (e, bucket) {
		struct feed *f = SL_CONTAINER_OF(e, struct feed, node);

		if (strcmp(f->scope, scope) == 0)
			return f;
	}
	return NULL;
}

static struct feed *add_feed(struct store *store, const char *scope)
{
	struct feed *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->later = evtimer_new(store->base, on_later, f);
	if (!f->later) {
		free(f);
		return NULL;
	}
	f->store = store;
	sl_list_init(&f->followers);
	memcpy(f->scope, scope, strlen(scope) + 1);
	sl_list_append(&store->feeds[store_bucket(store->hub, scope)], &f->node);
	return f;
}

int store_follow(struct store *store, const char *scope, struct store_follower *follower)
{
	struct feed *f = find_feed(store, scope);
	bool first = !f;

	if (first)
		f = add_feed(store, scope);
	if (!f)
		return -ENOMEM;
	follower->feed = f;
	sl_list_append(&f->followers, &follower->node);
	atomic_fetch_add(&store->hub->n_watchers, 1);
	if (first)
		read_on(f);
	return 0;
}

void store_unfollow(struct store *store, struct store_follower *follower)
{
	sl_list_remove(&follower->node);
	atomic_fetch_sub(&store->hub->n_watchers, 1);
	drop_if_idle(follower->feed);
}

void store_wake(struct store *store, const char *scope)
{
	struct feed *f = find_feed(store, scope);

	if (f)
		read_on(f);
}

static void wake_feeds(struct store *store, unsigned bucket, bool lost)
{
	struct sl_list *e, *tmp;

	sl_list_for_each_safe (e, tmp, &store->feeds[bucket]) {
		struct feed *f = SL_CONTAINER_OF(e, struct feed, node);

		f->lost = f->lost || lost;
		read_on(f);
	}
}

static void wake_bucket(struct store *store, unsigned bucket)
{
	wake_feeds(store, bucket, false);
}

void store_wake_all(struct store *store)
{
	for (unsigned i = 0; i < SCOPE_BUCKETS; i++)
		wake_feeds(store, i, true);
}

/* ---- scopes that other loops noted ---- */

static void wake(struct store *store, const struct wakes *w)
{
	if (w->all) {
		store_wake_all(store);
		return;
	}
	for (unsigned i = 0; i < w->n; i++)
		store_wake(store, w->scopes[i]);
	for (unsigned i = 0; w->n == WAKES_MAX && i < SCOPE_BUCKETS; i++)
		if (w->buckets[i / 64] >> i % 64 & 1)
			wake_bucket(store, i);
}

void store_take_wakes(void *arg)
{
	struct store *store = arg;
	struct wakes w;

	pthread_mutex_lock(&store->hub->lock);
	w = store->wakes;
	memset(&store->wakes, 0, sizeof(store->wakes));
	pthread_mutex_unlock(&store->hub->lock);
	wake(store, &w);
}
