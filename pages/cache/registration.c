/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/registration.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <event2/buffer.h>
#include <event2/event.h>

#include "base/log.h"
#include "nanoctrl/client/conn.h"
#include "nanoctrl/net/resolver.h"
#include "text/json_slice.h"
#include "text/json_text.h"

#define RETRY_MS    2000
#define ANSWER_MS   5000
#define BODY_MAX    4096
#define TROUBLE_MAX 256

enum step { REGISTER, BEAT, UNREGISTER, N_STEPS };

static const char *const targets[N_STEPS] = { "/register", "/heartbeat", "/unregister" };

struct registration {
	struct event_base *base;
	struct nc_url url;
	struct nc_name name;
	struct nc_resolver *resolver;
	struct nc_conn *conn; /* carries the step; NULL between two of them */
	struct event *timer;
	char *bodies[N_STEPS];
	unsigned beat_ms;
	enum step step;
	bool ended; /* what registration_destroy() waits for */
	bool left;  /* and how it went */
	pthread_mutex_t lock;
	char trouble[TROUBLE_MAX]; /* under it */
};

static void again(struct registration *r, unsigned ms)
{
	const struct timeval tv = { .tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 };

	nc_conn_close(r->conn);
	r->conn = NULL;
	if (r->step == UNREGISTER) {
		r->ended = true;
		event_base_loopbreak(r->base);
		return;
	}
	event_add(r->timer, &tv);
}

/* Said once, and when it is over. */
static void set_trouble(struct registration *r, const char *text)
{
	bool was = *r->trouble;

	pthread_mutex_lock(&r->lock);
	snprintf(r->trouble, sizeof(r->trouble), "%s", text);
	pthread_mutex_unlock(&r->lock);
	if (*text && !was)
		sl_warn("slime-cache", "clients do not find this cache at %s: %s", r->url.text,
			text);
	else if (!*text && was)
		sl_info("slime-cache", "clients find this cache at %s again", r->url.text);
}

static void failed(void *arg, int err, const char *cause)
{
	struct registration *r = arg;

	(void)err;
	if (r->step != UNREGISTER)
		set_trouble(r, cause);
	again(r, r->beat_ms < RETRY_MS ? r->beat_ms : RETRY_MS);
}

/* Whether the answer's status is this word. */
static bool says(const struct http_message *response, const char *word)
{
	struct json_slice key, value;
	struct json_walk w;
	bool found = false;

	if (!response->body || json_too_deep(response->body, response->body_len, 8) ||
	    !json_walk_init(&w, json_first(response->body, response->body_len)) || !w.object)
		return false;
	while (json_walk_next(&w, &key, &value))
		if (json_is(key, "\"status\""))
			found = json_is(value, word);
	return found;
}

static void answered(void *arg, const struct http_message *response)
{
	struct registration *r = arg;
	char text[64];

	if (response->status == 200 && says(response, "\"ok\"")) {
		set_trouble(r, "");
		r->left = r->step == UNREGISTER;
		r->step = r->step == REGISTER ? BEAT : r->step;
		again(r, r->beat_ms);
	} else if (r->step == BEAT && response->status == 200 && says(response, "\"not_found\"")) {
		r->step = REGISTER;
		again(r, 0);
	} else {
		snprintf(text, sizeof(text), "it answers %s with %u", targets[r->step],
			 response->status);
		failed(r, -EPROTO, text);
	}
}

static int send_step(struct registration *r)
{
	static const struct nc_conn_ops ops = { .answered = answered, .failed = failed };
	struct evbuffer *request = evbuffer_new();
	int ret = -ENOMEM;

	if (request && evbuffer_add_printf(request,
					   "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: "
					   "application/json\r\nContent-Length: %zu\r\n\r\n%s",
					   targets[r->step], r->url.authority,
					   strlen(r->bodies[r->step]), r->bodies[r->step]) > 0)
		ret = nc_conn_open(&r->conn, r->base, r->resolver, &r->url, &r->name, &ops, r);
	if (!ret) {
		nc_conn_set_silence(r->conn, ANSWER_MS);
		ret = nc_conn_send(r->conn, request, 0);
	}
	if (request)
		evbuffer_free(request);
	return ret;
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct registration *r = arg;
	int ret = send_step(r);

	(void)fd;
	(void)what;
	if (ret)
		failed(r, ret, strerror(-ret));
}

