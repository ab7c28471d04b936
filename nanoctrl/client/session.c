/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's WebSocket: beats, events and acknowledgements, over one connection after the other.
 */
#include <errno.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "nanoctrl/client/call.h"
#include "nanoctrl/client/client.h"
#include "nanoctrl/client/json.h"
#include "nanoctrl/client/request.h"
#include "nanoctrl/client/servers.h"
#include "nanoctrl/client/session.h"
#include "nanoctrl/net/loop.h"
#include "nanoctrl/net/ws_frame.h"

#define PART "session"

#define CURSOR_MAX  64
#define MESSAGE_MAX (256 * 1024)
#define QUEUED_MAX  65536 /* bytes of ours that the server has not read */

/* For the connection to stand and the upgrade to be answered; and the silence that means a dead
 * one, where the server does not say how often it speaks. */
#define UPGRADE_TIMEOUT_MS 5000
#define SILENCE_MS	   15000
#define SILENCE_MIN_MS	   1000

#define RETRY_BASE_MS 50
#define RETRY_MAX_MS  5000
#define BEAT_MS_MIN   100
/* The longest wait, even if a server asks for more. */
#define SPREAD_MAX_MS	   300000
#define RETRY_AFTER_MAX_MS 60000
/* Between two lines of the log about what the server says again and again. */
#define SAY_AGAIN_MS 60000

enum state {
	WAITING,   /* for the timer to connect */
	UPGRADING, /* the request is on its way */
	OPEN,	   /* upgraded */
	ENDING,	   /* for the timer to say RESYNC */
};

struct nc_session {
	struct nc_client *client;
	const struct nc_session_ops *ops;
	void *arg;
	enum state state;
	struct nc_conn *conn;
	size_t server;
	struct ws_parser ws;
	char key[WS_KEY_MAX];
	struct event *timer; /* what WAITING and ENDING wait for, the time of UPGRADING, the beat */
	unsigned attempts;   /* since a session last stood */
	uint32_t beat_ms;
	bool up;		 /* hello came */
	uint64_t said_ns;	 /* when the log was told of an error; 0: never */
	char cursor[CURSOR_MAX]; /* behind the last event that was delivered; "" before the first */
};

static void drop_connection(struct nc_session *s)
{
	nc_conn_close(s->conn);
	s->conn = NULL;
	ws_parser_fini(&s->ws);
	ws_parser_init(&s->ws, WS_SERVER, MESSAGE_MAX);
	event_del(s->timer);
}

void nc_session_destroy(struct nc_session *s)
{
	if (!s)
		return;
	drop_connection(s);
	event_free(s->timer);
	free(s);
}

void nc_session_close(struct nc_client *client)
{
	nc_session_destroy(client->session);
	client->session = NULL;
}

bool nc_session_is_up(const struct nc_client *client)
{
	return client->session && client->session->up;
}

/*
 * Callbacks may close the session and open another, so each of these is the last thing that its
 * caller does with it, or is followed by a look whether it is still the same.
 */
static bool gone(const struct nc_client *client, uint64_t n_sessions)
{
	return !client->session || client->n_sessions != n_sessions;
}

static void say_down(struct nc_session *s, const char *cause)
{
	bool was_up = s->up;

	s->up = false;
	if (was_up && s->ops->down)
		s->ops->down(s->arg, cause);
}

/* The session is no more when the user hears of it, so that he may open the next one. */
static void end(struct nc_session *s, enum nc_session_end why, const struct nc_error *error)
{
	const struct nc_session_ops *ops = s->ops;
	struct nc_client *client = s->client;
	void *arg = s->arg;

	nc_session_close(client);
	ops->ended(arg, why, error);
}

static void reconnect(struct nc_session *s, uint64_t delay_ms, const char *cause)
{
	struct nc_client *client = s->client;

	drop_connection(s);
	s->state = WAITING;
	loop_set_timer(s->timer, delay_ms);
	if (s->up)
		sl_info(PART, "%s: %s: connecting again", client->agent, cause);
	say_down(s, cause);
}

void nc_session_restart(struct nc_session *s, const char *cause)
{
	if (s->state != ENDING)
		reconnect(s, 0, cause);
}

/* A session that was up and broke has cut the lease to its grace time: an agent that is back in
 * time keeps the lease. */
static uint64_t pause_ms(const struct nc_session *s)
{
	uint64_t half = s->client->grace_ms / 2, most = RETRY_MAX_MS;

	if (s->up && half && half < most)
		most = half;
	return nc_backoff_ms(s->attempts, RETRY_BASE_MS, most);
}

