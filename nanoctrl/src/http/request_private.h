/* SPDX-License-Identifier: Apache-2.0 */
/* A request from the inside: for request.c, conn.c, reply.c and stream.c. */
#ifndef NANOCTRL_REQUEST_PRIVATE_H
#define NANOCTRL_REQUEST_PRIVATE_H

#include "nanoctrl/net/http_parser.h"
#include "http/route.h"

#define REQUEST_ID_MAX	  64
#define REQUEST_QUERY_MAX 16
#define REQUEST_EXTRA_MAX 96
#define REQUEST_PEER_MAX  46

struct conn;
struct worker;

struct request {
	struct http_message msg;
	struct worker *w;
	struct conn *conn; /* NULL: the client has gone */
	struct route_match match;
	char *params;			     /* the decoded ones, one after the other */
	const char *param[ROUTE_PARAMS_MAX]; /* in params */
	char *query;			     /* decoded names and values */
	size_t n_query;
	struct {
		const char *name, *value;
	} queries[REQUEST_QUERY_MAX];
	uint64_t start_ns;
	size_t held; /* bytes of w->budget */
	bool head;   /* HEAD: the reply has no body */
	request_end_fn *end_fn;
	void *end_arg;
	size_t extra_len;
	char extra[REQUEST_EXTRA_MAX]; /* header fields for the reply */
	char id[REQUEST_ID_MAX + 1];
	char peer[REQUEST_PEER_MAX];
};

/* Larger pieces are slow to get from malloc() of glibc, and to give back. */
_Static_assert(sizeof(struct request) <= 1032, "each request takes one");

/* Takes msg over. held bytes of w->budget are its own. NULL without memory: msg is untouched. */
struct request *request_create(struct conn *conn, struct worker *w, struct http_message *msg,
			       size_t held);

/* An id of ours: unique among replicas and restarts. */
void request_new_id(struct worker *w, char id[REQUEST_ID_MAX + 1]);

/* Find the route and run its handler, or reply with what is wrong. */
void request_dispatch(struct request *rq);

/* The connection is gone, or the server drains. */
void request_end(struct request *rq, enum request_end why);

/* The reply is made: count it, log it, forget the request. */
void request_destroy(struct request *rq, int status);

#endif
