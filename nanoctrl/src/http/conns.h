/* SPDX-License-Identifier: Apache-2.0 */
/* All connections of one loop: new ones, and what becomes of them when the server shuts down. On
 * the loop's thread. */
#ifndef NANOCTRL_CONNS_H
#define NANOCTRL_CONNS_H

struct worker;

/* A new connection that the listener has accepted; takes fd. */
void conns_adopt(struct worker *w, int fd, const char *peer);

/* Streams say goodbye, long polls are answered, kept connections end with their next reply. */
void conns_drain(struct worker *w);

/* Idle connections are closed; the others after their reply. */
void conns_close_idle(struct worker *w);

/* All that is left. Requests that are not replied to yet stay with their handlers. */
void conns_close_all(struct worker *w);

#endif
