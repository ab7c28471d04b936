/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/node.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdio.h>

static bool is_outward(const struct ifaddrs *i)
{
	return i->ifa_addr && i->ifa_addr->sa_family == AF_INET && (i->ifa_flags & IFF_UP) &&
	       !(i->ifa_flags & IFF_LOOPBACK);
}

void node_address(char out[INET_ADDRSTRLEN])
{
	struct ifaddrs *all = NULL, *i;

	snprintf(out, INET_ADDRSTRLEN, "127.0.0.1");
	if (getifaddrs(&all))
		return;
	for (i = all; i && !is_outward(i); i = i->ifa_next)
		;
	if (i)
		inet_ntop(AF_INET,
			  &((const struct sockaddr_in *)(const void *)i->ifa_addr)->sin_addr, out,
			  INET_ADDRSTRLEN);
	freeifaddrs(all);
}
