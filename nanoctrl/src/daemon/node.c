/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/node.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/loopback.h"

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

static bool has_address(const struct sockaddr *of, const char *address)
{
	char text[INET6_ADDRSTRLEN];
	const void *bytes;

	if (of->sa_family == AF_INET)
		bytes = &((const struct sockaddr_in *)(const void *)of)->sin_addr;
	else if (of->sa_family == AF_INET6)
		bytes = &((const struct sockaddr_in6 *)(const void *)of)->sin6_addr;
	else
		return false;
	return inet_ntop(of->sa_family, bytes, text, sizeof(text)) && !strcmp(text, address);
}

bool node_has_address(const char *address)
{
	bool found = sl_is_loopback_address(address);
	struct ifaddrs *all = NULL;

	if (found || getifaddrs(&all))
		return found;
	for (struct ifaddrs *i = all; i && !found; i = i->ifa_next)
		found = i->ifa_addr && has_address(i->ifa_addr, address);
	freeifaddrs(all);
	return found;
}
