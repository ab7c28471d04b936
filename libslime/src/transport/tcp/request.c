/* SPDX-License-Identifier: Apache-2.0 */
/* Ops become requests, each within what one frame may ask for; answers end them. */
#include <errno.h>

#include "src/transport/tcp/tcp.h"

/* So many bytes may be asked for on the first stream, where messages are, if there is another. A
 * batch of more than the next is spread over streams: below that a second stream gains nothing, as
 * one thread serves them all, in turn. */
#define BESIDE_MESSAGES (UINT64_C(128) << 10)
#define SPREAD_ABOVE	(UINT64_C(4) << 20)
#define SHARE_ALIGN	(UINT64_C(64) << 10)

/* The values that are noted in op->priv. */
enum note {
	NOTE_PENDING, /* requests that did not end */
	NOTE_STATUS,  /* of the first that failed */
	NOTE_SHARE,   /* bytes of a request at most; 0: not begun */
	NOTE_MADE,    /* NOTE_ALL, NOTE_IMM_RIDES */
};

#define NOTE_ALL	  UINT64_C(1) /* all requests are made */
#define NOTE_IMM_RIDES	  UINT64_C(2) /* the immediate goes with the only one */
#define NOTE_STREAM_SHIFT 8	      /* above: the stream that it began on */

static bool is_write(const struct slime_op *op)
{
	return op->work.kind != SLIME_KIND_READ;
}

static bool is_fence(const struct slime_op *op)
{
	return op->work.flags & SLIME_FENCE;
}

static uint64_t share_of(const struct tcp_conn *c, uint64_t total)
{
	unsigned n = c->n_streams > 1 ? c->n_streams - 1 : 1;
	uint64_t share = (total / n + SHARE_ALIGN - 1) & ~(SHARE_ALIGN - 1);

	return total <= SPREAD_ABOVE || share > TCP_REQUEST_MAX ? TCP_REQUEST_MAX : share;
}

static bool has_place(const struct tcp_stream *s)
{
	return s->n_requests < TCP_REQUESTS;
}

/* Whether a batch of so many bytes leaves the first stream to messages. */
static bool spares_messages(const struct tcp_conn *c, uint64_t total)
{
	return c->n_streams > 1 &&
	       (total > BESIDE_MESSAGES || c->streams[0]->requested > BESIDE_MESSAGES - total);
}

/* The stream with the fewest requests, among equals the first, so that a link with little to do has
 * few streams to look at. */
static struct tcp_stream *idlest_stream(struct tcp_conn *c, uint64_t total)
{
	struct tcp_stream *best = NULL;

	for (unsigned i = spares_messages(c, total); i < c->n_streams; i++) {
		struct tcp_stream *s = c->streams[i];

		if (has_place(s) && (!best || s->n_requests < best->n_requests))
			best = s;
	}
	return best;
}

/* For the next request of op; NULL when none has room. */
static struct tcp_stream *pick_stream(struct tcp_conn *c, const struct slime_op *op)
{
	/* Immediates of earlier writes, which have ended for us, may still be on their way over the
	 * first one: the next is taken after them there. */
	if (op->work.kind == SLIME_KIND_WRITE_IMM && op->work.flags & SLIME_FENCE &&
	    op->work.total <= TCP_REQUEST_MAX)
		return has_place(c->streams[0]) ? c->streams[0] : NULL;
	if (op->priv[NOTE_SHARE] && op->work.total <= SPREAD_ABOVE) {
		struct tcp_stream *s = c->streams[op->priv[NOTE_MADE] >> NOTE_STREAM_SHIFT];

		if (has_place(s))
			return s;
	}
	return idlest_stream(c, op->work.total);
}

static struct tcp_request *free_request(struct tcp_stream *s)
{
	if (!s->requests)
		s->requests = tcp_pool_take(&s->conn->t->requests);
	if (!s->requests)
		atomic_store(&s->conn->lacks_memory, true);
	for (uint8_t i = 0; s->requests && i < TCP_REQUESTS; i++) {
		struct tcp_request *r = &s->requests->at[i];

		r->id = i;
		if (!r->op)
			return r;
	}
	return NULL;
}

