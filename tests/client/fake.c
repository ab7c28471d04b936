/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/listener.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <cmocka.h>

#include "client/fake.h"
#include "nanoctrl/net/ws_frame.h"

struct fake_conn {
	struct fake *fake;
	struct fake_conn *next;
	struct bufferevent *bev;
	bool upgraded, closing;
};

/* Not one of the allocations that a test lets fail: the fake's never do. */
static void *allocate(size_t len)
{
	void *memory = memalign(sizeof(memory), len);

	assert_non_null(memory);
	return memset(memory, 0, len);
}

static void drop(struct fake_conn *conn)
{
	struct fake_conn **at = &conn->fake->conns;

	while (*at != conn)
		at = &(*at)->next;
	*at = conn->next;
	conn->fake->n_open--;
	bufferevent_free(conn->bev);
	free(conn);
}

static void on_event(struct bufferevent *bev, short what, void *arg)
{
	(void)bev;
	(void)what;
	drop(arg);
}

/* The next whole request out of the buffer; NULL when it is not all there. */
static char *take_request(struct evbuffer *in)
{
	struct evbuffer_ptr end = evbuffer_search(in, "\r\n\r\n", 4, NULL);
	size_t len, body = 0;
	const char *length;
	char *text;

	if (end.pos < 0)
		return NULL;
	len = (size_t)end.pos + 4;
	text = allocate(evbuffer_get_length(in) + 1);
	evbuffer_copyout(in, text, len);
	length = strstr(text, "Content-Length: ");
	if (length)
		body = strtoul(length + strlen("Content-Length: "), NULL, 10);
	if (evbuffer_get_length(in) < len + body) {
		free(text);
		return NULL;
	}
	evbuffer_remove(in, text, len + body);
	return text;
}

/* Frames of clients are masked and, in these tests, short and whole. */
static bool take_frame(struct fake_conn *conn, struct evbuffer *in)
{
	unsigned char head[8], mask[4];
	size_t len, head_len = 2;
	char *text;

	if (evbuffer_copyout(in, head, 4) < 4)
		return false;
	assert_true(head[1] & 0x80);
	len = head[1] & 0x7f;
	if (len == 126) {
		len = (size_t)head[2] << 8 | head[3];
		head_len = 4;
	}
	if (evbuffer_get_length(in) < head_len + 4 + len)
		return false;
	evbuffer_drain(in, head_len);
	evbuffer_remove(in, mask, sizeof(mask));
	text = allocate(len + 1);
	evbuffer_remove(in, text, len);
	for (size_t i = 0; i < len; i++)
		text[i] = (char)(text[i] ^ mask[i % 4]);
	if ((head[0] & 0x0f) == WS_PONG)
		conn->fake->message(conn->fake->arg, conn, "pong");
	else
		conn->fake->message(conn->fake->arg, conn, text);
	free(text);
	return true;
}

static bool is_there(const struct fake *f, const struct fake_conn *conn)
{
	for (const struct fake_conn *c = f->conns; c; c = c->next)
		if (c == conn)
			return true;
	return false;
}

static void on_read(struct bufferevent *bev, void *arg)
{
	struct fake_conn *conn = arg;
	struct fake *f = conn->fake;
	struct evbuffer *in = bufferevent_get_input(bev);
	bool more = true;

	while (more && is_there(f, conn)) {
		char *text;

		if (conn->upgraded) {
			more = take_frame(conn, in);
			continue;
		}
		text = take_request(in);
		more = text != NULL;
		if (text)
			f->request(f->arg, conn, text);
		free(text);
	}
}

static void on_written(struct bufferevent *bev, void *arg)
{
	struct fake_conn *conn = arg;

	(void)bev;
	if (conn->closing)
		drop(conn);
}