static void back_off(struct nc_session *s, uint64_t least_ms, const char *cause)
{
	uint64_t ms = least_ms + pause_ms(s);

	s->attempts++;
	nc_client_failed(s->client, s->server, cause, ms);
	reconnect(s, ms, cause);
}

/* --- talking --- */

static int send_frame(struct nc_session *s, enum ws_opcode opcode, const void *payload, size_t len)
{
	struct evbuffer *out;
	int ret;

	/* Output that a server does not read is bounded: pongs and beats are dropped instead of
	 * waiting. */
	if (nc_conn_queued(s->conn) > QUEUED_MAX)
		return -ENOBUFS;
	out = evbuffer_new();
	if (!out)
		return -ENOMEM;
	ret = ws_write_masked(out, opcode, payload, len);
	if (!ret)
		ret = nc_conn_send(s->conn, out, 0);
	evbuffer_free(out);
	return ret;
}

static void beat(struct nc_session *s)
{
	char *text = nc_json_beat(s->cursor[0] ? s->cursor : NULL);
	int ret = text ? send_frame(s, WS_TEXT, text, strlen(text)) : -ENOMEM;

	free(text);
	if (ret)
		back_off(s, 0, strerror(-ret));
	else
		loop_set_timer(s->timer, s->beat_ms);
}

/* --- messages --- */

static bool note_cursor(struct nc_session *s, const char *cursor)
{
	if (strlen(cursor) >= sizeof(s->cursor))
		return false;
	strcpy(s->cursor, cursor);
	return true;
}

/*
 * Three lines that did not come; or an answer to a beat that did not, for half of what is left of
 * the lease then: another server is to be found before it ends.
 */
static int silence_ms(const struct nc_message *m)
{
	uint64_t ms = m->tick_ms ? 3 * (uint64_t)m->tick_ms : SILENCE_MS;
	uint64_t renewal = ((uint64_t)m->ttl_ms + m->beat_ms) / 2;

	if (m->ttl_ms > m->beat_ms && renewal < ms)
		ms = renewal;
	if (ms < SILENCE_MIN_MS)
		ms = SILENCE_MIN_MS;
	return ms < INT32_MAX ? (int)ms : INT32_MAX;
}

static void take_hello(struct nc_session *s, const struct nc_message *m)
{
	if (!note_cursor(s, m->cursor)) {
		back_off(s, 0, "the cursor is too long");
		return;
	}
	s->up = true;
	s->beat_ms = m->beat_ms < BEAT_MS_MIN ? BEAT_MS_MIN : m->beat_ms;
	loop_set_timer(s->timer, s->beat_ms);
	nc_conn_set_silence(s->conn, silence_ms(m));
	/* From now on one connection is enough, most of the time: there may be thousands of us. */
	nc_client_drop_idle(s->client);
	if (s->ops->up)
		s->ops->up(s->arg);
}

static void take_event(struct nc_session *s, const struct nc_message *m)
{
	struct nc_client *client = s->client;
	uint64_t serial = client->n_sessions;

	if (s->ops->event)
		s->ops->event(s->arg, &m->event);
	if (!gone(client, serial) && !note_cursor(s, m->cursor))
		back_off(s, 0, "the cursor is too long");
}

static void take_reset(struct nc_session *s, const struct nc_message *m)
{
	if (!note_cursor(s, m->cursor)) {
		back_off(s, 0, "the cursor is too long");
		return;
	}
	if (s->ops->reset)
		s->ops->reset(s->arg);
}

static uint64_t spread(uint64_t ms)
{
	return sl_random_up_to(ms < SPREAD_MAX_MS ? ms : SPREAD_MAX_MS);
}

static void take_resync(struct nc_session *s, uint32_t spread_ms)
{
	drop_connection(s);
	s->state = ENDING;
	nc_client_set_lease(s->client, "");
	loop_set_timer(s->timer, spread(spread_ms));
	say_down(s, "the lease is gone");
}

static void take_goaway(struct nc_session *s, const struct nc_message *m)
{
	if (!strcmp(m->reason, "replaced")) {
		end(s, NC_SESSION_REPLACED, NULL);
		return;
	}
	/* A server that drains is not the one to come back to. */
	if (!strcmp(m->reason, "drain"))
		nc_client_avoid(s->client, s->server);
	reconnect(s, spread(m->spread_ms), "the server asked to go away");
}

