/* SPDX-License-Identifier: Apache-2.0 */
/* Where a server is: "http://HOST[:PORT][/]". */
#ifndef NC_URL_H
#define NC_URL_H

#include <stddef.h>
#include <stdint.h>

struct evbuffer;

struct nc_url {
	char text[300];	     /* as it was given */
	char host[256];	     /* a name or an address without its brackets */
	char authority[270]; /* for the Host header */
	uint16_t port;
};

/* 0; -EINVAL; -EPROTONOSUPPORT for another scheme. */
int nc_url_parse(const char *text, struct nc_url *out);

/* Appends text as one segment of a path or one value of a query. -ENOMEM. */
int nc_url_encode(struct evbuffer *out, const char *text);

#endif
