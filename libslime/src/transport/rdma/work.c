/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/list.h"
#include "src/core/lock.h"
#include "src/transport/rdma/conn.h"
#include "src/transport/rdma/key.h"
#include "src/transport/rdma/limits.h"
#include "src/transport/rdma/mr.h"
#include "src/transport/rdma/msg.h"
#include "src/transport/rdma/offer.h"
#include "src/transport/rdma/path.h"
#include "src/transport/rdma/qp.h"
#include "src/transport/rdma/request.h"
#include "src/transport/rdma/share.h"
#include "src/transport/rdma/work.h"

/* How many ops are looked ahead at for regions that must be asked for. */
#define OPS_AHEAD 16

/* An op of more bytes leaves the queue pair of messages to them, where its rail has another. */
#define BESIDE_MESSAGES (UINT64_C(128) << 10)
/* An op of several queue pairs is dealt out in shares of at least so many bytes. */
#define SHARE_MIN  RDMA_SHARE_LEAST
#define SHARE_UNIT UINT64_C(4096)

/* An op's notes. */
#define PARTS(op)  ((op)->priv[0]) /* posted and not completed */
#define STATUS(op) ((op)->priv[1]) /* positive errno that it will end with; 0 */
#define FLAGS(op)  ((op)->priv[2])
#define AHEAD(op)  ((op)->priv[3]) /* piece from which on it is to be looked ahead */

enum {
	SAID = 1,	/* WRITE_IMM: the immediate is posted */
	ELSEWHERE = 2,	/* some of it went to another queue pair than the first */
	ALL_POSTED = 4, /* it is in that list */
};

static bool is_imm(const struct slime_op *op)
{
	return op->work.kind == SLIME_KIND_WRITE_IMM;
}

static bool has_more(struct slime_op *op)
{
	if (STATUS(op))
		return false;
	return sl_work_at(&op->work) || (is_imm(op) && !(FLAGS(op) & SAID));
}

void rdma_work_again(struct slime_op *op, struct rdma_sent *s)
{
	FLAGS(op) |= ELSEWHERE;
	PARTS(op) += !s->last;
	s->last = true;
}

void rdma_work_unsaid(struct slime_op *op)
{
	FLAGS(op) &= ~(uint64_t)SAID;
	FLAGS(op) |= ELSEWHERE;
}

void rdma_work_blame(struct slime_op *op, int status)
{
	if (!STATUS(op))
		STATUS(op) = (uint64_t)-status;
}

/* Under lock. */
static void finish(struct rdma_conn *c, struct slime_op *op, int status)
{
	sl_list_remove(&op->link);
	c->n_writes -= rdma_is_write(op) && FLAGS(op) & ALL_POSTED;
	sl_op_finish(op, status, op->work.total);
}

static void all_posted(struct rdma_conn *c, struct slime_op *op)
{
	sl_list_remove(&op->link);
	sl_list_append(&c->posted, &op->link);
	FLAGS(op) |= ALL_POSTED;
	c->n_writes += rdma_is_write(op);
}

void rdma_work_done(struct rdma_conn *c, struct slime_op *op)
{
	if (--PARTS(op))
		return;
	if (!has_more(op)) {
		finish(c, op, -(int)STATUS(op));
	} else if (FLAGS(op) & ALL_POSTED) {
		/* Its bytes are in their places on all queue pairs: now the immediate. */
		FLAGS(op) &= ~(uint64_t)ALL_POSTED;
		c->n_writes--;
		sl_list_remove(&op->link);
		sl_list_append(c->works.next, &op->link);
	}
}

/* ---- looking ahead ---- */

static void ask_key(struct rdma_conn *c, const struct slime_op *op, size_t piece)
{
	const struct slime_xfer *x = &op->work.xfers[piece];

	if (piece == op->work.piece)
		rdma_key_ask(c, x->remote, sl_work_remote_offset(&op->work, x),
			     x->len - op->work.byte);
	else
		rdma_key_ask(c, x->remote, x->remote_offset, x->len);
}

/* Ask for what the work will need further on; what is wrong with that is found when its turn comes.
 * Each piece is looked at once, however often others come while it waits. */
static void look_ahead(struct rdma_conn *c, struct slime_op *op)
{
	const struct slime_mr *begun = NULL;
	size_t i = AHEAD(op) > op->work.piece ? AHEAD(op) : op->work.piece;

	while (i < op->work.n && c->n_asked < RDMA_OPENS) {
		const struct slime_xfer *x = &op->work.xfers[i];

		if (x->len && x->local != begun) {
			begun = x->local;
			rdma_mr_begin(c->offer->domain, begun->region, RDMA_MR_OURS);
		}
		if (x->len)
			ask_key(c, op, i);
		/* Where no more may be asked for, some of this piece may be left. */
		i += c->n_asked < RDMA_OPENS;
	}
	AHEAD(op) = i;
}

