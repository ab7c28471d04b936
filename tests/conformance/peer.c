/* SPDX-License-Identifier: Apache-2.0 */
#include "peer.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct request {
	uint32_t verb;
	uint32_t len; /* of bytes */
	uint64_t args[3];
	uint8_t bytes[SLIME_ENDPOINT_DESC_MAX];
};

struct answer {
	int64_t result;
	int32_t desc_len;
	int32_t mr_len;
	uint8_t desc[SLIME_ENDPOINT_DESC_MAX];
	uint8_t mr[SLIME_MR_DESC_MAX];
};

/* ---- in the peer ---- */

/* Its own end; "remote" of it is here what it knows of ours. */
static struct end self;

static void open_self(const struct request *q, struct answer *a)
{
	struct pair_attr attr = PAIR_ATTR_INIT;

	attr.len = q->args[0];
	end_create(&self, &attr);
	end_create_endpoint(&self, &attr);
	a->desc_len = slime_endpoint_export(self.ep, a->desc, sizeof(a->desc));
	a->mr_len = slime_mr_export(self.mr, a->mr, sizeof(a->mr));
}

static int ended(int submitted)
{
	if (submitted)
		return submitted;
	return slime_op_wait(self.op, -1) ? -EIO : slime_op_status(self.op);
}

static struct slime_xfer piece(const struct request *q)
{
	return (struct slime_xfer){
		.local = self.mr,
		.remote = &self.remote,
		.local_offset = q->args[0],
		.remote_offset = q->args[1],
		.len = q->args[2],
	};
}

static int64_t withdraw(void)
{
	int ret = slime_mr_destroy(self.mr);

	if (!ret)
		self.mr = NULL;
	return ret;
}

static int64_t fork_sleeper(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		/* Also when the test fails before it ends us. */
		alarm(2 * PATIENCE_MS / 1000);
		for (;;)
			pause();
	}
	return pid;
}

static int64_t start_call(uint64_t len)
{
	struct slime_call_args args = SLIME_CALL_ARGS_INIT;
	struct slime_call *call;
	int ret = slime_call_create(self.ctx, NULL, &call);

	args.method = slime_rpc_method_id("keep");
	args.request_mr = self.mr;
	args.request_len = len;
	args.reply_mr = self.mr;
	args.reply_cap = len;
	return ret ? ret : slime_call_start(self.ep, &args, call);
}

static int64_t close_self(void)
{
	int ret;

	slime_endpoint_close(self.ep);
	ret = slime_endpoint_destroy(self.ep);
	self.ep = NULL;
	return ret;
}

static void read_for_ever(const struct request *q)
{
	struct slime_xfer x = piece(q);

	while (ended(slime_read(self.ep, &x, 1, 0, self.op)) == 0)
		;
}

static int64_t obey(const struct request *q, struct answer *a)
{
	struct slime_xfer x = piece(q);
	const uint64_t *v = q->args;

	switch ((enum peer_verb)q->verb) {
	case PEER_OPEN:
		open_self(q, a);
		return 0;
	case PEER_CONNECT:
		return ended(
			slime_endpoint_connect(self.ep, q->bytes, q->len, PATIENCE_MS, self.op));
	case PEER_FILL:
		pattern_fill(self.bytes + v[0], v[1], v[2], 0);
		return 0;
	case PEER_MATCHES:
		return pattern_matches(self.bytes + v[0], v[1], v[2], 0) ? 0 : -EILSEQ;
	case PEER_LEARN:
		return slime_remote_mr_import(q->bytes, q->len, &self.remote);
	case PEER_READ:
		return ended(slime_read(self.ep, &x, 1, 0, self.op));
	case PEER_WRITE:
		return ended(slime_write(self.ep, &x, 1, 0, self.op));
	case PEER_WRITE_IMM:
		return ended(slime_write_imm(self.ep, &x, 1, 0, 42, self.op));
	case PEER_SEND:
		return ended(slime_send(self.ep, self.mr, v[0], v[1], v[2], self.op));
	case PEER_RECV:
		return ended(
			slime_recv(self.ep, self.mr, v[0], v[1], v[2], SLIME_TAG_ALL, self.op));
	case PEER_START_READING:
		return 0;
	case PEER_WITHDRAW:
		return withdraw();
	case PEER_FORK:
		return fork_sleeper();
	case PEER_CALL:
		return start_call(v[0]);
	case PEER_CLOSE:
		return close_self();
	}
	return -ENOSYS;
}

