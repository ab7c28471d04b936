/* SPDX-License-Identifier: Apache-2.0 */
/* A dialer between its proof and the end of its connect. */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "src/listener/listener.h"
#include "src/transport/hello.h"

struct arrival {
	struct slime_listener *l;
	struct sl_list link;
	struct sl_source source; /* until the offer is whole */
	struct sl_timer timer;	 /* the same */
	int fd;			 /* -1: the exchange is over */
	uint8_t in[SL_EXCHANGE_MAX];
	size_t have;
	struct slime_endpoint *ep; /* NULL: none yet */
	struct slime_op *op;	   /* of its connect */
	_Atomic bool done;	   /* that has completed */
};

static void close_exchange(struct arrival *a)
{
	int fd = a->fd;

	if (fd < 0)
		return;
	sl_poller_remove(&a->l->poller, &a->source);
	sl_timer_cancel(&a->l->poller, &a->timer);
	a->fd = -1;
	close(fd);
}

static void forget(struct arrival *a)
{
	close_exchange(a);
	sl_list_remove(&a->link);
	a->l->n_arrivals--;
	sl_auth_wipe(a, sizeof(*a));
	free(a);
}

/* Its endpoint, if it has one, goes with it. */
static void end(struct arrival *a)
{
	int ret = slime_endpoint_destroy(a->ep);

	/* The op's callback may still be on its way out. */
	while (a->op && slime_op_destroy(a->op) == -EBUSY)
		sched_yield();
	/* This thread is inside of no callback and no handler. */
	(void)ret;
	forget(a);
}

static void warn_of(struct slime_listener *l, const char *what, const char *why)
{
	uint32_t held_back;

	if (sl_log_allow(&l->limit, &held_back))
		sl_warn("listener", "%s: %s (%u such lines held back)", what, why, held_back);
}

/* ---- the answer ---- */

static void refuse(struct arrival *a, enum sl_exchange_code code, const char *why)
{
	uint8_t out[SL_EXCHANGE_HEAD_LEN];

	warn_of(a->l, "refused a dialer", why);
	/* It is told if it can be told; it is gone either way. */
	(void)sl_hello_send(a->fd, out, (size_t)sl_exchange_write_code(code, out));
	end(a);
}

/* Endpoints that this listener made, also those that a caller owns by now. */
static uint32_t count_endpoints(struct slime_listener *l)
{
	struct slime_context *ctx = l->ctx;
	struct sl_list *e;
	uint32_t n = 0;

	pthread_mutex_lock(&ctx->lock);
	sl_list_for_each (e, &ctx->endpoints)
		n += SL_CONTAINER_OF(e, struct slime_endpoint, link)->listener == l->desc.id;
	pthread_mutex_unlock(&ctx->lock);
	return n;
}

/* On the holder of the token: the listener's thread takes over. */
static void on_connected(void *arg, struct slime_op *op)
{
	struct arrival *a = arg;

	(void)op;
	atomic_store(&a->done, true);
	sl_poller_wake(&a->l->poller);
}

static int make_endpoint(struct arrival *a)
{
	struct slime_op_attr attr = { .fn = on_connected, .arg = a };
	int ret = slime_op_create(a->l->ctx, &attr, &a->op);

	if (!ret)
		ret = slime_endpoint_create(a->l->ctx, &a->l->attr.endpoint, &a->ep);
	if (ret)
		return ret;
	pthread_mutex_lock(&a->l->ctx->lock);
	a->ep->listener = a->l->desc.id;
	pthread_mutex_unlock(&a->l->ctx->lock);
	return 0;
}

static int send_answer(struct arrival *a, const uint8_t tag[SL_AUTH_TAG_LEN])
{
	uint8_t desc[SLIME_ENDPOINT_DESC_MAX], out[SL_EXCHANGE_MAX];
	int ret = slime_endpoint_export(a->ep, desc, sizeof(desc));

	if (ret > 0)
		ret = sl_exchange_write(SL_EXCHANGE_ANSWER, a->l->desc.key, tag, desc, (size_t)ret,
					out);
	if (ret > 0)
		ret = sl_hello_send(a->fd, out, (size_t)ret);
	sl_auth_wipe(desc, sizeof(desc));
	return ret;
}

static void answer(struct arrival *a, const uint8_t *desc, size_t len,
		   const uint8_t tag[SL_AUTH_TAG_LEN])
{
	struct slime_listener *l = a->l;
	int ret;

	if (count_endpoints(l) >= l->attr.max_endpoints) {
		refuse(a, SL_EXCHANGE_FULL, "max_endpoints is reached");
		return;
	}
	ret = make_endpoint(a);
	if (ret) {
		refuse(a, ret == -ENOSPC ? SL_EXCHANGE_FULL : SL_EXCHANGE_FAILED, strerror(-ret));
		return;
	}
	ret = slime_endpoint_connect(a->ep, desc, len, SLIME_LISTENER_TIMEOUT_MS, a->op);
	if (ret) {
		refuse(a, ret == -EINVAL ? SL_EXCHANGE_MALFORMED : SL_EXCHANGE_FAILED,
		       strerror(-ret));
		return;
	}
	ret = send_answer(a, tag);
	if (ret) {
		warn_of(l, "cannot answer a dialer", strerror(-ret));
		end(a);
		return;
	}
	close_exchange(a);
}

