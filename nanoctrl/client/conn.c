/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/util.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "nanoctrl/client/conn.h"
#include "nanoctrl/net/resolver.h"

/* For the connection to stand, of which each address has an equal part; and for the kernel to take
 * what we send. */
#define SEND_TIMEOUT_MS	 3000
#define CONNECT_LEAST_MS 500
#define BODY_MAX	 (32 * 1024 * 1024)
/* An idle connection is closed before the server does it, which could cross with a request. */
#define IDLE_TIMEOUT_MS 20000

struct nc_conn {
	struct bufferevent *bev;
	const struct nc_conn_ops *ops;
	void *arg;
	struct nc_name *name;
	struct nc_lookup *lookup; /* or NULL */
	int lookup_error;
	struct nc_addresses addresses;
	size_t at;   /* of them */
	size_t from; /* where it was when it was given the last request */
	bool opened; /* nc_conn_open() has returned */
	bool connected, upgraded;
	bool owes;	/* an answer */
	int silence_ms; /* that it has for it */
	struct http_parser parser;
};

/* --- the addresses of the name --- */

static void leave(struct nc_conn *conn)
{
	if (conn->at < conn->addresses.n)
		conn->name->left = conn->addresses.list[conn->at];
}

bool nc_conn_is_left(const struct nc_conn *conn)
{
	return conn->name->n > 1 && conn->at < conn->addresses.n &&
	       nc_address_is(&conn->addresses.list[conn->at], &conn->name->left);
}

size_t nc_conn_tried(const struct nc_conn *conn)
{
	return conn->at - conn->from + 1;
}

/* Its end is of meaning; that of an idle one is not. */
static bool is_needed(const struct nc_conn *conn)
{
	return conn->owes || conn->upgraded || !conn->connected;
}

static void fail(struct nc_conn *conn, int err, const char *cause)
{
	if (is_needed(conn))
		leave(conn);
	conn->owes = false;
	conn->ops->failed(conn->arg, err, cause);
}

static int connect_ms(const struct nc_conn *conn)
{
	int ms = conn->addresses.n ? SEND_TIMEOUT_MS / (int)conn->addresses.n : SEND_TIMEOUT_MS;

	return ms < CONNECT_LEAST_MS ? CONNECT_LEAST_MS : ms;
}

/* Counted from now on. */
static void set_timeouts(struct nc_conn *conn, int silence_ms)
{
	int send_ms = conn->connected ? SEND_TIMEOUT_MS : connect_ms(conn);
	const struct timeval silence = { .tv_sec = silence_ms / 1000,
					 .tv_usec = silence_ms % 1000 * 1000 };
	const struct timeval send = { .tv_sec = send_ms / 1000, .tv_usec = send_ms % 1000 * 1000 };

	bufferevent_set_timeouts(conn->bev, &silence, &send);
}

/* The result, also a failure at once, is reported as an event. */
static void connect_here(struct nc_conn *conn)
{
	const struct nc_address *a = &conn->addresses.list[conn->at];

	set_timeouts(conn, conn->silence_ms);
	errno = 0;
	if (bufferevent_socket_connect(conn->bev, (const struct sockaddr *)&a->at, (int)a->len))
		bufferevent_trigger_event(conn->bev, BEV_EVENT_ERROR, BEV_TRIG_DEFER_CALLBACKS);
	else
		bufferevent_enable(conn->bev, EV_READ | EV_WRITE);
}

/* True when there is one; what waits to be sent waits for it. */
static bool try_next_address(struct nc_conn *conn)
{
	int fd = bufferevent_getfd(conn->bev);

	if (conn->connected || conn->at + 1 >= conn->addresses.n)
		return false;
	leave(conn);
	conn->at++;
	bufferevent_disable(conn->bev, EV_READ | EV_WRITE);
	bufferevent_setfd(conn->bev, -1);
	if (fd >= 0)
		evutil_closesocket(fd);
	connect_here(conn);
	return true;
}

static void on_found(void *arg, int error, const struct addrinfo *list)
{
	struct nc_conn *conn = arg;

	if (!error)
		nc_name_take(conn->name, list, &conn->addresses);
	if (!error && !conn->addresses.n)
		error = EVUTIL_EAI_NONAME;
	conn->lookup_error = error;
	if (error) {
		bufferevent_trigger_event(conn->bev, BEV_EVENT_ERROR, BEV_TRIG_DEFER_CALLBACKS);
		return;
	}
	connect_here(conn);
	if (conn->opened && conn->ops->found)
		conn->ops->found(conn->arg);
}

/* --- answers --- */

static void fail_response(struct nc_conn *conn)
{
	const struct http_refusal *why = conn->parser.refusal;
	char cause[160];

	switch (why->status) {
	case 503:
		fail(conn, -ENOMEM, "no memory for the answer");
		break;
	case 413:
	case 431:
		fail(conn, -EMSGSIZE, "the answer is too large");
		break;
	default:
		snprintf(cause, sizeof(cause), "the answer is no HTTP: %s", why->text);
		fail(conn, -EPROTO, cause);
	}
}

/* The response goes out of the connection first: the callback may close it, or send the next
 * request. */
static void deliver(struct nc_conn *conn)
{
	struct http_message response;

	http_parser_take(&conn->parser, &response);
	conn->upgraded = response.status == 101;
	conn->owes = false;
	if (conn->silence_ms != IDLE_TIMEOUT_MS) {
		conn->silence_ms = IDLE_TIMEOUT_MS;
		set_timeouts(conn, conn->silence_ms);
	}
	if (response.status >= 502 && response.status <= 504)
		leave(conn);
	if (nc_conn_is_left(conn))
		response.keep_alive = false;
	conn->ops->answered(conn->arg, &response);
	http_message_fini(&response);
}

