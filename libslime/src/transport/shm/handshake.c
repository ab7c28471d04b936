/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a connection comes up: the dial, then the memory that each end hands to the other. All input
 * of the peer is checked before it is used, and neither end posts before both know that the other
 * is there.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "src/transport/auth.h"
#include "src/transport/shm/shm.h"

#define DIAL_AGAIN_NS (20 * SL_NS_PER_MS)

/* The peer's process: its exit is what ends us, and its memory what foreign reads reach. */
static int watch_process(struct shm_conn *c, int sock, uint64_t start_time)
{
	uint64_t seen;
	struct ucred who;
	int pidfd;
	int ret = shm_channel_peer(sock, &who, &pidfd);

	if (ret == -ENOTSUP)
		shm_conn_end(c, ret, "the peer is in a PID namespace that is not seen from here");
	if (ret)
		return ret;
	c->pid = who.pid;
	c->same_user = who.uid == geteuid();
	/* The number could have gone to another process between the two looks. */
	ret = shm_start_time(c->pid, &seen);
	if (!ret && seen != start_time)
		ret = -ESRCH;
	if (!ret)
		ret = sl_poller_add(shm_poller(c), &c->pid_source, pidfd, EPOLLIN);
	if (ret)
		close(pidfd);
	return ret;
}

static void became_ready(struct shm_conn *c)
{
	sl_timer_cancel(shm_poller(c), &c->deadline);
	sl_auth_wipe(c->attr.key, sizeof(c->attr.key));
	c->step = NULL;
	c->base.imm_taken = &c->other->imm_taken;
	c->rx_next = c->other->ring;
	atomic_store(&c->state, SHM_CONN_READY);
	/* The peer may have marked its first message before: that mark was taken for nothing. */
	shm_conn_call(c);
	c->base.events->ready(c->base.owner);
}

/* ---- foreign memory ---- */

/* Why memory of the peer that it did not allocate for sharing is out of our reach; NULL: it is not.
 */
static const char *try_foreign(struct shm_conn *c)
{
	if (c->t->base.env->attr->foreign_memory == SLIME_FOREIGN_OFF)
		return "foreign_memory is off here";
	if (!(c->peer_flags & SHM_FOREIGN_ALLOWED))
		return "foreign_memory is off at the peer";
	if (!c->same_user)
		return "the peer is a process of another user";
	switch (shm_foreign_probe(c)) {
	case 0:
		return NULL;
	case -EOPNOTSUPP:
		return "the kernel forbids process_vm_readv: kernel.yama.ptrace_scope, or a process "
		       "that is not dumpable";
	default:
		return "the peer's memory is not where it says";
	}
}

/* works: in both directions. False: one of the ends wants no link without it. */
static bool suits(struct shm_conn *c, bool works)
{
	char why[96];

	if (works || (c->t->base.env->attr->foreign_memory != SLIME_FOREIGN_REQUIRE &&
		      !(c->peer_flags & SHM_FOREIGN_REQUIRED)))
		return true;
	snprintf(why, sizeof(why), "foreign_memory is required: %s",
		 c->base.no_foreign ? c->base.no_foreign : "the peer does not reach ours");
	shm_conn_end(c, -EOPNOTSUPP, why);
	return false;
}

/* The common part of SEGMENT and ACCEPT. */
static int take_peer(struct shm_conn *c, const struct shm_packet *p, int page_fd, int board_fd)
{
	int ret = p->id < SHM_BOARD_BITS ? watch_process(c, c->sock.fd, p->c) : -EPROTO;

	if (!ret)
		ret = shm_peer_get(c->t, page_fd, board_fd, &c->context);
	if (ret)
		return ret;
	c->peer_page = c->context->page;
	c->peer_board = c->context->board;
	c->peer_bit = p->id;
	c->peer_flags = p->flags;
	c->mark_at = p->b;
	memcpy(c->mark, c->peer_page->mark, sizeof(c->mark));
	c->base.no_foreign = try_foreign(c);
	return 0;
}

