/* SPDX-License-Identifier: Apache-2.0 */
/* A connection to an HTTP server that stays open, and one call at a time over it. */
#ifndef ROUTES_CALLER_H
#define ROUTES_CALLER_H

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define CALLER_ANSWER_MAX (256u * 1024)

struct caller {
	int fd;
	char *answer; /* CALLER_ANSWER_MAX bytes and a NUL */
	size_t len;   /* of it, so far */
	uint64_t begin_ns;
};

/* Connect, waiting for it. A negative errno. */
int caller_open(struct caller *c, const struct sockaddr *addr, socklen_t len);
void caller_close(struct caller *c);

/* Send a request; it must fit the socket's buffer. A negative errno, -EAGAIN when it does not. */
int caller_send(struct caller *c, const char *request, size_t len);

/*
 * Take what has come. 0 when the answer is whole: *body, NUL-terminated, is valid until the next
 * caller_send(). -EAGAIN: not yet. -EPROTO: no answer with a Content-Length, or a status other than
 * 200. -EFBIG, -ECONNRESET, and what recv(2) says.
 */
int caller_take(struct caller *c, const char **body, int *status);

#endif
