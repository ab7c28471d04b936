/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a connection. What other threads want of it they note, and the token's holder does it
 * in tcp_conn_run(): begin, leave, end.
 *
 * Leaving in order: waiting messages are sent, no other frame begins, and BYE follows the last
 * message. Then we wait a moment for the peer to hang up, so that the end of another stream does
 * not overtake BYE. A peer that does not hang up in time is left to lingering_close.c, and the
 * connection ends.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "src/transport/auth.h"
#include "src/transport/tcp/tcp.h"

#define LEAVE_NS (500 * SL_NS_PER_MS)

/* ---- what other threads ask for ---- */

static void conn_close(struct sl_conn *conn, int cause, const char *why)
{
	struct tcp_conn *c = tcp_conn_of(conn);
	bool ends;

	/* A work that ends for another reason may still continue: it learns that it must not. */
	pthread_mutex_lock(&c->lock);
	c->shut = true;
	ends = atomic_load(&c->ending);
	pthread_mutex_unlock(&c->lock);
	if (!ends)
		tcp_conn_end_because(c, cause, why, true);
}

static uint8_t *slot(struct sl_conn *conn, enum sl_area area, unsigned number)
{
	struct tcp_conn *c = tcp_conn_of(conn);

	return tcp_conn_state(c) == TCP_CONN_UP ? c->out_slots + sl_slot_offset(area, number)
						: NULL;
}

/* Messages were queued. */
static void send_queued(struct tcp_conn *c, bool queued)
{
	if (!queued) {
		tcp_conn_fail_queue(c);
		return;
	}
	tcp_conn_touch(c);
	tcp_turn_shorten(c->t);
	if (!tcp_rx_sends_later(c))
		tcp_tx_flush(c->streams[0]);
}

static void post(struct sl_conn *conn, const struct sl_post *posts, size_t n)
{
	struct tcp_conn *c = tcp_conn_of(conn);
	bool up, queued = true;

	pthread_mutex_lock(&c->lock);
	up = tcp_conn_state(c) == TCP_CONN_UP;
	for (size_t i = 0; i < n; i++) {
		const struct sl_post *p = &posts[i];

		if (p->payload)
			memcpy(c->out_slots + sl_slot_offset(sl_msg_area(p->m.kind), p->m.slot),
			       p->payload, p->m.len);
		if (p->going)
			atomic_store_explicit(p->going, p->m.w[0], memory_order_release);
		queued = queued && up && tcp_conn_queue(c, &p->m);
	}
	pthread_mutex_unlock(&c->lock);
	if (up)
		send_queued(c, queued);
}

static void take_imm(struct sl_conn *conn, uint64_t taken)
{
	struct tcp_conn *c = tcp_conn_of(conn);

	pthread_mutex_lock(&c->lock);
	if (taken > c->taken)
		c->taken = taken;
	pthread_mutex_unlock(&c->lock);
	if (tcp_conn_state(c) == TCP_CONN_UP && !tcp_rx_sends_later(c))
		tcp_tx_flush(c->streams[0]);
}

static void address(struct sl_conn *conn, char *out, size_t cap)
{
	struct tcp_conn *c = tcp_conn_of(conn);

	pthread_mutex_lock(&c->lock);
	snprintf(out, cap, "%s", c->address);
	pthread_mutex_unlock(&c->lock);
}

/* ---- beginning ---- */

static void set_state(struct tcp_conn *c, enum tcp_conn_state state)
{
	pthread_mutex_lock(&c->lock);
	atomic_store(&c->state, state);
	pthread_mutex_unlock(&c->lock);
}

static void on_time(struct sl_timer *timer)
{
	struct tcp_conn *c = SL_CONTAINER_OF(timer, struct tcp_conn, timer);

	c->stands_still = tcp_conn_state(c) == TCP_CONN_LEAVING;
	if (c->stands_still)
		tcp_conn_fail(c, -ETIMEDOUT, "the peer stands still");
	else
		tcp_dial_ran_out(c);
}