static uint8_t reached(const struct shm_conn *c)
{
	return c->base.no_foreign ? 0 : SHM_FOREIGN_REACHED;
}

static int send_self(struct shm_conn *c, uint8_t kind, int segment_fd)
{
	static const uint8_t modes[] = {
		[SLIME_FOREIGN_AUTO] = SHM_FOREIGN_ALLOWED,
		[SLIME_FOREIGN_REQUIRE] = SHM_FOREIGN_ALLOWED | SHM_FOREIGN_REQUIRED,
		[SLIME_FOREIGN_OFF] = 0,
	};
	const struct sl_transport_env *env = c->t->base.env;
	struct shm_packet p = {
		.kind = kind,
		.flags = modes[env->attr->foreign_memory] | reached(c),
		.id = c->bit,
		.a = c->nonce,
		.b = (uintptr_t)c->t->page->mark,
		.c = c->t->start_time,
	};

	if (segment_fd >= 0)
		p.fds[p.n_fds++] = segment_fd;
	p.fds[p.n_fds++] = c->t->page_fd;
	p.fds[p.n_fds++] = c->t->board_fd;
	return shm_channel_send(c->sock.fd, &p);
}

static int new_nonce(struct shm_conn *c)
{
	if (getrandom(&c->nonce, sizeof(c->nonce), 0) != sizeof(c->nonce))
		return -EIO;
	atomic_store(&c->own->nonce, c->nonce);
	return 0;
}

/* The initiator's first step on a greeted socket. */
static int offer_segment(struct shm_conn *c)
{
	int fd;
	int ret = shm_segment_create(&c->segment, &fd);

	if (ret)
		return ret;
	c->own = &c->segment->initiator;
	c->other = &c->segment->acceptor;
	ret = new_nonce(c);
	if (!ret)
		ret = send_self(c, SHM_SEGMENT, fd);
	close(fd);
	c->step = "the peer to map the shared segment";
	return ret;
}

static int on_segment(struct shm_conn *c, struct shm_packet *p)
{
	int ret;

	if (c->initiator || c->segment)
		return -EPROTO;
	ret = shm_segment_map(p->fds[0], &c->segment);
	if (ret)
		return ret;
	c->own = &c->segment->acceptor;
	c->other = &c->segment->initiator;
	if (atomic_load(&c->other->nonce) != p->a)
		return -EPROTO;
	ret = take_peer(c, p, p->fds[1], p->fds[2]);
	if (!ret && !suits(c, !c->base.no_foreign))
		ret = -EOPNOTSUPP;
	if (!ret)
		ret = new_nonce(c);
	if (!ret)
		ret = send_self(c, SHM_ACCEPT, -1);
	c->step = "the peer to be ready";
	return ret;
}

static int on_accept(struct shm_conn *c, struct shm_packet *p)
{
	struct shm_packet ready = { .kind = SHM_READY };
	int ret;

	if (!c->initiator || !c->segment || c->peer_page)
		return -EPROTO;
	if (atomic_load(&c->other->nonce) != p->a)
		return -EPROTO;
	ret = take_peer(c, p, p->fds[0], p->fds[1]);
	c->base.any_region = p->flags & SHM_FOREIGN_REACHED;
	if (!ret && !suits(c, !c->base.no_foreign && c->base.any_region))
		ret = -EOPNOTSUPP;
	ready.flags = reached(c);
	if (!ret)
		ret = shm_channel_send(c->sock.fd, &ready);
	if (!ret)
		became_ready(c);
	return ret;
}

static int on_ready(struct shm_conn *c, const struct shm_packet *p)
{
	if (c->initiator || !c->peer_page || atomic_load(&c->state) != SHM_CONN_STARTING)
		return -EPROTO;
	c->base.any_region = p->flags & SHM_FOREIGN_REACHED;
	became_ready(c);
	return 0;
}