/* Every beat has one while Redis is away. */
static void take_error(struct nc_session *s, const struct nc_message *m)
{
	uint64_t now_ns = sl_clock_ns();

	if (s->said_ns && now_ns - s->said_ns < SAY_AGAIN_MS * SL_NS_PER_MS)
		return;
	s->said_ns = now_ns;
	sl_warn(PART, "%s: the server says: %s", s->client->agent, m->reason);
}

static void take_message(struct nc_session *s, const struct nc_message *m)
{
	if (!s->up && m->type <= NC_MESSAGE_RESET && m->type != NC_MESSAGE_HELLO) {
		back_off(s, 0, "the server did not say hello");
		return;
	}
	switch (m->type) {
	case NC_MESSAGE_HELLO:
		take_hello(s, m);
		break;
	case NC_MESSAGE_EVENT:
		take_event(s, m);
		break;
	case NC_MESSAGE_RESET:
		take_reset(s, m);
		break;
	case NC_MESSAGE_RESYNC:
		take_resync(s, m->spread_ms);
		break;
	case NC_MESSAGE_SUPERSEDED:
		end(s, NC_SESSION_SUPERSEDED, NULL);
		break;
	case NC_MESSAGE_GOAWAY:
		take_goaway(s, m);
		break;
	case NC_MESSAGE_ERROR:
		take_error(s, m);
		break;
	case NC_MESSAGE_BEAT:
		/* It stands: one that died at its beginning each time would not come so far. */
		s->attempts = 0;
		break;
	default: /* of a later release */
		break;
	}
}

static void take_text(struct nc_session *s)
{
	struct nc_message message;
	struct nc_json *json;
	int ret = nc_json_parse(s->ws.payload, s->ws.len, &json);

	if (!ret) {
		ret = nc_json_message(json, &message);
		if (!ret)
			take_message(s, &message);
		nc_json_free(json);
	}
	if (ret)
		back_off(s, 0, "the server sent what is no message");
}

static void take_close(struct nc_session *s)
{
	unsigned code = s->ws.close_code;
	char cause[64];

	snprintf(cause, sizeof(cause), "the server closed the session with %u", code);
	/* The code says what the message before it said, should that have been lost. */
	switch (code) {
	case 4001:
		take_resync(s, 0);
		break;
	case 4002:
		end(s, NC_SESSION_SUPERSEDED, NULL);
		break;
	case 4003:
		end(s, NC_SESSION_REPLACED, NULL);
		break;
	default:
		back_off(s, 0, cause);
	}
}

static void take_data(struct nc_session *s)
{
	if (s->ws.opcode == WS_TEXT)
		take_text(s);
	else
		back_off(s, 0, "the server sent a binary message");
}

static void take_control(struct nc_session *s)
{
	if (s->ws.opcode == WS_CLOSE)
		take_close(s);
	else if (s->ws.opcode == WS_PING && send_frame(s, WS_PONG, s->ws.payload, s->ws.len))
		back_off(s, 0, "the server reads nothing");
}

/* One result of the parser; false when the connection is not to be read on. */
static bool take_frame(struct nc_session *s, enum ws_event what)
{
	struct nc_client *client = s->client;
	struct nc_conn *conn = s->conn;
	uint64_t serial = client->n_sessions;

	switch (what) {
	case WS_MORE:
		return true;
	case WS_MESSAGE:
		take_data(s);
		break;
	case WS_CONTROL:
		take_control(s);
		break;
	default:
		back_off(s, 0, "the server sent what is no WebSocket frame");
	}
	return !gone(client, serial) && s->conn == conn;
}

static void on_data(void *arg, struct evbuffer *in)
{
	struct nc_session *s = arg;

	while (evbuffer_get_length(in)) {
		struct evbuffer_iovec piece;
		enum ws_event what;
		size_t used;

		evbuffer_peek(in, -1, NULL, &piece, 1);
		what = ws_parser_feed(&s->ws, piece.iov_base, piece.iov_len, &used);
		evbuffer_drain(in, used);
		if (!take_frame(s, what))
			return;
	}
}

/* --- connecting --- */