static int make_bodies(struct registration *r, const struct registration_attr *a)
{
	char id[1024], host[1024], scope[1024 + 16] = "";
	int n;

	json_text(id, sizeof(id), a->service_id);
	json_text(host, sizeof(host), a->host);
	if (a->scope && *a->scope) {
		n = snprintf(scope, sizeof(scope), ",\"scope\":");
		json_text(scope + n, 1024, a->scope);
	}
	if (asprintf(
		    &r->bodies[REGISTER],
		    "{\"entity_type\":\"service\",\"entity_id\":%s,\"kind\":\"cache\",\"endpoint\":"
		    "{\"host\":%s,\"port\":%u,\"protocol\":\"http\"},\"metadata\":{\"p2p_host\":%s,"
		    "\"p2p_port\":%u}%s}",
		    id, host, a->port, host, a->port, scope) < 0)
		r->bodies[REGISTER] = NULL;
	for (int i = BEAT; i < N_STEPS; i++)
		if (asprintf(&r->bodies[i], "{\"entity_type\":\"service\",\"entity_id\":%s%s}", id,
			     scope) < 0)
			r->bodies[i] = NULL;
	return r->bodies[REGISTER] && r->bodies[BEAT] && r->bodies[UNREGISTER] ? 0 : -ENOMEM;
}

static void free_all(struct registration *r)
{
	nc_conn_close(r->conn);
	nc_resolver_destroy(r->resolver);
	if (r->timer)
		event_free(r->timer);
	for (int i = 0; i < N_STEPS; i++)
		free(r->bodies[i]);
	pthread_mutex_destroy(&r->lock);
	free(r);
}

int registration_create(const struct registration_attr *attr, struct registration **out)
{
	struct registration *r = calloc(1, sizeof(*r));
	int ret;

	if (!r)
		return -ENOMEM;
	r->base = attr->base;
	r->beat_ms = attr->beat_ms;
	pthread_mutex_init(&r->lock, NULL);
	snprintf(r->trouble, sizeof(r->trouble), "it has not answered yet");
	ret = nc_url_parse(attr->url, &r->url);
	if (!ret)
		ret = make_bodies(r, attr);
	if (!ret)
		ret = nc_resolver_create(r->base, &r->resolver);
	r->timer = ret ? NULL : evtimer_new(r->base, on_timer, r);
	if (!ret && !r->timer)
		ret = -ENOMEM;
	if (ret) {
		free_all(r);
		return ret;
	}
	again(r, 0);
	*out = r;
	return 0;
}

void registration_trouble(struct registration *r, char *out, size_t room)
{
	pthread_mutex_lock(&r->lock);
	snprintf(out, room, "%s", r->trouble);
	pthread_mutex_unlock(&r->lock);
}

static void on_late(evutil_socket_t fd, short what, void *arg)
{
	struct registration *r = arg;

	(void)fd;
	(void)what;
	again(r, 0);
}

/* Only a cache that is listed has to be taken away. */
static void leave(struct registration *r, unsigned ms)
{
	const struct timeval tv = { .tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 };
	struct event *late = evtimer_new(r->base, on_late, r);

	event_del(r->timer);
	nc_conn_close(r->conn);
	r->conn = NULL;
	r->step = UNREGISTER;
	if (late && !event_add(late, &tv) && !send_step(r))
		while (!r->ended && event_base_dispatch(r->base) == 0)
			;
	if (!r->left)
		sl_warn("slime-cache", "%s lists this cache until its time is over: no answer",
			r->url.text);
	if (late)
		event_free(late);
}

void registration_destroy(struct registration *r, unsigned ms)
{
	if (!r)
		return;
	if (r->step == BEAT && !*r->trouble)
		leave(r, ms);
	free_all(r);
}
