/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sending. Each thread sends its own output, unless another thread is sending, which then checks
 * again. Frames that wait are gathered into one system call; payload is sent from where it lies.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/wire.h"
#include "src/transport/tcp/tcp.h"

/* What a thread sends that makes no pass, before it leaves the rest to the poller. */
#define TURN_BYTES (UINT64_C(8) << 20)

/* ---- filling a batch: under tx_lock and conn->lock ---- */

/* Whether another frame of any kind fits. */
static bool has_room(const struct tcp_batch *b)
{
	return b->n + TCP_PIECES_MAX + 1 <= TCP_BATCH_IOVS && b->bytes < b->max &&
	       b->heads_len + TCP_HEAD_LEN + TCP_MSG_LEN +
			       TCP_PIECES_MAX * (TCP_PIECE_LEN + TCP_HEAD_LEN + TCP_SECRET_LEN) <=
		       TCP_BATCH_HEADS;
}

/* len bytes among the heads, sent behind what is there; runs of them are one iovec. */
static uint8_t *add_bytes(struct tcp_batch *b, size_t len)
{
	uint8_t *at = b->heads + b->heads_len;
	struct iovec *last = b->n ? &b->iov[b->n - 1] : NULL;

	if (last && (uint8_t *)last->iov_base + last->iov_len == at)
		last->iov_len += len;
	else
		b->iov[b->n++] = (struct iovec){ .iov_base = at, .iov_len = len };
	b->heads_len += len;
	b->bytes += len;
	return at;
}

static void add_head(struct tcp_batch *b, struct tcp_head h)
{
	tcp_head_write(&h, add_bytes(b, TCP_HEAD_LEN));
}

static void add_payload(struct tcp_batch *b, uint8_t *at, uint64_t len)
{
	b->iov[b->n++] = (struct iovec){ .iov_base = at, .iov_len = len };
	b->bytes += len;
}

static void add_control(struct tcp_stream *s, struct tcp_batch *b)
{
	struct tcp_conn *c = s->conn;

	if (s->open_due)
		add_head(b, (struct tcp_head){
				    .kind = TCP_OPEN, .id = s->index, .arg = c->n_streams });
	s->open_due = false;
	if (s->index != 0)
		return;
	if (c->ready_due)
		add_head(b, (struct tcp_head){ .kind = TCP_READY });
	c->ready_due = false;
	if (c->taken != c->taken_told)
		add_head(b, (struct tcp_head){ .kind = TCP_CREDIT, .arg = c->taken });
	c->taken_told = c->taken;
	for (; c->n_withdrawn_told != c->n_withdrawn && has_room(b); c->n_withdrawn_told++)
		add_head(b, (struct tcp_head){
				    .kind = TCP_WITHDRAW,
				    .arg = c->withdrawn[c->n_withdrawn_told % TCP_WITHDRAWN] });
}

static void add_messages(struct tcp_stream *s, struct tcp_batch *b)
{
	struct tcp_conn *c = s->conn;

	while (s->index == 0 && c->n_msgs && has_room(b)) {
		const struct sl_msg *m = &c->msgs->at[c->msgs_first];

		add_head(b, (struct tcp_head){ .kind = TCP_MSG, .len = m->len });
		tcp_msg_write(m, add_bytes(b, TCP_MSG_LEN));
		if (m->len)
			add_payload(b, c->out_slots + sl_slot_offset(sl_msg_area(m->kind), m->slot),
				    m->len);
		c->msgs_first = (c->msgs_first + 1) % SL_RING_ENTRIES;
		c->n_msgs--;
		c->has_said = true;
		if (c->n_msgs)
			continue;
		tcp_pool_give_back(&c->t->msgs, &c->msgs);
	}
}

static void add_replies(struct tcp_stream *s, struct tcp_batch *b)
{
	while (s->n_replies && has_room(b)) {
		const struct tcp_reply *r = &s->replies[s->replies_first];

		add_head(b, (struct tcp_head){ .kind = TCP_REPLY, .id = r->id, .arg = r->code });
		s->replies_first = (s->replies_first + 1) % TCP_REQUESTS;
		s->n_replies--;
	}
}

static void add_data(struct tcp_conn *c, struct tcp_batch *b, struct tcp_serve *v)
{
	struct iovec places[TCP_PIECES_MAX];
	int ret = tcp_acquire_pieces(c, v->pieces, v->head.count, SLIME_ACCESS_REMOTE_READ, places);

	if (ret) {
		add_head(b, (struct tcp_head){
				    .kind = TCP_REPLY, .id = v->head.id, .arg = tcp_code_of(ret) });
		return;
	}
	v->holds = true;
	add_head(b, (struct tcp_head){ .kind = TCP_DATA, .id = v->head.id, .len = v->head.len });
	memset(add_bytes(b, TCP_PAD_LEN), 0, TCP_PAD_LEN);
	memcpy(b->iov + b->n, places, v->head.count * sizeof(places[0]));
	b->n += v->head.count;
	b->bytes += v->head.len;
}

