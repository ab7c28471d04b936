/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/nanoctrl/api/fixture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <event2/buffer.h>
#include <base/clock.h>
#include "api/session.h"
#include "cluster/expander.h"
#include "nanoctrl/net/loop.h"
#include "model/model.h"
#include "http/server.h"
#include "server/compat.h"
#include "store/redis_store.h"

#define LONG_TTL_MS 600000 /* a test that floods takes its time on a busy machine, */
#define PATIENCE_MS 30000  /* and so does Redis, which says nothing while a script runs */

struct setup {
	uint32_t ttl_ms;
	const char *advertise;
	const char *port; /* of 127.0.0.1, where Redis is reached; NULL: by its unix socket */
	char *public;	  /* gets where it will listen; NULL: it is not the server's own */
	api_own_fn *own;
	uint64_t max_list;
	uint32_t reap_ms;
	uint32_t compat_hold_ms;
	unsigned tick_ms;
	size_t stream_queue;
	unsigned drain_accept_ms;
};

static const struct setup usual = {
	.ttl_ms = LONG_TTL_MS,
	.max_list = UINT32_MAX,
	.reap_ms = 20,
	.tick_ms = 50,
	.stream_queue = 262144,
	.drain_accept_ms = 10,
};

static int create_store(void *arg, struct loop *loop, struct store **out)
{
	return store_create(arg, loop, out);
}

static int create_expander(void *arg, struct store *store, struct loop *loop, void **out)
{
	struct expander *e;
	int ret = expander_create(store, loop, &e);

	(void)arg;
	*out = ret ? NULL : e;
	return ret;
}

static void destroy_expander(void *task)
{
	expander_destroy(task);
}

static void start_server(struct api_fixture *f, const struct setup *setup)
{
	struct server_config config = SERVER_CONFIG_INIT;

	config.port = 0;
	config.n_loops = 2;
	config.routes = f->routes;
	config.n_routes = routes_fill(f->routes, &(struct server_settings){ .compat = COMPAT_OPEN },
				      &config.n_local);
	config.tick_ms = setup->tick_ms;
	config.stream_queue = setup->stream_queue;
	config.stall_ms = 60000;
	config.drain_accept_ms = setup->drain_accept_ms;
	config.drain_ms = setup->drain_accept_ms + 90;
	config.hooks = (struct server_hooks){ .store_create = create_store,
					      .store_destroy = store_destroy,
					      .task_create = create_expander,
					      .task_destroy = destroy_expander,
					      .store_trouble = store_trouble,
					      .store_place = store_place,
					      .store_warnings = store_warnings,
					      .arg = f->hub };
	assert_int_equal(loop_create(&f->loop), 0);
	assert_int_equal(server_create(&config, f->loop, &f->server), 0);
	assert_int_equal(server_start(f->server), 0);
	assert_int_equal(sscanf(server_url(f->server), "http://127.0.0.1:%u", &f->port), 1);
	assert_int_equal(loop_run(f->loop, "main"), 0);
}

static void stop_loop(void *arg)
{
	loop_stop(arg);
}

static void drain(void *arg)
{
	struct api_fixture *f = arg;

	server_drain(f->server, stop_loop, f->loop);
}

void api_drain(struct api_fixture *f)
{
	loop_call(f->loop, drain, f);
}

void api_stop(struct api_fixture *f)
{
	loop_join(f->loop);
	server_destroy(f->server);
	loop_destroy(f->loop);
	f->server = NULL;
}

int api_teardown(void **state)
{
	struct api_fixture *f = *state;

	api_answer_fini(&f->said);
	if (f->server) {
		api_drain(f);
		api_stop(f);
	}
	store_hub_destroy(f->hub);
	test_redis_stop(&f->redis);
	free(f);
	return 0;
}

/* Asks on this connection until its loop's store serves. */
static void until_ready(int fd)
{
	uint64_t deadline = sl_deadline_ns(API_TIMEOUT_S * 1000);
	char text[4096];
	int status = 0;

	while (status != 200) {
		size_t len = 0;

		assert_true(sl_clock_ns() < deadline);
		api_send_head(fd, "GET", "/readyz", NULL, "", 0);
		do {
			ssize_t n = recv(fd, text + len, sizeof(text) - len - 1, 0);

			assert_true(n > 0);
			len += (size_t)n;
			text[len] = '\0';
		} while (text[len - 1] != '}');
		assert_int_equal(sscanf(text, "HTTP/1.1 %d", &status), 1);
	}
}

/* Two connections at once are on two loops. */
static void wait_until_ready(struct api_fixture *f)
{
	int first = api_dial(f, false);
	int second = api_dial(f, false);

	until_ready(first);
	until_ready(second);
	close(first);
	close(second);
}

