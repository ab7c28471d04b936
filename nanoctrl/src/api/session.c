/* SPDX-License-Identifier: Apache-2.0 */
#include "api/session.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <event2/buffer.h>
#include <base/clock.h>
#include "api/api.h"
#include "http/stream.h"
#include "api/event_cursor.h"

#define SESSION_ID_BYTES 16
#define LINE_MAX_BYTES	 512
#define AGENTS_MAX	 1000000 /* that are counted: others may have written any number */

/* WebSocket close codes of ours. */
enum { CLOSE_RESYNC = 4001, CLOSE_SUPERSEDED = 4002, CLOSE_REPLACED = 4003 };

/*
 * It lives from the request until its stream is closed and no call of the store is out. `over`
 * means that the server ends it, with a reason that is told: then the lease is left alone.
 */
struct session {
	struct request *rq; /* until the upgrade */
	struct store *store;
	struct stream *stream; /* NULL before the upgrade and after the end */
	struct event_cursor *cursor;
	struct api_who who;
	struct store_cursor from; /* where events begin */
	bool from_given;
	uint64_t epoch; /* of the registration */
	uint64_t generation;
	uint64_t acked;
	uint64_t beat_ns; /* when the lease was last extended */
	unsigned n_inflight;
	bool beating;
	bool beat_again;
	bool checking; /* asks the store whether this is still the session of the agent */
	bool over;
	bool lost; /* messages were dropped, and there was no room to say so: a reset is owed */
	char id[2 * SESSION_ID_BYTES + 1];
	char scope[STORE_NAME_MAX + 1];
};

static _Atomic unsigned n_sessions;

void api_session_metrics(struct evbuffer *out)
{
	evbuffer_add_printf(out,
			    "# HELP nanoctrl_sessions Sessions of agents that are open.\n"
			    "# TYPE nanoctrl_sessions gauge\nnanoctrl_sessions %u\n",
			    atomic_load(&n_sessions));
}

/* So many agents that come back at once are spread over this time. */
static unsigned spread_ms(uint64_t n)
{
	if (n > AGENTS_MAX)
		n = AGENTS_MAX;
	return n > 2000 ? (unsigned)n / 2 : 1000;
}

static void free_if_done(struct session *s)
{
	if (!s->stream && !s->rq && !s->n_inflight)
		free(s);
}

static uint32_t ttl_ms(const struct session *s)
{
	return store_config(s->store)->ttl_ms;
}

static int64_t lease_left_ms(const struct session *s)
{
	uint64_t gone = (sl_clock_ns() - s->beat_ns) / SL_NS_PER_MS;

	return (int64_t)ttl_ms(s) - (int64_t)gone;
}

/* An agent that leaves while its lease runs, and sends no more heartbeats, has to be back before
 * the lease ends. */
static unsigned absence_ms(const struct session *s)
{
	int64_t most = lease_left_ms(s) / 2;
	unsigned ms = spread_ms(atomic_load(&n_sessions));

	if (most < 0)
		return 0;
	return ms < most ? ms : (unsigned)most;
}

/* ---- to the agent ---- */

/* The agent misses something, and has to look again. */
static void say_reset(struct session *s)
{
	struct store_cursor at = s->cursor ? event_cursor_at(s->cursor) : s->from;

	s->lost = !api_tell_reset(s->stream, &at);
}

static bool say(struct session *s, const char *line)
{
	if (!s->stream)
		return false;
	if (stream_send(s->stream, line, strlen(line)) != -ENOBUFS)
		return true;
	say_reset(s);
	return false;
}

static void say_hello(struct session *s)
{
	char cursor[MODEL_CURSOR_MAX];
	char line[LINE_MAX_BYTES];

	model_format_cursor(cursor, &s->from);
	snprintf(line, sizeof(line),
		 "{\"type\":\"hello\",\"epoch\":%" PRIu64 ",\"generation\":%" PRIu64
		 ",\"cursor\":\"%s\",\"ttl_ms\":%u,\"beat_ms\":%u,\"tick_ms\":%u}",
		 s->epoch, s->generation, cursor, ttl_ms(s), store_config(s->store)->beat_ms,
		 stream_tick_ms(s->stream));
	say(s, line);
}

static void say_beat(struct session *s)
{
	char line[LINE_MAX_BYTES];

	snprintf(line, sizeof(line), "{\"type\":\"beat\",\"lease_left_ms\":%" PRId64 "}",
		 lease_left_ms(s));
	say(s, line);
}

static void end(struct session *s, const char *line, unsigned code, const char *reason)
{
	if (s->over || !s->stream)
		return;
	s->over = true;
	event_cursor_close(s->cursor);
	s->cursor = NULL;
	say(s, line);
	stream_close(s->stream, code, reason);
}

