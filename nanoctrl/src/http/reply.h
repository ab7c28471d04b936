/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The answer to a request. Each of these ends the request: rq is not touched afterwards. They take
 * their input by copy and cannot fail; a client that has gone, or no memory for the answer, closes
 * the connection.
 */
#ifndef NANOCTRL_REPLY_H
#define NANOCTRL_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <slime/export.h>

struct conn;
struct evbuffer;
struct http_refusal;
struct request;

/* A body of JSON text. len bytes at body; the caller keeps them. */
void reply_json(struct request *rq, int status, const char *body, size_t len);

/* A body of plain text (UTF-8), for /metrics and people. */
void reply_text(struct request *rq, int status, const char *body, size_t len);

/*
 * Whether the change may have happened. Without an answer from Redis that is unknown, and a client
 * has to check before it repeats a request that is not idempotent.
 */
enum reply_outcome {
	OUTCOME_NOT_EXECUTED,
	OUTCOME_UNKNOWN,
};

/* The parts of an error that a client can use; members that are zero are left out. */
struct reply_error {
	int status;	    /* 400 to 599 */
	const char *code;   /* a word for programs: "bad_json", "not_found" */
	const char *field;  /* the member at fault: "regions[2].length" */
	const char *holder; /* an object as JSON: the holder of the name or address that was asked
			       for */
	uint64_t order;	    /* of the newer write that was executed before */
	enum reply_outcome outcome;
	unsigned retry_after_s; /* Retry-After; jitter is added here */
};

/*
 *   {"status":"error","code":"not_found","message":"...","outcome":"not_executed","request_id":"..."[,"field":"..."][,"order":N][,"holder":{...}]}
 *
 * The message is for people; what is not UTF-8 in it is replaced.
 */
void reply_error(struct request *rq, const struct reply_error *e, const char *fmt, ...)
	SLIME_PRINTF(3, 4);

/* One more header field for the reply that follows: name is a constant of ours, value has no line
 * breaks. */
void reply_header(struct request *rq, const char *name, const char *value);

/* ---- for the other files of this folder ---- */

/* A random time from seconds to twice that, so that clients which failed together do not return
 * together. */
unsigned reply_retry_after_s(unsigned seconds);

/* The answer to bytes that are not a request: writes the error to the connection's output. The
 * caller closes the connection after it. */
void reply_refusal(struct conn *c, const struct http_refusal *why);

/* Status line and header fields of the reply to rq, up to the empty line. fields are whole lines of
 * ours or "". */
void reply_head(struct request *rq, int status, const char *fields, bool keep,
		struct evbuffer *out);

#endif
