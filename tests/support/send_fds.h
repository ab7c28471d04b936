/* SPDX-License-Identifier: Apache-2.0 */
/* A packet over a unix socket with descriptors, as many as one likes. */
#ifndef TESTS_SUPPORT_SEND_FDS_H
#define TESTS_SUPPORT_SEND_FDS_H

#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#define SEND_FDS_MAX 16

/* n is at most SEND_FDS_MAX. What sendmsg(2) says; it does not wait. */
static inline ssize_t send_fds(int sock, const void *bytes, size_t len, const int *fds, size_t n)
{
	union {
		char buf[CMSG_SPACE(sizeof(int) * SEND_FDS_MAX)];
		struct cmsghdr align;
	} control = { 0 };
	struct iovec iov = { .iov_base = (void *)(uintptr_t)bytes, .iov_len = len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (n) {
		struct cmsghdr *c;

		msg.msg_control = control.buf;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * n);
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * n);
		memcpy(CMSG_DATA(c), fds, sizeof(int) * n);
	}
	return sendmsg(sock, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
}

#endif
