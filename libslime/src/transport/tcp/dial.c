/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which end dials. The initiator dials at once. Where perhaps only the other direction is open,
 * since the initiator can be reached from other hosts, the acceptor makes a reverse connection
 * attempt: it dials the initiator's listener. An initiator whose own dial failed waits for that,
 * and accepts it as the first stream; then the acceptor dials the others. While the initiator's
 * own dial may still succeed, its listener holds the reverse attempt, so that exactly one of both
 * succeeds.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "src/transport/tcp/tcp.h"
#include "src/transport/tcp/why.h"

/* The acceptor waits this long for the initiator before a reverse attempt, and between two. It
 * waits for less where the initiator can only come from this host. */
#define REVERSE_NS	 (500 * SL_NS_PER_MS)
#define REVERSE_SOON_NS	 (200 * SL_NS_PER_MS)
#define REVERSE_AGAIN_NS (1 * SL_NS_PER_S)
/* An initiator whose dial is not answered for this long accepts a reverse attempt. */
#define GIVE_WAY_NS (1 * SL_NS_PER_S)
/* An initiator whose dial failed waits this long for a reverse attempt. It waits for less where
 * the peer's host refuses the connection, or a process there does not expect the link: that is
 * mostly final, and a reverse attempt arrives by then unless the peer begins later than we. */
#define WAIT_NS		(3 * SL_NS_PER_S)
#define WAIT_REFUSED_NS (1 * SL_NS_PER_S)

static struct sl_poller *poller_of(const struct tcp_conn *c)
{
	return c->t->transport.env->poller;
}

/* Whether a stream was greeted. */
static bool has_stream(const struct tcp_conn *c)
{
	for (unsigned i = 0; i < TCP_STREAMS_MAX; i++) {
		if (c->streams[i] && c->streams[i]->fd >= 0)
			return true;
	}
	return false;
}

/* Whether the peer may have taken one of our streams. */
static bool is_answered(const struct tcp_conn *c)
{
	for (unsigned i = 0; i < TCP_STREAMS_MAX; i++) {
		const struct tcp_stream *s = c->streams[i];

		if (s && s->greeting && sl_greeting_answered(s->greeting))
			return true;
	}
	return has_stream(c);
}

/* ---- dialling ---- */

static void on_greeted(void *arg, int status, int fd, uint16_t index);

static int greet(struct tcp_conn *c, uint16_t index, sl_greeting_fn *fn, void *arg,
		 struct sl_greeting **out)
{
	struct sockaddr_storage to;
	int fd, ret = tcp_read_candidate(&to, c->attr.candidate, c->attr.candidate_len);

	if (!ret)
		ret = tcp_dial(&to, &fd);
	if (!ret)
		ret = sl_greeting_start(&c->t->transport, fd, &c->attr, index, fn, arg, out);
	return ret;
}

static void fail_dial(struct tcp_conn *c, int status)
{
	struct sockaddr_storage to;
	struct sl_why why;

	if (tcp_read_candidate(&to, c->attr.candidate, c->attr.candidate_len))
		snprintf(why.text, sizeof(why.text), "the peer offered a malformed address");
	else
		tcp_why_unreached(&to, status, &why);
	tcp_conn_fail(c,
		      status == -ENOENT		   ? -ECONNREFUSED
		      : status == -EPROTONOSUPPORT ? -EPROTO
						   : status,
		      why.text);
}

static void dial(struct tcp_stream *s)
{
	int ret = greet(s->conn, s->index, on_greeted, s, &s->greeting);

	if (ret)
		fail_dial(s->conn, ret);
}

static void take_stream(struct tcp_stream *s, int fd)
{
	struct tcp_conn *c = s->conn;
	int ret = tcp_stream_attach(s, fd);

	if (ret) {
		close(fd);
		tcp_conn_fail(c, ret, strerror(-ret));
		return;
	}
	pthread_mutex_lock(&c->lock);
	s->open_due = true;
	pthread_mutex_unlock(&c->lock);
	tcp_tx_flush(s);
}

