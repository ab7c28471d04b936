/* SPDX-License-Identifier: Apache-2.0 */
#include "base/loopback.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <strings.h>

bool sl_is_loopback_address(const char *text)
{
	struct in6_addr in6;
	struct in_addr in;

	if (inet_pton(AF_INET, text, &in) == 1)
		return ntohl(in.s_addr) >> 24 == IN_LOOPBACKNET;
	if (inet_pton(AF_INET6, text, &in6) != 1)
		return false;
	return IN6_IS_ADDR_LOOPBACK(&in6) ||
	       (IN6_IS_ADDR_V4MAPPED(&in6) && in6.s6_addr[12] == IN_LOOPBACKNET);
}

bool sl_is_loopback_host(const char *text)
{
	return strcasecmp(text, "localhost") == 0 || sl_is_loopback_address(text);
}
