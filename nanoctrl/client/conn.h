/* SPDX-License-Identifier: Apache-2.0 */
/* One HTTP/1.1 connection: a request at a time, and after an upgrade raw bytes. */
#ifndef NC_CONN_H
#define NC_CONN_H

#include <stdbool.h>

#include "nanoctrl/client/name.h"
#include "nanoctrl/client/url.h"
#include "nanoctrl/net/http_parser.h"

struct event_base;
struct evbuffer;
struct nc_conn;
struct nc_resolver;

/* Each of these may close the connection. */
struct nc_conn_ops {
	/* The whole response; it lives until this returns. */
	void (*answered)(void *arg, const struct http_message *response);
	/* Bytes after a 101; what stays in the buffer is shown again with more. */
	void (*data)(void *arg, struct evbuffer *in);
	/* Refused, reset, silent, closed, or what came is no HTTP: err is negative. To be closed.
	 */
	void (*failed)(void *arg, int err, const char *cause);
	/* The name's addresses are known, later than nc_conn_open() returned; or NULL. */
	void (*found)(void *arg);
};

/*
 * Connects in the background, to one address of the name after the other until one accepts; a
 * request may be sent at once. An address that does not serve (it refuses, fails, answers 502, 503
 * or 504, or is given up while it owes an answer or has a session) is the last one that the next
 * connection to this name tries. name lives longer than the connection. -ENOMEM.
 */
int nc_conn_open(struct nc_conn **out, struct event_base *base, struct nc_resolver *resolver,
		 const struct nc_url *url, struct nc_name *name, const struct nc_conn_ops *ops,
		 void *arg);
void nc_conn_close(struct nc_conn *conn);
/* The same, but what it owes is not wanted any more: that says nothing of its address. */
void nc_conn_abandon(struct nc_conn *conn);

/* It leads to an address that does not serve, and there are others. */
bool nc_conn_is_left(const struct nc_conn *conn);

/* How many addresses it has gone to with the last request. */
size_t nc_conn_tried(const struct nc_conn *conn);

/* Takes the bytes out of request. The answer may take wait_ms longer than one at once. -ENOMEM. */
int nc_conn_send(struct nc_conn *conn, struct evbuffer *request, uint32_t wait_ms);

/* From now on so much silence of the server is a failure. */
void nc_conn_set_silence(struct nc_conn *conn, int timeout_ms);

/* Bytes that wait to be sent. */
size_t nc_conn_queued(const struct nc_conn *conn);

#endif