static void add_serves(struct tcp_stream *s, struct tcp_batch *b)
{
	while (!sl_list_empty(&s->serves_waiting) && has_room(b)) {
		struct sl_list *e = sl_list_pop(&s->serves_waiting);
		struct tcp_serve *v = SL_CONTAINER_OF(e, struct tcp_serve, link);

		add_data(s->conn, b, v);
		v->end = b->bytes;
		sl_list_append(&b->serves, e);
	}
}

static void add_secret(struct tcp_batch *b, const struct slime_remote_mr *r)
{
	uint8_t *at;

	add_head(b, (struct tcp_head){ .kind = TCP_SECRET, .id = r->id, .arg = r->generation });
	at = add_bytes(b, TCP_SECRET_LEN);
	sl_put_le64(at, r->secret[0]);
	sl_put_le64(at + 8, r->secret[1]);
}

/* Secrets that this stream has not shown yet. */
static void add_secrets(struct tcp_stream *s, struct tcp_batch *b, const struct tcp_request *r)
{
	for (unsigned i = 0; i < r->n_pieces; i++) {
		const struct slime_remote_mr *of = r->pieces[i].remote;

		if (i && of == r->pieces[i - 1].remote)
			continue;
		if (tcp_secret_is_due(s->conn, of, s->index))
			add_secret(b, of);
	}
}

static void add_request(struct tcp_batch *b, const struct tcp_request *r)
{
	struct tcp_head h = {
		.kind = r->kind,
		.count = r->n_pieces,
		.id = r->id,
		.len = r->len,
		.arg = r->kind == TCP_WRITE_IMM ? r->op->work.imm : 0,
	};
	uint8_t *list;

	add_head(b, h);
	list = add_bytes(b, r->n_pieces * (size_t)TCP_PIECE_LEN);
	for (unsigned i = 0; i < r->n_pieces; i++, list += TCP_PIECE_LEN) {
		const struct sl_piece *p = &r->pieces[i];
		struct tcp_piece piece = {
			.region = p->remote->id,
			.len = (uint32_t)p->len,
			.generation = p->remote->generation,
			.offset = p->remote_offset,
		};

		tcp_piece_write(&piece, list);
	}
	for (unsigned i = 0; r->kind != TCP_READ && i < r->n_pieces; i++)
		add_payload(b, r->pieces[i].local, r->pieces[i].len);
}

static void add_requests(struct tcp_stream *s, struct tcp_batch *b)
{
	while (!sl_list_empty(&s->to_send) && has_room(b)) {
		struct sl_list *e = sl_list_pop(&s->to_send);
		struct tcp_request *r = SL_CONTAINER_OF(e, struct tcp_request, link);

		add_secrets(s, b, r);
		add_request(b, r);
		r->end = b->bytes;
		sl_list_append(&b->requests, e);
	}
}

/* Messages that were queued before we left: the ops of some have ended already. BYE is behind them.
 */
static void add_goodbye(struct tcp_stream *s, struct tcp_batch *b)
{
	struct tcp_conn *c = s->conn;

	add_messages(s, b);
	if (c->n_msgs)
		return;
	add_head(b, (struct tcp_head){ .kind = TCP_BYE });
	c->bye_due = false;
	b->bye = true;
}

/* Under conn->lock. */
static void fill(struct tcp_stream *s)
{
	struct tcp_conn *c = s->conn;
	struct tcp_batch *b = s->batch;

	if (atomic_load_explicit(&c->state, memory_order_relaxed) < TCP_CONN_LEAVING) {
		add_control(s, b);
		add_messages(s, b);
		add_replies(s, b);
		add_serves(s, b);
		add_requests(s, b);
	} else if (c->bye_due && s == c->bye_stream) {
		add_goodbye(s, b);
	}
}

/* ---- sending it: under tx_lock ---- */

static bool has_rest(const struct tcp_stream *s)
{
	return s->batch && s->batch->at < s->batch->n;
}

static bool take_batch(struct tcp_stream *s)
{
	struct tcp_batch *b = tcp_pool_take(&s->conn->t->batches);

	if (!b) {
		tcp_conn_fail(s->conn, -ENOMEM, "no memory to send");
		return false;
	}
	sl_list_init(&b->requests);
	sl_list_init(&b->serves);
	s->batch = b;
	return true;
}

