/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Send and receive: matching, and which thread may use a slot. Matching is under one lock a link;
 * bytes are copied, messages posted and ops finished outside of it. A match belongs to the thread
 * that made it, until the answer is posted.
 */
#include "src/endpoint/recv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "src/endpoint/endpoint.h"
#include "src/endpoint/endpoint_account.h"
#include "src/endpoint/xfer.h"
#include <slime/msg.h>

_Static_assert(SLIME_SEND_EAGER == SL_SLOT_SMALL, "an eager payload fills a slot");
_Static_assert(SL_WINDOW_SEND == 64, "the free slots are the bits of one word");
_Static_assert(SLIME_MR_DESC_MAX <= SL_SLOT_SMALL, "a descriptor fits a slot");

/* A message of the peer in the slot of the same number. */
struct arrival {
	struct sl_recv *recv;
	/* The peer may not use the slot. [token] sets this, and the thread that ends the match
	 * clears it. */
	_Atomic bool taken;
	uint16_t slot;
	bool by_desc;
	struct sl_list link; /* in unexpected */
	uint64_t tag;
	uint64_t len;
	const uint8_t *payload;
	/* By descriptor: where the bytes are, and the transfer that fetches them. */
	struct slime_remote_mr source;
	uint64_t source_offset;
	struct slime_xfer xfer;
	struct slime_op pull;
	struct slime_op *op; /* the receive */
};

struct sl_recv {
	struct slime_endpoint *ep;
	_Atomic uint64_t free_slots; /* at the peer */
	pthread_mutex_t lock;	     /* of what follows */
	bool down;
	struct slime_op *sends[SL_WINDOW_SEND];	  /* by slot: waiting for the answer */
	struct sl_list posted;			  /* receives that wait, in the order posted */
	struct sl_list unexpected;		  /* arrivals that wait, in the order sent */
	struct arrival *arrivals[SL_WINDOW_SEND]; /* by slot: made at first use; [token] */
};

/* The range that both calls take: len bytes at offset of mr. */
struct span {
	struct slime_mr *mr;
	uint64_t offset;
	uint64_t len;
};

/* Where a pending op of ours keeps its facts, in priv; the tag of a receive is in its tag. */
enum note {
	NOTE_MR,
	NOTE_OFFSET,
	NOTE_LEN,
	NOTE_MASK,
};

static struct slime_mr *noted_mr(const struct slime_op *op)
{
	return (struct slime_mr *)(uintptr_t)op->priv[NOTE_MR];
}

static void release_span(struct slime_op *op)
{
	struct slime_mr *mr = noted_mr(op);

	if (mr)
		atomic_fetch_sub_explicit(&mr->region->n_ops, 1, memory_order_release);
}

/* The op's from here on: -EINVAL when the region is being destroyed. */
static int note_span(struct slime_op *op, const struct span *s)
{
	op->priv[NOTE_MR] = (uintptr_t)s->mr;
	op->priv[NOTE_OFFSET] = s->offset;
	op->priv[NOTE_LEN] = s->len;
	if (!s->mr)
		return 0;
	/* Count ourselves first, then check: a withdrawal does both the other way round. */
	atomic_fetch_add(&s->mr->region->n_ops, 1);
	if (atomic_load(&s->mr->region->state) == SL_REGION_LIVE)
		return 0;
	release_span(op);
	return -EINVAL;
}

static void finish(struct slime_op *op, int status, uint64_t bytes)
{
	release_span(op);
	sl_op_finish(op, status, bytes);
}

static int check_span(const struct slime_endpoint *ep, const struct span *s)
{
	if (!s->mr)
		return s->len || s->offset ? -EINVAL : 0;
	if (s->mr->ctx != ep->ctx)
		return -EINVAL;
	if (s->mr->region->kind == SL_REGION_DEVICE)
		return -EOPNOTSUPP;
	if (s->offset > s->mr->region->len || s->len > s->mr->region->len - s->offset)
		return -ERANGE;
	return 0;
}

