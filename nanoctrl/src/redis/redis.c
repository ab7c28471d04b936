/* SPDX-License-Identifier: Apache-2.0 */
#include "redis/redis.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/util.h>
#include <hiredis/hiredis.h>
#include <base/clock.h>
#include <base/log.h>
#include <base/random.h>
#include <base/utf8.h>
#include "base/digits.h"
#include "store/key.h"
#include "redis/locator.h"
#include "nanoctrl/net/loop.h"
#include "redis/connection.h"
#include "redis/url.h"
#include "nanoctrl/net/send.h"
#include "nanoctrl/net/resolver.h"

#define BACKOFF_LAST_MS	 1000
#define CHECK_MS	 250  /* how often the oldest command's age is looked at */
#define MOVE_MS		 500  /* between one move and the next */
#define PING_MS		 1000 /* on a connection that only listens */
#define READ_MAX	 4096 /* at once: the reader keeps room for what it was fed */
#define REPLY_BUFFER_MAX (64u * 1024 * 1024) /* unparsed answer: more is not from our Redis */

struct command {
	struct sl_list node;
	redis_reply_fn *fn;
	void *arg;
	uint64_t sent_ns;
};

static const char not_connected[] = "not connected yet";

const char *redis_trouble(const struct redis *redis)
{
	return redis->state == REDIS_SERVING ? NULL : redis->trouble;
}

bool redis_is_crowded(const struct redis *redis)
{
	return redis->crowded;
}

const char *redis_host(const struct redis *redis, uint16_t *port)
{
	*port = redis->port;
	return redis->host;
}

static uint32_t jitter(uint32_t ms)
{
	return ms / 2 + (uint32_t)sl_random_up_to(ms / 2);
}

/* Every command in flight gets its end; what they call may not send while state is not
 * REDIS_SERVING. */
static void fail_inflight(struct redis *r)
{
	struct sl_list all;
	struct sl_list *e;

	sl_list_init(&all);
	sl_list_splice(&all, &r->inflight);
	r->n_inflight = 0;
	while ((e = sl_list_pop(&all))) {
		struct command *c = SL_CONTAINER_OF(e, struct command, node);

		if (c->fn)
			c->fn(c->arg, -EIO, NULL);
		free(c);
	}
}

static void disconnect(struct redis *r)
{
	if (r->readable)
		event_free(r->readable);
	r->readable = NULL;
	dial_end(&r->dial);
	if (r->bev)
		bufferevent_free(r->bev);
	r->bev = NULL;
	redis_reader_fini(&r->reader);
	event_del(r->check);
	if (r->rest)
		event_del(r->rest);
	if (r->locator)
		locator_forget(r->locator);
}

/* A connection that tries again by itself says so once; of a server that was just started only when
 * it takes long to read its data. */
static void note_outage(struct redis *r, bool served)
{
	bool early = r->loading && r->backoff_ms < BACKOFF_LAST_MS;

	r->loading = false;
	if ((r->logged && !served) || (early && !served))
		return;
	if (!r->attr.tries)
		sl_warn("redis", "%s: %s: %s", r->attr.name, r->attr.url->shown, r->trouble);
	r->logged = true;
}

void redis_broke(struct redis *r, const char *why)
{
	bool served = r->state == REDIS_SERVING;
	bool ends;

	if (why != r->trouble && !r->broken)
		snprintf(r->trouble, sizeof(r->trouble), "%s", why);
	sl_utf8_make_printable(r->trouble); /* Redis may have said it */
	if (r->parsing) {
		r->broken = true;
		return;
	}
	ends = r->attr.tries && (served || ++r->tried == r->attr.tries);
	note_outage(r, served);
	r->state = REDIS_WAITING;
	r->moving = r->on_way = false;
	r->next.host[0] = '\0';
	disconnect(r);
	if (!ends)
		loop_set_timer(r->retry, jitter(r->backoff_ms));
	r->backoff_ms = r->backoff_ms * 2 < BACKOFF_LAST_MS ? r->backoff_ms * 2 : BACKOFF_LAST_MS;
	fail_inflight(r);
	if (served || ends)
		r->attr.down(r->attr.arg);
}

