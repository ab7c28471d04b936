/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HTTP server: one listener, some loops, each connection on the loop that had the fewest when
 * it came. The server does not know what a store is; it creates one per loop through its hooks and
 * hands it to handlers.
 */
#ifndef NANOCTRL_SERVER_H
#define NANOCTRL_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "route.h"

struct evbuffer;
struct loop;
struct server;
struct store;

struct server_hooks {
	/*
	 * The store of a loop: created before the loop runs, destroyed on the loop's thread at its
	 * end, when no connection is left on it. Requests that still wait for the store then are
	 * replied to by its destruction.
	 */
	int (*store_create)(void *arg, struct loop *loop, struct store **out);
	void (*store_destroy)(struct store *store);
	/* On the store's loop: NULL while Redis serves, else the reason why not, in words. */
	const char *(*store_trouble)(const struct store *store);
	/* On any loop: append Prometheus text. May be NULL. */
	void (*metrics)(void *arg, struct evbuffer *out);
	void *arg;
};

#endif