static void begin(struct tcp_conn *c)
{
	sl_list_append(&c->t->conns, &c->link);
	tcp_watch_start(c->t);
	set_state(c, TCP_CONN_OPENING);
	sl_timer_set(c->t->transport.env->poller, &c->timer, c->attr.deadline_ns);
	tcp_dial_begin(c);
}

/* Why a stream is not taken; NULL when it is. */
static const char *adopt(struct tcp_conn *c, int fd, uint16_t index)
{
	if (c->dials || tcp_conn_state(c) != TCP_CONN_OPENING)
		return "it is not expected any more";
	if (index >= (c->n_streams ? c->n_streams : TCP_STREAMS_MAX))
		return "its number is out of range";
	if (c->streams[index])
		return "its number is taken";
	if (tcp_stream_create(c, index, &c->streams[index]))
		return "no memory for it";
	if (tcp_stream_attach(c->streams[index], fd)) {
		tcp_stream_free(c->streams[index]);
		c->streams[index] = NULL;
		return "its socket cannot be set up";
	}
	return NULL;
}

void tcp_conn_adopt(struct sl_transport *t, struct sl_conn *conn, int fd, uint16_t stream)
{
	struct tcp_conn *c = tcp_conn_of(conn);
	struct sockaddr_storage ss = { 0 };
	socklen_t len = sizeof(ss);
	const char *why;

	/* It was made, and its start may still be due. */
	if (tcp_conn_state(c) == TCP_CONN_NEW)
		begin(c);
	tcp_dial_accept(c);
	why = adopt(c, fd, stream);
	if (why) {
		sl_warn("tcp", "%s: stream %u turned away: %s", c->conn.name, stream, why);
		close(fd);
		return;
	}
	tcp_dial_stop_reverse(c);
	/* Ours were in vain, and the peer's come. */
	c->vain_cause = 0;
	sl_timer_set(t->env->poller, &c->timer, c->attr.deadline_ns);
	if (getpeername(fd, (struct sockaddr *)&ss, &len) == 0) {
		pthread_mutex_lock(&c->lock);
		tcp_format_address(&ss, c->address, sizeof(c->address));
		pthread_mutex_unlock(&c->lock);
	}
}

/* ---- all streams, and both ends know ---- */

static void come_up(struct tcp_conn *c)
{
	sl_timer_cancel(c->t->transport.env->poller, &c->timer);
	set_state(c, TCP_CONN_UP);
	tcp_conn_touch(c);
	c->conn.events->ready(c->conn.owner);
	for (unsigned i = 1; i < c->n_streams; i++)
		tcp_stream_pause(c->streams[i], false);
}

static void come_up_if_complete(struct tcp_conn *c)
{
	if (c->peer_ready && c->n_streams && c->n_opened == c->n_streams)
		come_up(c);
}

static void say_ready(struct tcp_conn *c)
{
	pthread_mutex_lock(&c->lock);
	c->ready_due = true;
	pthread_mutex_unlock(&c->lock);
	tcp_tx_flush(c->streams[0]);
}

static int on_open(struct tcp_stream *s, const struct tcp_head *h)
{
	struct tcp_conn *c = s->conn;

	if (h->id != s->index || s->index >= h->arg || (c->n_streams && c->n_streams != h->arg))
		return -EPROTO;
	pthread_mutex_lock(&c->lock);
	c->n_streams = (unsigned)h->arg;
	/* An acceptor answers, now that it knows how many there are. */
	s->open_due = !c->dials;
	pthread_mutex_unlock(&c->lock);
	s->opened = true;
	c->n_opened++;
	/* Input on the other streams is read when the link is up. */
	if (s->index)
		tcp_stream_pause(s, true);
	tcp_tx_flush(s);
	if (c->n_opened == c->n_streams)
		say_ready(c);
	come_up_if_complete(c);
	return 0;
}

static int on_ready(struct tcp_conn *c)
{
	if (c->peer_ready)
		return -EPROTO;
	c->peer_ready = true;
	come_up_if_complete(c);
	return 0;
}

/* ---- the end ---- */

