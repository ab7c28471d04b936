/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receiving. Headers, lists and messages go through a buffer that also holds a short payload, so
 * that a frame of up to 8 KiB takes one system call; the rest of a longer one is read straight to
 * where it belongs, and what follows it into the buffer, in one call, too. What a frame asks for is
 * checked before its payload is read or copied.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/wire.h"
#include "src/transport/tcp/tcp.h"

/* A turn: then other streams have theirs. */
#define TURN_FRAMES 64
/* So long a message waits for others of its turn. */
#define TOGETHER_NS (20 * SL_NS_PER_US)

/* The stream whose turn this thread runs. */
static SL_PER_THREAD struct tcp_stream *in_turn;

/* ---- frames that are complete ---- */

static int raise_imm(struct tcp_conn *c, const struct tcp_head *h)
{
	struct sl_msg m = { .kind = SL_MSG_IMM, .w = { h->arg, h->len } };

	return c->conn.events->msg(c->conn.owner, &m, NULL) ? 0 : -EPROTO;
}

static int queue_reply(struct tcp_stream *s, uint32_t id, enum tcp_code code)
{
	int ret = 0;

	pthread_mutex_lock(&s->conn->lock);
	if (s->n_replies == TCP_REQUESTS)
		ret = -EPROTO; /* it has more requests open than it may */
	else
		s->replies[(s->replies_first + s->n_replies++) % TCP_REQUESTS] =
			(struct tcp_reply){ .id = (uint8_t)id, .code = (uint8_t)code };
	pthread_mutex_unlock(&s->conn->lock);
	s->rx->answers_due = true;
	return ret;
}

static int end_write(struct tcp_stream *s)
{
	struct tcp_rx *rx = s->rx;
	int ret = 0;

	if (rx->holds) {
		pthread_mutex_lock(&s->conn->lock);
		tcp_release_pieces(s->conn, rx->pieces, rx->head.count);
		rx->holds = false;
		pthread_mutex_unlock(&s->conn->lock);
	}
	if (rx->head.kind == TCP_WRITE_IMM && !rx->status)
		ret = raise_imm(s->conn, &rx->head);
	return ret ? ret : queue_reply(s, rx->head.id, tcp_code_of(rx->status));
}

/* Where the payload of a message belongs. */
static uint8_t *slot_of(const struct tcp_conn *c, const struct sl_msg *m)
{
	return c->in_slots + sl_slot_offset(sl_msg_area(m->kind), m->slot);
}

static int end_msg(struct tcp_stream *s)
{
	struct tcp_conn *c = s->conn;
	const struct sl_msg *m = &s->rx->msg;
	const uint8_t *payload = m->len ? slot_of(c, m) : NULL;

	tcp_turn_shorten(c->t);
	return c->conn.events->msg(c->conn.owner, m, payload) ? 0 : -EPROTO;
}

/* The payload is in its place. */
static int end_payload(struct tcp_stream *s)
{
	struct tcp_rx *rx = s->rx;

	rx->step = TCP_RX_HEAD;
	switch (rx->head.kind) {
	case TCP_MSG:
		return end_msg(s);
	case TCP_DATA:
		tcp_request_done(s, rx->request, 0);
		rx->request = NULL;
		return 0;
	default:
		return end_write(s);
	}
}

/* ---- frames that begin ---- */

static int begin_data(struct tcp_stream *s)
{
	struct tcp_rx *rx = s->rx;

	rx->request = tcp_request_find(s, rx->head.id);
	if (!rx->request || rx->request->kind != TCP_READ || rx->request->len != rx->head.len)
		return -EPROTO;
	return 0;
}

/* The pad is there; what is read before that would overwrite the places. */
static int begin_data_bytes(struct tcp_rx *rx)
{
	for (unsigned i = 0; i < rx->request->n_pieces; i++) {
		const struct sl_piece *p = &rx->request->pieces[i];

		rx->iov[i] = (struct iovec){ .iov_base = p->local, .iov_len = p->len };
	}
	rx->iov_at = 0;
	rx->n_iov = rx->request->n_pieces;
	return 0;
}

