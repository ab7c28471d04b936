/* SPDX-License-Identifier: Apache-2.0 */
#include "theirs.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <base/clock.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>

#define N_THEIRS  4
#define N_REGIONS 4
#define PAUSE_MS  20
#define BEAT_NS	  (5 * SL_NS_PER_S)  /* their registrations last 60 s */
#define PATIENCE  (60 * SL_NS_PER_S) /* with a question */
#define TIMEOUT_S 10

/* The regions of an agent, then the service's metadata. */
#define N_ITEMS (N_REGIONS + 1)

struct written {
	uint64_t sent, acked;
};

struct their {
	char name[16];
	struct event *timer;
	struct evhttp_connection *conn; /* of the request that is out */
	struct written items[N_ITEMS];
	size_t at;
	uint64_t beat_ns; /* when the next one is due */
	bool beats;	  /* that is what is out */
	bool writes;	  /* something is out */
};

static struct {
	struct event_base *base;
	const struct server *const *servers;
	size_t n_servers, server;
	const char *scope;
	struct their list[N_THEIRS];
	size_t n_out;
	uint64_t n_acked;
	bool on;
} a;

/* What a request came to: status is 0 when nobody answered. */
struct answer {
	bool done;
	int status;
	char *body;
};

/* ---- requests ---- */

static struct evhttp_connection *ask(const char *path, const char *body,
				     void (*fn)(struct evhttp_request *, void *), void *arg)
{
	const struct server *s = a.servers[a.server++ % a.n_servers];
	struct evhttp_connection *conn = evhttp_connection_base_new(
		a.base, NULL, "127.0.0.1", (unsigned short)strtoul(s->port, NULL, 10));
	struct evhttp_request *rq = evhttp_request_new(fn, arg);

	assert_non_null(conn);
	assert_non_null(rq);
	evhttp_connection_set_timeout(conn, TIMEOUT_S);
	evhttp_add_header(evhttp_request_get_output_headers(rq), "Host", "localhost");
	evhttp_add_header(evhttp_request_get_output_headers(rq), "Content-Type",
			  "application/json");
	evhttp_add_header(evhttp_request_get_output_headers(rq), "Connection", "close");
	evbuffer_add(evhttp_request_get_output_buffer(rq), body, strlen(body));
	assert_int_equal(evhttp_make_request(conn, rq, EVHTTP_REQ_POST, path), 0);
	return conn;
}

static int status_of(struct evhttp_request *rq)
{
	return rq ? evhttp_request_get_response_code(rq) : 0;
}

static char *body_of(struct evhttp_request *rq)
{
	struct evbuffer *in = evhttp_request_get_input_buffer(rq);
	size_t len = evbuffer_get_length(in);
	char *body = calloc(1, len + 1);

	assert_non_null(body);
	evbuffer_copyout(in, body, len);
	return body;
}

static void on_answer(struct evhttp_request *rq, void *arg)
{
	struct answer *answer = arg;

	answer->status = status_of(rq);
	answer->body = rq ? body_of(rq) : NULL;
	answer->done = true;
}

/* Of whichever server answers: the body, to be freed. */
static char *get(const char *path, const char *body)
{
	uint64_t end = sl_clock_ns() + PATIENCE;

	for (;;) {
		struct answer answer = { .done = false };
		struct evhttp_connection *conn = ask(path, body, on_answer, &answer);

		while (!answer.done)
			assert_int_equal(event_base_loop(a.base, EVLOOP_ONCE), 0);
		evhttp_connection_free(conn);
		if (answer.status == 200)
			return answer.body;
		if (answer.status && answer.status != 503)
			fail_msg("%s: %d %s", path, answer.status, answer.body);
		if (sl_clock_ns() > end)
			fail_msg("%s: nobody answers", path);
		free(answer.body);
	}
}

/* ---- what they write ---- */

static void pause_then_write(struct their *g)
{
	struct timeval tv = { .tv_usec = PAUSE_MS * 1000 };

	evtimer_add(g->timer, &tv);
}

static const char *write_item(const struct their *g, size_t item, uint64_t value, char *body,
			      size_t room)
{
	if (item < N_REGIONS) {
		snprintf(body, room,
			 "{\"agent_name\":\"%s\",\"mr_name\":\"kv-%zu\",\"addr\":%" PRIu64
			 ",\"length\":1,\"rkey\":1,\"scope\":\"%s\"}",
			 g->name, item, value, a.scope);
		return "/register_mr";
	}
	snprintf(body, room,
		 "{\"entity_id\":\"of-%s\",\"kind\":\"k\",\"metadata\":{\"value\":%" PRIu64
		 "},\"scope\":\"%s\"}",
		 g->name, value, a.scope);
	return "/register";
}

static void take_written(struct their *g, int status, const char *body)
{
	struct written *w = &g->items[g->at];

	if (status == 200) {
		w->acked = w->sent;
		a.n_acked++;
	} else if (status && status != 503) {
		fail_msg("%s writes: %d %s", g->name, status, body);
	}
	g->at = (g->at + 1) % N_ITEMS;
}

static void take_beat(struct their *g, int status, const char *body)
{
	if (status == 200 && strstr(body, "\"not_found\""))
		fail_msg("%s was given up", g->name);
	if (status == 200)
		g->beat_ns = sl_clock_ns() + BEAT_NS;
}

