/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the addresses of a host on an event loop: in /etc/hosts, then with the name servers of
 * /etc/resolv.conf. libevent ends a cancelled lookup, and one of whose two questions only one was
 * answered, in a later turn of the loop, and keeps its memory until then. So the owner of the loop
 * turns it once, with EVLOOP_NONBLOCK, before it frees the loop.
 */
#ifndef NC_RESOLVER_H
#define NC_RESOLVER_H

#include <stdint.h>

struct addrinfo;
struct event_base;
struct nc_lookup;
struct nc_resolver;

/* The addresses, which there are until it returns; or an error of getaddrinfo() and NULL. */
typedef void nc_found_fn(void *arg, int error, const struct addrinfo *list);

/* -ENOMEM. One without name servers finds what needs none. */
int nc_resolver_create(struct event_base *base, struct nc_resolver **out);

/* Of its lookups none is out: they have called back, or are cancelled. */
void nc_resolver_destroy(struct nc_resolver *resolver);

/*
 * Calls back once, from inside of this call if no name server is needed: an address, or a name of
 * /etc/hosts. *out is NULL then. -ENOMEM.
 */
int nc_lookup_start(struct nc_lookup **out, struct nc_resolver *resolver, const char *host,
		    uint16_t port, nc_found_fn *fn, void *arg);
/* No callback comes any more. Harmless for NULL. */
void nc_lookup_cancel(struct nc_lookup *lookup);

#endif