/* ---- commands ---- */

#define COUNT_MAX (DIGITS_MAX + 3) /* '*' or '$', digits, CR, LF */

/* "*N\r\n" or "$N\r\n"; behind it. */
static char *put_count(char *at, char mark, size_t n)
{
	*at++ = mark;
	at = digits_put(at, n);
	*at++ = '\r';
	*at++ = '\n';
	return at;
}

static size_t length_of(const char *const *args, const size_t *lens, int i)
{
	return lens ? lens[i] : strlen(args[i]);
}

/* Straight into what the connection sends. */
static int put_command(struct evbuffer *out, int n, const char *const *args, const size_t *lens)
{
	size_t room = COUNT_MAX;
	struct evbuffer_iovec space;
	char *at;

	for (int i = 0; i < n; i++)
		room += COUNT_MAX + length_of(args, lens, i) + 2;
	if (evbuffer_reserve_space(out, (ev_ssize_t)room, &space, 1) < 1)
		return -ENOMEM;
	at = put_count(space.iov_base, '*', (size_t)n);
	for (int i = 0; i < n; i++) {
		size_t len = length_of(args, lens, i);

		at = put_count(at, '$', len);
		if (len)
			memcpy(at, args[i], len);
		at += len;
		*at++ = '\r';
		*at++ = '\n';
	}
	space.iov_len = (size_t)(at - (char *)space.iov_base);
	return evbuffer_commit_space(out, &space, 1) ? -ENOMEM : 0;
}

int redis_send(struct redis *r, int n, const char *const *args, const size_t *lens,
	       redis_reply_fn *fn, void *arg)
{
	struct command *c = NULL;

	if (!r->attr.push || r->state != REDIS_SERVING) {
		c = malloc(sizeof(*c));
		if (!c)
			return -ENOMEM;
	}
	if (put_command(bufferevent_get_output(r->bev), n, args, lens)) {
		free(c);
		return -ENOMEM;
	}
	event_active(r->send, EV_TIMEOUT, 0);
	if (!c)
		return 0;
	c->fn = fn;
	c->arg = arg;
	c->sent_ns = sl_clock_ns();
	sl_list_append(&r->inflight, &c->node);
	r->n_inflight++;
	return 0;
}

int redis_command(struct redis *r, int n, const char *const *args, const size_t *lens,
		  redis_reply_fn *fn, void *arg)
{
	if (r->on_way)
		return -EAGAIN;
	if (r->state != REDIS_SERVING || r->broken)
		return -ENOTCONN;
	if (r->n_inflight >= r->attr.max_inflight)
		return -EBUSY;
	return redis_send(r, n, args, lens, fn, arg);
}

/* ---- the socket ---- */

/* A server that takes no writes any more is not the primary; an error inside a script has that word
 * further back. */
static bool is_demotion(const redisReply *reply)
{
	return reply->type == REDIS_REPLY_ERROR && strstr(reply->str, "READONLY ");
}

/* Nothing was done where the slot is not any more, or where the cluster is down: a part of it that
 * was cut off says so for as long as one stays there. */
static void note_move(struct redis *r, const redisReply *reply)
{
	struct cluster_node to;
	bool moved;

	if (r->attr.url->kind != REDIS_CLUSTER || reply->type != REDIS_REPLY_ERROR || r->moving)
		return;
	moved = cluster_read_redirect(reply->str, KEY_CLUSTER_SLOT, r->host, &to) == CLUSTER_MOVED;
	if (!moved && (r->state != REDIS_SERVING || strncmp(reply->str, "CLUSTERDOWN ", 12) != 0))
		return;
	r->moving = r->on_way = true;
	r->next = to;
	snprintf(r->trouble, sizeof(r->trouble), "%.120s:%u says %.100s", r->host, r->port,
		 reply->str);
	sl_utf8_make_printable(r->trouble);
}

