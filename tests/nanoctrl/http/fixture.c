/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/nanoctrl/http/fixture.h"

#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <event2/event.h>

#include "api/server.h"
#include "base/clock.h"
#include "nanoctrl/net/loop.h"
#include "http/request.h"
#include "http/reply.h"
#include "http/stream.h"

struct http_fixture fx;

struct store {
	int unused;
};

static struct store no_store;

static int create_store(void *arg, struct loop *loop, struct store **out)
{
	(void)arg;
	(void)loop;
	*out = &no_store;
	return 0;
}

static void destroy_store(struct store *store)
{
	(void)store;
}

static const char *store_trouble_of(const struct store *store)
{
	(void)store;
	return NULL;
}

static void hello(struct request *rq)
{
	reply_text(rq, 200, "hello", 5);
}

static void echo(struct request *rq)
{
	size_t len;
	const char *body = request_body(rq, &len);

	reply_json(rq, 200, body, len);
}

static void say_param(struct request *rq)
{
	const char *name = request_param(rq, "name"), *q = request_query(rq, "q");
	char text[256];

	snprintf(text, sizeof(text), "%s|%s|%s", name, q ? q : "-",
		 request_header(rq, "X-H") ?: "-");
	reply_text(rq, 200, text, strlen(text));
}

static void say_later(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	reply_text(arg, 200, "later", 5);
}

static void later(struct request *rq)
{
	static const struct timeval now = { 0 };

	event_base_once(request_base(rq), -1, EV_TIMEOUT, say_later, rq, &now);
}

/* What comes behind it on the connection has the time to arrive. */
static void slow(struct request *rq)
{
	static const struct timeval soon = { .tv_usec = 20000 };

	/* From now on, not from when the loop woke up. */
	event_base_update_cache_time(request_base(rq));
	event_base_once(request_base(rq), -1, EV_TIMEOUT, say_later, rq, &soon);
}

/* Which one serves the connection. */
static void say_loop(struct request *rq)
{
	char text[40];

	snprintf(text, sizeof(text), "(%p)", (void *)request_base(rq));
	reply_text(rq, 200, text, strlen(text));
}

static void wait_ended(void *arg, struct request *rq, enum request_end why)
{
	(void)arg;
	atomic_fetch_add(why == REQUEST_GONE ? &fx.n_gone : &fx.n_drained, 1);
	reply_text(rq, 200, "ended", 5);
}

static void wait_for_end(struct request *rq)
{
	request_on_end(rq, wait_ended, NULL);
}

static void stream_closed(void *arg)
{
	(void)arg;
	atomic_fetch_add(&fx.n_closed, 1);
}

static void send_line(void *arg, struct stream *s)
{
	(void)arg;
	stream_send(s, "{\"type\":\"beat\"}", 15);
}

static void say_goodbye(void *arg, struct stream *s, enum stream_leave why)
{
	(void)arg;
	stream_send(s, why == STREAM_DRAIN ? "drain" : "age", why == STREAM_DRAIN ? 5 : 3);
}

/* Messages of 1000 bytes until the queue is full, then what a session says. */
static void flood(struct stream *s)
{
	char text[1000];
	int n = 0;

	memset(text, 'x', sizeof(text));
	while (!stream_send(s, text, sizeof(text)))
		n++;
	assert_int_equal(stream_send(s, "reset", 5), 0);
	fx.n_flooded = n;
}

/* More than the sockets' buffers take, and less than the queue. */
static void fill(struct stream *s)
{
	static char text[100000];

	memset(text, 'x', sizeof(text));
	for (int i = 0; i < 300; i++)
		assert_int_equal(stream_send(s, text, sizeof(text)), 0);
}

static void got_message(void *arg, struct stream *s, const char *text, size_t len)
{
	(void)arg;
	if (!strcmp(text, "flood"))
		flood(s);
	else if (!strcmp(text, "fill"))
		fill(s);
	else if (!strcmp(text, "close"))
		stream_close(s, 4002, "told to");
	else
		stream_send(s, text, len);
}

static const struct stream_ops line_ops = { .tick = send_line,
					    .leave = say_goodbye,
					    .closed = stream_closed };
static const struct stream_ops ws_ops = { .message = got_message,
					  .leave = say_goodbye,
					  .closed = stream_closed };

static void open_lines(struct request *rq)
{
	stream_open_lines(rq, &line_ops, NULL);
}

static void open_ws(struct request *rq)
{
	stream_upgrade(rq, &ws_ops, NULL);
}

static const struct route table[] = {
	{ HTTP_GET, "/hello", hello },	       { HTTP_POST, "/echo", echo },
	{ HTTP_GET, "/p/{name}", say_param },  { HTTP_GET, "/later", later },
	{ HTTP_GET, "/slow", slow },	       { HTTP_GET, "/wait", wait_for_end },
	{ HTTP_GET, "/loop", say_loop },       { HTTP_GET, "/lines", open_lines },
	{ HTTP_GET, "/ws", open_ws },	       { HTTP_GET, "/readyz", api_readyz },
	{ HTTP_GET, "/metrics", api_metrics },
};

int http_fixture_setup(void **state)
{
	static const struct server_config defaults = SERVER_CONFIG_INIT;

	(void)state;
	memset(&fx, 0, sizeof(fx));
	fx.config = defaults;
	fx.config.port = 0;
	fx.config.n_loops = 2;
	fx.config.routes = table;
	fx.config.n_routes = sizeof(table) / sizeof(table[0]);
	fx.config.hooks.store_create = create_store;
	fx.config.hooks.store_destroy = destroy_store;
	fx.config.hooks.store_trouble = store_trouble_of;
	fx.config.drain_accept_ms = 0;
	return 0;
}

void http_fixture_start(void)
{
	assert_int_equal(loop_create(&fx.main), 0);
	assert_int_equal(server_create(&fx.config, fx.main, &fx.server), 0);
	assert_int_equal(server_start(fx.server), 0);
	assert_int_equal(loop_run(fx.main, "main"), 0);
}

static void drained(void *arg)
{
	(void)arg;
	atomic_fetch_add(&fx.n_done, 1);
}

static void drain(void *arg)
{
	server_drain(arg, drained, NULL);
}

void http_fixture_drain(void)
{
	static struct loop_task task;

	loop_task_init(&task, drain, fx.server);
	loop_post(fx.main, &task);
}

int http_fixture_teardown(void **state)
{
	(void)state;
	if (fx.main)
		loop_join(fx.main);
	server_destroy(fx.server);
	loop_destroy(fx.main);
	fx.server = NULL;
	fx.main = NULL;
	return 0;
}

void http_await(_Atomic int *counter, int n)
{
	uint64_t deadline = sl_deadline_ns(WAIT_MS);

	while (atomic_load(counter) < n) {
		assert_true(sl_clock_ns() < deadline);
		poll(NULL, 0, 1);
	}
}
