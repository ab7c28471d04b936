/* SPDX-License-Identifier: Apache-2.0 */
#include "api_fixture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>
#include <event2/buffer.h>
#include <base/clock.h>
#include "api_session.h"
#include "loop.h"
#include "model.h"
#include "route.h"
#include "server.h"
#include "store.h"

#define TIMEOUT_S   60
#define LONG_TTL_MS 600000 /* a test that floods takes its time on a busy machine */

struct setup {
	uint32_t ttl_ms;
	const char *advertise;
	const char *port; /* of 127.0.0.1, where Redis is reached; NULL: by its unix socket */
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

static void start_server(struct api_fixture *f, const struct setup *setup)
{
	struct server_config config = SERVER_CONFIG_INIT;

	config.port = 0;
	config.n_loops = 2;
	config.routes = route_table;
	config.n_routes = route_table_len;
	config.tick_ms = setup->tick_ms;
	config.stream_queue = setup->stream_queue;
	config.stall_ms = 60000;
	config.drain_accept_ms = setup->drain_accept_ms;
	config.drain_ms = setup->drain_accept_ms + 90;
	config.hooks = (struct server_hooks){ .store_create = create_store,
					      .store_destroy = store_destroy,
					      .store_trouble = store_trouble,
					      .store_warnings = store_warnings,
					      .arg = f->hub };
	assert_int_equal(loop_create(0, &f->loop), 0);
	assert_int_equal(server_create(&config, f->loop, &f->server), 0);
	assert_int_equal(server_start(f->server), 0);
	assert_int_equal(sscanf(server_url(f->server), "http://127.0.0.1:%u", &f->port), 1);
	assert_int_equal(loop_run(f->loop), 0);
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
	assert_int_equal(loop_post(f->loop, drain, f), 0);
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

/* ---- the client ---- */

static int dial(const struct api_fixture *f, bool narrow)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_port = htons((uint16_t)f->port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct timeval tv = { .tv_sec = TIMEOUT_S };
	int segment = 536, buffer = 4096;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	if (narrow) {
		/* The kernel sizes the server's buffer by segments. */
		setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &segment, sizeof(segment));
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof(buffer));
	}
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	return fd;
}

static void send_all(int fd, const void *data, size_t len)
{
	const char *p = data;

	while (len) {
		ssize_t n = send(fd, p, len, MSG_NOSIGNAL);

		assert_true(n > 0);
		p += n;
		len -= (size_t)n;
	}
}

static void send_head(int fd, const char *method, const char *target, const char *lease,
		      const char *more, size_t body_len)
{
	char head[2048];
	int len = snprintf(head, sizeof(head),
			   "%s %s HTTP/1.1\r\nHost: x\r\n%s%s%s%sContent-Length: %zu\r\n\r\n",
			   method, target, lease ? "Slime-Lease: " : "", lease ? lease : "",
			   lease ? "\r\n" : "", more, body_len);

	assert_true(len > 0 && (size_t)len < sizeof(head));
	send_all(fd, head, (size_t)len);
}

/* The whole answer: the server closes because we asked it to. */
static char *read_all(int fd)
{
	size_t size = 4 << 20;
	char *text = malloc(size);
	size_t len = 0;
	ssize_t n;

	assert_non_null(text);
	while ((n = recv(fd, text + len, size - len - 1, 0)) > 0)
		len += (size_t)n;
	assert_int_equal(n, 0);
	text[len] = '\0';
	return text;
}