int shm_handshake_packet(struct shm_conn *c, struct shm_packet *p)
{
	switch (p->kind) {
	case SHM_SEGMENT:
		return on_segment(c, p);
	case SHM_ACCEPT:
		return on_accept(c, p);
	default:
		return on_ready(c, p);
	}
}

/* ---- the socket ---- */

/* A greeted socket is ours. */
static void take_sock(struct shm_conn *c, int fd)
{
	int ret = sl_poller_add(shm_poller(c), &c->sock, fd, EPOLLIN);

	if (ret) {
		close(fd);
		shm_conn_end(c, ret, "cannot watch the socket");
		return;
	}
	c->step = "the peer's shared segment";
	if (!c->initiator)
		return;
	ret = offer_segment(c);
	if (ret)
		shm_conn_end(c, ret, "cannot make the shared segment");
}

void shm_conn_greeted(struct sl_transport *t, struct sl_conn *conn, int fd, uint16_t stream)
{
	struct shm_conn *c = (struct shm_conn *)conn;

	(void)t;
	if (stream || c->sock.fd >= 0 || atomic_load(&c->end_wanted)) {
		close(fd);
		return;
	}
	take_sock(c, fd);
}

static void on_greeted(void *arg, int status, int fd, uint16_t stream)
{
	struct shm_conn *c = arg;

	(void)stream;
	c->greeting = NULL;
	if (status == -EAGAIN) {
		sl_timer_set(shm_poller(c), &c->again,
			     sl_clock_ns() + SL_GREETING_AGAIN_MS * SL_NS_PER_MS);
		return;
	}
	if (status == -ENOENT) {
		shm_conn_end(c, -ECONNREFUSED, "the peer does not expect this link");
		return;
	}
	if (status == -EPERM) {
		shm_conn_end(c, -ECONNREFUSED, sl_greeting_error(status));
		return;
	}
	if (status) {
		shm_conn_end(c, status == -EPROTONOSUPPORT ? -EPROTO : status,
			     sl_greeting_error(status));
		return;
	}
	take_sock(c, fd);
}

const char *shm_handshake_error(int ret)
{
	if (ret == -ECONNREFUSED)
		return "no process is at the peer's socket: its process has ended, or is in another network namespace";
	if (ret == -EACCES)
		return "the peer is another user's process: shm_users of both ends has to name the other one's user";
	return strerror(-ret);
}

void shm_handshake_again(struct sl_timer *t)
{
	struct shm_conn *c = SL_CONTAINER_OF(t, struct shm_conn, again);
	int ret = shm_handshake_dial(c);

	if (ret)
		shm_conn_end(c, ret, shm_handshake_error(ret));
}

/* Check which process has the socket before anything is sent. The peer's listener does the same. */
static int check_user(const struct shm_conn *c, int fd)
{
	struct ucred who;
	socklen_t len = sizeof(who);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len))
		return -errno;
	return sl_auth_user(c->t->base.env->attr->shm_users, who.uid) ? 0 : -EACCES;
}

/* To the peer's abstract socket. */
int shm_handshake_dial(struct shm_conn *c)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	size_t len = c->attr.candidate_len;
	int ret;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	memcpy(addr.sun_path + 1, c->candidate, len);
	if (connect(fd, (struct sockaddr *)&addr,
		    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len))) {
		ret = -errno;
		close(fd);
		if (ret != -EAGAIN)
			return ret;
		/* The queue of its listener is full. */
		c->step = "a place in the queue of the peer's listener";
		sl_timer_set(shm_poller(c), &c->again, sl_clock_ns() + DIAL_AGAIN_NS);
		return 0;
	}
	ret = check_user(c, fd);
	if (ret) {
		close(fd);
		return ret;
	}
	c->step = "the greeting";
	return sl_greeting_start(&c->t->base, fd, &c->attr, 0, on_greeted, c, &c->greeting);
}