/* Where no frame is half sent, if there is such a stream. */
static struct tcp_stream *pick_idle_stream(struct tcp_conn *c)
{
	for (unsigned i = 0; i < c->n_streams; i++) {
		struct tcp_stream *s = c->streams[i];
		bool idle;

		pthread_mutex_lock(&s->tx_lock);
		idle = (!s->batch || s->batch->at == s->batch->n) && !s->blocked;
		tcp_tx_unlock(s);
		if (idle)
			return s;
	}
	return c->streams[0];
}

static void leave(struct tcp_conn *c)
{
	struct tcp_stream *idle = pick_idle_stream(c);

	pthread_mutex_lock(&c->lock);
	/* Where the peer is in the first stream is not known: BYE is behind its messages there
	 * alone. */
	c->bye_stream = c->n_msgs || c->has_said ? c->streams[0] : idle;
	c->bye_due = true;
	atomic_store(&c->state, TCP_CONN_LEAVING);
	pthread_mutex_unlock(&c->lock);
	for (unsigned i = 0; i < c->n_streams; i++)
		tcp_stream_leave(c->streams[i]);
	sl_timer_set(c->t->transport.env->poller, &c->timer, sl_clock_ns() + LEAVE_NS);
	tcp_tx_flush(c->bye_stream);
}

void tcp_conn_rest(struct tcp_transport *t, struct tcp_conn *c)
{
	if (!atomic_load_explicit(&c->is_active, memory_order_relaxed))
		return;
	if (t->next_active == &c->active_link)
		t->next_active = c->active_link.next;
	sl_list_remove(&c->active_link);
	t->n_active--;
	atomic_store_explicit(&c->is_active, false, memory_order_relaxed);
}

static void join_active(struct tcp_transport *t, struct tcp_conn *c)
{
	if (t->n_active == TCP_ACTIVE_MAX) {
		tcp_conn_rest(t, SL_CONTAINER_OF(t->active.next, struct tcp_conn, active_link));
		t->crowd = TCP_CROWD;
	}
	atomic_store_explicit(&c->is_active, true, memory_order_relaxed);
	sl_list_append(&t->active, &c->active_link);
	t->n_active++;
}

/* No byte moves and no op is left after this. */
static void stop(struct tcp_conn *c, int status)
{
	set_state(c, TCP_CONN_ENDED);
	sl_timer_cancel(c->t->transport.env->poller, &c->timer);
	tcp_dial_stop_reverse(c);
	for (unsigned i = 0; i < TCP_STREAMS_MAX; i++) {
		if (c->streams[i])
			tcp_stream_stop(c->streams[i]);
	}
	tcp_fail_ops(c, status);
	tcp_conn_rest(c->t, c);
	sl_list_remove(&c->link);
}

static void end(struct tcp_conn *c)
{
	const struct sl_conn_events *events = c->conn.events;
	void *owner = c->conn.owner;
	struct sl_why why = c->end_why;
	int cause = c->end_cause;

	if (c->stands_still)
		tcp_lingering_begin(c);
	stop(c, cause == 0 && c->end_local ? -ECANCELED : -ECONNRESET);
	events->broken(owner, cause, why.text);
}

/* Streams whose turn was over before all input was read. */
static unsigned receive_on(struct tcp_conn *c)
{
	uint32_t streams = c->unread;
	unsigned n = 0;

	c->unread = 0;
	for (unsigned i = 0; streams; i++, streams >>= 1) {
		if (streams & 1 && c->streams[i]->rx && c->streams[i]->rx->more)
			n += tcp_rx_run(c->streams[i]);
	}
	return n;
}

unsigned tcp_conn_run(struct tcp_conn *c)
{
	struct tcp_transport *t = c->t;

	if (tcp_conn_state(c) == TCP_CONN_NEW)
		begin(c);
	if (tcp_conn_state(c) == TCP_CONN_ENDED)
		return 0;
	if (atomic_load(&c->ending) && !tcp_dial_gives_way(c)) {
		if (tcp_conn_state(c) == TCP_CONN_UP && c->end_local && c->end_cause == 0)
			leave(c);
		else if (tcp_conn_state(c) != TCP_CONN_LEAVING || atomic_load(&c->left))
			end(c);
		return 1;
	}
	if (t->polls && !atomic_load_explicit(&c->is_active, memory_order_relaxed) &&
	    tcp_conn_state(c) == TCP_CONN_UP)
		join_active(t, c);
	return receive_on(c);
}

