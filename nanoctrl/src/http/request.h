/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One HTTP request, as a handler sees it. It belongs to the loop of its connection and everything
 * about it happens on that loop's thread. It is alive until it is replied to (reply.h, stream.h),
 * also when the client has gone meanwhile: such a reply goes nowhere. So a handler owes every
 * request exactly one reply, now or later, and nothing else.
 */
#ifndef NANOCTRL_REQUEST_H
#define NANOCTRL_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "nanoctrl/net/http_parser.h"
#include "http/route.h"

struct conn;
struct event_base;
struct store;
struct worker;

/*
 * The value of {name} in the route's path, percent-decoded: valid UTF-8 without NUL, never empty. A
 * request whose parameter is not is answered with 400 before the handler. NULL only for a name that
 * the route does not have.
 */
const char *request_param(const struct request *rq, const char *name);

/* The value of ?name=, percent-decoded like a parameter (+ is a space), "" when it has none, NULL
 * when absent. */
const char *request_query(const struct request *rq, const char *name);

/* The value of a header field, without surrounding blanks; name is compared without case. NULL when
 * there is none, or several. */
const char *request_header(const struct request *rq, const char *name);

/* Whether there is one, or several. */
bool request_has_header(const struct request *rq, const char *name);

/* The body, with a NUL after its last byte that *len does not count; never NULL. */
const char *request_body(const struct request *rq, size_t *len);

/* The client's X-Request-Id when it sent a sane one, else one of ours. It is in the reply and in
 * the logs. */
const char *request_id(const struct request *rq);

/* The peer's address, without its port; "" when the kernel does not say. */
const char *request_peer(const struct request *rq);

/* Whether the peer is on this host, by its address. */
bool request_local(const struct request *rq);

struct event_base *request_base(const struct request *rq); /* for timers */
struct store *request_store(const struct request *rq);	   /* this loop's store */

enum request_end {
	REQUEST_GONE,  /* the client has closed its connection */
	REQUEST_DRAIN, /* the server is shutting down: reply soon with what there is */
};

typedef void request_end_fn(void *arg, struct request *rq, enum request_end why);

/*
 * For requests that wait for something (a long poll): fn is called at most once, unless the request
 * is replied to before. The reply is owed as ever; fn may give it. fn is called at once when the
 * end has come already.
 */
void request_on_end(struct request *rq, request_end_fn *fn, void *arg);

/* ---- for the other files of this folder; handlers use what is above ---- */

#define REQUEST_ID_MAX	  64
#define REQUEST_QUERY_MAX 16
#define REQUEST_EXTRA_MAX 96
#define REQUEST_PEER_MAX  46

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

/* malloc() and free() of glibc are slow for larger pieces. */
_Static_assert(sizeof(struct request) <= 1032, "each request takes one");

/* Takes msg over. held bytes of w->budget belong to the request. peer is the address of the client.
 * NULL without memory: msg is untouched. */
struct request *request_create(struct conn *conn, struct worker *w, const char *peer,
			       struct http_message *msg, size_t held);

/* An id of ours: unique among replicas and restarts. */
void request_new_id(struct worker *w, char id[REQUEST_ID_MAX + 1]);

/* The connection is gone, or the server drains. */
void request_end(struct request *rq, enum request_end why);

/* After the reply was written: count and log the request, then free it. */
void request_destroy(struct request *rq, int status);

#endif
