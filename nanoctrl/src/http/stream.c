/* SPDX-License-Identifier: Apache-2.0 */
#include "http/stream.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <event2/buffer.h>
#include <event2/event.h>

#include "base/clock.h"
#include "base/log.h"
#include "http/conn.h"
#include "nanoctrl/net/loop.h"
#include "http/reply.h"
#include "http/request.h"
#include "http/worker.h"
#include "nanoctrl/net/ws_frame.h"

#define MESSAGE_MAX 65536 /* of a client's message */
#define OUTPUT_LOW \
	16384	      /* the socket's buffer is filled up to here; the rest can still be dropped */
#define CLOSE_MS 5000 /* for the client to answer a close frame */

struct stream {
	struct conn *conn; /* NULL: the end is being told */
	struct worker *w;
	const struct stream_ops *ops;
	void *arg;
	bool websocket;
	bool chunked;
	bool closing;	      /* nothing more is sent */
	bool left;	      /* ops->leave was called */
	struct sl_list queue; /* messages of which nothing has gone out */
	size_t queued;	      /* their bytes */
	struct ws_parser parser;
	struct event tick;
	struct event leave;
};

/* One message as it goes over the wire. */
struct message {
	struct sl_list link;
	size_t len;
	unsigned char bytes[];
};

static void drop_queue(struct stream *s)
{
	struct sl_list *e;

	while ((e = sl_list_pop(&s->queue)))
		free(SL_CONTAINER_OF(e, struct message, link));
	s->queued = 0;
}

unsigned stream_tick_ms(const struct stream *s)
{
	return s->w->config->tick_ms;
}

size_t stream_queued(const struct stream *s)
{
	return s->queued + (s->conn ? conn_unsent(s->conn) : 0);
}

/* The bytes around a message. */
static size_t write_prefix(const struct stream *s, enum ws_opcode opcode, size_t len, char out[24])
{
	if (s->websocket)
		return ws_frame_header(opcode, len, (unsigned char *)out);
	return s->chunked ? (size_t)snprintf(out, 24, "%zx\r\n", len + 1) : 0;
}

static const char *suffix_of(const struct stream *s)
{
	return s->websocket ? "" : s->chunked ? "\n\r\n" : "\n";
}

static struct message *make_message(const struct stream *s, enum ws_opcode opcode, const char *text,
				    size_t len)
{
	char prefix[24];
	size_t prefix_len = write_prefix(s, opcode, len, prefix);
	size_t suffix_len = strlen(suffix_of(s));
	struct message *m = malloc(sizeof(*m) + prefix_len + len + suffix_len);

	if (!m)
		return NULL;
	m->len = prefix_len + len + suffix_len;
	memcpy(m->bytes, prefix, prefix_len);
	memcpy(m->bytes + prefix_len, text, len);
	memcpy(m->bytes + prefix_len + len, suffix_of(s), suffix_len);
	return m;
}

/* Moves whole messages to the socket's buffer. */
static void pump(struct stream *s)
{
	struct evbuffer *out = conn_output(s->conn);

	while (!sl_list_empty(&s->queue) && evbuffer_get_length(out) < OUTPUT_LOW) {
		struct message *m = SL_CONTAINER_OF(sl_list_pop(&s->queue), struct message, link);

		s->queued -= m->len;
		if (evbuffer_add(out, m->bytes, m->len))
			conn_break(s->conn);
		free(m);
	}
	if (s->closing && sl_list_empty(&s->queue) && !s->websocket)
		conn_finish(s->conn);
}

int stream_send(struct stream *s, const char *text, size_t len)
{
	struct message *m;

	if (!s->conn || s->closing)
		return -EPIPE;
	m = make_message(s, WS_TEXT, text, len);
	if (!m || stream_queued(s) + m->len > s->w->config->stream_queue) {
		free(m);
		drop_queue(s);
		metrics_count(s->w->metrics->stream_resets);
		return -ENOBUFS;
	}
	sl_list_append(&s->queue, &m->link);
	s->queued += m->len;
	metrics_count(s->w->metrics->stream_messages);
	pump(s);
	return 0;
}

/* A control frame goes before what is queued, and is left out when the client does not read: it
 * only answers. */
static void send_control(struct stream *s, enum ws_opcode opcode, const char *payload, size_t len)
{
	struct evbuffer *out = conn_output(s->conn);
	unsigned char header[WS_HEADER_MAX];
	size_t n = ws_frame_header(opcode, len, header);

	if (evbuffer_get_length(out) >= OUTPUT_LOW)
		return;
	evbuffer_add(out, header, n);
	evbuffer_add(out, payload, len);
}

