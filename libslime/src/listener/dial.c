/* SPDX-License-Identifier: Apache-2.0 */
/* The dialer's side of a listener: a greeting, an offer, an answer; then the endpoint connects. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "src/endpoint/endpoint.h"
#include "src/listener/wire.h"
#include "src/transport/greeting.h"
#include "src/transport/hello.h"
#include <slime/listener.h>

/* ---- the greeting ---- */

struct greeting {
	bool over;
	int status;
	int fd;
};

static void on_greeted(void *arg, int status, int fd, uint16_t stream)
{
	struct greeting *g = arg;

	(void)stream;
	*g = (struct greeting){ .over = true, .status = status, .fd = fd };
}

static int connect_to(const struct sockaddr_storage *a, socklen_t len, int *out)
{
	int fd = socket(a->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int ret;

	if (fd < 0)
		return -errno;
	if (connect(fd, (const struct sockaddr *)a, len) && errno != EINPROGRESS) {
		ret = -errno;
		close(fd);
		/* A unix socket whose queue is full fails at once. */
		return ret == -EAGAIN ? -ECONNRESET : ret;
	}
	*out = fd;
	return 0;
}

/* Prove on fd, which goes when it fails, that we hold the key, and have it proven. */
static int greet(const struct slime_endpoint *ep, const struct sl_listener_desc *d, int fd,
		 uint64_t deadline_ns)
{
	struct sl_transport_ops ops = { .id = SLIME_TRANSPORT_NONE };
	struct sl_poller poller;
	struct sl_transport_env env = { .poller = &poller };
	struct sl_transport t = { .ops = &ops, .env = &env };
	struct sl_conn_attr attr = {
		.self = ep->self,
		.peer = { .context = d->id },
		.deadline_ns = deadline_ns,
	};
	struct greeting g = { 0 };
	struct sl_greeting *started;
	int ret = sl_poller_init(&poller, false);

	if (ret) {
		close(fd);
		return ret;
	}
	memcpy(attr.key, d->key, sizeof(attr.key));
	ret = sl_greeting_start(&t, fd, &attr, 0, on_greeted, &g, &started);
	while (!ret && !g.over)
		sl_poller_run(&poller, SL_NEVER);
	sl_auth_wipe(attr.key, sizeof(attr.key));
	sl_poller_fini(&poller);
	if (ret)
		return ret;
	switch (g.status) {
	case -ENOENT: /* another listener has the address by now */
		return -ECONNREFUSED;
	case -EPROTONOSUPPORT:
		return -EPROTO;
	case -EAGAIN:
		return -ECONNRESET;
	case -EPERM:
		sl_error("listener", "%s: %s", ep->name, sl_greeting_error(-EPERM));
		return -EPERM;
	default:
		return g.status;
	}
}

/* A stream on which both have proven themselves, by the first address that answers. */
static int open_stream(const struct slime_endpoint *ep, const struct sl_listener_desc *d,
		       uint64_t deadline_ns, int *out)
{
	int ret = -ECONNREFUSED;

	for (unsigned i = 0; i < d->n; i++) {
		ret = connect_to(&d->addresses[i], d->lens[i], out);
		if (!ret)
			ret = greet(ep, d, *out, deadline_ns);
		if (!ret)
			return 0;
	}
	return ret == -ENOENT ? -ECONNREFUSED : ret;
}

/* ---- the exchange ---- */

static int recv_all(int fd, uint8_t *buf, size_t len, uint64_t deadline_ns)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	size_t have = 0;

	for (;;) {
		int ret = sl_hello_recv(fd, buf, len, &have);

		if (ret != -EAGAIN)
			return ret;
		if (sl_clock_ns() >= deadline_ns)
			return -ETIMEDOUT;
		if (poll(&p, 1, sl_poller_wait_ms(deadline_ns)) < 0 && errno != EINTR)
			return -errno;
	}
}

static int refusal(enum sl_exchange_code code)
{
	switch (code) {
	case SL_EXCHANGE_FULL:
		return -ENOSPC;
	case SL_EXCHANGE_MALFORMED:
		return -EPROTO;
	default:
		return -ECONNREFUSED;
	}
}