/* It is empty. */
static void give_batch(struct tcp_stream *s)
{
	tcp_pool_give_back(&s->conn->t->batches, &s->batch);
}

/* Under conn->lock: requests and answers that end within the first bytes of the batch are done
 * with; sent: the kernel has all of them. */
static void let_go(struct tcp_stream *s, uint64_t bytes, bool sent)
{
	struct tcp_batch *b = s->batch;

	while (!sl_list_empty(&b->requests)) {
		struct tcp_request *r = SL_CONTAINER_OF(b->requests.next, struct tcp_request, link);

		if (r->end > bytes)
			break;
		sl_list_remove(&r->link);
		r->sent = sent;
	}
	while (!sl_list_empty(&b->serves)) {
		struct tcp_serve *v = SL_CONTAINER_OF(b->serves.next, struct tcp_serve, link);

		if (v->end > bytes)
			break;
		sl_list_remove(&v->link);
		if (v->holds)
			tcp_release_pieces(s->conn, v->pieces, v->head.count);
		v->holds = false;
		tcp_serve_done(s, v);
	}
}

/* The kernel has a part of the batch: the peer may answer what is in it. */
static void let_part_go(struct tcp_stream *s)
{
	pthread_mutex_lock(&s->conn->lock);
	let_go(s, s->batch->sent, true);
	pthread_mutex_unlock(&s->conn->lock);
}

/* Under conn->lock. */
static void empty_batch(struct tcp_stream *s, bool sent)
{
	struct tcp_batch *b = s->batch;

	let_go(s, UINT64_MAX, sent);
	b->bye = false;
	b->at = 0;
	b->n = 0;
	b->heads_len = 0;
	b->bytes = 0;
	b->sent = 0;
}

void tcp_tx_drop(struct tcp_stream *s)
{
	if (!s->batch)
		return;
	pthread_mutex_lock(&s->conn->lock);
	empty_batch(s, false);
	pthread_mutex_unlock(&s->conn->lock);
	give_batch(s);
}

/* The batch is sent: whether there is another one. */
static bool next_batch(struct tcp_stream *s)
{
	if (s->batch && s->batch->bye)
		shutdown(s->fd, SHUT_WR);
	if (!s->batch && !take_batch(s))
		return false;
	pthread_mutex_lock(&s->conn->lock);
	empty_batch(s, true);
	s->batch->max = tcp_turn(s->conn->t);
	fill(s);
	pthread_mutex_unlock(&s->conn->lock);
	if (s->batch->n)
		return true;
	give_batch(s);
	return false;
}

void tcp_tx_watch(struct tcp_stream *s)
{
	uint32_t events = s->closing ? EPOLLRDHUP : s->rx_paused ? 0 : EPOLLIN;

	if (s->blocked)
		events |= EPOLLOUT;
	/* It can fail only for a descriptor that is not in the set. */
	if (!s->dead && s->fd >= 0)
		sl_poller_change(s->conn->t->transport.env->poller, &s->source, events);
}

static void set_blocked(struct tcp_stream *s, bool blocked)
{
	if (s->blocked == blocked)
		return;
	s->blocked = blocked;
	if (blocked)
		atomic_fetch_add(&s->conn->n_blocked, 1);
	else
		atomic_fetch_sub(&s->conn->n_blocked, 1);
	tcp_tx_watch(s);
}

/*
 * The bytes the kernel took, of at most max, 0 when it is full, or a negative errno. The peer may
 * have them and answer, and their owner write there again, before sendmsg() returns; the thread
 * sanitizer looks at them only then.
 */
