/* SPDX-License-Identifier: Apache-2.0 */
#include "redis/locator.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/util.h>
#include <hiredis/hiredis.h>

#include "redis/cluster.h"
#include "redis/dial.h"
#include "store/key.h"
#include "redis/reader.h"
#include "redis/url.h"
#include "nanoctrl/net/resolver.h"

#define ANSWER_MAX (8u * 1024 * 1024) /* every slot in a range of its own, with replicas */

struct locator {
	struct event_base *base;
	struct nc_resolver *resolver; /* made when a host name needs it */
	const struct redis_url *url;
	locator_fn *fn;
	void *arg;
	struct event *end; /* tells the answer when nothing below us is on the stack */
	struct timeval timeout;
	struct bufferevent *bev; /* to the one that is asked */
	struct dial dial;
	struct redis_reader reader;
	bool greets;		  /* the next answer is the one to AUTH */
	struct cluster_map known; /* of a cluster, as it was last told */
	size_t at; /* the servers that are asked: first those of the URL, then those known */
	struct cluster_node asked, found;
	bool over; /* found, or why, is the answer */
	char why[384];
};

static const char no_memory[] = "no memory";

static void hang_up(struct locator *l)
{
	dial_end(&l->dial);
	if (l->bev)
		bufferevent_free(l->bev);
	l->bev = NULL;
	redis_reader_fini(&l->reader);
}

static void finish(struct locator *l)
{
	l->over = true;
	if (l->bev)
		bufferevent_disable(l->bev, EV_READ);
	event_active(l->end, EV_TIMEOUT, 0);
}

static void fail(struct locator *l, const char *what)
{
	snprintf(l->why, sizeof(l->why), "the %s at %.200s:%u: %.100s",
		 l->url->kind == REDIS_CLUSTER ? "node" : "sentinel", l->asked.host, l->asked.port,
		 what);
	l->found.host[0] = '\0';
	finish(l);
}

static void on_end(evutil_socket_t fd, short what, void *arg)
{
	struct locator *l = arg;

	(void)fd;
	(void)what;
	hang_up(l);
	l->fn(l->arg, l->found.host[0] ? l->found.host : NULL, l->found.port, l->why);
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
static void take_primary(struct locator *l, const redisReply *reply)
{
	if (reply->type == REDIS_REPLY_NIL) {
		fail(l, "it does not know that name");
	} else if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 ||
		   reply->element[0]->type != REDIS_REPLY_STRING || !reply->element[0]->len ||
		   (size_t)reply->element[0]->len >= sizeof(l->found.host) ||
		   !read_port(reply->element[1], &l->found.port)) {
		fail(l, "its answer makes no sense");
	} else {
		snprintf(l->found.host, sizeof(l->found.host), "%s", reply->element[0]->str);
		finish(l);
	}
}

static void take_slots(struct locator *l, const redisReply *reply)
{
	struct cluster_map map;

	if (cluster_read_slots(reply, KEY_CLUSTER_SLOT, l->asked.host, &map)) {
		fail(l, "its answer makes no sense");
		return;
	}
	l->known = map;
	if (!map.owner.host[0]) {
		fail(l, "no node has the slot of nanoctrl's keys");
		return;
	}
	l->found = map.owner;
	finish(l);
}

static void take_answer(struct locator *l, const redisReply *reply)
{
	bool greets = l->greets;

	l->greets = false;
	if (reply->type == REDIS_REPLY_ERROR)
		fail(l, reply->str);
	else if (!greets && l->url->kind == REDIS_CLUSTER)
		take_slots(l, reply);
	else if (!greets)
		take_primary(l, reply);
}

static int feed(struct locator *l, struct evbuffer *in)
{
	size_t len = evbuffer_get_length(in);
	const char *bytes = (const char *)evbuffer_pullup(in, -1);
	int ret = bytes ? redis_reader_feed(&l->reader, bytes, len, ANSWER_MAX) : -ENOMEM;

	if (!ret)
		evbuffer_drain(in, len);
	return ret;
}

