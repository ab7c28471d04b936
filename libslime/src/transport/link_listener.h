/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A socket that listens for the streams of links: the acceptor's half of a greeting (greeting.h).
 *
 * A stream that has not proven the key of a link is a pending handshake. It costs us at most 5 s, a
 * few hundred bytes, and one of SL_HANDSHAKES_MAX places. While other streams wait for a place, a
 * silent one loses its place soon. Errors of pending handshakes are logged at a limited rate. On a
 * unix socket streams of users that cannot be peers are closed at once.
 */
#ifndef SL_LINK_LISTENER_H
#define SL_LINK_LISTENER_H

#include "src/transport/greeting.h"
#include "src/transport/transport.h"

#define SL_HANDSHAKES_MAX 64

struct sl_link_listener;

/*
 * The other end of a stream has proven that it holds the key. The receiver owns fd from now on;
 * streams are handed over in any order. conn is the acceptor's connection that expected it.
 */
typedef void sl_link_listener_fn(struct sl_transport *t, struct sl_conn *conn, int fd,
				 uint16_t stream);

/*
 * Watch fd, a non-blocking socket that listens and that the listener owns from now on, and hand
 * every stream that proves itself to fn, non-blocking and close-on-exec. While there are
 * SL_HANDSHAKES_MAX pending handshakes, other streams wait in the queue of the kernel until one of
 * those ends, or has sent nothing for 100 ms, or has made no step for 500 ms: that one is dropped,
 * and told to dial again if our endpoint does not know its peer yet. Returns 0 or a negative errno
 * (fd is closed then, too). [token] for everything that happens later; destroy(NULL) does nothing.
 */
int sl_link_listener_create(struct sl_transport *t, int fd, sl_link_listener_fn *fn,
			    struct sl_link_listener **out);
void sl_link_listener_destroy(struct sl_link_listener *l);
/* In a child after fork: free its memory. */
void sl_link_listener_forget(struct sl_link_listener *l);

#endif