/* The first op waits for a region. */
static void look_ahead_all(struct rdma_conn *c)
{
	struct slime_op *first = SL_CONTAINER_OF(c->works.next, struct slime_op, link);
	unsigned n = 0;
	struct sl_list *e;

	/* The op may have changed since it was read. */
	if (sl_work_at(&first->work))
		ask_key(c, first, first->work.piece);
	sl_list_for_each (e, &c->works) {
		if (++n > OPS_AHEAD)
			return;
		look_ahead(c, SL_CONTAINER_OF(e, struct slime_op, link));
	}
}

void rdma_work_ask_again(struct rdma_conn *c)
{
	unsigned n = 0;
	struct sl_list *e;

	sl_list_for_each (e, &c->works) {
		if (++n > OPS_AHEAD)
			return;
		AHEAD(SL_CONTAINER_OF(e, struct slime_op, link)) = 0;
	}
}

/* ---- an op's requests ---- */

/* The last request of the chain says when this part of the op is done. */
static void close_part(struct rdma_chain *ch, struct slime_op *op)
{
	ch->last->last = true;
	rdma_qp_signal(ch->q, &ch->c->wrs[ch->n - 1], ch->q->head + ch->n - 1);
	PARTS(op)++;
}

static void add_imm(struct rdma_chain *ch, struct slime_op *op)
{
	const struct sl_msg m = {
		.kind = SL_MSG_IMM,
		.w = { op->work.imm, op->work.total },
	};

	rdma_msg_prepare(ch->c, ch->n++, &m, op);
	ch->last = NULL;
	PARTS(op)++;
	FLAGS(op) |= SAID;
}

/*
 * Whether op goes to the first queue pair as a whole, where its immediate follows its bytes by
 * itself; or has nothing but that left.
 */
static bool is_for_first(struct slime_op *op)
{
	return is_imm(op) &&
	       ((op->work.total < SHARE_MIN && !(FLAGS(op) & ELSEWHERE)) || !sl_work_at(&op->work));
}

/*
 * Add what there is room for of op: 0 it has nothing left for now, -EAGAIN no room, -EINPROGRESS a
 * region is not known yet, -EXDEV it is for the first queue pair, -EBUSY for later, or why it
 * fails.
 */
static int add_op(struct rdma_chain *ch, struct slime_op *op)
{
	bool first = ch->q == ch->c->lead;
	uint32_t begin = ch->n;
	int ret;

	/* Over one queue pair everything is in order anyhow. */
	if (ch->c->n_qps > 1 && op->work.flags & SLIME_FENCE && !PARTS(op) &&
	    (ch->c->n_writes || !sl_list_empty(&ch->c->held)))
		return -EBUSY;
	if (!first && is_for_first(op))
		return -EXDEV;
	ret = rdma_request_add_op(ch, op);
	if ((!first || ch->c->n_held) && ch->n > begin)
		FLAGS(op) |= ELSEWHERE;
	if (!ret && is_imm(op) && !(FLAGS(op) & ELSEWHERE && (PARTS(op) || ch->n > begin))) {
		if (ch->n < ch->room)
			add_imm(ch, op);
		else
			ret = -EAGAIN;
	}
	/* An immediate behind them is one. */
	if (ch->n > begin && ch->last)
		close_part(ch, op);
	return ret;
}

/* ---- submitting ---- */

/* An op that cannot go on ends when what is posted of it has. */
static void give_up(struct rdma_conn *c, struct slime_op *op, int status)
{
	rdma_work_blame(op, status);
	all_posted(c, op);
	if (!PARTS(op))
		finish(c, op, -(int)STATUS(op));
}

static bool is_of_op(int ret)
{
	return ret && ret != -EAGAIN && ret != -EINPROGRESS && ret != -EXDEV && ret != -EBUSY;
}

/* Messages wait, and what goes with one, or before it: whether op does. What follows does not. */
static bool hold(struct rdma_conn *c, struct slime_op *op)
{
	if (!c->n_held || !is_for_first(op))
		return false;
	sl_list_remove(&op->link);
	sl_list_append(&c->held, &op->link);
	return true;
}

/* They go first. */
static void let_go(struct rdma_conn *c)
{
	sl_list_splice(&c->held, &c->works);
	sl_list_splice(&c->works, &c->held);
}