static void on_read(struct bufferevent *bev, void *arg)
{
	struct locator *l = arg;
	int ret = feed(l, bufferevent_get_input(bev));
	redisReply *reply;
	const char *why;

	if (ret) {
		fail(l, ret == -ENOMEM ? no_memory : "its answer has no end");
		return;
	}
	while (!l->over) {
		ret = redis_reader_next(&l->reader, &reply, &why);
		if (ret) {
			fail(l, ret == -ENOMEM ? no_memory : "its answer makes no sense");
			return;
		}
		if (!reply)
			return;
		take_answer(l, reply);
		freeReplyObject(reply);
	}
}

static int say(struct locator *l, int n, const char **words)
{
	char *bytes = NULL;
	int len = (int)redisFormatCommandArgv(&bytes, n, words, NULL);
	int ret = len < 0 ? -1 : bufferevent_write(l->bev, bytes, (size_t)len);

	redisFreeCommand(bytes);
	return ret;
}

/* Sentinels are asked without a password. */
static int ask_slots(struct locator *l)
{
	const struct redis_url *url = l->url;
	const char *auth[] = { "AUTH", url->user, url->password };
	const char *words[] = { "CLUSTER", "SLOTS" };
	int ret = 0;

	if (url->password && !url->user)
		auth[1] = url->password;
	l->greets = url->password != NULL;
	if (l->greets)
		ret = say(l, url->user ? 3 : 2, auth);
	return ret ? ret : say(l, 2, words);
}

static int ask_primary(struct locator *l)
{
	const char *words[] = { "SENTINEL", "get-master-addr-by-name", l->url->primary };

	return say(l, 3, words);
}

static void on_event(struct bufferevent *bev, short what, void *arg)
{
	struct locator *l = arg;
	int err = EVUTIL_SOCKET_ERROR();

	(void)bev;
	if (l->over)
		return;
	if (what & BEV_EVENT_CONNECTED) {
		if (l->url->kind == REDIS_CLUSTER ? ask_slots(l) : ask_primary(l))
			fail(l, no_memory);
	} else if (what & BEV_EVENT_TIMEOUT) {
		fail(l, l->dial.lookup ? "no name server answers" : "it does not answer");
	} else if (what & BEV_EVENT_EOF) {
		fail(l, "it closed the connection");
	} else {
		fail(l, dial_error(&l->dial, err));
	}
}

static void choose(struct locator *l)
{
	const struct redis_url *url = l->url;

	l->at = (l->at + 1) % (url->n_seeds + l->known.n);
	if (l->at >= url->n_seeds) {
		l->asked = l->known.nodes[l->at - url->n_seeds];
		return;
	}
	snprintf(l->asked.host, sizeof(l->asked.host), "%s", url->seeds[l->at].host);
	l->asked.port = url->seeds[l->at].port;
}

void locator_ask(struct locator *l)
{
	locator_forget(l);
	choose(l);
	l->found.host[0] = l->why[0] = '\0';
	l->over = l->greets = false;
	l->bev = bufferevent_socket_new(l->base, -1, BEV_OPT_CLOSE_ON_FREE);
	if (redis_reader_init(&l->reader) || !l->bev) {
		fail(l, no_memory);
		return;
	}
	bufferevent_setcb(l->bev, on_read, NULL, on_event, l);
	bufferevent_set_timeouts(l->bev, &l->timeout, &l->timeout);
	bufferevent_enable(l->bev, EV_READ | EV_WRITE);
	dial(&l->dial, l->bev, l->base, &l->resolver, l->asked.host, l->asked.port);
}

void locator_forget(struct locator *l)
{
	hang_up(l);
	event_del(l->end);
}

int locator_create(struct event_base *base, const struct redis_url *url, uint32_t timeout_ms,
		   locator_fn *fn, void *arg, struct locator **out)
{
	struct locator *l = calloc(1, sizeof(*l));

	if (!l)
		return -ENOMEM;
	l->base = base;
	l->url = url;
	l->fn = fn;
	l->arg = arg;
	l->at = url->n_seeds - 1;
	l->timeout.tv_sec = timeout_ms / 1000;
	l->timeout.tv_usec = timeout_ms % 1000 * 1000;
	l->end = event_new(base, -1, 0, on_end, l);
	if (!l->end) {
		free(l);
		return -ENOMEM;
	}
	*out = l;
	return 0;
}

void locator_destroy(struct locator *l)
{
	if (!l)
		return;
	locator_forget(l);
	event_free(l->end);
	nc_resolver_destroy(l->resolver);
	free(l);
}