/* With another epoch the agents of all servers come back. */
static void end_resync(struct session *s, uint64_t epoch)
{
	bool all = epoch != s->epoch;
	uint64_t n = atomic_load(&n_sessions);
	char line[LINE_MAX_BYTES];

	if (all && store_leases(s->store) > n)
		n = store_leases(s->store);
	snprintf(line, sizeof(line), "{\"type\":\"resync\",\"cause\":\"%s\",\"spread_ms\":%u}",
		 all ? "epoch" : "lease", spread_ms(n));
	end(s, line, CLOSE_RESYNC, "resync");
}

/* Ends the session where the store's answer means that. Whether it is over. */
static bool end_if_over(struct session *s, int result, uint64_t epoch)
{
	/* In another epoch "replaced" may only mean that Redis lost the record of the session. */
	if ((result == STORE_OK || result == STORE_REPLACED) && epoch != s->epoch)
		end_resync(s, epoch);
	else if (result == STORE_LEASE_GONE)
		end_resync(s, epoch);
	else if (result == STORE_SUPERSEDED)
		end(s, "{\"type\":\"superseded\"}", CLOSE_SUPERSEDED, "superseded");
	else if (result == STORE_REPLACED)
		end(s, "{\"type\":\"goaway\",\"reason\":\"replaced\",\"spread_ms\":0}",
		    CLOSE_REPLACED, "replaced");
	else
		return s->over;
	return true;
}

/* ---- beats ---- */

static void beat(struct session *s);

static void say_unavailable(struct session *s)
{
	say(s,
	    "{\"type\":\"error\",\"code\":\"unavailable\",\"message\":\"the beat was not taken\"}");
}

static void on_beat(void *arg, int result, uint64_t epoch)
{
	struct session *s = arg;

	s->n_inflight--;
	s->beating = false;
	if (result == STORE_OK && epoch == s->epoch)
		s->beat_ns = sl_clock_ns();
	if (!end_if_over(s, result, epoch)) {
		if (result == STORE_OK)
			say_beat(s);
		else
			say_unavailable(s);
	}
	if (s->beat_again && s->stream && !s->over)
		beat(s);
	free_if_done(s);
}

/* One beat is out at a time; what comes meanwhile is one more. */
static void beat(struct session *s)
{
	s->beat_again = s->beating;
	if (s->beating)
		return;
	s->beating = true;
	s->n_inflight++;
	store_beat(s->store, s->scope, &s->who.lease, s->id,
		   &(struct store_cursor){ s->epoch, s->acked }, on_beat, s);
}

static void on_looked(void *arg, int result, const struct store_page *page)
{
	struct session *s = arg;

	s->n_inflight--;
	s->checking = false;
	if (result == STORE_OK && strcmp(page->agents[0].session, s->id) != 0)
		result = STORE_REPLACED;
	if (page)
		end_if_over(s, result, page->cursor.epoch);
	else if (s->stream && !s->over &&
		 (result == STORE_LEASE_GONE || result == STORE_SUPERSEDED))
		beat(s); /* it is over: a beat renews nothing, and brings the epoch */
	free_if_done(s);
}

/* An agent that sends heartbeats learns from the answer that its session ended. When an agent stops
 * sending, its lease ends, which is an event, unless a newer session or plain heartbeats renew it.
 */
static void check_end(struct session *s)
{
	if (s->checking || s->beating || lease_left_ms(s) > 0)
		return;
	s->checking = true;
	s->n_inflight++;
	store_get_holder(s->store, s->scope, &s->who.lease, on_looked, s);
}

/* ---- events ---- */

/* Whether an event says that our own lease may be over. */
static bool concerns_us(const struct session *s, const struct store_event *e)
{
	if (strcmp(e->agent, s->who.agent) != 0)
		return false;
	if (strcmp(e->type, "registered") == 0)
		return e->generation > s->generation;
	return e->generation == s->generation &&
	       (strcmp(e->type, "left") == 0 || strcmp(e->type, "expired") == 0);
}

static bool say_event(struct session *s, uint64_t epoch, const struct store_event *e)
{
	const char *line;

	if (*e->to && strcmp(e->to, s->who.agent) != 0)
		return true;
	line = model_event(epoch, e);
	if (!line)
		say_reset(s);
	return line && say(s, line);
}

/* A reset tells of all that came with it, too: the cursor is behind that already. */
static void on_events(void *arg, const struct store_events *ev)
{
	struct session *s = arg;
	bool check = ev->reset && ev->epoch != s->epoch;
	bool telling = !ev->reset && !s->lost;

	if (!telling)
		say_reset(s);
	for (size_t i = 0; i < ev->n; i++) {
		const struct store_event *e = &ev->events[i];

		check = check || concerns_us(s, e);
		telling = telling && say_event(s, ev->epoch, e);
	}
	if (check)
		beat(s);
}

