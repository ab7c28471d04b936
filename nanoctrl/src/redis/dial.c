/* SPDX-License-Identifier: Apache-2.0 */
#include "redis/dial.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <event2/bufferevent.h>
#include <event2/util.h>

#include "nanoctrl/net/resolver.h"

static void fail(struct dial *d)
{
	bufferevent_trigger_event(d->bev, BEV_EVENT_ERROR, BEV_TRIG_DEFER_CALLBACKS);
}

/* The first address of a host, as it is said or found. */
static void on_found(void *arg, int error, const struct addrinfo *list)
{
	struct dial *d = arg;

	d->error = error;
	errno = 0;
	if (error || bufferevent_socket_connect(d->bev, list->ai_addr, (int)list->ai_addrlen))
		fail(d);
}

static struct addrinfo *read_address(const char *host, uint16_t port)
{
	const struct evutil_addrinfo hints = { .ai_flags = EVUTIL_AI_NUMERICHOST |
							   EVUTIL_AI_NUMERICSERV,
					       .ai_family = AF_UNSPEC,
					       .ai_socktype = SOCK_STREAM,
					       .ai_protocol = IPPROTO_TCP };
	struct evutil_addrinfo *list;
	char digits[8];

	snprintf(digits, sizeof(digits), "%u", port);
	return evutil_getaddrinfo(host, digits, &hints, &list) ? NULL : list;
}

void dial(struct dial *d, struct bufferevent *bev, struct event_base *base,
	  struct nc_resolver **resolver, const char *host, uint16_t port)
{
	struct addrinfo *address = read_address(host, port);

	*d = (struct dial){ .bev = bev };
	if (address) {
		on_found(d, 0, address);
		evutil_freeaddrinfo(address);
	} else if ((!*resolver && nc_resolver_create(base, resolver)) ||
		   nc_lookup_start(&d->lookup, *resolver, host, port, on_found, d)) {
		d->error = EVUTIL_EAI_MEMORY;
		fail(d);
	}
}

void dial_end(struct dial *d)
{
	nc_lookup_cancel(d->lookup);
}

const char *dial_error(const struct dial *d, int err)
{
	return d->error ? evutil_gai_strerror(d->error) : evutil_socket_error_to_string(err);
}
