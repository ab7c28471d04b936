/* SPDX-License-Identifier: Apache-2.0 */
#include "src/transport/tcp/why.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define ADDRESS_LEN 80

static const char *what_happened(int status)
{
	switch (status) {
	case -ECONNREFUSED:
		return "nothing listens there";
	case -ETIMEDOUT:
		return "nothing answers there";
	case -ENOENT:
		return "the process that listens there does not expect this link";
	case -EACCES:
		return "the process that listens there does not hold the link's key, or says that "
		       "we do not";
	case -EPROTO:
		return "the process that listens there does not speak our protocol";
	case -EPROTONOSUPPORT:
		return "the process that listens there speaks another version of our protocol, or one end requires a "
		       "feature that the other does not know";
	case -ECONNRESET:
		return "the connection was cut during the greeting";
	default:
		return strerror(-status);
	}
}

/* Reasons other than the peer. */
static const char *suspect(int status)
{
	switch (status) {
	case -ECONNREFUSED:
		return ", or a firewall refuses";
	case -ETIMEDOUT:
		return ": its host is down, or a firewall drops the packets";
	default:
		return "";
	}
}

void tcp_why_unreached(const struct sockaddr_storage *to, int status, struct sl_why *out)
{
	char address[ADDRESS_LEN];

	tcp_format_address(to, address, sizeof(address));
	if (tcp_is_loopback(to))
		snprintf(out->text, sizeof(out->text),
			 "the peer offered %s, which is loopback, and %s: if the peer is on "
			 "another host, set its tcp_bind",
			 address, what_happened(status));
	else
		snprintf(out->text, sizeof(out->text), "the peer offered %s, but %s%s", address,
			 what_happened(status), suspect(status));
}

void tcp_why_not_met(const struct sockaddr_storage *advertised, struct sl_why *out)
{
	char address[ADDRESS_LEN];

	tcp_format_address(advertised, address, sizeof(address));
	if (tcp_is_loopback(advertised))
		snprintf(out->text, sizeof(out->text),
			 "the peer did not connect to %s, which is loopback: if the peer is on "
			 "another host, set tcp_bind here",
			 address);
	else
		snprintf(out->text, sizeof(out->text),
			 "the peer did not connect to %s: a firewall may drop the packets",
			 address);
}
