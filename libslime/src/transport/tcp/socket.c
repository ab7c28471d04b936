/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "src/transport/tcp/tcp.h"

#define BACKLOG 512
/* Silence of an idle stream before it is probed, and between probes. */
#define KEEP_IDLE_S	1
#define KEEP_INTERVAL_S 1

int tcp_parse_address(const char *text, uint16_t port, struct sockaddr_storage *out)
{
	struct sockaddr_in *in = (struct sockaddr_in *)out;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)out;

	memset(out, 0, sizeof(*out));
	if (inet_pton(AF_INET, text, &in->sin_addr) == 1) {
		in->sin_family = AF_INET;
		in->sin_port = htons(port);
		return 0;
	}
	if (inet_pton(AF_INET6, text, &in6->sin6_addr) == 1) {
		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons(port);
		return 0;
	}
	return -EINVAL;
}

static uint16_t port_of(const struct sockaddr_storage *a)
{
	if (a->ss_family == AF_INET)
		return ntohs(((const struct sockaddr_in *)a)->sin_port);
	return ntohs(((const struct sockaddr_in6 *)a)->sin6_port);
}

/* 4 or 16 bytes. */
static const void *host_of(const struct sockaddr_storage *a)
{
	if (a->ss_family == AF_INET)
		return &((const struct sockaddr_in *)a)->sin_addr;
	return &((const struct sockaddr_in6 *)a)->sin6_addr;
}

static size_t host_len(const struct sockaddr_storage *a)
{
	return a->ss_family == AF_INET ? sizeof(struct in_addr) : sizeof(struct in6_addr);
}

bool tcp_is_wildcard(const struct sockaddr_storage *a)
{
	static const struct in6_addr any;

	return memcmp(host_of(a), &any, host_len(a)) == 0;
}

bool tcp_is_loopback(const struct sockaddr_storage *a)
{
	const struct in6_addr *in6 = host_of(a);

	if (a->ss_family == AF_INET)
		return ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) >> 24 == 127;
	return IN6_IS_ADDR_LOOPBACK(in6) || (IN6_IS_ADDR_V4MAPPED(in6) && in6->s6_addr[12] == 127);
}

void tcp_format_address(const struct sockaddr_storage *a, char *out, size_t cap)
{
	char host[INET6_ADDRSTRLEN] = "";

	inet_ntop(a->ss_family, host_of(a), host, sizeof(host));
	snprintf(out, cap, a->ss_family == AF_INET ? "%s:%u" : "[%s]:%u", host, port_of(a));
}

socklen_t tcp_address_len(const struct sockaddr_storage *a)
{
	return a->ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

int tcp_listen(struct sockaddr_storage *a, int *out)
{
	int fd = socket(a->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(*a);
	int one = 1, ret;

	if (fd < 0)
		return -errno;
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
	    (a->ss_family == AF_INET6 &&
	     setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one))) ||
	    bind(fd, (const struct sockaddr *)a, tcp_address_len(a)) || listen(fd, BACKLOG) ||
	    getsockname(fd, (struct sockaddr *)a, &len)) {
		ret = -errno;
		close(fd);
		return ret;
	}
	*out = fd;
	return 0;
}

int tcp_dial(const struct sockaddr_storage *a, int *out)
{
	int fd = socket(a->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int ret;

	if (fd < 0)
		return -errno;
	if (connect(fd, (const struct sockaddr *)a, tcp_address_len(a)) && errno != EINPROGRESS) {
		ret = -errno;
		close(fd);
		return ret;
	}
	*out = fd;
	return 0;
}

static int set_tcp(int fd, int option, int value)
{
	return setsockopt(fd, IPPROTO_TCP, option, &value, sizeof(value));
}

/* Whether the other end is on this host. */
static bool is_local(int fd)
{
	struct sockaddr_storage here = { 0 }, there = { 0 };
	socklen_t here_len = sizeof(here), there_len = sizeof(there);

	return getsockname(fd, (struct sockaddr *)&here, &here_len) == 0 &&
	       getpeername(fd, (struct sockaddr *)&there, &there_len) == 0 &&
	       here.ss_family == there.ss_family &&
	       memcmp(host_of(&here), host_of(&there), host_len(&here)) == 0;
}

/*
 * Within a host nothing is lost and nothing congests, and a host's default may pace its packets by
 * a timer (bbr) or end its slow start early (cubic). reno does neither, is in every kernel, and may
 * be chosen by everyone; where an administrator has taken it away the default will do.
 */
static void choose_congestion_control(int fd)
{
	static const char reno[] = "reno";

	if (is_local(fd) &&
	    setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, reno, sizeof(reno) - 1) != 0)
		sl_debug("tcp", "no %s for a stream within the host: %s", reno, strerror(errno));
}

/* The sizes of the buffers stay the kernel's, which grows them to what the path needs; a size of
 * ours would end that and be cut to a limit far below. */
int tcp_set_options(int fd, uint32_t user_timeout_ms)
{
	int probes = (int)(user_timeout_ms / 1000 / KEEP_INTERVAL_S);
	int one = 1;

	if (set_tcp(fd, TCP_NODELAY, 1) ||
	    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one)) ||
	    set_tcp(fd, TCP_KEEPIDLE, KEEP_IDLE_S) || set_tcp(fd, TCP_KEEPINTVL, KEEP_INTERVAL_S) ||
	    set_tcp(fd, TCP_KEEPCNT,
		    probes < 1	   ? 1
		    : probes > 127 ? 127
				   : probes))
		return -errno;
	choose_congestion_control(fd);
	return 0;
}

void tcp_write_candidate(const struct sockaddr_storage *a, struct sl_writer *w)
{
	sl_write_u8(w, a->ss_family == AF_INET ? 4 : 6);
	sl_write_u16(w, port_of(a));
	sl_write_bytes(w, host_of(a), host_len(a));
}

int tcp_read_candidate(struct sockaddr_storage *a, const uint8_t *bytes, size_t len)
{
	struct sl_reader r = { .at = bytes, .left = len };
	uint8_t family = sl_read_u8(&r);
	uint16_t port = sl_read_u16(&r);
	struct sockaddr_in *in = (struct sockaddr_in *)a;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)a;

	memset(a, 0, sizeof(*a));
	if (family == 4) {
		in->sin_family = AF_INET;
		in->sin_port = htons(port);
		sl_read_bytes(&r, &in->sin_addr, sizeof(in->sin_addr));
	} else if (family == 6) {
		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons(port);
		sl_read_bytes(&r, &in6->sin6_addr, sizeof(in6->sin6_addr));
	} else {
		return -EINVAL;
	}
	return r.failed || r.left || !port ? -EINVAL : 0;
}
