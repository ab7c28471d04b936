/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "support/name_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>
#include <event2/dns.h>

static int fd = -1;
static char address[32];

/* Also of who asks nobody: a server that nobody has started is none. */
__attribute__((visibility("default"))) int
__wrap_evdns_base_resolv_conf_parse(struct evdns_base *base, int flags, const char *path);
int __wrap_evdns_base_resolv_conf_parse(struct evdns_base *base, int flags, const char *path)
{
	(void)flags;
	(void)path;
	return fd < 0 ? 0 : evdns_base_nameserver_ip_add(base, address);
}

void name_server_start(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(at);

	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
	snprintf(address, sizeof(address), "127.0.0.1:%u", ntohs(at.sin_port));
}

void name_server_stop(void)
{
	if (fd >= 0)
		close(fd);
	fd = -1;
}

bool name_server_is_asked(void)
{
	char question[512];

	return recv(fd, question, sizeof(question), MSG_DONTWAIT) > 0;
}
