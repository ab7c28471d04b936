/* SPDX-License-Identifier: Apache-2.0 */
/* Connecting to a host by its name or address, without waiting for either. */
#ifndef NANOCTRL_DIAL_H
#define NANOCTRL_DIAL_H

#include <stdint.h>

struct bufferevent;
struct event_base;
struct evdns_base;

/* *dns is made when host is a name and it is not there yet; the caller frees it. 0, or -1: the
 * bufferevent's error has been called back, or will be. */
int dial(struct bufferevent *bev, struct event_base *base, struct evdns_base **dns,
	 const char *host, uint16_t port);

#endif
