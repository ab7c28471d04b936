/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bad network before a tcp listener of this process: a thread that takes connections at 127.0.0.2
 * and passes them on to the same port of 127.0.0.1, a few bytes or many at a time, through small
 * buffers; told to, it resets them, or passes nothing for a while.
 */
#ifndef CONFORMANCE_PROXY_H
#define CONFORMANCE_PROXY_H

#include <stdint.h>

struct proxy;

/* Where a context is to say that it listens. */
#define PROXY_ADDRESS "127.0.0.2"

/* Listens at *port, which the kernel chose; nothing is taken before proxy_start(). */
struct proxy *proxy_create(uint64_t seed, uint16_t *port);
void proxy_start(struct proxy *p);
/* Ends the thread and what is connected. NULL does nothing. */
void proxy_destroy(struct proxy *p);

/* Reset one of the connections, or take no byte for so long. */
void proxy_reset_one(struct proxy *p);
void proxy_stall(struct proxy *p, unsigned ms);

#endif
