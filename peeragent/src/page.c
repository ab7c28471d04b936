/* SPDX-License-Identifier: Apache-2.0 */
#include "peeragent/src/page.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <event2/util.h>

#include "base/list.h"
#include "base/log.h"
#include "nanoctrl/net/http_parser.h"

#define BACKLOG 128
/* accept() failed for want of a descriptor or memory: what the loop is for has them meanwhile. */
#define ACCEPT_AGAIN_MS 100

struct page {
	struct page_attr attr;
	struct evconnlistener *listener;
	struct event *again; /* when it listens again */
	struct sl_list clients;
	unsigned n_clients;
	char address[80];
};

struct client {
	struct sl_list link;
	struct page *page;
	struct bufferevent *bev;
	struct event *end;
	struct http_parser parser;
	bool answered;
	bool eof; /* it sends no more */
};

/* ---- a client ---- */

static void leave(struct client *c)
{
	struct page *page = c->page;

	sl_list_remove(&c->link);
	page->n_clients--;
	event_free(c->end);
	bufferevent_free(c->bev);
	http_parser_fini(&c->parser);
	free(c);
	if (!evtimer_pending(page->again, NULL))
		evconnlistener_enable(page->listener);
}

static void answer(struct client *c, const char *status, const char *type, struct evbuffer *body)
{
	struct evbuffer *out = bufferevent_get_output(c->bev);
	char date[sizeof("Thu, 01 Jan 1970 00:00:00 GMT")];

	c->answered = true;
	evutil_date_rfc1123(date, sizeof(date), NULL);
	evbuffer_add_printf(out,
			    "HTTP/1.1 %s\r\nDate: %s\r\nContent-Type: %s\r\n"
			    "Content-Length: %zu\r\nAllow: GET\r\nConnection: close\r\n\r\n",
			    status, date, type, evbuffer_get_length(body));
	evbuffer_add_buffer(out, body);
}

static void refuse(struct client *c, const char *status)
{
	struct evbuffer *body = evbuffer_new();

	if (!body) {
		leave(c);
		return;
	}
	evbuffer_add_printf(body, "%s\n", status);
	answer(c, status, "text/plain", body);
	evbuffer_free(body);
}

static void show(struct client *c)
{
	const struct page_attr *attr = &c->page->attr;
	struct evbuffer *body = evbuffer_new();

	if (!body) {
		leave(c);
		return;
	}
	attr->render(attr->arg, body);
	answer(c, "200 OK", attr->type, body);
	evbuffer_free(body);
}

static void reply(struct client *c)
{
	const struct http_message *m = &c->parser.msg;

	if (strcmp(m->path, c->page->attr.path) != 0)
		refuse(c, "404 Not Found");
	else if (m->method != HTTP_GET)
		refuse(c, "405 Method Not Allowed");
	else
		show(c);
}

static const char *refusal(const struct http_refusal *why)
{
	switch (why->status) {
	case 413:
		return "413 Content Too Large";
	case 414:
		return "414 URI Too Long";
	case 417:
		return "417 Expectation Failed";
	case 431:
		return "431 Request Header Fields Too Large";
	case 501:
		return "501 Not Implemented";
	case 503:
		return "503 Service Unavailable";
	case 505:
		return "505 HTTP Version Not Supported";
	default:
		return "400 Bad Request";
	}
}

static void read_request(struct client *c, struct evbuffer *in)
{
	enum http_parse got = HTTP_MORE;

	while (got == HTTP_MORE && evbuffer_get_length(in)) {
		struct evbuffer_iovec piece;
		size_t used;

		evbuffer_peek(in, -1, NULL, &piece, 1);
		got = http_parser_feed(&c->parser, piece.iov_base, piece.iov_len, &used);
		evbuffer_drain(in, used);
	}
	if (got == HTTP_DONE)
		reply(c);
	else if (got == HTTP_REFUSED)
		refuse(c, refusal(c->parser.refusal));
}

static void on_read(struct bufferevent *bev, void *arg)
{
	struct evbuffer *in = bufferevent_get_input(bev);
	struct client *c = arg;

	if (c->answered)
		evbuffer_drain(in, evbuffer_get_length(in));
	else
		read_request(c, in);
}

/* The rest of the request is read until the client has the answer: closed with that unread, the
 * socket would lose the answer. */
static void on_written(struct bufferevent *bev, void *arg)
{
	struct client *c = arg;

	if (!c->answered)
		return;
	if (c->eof)
		leave(c);
	else
		shutdown(bufferevent_getfd(bev), SHUT_WR);
}

static void on_event(struct bufferevent *bev, short what, void *arg)
{
	struct client *c = arg;

	c->eof = what & BEV_EVENT_EOF;
	if (!c->eof || !evbuffer_get_length(bufferevent_get_output(bev)))
		leave(c);
}

static void on_end(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	leave(arg);
}