static int on_reply(struct tcp_stream *s, const struct tcp_head *h)
{
	struct tcp_request *r = tcp_request_find(s, h->id);

	if (!r || (r->kind == TCP_READ && h->arg == TCP_OK))
		return -EPROTO;
	tcp_request_done(s, r, tcp_code_status(h->arg));
	return 0;
}

static int on_credit(struct tcp_conn *c, uint64_t taken)
{
	if (taken < atomic_load_explicit(&c->imm_taken, memory_order_relaxed))
		return -EPROTO;
	atomic_store_explicit(&c->imm_taken, taken, memory_order_release);
	return 0;
}

static int on_withdraw(struct tcp_conn *c, uint64_t generation)
{
	pthread_mutex_lock(&c->lock);
	c->stale[c->conn.n_stale++ % TCP_WITHDRAWN] = generation;
	pthread_mutex_unlock(&c->lock);
	return 0;
}

static int begin_write(struct tcp_stream *s)
{
	struct tcp_rx *rx = s->rx;

	pthread_mutex_lock(&s->conn->lock);
	rx->status = tcp_acquire_pieces(s->conn, rx->pieces, rx->head.count,
					SLIME_ACCESS_REMOTE_WRITE, rx->iov);
	rx->holds = rx->status == 0;
	pthread_mutex_unlock(&s->conn->lock);
	rx->iov_at = 0;
	rx->n_iov = rx->status ? 0 : rx->head.count;
	return 0;
}

static int begin_msg(struct tcp_stream *s, const uint8_t *bytes)
{
	struct tcp_rx *rx = s->rx;
	int ret = tcp_msg_read(&rx->msg, &rx->head, bytes);

	if (ret)
		return ret;
	rx->iov_at = 0;
	rx->n_iov = rx->msg.len > 0;
	if (rx->msg.len)
		rx->iov[0] = (struct iovec){ .iov_base = slot_of(s->conn, &rx->msg),
					     .iov_len = rx->msg.len };
	return 0;
}

/* -EAGAIN: it has as many requests open as it may. */
static int queue_serve(struct tcp_stream *s)
{
	struct tcp_rx *rx = s->rx;
	struct tcp_serve *v;
	int ret;

	pthread_mutex_lock(&s->conn->lock);
	ret = tcp_serve_new(s, &v);
	if (!ret) {
		v->head = rx->head;
		memcpy(v->pieces, rx->pieces, rx->head.count * sizeof(v->pieces[0]));
		sl_list_append(&s->serves_waiting, &v->link);
	}
	pthread_mutex_unlock(&s->conn->lock);
	s->rx->answers_due = true;
	return ret;
}

static int on_read(struct tcp_stream *s)
{
	int ret;

	s->rx->step = TCP_RX_HEAD;
	ret = queue_serve(s);
	if (ret != -EAGAIN)
		return ret;
	/* The peer may have our answer before the thread that sent it made its note. */
	pthread_mutex_lock(&s->tx_lock);
	tcp_tx_unlock(s);
	ret = queue_serve(s);
	return ret == -EAGAIN ? -EPROTO : ret;
}

static int on_secret(struct tcp_stream *s, const uint8_t *bytes)
{
	const uint64_t secret[2] = { sl_get_le64(bytes), sl_get_le64(bytes + 8) };
	struct tcp_conn *c = s->conn;
	int ret;

	s->rx->step = TCP_RX_HEAD;
	pthread_mutex_lock(&c->lock);
	ret = tcp_secret_take(c, s->rx->head.id, s->rx->head.arg, secret);
	pthread_mutex_unlock(&c->lock);
	if (ret != -EPROTO)
		return ret;
	tcp_conn_fail(c, -EPROTO, "the peer showed wrong secrets of our regions");
	return 0;
}

