/* SPDX-License-Identifier: Apache-2.0 */
/* The addresses behind a server's name, of which one after the other is tried. */
#ifndef NC_NAME_H
#define NC_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

struct addrinfo;

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

/* What one connection learns about a name and keeps for the next. */
struct nc_name {
	size_t n;		/* addresses when it was last looked up; 0: never */
	struct nc_address left; /* that did not serve: the next connection begins behind it */
};

bool nc_address_is(const struct nc_address *a, const struct nc_address *b);

/* The addresses that were found for the name, in the order in which they are tried. */
void nc_name_take(struct nc_name *name, const struct addrinfo *list, struct nc_addresses *out);

#endif
