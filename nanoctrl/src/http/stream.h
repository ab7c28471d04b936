/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An answer without an end: lines of JSON over chunked HTTP, or a WebSocket. Opening one ends the
 * request. A stream belongs to the loop of its connection and lives until `closed` has been called,
 * which happens exactly once and never from inside stream_open_lines() or stream_upgrade(). No
 * callback comes after it.
 *
 * What waits to be sent is bounded. Text is never cut: a message is queued whole or not at all. A
 * socket that takes nothing for 10 s while something is queued is closed.
 */
#ifndef NANOCTRL_STREAM_H
#define NANOCTRL_STREAM_H

#include <stdbool.h>
#include <stddef.h>

struct request;
struct stream;

enum stream_leave {
	STREAM_AGE, /* it has lived for its hour (20 % more or less): the client comes back at once
		     */
	STREAM_DRAIN, /* the server is shutting down: the client finds another */
};

struct stream_ops {
	/* A text message of the client, at most 64 KiB, with a NUL after its last byte. NULL:
	 * messages are refused. */
	void (*message)(void *arg, struct stream *s, const char *text, size_t len);
	/* Every 5 s, for the line that shows the client that we are alive. May be NULL. */
	void (*tick)(void *arg, struct stream *s);
	/* Say goodbye: what is sent here still goes out, then the stream is closed. May be NULL. */
	void (*leave)(void *arg, struct stream *s, enum stream_leave why);
	/* The stream is no more; s is not to be used. */
	void (*closed)(void *arg);
};

/*
 * 200 with Content-Type application/jsonl; each stream_send() is one line. NULL when the client has
 * gone or there is no memory: the request is replied to, and no callback comes.
 */
struct stream *stream_open_lines(struct request *rq, const struct stream_ops *ops, void *arg);

/* Whether the request asks for a WebSocket as stream_upgrade() wants it. If not, it has been
 * answered with 400 or 426. */
bool stream_check_upgrade(struct request *rq);

/*
 * 101 to WebSocket (RFC 6455, version 13, no extensions); each stream_send() is one text message.
 * NULL when the request does not ask for that: it has been answered with 400 or 426, and no
 * callback comes.
 */
struct stream *stream_upgrade(struct request *rq, const struct stream_ops *ops, void *arg);

/*
 * Queue one message of UTF-8 text (without a line break at its end).
 *   -ENOBUFS  the queue would exceed 256 KiB: everything queued was dropped, this message too; the
 *             caller says `reset` next, for which there is room now
 *   -EPIPE    the stream is being closed
 */
int stream_send(struct stream *s, const char *text, size_t len);

/* How often ops->tick is called. */
unsigned stream_tick_ms(const struct stream *s);

/* Bytes queued and not yet taken by the socket. */
size_t stream_queued(const struct stream *s);

/*
 * Close after what is queued has gone out. code is a WebSocket close code (1000 normal, 1001 going
 * away, 1008 policy, 1011 our error, 4000-4999 ours) and reason at most 120 bytes; lines simply
 * end. `closed` follows later.
 */
void stream_close(struct stream *s, unsigned code, const char *reason);

/* ---- for the end of a connection ---- */

/* Say goodbye now, as far as the socket takes it: the server cuts off what is left. */
void stream_leave_now(struct stream *s);

/* Say goodbye within ms from now. */
void stream_leave_within(struct stream *s, unsigned ms);

#endif