static int send_offer(struct slime_endpoint *ep, const struct sl_listener_desc *d, int fd,
		      uint8_t tag[SL_AUTH_TAG_LEN])
{
	uint8_t desc[SLIME_ENDPOINT_DESC_MAX], out[SL_EXCHANGE_MAX];
	int ret = slime_endpoint_export(ep, desc, sizeof(desc));

	if (ret > 0)
		ret = sl_exchange_write(SL_EXCHANGE_OFFER, d->key, NULL, desc, (size_t)ret, out);
	sl_auth_wipe(desc, sizeof(desc));
	if (ret < 0)
		return ret;
	memcpy(tag, out + ret - SL_AUTH_TAG_LEN, SL_AUTH_TAG_LEN);
	return sl_hello_send(fd, out, (size_t)ret);
}

/* The length of the descriptor that the listener answers with, in out. */
static int recv_answer(const struct sl_listener_desc *d, int fd, const uint8_t tag[SL_AUTH_TAG_LEN],
		       uint64_t deadline_ns, uint8_t *out)
{
	uint8_t in[SL_EXCHANGE_MAX];
	struct sl_exchange_head h;
	int ret = recv_all(fd, in, SL_EXCHANGE_HEAD_LEN, deadline_ns);

	if (!ret)
		ret = sl_exchange_read_head(&h, SL_EXCHANGE_ANSWER, in);
	if (ret)
		return ret;
	if (h.code != SL_EXCHANGE_OK)
		return refusal(h.code);
	ret = recv_all(fd, in, h.len, deadline_ns);
	return ret ? ret : sl_exchange_open(SL_EXCHANGE_ANSWER, d->key, tag, in, h.len, out);
}

static int exchange(struct slime_endpoint *ep, const struct sl_listener_desc *d,
		    uint64_t deadline_ns, uint8_t *out)
{
	uint8_t tag[SL_AUTH_TAG_LEN];
	int fd = -1; /* some compilers do not see that it is set */
	int ret = open_stream(ep, d, deadline_ns, &fd);

	if (ret)
		return ret;
	ret = send_offer(ep, d, fd, tag);
	if (!ret)
		ret = recv_answer(d, fd, tag, deadline_ns, out);
	close(fd);
	return ret;
}

/* The cases that slime_endpoint_connect() would refuse, before the listener makes an endpoint for
 * it. */
static int check_endpoint(struct slime_endpoint *ep, const struct slime_op *op)
{
	bool called;

	if (op->ctx != ep->ctx)
		return -EINVAL;
	if (!sl_op_is_idle(op))
		return -EBUSY;
	pthread_mutex_lock(&ep->lock);
	called = ep->connect_called;
	pthread_mutex_unlock(&ep->lock);
	if (called)
		return -EALREADY;
	return atomic_load(&ep->shut) ? -ENOTCONN : 0;
}

static uint64_t deadline_of(int64_t timeout_ms)
{
	if (timeout_ms < 0 || timeout_ms > SLIME_LISTENER_TIMEOUT_MS)
		timeout_ms = SLIME_LISTENER_TIMEOUT_MS;
	return sl_deadline_ns(timeout_ms);
}

int slime_endpoint_dial(struct slime_endpoint *ep, const void *desc, size_t len, int64_t timeout_ms,
			struct slime_op *op)
{
	uint64_t deadline_ns = deadline_of(timeout_ms);
	uint8_t peer[SLIME_ENDPOINT_DESC_MAX];
	struct sl_listener_desc d;
	int ret = sl_context_check(ep->ctx);

	if (ret)
		return ret;
	if (sl_progress_in_callback())
		return -EDEADLK;
	ret = check_endpoint(ep, op);
	if (ret)
		return ret;
	ret = sl_listener_desc_read(&d, desc, len) ? -EINVAL : exchange(ep, &d, deadline_ns, peer);
	if (ret > 0) {
		ret = slime_endpoint_connect(ep, peer, (size_t)ret, sl_poller_wait_ms(deadline_ns),
					     op);
		if (ret == -EINVAL)
			ret = -EPROTO;
	}
	sl_auth_wipe(&d, sizeof(d));
	sl_auth_wipe(peer, sizeof(peer));
	return ret;
}
