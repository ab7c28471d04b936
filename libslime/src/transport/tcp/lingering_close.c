/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links that we closed and whose peer is stopped. Their connections have ended, with their ops and
 * all memory of callers; the unsent bytes are a copy here, with the goodbye at its end, and leave
 * as the peer reads on. No stream is closed before the peer has left: its end would arrive before
 * the goodbye on another one.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "src/transport/tcp/tcp.h"

/* So many at a time; the oldest makes room. */
#define LINGERING_MAX 16
/* A peer that is stopped for longer finds the link dead. */
#define LINGER_NS (60 * SL_NS_PER_S)

struct socket {
	struct tcp_lingering *lingering;
	struct sl_source source; /* no fd: none */
};

struct tcp_lingering {
	struct tcp_transport *t;
	struct sl_list link; /* in the transport's list */
	struct sl_timer timer;
	struct socket sockets[TCP_STREAMS_MAX];
	struct sl_source *speaks; /* the one of them by which the rest goes */
	uint8_t *rest;
	size_t at, len;
};

static struct sl_poller *poller_of(const struct tcp_lingering *f)
{
	return f->t->transport.env->poller;
}

static void free_lingering(struct tcp_lingering *f)
{
	free(f->rest);
	free(f);
}

static void end(struct tcp_lingering *f)
{
	sl_timer_cancel(poller_of(f), &f->timer);
	for (unsigned i = 0; i < TCP_STREAMS_MAX; i++) {
		struct sl_source *source = &f->sockets[i].source;

		/* A child that inherited it may have it open for long: the peer hears of the end.
		 */
		if (source->fd >= 0)
			shutdown(source->fd, SHUT_RDWR);
		sl_poller_close(poller_of(f), source);
	}
	sl_list_remove(&f->link);
	f->t->n_lingering--;
	free_lingering(f);
}

/* As much as the kernel takes now: 0, or a negative errno. */
static int speak(struct tcp_lingering *f)
{
	while (f->at < f->len) {
		ssize_t n = send(f->speaks->fd, f->rest + f->at, f->len - f->at,
				 MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? 0 : -errno;
		f->at += (size_t)n;
	}
	shutdown(f->speaks->fd, SHUT_WR);
	return sl_poller_change(poller_of(f), f->speaks, EPOLLRDHUP);
}

static void on_event(struct sl_source *source, uint32_t events)
{
	struct tcp_lingering *f = SL_CONTAINER_OF(source, struct socket, source)->lingering;

	/* The peer has left, too. */
	if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR) || speak(f))
		end(f);
}

static void on_time(struct sl_timer *timer)
{
	end(SL_CONTAINER_OF(timer, struct tcp_lingering, timer));
}

/* The stream's socket, if it has one still. */
static void take_socket(struct tcp_lingering *f, struct tcp_stream *s)
{
	struct socket *k = &f->sockets[s->index];
	bool speaks = s == s->conn->bye_stream;
	uint32_t events = EPOLLRDHUP | (speaks && f->len ? EPOLLOUT : 0);

	pthread_mutex_lock(&s->tx_lock);
	if (s->fd >= 0) {
		sl_poller_hand_over(poller_of(f), &s->source, &k->source);
		s->fd = -1;
		/* It can fail only for a descriptor that is not in the set. */
		sl_poller_change(poller_of(f), &k->source, events);
	}
	pthread_mutex_unlock(&s->tx_lock);
	if (speaks)
		f->speaks = &k->source;
}

static struct tcp_lingering *create(struct tcp_transport *t)
{
	struct tcp_lingering *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->t = t;
	sl_timer_init(&f->timer, on_time);
	for (unsigned i = 0; i < TCP_STREAMS_MAX; i++)
		f->sockets[i] =
			(struct socket){ .lingering = f, .source = { .fn = on_event, .fd = -1 } };
	return f;
}

void tcp_lingering_begin(struct tcp_conn *c)
{
	struct tcp_transport *t = c->t;
	struct tcp_lingering *f = create(t);

	/* Without memory the peer finds the link dead. */
	if (!f || tcp_tx_take_rest(c->bye_stream, &f->rest, &f->len)) {
		free(f);
		return;
	}
	if (t->n_lingering == LINGERING_MAX)
		end(SL_CONTAINER_OF(t->lingering.next, struct tcp_lingering, link));
	t->n_lingering++;
	sl_list_append(&t->lingering, &f->link);
	for (unsigned i = 0; i < c->n_streams; i++)
		take_socket(f, c->streams[i]);
	sl_timer_set(poller_of(f), &f->timer, sl_clock_ns() + LINGER_NS);
}

void tcp_lingering_end_all(struct tcp_transport *t)
{
	while (!sl_list_empty(&t->lingering))
		end(SL_CONTAINER_OF(t->lingering.next, struct tcp_lingering, link));
}

void tcp_lingering_forget_all(struct tcp_transport *t)
{
	struct sl_list *e;

	while ((e = sl_list_pop(&t->lingering)))
		free_lingering(SL_CONTAINER_OF(e, struct tcp_lingering, link));
}
