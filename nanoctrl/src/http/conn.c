/* SPDX-License-Identifier: Apache-2.0 */
#include "http/conn.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>

#include "base/clock.h"
#include "base/log.h"
#include "nanoctrl/net/loop.h"
#include "nanoctrl/net/send.h"
#include "http/worker.h"

#define INPUT_MAX  65536  /* of what waits behind a request */
#define READ_MAX   16384  /* at once */
#define OUTPUT_MAX 262144 /* replies not yet taken, before the next request is read */
#define BURST	   16	  /* requests of one connection in one turn of the loop */
#define LINGER_MS  2000

#define BIT(state) (1u << (state))

static const struct {
	const char *name;
	unsigned next;
} states[CONN_STATES] = {
	[CONN_READING] = { "reading", BIT(CONN_HANDLING) | BIT(CONN_FLUSHING) | BIT(CONN_BROKEN) },
	[CONN_HANDLING] = { "handling", BIT(CONN_READING) | BIT(CONN_STREAMING) |
						BIT(CONN_FLUSHING) | BIT(CONN_BROKEN) },
	[CONN_STREAMING] = { "streaming", BIT(CONN_FLUSHING) | BIT(CONN_BROKEN) },
	[CONN_FLUSHING] = { "flushing", BIT(CONN_LINGERING) | BIT(CONN_BROKEN) },
	[CONN_LINGERING] = { "lingering", BIT(CONN_BROKEN) },
	[CONN_BROKEN] = { "broken", 0 },
};

static const struct http_refusal given_up = {
	503, "busy", NULL,
	"requests that have not arrived in full hold too much memory, and this is one of the largest"
};

static void move(struct conn *c, enum conn_state to)
{
	assert(states[c->state].next & BIT(to));
	sl_debug("http", "%s: %s, then %s", c->peer, states[c->state].name, states[to].name);
	c->state = to;
}

static void set_deadline(struct conn *c, unsigned ms)
{
	loop_set_timer(&c->deadline, ms);
}

struct evbuffer *conn_output(struct conn *c)
{
	if (sl_list_empty(&c->unsent)) {
		sl_list_append(&c->w->unsent, &c->unsent);
		event_active(c->w->send, EV_TIMEOUT, 0);
	}
	return bufferevent_get_output(c->bev);
}

size_t conn_unsent(const struct conn *c)
{
	return evbuffer_get_length(bufferevent_get_output(c->bev));
}

void conn_close(struct conn *c)
{
	struct request *rq = c->rq;
	struct stream *s = c->stream;
	const struct conn_stream_ops *ops = c->stream_ops;

	c->rq = NULL;
	c->stream = NULL;
	sl_list_remove(&c->link);
	sl_list_remove(&c->unsent);
	event_del(&c->readable);
	event_del(&c->again);
	event_del(&c->deadline);
	budget_hold(&c->w->budget, &c->share, 0);
	metrics_uncount(c->w->n_conns);
	metrics_uncount(c->w->metrics->connections);
	http_parser_fini(&c->parser);
	bufferevent_free(c->bev);
	free(c);
	if (s)
		ops->gone(s);
	if (rq)
		request_end(rq, REQUEST_GONE);
}

void conn_break(struct conn *c)
{
	if (c->state == CONN_BROKEN)
		return;
	move(c, CONN_BROKEN);
	event_active(&c->again, EV_TIMEOUT, 0);
}

/* Some of the input is taken: there is room for more. */
static void read_on(struct conn *c)
{
	if (!c->full || evbuffer_get_length(bufferevent_get_input(c->bev)) >= INPUT_MAX)
		return;
	c->full = event_add(&c->readable, NULL);
}

/* Everything is sent. The client may still be sending: what it sends is discarded, since a reset
 * would take our reply with it. */
static void linger(struct conn *c)
{
	if (c->eof) {
		conn_break(c);
		return;
	}
	move(c, CONN_LINGERING);
	shutdown(bufferevent_getfd(c->bev), SHUT_WR);
	evbuffer_drain(bufferevent_get_input(c->bev), INPUT_MAX);
	read_on(c);
	set_deadline(c, LINGER_MS);
}

