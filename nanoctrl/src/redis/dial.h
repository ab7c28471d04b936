/* SPDX-License-Identifier: Apache-2.0 */
/* Connecting to a host by its name or address, without waiting for either. */
#ifndef NANOCTRL_DIAL_H
#define NANOCTRL_DIAL_H

#include <stdint.h>

struct bufferevent;
struct event_base;
struct nc_lookup;
struct nc_resolver;

struct dial {
	struct bufferevent *bev;  /* that is to connect */
	struct nc_lookup *lookup; /* of the host's name; NULL: none is out */
	int error;		  /* that it ended with, of getaddrinfo(); or 0 */
};

/* The result comes later as an event of bev. *resolver is created when host is a name and it does
 * not exist yet; the caller destroys it, after dial_end(). */
void dial(struct dial *d, struct bufferevent *bev, struct event_base *base,
	  struct nc_resolver **resolver, const char *host, uint16_t port);

/* Before bev is freed; also one that is zeroed and was never begun. */
void dial_end(struct dial *d);

/* The meaning of an event of bev that is an error: err was the errno when it came. */
const char *dial_error(const struct dial *d, int err);

#endif
