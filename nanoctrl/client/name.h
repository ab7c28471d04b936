/* SPDX-License-Identifier: Apache-2.0 */
/* The addresses behind a server's name, of which one after the other is tried. */
#ifndef NC_NAME_H
#define NC_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

struct evdns_base;
struct nc_lookup;
struct nc_url;

/* Of more only so many are looked at. */
#define NC_ADDRESSES_MAX 16

struct nc_address {
	struct sockaddr_storage at;
	socklen_t len; /* 0: none */
};

struct nc_addresses {
	struct nc_address list[NC_ADDRESSES_MAX];
	size_t n;
};

/* What is kept of a name from one connection to the next. */
struct nc_name {
	size_t n;		/* addresses when it was last looked up; 0: never */
	struct nc_address left; /* that did not serve: the next connection begins behind it */
};

bool nc_address_is(const struct nc_address *a, const struct nc_address *b);

/* The addresses in the order in which they are to be tried; an error of getaddrinfo() with none. */
typedef void nc_found_fn(void *arg, int error, const struct nc_addresses *found);

/*
 * Calls back once, from inside of this call where nobody is to be asked: an address, or a name of
 * /etc/hosts. *out is NULL then. -ENOMEM.
 */
int nc_lookup_start(struct nc_lookup **out, struct evdns_base *dns, const struct nc_url *url,
		    struct nc_name *name, nc_found_fn *fn, void *arg);
/* No callback comes any more. Harmless for NULL. */
void nc_lookup_cancel(struct nc_lookup *lookup);

#endif