/* ---- sending ---- */

static bool take_slot(struct sl_recv *r, unsigned *slot)
{
	uint64_t seen = atomic_load_explicit(&r->free_slots, memory_order_relaxed);

	do {
		if (!seen)
			return false;
		*slot = (unsigned)__builtin_ctzll(seen);
	} while (!atomic_compare_exchange_weak_explicit(&r->free_slots, &seen, seen & (seen - 1),
							memory_order_acquire,
							memory_order_relaxed));
	return true;
}

static void give_slot(struct sl_recv *r, unsigned slot)
{
	atomic_fetch_or_explicit(&r->free_slots, UINT64_C(1) << slot, memory_order_release);
}

/* Write what goes into the slot; its length, or a negative errno. */
static int fill_slot(uint8_t *to, const struct span *s)
{
	if (s->len > SLIME_SEND_EAGER)
		return slime_mr_export(s->mr, to, SL_SLOT_SMALL);
	if (s->len)
		memcpy(to, s->mr->region->base + s->offset, s->len);
	return (int)s->len;
}

/* The answer may come from now on. False when the link went down meanwhile. */
static bool publish_send(struct sl_recv *r, unsigned slot, struct slime_op *op)
{
	bool down;

	pthread_mutex_lock(&r->lock);
	down = r->down;
	if (!down)
		r->sends[slot] = op;
	pthread_mutex_unlock(&r->lock);
	return !down;
}

static int send_in_slot(struct sl_recv *r, struct sl_conn *conn, unsigned slot,
			const struct span *s, uint64_t tag, struct slime_op *op)
{
	uint8_t *to = conn->ops->slot(conn, SL_AREA_SEND, slot);
	struct sl_msg m = { .kind = SL_MSG_SEND, .slot = (uint16_t)slot };
	int len;

	if (!to)
		return -ENOTCONN;
	len = fill_slot(to, s);
	if (len < 0)
		return len;

	m.flags = s->len > SLIME_SEND_EAGER ? SL_SEND_BY_DESC : 0;
	m.len = (uint32_t)len;
	m.w[0] = tag;
	m.w[1] = s->len;
	m.w[2] = s->offset;
	if (!publish_send(r, slot, op))
		return -ENOTCONN;
	sl_conn_post(conn, &m);
	return 0;
}

static int send_begun(struct sl_recv *r, struct sl_conn *conn, const struct span *s, uint64_t tag,
		      struct slime_op *op)
{
	unsigned slot;
	int ret = note_span(op, s);

	if (ret)
		return ret;
	ret = -EAGAIN;
	if (take_slot(r, &slot)) {
		ret = send_in_slot(r, conn, slot, s, tag, op);
		if (ret)
			give_slot(r, slot);
	}
	if (ret)
		release_span(op);
	return ret;
}

int slime_send(struct slime_endpoint *ep, struct slime_mr *mr, uint64_t offset, uint64_t len,
	       uint64_t tag, struct slime_op *op)
{
	struct span s = { mr, offset, len };
	struct sl_conn *conn;
	int ret = sl_context_check(ep->ctx);

	if (!ret)
		ret = check_span(ep, &s);
	if (ret)
		return ret;
	if (len > SLIME_SEND_EAGER && !(mr->region->access & SLIME_ACCESS_REMOTE_READ))
		return -EACCES;

	ret = sl_endpoint_enter(ep, &conn);
	if (ret)
		return ret;
	ret = sl_endpoint_op_begin(ep, op, SLIME_KIND_SEND);
	if (!ret) {
		ret = send_begun(ep->recv, conn, &s, tag, op);
		if (ret)
			sl_endpoint_op_abort(ep, op);
	}
	sl_endpoint_leave(ep);
	return ret;
}

static const int send_status[SL_SEND_RESULTS] = {
	[SL_SEND_RECEIVED] = 0,
	[SL_SEND_TOO_LONG] = -EMSGSIZE,
	[SL_SEND_UNREACHABLE] = -EOPNOTSUPP,
	[SL_SEND_FAILED] = -EREMOTEIO,
};