/* Everything in flight there has ended. */
static void move(struct redis *r)
{
	bool served = r->state == REDIS_SERVING;
	uint64_t now = sl_clock_ns();
	bool again = r->moved_ns && now - r->moved_ns < MOVE_MS * SL_NS_PER_MS;

	sl_info("redis", "%s: %s: %s", r->attr.name, r->attr.url->shown, r->trouble);
	r->moved_ns = now;
	r->moving = false;
	r->state = REDIS_WAITING;
	disconnect(r);
	/* Nodes that send us to and fro do so at our rate. */
	loop_set_timer(r->retry, again ? jitter(MOVE_MS) : 0);
	if (served)
		r->attr.down(r->attr.arg);
}

/* Pass one answer of the reader to its command. */
static void take_reply(struct redis *r, const redisReply *reply)
{
	struct sl_list *e;
	struct command *c;

	if (r->attr.push && r->state == REDIS_SERVING && sl_list_empty(&r->inflight)) {
		r->attr.push(r->attr.arg, reply);
		return;
	}
	e = sl_list_pop(&r->inflight);
	if (!e) {
		redis_broke(r, "Redis sent an answer that was not asked for");
		return;
	}
	r->n_inflight--;
	note_move(r, reply);
	c = SL_CONTAINER_OF(e, struct command, node);
	if (c->fn)
		c->fn(c->arg, 0, reply);
	free(c);
	if (r->locator && is_demotion(reply))
		redis_broke(r, "the primary has become a replica");
}

/* A connection that reads at intervals finds more at once: Redis need not wake us for each message.
 */
static void rest(struct redis *r)
{
	if (!r->rest || !r->attr.push_ms || r->state != REDIS_SERVING)
		return;
	event_del(r->readable);
	loop_set_timer(r->rest, r->attr.push_ms);
}

static void on_rested(evutil_socket_t fd, short what, void *arg)
{
	struct redis *r = arg;

	(void)fd;
	(void)what;
	if (event_add(r->readable, NULL))
		redis_broke(r, "out of memory");
}

void redis_set_push_ms(struct redis *r, uint32_t push_ms)
{
	r->attr.push_ms = push_ms;
	if (push_ms || !evtimer_pending(r->rest, NULL))
		return;
	event_del(r->rest);
	on_rested(-1, EV_TIMEOUT, r);
}

static void take_bytes(struct redis *r, const char *bytes, size_t n)
{
	int ret = redis_reader_feed(&r->reader, bytes, n, REPLY_BUFFER_MAX);
	const char *why;
	redisReply *reply;

	if (ret) {
		redis_broke(r, ret == -ENOMEM ? "out of memory"
					      : "Redis sent an answer without an end");
		return;
	}
	r->read_ns = sl_clock_ns();
	r->overdue = false;
	r->parsing = true;
	while (!r->broken) {
		if (redis_reader_next(&r->reader, &reply, &why)) {
			redis_broke(r, why);
			break;
		}
		if (!reply)
			break;
		take_reply(r, reply);
		freeReplyObject(reply);
	}
	r->parsing = false;
	if (r->broken) {
		r->broken = false;
		redis_broke(r, r->trouble);
	} else if (r->moving && sl_list_empty(&r->inflight)) {
		move(r);
	} else if (n < READ_MAX) {
		rest(r);
	}
}

/* A bufferevent would ask how much there is, and make room for it, before it reads. */
static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct redis *r = arg;
	char bytes[READ_MAX];
	ssize_t n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);

	(void)what;
	if (n > 0)
		take_bytes(r, bytes, (size_t)n);
	else if (!n)
		redis_broke(r, "Redis closed the connection");
	else if (errno != EAGAIN && errno != EINTR)
		redis_broke(r, strerror(errno));
}

