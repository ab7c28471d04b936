/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection: bytes to requests, one at a time, and replies to bytes. Pipelined requests wait
 * in the input, which is bounded, until the reply before them is made.
 */
#ifndef NANOCTRL_CONN_H
#define NANOCTRL_CONN_H

#include <stdbool.h>
#include <event2/event_struct.h>
#include "base/list.h"
#include "http/budget.h"
#include "nanoctrl/net/http_parser.h"
#include "http/request.h"

struct bufferevent;
struct evbuffer;
struct http_refusal;
struct stream;

/* What is done with the bytes that a connection reads: registered in its worker. Neither call
 * closes the connection before it returns. */
struct conn_ops {
	/* c->rq is a request: reply to it, now or later. */
	void (*serve)(struct request *rq);
	/* The bytes are not a request: write the error to the output, which is then closed. */
	void (*refuse)(struct conn *c, const struct http_refusal *why);
};

/* Reports of a connection to the stream that it has become. None of these calls closes the
 * connection before it returns. */
struct conn_stream_ops {
	void (*readable)(struct stream *s, struct evbuffer *in);
	void (*writable)(struct stream *s);
	/* The connection is closed: the stream ends. */
	void (*gone)(struct stream *s);
};

enum conn_state {
	CONN_READING,	/* no request, or a part of one */
	CONN_HANDLING,	/* a handler owes the reply */
	CONN_STREAMING, /* belongs to a stream */
	CONN_FLUSHING,	/* closes when the output is empty */
	CONN_LINGERING, /* waits for the client to close, so that it gets what was sent */
	CONN_BROKEN,	/* closes at the next turn of the loop */
	CONN_STATES
};

struct conn {
	struct sl_list link;
	struct sl_list unsent; /* in w->unsent, when something may be in the output */
	struct worker *w;
	struct bufferevent *bev; /* of which the output is used, and what input waits */
	struct event readable;
	const char *fresh; /* just read: it follows what is in the input */
	size_t n_fresh;
	struct http_parser parser;
	struct request *rq;    /* CONN_HANDLING */
	struct stream *stream; /* CONN_STREAMING, CONN_FLUSHING */
	const struct conn_stream_ops *stream_ops;
	enum conn_state state;
	struct budget_share share; /* what the parser holds, in w->budget */
	bool eof;		   /* the client sends no more */
	bool full;		   /* nothing is read until some of the input is taken */
	bool advancing;		   /* advance() is on the stack */
	bool timed;		   /* the deadline for the request that is arriving is set */
	struct event again;	   /* to go on in the loop's next turn */
	struct event deadline;	   /* idle, request or linger */
	char peer[REQUEST_PEER_MAX];
};

/* Takes fd, also when it fails. */
int conn_open(struct worker *w, int fd, const char *peer);

/* Close now. The request becomes one whose client has gone, the stream is told. */
void conn_close(struct conn *c);

/* The buffer to which a reply is written. It is sent at the end of this turn of the loop. */
struct evbuffer *conn_output(struct conn *c);

/* Bytes in it. */
size_t conn_unsent(const struct conn *c);

/* At the end of a turn: what all connections of this loop have in their outputs leaves. */
void conn_send_all(struct worker *w);

/* The reply to c->rq is in the output. keep: another request may follow. */
void conn_replied(struct conn *c, bool keep);

/* c->rq has become the stream s, which ops report to. */
void conn_become_stream(struct conn *c, struct stream *s, const struct conn_stream_ops *ops);

/* Close when the output is empty. */
void conn_finish(struct conn *c);

/* Close soon, without ceremony: from inside of handlers. */
void conn_break(struct conn *c);

#endif
