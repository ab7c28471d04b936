/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/probe.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "nanoctrl/net/http_parser.h"

static int parse_url(const char *url, struct sockaddr_storage *addr, socklen_t *len)
{
	struct sockaddr_in *in = (struct sockaddr_in *)addr;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)addr;
	unsigned port = 80;
	char host[64];

	memset(addr, 0, sizeof(*addr));
	if (sscanf(url, "http://[%63[0-9a-fA-F:.]]:%u", host, &port) >= 1 &&
	    inet_pton(AF_INET6, host, &in6->sin6_addr) == 1) {
		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons((uint16_t)port);
		*len = sizeof(*in6);
		return 0;
	}
	if (sscanf(url, "http://%63[0-9a-zA-Z.-]:%u", host, &port) < 1)
		return -EINVAL;
	if (inet_pton(AF_INET, strcmp(host, "localhost") ? host : "127.0.0.1", &in->sin_addr) != 1)
		return -EINVAL;
	in->sin_family = AF_INET;
	in->sin_port = htons((uint16_t)port);
	*len = sizeof(*in);
	return 0;
}

/* Waits until fd is ready for events. */
static int await(int fd, short events, uint64_t deadline)
{
	struct pollfd p = { .fd = fd, .events = events };

	for (;;) {
		uint64_t now = sl_clock_ns();
		int n;

		if (now >= deadline)
			return -ETIMEDOUT;
		n = poll(&p, 1, (int)((deadline - now) / SL_NS_PER_MS) + 1);
		if (n > 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return -errno;
	}
}

static int connect_to(const char *url, uint64_t deadline)
{
	struct sockaddr_storage addr;
	socklen_t len, err_len = sizeof(int);
	int fd, err = 0, ret = parse_url(url, &addr, &len);

	if (ret)
		return ret;
	fd = socket(addr.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, (struct sockaddr *)&addr, len))
		ret = errno == EINPROGRESS ? await(fd, POLLOUT, deadline) : -errno;
	if (!ret && !getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &err_len))
		ret = -err;
	if (ret) {
		close(fd);
		return ret;
	}
	return fd;
}

/* Of a URL that parse_url() took. */
static int send_request(int fd, const char *url, const char *path)
{
	const char *host = strstr(url, "://") + 3;
	char text[1024];
	int n = snprintf(text, sizeof(text),
			 "GET %s HTTP/1.1\r\nHost: %.*s\r\nConnection: close\r\n\r\n", path,
			 (int)strcspn(host, "/"), host);

	if (n >= (int)sizeof(text))
		return -EINVAL;
	/* A new socket's buffer takes it. */
	return send(fd, text, (size_t)n, MSG_NOSIGNAL) == n ? 0 : -EIO;
}

static int refusal(const struct http_refusal *why)
{
	return why->status == 413 ? -EFBIG : why->status == 503 ? -ENOMEM : -EPROTO;
}

/* Reads the response to its end. */
static int read_response(int fd, uint64_t deadline, struct http_parser *parser)
{
	enum http_parse got = HTTP_MORE;
	char bytes[16384];

	while (got == HTTP_MORE) {
		int ret = await(fd, POLLIN, deadline);
		ssize_t n = ret ? 0 : recv(fd, bytes, sizeof(bytes), 0);
		size_t used;

		if (ret)
			return ret;
		if (n < 0 && errno != EAGAIN)
			return -errno;
		if (n > 0)
			got = http_parser_feed(parser, bytes, (size_t)n, &used);
		else if (!n && http_parser_end(parser) != HTTP_DONE)
			return -EPROTO;
		else if (!n)
			got = HTTP_DONE;
	}
	return got == HTTP_DONE ? 0 : refusal(parser->refusal);
}

/* The body goes to out, or with the message. */
static int take_reply(struct http_parser *parser, struct probe_reply *out)
{
	struct http_message response;

	http_parser_take(parser, &response);
	out->status = (int)response.status;
	out->body = response.body ? response.body : strdup("");
	response.body = NULL;
	http_message_fini(&response);
	return out->body ? 0 : -ENOMEM;
}

int probe_get(const char *url, const char *path, int timeout_ms, struct probe_reply *out)
{
	const struct http_limits limits = { .head_bytes = UINT16_MAX,
					    .body_bytes = PROBE_BODY_MAX };
	uint64_t deadline = sl_deadline_ns(timeout_ms);
	int ret, fd = connect_to(url, deadline);
	struct http_parser parser;

	if (fd < 0)
		return fd;
	http_parser_init_response(&parser, &limits);
	ret = send_request(fd, url, path);
	if (!ret)
		ret = read_response(fd, deadline, &parser);
	close(fd);
	if (!ret)
		ret = take_reply(&parser, out);
	http_parser_fini(&parser);
	return ret;
}

int probe_health(const char *url, const char *product, int timeout_ms, pid_t *pid)
{
	struct probe_reply reply;
	char member[64];
	const char *at;
	long theirs;
	int ret = probe_get(url, "/healthz", timeout_ms, &reply);

	if (ret)
		return ret;
	at = strstr(reply.body, "\"pid\":");
	snprintf(member, sizeof(member), "\"product\":\"%s\"", product);
	if (reply.status == 200 && strstr(reply.body, member) && at &&
	    sscanf(at, "\"pid\":%ld", &theirs) == 1)
		*pid = (pid_t)theirs;
	else
		ret = -EPROTO;
	free(reply.body);
	return ret;
}