static bool on_send_done(struct sl_recv *r, const struct sl_msg *m)
{
	struct slime_op *op;
	int status;

	if (m->slot >= SL_WINDOW_SEND || m->w[0] >= SL_SEND_RESULTS)
		return false;
	pthread_mutex_lock(&r->lock);
	op = r->sends[m->slot];
	r->sends[m->slot] = NULL;
	pthread_mutex_unlock(&r->lock);
	if (!op)
		return false;

	give_slot(r, m->slot);
	status = send_status[m->w[0]];
	finish(op, status, status ? 0 : op->priv[NOTE_LEN]);
	return true;
}

/* ---- receiving ---- */

static enum sl_send_result result_of(int status)
{
	switch (status) {
	case 0:
		return SL_SEND_RECEIVED;
	case -EMSGSIZE:
		return SL_SEND_TOO_LONG;
	case -EOPNOTSUPP:
		return SL_SEND_UNREACHABLE;
	default:
		return SL_SEND_FAILED;
	}
}

/*
 * A matched message came to its end: answer the send and finish the receive. The slot is free
 * before the answer says so, and the op, which keeps the link alive, is finished last.
 */
static void end_match(struct arrival *a, struct slime_op *op, int status)
{
	struct slime_endpoint *ep = a->recv->ep;
	struct sl_msg m = { .kind = SL_MSG_SEND_DONE, .slot = a->slot };
	uint64_t len = status ? 0 : a->len;
	struct sl_conn *conn;

	op->tag = a->tag;
	m.w[0] = result_of(status);
	atomic_store_explicit(&a->taken, false, memory_order_release);
	if (sl_endpoint_enter(ep, &conn) == 0) {
		sl_conn_post(conn, &m);
		sl_endpoint_leave(ep);
	}
	finish(op, status, len);
}

/*
 * The end of a receive whose bytes could not be fetched. If the link has ended, the receive ends as
 * closed here, or as died. An access that the peer's descriptor does not grant is refused by the
 * peer.
 */
static int pull_status(const struct slime_endpoint *ep, int status)
{
	switch (status) {
	case -ENOTCONN:
	case -EPROTO:
	case -ETIMEDOUT:
		return atomic_load(&ep->shut) ? -ECANCELED : -ECONNRESET;
	case -EACCES:
		return -EREMOTEIO;
	default:
		return status;
	}
}

static void on_pulled(void *arg, struct slime_op *pull)
{
	struct arrival *a = arg;

	end_match(a, a->op, pull_status(a->recv->ep, pull->status));
}

static void pull(struct arrival *a, struct slime_op *op)
{
	int ret;

	a->op = op;
	a->xfer = (struct slime_xfer){
		.local = noted_mr(op),
		.local_offset = op->priv[NOTE_OFFSET],
		.remote = &a->source,
		.remote_offset = a->source_offset,
		.len = a->len,
	};
	ret = sl_xfer_submit(a->recv->ep, SLIME_KIND_READ, &a->xfer, 1, &a->pull);
	if (ret)
		end_match(a, op, pull_status(a->recv->ep, ret));
}

static void deliver(struct arrival *a, struct slime_op *op)
{
	if (a->len > op->priv[NOTE_LEN]) {
		end_match(a, op, -EMSGSIZE);
	} else if (a->by_desc) {
		pull(a, op);
	} else {
		if (a->len)
			memcpy(noted_mr(op)->region->base + op->priv[NOTE_OFFSET], a->payload,
			       a->len);
		end_match(a, op, 0);
	}
}

static bool matches(const struct slime_op *op, const struct arrival *a)
{
	return ((op->tag ^ a->tag) & op->priv[NOTE_MASK]) == 0;
}

/* The first receive that waits for a, taken out; else a waits. [lock] */
static struct slime_op *match_posted(struct sl_recv *r, struct arrival *a)
{
	struct sl_list *e;

