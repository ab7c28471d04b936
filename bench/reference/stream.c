/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench/reference/stream.h"

#define BUFFER	   (4 << 20)
#define PIECES_MAX 1024 /* of a system call */

static void set_buffer(int fd, int option, int forced)
{
	int len = BUFFER;

	/* Beyond the system's limit it takes a privilege; without it the limit is what we get. */
	if (setsockopt(fd, SOL_SOCKET, forced, &len, sizeof(len)))
		setsockopt(fd, SOL_SOCKET, option, &len, sizeof(len));
}

static void tune(int fd)
{
	int on = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	set_buffer(fd, SO_SNDBUF, SO_SNDBUFFORCE);
	set_buffer(fd, SO_RCVBUF, SO_RCVBUFFORCE);
}

static int tcp_socket(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd >= 0)
		tune(fd);
	return fd;
}

static int connect_pair(int listener, int client, int *server)
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	socklen_t len = sizeof(at);

	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (bind(listener, (struct sockaddr *)&at, sizeof(at)) || listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)&at, &len) ||
	    connect(client, (struct sockaddr *)&at, len))
		return -errno;
	*server = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	if (*server < 0)
		return -errno;
	tune(*server);
	return 0;
}

int stream_pair(int *server, int *client)
{
	int listener = tcp_socket();
	int ret;

	*client = tcp_socket();
	if (listener < 0 || *client < 0)
		ret = -EMFILE;
	else
		ret = connect_pair(listener, *client, server);
	if (listener >= 0)
		close(listener);
	if (ret && *client >= 0)
		close(*client);
	return ret;
}

/* Take done bytes off the front of the pieces. */
static void advance(struct iovec **iov, size_t *n, size_t done)
{
	while (*n && done >= (*iov)->iov_len) {
		done -= (*iov)->iov_len;
		(*iov)++;
		(*n)--;
	}
	if (*n) {
		(*iov)->iov_base = (uint8_t *)(*iov)->iov_base + done;
		(*iov)->iov_len -= done;
	}
}

int stream_send(int fd, struct iovec *iov, size_t n)
{
	while (n) {
		struct msghdr msg = { .msg_iov = iov,
				      .msg_iovlen = n < PIECES_MAX ? n : PIECES_MAX };
		ssize_t sent = sendmsg(fd, &msg, MSG_NOSIGNAL);

		if (sent < 0 && errno != EINTR)
			return -errno;
		advance(&iov, &n, sent < 0 ? 0 : (size_t)sent);
	}
	return 0;
}

int stream_recv(int fd, struct iovec *iov, size_t n, enum reference_wait wait)
{
	int flags = wait == WAIT_SPIN ? MSG_DONTWAIT : 0;

	while (n) {
		struct msghdr msg = { .msg_iov = iov,
				      .msg_iovlen = n < PIECES_MAX ? n : PIECES_MAX };
		ssize_t got = recvmsg(fd, &msg, flags);

		if (got == 0)
			return -ECONNRESET;
		if (got < 0 && errno != EINTR && errno != EAGAIN)
			return -errno;
		advance(&iov, &n, got < 0 ? 0 : (size_t)got);
	}
	return 0;
}

int stream_serve(int channel, int (*answer)(void *arg), void *arg)
{
	ssize_t n = 0;
	char go;
	int ret = 0;

	while (!ret && (n = pair_hear_some(channel, &go, 1)) > 0)
		ret = answer(arg);
	return ret ? ret : (int)n;
}