static void on_accept(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *addr,
		      int len, void *arg)
{
	struct fake *f = arg;
	struct fake_conn *conn = allocate(sizeof(*conn));

	(void)listener;
	(void)addr;
	(void)len;
	f->n_connections++;
	f->n_open++;
	conn->fake = f;
	conn->bev = bufferevent_socket_new(f->base, fd, BEV_OPT_CLOSE_ON_FREE);
	assert_non_null(conn->bev);
	conn->next = f->conns;
	f->conns = conn;
	bufferevent_setcb(conn->bev, on_read, on_written, on_event, conn);
	bufferevent_enable(conn->bev, EV_READ | EV_WRITE);
}

void fake_start_at(struct fake *f, struct event_base *base, const struct sockaddr *at, int at_len,
		   fake_fn *request, fake_fn *message, void *arg)
{
	struct sockaddr_in addr;
	socklen_t len = sizeof(addr);
	char text[INET_ADDRSTRLEN];

	*f = (struct fake){ .base = base, .request = request, .message = message, .arg = arg };
	f->listener =
		evconnlistener_new_bind(base, on_accept, f, LEV_OPT_CLOSE_ON_FREE, 64, at, at_len);
	assert_non_null(f->listener);
	assert_int_equal(
		getsockname(evconnlistener_get_fd(f->listener), (struct sockaddr *)&addr, &len), 0);
	assert_non_null(inet_ntop(AF_INET, &addr.sin_addr, text, sizeof(text)));
	snprintf(f->url, sizeof(f->url), "http://%s:%d", text, ntohs(addr.sin_port));
}

void fake_start(struct fake *f, struct event_base *base, fake_fn *request, fake_fn *message,
		void *arg)
{
	const struct sockaddr_in at = { .sin_family = AF_INET,
					.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	fake_start_at(f, base, (const struct sockaddr *)&at, sizeof(at), request, message, arg);
}

void fake_stop(struct fake *f)
{
	while (f->conns)
		drop(f->conns);
	if (f->listener)
		evconnlistener_free(f->listener);
	f->listener = NULL;
}

void fake_send(struct fake_conn *conn, const char *text, size_t len)
{
	bufferevent_write(conn->bev, text, len);
}

void fake_reply(struct fake_conn *conn, int status, const char *headers, const char *body)
{
	evbuffer_add_printf(bufferevent_get_output(conn->bev),
			    "HTTP/1.1 %d X\r\nContent-Length: %zu\r\n%s\r\n%s", status,
			    strlen(body), headers, body);
}

void fake_upgrade(struct fake_conn *conn, const char *request)
{
	const char *at = strstr(request, "Sec-WebSocket-Key: ");
	char key[WS_KEY_MAX] = "", accept[WS_ACCEPT_MAX];

	assert_non_null(at);
	memcpy(key, at + strlen("Sec-WebSocket-Key: "), WS_KEY_MAX - 1);
	assert_true(ws_accept(key, accept));
	conn->upgraded = true;
	evbuffer_add_printf(bufferevent_get_output(conn->bev),
			    "HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
			    "Sec-WebSocket-Accept: %s\r\n\r\n",
			    accept);
}

void fake_frame(struct fake_conn *conn, unsigned opcode, const void *payload, size_t len)
{
	unsigned char head[2] = { (unsigned char)(0x80 | opcode), (unsigned char)len };

	assert_true(len < 126);
	bufferevent_write(conn->bev, head, sizeof(head));
	bufferevent_write(conn->bev, payload, len);
}

void fake_text(struct fake_conn *conn, const char *json)
{
	size_t len = strlen(json);
	unsigned char head[4] = { 0x81, 126, (unsigned char)(len >> 8), (unsigned char)len };

	if (len < 126) {
		fake_frame(conn, WS_TEXT, json, len);
		return;
	}
	bufferevent_write(conn->bev, head, sizeof(head));
	bufferevent_write(conn->bev, json, len);
}

void fake_close(struct fake_conn *conn)
{
	conn->closing = true;
	if (!evbuffer_get_length(bufferevent_get_output(conn->bev)))
		drop(conn);
}

void fake_abort(struct fake_conn *conn)
{
	const struct linger reset = { .l_onoff = 1 };

	setsockopt(bufferevent_getfd(conn->bev), SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	drop(conn);
}
