/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "src/transport/tcp/tcp.h"

static void on_event(struct sl_source *source, uint32_t events)
{
	struct tcp_stream *s = SL_CONTAINER_OF(source, struct tcp_stream, source);

	if (s->closing) {
		/* The peer has left, too. */
		if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
			tcp_conn_fail(s->conn, 0, "closed");
		else if (events & EPOLLOUT)
			tcp_tx_unblock(s);
		return;
	}
	if (s->rx_paused && events & (EPOLLHUP | EPOLLERR)) {
		tcp_conn_fail(s->conn, -ECONNRESET, "the peer hung up before the link was ready");
		return;
	}
	if (atomic_load_explicit(&s->conn->is_active, memory_order_relaxed))
		s->conn->t->crowd -= s->conn->t->crowd > 0;
	tcp_conn_touch(s->conn);
	if (s->index && tcp_conn_state(s->conn) == TCP_CONN_UP &&
	    !(events & (EPOLLHUP | EPOLLERR))) {
		tcp_bulk_add(s, events & EPOLLOUT);
		return;
	}
	if (events & EPOLLOUT)
		tcp_tx_unblock(s);
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		tcp_rx_run(s);
}

int tcp_stream_create(struct tcp_conn *c, uint16_t index, struct tcp_stream **out)
{
	struct tcp_stream *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->conn = c;
	s->index = index;
	s->fd = -1;
	s->source = (struct sl_source){ .fn = on_event, .fd = -1 };
	sl_timer_init(&s->again, NULL);
	sl_list_init(&s->bulk_link);
	pthread_mutex_init(&s->tx_lock, NULL);
	sl_list_init(&s->to_send);
	sl_list_init(&s->serves_waiting);
	*out = s;
	return 0;
}

void tcp_stream_free(struct tcp_stream *s)
{
	pthread_mutex_destroy(&s->tx_lock);
	free(s->requests);
	free(s->batch);
	free(s->serves);
	free(s->rx);
	free(s);
}

int tcp_stream_attach(struct tcp_stream *s, int fd)
{
	struct sl_poller *p = s->conn->t->transport.env->poller;
	int ret = tcp_set_options(fd, s->conn->t->transport.env->attr->tcp_user_timeout_ms);

	if (!ret)
		ret = sl_poller_add(p, &s->source, fd, EPOLLIN);
	if (!ret)
		s->fd = fd;
	return ret;
}

void tcp_stream_pause(struct tcp_stream *s, bool paused)
{
	pthread_mutex_lock(&s->tx_lock);
	s->rx_paused = paused;
	tcp_tx_watch(s);
	tcp_tx_unlock(s);
}

void tcp_stream_leave(struct tcp_stream *s)
{
	pthread_mutex_lock(&s->tx_lock);
	s->closing = true;
	tcp_tx_watch(s);
	tcp_tx_unlock(s);
}

/* Regions that requests of the peer hold; no thread receives or sends for them any more. */
static void release_held(struct tcp_stream *s)
{
	struct sl_list *e;

	tcp_rx_drop(s);
	pthread_mutex_lock(&s->conn->lock);
	while ((e = sl_list_pop(&s->serves_waiting)))
		tcp_serve_done(s, SL_CONTAINER_OF(e, struct tcp_serve, link));
	pthread_mutex_unlock(&s->conn->lock);
}

void tcp_stream_stop(struct tcp_stream *s)
{
	if (s->greeting)
		sl_greeting_cancel(s->greeting);
	s->greeting = NULL;
	sl_timer_cancel(s->conn->t->transport.env->poller, &s->again);
	sl_list_remove(&s->bulk_link);

	pthread_mutex_lock(&s->tx_lock);
	s->dead = true;
	if (s->blocked)
		atomic_fetch_sub(&s->conn->n_blocked, 1);
	s->blocked = false;
	if (s->fd >= 0) {
		sl_poller_remove(s->conn->t->transport.env->poller, &s->source);
		/* A child that inherited it may have it open for long: the peer hears of the end.
		 */
		shutdown(s->fd, SHUT_RDWR);
		close(s->fd);
		s->fd = -1;
	}
	tcp_tx_drop(s);
	pthread_mutex_unlock(&s->tx_lock);
	release_held(s);
}
