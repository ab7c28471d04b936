/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a fresh stream proves which link it belongs to: mutual HMAC-SHA256 with the link's key over
 * roles, nonces, both ends' ids and the stream's index. The key itself is never sent. docs/wire.md
 * has the bytes.
 *
 * Before it is through, a stranger costs us at most 5 s, a few hundred bytes, and one of
 * SL_GREETINGS_MAX places, which it leaves to others that wait for one soon when it says nothing;
 * what is wrong with a stranger is logged at a limited rate. Processes of other users that come to
 * a unix socket get none of it.
 */
#ifndef SL_GREETING_H
#define SL_GREETING_H

#include "src/transport/transport.h"

#define SL_GREETINGS_MAX       64
#define SL_GREETING_TIMEOUT_MS 5000
#define SL_GREETING_AGAIN_MS   100 /* before who was told to dial again does */

struct sl_door;

/*
 * A stream whose other end has proven itself. The receiver owns fd from now on; streams are handed
 * over in any order. conn is the acceptor's connection that expected it.
 */
typedef void sl_door_fn(struct sl_transport *t, struct sl_conn *conn, int fd, uint16_t stream);

/*
 * Watch fd, a non-blocking socket that listens and that the door owns from now on, and hand every
 * stream that passes to fn, non-blocking and close-on-exec. While SL_GREETINGS_MAX strangers are at
 * it, others wait in the kernel's queue until one of them leaves, or has said nothing for 100 ms,
 * or got no further for 500 ms: that one has to go, and is told to dial again if it is our endpoint
 * that does not know its peer yet. Returns 0 or a negative errno (fd is closed then, too).
 * [token] for everything that happens later; destroy(NULL) does nothing.
 */
int sl_door_create(struct sl_transport *t, int fd, sl_door_fn *fn, struct sl_door **out);
void sl_door_destroy(struct sl_door *door);
/* In a child after fork: free its memory. */
void sl_door_forget(struct sl_door *door);

struct sl_greeting;

/* status 0: the fd is the caller's again, and authenticated; else it has been closed. */
typedef void sl_greeting_fn(void *arg, int status, int fd, uint16_t stream);

/*
 * Prove ourselves on fd, a non-blocking stream that may still be connecting, as the initiator with
 * the link of attr. fn is called once, unless the greeting is cancelled. Returns 0 or a negative
 * errno (fd is closed then, too). -ETIMEDOUT, -ENOENT (who answers has no such endpoint), -EACCES
 * (wrong key), -EPROTO, -EPROTONOSUPPORT (another version), -ECONNRESET (it hung up), -EAGAIN (its
 * endpoint did not learn of us within SL_GREETING_TIMEOUT_MS, or less where others waited: dial
 * again, after a pause, since nobody has proven that he is our peer), errnos of connect. Nothing is
 * logged: the caller knows what it means. [token]
 */
int sl_greeting_start(struct sl_transport *t, int fd, const struct sl_conn_attr *attr,
		      uint16_t stream, sl_greeting_fn *fn, void *arg, struct sl_greeting **out);

/* What the status of a greeting means, for people. */
const char *sl_greeting_error(int status);

/* Whether the peer has proven itself and has our proof, or is to get it: it may have taken the
 * stream. [token] */
bool sl_greeting_answered(const struct sl_greeting *g);
/* Closes the fd; fn is not called any more. [token] */
void sl_greeting_cancel(struct sl_greeting *g);
/* In a child after fork: free its memory; forget(NULL) does nothing. */
void sl_greeting_forget(struct sl_greeting *g);

#endif