	sl_list_for_each (e, &r->posted) {
		struct slime_op *op = SL_CONTAINER_OF(e, struct slime_op, link);

		if (matches(op, a)) {
			sl_list_remove(e);
			return op;
		}
	}
	sl_list_append(&r->unexpected, &a->link);
	return NULL;
}

/* The first arrival that op waits for, taken out; else op waits. [lock] */
static struct arrival *match_unexpected(struct sl_recv *r, struct slime_op *op)
{
	struct sl_list *e;

	sl_list_for_each (e, &r->unexpected) {
		struct arrival *a = SL_CONTAINER_OF(e, struct arrival, link);

		if (matches(op, a)) {
			sl_list_remove(e);
			return a;
		}
	}
	sl_list_append(&r->posted, &op->link);
	return NULL;
}

/* The descriptor in the slot, copied before it is read: the peer can still write there. */
static bool read_source(struct arrival *a, const struct sl_msg *m, const uint8_t *payload)
{
	uint8_t desc[SLIME_MR_DESC_MAX];

	if (m->len == 0 || m->len > sizeof(desc))
		return false;
	memcpy(desc, payload, m->len);
	if (slime_remote_mr_import(desc, m->len, &a->source))
		return false;
	a->source_offset = m->w[2];
	return a->source.owner == a->recv->ep->peer.context && a->len > SLIME_SEND_EAGER &&
	       a->source_offset <= a->source.len && a->len <= a->source.len - a->source_offset;
}

static bool read_arrival(struct arrival *a, const struct sl_msg *m, const uint8_t *payload)
{
	a->tag = m->w[0];
	a->len = m->w[1];
	a->by_desc = m->flags == SL_SEND_BY_DESC;
	a->payload = payload;
	if (a->by_desc)
		return read_source(a, m, payload);
	return m->flags == 0 && a->len == m->len;
}

/* That of the slot; NULL without memory. */
static struct arrival *arrival_of(struct sl_recv *r, uint16_t slot)
{
	struct slime_context *ctx = r->ep->ctx;
	struct arrival *a = r->arrivals[slot];

	if (a)
		return a;
	a = calloc(1, sizeof(*a));
	if (!a)
		return NULL;
	a->recv = r;
	a->slot = slot;
	sl_list_init(&a->link);
	sl_op_init(&a->pull, ctx, &ctx->completions, on_pulled, a);
	r->arrivals[slot] = a;
	return a;
}

static void refuse_send(struct sl_recv *r, uint16_t slot)
{
	struct sl_msg m = { .kind = SL_MSG_SEND_DONE, .slot = slot, .w[0] = SL_SEND_FAILED };
	struct sl_conn *conn;

	sl_error("recv", "%s: no memory for a message: it is refused", r->ep->name);
	if (sl_endpoint_enter(r->ep, &conn))
		return;
	sl_conn_post(conn, &m);
	sl_endpoint_leave(r->ep);
}

static bool on_send(struct sl_recv *r, const struct sl_msg *m, const uint8_t *payload)
{
	struct arrival *a;
	struct slime_op *op;

	if (m->slot >= SL_WINDOW_SEND)
		return false;
	a = arrival_of(r, m->slot);
	if (!a) {
		refuse_send(r, m->slot);
		return true;
	}
	/* A slot is written again only after its answer: until then no other thread has it. */
	if (atomic_load_explicit(&a->taken, memory_order_acquire) || !read_arrival(a, m, payload))
		return false;

	atomic_store_explicit(&a->taken, true, memory_order_relaxed);
	pthread_mutex_lock(&r->lock);
	op = match_posted(r, a);
	pthread_mutex_unlock(&r->lock);
	if (op)
		deliver(a, op);
	return true;
}

/* The op has begun; from the moment it is among the posted ones it may be finished by others. */
static int recv_begun(struct sl_recv *r, const struct span *s, uint64_t tag, uint64_t mask,
		      struct slime_op *op)
{
	struct arrival *a = NULL;
	bool down;
	int ret = note_span(op, s);