static void queue_close_frame(struct stream *s, unsigned code, const char *reason)
{
	char payload[WS_CONTROL_MAX];
	size_t len = strnlen(reason, WS_CONTROL_MAX - 2);
	struct message *m;

	payload[0] = (char)(code >> 8);
	payload[1] = (char)code;
	memcpy(payload + 2, reason, len);
	m = make_message(s, WS_CLOSE, payload, len + 2);
	if (!m) {
		conn_break(s->conn);
		return;
	}
	sl_list_append(&s->queue, &m->link);
	s->queued += m->len;
}

static void queue_last_chunk(struct stream *s)
{
	static const char last[] = "0\r\n\r\n";
	struct message *m = malloc(sizeof(*m) + sizeof(last) - 1);

	if (!m) {
		conn_break(s->conn);
		return;
	}
	m->len = sizeof(last) - 1;
	memcpy(m->bytes, last, m->len);
	sl_list_append(&s->queue, &m->link);
	s->queued += m->len;
}

void stream_close(struct stream *s, unsigned code, const char *reason)
{
	if (!s->conn || s->closing)
		return;
	s->closing = true;
	event_del(&s->tick);
	if (s->websocket)
		queue_close_frame(s, code, reason);
	else if (s->chunked)
		queue_last_chunk(s);
	/* The client closes now; one that does not is cut off. */
	loop_set_timer(&s->leave, CLOSE_MS);
	pump(s);
}

static void leave(struct stream *s, enum stream_leave why)
{
	if (s->left || s->closing)
		return;
	s->left = true;
	if (s->ops->leave)
		s->ops->leave(s->arg, s, why);
	stream_close(s, WS_CLOSE_AWAY, why == STREAM_DRAIN ? "shutting down" : "session is old");
}

static void on_leave(evutil_socket_t fd, short what, void *arg)
{
	struct stream *s = arg;

	(void)fd;
	(void)what;
	if (s->closing)
		conn_break(s->conn);
	else
		leave(s, s->w->phase == WORKER_SERVING ? STREAM_AGE : STREAM_DRAIN);
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
	struct stream *s = arg;

	(void)fd;
	(void)what;
	loop_set_timer(&s->tick, s->w->config->tick_ms);
	s->ops->tick(s->arg, s);
}

void stream_leave_now(struct stream *s)
{
	leave(s, STREAM_DRAIN);
}

void stream_leave_within(struct stream *s, unsigned ms)
{
	if (!s->closing)
		loop_set_timer(&s->leave, worker_random(ms + 1));
}

static void refuse_message(struct stream *s, unsigned code, const char *why)
{
	sl_debug("http", "%s: session closed: %s", s->conn->peer, why);
	stream_close(s, code, why);
}

static void take_message(struct stream *s)
{
	if (s->parser.opcode != WS_TEXT)
		refuse_message(s, WS_CLOSE_TYPE, "messages are text");
	else if (!s->ops->message)
		refuse_message(s, WS_CLOSE_POLICY, "nothing is expected from the client");
	else
		s->ops->message(s->arg, s, s->parser.payload, s->parser.len);
}

static void take_control(struct stream *s)
{
	if (s->parser.opcode == WS_PING) {
		send_control(s, WS_PONG, s->parser.payload, s->parser.len);
	} else if (s->parser.opcode == WS_CLOSE) {
		/* Either the answer to ours, or to be answered with the same code. */
		if (!s->closing)
			stream_close(s,
				     s->parser.close_code == 1005 ? WS_CLOSE_NORMAL
								  : s->parser.close_code,
				     "");
		conn_finish(s->conn);
	}
}

static void on_readable(struct stream *s, struct evbuffer *in)
{
	enum ws_event event = WS_MORE;
	struct evbuffer_iovec v;

	if (!s->websocket) { /* nothing is expected */
		evbuffer_drain(in, evbuffer_get_length(in));
		return;
	}
	while (event != WS_BAD && s->conn->state == CONN_STREAMING && evbuffer_get_length(in) &&
	       evbuffer_peek(in, -1, NULL, &v, 1) > 0) {
		size_t used;

		event = ws_parser_feed(&s->parser, v.iov_base, v.iov_len, &used);
		if (event == WS_CONTROL)
			take_control(s);
		else if (event == WS_MESSAGE && !s->closing)
			take_message(s);
		else if (event == WS_BAD)
			refuse_message(s, s->parser.close_code, "malformed frame");
		evbuffer_drain(in, used);
	}
	if (event == WS_BAD)
		conn_finish(s->conn);
}

static void on_writable(struct stream *s)
{
	pump(s);
}

static void on_gone(struct stream *s)
{
	s->conn = NULL;
	event_del(&s->tick);
	event_del(&s->leave);
	drop_queue(s);
	metrics_uncount(s->w->metrics->streams);
	s->ops->closed(s->arg);
	ws_parser_fini(&s->parser);
	free(s);
}