void conn_finish(struct conn *c)
{
	if (c->state == CONN_FLUSHING || c->state == CONN_LINGERING || c->state == CONN_BROKEN)
		return;
	move(c, CONN_FLUSHING);
	event_del(&c->deadline);
	if (!conn_unsent(c))
		linger(c);
}

void conn_replied(struct conn *c, bool keep)
{
	c->rq = NULL;
	if (!keep || c->eof || c->w->phase != WORKER_SERVING) {
		conn_finish(c);
		return;
	}
	move(c, CONN_READING);
	c->timed = false;
	set_deadline(c, c->w->config->idle_ms);
	if (!c->advancing && evbuffer_get_length(bufferevent_get_input(c->bev)))
		event_active(&c->again, EV_TIMEOUT, 0);
}

void conn_become_stream(struct conn *c, struct stream *s, const struct conn_stream_ops *ops)
{
	c->rq = NULL;
	c->stream = s;
	c->stream_ops = ops;
	move(c, CONN_STREAMING);
	event_del(&c->deadline);
	if (evbuffer_get_length(bufferevent_get_input(c->bev)))
		event_active(&c->again, EV_TIMEOUT, 0);
}

/* The route is unknown, and the parser has not read the rest. */
static void refuse(struct conn *c, const struct http_refusal *why)
{
	c->w->ops->refuse(c, why);
	http_parser_fini(&c->parser);
	http_parser_init(&c->parser, &c->w->config->limits);
	budget_hold(&c->w->budget, &c->share, 0);
	move(c, CONN_FLUSHING);
	event_del(&c->deadline);
}

static void give_up(struct conn *c)
{
	static struct sl_log_limit limit = SL_LOG_LIMIT_INIT(5, 10000);
	uint32_t held_back;

	if (sl_log_allow(&limit, &held_back))
		sl_warn("http",
			"requests that have not arrived in full hold too much memory: one of %s of "
			"%zu bytes was refused (%u more lines held back)",
			c->peer, c->share.bytes, held_back);
	refuse(c, &given_up);
}

/* Memory for the parser comes from the loop's budget. Other connections may have to give memory up
 * for it. */
static bool make_room(struct conn *c)
{
	struct budget *budget = &c->w->budget;
	struct budget_share *payer;

	budget_hold(budget, &c->share, c->parser.head_room + c->parser.body_room);
	while ((payer = budget_payer(budget, &c->share))) {
		give_up(SL_CONTAINER_OF(payer, struct conn, share));
		if (payer == &c->share)
			return false;
	}
	return true;
}

static void dispatch(struct conn *c)
{
	struct http_message msg;
	struct request *rq;
	size_t held = budget_keep(&c->w->budget, &c->share);

	http_parser_take(&c->parser, &msg);
	rq = request_create(c, c->w, c->peer, &msg, held);
	if (!rq) {
		http_message_fini(&msg);
		budget_release(&c->w->budget, held);
		conn_break(c);
		return;
	}
	move(c, CONN_HANDLING);
	c->rq = rq;
	event_del(&c->deadline);
	c->w->ops->serve(rq);
}

/* How many of the bytes that wait follow each other, and where; 0: none wait. */
static size_t first_bytes(const struct conn *c, const char **at)
{
	struct evbuffer *in = bufferevent_get_input(c->bev);
	struct evbuffer_iovec v;

	*at = c->fresh;
	if (!evbuffer_get_length(in))
		return c->n_fresh;
	if (evbuffer_peek(in, -1, NULL, &v, 1) < 1)
		return 0;
	*at = v.iov_base;
	return v.iov_len;
}

static void drop_bytes(struct conn *c, size_t n)
{
	struct evbuffer *in = bufferevent_get_input(c->bev);

	if (evbuffer_get_length(in)) {
		evbuffer_drain(in, n);
		return;
	}
	c->fresh += n;
	c->n_fresh -= n;
}