/* ---- the offer ---- */

static void take_offer(struct arrival *a, size_t len)
{
	uint8_t desc[SLIME_ENDPOINT_DESC_MAX], tag[SL_AUTH_TAG_LEN];
	int ret = sl_exchange_open(SL_EXCHANGE_OFFER, a->l->desc.key, NULL,
				   a->in + SL_EXCHANGE_HEAD_LEN, len, desc);

	memcpy(tag, a->in + SL_EXCHANGE_HEAD_LEN + len - sizeof(tag), sizeof(tag));
	if (ret < 0)
		refuse(a, SL_EXCHANGE_MALFORMED, "its offer is not sealed by the listener's key");
	else
		answer(a, desc, (size_t)ret, tag);
	sl_auth_wipe(desc, sizeof(desc));
}

static void on_bytes(struct sl_source *s, uint32_t events)
{
	struct arrival *a = SL_CONTAINER_OF(s, struct arrival, source);
	struct sl_exchange_head h = { 0 };
	int ret = 0;

	(void)events;
	if (a->have < SL_EXCHANGE_HEAD_LEN)
		ret = sl_hello_recv(a->fd, a->in, SL_EXCHANGE_HEAD_LEN, &a->have);
	if (!ret)
		ret = sl_exchange_read_head(&h, SL_EXCHANGE_OFFER, a->in);
	if (!ret)
		ret = sl_hello_recv(a->fd, a->in, SL_EXCHANGE_HEAD_LEN + h.len, &a->have);
	if (ret == -EAGAIN)
		return;
	if (ret == -EPROTO)
		refuse(a, SL_EXCHANGE_MALFORMED, "its bytes are no offer");
	else if (ret)
		refuse(a, SL_EXCHANGE_FAILED, "it left before its offer was whole");
	else
		take_offer(a, h.len);
}

static void on_time(struct sl_timer *t)
{
	refuse(SL_CONTAINER_OF(t, struct arrival, timer), SL_EXCHANGE_FAILED,
	       "its offer did not come in time");
}

void sl_arrival_begin(struct sl_transport *t, struct sl_conn *conn, int fd, uint16_t stream)
{
	struct slime_listener *l = t->env->arg;
	struct arrival *a = NULL;

	(void)conn;
	(void)stream;
	if (l->n_arrivals < SLIME_LISTENER_PENDING_MAX)
		a = calloc(1, sizeof(*a));
	if (!a) {
		warn_of(l, "hung up on a dialer",
			l->n_arrivals < SLIME_LISTENER_PENDING_MAX ? "no memory"
								   : "too many are pending");
		close(fd);
		return;
	}
	a->l = l;
	a->fd = fd;
	a->source = (struct sl_source){ .fn = on_bytes, .fd = -1 };
	sl_timer_init(&a->timer, on_time);
	sl_list_append(&l->arrivals, &a->link);
	l->n_arrivals++;
	if (sl_poller_add(&l->poller, &a->source, fd, EPOLLIN)) {
		refuse(a, SL_EXCHANGE_FAILED, "cannot watch its socket");
		return;
	}
	sl_timer_set(&l->poller, &a->timer,
		     sl_clock_ns() + SLIME_LISTENER_TIMEOUT_MS * SL_NS_PER_MS);
}

/* ---- the end of it ---- */

static void hand_over(struct arrival *a)
{
	struct slime_listener *l = a->l;
	struct slime_endpoint *ep = a->ep;
	int ret;

	do {
		ret = slime_op_destroy(a->op);
	} while (ret == -EBUSY && !sched_yield());
	forget(a);
	l->attr.on_endpoint(l->attr.arg, l, ep);
}

void sl_arrivals_poll(struct slime_listener *l)
{
	struct sl_list *e, *tmp;

	sl_list_for_each_safe (e, tmp, &l->arrivals) {
		struct arrival *a = SL_CONTAINER_OF(e, struct arrival, link);

		if (!atomic_load(&a->done))
			continue;
		while (!sl_op_is_idle(a->op))
			sched_yield();
		/* The cause of the error is in the endpoint's own log line. */
		if (slime_op_status(a->op))
			end(a);
		else
			hand_over(a);
	}
}

void sl_arrivals_end(struct slime_listener *l)
{
	struct sl_list *e, *tmp;

	sl_list_for_each_safe (e, tmp, &l->arrivals)
		end(SL_CONTAINER_OF(e, struct arrival, link));
}

void sl_arrivals_forget(struct slime_listener *l)
{
	struct sl_list *e;

	while ((e = sl_list_pop(&l->arrivals))) {
		struct arrival *a = SL_CONTAINER_OF(e, struct arrival, link);

		slime_endpoint_destroy(a->ep);
		slime_op_destroy(a->op);
		free(a);
	}
}
