/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/dns.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "nanoctrl/client/conn.h"

/* For the connection to stand, and for the kernel to take what we send. */
#define SEND_TIMEOUT_S 3
/* An idle connection is closed before the server does it, which could cross with a request. */
#define IDLE_TIMEOUT_S 20

struct nc_conn {
	struct bufferevent *bev;
	const struct nc_conn_ops *ops;
	void *arg;
	const struct nc_url *url;
	bool upgraded;
	struct nc_response response;
};

static void fail(struct nc_conn *conn, int err, const char *cause)
{
	conn->ops->failed(conn->arg, err, cause);
}

static void fail_response(struct nc_conn *conn, int err)
{
	fail(conn, err,
	     err == -EMSGSIZE ? "the answer is too large"
	     : err == -ENOMEM ? "no memory for the answer"
			      : "the answer is no HTTP");
}

/* The response goes out of the connection first: the callback may close it, or send the next
 * request. */
static void deliver(struct nc_conn *conn)
{
	struct nc_response response = conn->response;

	conn->upgraded = response.status == 101;
	nc_response_init(&conn->response);
	conn->ops->answered(conn->arg, &response);
	nc_response_fini(&response);
}

/* What stands behind the response already: messages after an upgrade, else nothing that was asked
 * for. */
static void take_rest(struct nc_conn *conn, struct evbuffer *in)
{
	if (!evbuffer_get_length(in))
		return;
	if (conn->response.status == 101)
		bufferevent_trigger(conn->bev, EV_READ, BEV_TRIG_DEFER_CALLBACKS);
	else
		conn->response.keep_alive = false;
}

static void feed(struct nc_conn *conn, struct evbuffer *in)
{
	while (evbuffer_get_length(in)) {
		struct evbuffer_iovec piece;
		size_t used;
		int ret;

		evbuffer_peek(in, -1, NULL, &piece, 1);
		ret = nc_response_feed(&conn->response, piece.iov_base, piece.iov_len, &used);
		if (ret < 0) {
			fail_response(conn, ret);
			return;
		}
		evbuffer_drain(in, used);
		if (ret == NC_RESPONSE_MORE)
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
}

static void on_end(struct nc_conn *conn)
{
	if (!conn->upgraded && !nc_response_end(&conn->response))
		deliver(conn);
	else
		fail(conn, -ECONNRESET, "the server closed the connection");
}

static void on_event(struct bufferevent *bev, short what, void *arg)
{
	struct nc_conn *conn = arg;
	int err = errno;
	int dns = bufferevent_socket_get_dns_error(bev);
	char cause[160];

	if (what & BEV_EVENT_CONNECTED) {
		on_connected(conn);
	} else if (what & BEV_EVENT_EOF) {
		on_end(conn);
	} else if (what & BEV_EVENT_TIMEOUT) {
		fail(conn, -ETIMEDOUT,
		     what & BEV_EVENT_READING ? "the server is silent"
					      : "cannot connect: no answer");
	} else if (dns) {
		snprintf(cause, sizeof(cause), "cannot resolve the name: %s",
			 evutil_gai_strerror(dns));
		fail(conn, -EHOSTUNREACH, cause);
	} else {
		err = err ? err : ECONNRESET;
		snprintf(cause, sizeof(cause), "%s", strerror(err));
		fail(conn, -err, cause);
	}
}

/* Counted from now on. */
static void set_timeouts(struct nc_conn *conn, int silence_ms)
{
	const struct timeval silence = { .tv_sec = silence_ms / 1000,
					 .tv_usec = silence_ms % 1000 * 1000 };
	const struct timeval send = { .tv_sec = SEND_TIMEOUT_S };

	bufferevent_set_timeouts(conn->bev, &silence, &send);
}

int nc_conn_open(struct nc_conn **out, struct event_base *base, struct evdns_base *dns,
		 const struct nc_url *url, const struct nc_conn_ops *ops, void *arg)
{
	struct nc_conn *conn = calloc(1, sizeof(*conn));

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
	conn->url = url;
	nc_response_init(&conn->response);
	bufferevent_setcb(conn->bev, on_read, NULL, on_event, conn);
	set_timeouts(conn, IDLE_TIMEOUT_S * 1000);
	bufferevent_enable(conn->bev, EV_READ | EV_WRITE);
	errno = 0;
	if (bufferevent_socket_connect_hostname(conn->bev, dns, AF_UNSPEC, url->host, url->port)) {
		int ret = errno ? -errno : -EIO;

		nc_conn_close(conn);
		return ret;
	}
	*out = conn;
	return 0;
}

void nc_conn_close(struct nc_conn *conn)
{
	if (!conn)
		return;
	bufferevent_setcb(conn->bev, NULL, NULL, NULL, NULL);
	bufferevent_free(conn->bev);
	nc_response_fini(&conn->response);
	free(conn);
}

/* An answer has the time of an idle connection, whatever had passed of that before it was asked
 * for. */
int nc_conn_send(struct nc_conn *conn, struct evbuffer *request)
{
	if (!conn->upgraded)
		set_timeouts(conn, IDLE_TIMEOUT_S * 1000);
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