/* Frames without list and payload. */
static int on_control(struct tcp_stream *s)
{
	const struct tcp_head *h = &s->rx->head;

	switch (h->kind) {
	case TCP_OPEN:
		return s->conn->parts->on_open(s, h);
	case TCP_READY:
		return s->index ? -EPROTO : s->conn->parts->on_ready(s->conn);
	case TCP_REPLY:
		return on_reply(s, h);
	case TCP_CREDIT:
		return on_credit(s->conn, h->arg);
	case TCP_WITHDRAW:
		return on_withdraw(s->conn, h->arg);
	default: /* TCP_BYE */
		tcp_conn_fail(s->conn, 0, "the peer closed the link");
		return 0;
	}
}

/* ---- the steps ---- */

static bool may_come(const struct tcp_stream *s, uint8_t kind)
{
	if (!s->opened)
		return kind == TCP_OPEN;
	if (atomic_load_explicit(&s->conn->state, memory_order_relaxed) >= TCP_CONN_UP)
		return kind != TCP_OPEN && kind != TCP_READY;
	return kind == TCP_READY;
}

static int on_head(struct tcp_stream *s, const uint8_t *bytes)
{
	struct tcp_rx *rx = s->rx;
	int ret = tcp_head_read(&rx->head, bytes);

	if (ret || !may_come(s, rx->head.kind))
		return -EPROTO;
	rx->left = rx->head.kind == TCP_READ ? 0 : rx->head.len;
	switch (rx->head.kind) {
	case TCP_MSG:
	case TCP_READ:
	case TCP_WRITE:
	case TCP_WRITE_IMM:
	case TCP_SECRET:
		rx->step = TCP_RX_LIST;
		return 0;
	case TCP_DATA:
		rx->step = TCP_RX_LIST;
		return begin_data(s);
	default:
		return on_control(s);
	}
}

static int on_list(struct tcp_stream *s, const uint8_t *bytes)
{
	struct tcp_rx *rx = s->rx;
	int ret;

	rx->step = TCP_RX_PAYLOAD;
	if (rx->head.kind == TCP_DATA)
		return begin_data_bytes(rx);
	if (rx->head.kind == TCP_MSG)
		return begin_msg(s, bytes);
	if (rx->head.kind == TCP_SECRET)
		return on_secret(s, bytes);
	ret = tcp_pieces_read(rx->pieces, &rx->head, bytes);
	if (ret)
		return ret;
	return rx->head.kind == TCP_READ ? on_read(s) : begin_write(s);
}

/* ---- where payload goes ---- */

/* n bytes of it came, to their places if they have some. */
static void payload_advance(struct tcp_rx *rx, uint64_t n)
{
	rx->left -= n;
	tcp_iov_advance(rx->iov, &rx->iov_at, rx->n_iov, n);
}

/* The places of a peer's write: their owner here knows from the peer, not from us, when he may look
 * there, and the thread sanitizer does not see that. */
static bool is_write(const struct tcp_rx *rx)
{
	return rx->head.kind == TCP_WRITE || rx->head.kind == TCP_WRITE_IMM;
}

/* The part of the payload that is in the buffer goes to its target. */
static void payload_from_buf(struct tcp_rx *rx)
{
	uint64_t n = rx->end - rx->at, done = 0;

	if (n > rx->left)
		n = rx->left;
	if (is_write(rx))
		TCP_TSAN(AnnotateIgnoreWritesBegin);
	for (unsigned i = rx->iov_at; i < rx->n_iov && done < n; i++) {
		uint64_t part = rx->iov[i].iov_len < n - done ? rx->iov[i].iov_len : n - done;

		memcpy(rx->iov[i].iov_base, rx->buf + rx->at + done, part);
		done += part;
	}
	if (is_write(rx))
		TCP_TSAN(AnnotateIgnoreWritesEnd);
	assert(done == n || !rx->n_iov);
	rx->at += n;
	payload_advance(rx, n);
}

/* ---- the loop ---- */