static void on_greeted(void *arg, int status, int fd, uint16_t index)
{
	struct tcp_stream *s = arg;

	(void)index;
	s->greeting = NULL;
	if (status == -EAGAIN)
		sl_timer_set(poller_of(s->conn), &s->again,
			     sl_clock_ns() + SL_GREETING_AGAIN_MS * SL_NS_PER_MS);
	else if (status)
		fail_dial(s->conn, status);
	else
		take_stream(s, fd);
}

static void dial_again(struct sl_timer *t)
{
	dial(SL_CONTAINER_OF(t, struct tcp_stream, again));
}

static void show_candidate(struct tcp_conn *c)
{
	struct sockaddr_storage to;

	if (tcp_read_candidate(&to, c->attr.candidate, c->attr.candidate_len))
		return;
	pthread_mutex_lock(&c->lock);
	tcp_format_address(&to, c->address, sizeof(c->address));
	pthread_mutex_unlock(&c->lock);
}

static struct tcp_stream *make_stream(struct tcp_conn *c, unsigned i)
{
	int ret = tcp_stream_create(c, (uint16_t)i, &c->streams[i]);

	if (ret) {
		tcp_conn_fail(c, ret, strerror(-ret));
		return NULL;
	}
	sl_timer_init(&c->streams[i]->again, dial_again);
	return c->streams[i];
}

static void dial_from(struct tcp_conn *c, unsigned first)
{
	for (unsigned i = first; i < c->n_streams && !atomic_load(&c->ending); i++) {
		struct tcp_stream *s = make_stream(c, i);

		if (s)
			dial(s);
	}
}

/* ---- the reverse connection attempt of the acceptor ---- */

static void reverse_after(struct tcp_conn *c, uint64_t ns)
{
	sl_timer_set(poller_of(c), &c->reverse_timer, sl_clock_ns() + ns);
}

/* The peer accepted our reverse attempt, and waits for our streams. */
static void dial_in_its_place(struct tcp_conn *c, int fd)
{
	struct tcp_stream *s;

	sl_info("tcp", "%s: the peer does not reach us: we connect", c->conn.name);
	c->dials = true;
	pthread_mutex_lock(&c->lock);
	c->n_streams = c->t->transport.env->attr->tcp_streams;
	pthread_mutex_unlock(&c->lock);
	show_candidate(c);
	s = make_stream(c, 0);
	if (!s) {
		close(fd);
		return;
	}
	take_stream(s, fd);
	dial_from(c, 1);
}

static void on_reverse_greeted(void *arg, int status, int fd, uint16_t index)
{
	struct tcp_conn *c = arg;

	(void)index;
	c->reverse = NULL;
	if (status)
		reverse_after(c, status == -EAGAIN ? SL_GREETING_AGAIN_MS * SL_NS_PER_MS
						   : REVERSE_AGAIN_NS);
	else
		dial_in_its_place(c, fd);
}

void tcp_dial_reverse(struct sl_timer *t)
{
	struct tcp_conn *c = SL_CONTAINER_OF(t, struct tcp_conn, reverse_timer);

	if (greet(c, 0, on_reverse_greeted, c, &c->reverse))
		reverse_after(c, REVERSE_AGAIN_NS);
}

void tcp_dial_stop_reverse(struct tcp_conn *c)
{
	sl_timer_cancel(poller_of(c), &c->reverse_timer);
	if (c->reverse)
		sl_greeting_cancel(c->reverse);
	c->reverse = NULL;
}

/* ---- the initiator gives way ---- */

/* Whether the peer can be reached from other hosts, as it says. */
static bool is_elsewhere(const struct tcp_conn *c)
{
	struct sockaddr_storage there;

	return tcp_read_candidate(&there, c->attr.candidate, c->attr.candidate_len) == 0 &&
	       !tcp_is_loopback(&there);
}

/* Whether an attempt in the other direction may succeed: the initiator can be reached from
 * another host. A transport that does not listen cannot accept one. */
