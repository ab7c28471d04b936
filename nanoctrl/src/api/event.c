/* SPDX-License-Identifier: Apache-2.0 */
#include "api/event.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <event2/event.h>
#include "api/api.h"
#include "nanoctrl/net/loop.h"
#include "http/stream.h"
#include "api/event_cursor.h"

#define WAIT_MAX_MS 30000
#define LAST_MAX    1000

/* A reader of events: a request that waits, or a stream. */
struct watch {
	struct request *rq;    /* of a long poll, until it is replied to */
	struct stream *stream; /* of lines */
	struct event *timer;   /* the end of a long poll */
	bool lost; /* lines were dropped, and there was no room to say so: a reset is owed */
	struct event_cursor *cursor;
	struct store *store;
	char scope[STORE_NAME_MAX + 1];
	char to[STORE_NAME_MAX + 1]; /* the agent that watches, "" for none */
};

static void free_watch(struct watch *w)
{
	event_cursor_close(w->cursor);
	if (w->timer)
		event_free(w->timer);
	free(w);
}

/* ---- long poll ---- */

static void answer(struct watch *w, const struct store_events *ev, bool reset)
{
	struct store_cursor at = event_cursor_at(w->cursor);

	api_reply(w->rq, 200, model_events(ev, &at, reset, w->to));
	free_watch(w);
}

static bool concerns(const struct watch *w, const struct store_events *ev)
{
	for (size_t i = 0; i < ev->n; i++)
		if (!*ev->events[i].to || strcmp(ev->events[i].to, w->to) == 0)
			return true;
	return false;
}

static void on_poll_events(void *arg, const struct store_events *ev)
{
	struct watch *w = arg;

	if (ev->reset)
		answer(w, NULL, true);
	else if (concerns(w, ev))
		answer(w, ev, false);
}

/* No event is known to have happened. */
static void end_poll(void *arg)
{
	struct watch *w = arg;

	if (!event_cursor_failed(w->cursor)) {
		answer(w, NULL, false);
		return;
	}
	api_fail(w->rq, -ENOTCONN);
	free_watch(w);
}

/* Events that were there before the request are told however short its wait is. */
static void on_poll_timer(evutil_socket_t fd, short what, void *arg)
{
	struct watch *w = arg;

	(void)fd;
	(void)what;
	if (!event_cursor_await(w->cursor, end_poll))
		end_poll(w);
}

/* A server that shuts down answers soon, but a cursor is a place: it has to be known. */
static void on_poll_end(void *arg, struct request *rq, enum request_end why)
{
	struct watch *w = arg;

	(void)rq;
	if (why == REQUEST_GONE)
		answer(w, NULL, false);
	else if (!event_cursor_await(w->cursor, end_poll))
		end_poll(w);
}

static void start_poll(struct watch *w, const struct store_cursor *from, uint64_t wait_ms)
{
	w->timer = evtimer_new(request_base(w->rq), on_poll_timer, w);
	if (!w->timer ||
	    event_cursor_open(w->store, w->scope, from, on_poll_events, w, &w->cursor)) {
		api_fail(w->rq, -ENOMEM);
		free_watch(w);
		return;
	}
	loop_set_timer(w->timer, (unsigned)wait_ms);
	request_on_end(w->rq, on_poll_end, w);
}

/* ---- lines ---- */

static bool send_line(struct watch *w, const char *line)
{
	return stream_send(w->stream, line, strlen(line)) != -ENOBUFS;
}

static void send_reset(struct watch *w)
{
	struct store_cursor at =
		w->cursor ? event_cursor_at(w->cursor) : (struct store_cursor){ 0 };

	w->lost = !api_tell_reset(w->stream, &at);
}

/* A reset tells of all that came with it, too: the cursor is behind that already. */
static void on_line_events(void *arg, const struct store_events *ev)
{
	struct watch *w = arg;

	if (ev->reset || w->lost) {
		send_reset(w);
		return;
	}
	for (size_t i = 0; i < ev->n; i++) {
		const struct store_event *e = &ev->events[i];
		const char *line;

		if (*e->to && strcmp(e->to, w->to) != 0)
			continue;
		line = model_event(ev->epoch, e);
		if (!line || !send_line(w, line)) {
			send_reset(w);
			break;
		}
	}
}