/* ---- life ---- */

static void free_conn(struct tcp_conn *c)
{
	for (unsigned i = 0; i < TCP_STREAMS_MAX; i++) {
		if (c->streams[i])
			tcp_stream_free(c->streams[i]);
	}
	pthread_mutex_destroy(&c->lock);
	sl_auth_wipe(c->attr.key, sizeof(c->attr.key));
	free(c->msgs);
	if (c->out_slots)
		munmap(c->out_slots, 2 * SL_SLOTS_LEN);
	free(c->shown);
	free(c->shown_there);
	free(c);
}

static void destroy(struct sl_conn *conn)
{
	struct tcp_conn *c = tcp_conn_of(conn);

	if (tcp_conn_state(c) != TCP_CONN_ENDED)
		stop(c, -ECONNRESET);
	sl_todo_forget(&c->t->todo, &c->todo);
	free_conn(c);
}

static void forget(struct sl_conn *conn)
{
	struct tcp_conn *c = tcp_conn_of(conn);

	sl_greeting_forget(c->reverse);
	for (unsigned i = 0; i < TCP_STREAMS_MAX; i++) {
		if (c->streams[i])
			sl_greeting_forget(c->streams[i]->greeting);
	}
	free_conn(c);
}

static const struct tcp_conn_parts parts = {
	.on_open = on_open,
	.on_ready = on_ready,
};

static const struct sl_conn_ops conn_ops = {
	.submit = tcp_submit,
	.slot = slot,
	.post = post,
	.take_imm = take_imm,
	.close = conn_close,
	.destroy = destroy,
	.forget = forget,
	.is_stale = tcp_conn_is_stale,
	.address = address,
	.gave_way = tcp_dial_gave_way,
};

/* The pages come when they are written to, and none is beside them that an allocator needs. */
static int map_slots(struct tcp_conn *c)
{
	uint8_t *slots = mmap(NULL, 2 * SL_SLOTS_LEN, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (slots == MAP_FAILED)
		return -ENOMEM;
	c->out_slots = slots;
	c->in_slots = slots + SL_SLOTS_LEN;
	return 0;
}

static int init(struct tcp_conn *c, const struct sl_conn_attr *attr)
{
	if (attr->candidate_len > sizeof(c->candidate))
		return -EINVAL;
	c->attr = *attr;
	memcpy(c->candidate, attr->candidate, attr->candidate_len);
	c->attr.candidate = c->candidate;
	c->conn = (struct sl_conn){
		.ops = &conn_ops,
		.events = attr->events,
		.owner = attr->owner,
		.name = attr->name,
		.self = attr->self,
		.peer = attr->peer,
		.imm_taken = &c->imm_taken,
	};
	return map_slots(c);
}

int tcp_conn_create(struct sl_transport *t, const struct sl_conn_attr *attr, struct sl_conn **out)
{
	struct tcp_conn *c = calloc(1, sizeof(*c));
	int ret;

	if (!c)
		return -ENOMEM;
	c->t = SL_CONTAINER_OF(t, struct tcp_transport, transport);
	c->parts = &parts;
	pthread_mutex_init(&c->lock, NULL);
	sl_list_init(&c->active_link);
	sl_list_init(&c->link);
	sl_todo_entry_init(&c->todo);
	sl_list_init(&c->ops);
	sl_timer_init(&c->timer, on_time);
	sl_timer_init(&c->reverse_timer, tcp_dial_reverse);
	if (attr->initiator)
		c->n_streams = t->env->attr->tcp_streams;
	ret = init(c, attr);
	if (ret) {
		free_conn(c);
		return ret;
	}
	*out = &c->conn;
	tcp_conn_call(c);
	return 0;
}