/* Take the next bytes off the op: as many pieces and bytes as one request holds. */
static void carve(struct tcp_request *r, struct slime_op *op)
{
	uint64_t share = op->priv[NOTE_SHARE];

	r->op = op;
	r->sent = false;
	r->len = 0;
	r->n_pieces = 0;
	while (r->n_pieces < TCP_PIECES_MAX && r->len < share &&
	       sl_work_next(&op->work, share - r->len, &r->pieces[r->n_pieces]))
		r->len += r->pieces[r->n_pieces++].len;
}

static bool all_made(const struct slime_op *op)
{
	struct sl_work rest = op->work;
	struct sl_piece p;

	return !sl_work_next(&rest, 1, &p);
}

/* The immediate rides with the bytes when one request carries them all. */
static uint8_t kind_of(const struct slime_op *op, const struct tcp_request *r)
{
	if (!is_write(op))
		return TCP_READ;
	return op->work.kind == SLIME_KIND_WRITE_IMM && r->len == op->work.total ? TCP_WRITE_IMM
										 : TCP_WRITE;
}

/* The next request of op, the first of the queue; false when there is no room for it. */
static bool make_request(struct tcp_conn *c, struct slime_op *op, uint32_t *streams)
{
	struct tcp_stream *s = pick_stream(c, op);
	struct tcp_request *r = s ? free_request(s) : NULL;

	if (!r)
		return false;
	if (!op->priv[NOTE_SHARE]) {
		op->priv[NOTE_SHARE] = share_of(c, op->work.total);
		c->n_fences -= is_fence(op);
		op->priv[NOTE_MADE] |= (uint64_t)s->index << NOTE_STREAM_SHIFT;
		c->n_writes += is_write(op);
	}
	carve(r, op);
	r->kind = kind_of(op, r);
	if (r->kind == TCP_WRITE_IMM)
		op->priv[NOTE_MADE] |= NOTE_IMM_RIDES;
	op->priv[NOTE_PENDING]++;
	s->n_requests++;
	s->requested += r->len;
	sl_list_append(&s->to_send, &r->link);
	*streams |= UINT32_C(1) << s->index;
	if (all_made(op)) {
		op->priv[NOTE_MADE] |= NOTE_ALL;
		sl_list_remove(&op->link);
	} else if (!c->n_fences) {
		/* The others have their turns. None passes a fence. */
		sl_list_remove(&op->link);
		sl_list_append(&c->ops, &op->link);
	}
	return true;
}

uint32_t tcp_pump(struct tcp_conn *c)
{
	uint32_t streams = 0;

	while (!sl_list_empty(&c->ops)) {
		struct slime_op *op = SL_CONTAINER_OF(c->ops.next, struct slime_op, link);

		/* Those behind a fence wait with it. */
		if (is_fence(op) && !op->priv[NOTE_SHARE] && c->n_writes)
			break;
		if (!make_request(c, op, &streams))
			break;
	}
	return streams;
}

/* Without memory for them they would wait for ever. */
static void send_requests(struct tcp_conn *c, uint32_t streams)
{
	if (c->lacks_memory)
		tcp_conn_fail(c, -ENOMEM, "no memory for requests");
	tcp_tx_flush_mask(c, streams);
}

int tcp_submit(struct sl_conn *conn, struct slime_op *op)
{
	struct tcp_conn *c = tcp_conn_of(conn);
	uint32_t streams;

	op->priv[NOTE_PENDING] = 0;
	op->priv[NOTE_STATUS] = 0;
	op->priv[NOTE_SHARE] = 0;
	op->priv[NOTE_MADE] = 0;
	pthread_mutex_lock(&c->lock);
	if (atomic_load_explicit(&c->state, memory_order_relaxed) != TCP_CONN_UP) {
		pthread_mutex_unlock(&c->lock);
		return -ENOTCONN;
	}
	sl_list_append(&c->ops, &op->link);
	c->n_fences += is_fence(op);
	streams = tcp_pump(c);
	pthread_mutex_unlock(&c->lock);
	tcp_conn_touch(c);
	send_requests(c, streams);
	return 0;
}

static struct tcp_request *find_sent(struct tcp_stream *s, uint32_t id)
{
	struct tcp_request *r;

	pthread_mutex_lock(&s->conn->lock);
	r = s->requests ? &s->requests->at[id] : NULL;
	if (r && (!r->op || !r->sent))
		r = NULL;
	pthread_mutex_unlock(&s->conn->lock);
	return r;
}

struct tcp_request *tcp_request_find(struct tcp_stream *s, uint32_t id)
{
	struct tcp_request *r = find_sent(s, id);