static bool may_turn(const struct tcp_conn *c)
{
	if (!c->t->listens)
		return false;
	return c->attr.initiator ? !tcp_is_loopback(&c->t->advertised) : is_elsewhere(c);
}

/* A cause that would hold in the other direction, too. */
static bool is_final(const struct tcp_conn *c)
{
	return c->end_local || c->end_cause == -EACCES || c->end_cause == -ENOMEM ||
	       c->end_cause == -EMFILE || c->end_cause == -ENFILE ||
	       sl_clock_ns() >= c->attr.deadline_ns;
}

/* The refusal may come from a firewall, or from another host with that address: this one, or a
 * nearer one. */
static bool is_refused_there(const struct tcp_conn *c)
{
	return c->end_cause == -ECONNREFUSED && is_elsewhere(c);
}

static void drop_streams(struct tcp_conn *c)
{
	for (unsigned i = 0; i < TCP_STREAMS_MAX; i++) {
		struct tcp_stream *s = c->streams[i];

		c->streams[i] = NULL;
		if (!s)
			continue;
		tcp_stream_stop(s);
		tcp_stream_free(s);
	}
}

/* The process at the other end may be anyone: nothing is given up before it has proven the key. */
int tcp_dial_gave_way(struct sl_conn *conn)
{
	const struct tcp_conn *c = tcp_conn_of(conn);

	if (tcp_conn_state(c) > TCP_CONN_OPENING || !may_turn(c))
		return -ENOENT;
	if (tcp_conn_state(c) != TCP_CONN_OPENING || atomic_load(&c->ending))
		return -EAGAIN;
	return !c->dials || (!is_answered(c) && sl_clock_ns() >= c->give_way_ns) ? 0 : -EAGAIN;
}

static void give_way(struct tcp_conn *c)
{
	drop_streams(c);
	pthread_mutex_lock(&c->lock);
	c->n_streams = 0;
	pthread_mutex_unlock(&c->lock);
	c->dials = false;
}

void tcp_dial_accept(struct tcp_conn *c)
{
	if (c->attr.initiator && c->dials && tcp_dial_gave_way(&c->conn) == 0)
		give_way(c);
}

bool tcp_dial_gives_way(struct tcp_conn *c)
{
	uint64_t until = sl_clock_ns();
	bool shut;

	if (tcp_conn_state(c) != TCP_CONN_OPENING || !c->attr.initiator || !c->dials ||
	    is_final(c) || is_answered(c) || !may_turn(c))
		return false;
	until += is_refused_there(c) ? WAIT_REFUSED_NS : WAIT_NS;
	give_way(c);
	pthread_mutex_lock(&c->lock);
	shut = c->shut;
	if (!shut) {
		c->vain_cause = c->end_cause;
		c->vain_why = c->end_why;
		atomic_store(&c->ending, false);
	}
	pthread_mutex_unlock(&c->lock);
	if (shut)
		return false;
	sl_timer_set(poller_of(c), &c->timer,
		     until < c->attr.deadline_ns ? until : c->attr.deadline_ns);
	return true;
}

/* ---- both ---- */

void tcp_dial_ran_out(struct tcp_conn *c)
{
	struct sl_why why;

	if (c->vain_cause) {
		tcp_conn_fail(c, c->vain_cause, c->vain_why.text);
	} else if (has_stream(c)) {
		tcp_conn_fail(c, -ETIMEDOUT, "not all streams came up in time");
	} else if (c->dials) {
		fail_dial(c, -ETIMEDOUT);
	} else {
		tcp_why_not_met(&c->t->advertised, &why);
		tcp_conn_fail(c, -ETIMEDOUT, why.text);
	}
}

void tcp_dial_begin(struct tcp_conn *c)
{
	c->dials = c->attr.initiator;
	c->give_way_ns = sl_clock_ns() + GIVE_WAY_NS;
	if (c->dials) {
		show_candidate(c);
		dial_from(c, 0);
	} else if (may_turn(c)) {
		reverse_after(c, tcp_is_loopback(&c->t->advertised) ? REVERSE_SOON_NS : REVERSE_NS);
	}
}
