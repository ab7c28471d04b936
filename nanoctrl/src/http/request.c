/* SPDX-License-Identifier: Apache-2.0 */
#include "http/request.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/loopback.h"
#include "base/digits.h"
#include "nanoctrl/net/loop.h"
#include "http/worker.h"

/* Unique is enough: a start that is random, and steps that are spread so that neighbours differ. */
static uint64_t mix(uint64_t n)
{
	n = (n ^ n >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	n = (n ^ n >> 27) * UINT64_C(0x94d049bb133111eb);
	return n ^ n >> 31;
}

void request_new_id(struct worker *w, char id[REQUEST_ID_MAX + 1])
{
	uint64_t n = w->n_ids++;

	id = digits_put_hex(id, mix(w->id_seed + n), 16);
	id = digits_put_hex(id, w->index, 2);
	id = digits_put_hex(id, n, 6);
	*id = '\0';
}

/* A client's own id is kept when it can do no harm in logs and header fields. */
static void choose_id(struct request *rq)
{
	const char *theirs = http_message_field(&rq->msg, "X-Request-Id");
	size_t len = theirs ? strlen(theirs) : 0;

	if (!len || len > REQUEST_ID_MAX ||
	    strspn(theirs, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") !=
		    len)
		request_new_id(rq->w, rq->id);
	else
		memcpy(rq->id, theirs, len + 1);
}

struct request *request_create(struct conn *conn, struct worker *w, const char *peer,
			       struct http_message *msg, size_t held)
{
	struct request *rq = malloc(sizeof(*rq));

	if (!rq)
		return NULL;
	*rq = (struct request){
		.msg = *msg,
		.w = w,
		.conn = conn,
		.held = held,
		.start_ns = sl_clock_ns(),
		.head = msg->method == HTTP_HEAD,
	};
	strncpy(rq->peer, peer, sizeof(rq->peer) - 1);
	choose_id(rq);
	metrics_count(w->metrics->in_flight);
	return rq;
}

void request_destroy(struct request *rq, int status)
{
	struct worker *w = rq->w;
	uint64_t took_us = (sl_clock_ns() - rq->start_ns) / SL_NS_PER_US;
	size_t route = rq->match.route ? (size_t)(rq->match.route - w->config->routes)
				       : w->config->n_routes;

	metrics_uncount(w->metrics->in_flight);
	metrics_request(w->metrics, route, status, took_us);
	if (w->config->access_log) {
		sl_log_set_request(rq->id);
		sl_info("access", "%s %s %s %s %d %llu us", rq->id, rq->peer,
			http_method_name(rq->msg.method), rq->msg.path, status,
			(unsigned long long)took_us);
		sl_log_set_request(NULL);
	}
	budget_release(&w->budget, rq->held);
	http_message_fini(&rq->msg);
	free(rq->params);
	free(rq->query);
	free(rq);
}

const char *request_peer(const struct request *rq)
{
	return rq->peer;
}

bool request_local(const struct request *rq)
{
	return sl_is_loopback_address(rq->peer);
}

void request_end(struct request *rq, enum request_end why)
{
	request_end_fn *fn = rq->end_fn;

	if (why == REQUEST_GONE)
		rq->conn = NULL;
	rq->end_fn = NULL;
	if (fn)
		fn(rq->end_arg, rq, why);
}

void request_on_end(struct request *rq, request_end_fn *fn, void *arg)
{
	if (!rq->conn) {
		fn(arg, rq, REQUEST_GONE);
	} else if (rq->w->phase != WORKER_SERVING) {
		fn(arg, rq, REQUEST_DRAIN);
	} else {
		rq->end_fn = fn;
		rq->end_arg = arg;
	}
}

const char *request_param(const struct request *rq, const char *name)
{
	for (size_t i = 0; i < rq->match.n_params; i++) {
		const struct route_param *p = &rq->match.params[i];

		if (strlen(name) == p->name_len && !memcmp(name, p->name, p->name_len))
			return rq->param[i];
	}
	return NULL;
}

const char *request_query(const struct request *rq, const char *name)
{
	for (size_t i = 0; i < rq->n_query; i++)
		if (!strcmp(rq->queries[i].name, name))
			return rq->queries[i].value;
	return NULL;
}

const char *request_header(const struct request *rq, const char *name)
{
	return http_message_field(&rq->msg, name);
}

bool request_has_header(const struct request *rq, const char *name)
{
	return http_message_has(&rq->msg, name);
}

const char *request_body(const struct request *rq, size_t *len)
{
	*len = rq->msg.body_len;
	return rq->msg.body ? rq->msg.body : "";
}

const char *request_id(const struct request *rq)
{
	return rq->id;
}

struct event_base *request_base(const struct request *rq)
{
	return loop_base(rq->w->loop);
}

struct store *request_store(const struct request *rq)
{
	return rq->w->store;
}

struct server *request_server(const struct request *rq)
{
	return rq->w->server;
}

const char *request_store_trouble(const struct request *rq)
{
	return rq->w->config->hooks.store_trouble(rq->w->store);
}

const char *request_store_place(const struct request *rq)
{
	return rq->w->config->hooks.store_place(rq->w->store);
}

void request_store_warnings(const struct request *rq, struct evbuffer *out)
{
	const struct server_hooks *hooks = &rq->w->config->hooks;

	if (hooks->store_warnings)
		hooks->store_warnings(rq->w->store, out);
}