int peer_main(int fd)
{
	struct request q;

	/* A group that was killed has closed its end already. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (recv(fd, &q, sizeof(q), 0) == sizeof(q)) {
		struct answer a = { 0 };

		a.result = obey(&q, &a);
		if (send(fd, &a, sizeof(a), MSG_NOSIGNAL) != sizeof(a))
			break;
		if (q.verb == PEER_START_READING)
			read_for_ever(&q);
	}
	_exit(0);
}

/* ---- in the test ---- */

static void tell(struct peer *peer, struct request *q)
{
	assert_int_equal(send(peer->fd, q, sizeof(*q), MSG_NOSIGNAL), sizeof(*q));
}

void peer_tell(struct peer *peer, enum peer_verb verb, uint64_t a, uint64_t b, uint64_t c)
{
	struct request q = { .verb = verb, .args = { a, b, c } };

	tell(peer, &q);
}

static int64_t take_answer(struct peer *peer, struct answer *a)
{
	assert_int_equal(recv(peer->fd, a, sizeof(*a), 0), sizeof(*a));
	return a->result;
}

int64_t peer_answer(struct peer *peer)
{
	struct answer a;

	return take_answer(peer, &a);
}

int64_t peer_ask(struct peer *peer, enum peer_verb verb, uint64_t a, uint64_t b, uint64_t c)
{
	peer_tell(peer, verb, a, b, c);
	return peer_answer(peer);
}

static pid_t spawn(int fd)
{
	char number[16];
	pid_t pid;

	snprintf(number, sizeof(number), "%d", fd);
	pid = fork();
	if (pid == 0) {
		fcntl(fd, F_SETFD, 0);
		execl("/proc/self/exe", "peer", "--peer", slime_transport_name(fixture_transport),
		      number, fixture_rails ? "--rails" : NULL, fixture_rails, (char *)NULL);
		_exit(127);
	}
	return pid;
}

void peer_start(struct peer *peer, size_t len)
{
	struct timeval patience = { .tv_sec = PATIENCE_MS / 1000 };
	struct answer a;
	int fds[2];

	memset(peer, 0, sizeof(*peer));
	assert_ok(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds));
	peer->fd = fds[0];
	peer->pid = spawn(fds[1]);
	close(fds[1]);
	assert_true(peer->pid > 0);
	assert_ok(setsockopt(peer->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)));

	peer_tell(peer, PEER_OPEN, len, 0, 0);
	assert_ok(take_answer(peer, &a));
	assert_true(a.desc_len > 0 && a.mr_len > 0);
	memcpy(peer->desc, a.desc, sizeof(a.desc));
	peer->desc_len = a.desc_len;
	assert_ok(slime_remote_mr_import(a.mr, (size_t)a.mr_len, &peer->remote));
}

void peer_link(struct peer *peer, struct end *e)
{
	struct request connect = { .verb = PEER_CONNECT }, learn = { .verb = PEER_LEARN };
	int len = slime_endpoint_export(e->ep, connect.bytes, sizeof(connect.bytes));
	struct answer a;

	assert_true(len > 0);
	connect.len = (uint32_t)len;
	tell(peer, &connect);
	assert_ok(slime_endpoint_connect(e->ep, peer->desc, (size_t)peer->desc_len, PATIENCE_MS,
					 e->op));
	op_end_ok(e->op);
	assert_ok(take_answer(peer, &a));

	len = slime_mr_export(e->mr, learn.bytes, sizeof(learn.bytes));
	assert_true(len > 0);
	learn.len = (uint32_t)len;
	tell(peer, &learn);
	assert_ok(take_answer(peer, &a));
}

void peer_stop(struct peer *peer)
{
	int status;

	assert_ok(kill(peer->pid, SIGSTOP));
	assert_int_equal(waitpid(peer->pid, &status, WUNTRACED), peer->pid);
	assert_true(WIFSTOPPED(status));
}

void peer_continue(struct peer *peer)
{
	assert_ok(kill(peer->pid, SIGCONT));
}

void peer_kill(struct peer *peer)
{
	if (!peer->pid)
		return;
	kill(peer->pid, SIGKILL);
	waitpid(peer->pid, NULL, 0);
	close(peer->fd);
	peer->pid = 0;
}

struct world *world_open(const struct pair_attr *attr)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	peer_start(&w->peer, attr->len);
	end_create(&w->e, attr);
	end_create_endpoint(&w->e, attr);
	peer_link(&w->peer, &w->e);
	return w;
}

void world_close(struct world *w)
{
	peer_kill(&w->peer);
	end_destroy(&w->e);
	free(w);
}
