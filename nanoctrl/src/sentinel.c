/* SPDX-License-Identifier: Apache-2.0 */
#include "sentinel.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/dns.h>
#include <event2/event.h>
#include <event2/util.h>
#include <hiredis/hiredis.h>

#include "dial.h"
#include "redis_url.h"

#define ANSWER_MAX 4096

struct sentinel {
	struct event_base *base;
	struct evdns_base *dns;
	const struct redis_url *url;
	sentinel_fn *fn;
	void *arg;
	struct event *end; /* tells the answer when nothing below us is on the stack */
	struct timeval timeout;
	struct bufferevent *bev; /* to the one that is asked */
	size_t at;		 /* which one that is */
	char host[256];		 /* of the primary; "" when why tells */
	uint16_t port;
	char why[384];
};

static void hang_up(struct sentinel *s)
{
	if (s->bev)
		bufferevent_free(s->bev);
	s->bev = NULL;
}

static void fail(struct sentinel *s, const char *what)
{
	const struct redis_host *h = &s->url->sentinels[s->at];

	snprintf(s->why, sizeof(s->why), "the sentinel at %.200s:%u: %.100s", h->host, h->port,
		 what);
	s->host[0] = '\0';
	event_active(s->end, EV_TIMEOUT, 0);
}

static void on_end(evutil_socket_t fd, short what, void *arg)
{
	struct sentinel *s = arg;

	(void)fd;
	(void)what;
	hang_up(s);
	s->fn(s->arg, s->host[0] ? s->host : NULL, s->port, s->why);
}

static bool read_port(const redisReply *text, uint16_t *out)
{
	unsigned long n;
	char *end;

	if (text->type != REDIS_REPLY_STRING || text->str[0] < '0' || text->str[0] > '9')
		return false;
	n = strtoul(text->str, &end, 10);
	*out = (uint16_t)n;
	return !*end && n >= 1 && n <= 65535;
}

/* {host, port}; nil for a name that it does not know. */
static void take_answer(struct sentinel *s, const redisReply *reply)
{
	if (reply->type == REDIS_REPLY_ERROR) {
		fail(s, reply->str);
	} else if (reply->type == REDIS_REPLY_NIL) {
		fail(s, "it does not know that name");
	} else if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 ||
		   reply->element[0]->type != REDIS_REPLY_STRING || !reply->element[0]->len ||
		   (size_t)reply->element[0]->len >= sizeof(s->host) ||
		   !read_port(reply->element[1], &s->port)) {
		fail(s, "its answer makes no sense");
	} else {
		snprintf(s->host, sizeof(s->host), "%s", reply->element[0]->str);
		event_active(s->end, EV_TIMEOUT, 0);
	}
}

static void on_read(struct bufferevent *bev, void *arg)
{
	struct sentinel *s = arg;
	struct evbuffer *in = bufferevent_get_input(bev);
	size_t len = evbuffer_get_length(in);
	redisReader *reader = redisReaderCreate();
	void *reply = NULL;

	/* It is short and comes once: read from its beginning until it is whole. */
	if (!reader || redisReaderFeed(reader, (const char *)evbuffer_pullup(in, -1), len))
		fail(s, "no memory");
	else if (redisReaderGetReply(reader, &reply) || (!reply && len > ANSWER_MAX))
		fail(s, "its answer makes no sense");
	else if (reply)
		take_answer(s, reply);
	if (reply)
		freeReplyObject(reply);
	if (reader)
		redisReaderFree(reader);
	if (s->host[0] || s->why[0])
		bufferevent_disable(bev, EV_READ);
}

static void ask(struct sentinel *s)
{
	const char *words[] = { "SENTINEL", "get-master-addr-by-name", s->url->primary };
	char *bytes = NULL;
	int len = (int)redisFormatCommandArgv(&bytes, 3, words, NULL);

	if (len < 0 || bufferevent_write(s->bev, bytes, (size_t)len))
		fail(s, "no memory");
	redisFreeCommand(bytes);
}

static void on_event(struct bufferevent *bev, short what, void *arg)
{
	struct sentinel *s = arg;
	int err = EVUTIL_SOCKET_ERROR();
	int dns = bufferevent_socket_get_dns_error(bev);

	if (what & BEV_EVENT_CONNECTED)
		ask(s);
	else if (what & BEV_EVENT_TIMEOUT)
		fail(s, "it does not answer");
	else if (what & BEV_EVENT_EOF)
		fail(s, "it closed the connection");
	else
		fail(s, dns ? evutil_gai_strerror(dns) : evutil_socket_error_to_string(err));
}

void sentinel_ask(struct sentinel *s)
{
	const struct redis_host *h;

	sentinel_forget(s);
	s->at = (s->at + 1) % s->url->n_sentinels;
	s->host[0] = s->why[0] = '\0';
	h = &s->url->sentinels[s->at];
	s->bev = bufferevent_socket_new(s->base, -1, BEV_OPT_CLOSE_ON_FREE);
	if (!s->bev) {
		fail(s, "no memory");
		return;
	}
	bufferevent_setcb(s->bev, on_read, NULL, on_event, s);
	bufferevent_set_timeouts(s->bev, &s->timeout, &s->timeout);
	bufferevent_enable(s->bev, EV_READ | EV_WRITE);
	if (dial(s->bev, s->base, &s->dns, h->host, h->port) && !s->why[0])
		fail(s, "it cannot be reached");
}

void sentinel_forget(struct sentinel *s)
{
	hang_up(s);
	event_del(s->end);
}

int sentinel_create(struct event_base *base, const struct redis_url *url, uint32_t timeout_ms,
		    sentinel_fn *fn, void *arg, struct sentinel **out)
{
	struct sentinel *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->base = base;
	s->url = url;
	s->fn = fn;
	s->arg = arg;
	s->at = url->n_sentinels - 1;
	s->timeout.tv_sec = timeout_ms / 1000;
	s->timeout.tv_usec = timeout_ms % 1000 * 1000;
	s->end = event_new(base, -1, 0, on_end, s);
	if (!s->end) {
		free(s);
		return -ENOMEM;
	}
	*out = s;
	return 0;
}

void sentinel_destroy(struct sentinel *s)
{
	if (!s)
		return;
	sentinel_forget(s);
	event_free(s->end);
	if (s->dns)
		evdns_base_free(s->dns, 0);
	free(s);
}