/* Feeds the parser what is there. One that was given up is not reading any more. */
static enum http_parse parse(struct conn *c)
{
	enum http_parse got = HTTP_MORE;
	const char *at;
	size_t len, used;

	while (got == HTTP_MORE && (len = first_bytes(c, &at))) {
		got = http_parser_feed(&c->parser, at, len, &used);
		drop_bytes(c, used);
		if (got != HTTP_REFUSED && !make_room(c))
			return HTTP_MORE;
	}
	return got;
}

static void await_more(struct conn *c)
{
	if (c->eof) {
		conn_finish(c);
		return;
	}
	if (http_parser_wants_continue(&c->parser))
		evbuffer_add(conn_output(c), "HTTP/1.1 100 Continue\r\n\r\n", 25);
	if (http_parser_busy(&c->parser) && !c->timed) {
		c->timed = true;
		set_deadline(c, c->w->config->request_ms);
	}
}

/* Reads requests while there are any and nothing is in their way. */
static void advance(struct conn *c)
{
	c->advancing = true;
	for (int i = 0; c->state == CONN_READING; i++) {
		enum http_parse got;

		if (conn_unsent(c) > OUTPUT_MAX)
			break; /* goes on when it has left */
		if (i == BURST) {
			event_active(&c->again, EV_TIMEOUT, 0);
			break;
		}
		got = parse(c);
		if (got == HTTP_DONE)
			dispatch(c);
		else if (got == HTTP_REFUSED)
			refuse(c, c->parser.refusal);
		else if (c->state == CONN_READING)
			await_more(c);
		if (got == HTTP_MORE)
			break;
	}
	c->advancing = false;
	read_on(c);
}

static void go_on(struct conn *c)
{
	switch (c->state) {
	case CONN_READING:
		advance(c);
		break;
	case CONN_STREAMING:
		c->stream_ops->readable(c->stream, bufferevent_get_input(c->bev));
		read_on(c);
		break;
	case CONN_FLUSHING:
	case CONN_LINGERING:
		evbuffer_drain(bufferevent_get_input(c->bev), INPUT_MAX);
		read_on(c);
		break;
	case CONN_BROKEN:
		conn_close(c);
		break;
	default:
		break;
	}
}

static void on_again(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	go_on(arg);
}

static void output_left(struct conn *c)
{
	if (c->state == CONN_FLUSHING)
		linger(c);
	else if (c->state == CONN_STREAMING)
		c->stream_ops->writable(c->stream);
	else if (c->state == CONN_READING)
		go_on(c);
}

static void on_writable(struct bufferevent *bev, void *arg)
{
	send_begin(bev);
	output_left(arg);
}

void conn_send_all(struct worker *w)
{
	struct sl_list now, *e;

	sl_list_init(&now);
	sl_list_splice(&now, &w->unsent);
	while ((e = sl_list_pop(&now))) {
		struct conn *c = SL_CONTAINER_OF(e, struct conn, unsent);

		if (conn_unsent(c) && c->state != CONN_BROKEN && send_now(c->bev))
			output_left(c);
	}
}

/* The output does not leave, or is not acknowledged: libevent or the kernel notices it first. */
static void stalled(struct conn *c)
{
	if (c->stream)
		metrics_count(c->w->metrics->stream_stalls);
	sl_debug("http", "%s: the client takes nothing, connection closed", c->peer);
	conn_close(c);
}

static void on_eof(struct conn *c)
{
	c->eof = true;
	/* A client that shuts down its sending side only cannot be told from one that has gone. It
	 * gets what is replied already. */
	if (c->state == CONN_READING)
		advance(c);
	if (c->state == CONN_HANDLING || c->state == CONN_STREAMING || c->state == CONN_LINGERING)
		conn_close(c);
}

/* A request is parsed where it was read. What is not taken of it at once is kept. */
static void take(struct conn *c, const char *bytes, size_t n)
{
	struct evbuffer *in = bufferevent_get_input(c->bev);
	bool at_once = c->state == CONN_READING && !evbuffer_get_length(in);

	c->fresh = bytes;
	c->n_fresh = n;
	if (at_once)
		advance(c);
	if (c->n_fresh && evbuffer_add(in, c->fresh, c->n_fresh))
		conn_break(c);
	c->n_fresh = 0;
	if (evbuffer_get_length(in) >= INPUT_MAX) {
		event_del(&c->readable);
		c->full = true;
	}
	if (!at_once || c->state != CONN_READING)
		go_on(c);
}

