/* SPDX-License-Identifier: Apache-2.0 */
#include "http/request.h"

#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/loopback.h"
#include "http/conn.h"
#include "http/host.h"
#include "base/digits.h"
#include "nanoctrl/net/loop.h"
#include "base/percent.h"
#include "http/reply.h"
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

struct request *request_create(struct conn *conn, struct worker *w, struct http_message *msg,
			       size_t held)
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
	memcpy(rq->peer, conn->peer, sizeof(rq->peer));
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

static bool decode_params(struct request *rq)
{
	size_t room = 0;
	char *at;

	for (size_t i = 0; i < rq->match.n_params; i++)
		room += rq->match.params[i].value_len + 1;
	if (!room)
		return true;
	at = rq->params = malloc(room);
	if (!at)
		return false;
	for (size_t i = 0; i < rq->match.n_params; i++) {
		const struct route_param *p = &rq->match.params[i];

		if (!percent_decode(p->value, p->value_len, false, at))
			return false;
		rq->param[i] = at;
		at += strlen(at) + 1;
	}
	return true;
}

/* name=value pairs between '&'; each half is decoded where it stands. */
static bool decode_query(struct request *rq)
{
	char *at, *pair;

	if (!rq->msg.query)
		return true;
	at = rq->query = strdup(rq->msg.query);
	while (at && (pair = strsep(&at, "&"))) {
		char *value = strchr(pair, '=');

		if (!*pair)
			continue;
		if (rq->n_query == REQUEST_QUERY_MAX)
			return false;
		if (value)
			*value++ = '\0';
		else
			value = pair + strlen(pair);
		if (!percent_decode(pair, strlen(pair), true, pair) ||
		    !percent_decode(value, strlen(value), true, value))
			return false;
		rq->queries[rq->n_query].name = pair;
		rq->queries[rq->n_query++].value = value;
	}
	return rq->query != NULL;
}

/* A name that the query has twice: nobody can tell which value is meant. */
static const char *repeated_query(const struct request *rq)
{
	for (size_t i = 1; i < rq->n_query; i++)
		for (size_t k = 0; k < i; k++)
			if (!strcmp(rq->queries[i].name, rq->queries[k].name))
				return rq->queries[i].name;
	return NULL;
}

static void reply_no_route(struct request *rq)
{
	char allow[64] = "";
	size_t len = 0;

	if (!rq->match.allowed) {
		reply_error(rq,
			    &(struct reply_error){
				    .status = 404, .code = "not_found", .field = "path" },
			    "there is nothing at this path");
		return;
	}
	for (unsigned m = 0; m < HTTP_METHODS; m++)
		if (rq->match.allowed & 1u << m)
			len += (size_t)snprintf(allow + len, sizeof(allow) - len, "%s%s",
						len ? ", " : "", http_method_name(m));
	reply_header(rq, "Allow", allow);
	reply_error(rq,
		    &(struct reply_error){
			    .status = 405, .code = "method_not_allowed", .field = "method" },
		    "%s is not served at this path", http_method_name(rq->msg.method));
}

static bool is_for_this_host(const struct server_config *config, const struct route *route)
{
	return (size_t)(route - config->routes) >= config->n_routes - config->n_local;
}

bool request_local(const struct request *rq)
{
	return sl_is_loopback_address(rq->peer);
}

/* DLSlime's commands ask / under a name of their own whether a server runs; what it says is known
 * to everybody. */
static bool is_for_everybody(const struct request *rq)
{
	return rq->msg.method == HTTP_GET && !strcmp(rq->msg.path, "/");
}

/* Whether a page of another site may have sent it; replied to then. */
static bool is_foreign(struct request *rq)
{
	const struct server_config *config = rq->w->config;
	const char *host = request_header(rq, "Host"), *origin = request_header(rq, "Origin");

	if (host && !host_is_served(host, config->names, config->n_names) && !is_for_everybody(rq))
		reply_error(rq,
			    &(struct reply_error){
				    .status = 421, .code = "misdirected", .field = "Host" },
			    "%s is no name of this server: server.names lists them", host);
	else if (request_has_header(rq, "Origin") &&
		 !(host && origin && host_is_origin(host, origin)))
		reply_error(rq,
			    &(struct reply_error){
				    .status = 403, .code = "forbidden", .field = "Origin" },
			    "pages of other sites may not use this server");
	else
		return false;
	return true;
}

void request_dispatch(struct request *rq)
{
	const struct server_config *config = rq->w->config;
	const char *twice;

	if (is_foreign(rq))
		return;
	route_find(config->routes, config->n_routes, rq->msg.method, rq->msg.path,
		   strlen(rq->msg.path), &rq->match);
	if (!rq->match.route)
		reply_no_route(rq);
	else if (is_for_this_host(config, rq->match.route) && !request_local(rq))
		reply_error(rq, &(struct reply_error){ .status = 403, .code = "forbidden" },
			    "this path is served to clients on the server's host only");
	else if (!decode_params(rq))
		reply_error(
			rq,
			&(struct reply_error){ .status = 400, .code = "bad_name", .field = "path" },
			"the path is not UTF-8, or has a zero byte");
	else if (!decode_query(rq))
		reply_error(rq,
			    &(struct reply_error){
				    .status = 400, .code = "bad_query", .field = "query" },
			    "the query is not at most %d pairs of percent-encoded UTF-8",
			    REQUEST_QUERY_MAX);
	else if ((twice = repeated_query(rq)))
		reply_error(
			rq,
			&(struct reply_error){ .status = 400, .code = "bad_query", .field = twice },
			"%s is given twice", twice);
	else
		rq->match.route->handler(rq);
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
