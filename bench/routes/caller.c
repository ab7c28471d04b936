/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/routes/caller.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/clock.h"

#define LENGTH "Content-Length:"

int caller_open(struct caller *c, const struct sockaddr *addr, socklen_t len)
{
	int on = 1;
	int ret;

	*c = (struct caller){ .fd = -1, .answer = malloc(CALLER_ANSWER_MAX + 1) };
	if (!c->answer)
		return -ENOMEM;
	c->fd = socket(addr->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (c->fd >= 0 && !connect(c->fd, addr, len) &&
	    !setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)))
		return 0;
	ret = -errno;
	caller_close(c);
	return ret;
}

void caller_close(struct caller *c)
{
	if (c->fd >= 0)
		close(c->fd);
	free(c->answer);
	*c = (struct caller){ .fd = -1 };
}

int caller_send(struct caller *c, const char *request, size_t len)
{
	ssize_t n;

	c->len = 0;
	c->begin_ns = sl_clock_ns();
	n = send(c->fd, request, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n < 0)
		return -errno;
	return (size_t)n == len ? 0 : -EAGAIN;
}

/* -1 when no line of the head says. */
static long body_length(const char *head, const char *end)
{
	for (const char *line = head; line && line < end; line = strstr(line, "\r\n")) {
		line += line == head ? 0 : 2;
		if (!strncasecmp(line, LENGTH, strlen(LENGTH)))
			return strtol(line + strlen(LENGTH), NULL, 10);
	}
	return -1;
}

/* -1 when the answer does not begin with one. */
static int status_of(const char *answer)
{
	static const char version[] = "HTTP/1.1 ";
	const char *at = answer + strlen(version);
	char *end;
	long status;

	if (strncmp(answer, version, strlen(version)) != 0 || at[0] < '1' || at[0] > '9')
		return -1;
	status = strtol(at, &end, 10);
	return end == at + 3 && *end == ' ' ? (int)status : -1;
}

static int look(struct caller *c, const char **body, int *status)
{
	const char *end = strstr(c->answer, "\r\n\r\n");
	long length;

	if (!end)
		return c->len == CALLER_ANSWER_MAX ? -EFBIG : -EAGAIN;
	length = body_length(c->answer, end + 2);
	*status = status_of(c->answer);
	if (length < 0 || *status < 0)
		return -EPROTO;
	*body = end + 4;
	if ((size_t)length > CALLER_ANSWER_MAX - (size_t)(*body - c->answer))
		return -EFBIG;
	return c->len >= (size_t)(*body - c->answer) + (size_t)length ? 0 : -EAGAIN;
}

int caller_take(struct caller *c, const char **body, int *status)
{
	ssize_t n = recv(c->fd, c->answer + c->len, CALLER_ANSWER_MAX - c->len, MSG_DONTWAIT);
	int ret;

	if (n <= 0)
		return n ? -errno : -ECONNRESET;
	c->len += (size_t)n;
	c->answer[c->len] = '\0';
	ret = look(c, body, status);
	return !ret && *status != 200 ? -EPROTO : ret;
}