/* Parse what is in the buffer: 1 when a part of a frame ended, 0 when more bytes are needed. */
static int parse(struct tcp_stream *s)
{
	struct tcp_rx *rx = s->rx;
	enum tcp_rx_step step = rx->step;
	size_t need = step == TCP_RX_HEAD ? TCP_HEAD_LEN : tcp_head_list_len(&rx->head);
	const uint8_t *at = rx->buf + rx->at;
	int ret;

	if (step == TCP_RX_PAYLOAD) {
		if (rx->left && rx->at < rx->end)
			payload_from_buf(rx);
		if (rx->left)
			return 0;
		ret = end_payload(s);
		return ret ? ret : 1;
	}
	if (rx->end - rx->at < need)
		return 0;
	rx->at += need;
	ret = step == TCP_RX_HEAD ? on_head(s, at) : on_list(s, at);
	return ret ? ret : 1;
}

/* Read once, at most max bytes: the bytes, 0 when there are none now, or a negative errno. *all:
 * the kernel had no more. */
static ssize_t read_some(struct tcp_stream *s, uint64_t max, bool *all)
{
	struct tcp_rx *rx = s->rx;
	uint64_t direct = rx->step == TCP_RX_PAYLOAD && rx->n_iov ? rx->left : 0;
	unsigned first = direct ? rx->iov_at : 0, last = direct ? rx->n_iov : 0;
	struct tcp_iov_cut cut;
	size_t room;
	ssize_t n;

	memmove(rx->buf, rx->buf + rx->at, rx->end - rx->at);
	rx->end -= rx->at;
	rx->at = 0;
	room = sizeof(rx->buf) - rx->end;
	rx->iov[last] = (struct iovec){ .iov_base = rx->buf + rx->end, .iov_len = room };
	cut = tcp_iov_cut(rx->iov, first, last + 1, max);
	if (is_write(rx))
		TCP_TSAN(AnnotateIgnoreWritesBegin);
	do {
		n = readv(s->fd, rx->iov + first, (int)(cut.end - first));
	} while (n < 0 && errno == EINTR);
	if (is_write(rx))
		TCP_TSAN(AnnotateIgnoreWritesEnd);
	tcp_iov_mend(rx->iov, &cut);
	if (n == 0)
		return -ECONNRESET;
	if (n < 0)
		return errno == EAGAIN ? 0 : -errno;
	*all = (uint64_t)n < direct + room && (uint64_t)n < max;
	if ((uint64_t)n < direct)
		direct = (uint64_t)n;
	if (direct)
		payload_advance(rx, direct);
	rx->end += (size_t)n - direct;
	return n;
}

static bool is_over(const struct tcp_stream *s)
{
	return s->dead || s->fd < 0 || s->rx_paused ||
	       atomic_load_explicit(&s->conn->ending, memory_order_relaxed) ||
	       atomic_load_explicit(&s->conn->state, memory_order_relaxed) >= TCP_CONN_LEAVING;
}

static void fail(struct tcp_stream *s, int err)
{
	if (err == -EPROTO)
		tcp_conn_fail(s->conn, err, "the peer broke the protocol");
	else if (err == -ENOMEM)
		tcp_conn_fail(s->conn, err, "no memory to serve the peer");
	else if (err == -ECONNRESET)
		tcp_conn_fail(s->conn, err, "the peer hung up");
	else
		tcp_conn_fail(s->conn, -ECONNRESET, strerror(-err));
}

/* Only we know of bytes that were read and not parsed: the poller, on which others sleep, reports
 * bytes in the kernel. */
static void come_again(struct tcp_stream *s)
{
	s->rx->more = true;
	s->conn->unread |= UINT32_C(1) << s->index;
	sl_todo_put(&s->conn->t->todo, &s->conn->todo);
}

/* The answer to the last frame that was read leaves at once, and so do all when one handler takes
 * long: its predecessor's answer waited for it. */