/* ---- the stream ---- */

static void say_error(struct session *s, const struct model_error *err)
{
	char line[LINE_MAX_BYTES];
	char message[sizeof(err->message)];
	size_t n = 0;

	/* The message quotes the agent's own text: keep to what needs no escaping. */
	for (const char *p = err->message; *p; p++)
		message[n++] = *p >= ' ' && *p < 0x7f && *p != '"' && *p != '\\' ? *p : '?';
	message[n] = '\0';
	snprintf(line, sizeof(line), "{\"type\":\"error\",\"code\":\"%s\",\"message\":\"%s\"}",
		 err->code, message);
	say(s, line);
}

static void on_message(void *arg, struct stream *stream, const char *text, size_t len)
{
	struct session *s = arg;
	struct store_cursor cursor = { 0 };
	struct model_error err;

	if (s->over)
		return;
	if (model_parse_message(text, len, &cursor, &err)) {
		say_error(s, &err);
		/* all of it is at fault */
		if (err.status < 500 && !*err.field) {
			event_cursor_close(s->cursor);
			s->cursor = NULL;
			stream_close(stream, 1008, "not a JSON object");
		}
		return;
	}
	if (cursor.epoch == s->epoch && cursor.id > s->acked)
		s->acked = cursor.id;
	beat(s);
}

static void on_tick(void *arg, struct stream *stream)
{
	struct session *s = arg;

	(void)stream;
	if (s->over)
		return;
	if (s->lost)
		say_reset(s);
	say_beat(s);
	check_end(s);
	if (s->cursor)
		event_cursor_poke(s->cursor);
}

static void on_leave(void *arg, struct stream *stream, enum stream_leave why)
{
	struct session *s = arg;
	char line[LINE_MAX_BYTES];

	(void)stream;
	if (s->over)
		return;
	snprintf(line, sizeof(line), "{\"type\":\"goaway\",\"reason\":\"%s\",\"spread_ms\":%u}",
		 why == STREAM_AGE ? "age" : "drain", absence_ms(s));
	say(s, line);
	s->over = true;
	event_cursor_close(s->cursor);
	s->cursor = NULL;
}

static void on_closed(void *arg)
{
	struct session *s = arg;

	atomic_fetch_sub(&n_sessions, 1);
	event_cursor_close(s->cursor);
	s->cursor = NULL;
	s->stream = NULL;
	if (!s->over)
		store_lose_session(s->store, s->scope, &s->who.lease, s->id);
	free_if_done(s);
}

static const struct stream_ops session_ops = {
	.message = on_message,
	.tick = on_tick,
	.leave = on_leave,
	.closed = on_closed,
};

static void on_opened(void *arg, int result, const struct store_grant *grant)
{
	struct session *s = arg;
	struct request *rq = s->rq;

	s->n_inflight--;
	s->rq = NULL;
	if (result) {
		api_fail(rq, result);
		free_if_done(s);
		return;
	}
	s->epoch = grant->cursor.epoch;
	s->generation = grant->generation;
	s->beat_ns = sl_clock_ns();
	if (!s->from_given)
		s->from = grant->cursor;
	s->stream = stream_upgrade(rq, &session_ops, s);
	if (!s->stream) {
		store_lose_session(s->store, s->scope, &s->who.lease, s->id);
		free_if_done(s);
		return;
	}
	atomic_fetch_add(&n_sessions, 1);
	say_hello(s);
	if (event_cursor_open(s->store, s->scope, &s->from, on_events, s, &s->cursor))
		stream_close(s->stream, 1011, "out of memory");
}

void api_session(struct request *rq)
{
	const char *scope = api_scope(rq);
	struct api_who who;
	struct store_cursor from;
	struct session *s;
	uint64_t order;
	bool given;

	/* A refused request must not replace the session that is open: the store is asked last. */
	if (!scope || !api_owner(rq, &who) || !api_cursor(rq, &from, &given) ||
	    !api_query_number(rq, "order", 1, API_ORDER_MAX, 0, &order) ||
	    !stream_check_upgrade(rq))
		return;
	s = calloc(1, sizeof(*s));
	if (!s || digest_random(s->id, SESSION_ID_BYTES)) {
		free(s);
		api_fail(rq, -ENOMEM);
		return;
	}
	s->rq = rq;
	s->store = request_store(rq);
	s->who = who;
	s->who.lease.agent = s->who.agent;
	s->who.lease.secret_hash = s->who.secret_hash;
	s->from = from;
	s->from_given = given;
	memcpy(s->scope, scope, strlen(scope) + 1);
	s->n_inflight = 1;
	store_open_session(s->store, s->scope, &s->who.lease, s->id, order, on_opened, s);
}