/* A bufferevent would ask how much there is, and make room for it, before it reads. */
static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct conn *c = arg;
	size_t room = INPUT_MAX - evbuffer_get_length(bufferevent_get_input(c->bev));
	char bytes[READ_MAX];
	ssize_t n = recv(fd, bytes, room < READ_MAX ? room : READ_MAX, MSG_DONTWAIT);

	(void)what;
	if (n > 0) {
		take(c, bytes, (size_t)n);
	} else if (!n) {
		event_del(&c->readable);
		on_eof(c);
	} else if (errno == ETIMEDOUT) {
		stalled(c);
	} else if (errno != EAGAIN && errno != EINTR) {
		conn_close(c);
	}
}

/* Of the output alone. */
static void on_event(struct bufferevent *bev, short what, void *arg)
{
	struct conn *c = arg;

	(void)bev;
	if (what & BEV_EVENT_TIMEOUT)
		stalled(c);
	else
		conn_close(c);
}

static void on_deadline(evutil_socket_t fd, short what, void *arg)
{
	static const struct http_refusal too_slow = { 408, "timeout", NULL,
						      "the request did not arrive in time" };
	struct conn *c = arg;

	(void)fd;
	(void)what;
	if (c->state == CONN_READING && http_parser_busy(&c->parser)) {
		metrics_count(c->w->metrics->timeouts);
		refuse(c, &too_slow);
		return;
	}
	/* It is not idle while it takes a reply; when it takes nothing it is cut off as stalled. */
	if (c->state == CONN_READING && conn_unsent(c)) {
		set_deadline(c, c->w->config->idle_ms);
		return;
	}
	conn_close(c);
}

/* A peer that vanished without a word is noticed in the time that a stalled one is, after several
 * questions: TCP_USER_TIMEOUT counts from when it was last heard, and ends it at the next one. */
static void set_socket_options(int fd, unsigned stall_ms)
{
	int one = 1, idle = 4, interval = 2, count = 3;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &stall_ms, sizeof(stall_ms));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
}

int conn_open(struct worker *w, int fd, const char *peer)
{
	struct timeval stall = { .tv_sec = w->config->stall_ms / 1000,
				 .tv_usec = (w->config->stall_ms % 1000) * 1000 };
	struct event_base *base = loop_base(w->loop);
	struct conn *c = calloc(1, sizeof(*c));

	if (!c) {
		close(fd);
		return -ENOMEM;
	}
	event_assign(&c->readable, base, fd, EV_READ | EV_PERSIST, on_readable, c);
	c->bev = bufferevent_socket_new(base, fd, BEV_OPT_CLOSE_ON_FREE);
	if (!c->bev) {
		close(fd);
		free(c);
		return -ENOMEM;
	}
	if (event_add(&c->readable, NULL)) {
		bufferevent_free(c->bev);
		free(c);
		return -ENOMEM;
	}
	set_socket_options(fd, w->config->stall_ms);
	c->w = w;
	strncpy(c->peer, peer, sizeof(c->peer) - 1);
	http_parser_init(&c->parser, &w->config->limits);
	event_assign(&c->again, base, -1, 0, on_again, c);
	event_assign(&c->deadline, base, -1, 0, on_deadline, c);
	sl_list_append(&w->conns, &c->link);
	sl_list_init(&c->unsent);
	budget_enter(&w->budget, &c->share, c->peer);
	metrics_count(w->metrics->connections);
	bufferevent_setcb(c->bev, NULL, on_writable, on_event, c);
	bufferevent_set_timeouts(c->bev, NULL, &stall);
	evbuffer_unfreeze(bufferevent_get_input(c->bev), 0);
	send_begin(c->bev);
	set_deadline(c, w->config->idle_ms);
	return 0;
}