bool tcp_rx_sends_later(struct tcp_conn *c)
{
	struct tcp_stream *s = in_turn;
	struct tcp_rx *rx;
	uint64_t now;

	if (!s || s != c->streams[0])
		return false;
	rx = s->rx;
	if (rx->at == rx->end || rx->is_slow)
		return false;
	now = sl_clock_ns();
	if (!rx->due_ns)
		rx->due_ns = now;
	rx->is_slow = now - rx->due_ns > TOGETHER_NS;
	rx->answers_due |= !rx->is_slow;
	return !rx->is_slow;
}

/* There is something to parse. */
static void begin_turn(struct tcp_stream *s)
{
	s->rx->is_slow = false;
	s->rx->due_ns = 0;
	in_turn = s;
}

static bool take_rx(struct tcp_stream *s)
{
	struct tcp_transport *t = s->conn->t;
	struct tcp_rx *spare = t->spare_rx;

	/* A child of a fork finds it in one place at most. */
	t->spare_rx = NULL;
	atomic_signal_fence(memory_order_seq_cst);
	s->rx = spare ? spare : tcp_pool_take(&t->rxs);
	if (!s->rx)
		tcp_conn_fail(s->conn, -ENOMEM, "no memory to receive");
	return s->rx != NULL;
}

/* Nothing is left that another turn would go on with. */
static bool is_idle(const struct tcp_rx *rx)
{
	return rx->step == TCP_RX_HEAD && rx->at == rx->end && !rx->more;
}

static void give_rx(struct tcp_stream *s)
{
	struct tcp_transport *t = s->conn->t;
	struct tcp_rx *rx = s->rx;

	rx->at = rx->end = 0;
	if (t->spare_rx)
		tcp_pool_give_back(&t->rxs, &t->spare_rx);
	s->rx = NULL;
	atomic_signal_fence(memory_order_seq_cst);
	t->spare_rx = rx;
}

void tcp_rx_drop(struct tcp_stream *s)
{
	struct tcp_rx *rx = s->rx;

	if (!rx)
		return;
	pthread_mutex_lock(&s->conn->lock);
	if (rx->holds)
		tcp_release_pieces(s->conn, rx->pieces, rx->head.count);
	rx->holds = false;
	pthread_mutex_unlock(&s->conn->lock);
	rx->step = TCP_RX_HEAD;
	rx->request = NULL;
	rx->more = false;
	rx->answers_due = false;
	give_rx(s);
}

unsigned tcp_rx_run(struct tcp_stream *s)
{
	const uint64_t max = tcp_turn(s->conn->t);
	unsigned frames = 0;
	uint64_t turn = 0;
	bool all = false;
	int ret = 0;

	if (!s->rx && (is_over(s) || !take_rx(s)))
		return 0;
	s->rx->more = false;
	if (s->rx->at < s->rx->end)
		begin_turn(s);
	while (!is_over(s)) {
		ssize_t n;

		if (frames >= TURN_FRAMES) {
			come_again(s);
			break;
		}
		ret = parse(s);
		if (ret < 0)
			break;
		frames += ret && s->rx->step == TCP_RX_HEAD;
		if (ret)
			continue;
		/* All is parsed: the rest is in the kernel, if there is one. */
		if (all || turn >= max)
			break;
		n = read_some(s, max, &all);
		if (n <= 0) {
			ret = (int)n;
			break;
		}
		if (!turn)
			begin_turn(s);
		turn += (uint64_t)n;
	}
	in_turn = NULL;
	if (ret < 0)
		fail(s, ret);
	/* Answers of this turn go together. */
	if (s->rx->answers_due) {
		s->rx->answers_due = false;
		tcp_tx_flush(s);
	}
	/* Nothing follows soon what opens a stream. */
	if (turn && tcp_conn_state(s->conn) == TCP_CONN_UP)
		s->hot = TCP_HOT_PASSES;
	if (is_idle(s->rx))
		give_rx(s);
	return frames + (turn > 0);
}