/* So many requests leave, in one post. */
__attribute__((always_inline)) static inline int post(struct rdma_conn *c, struct rdma_qp *q,
						      uint32_t n, uint64_t bytes)
{
	int ret;

	q->n_bytes += bytes;
	if (c->n_paths > 1)
		rdma_path_took(q->path, bytes);
	ret = rdma_qp_post(q, c->wrs, n);
	if (ret)
		rdma_path_fail_locked(q->path, ret, "requests cannot be posted");
	return ret;
}

/* The works that one queue pair takes in one post; and why it took no more: 0 they are all posted,
 * or as add_op(). */
static int pump_qp(struct rdma_conn *c, struct rdma_qp *q, uint32_t room, uint64_t share)
{
	struct rdma_chain ch = { .c = c, .q = q, .room = room, .share = share };
	int ret = 0;

	while (!sl_list_empty(&c->works) && (!ret || is_of_op(ret))) {
		struct slime_op *op = SL_CONTAINER_OF(c->works.next, struct slime_op, link);

		if (hold(c, op))
			continue;
		ret = add_op(&ch, op);
		if (!ret)
			all_posted(c, op);
		else if (is_of_op(ret))
			give_up(c, op, ret);
	}
	return ch.n && post(c, q, ch.n, ch.bytes) ? -EBUSY : ret;
}

/* Whether so many more bytes arrive on a before they would on b. */
static bool is_ahead_of(const struct rdma_qp *a, const struct rdma_qp *b, uint64_t more)
{
	return (a->n_bytes + more) * b->path->weight < (b->n_bytes + more) * a->path->weight;
}

/* Of len bytes a rail that may have become faster is given some, which hold them up the least. */
static bool is_to_be_measured(const struct rdma_path *p, uint64_t len)
{
	return len >= 2 * SHARE_MIN && rdma_path_is_due(p);
}

/* Whether the next of len bytes leaves q to messages, and to short ops: its rail has another. */
static bool is_spared(const struct rdma_conn *c, const struct rdma_qp *q, uint64_t len)
{
	return q == c->lead && q->path->n_qps > 1 && len > BESIDE_MESSAGES;
}

/* The first to be done with the next of len bytes, of those with room; from the one on that is
 * next. */
static __attribute__((noinline)) struct rdma_qp *pick_one(struct rdma_conn *c, uint64_t len)
{
	uint64_t more = len < SHARE_MIN ? len : SHARE_MIN;
	struct rdma_qp *best = NULL;

	for (unsigned i = 0; i < c->n_qps; i++) {
		struct rdma_qp *q = c->qps[(c->next_qp + i) % c->n_qps];

		if (!q->path->usable || !rdma_qp_room(q) || is_spared(c, q, len))
			continue;
		if (!best || is_ahead_of(q, best, more))
			best = q;
		if (!is_to_be_measured(q->path, len))
			continue;
		best = q;
		break;
	}
	if (best)
		c->next_qp = best->index + 1;
	return best;
}

/* The same where there may be only one, which may have no room. */
static inline struct rdma_qp *pick(struct rdma_conn *c, uint64_t len)
{
	if (c->n_qps > 1)
		return pick_one(c, len);
	return c->qps[0]->path->usable ? c->qps[0] : NULL;
}

/* The part of the next op that one of several queue pairs takes before another has its turn. */
static uint64_t share_of(const struct rdma_conn *c, const struct rdma_path *p)
{
	const struct slime_op *op = SL_CONTAINER_OF(c->works.next, struct slime_op, link);
	unsigned n_qps = p->n_qps - is_spared(c, p->qps[0], op->work.total);
	uint64_t share;

	if (c->n_qps == 1)
		return UINT64_MAX;
	if (is_to_be_measured(p, op->work.total))
		return SHARE_MIN;
	/* Rounded up: nothing is left over for one more pass. */
	share = (rdma_path_part(p, op->work.total) / n_qps | (SHARE_UNIT - 1)) + 1;
	return share < SHARE_MIN ? SHARE_MIN : share;
}

/* ---- what a rail left ---- */

/* Whether all of a request is under way again. */
static bool repeat(struct rdma_conn *c, struct rdma_sent *s)
{
	struct slime_op *op = s->op;

	while (s->len) {
		struct sl_work w = op->work;
		struct rdma_chain ch = { .c = c, .q = pick(c, s->len), .share = s->len };

		if (!ch.q)
			return false;
		ch.room = rdma_qp_room(ch.q);
		w.piece = s->piece;
		w.byte = s->byte;
		w.block = s->block;
		rdma_request_add_again(&ch, op, &w, s->key);
		if (!ch.n)
			return false;
		close_part(&ch, op);
		s->piece = w.piece;
		s->byte = w.byte;
		s->block = w.block;
		s->len -= (uint32_t)ch.bytes;
		(void)post(c, ch.q, ch.n, ch.bytes);
	}
	return true;
}

