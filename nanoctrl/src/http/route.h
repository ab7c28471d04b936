/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which handler answers which path. In a table of routes a path is literal but for {name}
 * segments, each of which matches one whole non-empty segment. Of two routes that match, the one
 * with the literal segment first wins. GET serves HEAD as well. An unknown path is 404, a known one
 * with another method 405 with Allow.
 */
#ifndef NANOCTRL_ROUTE_H
#define NANOCTRL_ROUTE_H

#include <stddef.h>
#include "nanoctrl/net/http_parser.h"

#define ROUTE_PARAMS_MAX 4

struct request;

/* Runs on the loop of the connection and does not block. Replies exactly once, now or later. */
typedef void route_fn(struct request *rq);

struct route {
	enum http_method method;
	const char *path;
	route_fn *handler;
};

struct route_match {
	const struct route *route; /* NULL: see allowed */
	unsigned allowed;	   /* methods that this path has, one bit each; 0: no such path */
	size_t n_params;
	struct route_param {
		const char *name;  /* in route->path */
		const char *value; /* in the path given, still encoded */
		unsigned name_len, value_len;
	} params[ROUTE_PARAMS_MAX];
};

/* Look path (len bytes, without query) up among the n routes of table. */
void route_find(const struct route *table, size_t n, enum http_method method, const char *path,
		size_t len, struct route_match *out);

#endif