long long api_metric(struct api_fixture *f, const char *name)
{
	struct evbuffer *text = evbuffer_new();
	long long value = -1;
	char *line;

	server_metrics(f->server, text);
	store_hub_metrics(f->hub, text);
	model_metrics(text);
	api_session_metrics(text);
	while ((line = evbuffer_readln(text, NULL, EVBUFFER_EOL_LF))) {
		if (strncmp(line, name, strlen(name)) == 0 && line[strlen(name)] == ' ')
			value = atoll(line + strlen(name) + 1);
		free(line);
	}
	evbuffer_free(text);
	assert_true(value >= 0);
	return value;
}

void api_await_metric(struct api_fixture *f, const char *name, long long value)
{
	while (api_metric(f, name) != value)
		;
}

static int setup_with(void **state, const struct setup *setup)
{
	struct api_fixture *f = calloc(1, sizeof(*f));
	struct store_config config = STORE_CONFIG_INIT;
	char url[64];

	signal(SIGPIPE, SIG_IGN);
	*state = f;
	test_redis_start(&f->redis);
	if (setup->public)
		test_redis_account(&f->redis);
	config.url = f->redis.url;
	config.compat = compat.store;
	if (setup->port) {
		test_redis_do(&f->redis, "CONFIG SET bind 127.0.0.1");
		test_redis_do(&f->redis, "CONFIG SET port %s", setup->port);
		snprintf(url, sizeof(url), "redis://127.0.0.1:%s", setup->port);
		config.url = url;
	}
	config.ttl_ms = setup->ttl_ms;
	config.advertise = setup->advertise;
	config.beat_ms = 200;
	config.grace_ms = 100;
	config.reap_ms = setup->reap_ms;
	config.compat_hold_ms = setup->compat_hold_ms;
	config.timeout_ms = PATIENCE_MS;
	config.max_list = setup->max_list;
	config.public_address = setup->public;
	assert_int_equal(store_hub_create(&config, &f->hub), 0);
	if (setup->public)
		setup->own(f, setup->public);
	start_server(f, setup);
	wait_until_ready(f);
	return 0;
}

int api_setup(void **state)
{
	return setup_with(state, &usual);
}

int api_setup_short_leases(void **state)
{
	struct setup setup = usual;

	setup.ttl_ms = 3000;
	return setup_with(state, &setup);
}

int api_setup_advertised(void **state)
{
	struct setup setup = usual;

	setup.advertise = API_ADVERTISED;
	return setup_with(state, &setup);
}

int api_setup_told(void **state, const char *advertise)
{
	struct setup setup = usual;

	setup.advertise = advertise;
	return setup_with(state, &setup);
}

int api_setup_port(void **state, const char *port)
{
	struct setup setup = usual;

	setup.port = port;
	return setup_with(state, &setup);
}

int api_setup_private(void **state, char public[API_PLACE_MAX], api_own_fn *own)
{
	struct setup setup = usual;

	setup.own = own;
	setup.public = public;
	return setup_with(state, &setup);
}

int api_setup_as_a_program(void **state)
{
	static const struct store_config program = STORE_CONFIG_INIT;
	struct setup setup = usual;

	setup.advertise = API_ADVERTISED;
	setup.reap_ms = program.reap_ms;
	return setup_with(state, &setup);
}

int api_setup_held(void **state, uint32_t hold_ms)
{
	struct setup setup = usual;

	setup.advertise = API_ADVERTISED;
	setup.compat_hold_ms = hold_ms;
	return setup_with(state, &setup);
}

int api_setup_short_lists(void **state)
{
	struct setup setup = usual;

	setup.advertise = API_ADVERTISED;
	setup.max_list = 4096;
	return setup_with(state, &setup);
}

int api_setup_long_drain(void **state)
{
	struct setup setup = usual;

	setup.drain_accept_ms = 600000;
	return setup_with(state, &setup);
}

static bool is_listener_of(const struct api_fixture *f, int fd)
{
	struct sockaddr_in at = { .sin_family = AF_UNSPEC };
	socklen_t at_len = sizeof(at), len = sizeof(int);
	int listens = 0;

	return !getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) && listens &&
	       !getsockname(fd, (struct sockaddr *)&at, &at_len) && at.sin_family == AF_INET &&
	       at.sin_port == htons((uint16_t)f->port);
}

/* The connections that it accepts have its sockets' buffers. */
static void narrow_listener(const struct api_fixture *f)
{
	int buffer = 4096, fd = 0;

	while (!is_listener_of(f, fd))
		assert_true(++fd < 1024);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer)), 0);
}

int api_setup_short_queues(void **state)
{
	struct setup setup = usual;

	setup.tick_ms = 1;
	setup.stream_queue = 2048;
	setup_with(state, &setup);
	narrow_listener(*state);
	return 0;
}