/* Whether nothing is left in its record. */
static bool repeat_all(struct rdma_conn *c, struct rdma_qp *q)
{
	while (q->tail != q->head) {
		struct rdma_sent *s = rdma_qp_entry(q, q->tail);

		if (s->op && !STATUS(s->op) && !repeat(c, s))
			return false;
		q->tail++;
		if (s->key)
			rdma_key_put(c, s->key);
		if (s->op)
			rdma_work_done(c, s->op);
	}
	return true;
}

static __attribute__((cold, noinline)) bool move(struct rdma_conn *c)
{
	for (unsigned i = 0; i < c->n_paths && c->n_moving; i++) {
		struct rdma_path *p = &c->paths[i];

		for (unsigned k = 0; k < p->n_qps && p->moving; k++) {
			if (!repeat_all(c, p->qps[k]))
				return false;
		}
		c->n_moving -= p->moving;
		p->moving = false;
	}
	return true;
}

static bool may_work(const struct rdma_conn *c)
{
	return rdma_state(c) == RDMA_CONN_UP &&
	       !atomic_load_explicit(&c->ending, memory_order_relaxed);
}

/* While it may. */
static void pump(struct rdma_conn *c)
{
	int ret = 0;

	if (c->n_moving && !move(c))
		return;
	if (!c->n_held && !sl_list_empty(&c->held))
		let_go(c);
	while (!sl_list_empty(&c->works) && ret != -EINPROGRESS && ret != -EBUSY) {
		const struct slime_op *op = SL_CONTAINER_OF(c->works.next, struct slime_op, link);
		struct rdma_qp *q = ret == -EXDEV ? c->lead : pick(c, op->work.total);
		uint32_t room = q ? rdma_qp_room(q) : 0;

		if (!room)
			return;
		ret = pump_qp(c, q, room, share_of(c, q->path));
	}
	if (ret == -EINPROGRESS)
		look_ahead_all(c);
}

void rdma_work_pump(struct rdma_conn *c)
{
	if (may_work(c))
		pump(c);
}

/* Whether op is one piece for the only queue pair, which has room, with nothing before it. */
static inline bool is_alone(struct rdma_conn *c, const struct slime_op *op)
{
	struct rdma_qp *q = c->qps[0];

	return op->work.n == 1 && op->work.xfers->count <= 1 && !is_imm(op) && c->n_qps == 1 &&
	       q->path->usable && !c->n_moving && sl_list_empty(&c->works) &&
	       sl_list_empty(&c->held) && rdma_qp_room(q);
}

/* The short way of a short op: what pump() would come to, without looking for it. False: it goes
 * the other way. */
static inline bool post_alone(struct rdma_conn *c, struct slime_op *op)
{
	struct rdma_chain ch = { .c = c, .q = c->qps[0] };

	if (!is_alone(c, op) || !rdma_request_alone(&ch, op))
		return false;
	op->work.piece = 1;
	PARTS(op) = 1;
	FLAGS(op) = ALL_POSTED;
	sl_list_append(&c->posted, &op->link);
	c->n_writes += rdma_is_write(op);
	(void)post(c, ch.q, ch.n, ch.bytes);
	return true;
}

int rdma_submit(struct sl_conn *conn, struct slime_op *op)
{
	struct rdma_conn *c = rdma_conn_of(conn);
	int ret = -ENOTCONN;

	sl_lock(&c->lock);
	if (may_work(c)) {
		PARTS(op) = STATUS(op) = FLAGS(op) = 0;
		if (!post_alone(c, op)) {
			AHEAD(op) = 0;
			sl_list_append(&c->works, &op->link);
			pump(c);
		}
		ret = 0;
	}
	sl_unlock(&c->lock);
	return ret;
}

/* ---- the end ---- */

void rdma_work_fail_all(struct rdma_conn *c, int status)
{
	struct sl_list *lists[] = { &c->posted, &c->held, &c->works };

	sl_lock(&c->lock);
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		while (!sl_list_empty(lists[i])) {
			struct slime_op *op =
				SL_CONTAINER_OF(lists[i]->next, struct slime_op, link);

			finish(c, op, STATUS(op) ? -(int)STATUS(op) : status);
		}
	}
	sl_unlock(&c->lock);
}
