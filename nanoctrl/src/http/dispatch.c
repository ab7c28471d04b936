/* SPDX-License-Identifier: Apache-2.0 */
#include "http/dispatch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/percent.h"
#include "http/conn.h"
#include "http/host.h"
#include "http/reply.h"
#include "http/worker.h"

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

/* A name that is in the query twice, which leaves its value open. */
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

/* DLSlime's commands ask "/", under a host name of their own, whether a server runs. The answer is
 * public. */
static bool is_for_everybody(const struct request *rq)
{
	return rq->msg.method == HTTP_GET && !strcmp(rq->msg.path, "/");
}

/* Whether a page of another site may have sent the request; if so, it is replied to. */
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

/* Find the route and run its handler, or reply with what is wrong. */
static void serve(struct request *rq)
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

const struct conn_ops dispatch_ops = { .serve = serve, .refuse = reply_refusal };
