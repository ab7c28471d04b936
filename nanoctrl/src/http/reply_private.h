/* SPDX-License-Identifier: Apache-2.0 */
/* Replies from the inside: for conn.c, request.c, server.c and stream.c. */
#ifndef NANOCTRL_REPLY_PRIVATE_H
#define NANOCTRL_REPLY_PRIVATE_H

#include <stdbool.h>
#include "http/reply.h"

struct conn;
struct evbuffer;
struct http_refusal;

/* Spread over twice the time, so that clients that failed together do not come back together. */
unsigned reply_retry_after_s(unsigned seconds);

/* To bytes that are no request: the error is written to the connection's output, which is to be
 * closed after it. */
void reply_refusal(struct conn *c, const struct http_refusal *why);

/* Status line and header fields of the reply to rq, up to the empty line. fields are whole lines of
 * ours or "". */
void reply_head(struct request *rq, int status, const char *fields, bool keep,
		struct evbuffer *out);

#endif
