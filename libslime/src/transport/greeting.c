/* SPDX-License-Identifier: Apache-2.0 */
/* The initiator's half of a greeting; the acceptor's is in link_listener.c. */
#include "src/transport/greeting.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "src/transport/hello.h"

enum step {
	DIALLING,
	HELLO_SENT,
	PROOF_SENT,
};

struct sl_greeting {
	struct sl_poller *poller;
	struct sl_source source;
	struct sl_timer timer;
	sl_greeting_fn *fn;
	void *arg;
	int fd;
	enum step step;
	struct sl_hello hello;
	uint8_t key[SL_AUTH_KEY_LEN];
	uint8_t in[SL_HELLO_MAX];
	size_t have;
};

void sl_greeting_forget(struct sl_greeting *g)
{
	if (!g)
		return;
	sl_auth_wipe(g->key, sizeof(g->key));
	free(g);
}

static void release(struct sl_greeting *g)
{
	sl_poller_remove(g->poller, &g->source);
	sl_timer_cancel(g->poller, &g->timer);
	sl_greeting_forget(g);
}

static void finish(struct sl_greeting *g, int status)
{
	sl_greeting_fn *fn = g->fn;
	void *arg = g->arg;
	uint16_t stream = g->hello.stream;
	int fd = g->fd;

	release(g);
	if (status) {
		close(fd);
		fd = -1;
	}
	fn(arg, status, fd, stream);
}

static int send_hello(struct sl_greeting *g)
{
	uint8_t out[SL_HELLO_LEN];
	socklen_t len = sizeof(int);
	int err = 0;
	int ret;

	if (getsockopt(g->fd, SOL_SOCKET, SO_ERROR, &err, &len))
		return -errno;
	if (err && err != ECONNRESET)
		return -err;
	sl_hello_write(&g->hello, out);
	g->step = HELLO_SENT;
	g->have = 0;
	if (sl_poller_change(g->poller, &g->source, EPOLLIN))
		return -ENOMEM;
	ret = sl_hello_send(g->fd, out, sizeof(out));
	/* A peer that refuses our user hangs up before this, and has sent why. */
	return ret == -ECONNRESET ? 0 : ret;
}

static int answer_challenge(struct sl_greeting *g)
{
	uint8_t theirs[SL_AUTH_MAC_LEN], mac[SL_AUTH_MAC_LEN], out[SL_PROOF_LEN];
	int ret = sl_hello_recv(g->fd, g->in, SL_CHALLENGE_LEN, &g->have);

	/* On a packet socket of a peer that hung up with our hello unread the error comes before
	 * what the peer said. */
	if (ret == -ECONNRESET)
		ret = sl_hello_recv(g->fd, g->in, SL_CHALLENGE_LEN, &g->have);
	/* One of another version may be shorter, and then hangs up. */
	if (ret && sl_hello_is_foreign(g->in, g->have))
		return -EPROTONOSUPPORT;
	if (!ret)
		ret = sl_hello_read_challenge(&g->hello, theirs, g->in);
	if (!ret && !sl_features_known(g->hello.acceptor_features))
		ret = -EPROTONOSUPPORT;
	if (!ret)
		ret = sl_hello_mac(&g->hello, SL_ACCEPTOR, g->key, mac);
	if (ret)
		return ret;
	if (!sl_auth_equal(theirs, mac))
		return -EACCES;
	ret = sl_hello_mac(&g->hello, SL_INITIATOR, g->key, mac);
	if (ret)
		return ret;
	sl_hello_write_proof(mac, out);
	g->step = PROOF_SENT;
	g->have = 0;
	return sl_hello_send(g->fd, out, sizeof(out));
}

/* 1: the greeting is through, 0: it goes on, else why it failed. */
static int advance(struct sl_greeting *g)
{
	int ret;

	switch (g->step) {
	case DIALLING:
		return send_hello(g);
	case HELLO_SENT:
		ret = answer_challenge(g);
		break;
	default:
		ret = sl_hello_recv(g->fd, g->in, SL_VERDICT_LEN, &g->have);
		if (!ret)
			ret = sl_hello_read_verdict(g->in);
		if (!ret)
			return 1;
		break;
	}
	/* "Not whole yet" and the acceptor's "not yet" are one errno: the second has all its bytes.
	 */
	if (ret == -EAGAIN && g->have < (g->step == HELLO_SENT ? SL_CHALLENGE_LEN : SL_VERDICT_LEN))
		return 0;
	return ret;
}

static void on_event(struct sl_source *s, uint32_t events)
{
	struct sl_greeting *g = SL_CONTAINER_OF(s, struct sl_greeting, source);
	int ret = advance(g);

	(void)events;
	if (ret)
		finish(g, ret > 0 ? 0 : ret);
}

static void on_deadline(struct sl_timer *t)
{
	finish(SL_CONTAINER_OF(t, struct sl_greeting, timer), -ETIMEDOUT);
}

int sl_greeting_start(struct sl_transport *t, int fd, const struct sl_conn_attr *attr,
		      uint16_t stream, sl_greeting_fn *fn, void *arg, struct sl_greeting **out)
{
	struct sl_greeting *g = calloc(1, sizeof(*g));
	int ret = -ENOMEM;

	if (!g)
		goto close_fd;
	*g = (struct sl_greeting){
		.poller = t->env->poller,
		.source = { .fn = on_event, .fd = -1 },
		.fn = fn,
		.arg = arg,
		.fd = fd,
		.step = DIALLING,
		.hello = { .transport = t->ops->id,
			   .stream = stream,
			   .features = SL_FEATURES,
			   .initiator = attr->self,
			   .acceptor = attr->peer },
	};
	memcpy(g->key, attr->key, sizeof(g->key));
	sl_timer_init(&g->timer, on_deadline);
	ret = sl_auth_random(g->hello.nonce, sizeof(g->hello.nonce));
	if (!ret)
		ret = sl_poller_add(g->poller, &g->source, fd, EPOLLOUT);
	if (ret)
		goto forget_greeting;
	sl_timer_set(g->poller, &g->timer, attr->deadline_ns);
	*out = g;
	return 0;

forget_greeting:
	sl_greeting_forget(g);
close_fd:
	close(fd);
	return ret;
}

const char *sl_greeting_error(int status)
{
	switch (status) {
	case -EACCES:
		return "the peer does not hold the link's key, or says that we do not";
	case -EPERM:
		return "the peer is another user's process, and its shm_users does not name our "
		       "user";
	case -ECONNREFUSED:
		return "refused: nothing listens there";
	case -EPROTO:
		return "the peer does not speak our protocol";
	case -EPROTONOSUPPORT:
		return "the peer speaks another version of our protocol, or one end requires a "
		       "feature that the other does not know";
	case -ECONNRESET:
		return "the peer hung up during the greeting";
	default:
		return strerror(-status);
	}
}

bool sl_greeting_answered(const struct sl_greeting *g)
{
	return g->step == PROOF_SENT;
}

void sl_greeting_cancel(struct sl_greeting *g)
{
	int fd = g->fd;

	release(g);
	close(fd);
}
