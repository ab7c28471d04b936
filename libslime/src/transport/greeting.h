/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A new stream proves which link it belongs to by a greeting: a mutual HMAC-SHA256 under the key of
 * the link, over the roles, the nonces, the ids of both ends and the index of the stream. The key
 * is never sent. docs/wire.md has the bytes. Here is the initiator's half; link_listener.h has the
 * acceptor's.
 */
#ifndef SL_GREETING_H
#define SL_GREETING_H

#include "src/transport/transport.h"

#define SL_GREETING_TIMEOUT_MS 5000
#define SL_GREETING_AGAIN_MS   100 /* before a dialer that was told to dial again does */

struct sl_greeting;

/* The greeting has ended. status 0: the fd is authenticated, and the caller owns it again; else it
 * is closed. */
typedef void sl_greeting_fn(void *arg, int status, int fd, uint16_t stream);

/*
 * Greet over fd, a non-blocking stream that may still be connecting, as the initiator of the link
 * of attr. Returns 0, or a negative errno; fd is closed then, too. fn is called once, unless the
 * greeting is cancelled, with 0 or
 *   -ETIMEDOUT        no answer in time
 *   -ENOENT           the process that answers has no such endpoint
 *   -EACCES           wrong key
 *   -EPROTO, -EPROTONOSUPPORT  not our protocol, or another version of it
 *   -ECONNRESET       the process hung up
 *   -EAGAIN           its endpoint did not learn of us within SL_GREETING_TIMEOUT_MS, or within
 * less while other streams waited: dial again after a pause. The process has not proven that it is
 * our peer errnos of connect() Nothing is logged: the caller does that. [token]
 */
int sl_greeting_start(struct sl_transport *t, int fd, const struct sl_conn_attr *attr,
		      uint16_t stream, sl_greeting_fn *fn, void *arg, struct sl_greeting **out);

/* The meaning of a greeting's status, for people. */
const char *sl_greeting_error(int status);

/* Whether the peer has proven that it holds the key and has our proof, or will get it: it may have
 * accepted the stream. [token] */
bool sl_greeting_answered(const struct sl_greeting *g);
/* Close the fd; fn is not called any more. [token] */
void sl_greeting_cancel(struct sl_greeting *g);
/* In a child after fork: free its memory; forget(NULL) does nothing. */
void sl_greeting_forget(struct sl_greeting *g);

#endif