static void on_send(evutil_socket_t fd, short what, void *arg)
{
	struct redis *r = arg;

	(void)fd;
	(void)what;
	if (r->bev)
		send_now(r->bev);
}

/* The rest of the output, which the socket did not take at once, has left. */
static void on_written(struct bufferevent *bev, void *arg)
{
	(void)arg;
	send_begin(bev);
}

static void set_socket_options(struct redis *r)
{
	int fd = bufferevent_getfd(r->bev);
	int on = 1;
	unsigned ms = r->attr.timeout_ms;

	if (r->attr.url->path)
		return;
	/* Best effort: without them a dead peer is found by the age check alone. */
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof(ms));
}

static int begin_reading(struct redis *r)
{
	r->readable =
		event_new(r->base, bufferevent_getfd(r->bev), EV_READ | EV_PERSIST, on_readable, r);
	return r->readable && !event_add(r->readable, NULL) ? 0 : -ENOMEM;
}

static void on_event(struct bufferevent *bev, short what, void *arg)
{
	struct redis *r = arg;
	int err = EVUTIL_SOCKET_ERROR();

	if (what & BEV_EVENT_CONNECTED) {
		set_socket_options(r);
		send_begin(bev);
		r->state = REDIS_GREETING;
		if (!strcmp(r->trouble, not_connected))
			snprintf(r->trouble, sizeof(r->trouble), "it has not answered yet");
		if (begin_reading(r) || redis_greet(r))
			redis_broke(r, "out of memory");
		return;
	}
	if (what & BEV_EVENT_TIMEOUT) /* errno is that of something else */
		redis_broke(r, r->state == REDIS_CONNECTING ? "it does not take the connection"
							    : "Redis takes nothing");
	else
		redis_broke(r, dial_error(&r->dial, err));
}

/*
 * Whether what we wait for since that moment is lost. The answer may have come and wait for a loop
 * that was busy: so see twice that nothing comes.
 */
static bool is_lost(struct redis *r, uint64_t since_ns)
{
	bool seen = r->overdue;

	r->overdue = sl_clock_ns() - since_ns > (uint64_t)r->attr.timeout_ms * SL_NS_PER_MS;
	return seen && r->overdue;
}

/* Where nothing is asked, silence means nothing: so ask. */
static void ping(struct redis *r)
{
	const char *args[] = { "PING" };
	uint64_t now = sl_clock_ns();

	if (now - r->ping_ns < PING_MS * SL_NS_PER_MS)
		return;
	r->ping_ns = now;
	redis_command(r, 1, args, NULL, NULL, NULL);
}

/* Its operator may have changed a setting, or given the server to another release. */
static void check_server(struct redis *r)
{
	uint64_t now = sl_clock_ns();

	if (!r->attr.check_ms || r->state != REDIS_SERVING || r->on_way ||
	    now - r->checked_ns < r->attr.check_ms * SL_NS_PER_MS ||
	    r->n_inflight >= r->attr.max_inflight)
		return;
	r->checked_ns = now;
	redis_check_again(r);
}

/* A Redis that takes the connection or a command and says nothing is as good as dead. */
static void on_check(evutil_socket_t fd, short what, void *arg)
{
	struct redis *r = arg;
	bool listens = r->attr.push && r->state == REDIS_SERVING;
	uint64_t since = r->read_ns;

	(void)fd;
	(void)what;
	check_server(r);
	if (!listens) {
		if (sl_list_empty(&r->inflight))
			return;
		since = SL_CONTAINER_OF(r->inflight.next, struct command, node)->sent_ns;
	}
	if (is_lost(r, since))
		redis_broke(r, "Redis does not answer");
	else if (listens)
		ping(r);
}