	if (r)
		return r;
	/* Its answer may be faster than the thread that sent it: let that one make its note. */
	pthread_mutex_lock(&s->tx_lock);
	tcp_tx_unlock(s);
	return find_sent(s, id);
}

/* A write in several requests: the immediate follows when all of them are acknowledged. */
static bool imm_is_due(const struct slime_op *op)
{
	return op->work.kind == SLIME_KIND_WRITE_IMM && !(op->priv[NOTE_MADE] & NOTE_IMM_RIDES);
}

static bool queue_imm(struct tcp_conn *c, const struct slime_op *op)
{
	struct sl_msg m = { .kind = SL_MSG_IMM, .w = { op->work.imm, op->work.total } };

	return tcp_conn_queue(c, &m);
}

/* Under conn->lock: whether op is through, and then the streams it leaves something on. */
static bool account(struct tcp_conn *c, struct slime_op *op, int status, uint32_t *streams)
{
	if (status && !op->priv[NOTE_STATUS])
		op->priv[NOTE_STATUS] = (uint64_t)-status;
	op->priv[NOTE_PENDING]--;
	if (op->priv[NOTE_STATUS] && !(op->priv[NOTE_MADE] & NOTE_ALL)) {
		/* Requests that were not sent yet never will be. */
		op->priv[NOTE_MADE] |= NOTE_ALL;
		sl_list_remove(&op->link);
	}
	if (op->priv[NOTE_PENDING] || !(op->priv[NOTE_MADE] & NOTE_ALL))
		return false;
	c->n_writes -= is_write(op);
	if (!op->priv[NOTE_STATUS] && imm_is_due(op)) {
		if (!queue_imm(c, op))
			op->priv[NOTE_STATUS] = ENOBUFS;
		*streams |= 1;
	}
	return true;
}

static void release_request(struct tcp_stream *s, struct tcp_request *r)
{
	sl_list_remove(&r->link);
	r->op = NULL;
	s->n_requests--;
	s->requested -= r->len;
	if (s->n_requests)
		return;
	tcp_pool_give_back(&s->conn->t->requests, &s->requests);
}

static void finish(struct slime_op *op)
{
	sl_op_finish(op, -(int)op->priv[NOTE_STATUS], op->work.total);
}

void tcp_request_done(struct tcp_stream *s, struct tcp_request *r, int status)
{
	struct tcp_conn *c = s->conn;
	struct slime_op *op = r->op;
	uint32_t streams = 0;
	bool through;

	pthread_mutex_lock(&c->lock);
	release_request(s, r);
	through = account(c, op, status, &streams);
	streams |= tcp_pump(c);
	pthread_mutex_unlock(&c->lock);
	/* Others behind it are on their way before its owner hears of it. */
	send_requests(c, streams);
	if (!through)
		return;
	if (op->priv[NOTE_STATUS] == ENOBUFS)
		tcp_conn_fail_queue(c);
	finish(op);
}

/* An op of which this was the last request that is left; NULL when there is none. */
static struct slime_op *fail_requests(struct tcp_conn *c, int status)
{
	uint32_t streams = 0;

	for (unsigned i = 0; i < TCP_STREAMS_MAX; i++) {
		struct tcp_stream *s = c->streams[i];

		for (unsigned j = 0; s && s->requests && j < TCP_REQUESTS; j++) {
			struct slime_op *op = s->requests->at[j].op;

			if (!op)
				continue;
			release_request(s, &s->requests->at[j]);
			if (account(c, op, status, &streams))
				return op;
		}
	}
	return NULL;
}

/* One that has no request; NULL when there is none. */
static struct slime_op *fail_queued(struct tcp_conn *c, int status)
{
	struct sl_list *e = sl_list_pop(&c->ops);
	struct slime_op *op = e ? SL_CONTAINER_OF(e, struct slime_op, link) : NULL;

	if (op)
		op->priv[NOTE_STATUS] = (uint64_t)-status;
	return op;
}

void tcp_fail_ops(struct tcp_conn *c, int status)
{
	struct slime_op *op;

	do {
		pthread_mutex_lock(&c->lock);
		op = fail_requests(c, status);
		if (!op)
			op = fail_queued(c, status);
		pthread_mutex_unlock(&c->lock);
		if (op)
			finish(op);
	} while (op);
}
