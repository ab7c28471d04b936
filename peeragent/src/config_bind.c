/* SPDX-License-Identifier: Apache-2.0 */
/* data.tcp.bind of a file that serves many hosts: an interface, or a network that has this host. */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "peeragent/src/config.h"

/* The family of an address. */
struct place {
	const char *interface; /* NULL: a network */
	int family;
	unsigned char network[16];
	unsigned bits;
};

static bool read_network(const char *text, struct place *out)
{
	const char *slash = strchr(text, '/');
	char address[INET6_ADDRSTRLEN];
	char *end;

	if (!slash || (size_t)(slash - text) >= sizeof(address) || slash[1] < '0' || slash[1] > '9')
		return false;
	snprintf(address, sizeof(address), "%.*s", (int)(slash - text), text);
	out->bits = (unsigned)strtoul(slash + 1, &end, 10);
	if (inet_pton(AF_INET, address, out->network) == 1)
		out->family = AF_INET;
	else if (inet_pton(AF_INET6, address, out->network) == 1)
		out->family = AF_INET6;
	else
		return false;
	return !*end && strlen(slash + 1) <= 3 && out->bits <= (out->family == AF_INET ? 32 : 128);
}

static const void *bytes_of(const struct sockaddr *a)
{
	if (a->sa_family == AF_INET)
		return &((const struct sockaddr_in *)(const void *)a)->sin_addr;
	return &((const struct sockaddr_in6 *)(const void *)a)->sin6_addr;
}

static bool is_in(const struct place *p, const struct ifaddrs *i)
{
	const unsigned char *bytes;
	unsigned whole = p->bits / 8, rest = p->bits % 8;

	if (p->interface)
		return !strcmp(i->ifa_name, p->interface);
	if (i->ifa_addr->sa_family != p->family)
		return false;
	bytes = bytes_of(i->ifa_addr);
	return !memcmp(bytes, p->network, whole) &&
	       (!rest || !((bytes[whole] ^ p->network[whole]) >> (8 - rest)));
}

/* The lower the better: IPv4 before IPv6, and what other hosts reach before loopback. -1: it cannot
 * be listened on without more than its digits say, or is of a family that we do not know. */
static int rank(const struct ifaddrs *i)
{
	int family = i->ifa_addr ? i->ifa_addr->sa_family : AF_UNSPEC;
	int loopback = i->ifa_flags & IFF_LOOPBACK ? 2 : 0;

	if (!(i->ifa_flags & IFF_UP) || (family != AF_INET && family != AF_INET6))
		return -1;
	if (family == AF_INET6 &&
	    IN6_IS_ADDR_LINKLOCAL((const struct in6_addr *)bytes_of(i->ifa_addr)))
		return -1;
	return loopback + (family == AF_INET6);
}

/* Of several as good ones the first that the kernel names. */
static bool find(const struct place *p, char out[INET6_ADDRSTRLEN])
{
	struct ifaddrs *all, *best = NULL;
	bool found;

	if (getifaddrs(&all))
		return false;
	for (struct ifaddrs *i = all; i; i = i->ifa_next)
		if (rank(i) >= 0 && is_in(p, i) && (!best || rank(i) < rank(best)))
			best = i;
	found = best && inet_ntop(best->ifa_addr->sa_family, bytes_of(best->ifa_addr), out,
				  INET6_ADDRSTRLEN);
	freeifaddrs(all);
	return found;
}

static bool is_numeric(const char *text)
{
	unsigned char bytes[16];

	return inet_pton(AF_INET, text, bytes) == 1 || inet_pton(AF_INET6, text, bytes) == 1;
}

void config_set_bind(struct config *c)
{
	const char *text = c->node.data.tcp.bind;
	struct place place = { .interface = NULL };

	c->attr.data.tcp_bind = text;
	if (!*text || is_numeric(text))
		return;
	if (!read_network(text, &place)) {
		place.interface = text;
		if (!if_nametoindex(text)) {
			cli_config_refuse(
				c->source, "data.tcp.bind",
				"expected a numeric address, as 10.0.0.1, an interface of "
				"this host, or a network, as 10.0.0.0/8, got \"%s\"",
				text);
			return;
		}
	}
	if (find(&place, c->tcp_bind))
		c->attr.data.tcp_bind = c->tcp_bind;
	else
		cli_config_refuse(
			c->source, "data.tcp.bind",
			place.interface ? "expected an interface that is up and has an address, got "
					  "\"%s\""
					: "expected a network in which this host has an address, got "
					  "\"%s\"",
			text);
}