static void on_replied(struct evhttp_request *rq, void *arg)
{
	struct their *g = arg;
	int status = status_of(rq);
	char *body = rq ? body_of(rq) : NULL;

	a.n_out--;
	g->writes = false;
	if (g->beats)
		take_beat(g, status, body);
	else
		take_written(g, status, body);
	free(body);
	pause_then_write(g);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct their *g = arg;
	const char *path = "/heartbeat";
	char body[256];

	(void)fd;
	(void)what;
	if (g->writes)
		return;
	if (g->conn)
		evhttp_connection_free(g->conn);
	g->conn = NULL;
	if (!a.on)
		return;
	g->beats = sl_clock_ns() >= g->beat_ns;
	if (g->beats)
		snprintf(body, sizeof(body),
			 "{\"entity_type\":\"agent\",\"entity_id\":\"%s\",\"scope\":\"%s\"}",
			 g->name, a.scope);
	else
		path = write_item(g, g->at, ++g->items[g->at].sent, body, sizeof(body));
	g->writes = true;
	a.n_out++;
	g->conn = ask(path, body, on_replied, g);
}

void theirs_write(bool on)
{
	a.on = on;
	for (size_t i = 0; on && i < N_THEIRS; i++)
		pause_then_write(&a.list[i]);
}

bool theirs_are_quiet(void)
{
	return !a.n_out;
}

uint64_t theirs_acknowledged(void)
{
	return a.n_acked;
}

/* ---- what the servers say ---- */

static uint64_t number_behind(const char *body, const char *key)
{
	const char *at = strstr(body, key);

	return at ? strtoull(at + strlen(key), NULL, 10) : 0;
}

static void check_item(const struct their *g, size_t item)
{
	const struct written *w = &g->items[item];
	char body[256], *answer;
	uint64_t read;

	if (item < N_REGIONS) {
		snprintf(body, sizeof(body),
			 "{\"src\":\"x\",\"dst\":\"%s\",\"mr_name\":\"kv-%zu\",\"scope\":\"%s\"}",
			 g->name, item, a.scope);
		answer = get("/get_mr_info", body);
		read = number_behind(answer, "\"addr\":");
	} else {
		snprintf(body, sizeof(body), "{\"entity_id\":\"of-%s\",\"scope\":\"%s\"}", g->name,
			 a.scope);
		answer = get("/get_entity_info", body);
		read = number_behind(answer, "\"value\":");
	}
	if (read < w->acked || read > w->sent)
		fail_msg("%zu of %s is at %" PRIu64 ": %" PRIu64 " was acknowledged, %" PRIu64
			 " sent: %s",
			 item, g->name, read, w->acked, w->sent, answer);
	free(answer);
}

static void check_listed(const char *path, const char *prefix)
{
	char body[64], name[32], *answer;

	snprintf(body, sizeof(body), "{\"scope\":\"%s\"}", a.scope);
	answer = get(path, body);
	for (size_t i = 0; i < N_THEIRS; i++) {
		snprintf(name, sizeof(name), "\"%s%s\"", prefix, a.list[i].name);
		if (!strstr(answer, name))
			fail_msg("%s lacks %s: %s", path, name, answer);
	}
	free(answer);
}

void theirs_check(void)
{
	for (size_t i = 0; i < N_THEIRS; i++)
		for (size_t k = 0; k < N_ITEMS; k++)
			check_item(&a.list[i], k);
	check_listed("/query", "");
	check_listed("/list_entities", "of-");
}

/* ---- their lives ---- */

static void do_for_each(const char *path, const char *key, const char *prefix, const char *more)
{
	for (size_t i = 0; i < N_THEIRS; i++) {
		char body[256];

		snprintf(body, sizeof(body), "{\"%s\":\"%s%s\",%s\"scope\":\"%s\"}", key, prefix,
			 a.list[i].name, more, a.scope);
		free(get(path, body));
	}
}

void theirs_start(struct event_base *base, const struct server *const *servers, size_t n,
		  const char *scope)
{
	memset(&a, 0, sizeof(a));
	a.base = base;
	a.servers = servers;
	a.n_servers = n;
	a.scope = scope;
	for (size_t i = 0; i < N_THEIRS; i++) {
		struct their *g = &a.list[i];
		char body[256];

		snprintf(g->name, sizeof(g->name), "their-%zu", i);
		g->timer = evtimer_new(base, on_timer, g);
		assert_non_null(g->timer);
		write_item(g, N_REGIONS, g->items[N_REGIONS].sent, body, sizeof(body));
		free(get("/register", body));
	}
	do_for_each("/start_peer_agent", "alias", "", "\"address\":\"127.0.0.1:1\",");
}

void theirs_leave(void)
{
	do_for_each("/cleanup", "agent_name", "", "");
	do_for_each("/unregister", "entity_id", "of-", "");
}

void theirs_stop(void)
{
	for (size_t i = 0; i < N_THEIRS; i++) {
		struct their *g = &a.list[i];

		if (g->conn)
			evhttp_connection_free(g->conn);
		if (g->timer)
			event_free(g->timer);
	}
	memset(&a, 0, sizeof(a));
}