/* Asks on this connection until its loop's store serves. */
static void until_ready(int fd)
{
	uint64_t deadline = sl_deadline_ns(TIMEOUT_S * 1000);
	char text[4096];
	int status = 0;

	while (status != 200) {
		size_t len = 0;

		assert_true(sl_clock_ns() < deadline);
		send_head(fd, "GET", "/readyz", NULL, "", 0);
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
	int first = dial(f, false);
	int second = dial(f, false);

	until_ready(first);
	until_ready(second);
	close(first);
	close(second);
}

int api_begin_with(struct api_fixture *f, const char *method, const char *target, const char *lease,
		   const char *fields, const char *body)
{
	int fd = dial(f, false);

	send_head(fd, method, target, lease, fields, body ? strlen(body) : 0);
	if (body)
		send_all(fd, body, strlen(body));
	return fd;
}

int api_begin(struct api_fixture *f, const char *method, const char *target, const char *lease,
	      const char *body)
{
	return api_begin_with(f, method, target, lease,
			      body ? "Connection: close\r\nContent-Type: application/json\r\n"
				   : "Connection: close\r\n",
			      body);
}

int api_finish(int fd, struct api_answer *a)
{
	const char *head_end;
	char *text = read_all(fd);

	api_answer_fini(a);
	close(fd);
	assert_int_equal(sscanf(text, "HTTP/1.1 %d", &a->status), 1);
	head_end = strstr(text, "\r\n\r\n");
	assert_non_null(head_end);
	a->retry_after = strcasestr(text, "\r\nRetry-After:") != NULL;
	a->body = json_loads(head_end + 4, 0, NULL);
	free(text);
	return a->status;
}

int api_do(struct api_fixture *f, struct api_answer *a, const char *method, const char *target,
	   const char *lease, const char *body)
{
	return api_finish(api_begin(f, method, target, lease, body), a);
}

int api_post(struct api_fixture *f, const char *path, const char *body)
{
	return api_do(f, &f->said, "POST", path, NULL, body);
}

void api_answer_fini(struct api_answer *a)
{
	json_decref(a->body);
	memset(a, 0, sizeof(*a));
}

static const json_t *walk(const struct api_answer *a, const char *first, va_list ap)
{
	const json_t *v = a->body;

	for (const char *name = first; name; name = va_arg(ap, const char *))
		v = json_is_array(v) ? json_array_get(v, (size_t)atoi(name))
				     : json_object_get(v, name);
	return v;
}

const char *api_text(const struct api_answer *a, const char *first, ...)
{
	const char *s;
	va_list ap;

	va_start(ap, first);
	s = json_string_value(walk(a, first, ap));
	va_end(ap);
	return s ? s : "(none)";
}

long long api_number(const struct api_answer *a, const char *first, ...)
{
	const json_t *v;
	va_list ap;

	va_start(ap, first);
	v = walk(a, first, ap);
	va_end(ap);
	assert_true(json_is_integer(v));
	return json_integer_value(v);
}

size_t api_count(const struct api_answer *a, const char *name)
{
	return json_array_size(json_object_get(a->body, name));
}

int api_register(struct api_fixture *f, const char *name, const char *incarnation, const char *key,
		 char lease[512])
{
	struct api_answer a = { .status = 0 };
	char target[300];
	char body[512];
	int status;

	snprintf(target, sizeof(target), "/v1/agents/%s?scope=demo", name);
	snprintf(body, sizeof(body),
		 "{\"incarnation\":\"%s\",\"owner_key\":\"%s\",\"labels\":{\"role\":\"%s\"},"
		 "\"services\":[{\"name\":\"echo\"}]}",
		 incarnation, key, name);
	status = api_do(f, &a, "PUT", target, NULL, body);
	snprintf(lease, 512, "%s", api_text(&a, "lease", NULL));
	api_answer_fini(&a);
	return status;
}

/* Each loop comes back to Redis by itself: until then it says 503. */
void api_until_registered(struct api_fixture *f, char lease[512])
{
	uint64_t deadline = sl_deadline_ns(60000);
	int status = 503;

	while (status == 503) {
		assert_true(sl_clock_ns() < deadline);
		status = api_register(f, "node-a", "i1", OWNER_KEY_A, lease);
	}
	assert_int_equal(status, 201);
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

/* ---- streams ---- */

static bool fill(struct api_stream *s)
{
	ssize_t n = recv(s->fd, s->in + s->len, sizeof(s->in) - s->len, 0);

	if (n <= 0)
		return false;
	s->len += (size_t)n;
	return true;
}

static void eat(struct api_stream *s, size_t n)
{
	memmove(s->in, s->in + n, s->len - n);
	s->len -= n;
}

static int open_stream(struct api_fixture *f, struct api_stream *s, const char *target,
		       const char *lease, bool websocket, bool narrow)
{
	const char *end;

	memset(s, 0, sizeof(*s));
	s->websocket = websocket;
	s->fd = dial(f, narrow);
	send_head(s->fd, "GET", target, lease,
		  websocket ? "Connection: Upgrade\r\nUpgrade: websocket\r\n"
			      "Sec-WebSocket-Version: 13\r\n"
			      "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
			    : "",
		  0);
	while (!(end = memmem(s->in, s->len, "\r\n\r\n", 4)))
		assert_true(fill(s));
	assert_int_equal(sscanf(s->in, "HTTP/1.1 %d", &s->status), 1);
	eat(s, (size_t)(end + 4 - s->in));
	return s->status;
}

int api_open(struct api_fixture *f, struct api_stream *s, const char *target, const char *lease,
	     bool websocket)
{
	return open_stream(f, s, target, lease, websocket, false);
}

int api_open_narrow(struct api_fixture *f, struct api_stream *s, const char *target,
		    const char *lease, bool websocket)
{
	return open_stream(f, s, target, lease, websocket, true);
}

/* One frame of the server: unmasked, of up to 64 KiB. */
static json_t *next_frame(struct api_stream *s)
{
	json_t *v;

	for (;;) {
		size_t head = 2;
		size_t len;
		unsigned op;

		while (s->len < 4)
			if (!fill(s))
				return NULL;
		op = s->in[0] & 15;
		len = s->in[1] & 127;
		if (len == 126) {
			head = 4;
			len = (size_t)(uint8_t)s->in[2] << 8 | (uint8_t)s->in[3];
		}
		while (s->len < head + len)
			if (!fill(s))
				return NULL;
		if (op == 8) {
			s->close_code =
				(unsigned)(uint8_t)s->in[head] << 8 | (uint8_t)s->in[head + 1];
			return NULL;
		}
		v = op == 1 ? json_loadb(s->in + head, len, 0, NULL) : NULL;
		eat(s, head + len);
		if (v)
			return v;
	}
}

/* One chunk is one line. */
static json_t *next_line(struct api_stream *s)
{
	const char *eol;
	size_t len;
	json_t *v;

	while (!(eol = memmem(s->in, s->len, "\r\n", 2)))
		if (!fill(s))
			return NULL;
	len = strtoul(s->in, NULL, 16);
	eat(s, (size_t)(eol + 2 - s->in));
	if (!len)
		return NULL;
	while (s->len < len + 2)
		if (!fill(s))
			return NULL;
	v = json_loadb(s->in, len, 0, NULL);
	eat(s, len + 2);
	return v;
}

json_t *api_next(struct api_stream *s)
{
	return s->websocket ? next_frame(s) : next_line(s);
}

json_t *api_next_of(struct api_stream *s, const char *type)
{
	uint64_t deadline = sl_deadline_ns(TIMEOUT_S * 1000);
	json_t *v;

	while ((v = api_next(s))) {
		const char *have = json_string_value(json_object_get(v, "type"));

		if (have && strcmp(have, type) == 0)
			return v;
		json_decref(v);
		assert_true(sl_clock_ns() < deadline);
	}
	fail_msg("the stream ended before %s (close code %u)", type, s->close_code);
	return NULL;
}

void api_send(struct api_stream *s, const char *text)
{
	size_t len = strlen(text);
	unsigned char head[6] = { 0x81, (unsigned char)(0x80 | len), 0, 0, 0, 0 };

	assert_true(len < 126);
	send_all(s->fd, head, sizeof(head)); /* a mask of zeros leaves the text as it is */
	send_all(s->fd, text, len);
}

void api_close(struct api_stream *s)
{
	close(s->fd);
}

static int setup_with(void **state, const struct setup *setup)
{
	struct api_fixture *f = calloc(1, sizeof(*f));
	struct store_config config = STORE_CONFIG_INIT;
	char url[64];

	signal(SIGPIPE, SIG_IGN);
	*state = f;
	test_redis_start(&f->redis);
	config.url = f->redis.url;
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
	config.timeout_ms = 10000;
	config.max_list = setup->max_list;
	assert_int_equal(store_hub_create(&config, &f->hub), 0);
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