	if (ret)
		return ret;
	op->tag = tag;
	op->priv[NOTE_MASK] = mask;
	pthread_mutex_lock(&r->lock);
	down = r->down;
	if (!down)
		a = match_unexpected(r, op);
	pthread_mutex_unlock(&r->lock);
	if (down) {
		release_span(op);
		return -ENOTCONN;
	}
	if (a)
		deliver(a, op);
	return 0;
}

int slime_recv(struct slime_endpoint *ep, struct slime_mr *mr, uint64_t offset, uint64_t len,
	       uint64_t tag, uint64_t mask, struct slime_op *op)
{
	struct span s = { mr, offset, len };
	struct sl_conn *conn;
	int ret = sl_context_check(ep->ctx);

	if (!ret)
		ret = check_span(ep, &s);
	if (!ret)
		ret = sl_endpoint_enter(ep, &conn);
	if (ret)
		return ret;
	ret = sl_endpoint_op_begin(ep, op, SLIME_KIND_RECV);
	if (!ret) {
		ret = recv_begun(ep->recv, &s, tag, mask, op);
		if (ret)
			sl_endpoint_op_abort(ep, op);
	}
	sl_endpoint_leave(ep);
	return ret;
}

int slime_recv_cancel(struct slime_endpoint *ep, struct slime_op *op)
{
	struct sl_recv *r = ep->recv;
	bool found = false;
	struct sl_list *e;
	int ret = sl_context_check(ep->ctx);

	if (ret)
		return ret;
	pthread_mutex_lock(&r->lock);
	sl_list_for_each (e, &r->posted) {
		if (e == &op->link) {
			sl_list_remove(e);
			found = true;
			break;
		}
	}
	pthread_mutex_unlock(&r->lock);
	if (!found)
		return -ENOENT;
	finish(op, -ECANCELED, 0);
	return 0;
}

/* ---- the layer ---- */

static int recv_create(struct slime_endpoint *ep, void **state)
{
	struct sl_recv *r = calloc(1, sizeof(*r));

	if (!r)
		return -ENOMEM;
	r->ep = ep;
	atomic_init(&r->free_slots, UINT64_MAX);
	pthread_mutex_init(&r->lock, NULL);
	sl_list_init(&r->posted);
	sl_list_init(&r->unexpected);
	*state = r;
	return 0;
}

static void recv_forget(void *state)
{
	struct sl_recv *r = state;

	for (unsigned i = 0; r && i < SL_WINDOW_SEND; i++)
		free(r->arrivals[i]);
	free(r);
}

static void recv_destroy(void *state)
{
	struct sl_recv *r = state;

	if (!r)
		return;
	pthread_mutex_destroy(&r->lock);
	recv_forget(r);
}

static bool recv_msg(void *state, const struct sl_msg *m, const uint8_t *payload)
{
	struct sl_recv *r = state;

	return m->kind == SL_MSG_SEND ? on_send(r, m, payload) : on_send_done(r, m);
}

/* One more op that nothing will answer, taken out. */
static struct slime_op *pop_pending(struct sl_recv *r)
{
	struct slime_op *op = NULL;
	struct sl_list *e;

	pthread_mutex_lock(&r->lock);
	r->down = true;
	e = sl_list_pop(&r->posted);
	if (e)
		op = SL_CONTAINER_OF(e, struct slime_op, link);
	for (unsigned i = 0; !op && i < SL_WINDOW_SEND; i++) {
		op = r->sends[i];
		r->sends[i] = NULL;
	}
	pthread_mutex_unlock(&r->lock);
	return op;
}

/* Matched messages end by themselves: their transfer has failed, too. */
static void recv_down(void *state, int cause)
{
	struct slime_op *op;

	while ((op = pop_pending(state)))
		finish(op, cause, 0);
}

const struct sl_layer sl_recv_layer = {
	.create = recv_create,
	.destroy = recv_destroy,
	.forget = recv_forget,
	.msg = recv_msg,
	.down = recv_down,
};
