/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/wire.h"
#include "src/transport/shm/channel.h"

#define PACKET_LEN 48

/* How many descriptors come with each kind. A bell is no packet of that form. */
static const int8_t fds_of[SHM_PACKET_KINDS] = {
	[SHM_SEGMENT] = 3,
	[SHM_ACCEPT] = 2,
};

static void encode(const struct shm_packet *p, uint8_t *bytes)
{
	struct sl_writer w = { .at = bytes, .room = PACKET_LEN };

	sl_write_u8(&w, SHM_PACKET_VERSION);
	sl_write_u8(&w, p->kind);
	sl_write_u8(&w, p->flags);
	sl_write_u8(&w, (uint8_t)p->n_fds);
	sl_write_u32(&w, (uint32_t)p->status);
	sl_write_u32(&w, p->id);
	sl_write_u32(&w, p->access);
	sl_write_u64(&w, p->a);
	sl_write_u64(&w, p->b);
	sl_write_u64(&w, p->c);
	sl_write_u64(&w, p->len);
}

static int decode(const uint8_t *bytes, size_t len, struct shm_packet *p)
{
	struct sl_reader r = { .at = bytes, .left = len };
	uint8_t version = sl_read_u8(&r);
	int said, n_fds;

	if (len == 1 && version == SHM_PACKET_VERSION)
		return p->n_fds || p->fds_lost ? -EPROTO : 0;
	p->kind = sl_read_u8(&r);
	p->flags = sl_read_u8(&r);
	said = sl_read_u8(&r);
	p->status = (int32_t)sl_read_u32(&r);
	p->id = sl_read_u32(&r);
	p->access = sl_read_u32(&r);
	p->a = sl_read_u64(&r);
	p->b = sl_read_u64(&r);
	p->c = sl_read_u64(&r);
	p->len = sl_read_u64(&r);
	if (len && version != SHM_PACKET_VERSION)
		return -EPROTONOSUPPORT;
	if (r.failed || r.left || p->kind == 0 || p->kind >= SHM_PACKET_KINDS)
		return -EPROTO;
	/* Of what was lost there is only its word. */
	n_fds = p->fds_lost ? said : p->n_fds;
	if (said != n_fds || (p->kind != SHM_MAPPED && n_fds != fds_of[p->kind]) ||
	    n_fds > SHM_PACKET_FDS)
		return -EPROTO;
	return 0;
}

int shm_channel_ring(int sock)
{
	static const uint8_t bell[] = { SHM_PACKET_VERSION };

	if (send(sock, bell, sizeof(bell), MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof(bell))
		return 0;
	return errno == EPIPE ? -ECONNRESET : errno == EWOULDBLOCK ? -EAGAIN : -errno;
}

int shm_channel_send(int sock, const struct shm_packet *p)
{
	uint8_t bytes[PACKET_LEN];
	union {
		char buf[CMSG_SPACE(sizeof(int) * SHM_PACKET_FDS)];
		struct cmsghdr align;
	} control = { 0 };
	struct iovec iov = { .iov_base = bytes, .iov_len = sizeof(bytes) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	encode(p, bytes);
	if (p->n_fds) {
		size_t len = sizeof(int) * (size_t)p->n_fds;
		struct cmsghdr *c;

		msg.msg_control = control.buf;
		msg.msg_controllen = CMSG_SPACE(len);
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(len);
		memcpy(CMSG_DATA(c), p->fds, len);
	}
	if (sendmsg(sock, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) == PACKET_LEN)
		return 0;
	if (errno == EPIPE) /* it hung up, with or without our packets unread */
		return -ECONNRESET;
	return errno == EWOULDBLOCK ? -EAGAIN : -errno;
}

static void take_fds(struct msghdr *msg, struct shm_packet *p)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		size_t n;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
			if (p->n_fds < SHM_PACKET_FDS)
				p->fds[p->n_fds++] = fd;
			else
				close(fd);
		}
	}
}

/*
 * A peer that closes with something of ours unread leaves an error, which the kernel tells once and
 * before what is still queued: what it sent last, often its goodbye, comes after it.
 */
static ssize_t recv_packet(int sock, struct msghdr *msg)
{
	ssize_t n = recvmsg(sock, msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	if (n < 0 && errno == ECONNRESET)
		n = recvmsg(sock, msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	return n;
}

int shm_channel_recv(int sock, struct shm_packet *out)
{
	uint8_t bytes[PACKET_LEN + 1]; /* one more, so that a longer packet is seen */
	union {
		char buf[CMSG_SPACE(sizeof(int) * SHM_PACKET_FDS)];
		struct cmsghdr align;
	} control;
	struct iovec iov = { .iov_base = bytes, .iov_len = sizeof(bytes) };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.buf,
		.msg_controllen = sizeof(control.buf),
	};
	struct shm_packet p = { 0 };
	ssize_t n = recv_packet(sock, &msg);
	int ret;

	if (n < 0)
		return errno == EWOULDBLOCK || errno == EINTR ? -EAGAIN : -ECONNRESET;
	take_fds(&msg, &p);
	if (n == 0) {
		/* The end, or an empty packet, which may carry descriptors. */
		shm_packet_close_fds(&p);
		return -ECONNRESET;
	}
	/* Not all of them came: it sent more than there may be, or we have no place for another. */
	p.fds_lost = msg.msg_flags & MSG_CTRUNC && p.n_fds < SHM_PACKET_FDS;
	ret = msg.msg_flags & MSG_TRUNC || (msg.msg_flags & MSG_CTRUNC && !p.fds_lost)
		      ? -EPROTO
		      : decode(bytes, (size_t)n, &p);
	if (ret) {
		shm_packet_close_fds(&p);
		return ret;
	}
	if (p.fds_lost) {
		shm_packet_close_fds(&p);
		p.n_fds = 0;
	}
	*out = p;
	return 0;
}

void shm_packet_close_fds(struct shm_packet *p)
{
	for (int i = 0; i < p->n_fds; i++) {
		if (p->fds[i] >= 0)
			close(p->fds[i]);
		p->fds[i] = -1;
	}
}

int shm_channel_peer(int sock, struct ucred *who, int *pidfd)
{
	socklen_t len = sizeof(*who);

	if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, who, &len))
		return -errno;
	if (who->pid <= 0)
		return -ENOTSUP;
	*pidfd = (int)syscall(SYS_pidfd_open, who->pid, 0);
	return *pidfd < 0 ? -errno : 0;
}

int shm_start_time(pid_t pid, uint64_t *out)
{
	char path[32];
	char text[1024];
	char *at;
	FILE *f;
	size_t n;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "re");
	if (!f)
		return -errno;
	n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[n] = 0;
	/* The 22nd field, counted from behind the name, which may hold anything but a last
	 * parenthesis. */
	at = strrchr(text, ')');
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	return at && sscanf(at, " %" SCNu64, out) == 1 ? 0 : -EIO;
}