static ssize_t send_some(struct tcp_stream *s, uint64_t max)
{
	struct tcp_batch *b = s->batch;
	struct tcp_iov_cut cut = tcp_iov_cut(b->iov, b->at, b->n, max);
	struct msghdr mh = { .msg_iov = b->iov + b->at, .msg_iovlen = cut.end - b->at };
	ssize_t n;

	TCP_TSAN(AnnotateIgnoreReadsBegin);
	do {
		n = sendmsg(s->fd, &mh, MSG_NOSIGNAL | MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	TCP_TSAN(AnnotateIgnoreReadsEnd);
	tcp_iov_mend(b->iov, &cut);
	if (n < 0)
		return errno == EAGAIN ? 0 : -errno;
	/* Behind the call: a thread that checks for pending frames clears it first, then checks. */
	if (!atomic_load_explicit(&s->conn->has_sent, memory_order_relaxed))
		atomic_store(&s->conn->has_sent, true);
	b->sent += (uint64_t)n;
	tcp_iov_advance(b->iov, &b->at, b->n, (size_t)n);
	return n;
}

/* Messages that a peer sent before it hung up, a goodbye perhaps, are read first: the poller
 * reports the end. */
static void fail(struct tcp_stream *s, int err)
{
	if (err != EPIPE && err != ECONNRESET)
		tcp_conn_fail(s->conn, -ECONNRESET, strerror(err));
}

/* While we leave, a frame that was begun is completed only where BYE will follow it. */
static bool is_over(const struct tcp_stream *s)
{
	return s->dead || s->fd < 0 ||
	       (atomic_load(&s->conn->state) >= TCP_CONN_LEAVING && s != s->conn->bye_stream);
}

static void send_all(struct tcp_stream *s)
{
	const struct sl_transport_env *env = s->conn->t->transport.env;
	const bool in_pass = env->in_pass(env->arg);
	uint64_t left = in_pass ? tcp_turn(s->conn->t) : TURN_BYTES;

	while (!is_over(s)) {
		ssize_t n;

		if (!has_rest(s) && !next_batch(s)) {
			set_blocked(s, false);
			return;
		}
		if (in_pass && !left) {
			tcp_bulk_add(s, true);
			break;
		}
		n = left ? send_some(s, left) : 0;
		if (n < 0) {
			fail(s, (int)-n);
			return;
		}
		if (n == 0) {
			set_blocked(s, true);
			return;
		}
		left -= (uint64_t)n;
		if (has_rest(s))
			let_part_go(s);
	}
	set_blocked(s, false);
}

static void send_wanted(struct tcp_stream *s, bool room)
{
	while (atomic_load(&s->tx_wanted) && pthread_mutex_trylock(&s->tx_lock) == 0) {
		atomic_store(&s->tx_wanted, false);
		if (room || !s->blocked)
			send_all(s);
		room = false;
		pthread_mutex_unlock(&s->tx_lock);
	}
}

static void flush(struct tcp_stream *s, bool room)
{
	atomic_store(&s->tx_wanted, true);
	send_wanted(s, room);
}

/* The rest of the batch, which was not sent, goes behind the *len bytes at *to. */
static int append_rest(const struct tcp_batch *b, uint8_t **to, size_t *len)
{
	size_t left = b ? b->bytes - b->sent : 0;
	uint8_t *at;

	if (!left)
		return 0;
	at = realloc(*to, *len + left);
	if (!at)
		return -ENOMEM;
	*to = at;
	at += *len;
	*len += left;
	/* As in send_some(). */
	TCP_TSAN(AnnotateIgnoreReadsBegin);
	for (unsigned i = b->at; i < b->n; i++) {
		memcpy(at, b->iov[i].iov_base, b->iov[i].iov_len);
		at += b->iov[i].iov_len;
	}
	TCP_TSAN(AnnotateIgnoreReadsEnd);
	return 0;
}

/* As next_batch(), which waits for no other connection, of one that leaves. */
static bool next_goodbye(struct tcp_stream *s)
{
	struct tcp_conn *c = s->conn;

	if (!s->batch && !take_batch(s))
		return false;
	pthread_mutex_lock(&c->lock);
	empty_batch(s, true);
	if (c->bye_due)
		add_goodbye(s, s->batch);
	pthread_mutex_unlock(&c->lock);
	return s->batch->n > 0;
}

int tcp_tx_take_rest(struct tcp_stream *s, uint8_t **out, size_t *len)
{
	uint8_t *rest = NULL;
	size_t n = 0;
	int ret;

	pthread_mutex_lock(&s->tx_lock);
	do
		ret = append_rest(s->batch, &rest, &n);
	while (!ret && !(s->batch && s->batch->bye) && next_goodbye(s));
	pthread_mutex_unlock(&s->tx_lock);
	if (ret) {
		free(rest);
		return ret;
	}
	*out = rest;
	*len = n;
	return 0;
}

void tcp_tx_unlock(struct tcp_stream *s)
{
	pthread_mutex_unlock(&s->tx_lock);
	send_wanted(s, false);
}

void tcp_tx_flush(struct tcp_stream *s)
{
	flush(s, false);
}

void tcp_tx_unblock(struct tcp_stream *s)
{
	flush(s, true);
}

void tcp_tx_flush_mask(struct tcp_conn *c, uint32_t streams)
{
	for (unsigned i = 0; streams; i++, streams >>= 1) {
		if (streams & 1)
			tcp_tx_flush(c->streams[i]);
	}
}