static void on_tick(void *arg, struct stream *stream)
{
	struct watch *w = arg;

	(void)stream;
	if (w->lost || !send_line(w, "{\"type\":\"beat\"}"))
		send_reset(w);
	if (w->cursor)
		event_cursor_poke(w->cursor);
}

static void on_leave(void *arg, struct stream *stream, enum stream_leave why)
{
	(void)stream;
	send_line(arg, why == STREAM_AGE ? "{\"type\":\"goaway\",\"reason\":\"age\"}"
					 : "{\"type\":\"goaway\",\"reason\":\"drain\"}");
}

static void on_closed(void *arg)
{
	free_watch(arg);
}

static const struct stream_ops line_ops = {
	.tick = on_tick,
	.leave = on_leave,
	.closed = on_closed,
};

static void start_lines(struct watch *w, const struct store_cursor *from)
{
	w->stream = stream_open_lines(w->rq, &line_ops, w);
	w->rq = NULL;
	if (!w->stream) { /* the client left while we asked for the holder */
		free_watch(w);
		return;
	}
	if (event_cursor_open(w->store, w->scope, from, on_line_events, w, &w->cursor))
		stream_close(w->stream, 1011, "out of memory");
}

/* ---- both ---- */

/* Looks at the rest of the query and begins. */
static void start(struct watch *w)
{
	struct store_cursor from;
	uint64_t wait_ms = 0;
	bool given;

	if (!api_cursor(w->rq, &from, &given) ||
	    !api_query_number(w->rq, "wait_ms", 0, WAIT_MAX_MS, 0, &wait_ms)) {
		free_watch(w);
		return;
	}
	if (request_query(w->rq, "wait_ms"))
		start_poll(w, given ? &from : NULL, wait_ms);
	else
		start_lines(w, given ? &from : NULL);
}

static struct watch *new_watch(struct request *rq, const char *scope, const char *to)
{
	struct watch *w = calloc(1, sizeof(*w));

	if (!w) {
		api_fail(rq, -ENOMEM);
		return NULL;
	}
	w->rq = rq;
	w->store = request_store(rq);
	memcpy(w->scope, scope, strlen(scope) + 1);
	memcpy(w->to, to, strlen(to) + 1);
	return w;
}

static void last_read(void *arg, int result, const struct store_events *ev)
{
	struct store_cursor at = { 0 };

	if (result) {
		api_fail(arg, result);
		return;
	}
	at = (struct store_cursor){ ev->epoch, ev->last };
	api_reply(arg, 200, model_events(ev, &at, ev->reset, ""));
}

/* Events that are kept, and no waiting for others. */
static void start_last(struct request *rq, const char *scope)
{
	uint64_t n;

	if (api_query_number(rq, "last", 1, LAST_MAX, 0, &n))
		store_read_last_events(request_store(rq), scope, (unsigned)n, last_read, rq);
}

void api_event_scope(struct request *rq)
{
	const char *scope = api_scope(rq);
	struct watch *w = NULL;

	if (scope && request_query(rq, "last"))
		start_last(rq, scope);
	else if (scope)
		w = new_watch(rq, scope, "");
	if (w)
		start(w);
}

static void holder_known(void *arg, int result, const struct store_page *page)
{
	struct watch *w = arg;

	(void)page;
	if (result) {
		api_fail(w->rq, result);
		free_watch(w);
		return;
	}
	start(w);
}

void api_event_agent(struct request *rq)
{
	const char *scope = api_scope(rq);
	struct api_who who;
	struct watch *w;

	if (!scope || !api_owner(rq, &who))
		return;
	w = new_watch(rq, scope, who.agent);
	if (w)
		store_get_holder(w->store, scope, &who.lease, holder_known, w);
}