/* Bytes that follow the response: messages after an upgrade, else nothing that was asked for. */
static void take_rest(struct nc_conn *conn, struct evbuffer *in)
{
	if (!evbuffer_get_length(in))
		return;
	if (conn->parser.msg.status == 101)
		bufferevent_trigger(conn->bev, EV_READ, BEV_TRIG_DEFER_CALLBACKS);
	else
		conn->parser.msg.keep_alive = false;
}

static void feed(struct nc_conn *conn, struct evbuffer *in)
{
	while (evbuffer_get_length(in)) {
		struct evbuffer_iovec piece;
		enum http_parse got;
		size_t used;

		evbuffer_peek(in, -1, NULL, &piece, 1);
		got = http_parser_feed(&conn->parser, piece.iov_base, piece.iov_len, &used);
		if (got == HTTP_REFUSED) {
			fail_response(conn);
			return;
		}
		evbuffer_drain(in, used);
		if (got == HTTP_MORE)
			continue;
		take_rest(conn, in);
		deliver(conn);
		return;
	}
}

static void on_read(struct bufferevent *bev, void *arg)
{
	struct nc_conn *conn = arg;
	struct evbuffer *in = bufferevent_get_input(bev);

	if (conn->upgraded)
		conn->ops->data(conn->arg, in);
	else
		feed(conn, in);
}

static void on_connected(struct nc_conn *conn)
{
	int fd = bufferevent_getfd(conn->bev), on = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	conn->connected = true;
	set_timeouts(conn, conn->silence_ms);
}

static void on_end(struct nc_conn *conn)
{
	if (!conn->upgraded && http_parser_end(&conn->parser) == HTTP_DONE)
		deliver(conn);
	else
		fail(conn, -ECONNRESET, "the server closed the connection");
}

static void on_error(struct nc_conn *conn, int err)
{
	char cause[160];

	if (conn->lookup_error) {
		snprintf(cause, sizeof(cause), "cannot resolve the name: %s",
			 evutil_gai_strerror(conn->lookup_error));
		fail(conn, -EHOSTUNREACH, cause);
		return;
	}
	err = err ? err : ECONNRESET;
	if (conn->connected || conn->addresses.n < 2)
		snprintf(cause, sizeof(cause), "%s", strerror(err));
	else
		snprintf(cause, sizeof(cause), "none of %zu addresses: %s", conn->addresses.n,
			 strerror(err));
	fail(conn, -err, cause);
}

static void on_event(struct bufferevent *bev, short what, void *arg)
{
	struct nc_conn *conn = arg;
	int err = errno;

	(void)bev;
	if (what & BEV_EVENT_CONNECTED)
		on_connected(conn);
	else if (try_next_address(conn))
		return;
	else if (what & BEV_EVENT_EOF)
		on_end(conn);
	else if (what & BEV_EVENT_TIMEOUT)
		fail(conn, -ETIMEDOUT,
		     what & BEV_EVENT_READING ? "the server is silent"
					      : "cannot connect: no answer");
	else
		on_error(conn, err);
}

int nc_conn_open(struct nc_conn **out, struct event_base *base, struct nc_resolver *resolver,
		 const struct nc_url *url, struct nc_name *name, const struct nc_conn_ops *ops,
		 void *arg)
{
	const struct http_limits limits = { .head_bytes = UINT16_MAX, .body_bytes = BODY_MAX };
	struct nc_conn *conn = calloc(1, sizeof(*conn));
	int ret;

	if (!conn)
		return -ENOMEM;
	/* Callbacks come from the loop, never from inside a call of ours. */
	conn->bev =
		bufferevent_socket_new(base, -1, BEV_OPT_CLOSE_ON_FREE | BEV_OPT_DEFER_CALLBACKS);
	if (!conn->bev) {
		free(conn);
		return -ENOMEM;
	}
	conn->ops = ops;
	conn->arg = arg;
	conn->name = name;
	conn->silence_ms = IDLE_TIMEOUT_MS;
	http_parser_init_response(&conn->parser, &limits);
	bufferevent_setcb(conn->bev, on_read, NULL, on_event, conn);
	/* Output waits for the addresses of the name. */
	bufferevent_disable(conn->bev, EV_READ | EV_WRITE);
	ret = nc_lookup_start(&conn->lookup, resolver, url->host, url->port, on_found, conn);
	if (ret) {
		nc_conn_close(conn);
		return ret;
	}
	conn->opened = true;
	*out = conn;
	return 0;
}

void nc_conn_close(struct nc_conn *conn)
{
	if (!conn)
		return;
	if (conn->owes || conn->upgraded)
		leave(conn);
	nc_lookup_cancel(conn->lookup);
	bufferevent_setcb(conn->bev, NULL, NULL, NULL, NULL);
	bufferevent_free(conn->bev);
	http_parser_fini(&conn->parser);
	free(conn);
}

void nc_conn_abandon(struct nc_conn *conn)
{
	conn->owes = false;
	nc_conn_close(conn);
}

/* The answer has the whole time of an idle connection, from the moment of the request. */
int nc_conn_send(struct nc_conn *conn, struct evbuffer *request, uint32_t wait_ms)
{
	if (!conn->upgraded) {
		conn->silence_ms = IDLE_TIMEOUT_MS + (int)wait_ms;
		set_timeouts(conn, conn->silence_ms);
		conn->owes = true;
		conn->from = conn->at;
	}
	return bufferevent_write_buffer(conn->bev, request) ? -ENOMEM : 0;
}

void nc_conn_set_silence(struct nc_conn *conn, int timeout_ms)
{
	set_timeouts(conn, timeout_ms);
}

size_t nc_conn_queued(const struct nc_conn *conn)
{
	return evbuffer_get_length(bufferevent_get_output(conn->bev));
}