static void refused(struct nc_session *s, const struct http_message *response)
{
	struct nc_error error;

	nc_client_read_error(response, &error);
	if (error.err == -EKEYREVOKED) {
		end(s, NC_SESSION_SUPERSEDED, NULL);
	} else if (error.err == -EKEYEXPIRED) {
		take_resync(s, 0);
	} else if (response->status == 408 || response->status == 429 || response->status >= 500) {
		uint64_t ms = nc_client_retry_after_ms(response);

		back_off(s, ms < RETRY_AFTER_MAX_MS ? ms : RETRY_AFTER_MAX_MS, error.message);
	} else {
		end(s, NC_SESSION_REFUSED, &error);
	}
}

static void on_answered(void *arg, const struct http_message *response)
{
	struct nc_session *s = arg;
	char expected[WS_ACCEPT_MAX];
	const char *accept;

	if (response->status != 101) {
		refused(s, response);
		return;
	}
	accept = http_message_field(response, "Sec-WebSocket-Accept");
	if (!http_message_lists(response, "Upgrade", "websocket") || !accept ||
	    !ws_accept(s->key, expected) || strcmp(accept, expected)) {
		back_off(s, 0, "the server's upgrade is none");
		return;
	}
	/* Until hello comes the timer of the upgrade runs on. */
	s->state = OPEN;
	nc_conn_set_silence(s->conn, SILENCE_MS);
}

static void on_failed(void *arg, int err, const char *cause)
{
	struct nc_session *s = arg;

	(void)err;
	back_off(s, 0, cause);
}

static const struct nc_conn_ops conn_ops = { on_answered, on_data, on_failed, NULL };

static int write_upgrade(struct nc_session *s, struct evbuffer *out)
{
	const char *const segments[] = { "agents", s->client->agent, "session", NULL };
	char order[24];
	const char *const query[] = { "cursor", s->cursor[0] ? s->cursor : NULL, "order", order,
				      NULL };
	char *target;
	int n = -1;

	/* One that was given up may arrive behind the next. */
	snprintf(order, sizeof(order), "%" PRIu64, ++s->client->n_upgrades);
	target = nc_client_target(s->client, segments, query);

	if (target)
		n = evbuffer_add_printf(out, "GET %s HTTP/1.1\r\n", target);
	free(target);
	if (n < 0 || nc_client_headers(s->client, out, s->server, true))
		return -ENOMEM;
	n = evbuffer_add_printf(out,
				"Upgrade: websocket\r\nConnection: Upgrade\r\n"
				"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\n\r\n",
				s->key);
	return n < 0 ? -ENOMEM : 0;
}

static int send_upgrade(struct nc_session *s)
{
	struct evbuffer *out = evbuffer_new();
	int ret;

	if (!out)
		return -ENOMEM;
	ret = ws_make_key(s->key);
	if (!ret)
		ret = write_upgrade(s, out);
	if (!ret)
		ret = nc_conn_send(s->conn, out, 0);
	evbuffer_free(out);
	return ret;
}

static void connect_now(struct nc_session *s)
{
	struct nc_client *client = s->client;
	int ret;

	s->server = client->server;
	ret = nc_conn_open(&s->conn, client->base, client->resolver, &client->urls[s->server],
			   &client->names[s->server], &conn_ops, s);
	if (!ret)
		ret = send_upgrade(s);
	if (ret) {
		back_off(s, 0, strerror(-ret));
		return;
	}
	s->state = UPGRADING;
	loop_set_timer(s->timer, UPGRADE_TIMEOUT_MS);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct nc_session *s = arg;

	(void)fd;
	(void)what;
	switch (s->state) {
	case WAITING:
		connect_now(s);
		break;
	case UPGRADING:
		back_off(s, 0, "the server does not answer the upgrade");
		break;
	case OPEN:
		if (s->up)
			beat(s);
		else
			back_off(s, 0, "the server did not say hello");
		break;
	case ENDING:
		end(s, NC_SESSION_RESYNC, NULL);
		break;
	}
}

int nc_session_open(struct nc_client *client, const struct nc_session_ops *ops, void *arg)
{
	struct nc_session *s;

	if (!client->lease[0])
		return -ENOKEY;
	if (client->session)
		return -EBUSY;
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->client = client;
	s->ops = ops;
	s->arg = arg;
	ws_parser_init(&s->ws, WS_SERVER, MESSAGE_MAX);
	s->timer = evtimer_new(client->base, on_timer, s);
	if (!s->timer) {
		free(s);
		return -ENOMEM;
	}
	client->session = s;
	client->n_sessions++;
	s->state = WAITING;
	loop_set_timer(s->timer, 0);
	return 0;
}