/* Takes fd only when it returns true. */
static bool accept_client(struct page *page, evutil_socket_t fd)
{
	const struct http_limits limits = { .head_bytes = 8192, .target_bytes = 4096 };
	struct event_base *base = evconnlistener_get_base(page->listener);
	const struct timeval timeout = { .tv_sec = page->attr.timeout_ms / 1000,
					 .tv_usec = page->attr.timeout_ms % 1000 * 1000 };
	struct client *c = calloc(1, sizeof(*c));

	if (!c)
		return false;
	http_parser_init(&c->parser, &limits);
	c->page = page;
	c->end = evtimer_new(base, on_end, c);
	c->bev = c->end && !evtimer_add(c->end, &timeout)
			 ? bufferevent_socket_new(base, fd, BEV_OPT_CLOSE_ON_FREE)
			 : NULL;
	if (!c->bev) {
		if (c->end)
			event_free(c->end);
		free(c);
		return false;
	}
	sl_list_append(&page->clients, &c->link);
	page->n_clients++;
	bufferevent_setcb(c->bev, on_read, on_written, on_event, c);
	bufferevent_enable(c->bev, EV_READ | EV_WRITE);
	return true;
}

/* ---- the listener ---- */

static void on_accepted(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *from,
			int from_len, void *arg)
{
	struct page *page = arg;

	(void)from;
	(void)from_len;
	if (!accept_client(page, fd))
		close(fd);
	if (page->n_clients >= page->attr.max_clients)
		evconnlistener_disable(listener);
}

/* Connections that wait to be accepted make the listener ready all the time. */
static void on_accept_failed(struct evconnlistener *listener, void *arg)
{
	static struct sl_log_limit limit = SL_LOG_LIMIT_INIT(1, 60000);
	const struct timeval tv = { .tv_usec = ACCEPT_AGAIN_MS * 1000 };
	const char *why = strerror(errno);
	struct page *page = arg;
	uint32_t held_back;

	if (sl_log_allow(&limit, &held_back))
		sl_warn("metrics", "cannot accept: %s (%u such lines held back)", why, held_back);
	if (!evtimer_add(page->again, &tv))
		evconnlistener_disable(listener);
}

static void on_again(evutil_socket_t fd, short what, void *arg)
{
	struct page *page = arg;

	(void)fd;
	(void)what;
	evconnlistener_enable(page->listener);
}

static void note_address(struct page *page)
{
	struct sockaddr_storage at = { .ss_family = AF_INET };
	socklen_t len = sizeof(at);
	char text[INET6_ADDRSTRLEN] = "";

	getsockname(evconnlistener_get_fd(page->listener), (struct sockaddr *)&at, &len);
	if (at.ss_family == AF_INET6) {
		const struct sockaddr_in6 *in = (const void *)&at;

		inet_ntop(AF_INET6, &in->sin6_addr, text, sizeof(text));
		snprintf(page->address, sizeof(page->address), "[%s]:%u", text,
			 ntohs(in->sin6_port));
	} else {
		const struct sockaddr_in *in = (const void *)&at;

		inet_ntop(AF_INET, &in->sin_addr, text, sizeof(text));
		snprintf(page->address, sizeof(page->address), "%s:%u", text, ntohs(in->sin_port));
	}
}

static int listen_at(struct page *page, struct event_base *base)
{
	const struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE,
					.ai_socktype = SOCK_STREAM };
	struct addrinfo *at;
	char port[8];

	snprintf(port, sizeof(port), "%u", page->attr.port);
	if (getaddrinfo(page->attr.host, port, &hints, &at))
		return -EINVAL;
	errno = 0;
	page->listener = evconnlistener_new_bind(base, on_accepted, page,
						 LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC |
							 LEV_OPT_REUSEABLE,
						 BACKLOG, at->ai_addr, (int)at->ai_addrlen);
	freeaddrinfo(at);
	if (!page->listener)
		return errno ? -errno : -ENOMEM;
	evconnlistener_set_error_cb(page->listener, on_accept_failed);
	note_address(page);
	return 0;
}

int page_create(struct event_base *base, const struct page_attr *attr, struct page **out)
{
	struct page *page = calloc(1, sizeof(*page));
	int ret = -ENOMEM;

	if (!page)
		return -ENOMEM;
	page->attr = *attr;
	sl_list_init(&page->clients);
	page->again = evtimer_new(base, on_again, page);
	if (page->again)
		ret = listen_at(page, base);
	if (ret)
		page_destroy(page);
	else
		*out = page;
	return ret;
}

void page_destroy(struct page *page)
{
	struct sl_list *e, *next;

	if (!page)
		return;
	sl_list_for_each_safe (e, next, &page->clients)
		leave(SL_CONTAINER_OF(e, struct client, link));
	if (page->listener)
		evconnlistener_free(page->listener);
	if (page->again)
		event_free(page->again);
	free(page);
}

const char *page_address(const struct page *page)
{
	return page->address;
}
