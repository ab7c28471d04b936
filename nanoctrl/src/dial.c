/* SPDX-License-Identifier: Apache-2.0 */
#include "dial.h"

#include <netinet/in.h>
#include <event2/bufferevent.h>
#include <event2/dns.h>
#include <event2/util.h>

int dial(struct bufferevent *bev, struct event_base *base, struct evdns_base **dns,
	 const char *host, uint16_t port)
{
	struct in6_addr literal;

	if (!*dns && evutil_inet_pton(AF_INET, host, &literal) != 1 &&
	    evutil_inet_pton(AF_INET6, host, &literal) != 1)
		*dns = evdns_base_new(base, EVDNS_BASE_INITIALIZE_NAMESERVERS |
						    EVDNS_BASE_DISABLE_WHEN_INACTIVE);
	return bufferevent_socket_connect_hostname(bev, *dns, AF_UNSPEC, host, port);
}