static const struct conn_stream_ops conn_stream_ops = {
	.readable = on_readable,
	.writable = on_writable,
	.gone = on_gone,
};

/* Turns the connection of rq into a stream; the head of the reply is written. NULL without memory.
 */
static struct stream *open_stream(struct request *rq, const struct stream_ops *ops, void *arg)
{
	unsigned age = rq->w->config->stream_age_ms;
	struct stream *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->conn = rq->conn;
	s->w = rq->w;
	s->ops = ops;
	s->arg = arg;
	sl_list_init(&s->queue);
	ws_parser_init(&s->parser, WS_CLIENT, MESSAGE_MAX);
	event_assign(&s->tick, loop_base(s->w->loop), -1, 0, on_tick, s);
	event_assign(&s->leave, loop_base(s->w->loop), -1, 0, on_leave, s);
	if (ops->tick)
		loop_set_timer(&s->tick, s->w->config->tick_ms);
	loop_set_timer(&s->leave, s->w->phase == WORKER_SERVING
					  ? age - age / 5 + worker_random(2 * (age / 5) + 1)
					  : 0);
	metrics_count(s->w->metrics->streams);
	return s;
}

static void begin_stream(struct request *rq, struct stream *s, int status)
{
	conn_become_stream(rq->conn, s, &conn_stream_ops);
	request_destroy(rq, status);
}

static void reply_no_memory(struct request *rq)
{
	reply_error(rq, &(struct reply_error){ .status = 503, .code = "busy", .retry_after_s = 1 },
		    "no memory for a stream");
}

struct stream *stream_open_lines(struct request *rq, const struct stream_ops *ops, void *arg)
{
	struct stream *s = rq->conn ? open_stream(rq, ops, arg) : NULL;
	bool head;

	if (!s) {
		reply_no_memory(rq);
		return NULL;
	}
	s->chunked = rq->msg.minor > 0;
	reply_head(rq, 200,
		   s->chunked ? "Content-Type: application/jsonl\r\nTransfer-Encoding: chunked\r\n"
			      : "Content-Type: application/jsonl\r\n",
		   false, conn_output(s->conn));
	head = rq->head;
	begin_stream(rq, s, 200);
	if (head) {
		s->chunked = false; /* not even the end of a body */
		stream_close(s, WS_CLOSE_NORMAL, "");
	}
	return s;
}

/* The value of Sec-WebSocket-Accept; false after an error was replied. */
static bool check_upgrade(struct request *rq, char accept[WS_ACCEPT_MAX])
{
	const char *upgrade = request_header(rq, "Upgrade");
	const char *version = request_header(rq, "Sec-WebSocket-Version");
	const char *key = request_header(rq, "Sec-WebSocket-Key");

	if (!rq->msg.upgrade || !upgrade || strcasecmp(upgrade, "websocket") != 0) {
		reply_header(rq, "Upgrade", "websocket");
		reply_error(rq,
			    &(struct reply_error){
				    .status = 426, .code = "upgrade_required", .field = "Upgrade" },
			    "this path is a WebSocket");
		return false;
	}
	if (!version || strcmp(version, "13") != 0) {
		reply_header(rq, "Sec-WebSocket-Version", "13");
		reply_error(rq,
			    &(struct reply_error){ .status = 426,
						   .code = "upgrade_required",
						   .field = "Sec-WebSocket-Version" },
			    "the WebSocket version is 13");
		return false;
	}
	if (rq->head || rq->msg.body_len || !key || !ws_accept(key, accept)) {
		reply_error(rq,
			    &(struct reply_error){ .status = 400,
						   .code = "bad_request",
						   .field = "Sec-WebSocket-Key" },
			    "Sec-WebSocket-Key is missing, malformed or there twice");
		return false;
	}
	return true;
}

bool stream_check_upgrade(struct request *rq)
{
	char accept[WS_ACCEPT_MAX];

	return check_upgrade(rq, accept);
}

struct stream *stream_upgrade(struct request *rq, const struct stream_ops *ops, void *arg)
{
	char accept[WS_ACCEPT_MAX], fields[128];
	struct stream *s;

	if (!check_upgrade(rq, accept))
		return NULL;
	s = rq->conn ? open_stream(rq, ops, arg) : NULL;
	if (!s) {
		reply_no_memory(rq);
		return NULL;
	}
	s->websocket = true;
	snprintf(fields, sizeof(fields),
		 "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n",
		 accept);
	reply_head(rq, 101, fields, true, conn_output(s->conn));
	begin_stream(rq, s, 101);
	return s;
}