static void connect_to_path(struct redis *r)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };

	strncpy(un.sun_path, r->attr.url->path, sizeof(un.sun_path) - 1);
	if (bufferevent_socket_connect(r->bev, (struct sockaddr *)&un, sizeof(un)))
		redis_broke(r, evutil_socket_error_to_string(EVUTIL_SOCKET_ERROR()));
}

static void reach(struct redis *r)
{
	struct timeval tv = { .tv_sec = r->attr.timeout_ms / 1000,
			      .tv_usec = (r->attr.timeout_ms % 1000) * 1000 };

	r->overdue = false;
	r->bev = bufferevent_socket_new(r->base, -1, BEV_OPT_CLOSE_ON_FREE);
	if (redis_reader_init(&r->reader) || !r->bev) {
		redis_broke(r, "out of memory");
		return;
	}
	bufferevent_setcb(r->bev, NULL, on_written, on_event, r);
	bufferevent_set_timeouts(r->bev, NULL, &tv); /* of connecting, and of a stuck write */
	loop_set_timer(r->check, CHECK_MS);
	if (r->attr.url->path)
		connect_to_path(r);
	else
		dial(&r->dial, r->bev, r->base, &r->resolver, r->host, r->port);
}

static void reach_at(struct redis *r, const char *host, uint16_t port)
{
	snprintf(r->host, sizeof(r->host), "%s", host);
	r->port = port;
	reach(r);
}

static void on_told(void *arg, const char *host, uint16_t port, const char *why)
{
	if (host)
		reach_at(arg, host, port);
	else
		redis_broke(arg, why);
}

static void on_retry(evutil_socket_t fd, short what, void *arg)
{
	struct redis *r = arg;
	struct cluster_node next = r->next;

	(void)fd;
	(void)what;
	r->state = REDIS_CONNECTING;
	r->next.host[0] = '\0'; /* one try; then others are asked */
	if (next.host[0])
		reach_at(r, next.host, next.port);
	else if (r->locator)
		locator_ask(r->locator);
	else
		reach(r);
}

void redis_reconnect(struct redis *r)
{
	if (r->state == REDIS_SERVING)
		redis_broke(r, "what it serves is elsewhere now");
}

int redis_create(struct event_base *base, const struct redis_attr *attr, struct redis **out)
{
	struct redis *r = calloc(1, sizeof(*r));

	if (!r)
		return -ENOMEM;
	r->attr = *attr;
	r->base = base;
	r->backoff_ms = REDIS_BACKOFF_FIRST_MS;
	sl_list_init(&r->inflight);
	snprintf(r->trouble, sizeof(r->trouble), "%s", not_connected);
	if (attr->url->host)
		snprintf(r->host, sizeof(r->host), "%s", attr->url->host);
	r->port = attr->url->port;
	r->retry = event_new(base, -1, 0, on_retry, r);
	r->check = event_new(base, -1, EV_PERSIST, on_check, r);
	r->send = event_new(base, -1, 0, on_send, r);
	if (attr->push_ms)
		r->rest = event_new(base, -1, 0, on_rested, r);
	if (!r->retry || !r->check || !r->send || (attr->push_ms && !r->rest) ||
	    (attr->url->n_seeds &&
	     locator_create(base, attr->url, attr->timeout_ms, on_told, r, &r->locator))) {
		redis_destroy(r);
		return -ENOMEM;
	}
	loop_set_timer(r->retry, 0);
	*out = r;
	return 0;
}

void redis_destroy(struct redis *r)
{
	if (!r)
		return;
	r->state = REDIS_WAITING;
	if (r->check)
		disconnect(r);
	fail_inflight(r);
	if (r->retry)
		event_free(r->retry);
	if (r->check)
		event_free(r->check);
	if (r->send)
		event_free(r->send);
	if (r->rest)
		event_free(r->rest);
	nc_resolver_destroy(r->resolver);
	locator_destroy(r->locator);
	free(r);
}
