/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes from what should be Redis, a sentinel or a node of a cluster: the connection serves or
 * says why not, and whatever was asked is called back once. The first byte says what kind of
 * connection it is; where sentinels or nodes of a cluster are asked first, what each of them says
 * ends at a byte 0xfe, and what the next one says follows.
 *
 * dial.c is this file's own: every host is the socket that the input comes from.
 */
#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <hiredis/hiredis.h>
#include <base/log.h>
#include <base/utf8.h>
#include "redis/dial.h"
#include "redis/redis.h"
#include "redis/url.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SIZE_MOST 65536 /* fits into a socket */
#define N_ASKED	  3
#define N_PARTS	  4

static struct event_base *base;
static int listener = -1;
static struct sockaddr_un address = { .sun_family = AF_UNIX };

/* ---- the other end ---- */

struct part {
	const uint8_t *at;
	size_t len;
};

static struct {
	struct part parts[N_PARTS]; /* what the connections hear, one after the other */
	size_t n_parts, n_accepted;
	struct event *accept, *gone;
	int fd;
	bool over; /* the connection that was there is not any more */
} other;

static void hang_up(void)
{
	if (other.fd >= 0) {
		event_free(other.gone);
		close(other.fd);
	}
	other.fd = -1;
}

/* What is asked of us is read and of no interest. */
static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	char bytes[4096];

	(void)what;
	(void)arg;
	if (read(fd, bytes, sizeof(bytes)) > 0)
		return;
	hang_up();
	other.over = true;
}

static void on_connection(evutil_socket_t fd, short what, void *arg)
{
	struct part p = { (const uint8_t *)"", 0 };

	(void)what;
	(void)arg;
	hang_up();
	other.fd = accept(fd, NULL, NULL);
	assert(other.fd >= 0);
	evutil_make_socket_nonblocking(other.fd);
	other.over = false;
	if (other.n_accepted < other.n_parts)
		p = other.parts[other.n_accepted];
	other.n_accepted++;
	assert(send(other.fd, p.at, p.len, MSG_NOSIGNAL) == (ssize_t)p.len);
	shutdown(other.fd, SHUT_WR);
	other.gone = event_new(base, other.fd, EV_READ | EV_PERSIST, on_readable, NULL);
	event_add(other.gone, NULL);
}

void dial(struct dial *d, struct bufferevent *bev, struct event_base *with,
	  struct nc_resolver **resolver, const char *host, uint16_t port)
{
	(void)d;
	(void)with;
	(void)resolver;
	assert(strlen(host) < 256 && port);
	if (bufferevent_socket_connect(bev, (struct sockaddr *)&address, sizeof(address)))
		bufferevent_trigger_event(bev, BEV_EVENT_ERROR, BEV_TRIG_DEFER_CALLBACKS);
}

void dial_end(struct dial *d)
{
	(void)d;
}

const char *dial_error(const struct dial *d, int err)
{
	(void)d;
	return strerror(err);
}

/* ---- whoever has the connection ---- */

static struct redis *redis;
static unsigned n_sent, n_answered;
static bool serves;

static void on_reply(void *arg, int result, const redisReply *reply)
{
	(void)arg;
	assert(result ? result == -EIO && !reply : reply != NULL);
	n_answered++;
}

static void on_up(void *arg, const char *run_id)
{
	const char *words[] = { "PING" };

	(void)arg;
	assert(!serves && strlen(run_id) < 48);
	serves = true;
	for (int i = 0; i < N_ASKED; i++)
		n_sent += !redis_command(redis, 1, words, NULL, on_reply, NULL);
}

static void on_down(void *arg)
{
	const char *words[] = { "PING" };
	int ret = redis_command(redis, 1, words, NULL, on_reply, NULL);

	(void)arg;
	assert(serves && (ret == -ENOTCONN || ret == -EAGAIN));
	serves = false;
}

static void on_push(void *arg, const redisReply *message)
{
	(void)arg;
	assert(message);
}

/* Whatever Redis says, a terminal may show it. */
static void look_at(const char *text, size_t room)
{
	size_t left = strlen(text), n;

	assert(left < room);
	for (; left; text += n, left -= n) {
		n = sl_utf8_char(text, left);
		assert(n && !sl_utf8_is_control(text, n));
	}
}

static void look_at_line(void *arg, enum slime_log_level level, const char *part, const char *line)
{
	(void)arg;
	(void)level;
	(void)part;
	look_at(line, SL_LOG_LINE_MAX);
}

/* ---- one input ---- */

static void prepare(void)
{
	if (listener >= 0)
		return;
	base = event_base_new();
	assert(base);
	/* An abstract name: nothing is left behind. */
	snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "slime-fuzz-redis-%ld",
		 (long)getpid());
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	assert(!bind(listener, (struct sockaddr *)&address, sizeof(address)));
	assert(!listen(listener, 8));
	slime_log_set(look_at_line, NULL, SLIME_LOG_DEBUG);
}

static void split(const uint8_t *data, size_t size, bool several)
{
	const uint8_t *end = several ? memchr(data, 0xfe, size) : NULL;

	other.n_parts = 0;
	while (end && other.n_parts < N_PARTS - 1) {
		other.parts[other.n_parts++] = (struct part){ data, (size_t)(end - data) };
		size -= (size_t)(end + 1 - data);
		data = end + 1;
		end = memchr(data, 0xfe, size);
	}
	other.parts[other.n_parts++] = (struct part){ data, size };
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const urls[] = {
		"redis://h:1", "redis://user:secret@h:1/3",   "redis+sentinel://a:1,b:2/main",
		"redis://h:1", "redis+cluster://u:p@a:1,b:2", "redis+cluster://a:1"
	};
	unsigned kind = size ? data[0] % (sizeof(urls) / sizeof(*urls)) : 0;
	bool several = kind == 2 || kind > 3;
	struct redis_attr attr = { .name = "fuzz",
				   .timeout_ms = 60000,
				   .max_inflight = 16,
				   .admit = { .n = 1, .args = { "ADMIT" }, .lens = { 5 } },
				   .up = on_up,
				   .down = on_down,
				   .push = kind == 3 ? on_push : NULL };
	struct redis_url url;
	const char *why;

	if (!size || size > SIZE_MOST)
		return 0;
	prepare();
	assert(!redis_url_parse(urls[kind], &url, &why));
	attr.url = &url;
	n_sent = n_answered = 0;
	serves = false;
	other.n_accepted = 0;
	other.fd = -1;
	other.over = false;
	split(data + 1, size - 1, several);
	other.accept = event_new(base, listener, EV_READ | EV_PERSIST, on_connection, NULL);
	event_add(other.accept, NULL);
	assert(!redis_create(base, &attr, &redis));
	while (!other.over)
		event_base_loop(base, EVLOOP_ONCE);
	event_base_loop(base, EVLOOP_NONBLOCK);
	assert(!serves || other.fd >= 0);
	assert(serves == !redis_trouble(redis));
	look_at(serves ? "" : redis_trouble(redis), 256);
	redis_destroy(redis);
	assert(kind == 3 || n_sent == n_answered);
	hang_up();
	event_free(other.accept);
	redis_url_fini(&url);
	return 0;
}
