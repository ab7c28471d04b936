/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "src/transport/rdma/rdma.h"

/* How many ops are looked ahead at for regions that must be asked for. */
#define OPS_AHEAD 16

/* An op of several queue pairs is dealt out in shares of at least so many bytes. */
#define SHARE_MIN  RDMA_SHARE_LEAST
#define SHARE_UNIT UINT64_C(4096)

/* An op's notes. */
#define PARTS(op)  ((op)->priv[0]) /* posted and not completed */
#define STATUS(op) ((op)->priv[1]) /* positive errno that it will end with; 0 */
#define FLAGS(op)  ((op)->priv[2])

enum {
	SAID = 1,	/* WRITE_IMM: the immediate is posted */
	ELSEWHERE = 2,	/* some of it went to another queue pair than the first */
	ALL_POSTED = 4, /* it is in that list */
};

static bool is_write(const struct slime_op *op)
{
	return op->work.kind != SLIME_KIND_READ;
}

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
	c->n_writes -= is_write(op) && FLAGS(op) & ALL_POSTED;
	sl_op_finish(op, status, op->work.total);
}

static void all_posted(struct rdma_conn *c, struct slime_op *op)
{
	sl_list_remove(&op->link);
	sl_list_append(&c->posted, &op->link);
	FLAGS(op) |= ALL_POSTED;
	c->n_writes += is_write(op);
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

/* ---- one request after the other ---- */

/* A chain that is being built. */
struct chain {
	struct rdma_conn *c;
	struct rdma_qp *q;
	uint32_t n;
	uint32_t room;
	uint64_t bytes;
	uint64_t share;		/* how many there may be */
	struct rdma_sent *last; /* the record of the last request, of one-sided work */
};

/* What a request needs to know of the piece that the work stands at. */
struct place {
	const struct slime_xfer *x;
	struct rdma_mr *mr;
	struct rdma_key *key;
	uint64_t local;	       /* its address here */
	uint64_t remote;       /* and there */
	uint64_t left;	       /* bytes of its block */
	const uint32_t *rkeys; /* by rail of the peer's */
};

/* p is where the work stands, in x; its regions are known. */
static void stand(struct place *p, const struct sl_work *w, const struct slime_xfer *x)
{
	p->x = x;
	p->local = (uintptr_t)x->local->region->base + x->local_offset +
		   w->block * x->local_stride + w->byte;
	p->remote = p->key->addr + sl_work_remote_offset(w, x);
	p->left = x->len - w->byte;
}

/* The owner's word counts, not the descriptor's. */
static int check_key(const struct sl_work *w, const struct place *p)
{
	const struct rdma_key *k = p->key;
	uint32_t access =
		w->kind == SLIME_KIND_READ ? SLIME_ACCESS_REMOTE_READ : SLIME_ACCESS_REMOTE_WRITE;
	uint64_t at = p->remote - k->addr;

	if (!(k->access & access))
		return -EACCES;
	return p->left > k->len || at > k->len - p->left ? -ERANGE : 0;
}

/* The regions of a piece that are not at hand. */
static __attribute__((cold, noinline)) int look_up(struct rdma_conn *c, const struct slime_xfer *x,
						   struct place *p)
{
	int ret = rdma_mr_get(c->offer->domain, x->local->region, RDMA_MR_OURS, &p->mr);
	/* Both are asked for before either is waited for. */
	int of_key = rdma_key_get(c, x->remote, &p->key);

	if (ret && ret != -EINPROGRESS)
		return ret;
	return of_key ? of_key : ret;
}

/* Both regions of the piece: -EINPROGRESS: not yet. */
static inline int resolve(struct rdma_conn *c, const struct sl_work *w, const struct slime_xfer *x,
			  struct place *p)
{
	int ret;

	if (!p->x || p->x->local != x->local || p->x->remote != x->remote) {
		p->mr = rdma_mr_at_hand(c->offer->domain, x->local->region, RDMA_MR_OURS);
		p->key = rdma_key_at_hand(c->keys, x->remote);
		ret = p->mr && p->key ? 0 : look_up(c, x, p);
		if (ret)
			return ret;
	}
	stand(p, w, x);
	ret = check_key(w, p);
	if (ret)
		return ret;
	p->rkeys = rdma_key_at(p->key, p->remote);
	return p->rkeys ? 0 : -EINPROGRESS;
}

/* Ask for what the work will need further on. */
static void look_ahead(struct rdma_conn *c, struct slime_op *op)
{
	const struct slime_xfer *last = NULL;

	for (size_t i = op->work.piece; i < op->work.n && c->n_asked < RDMA_OPENS; i++) {
		const struct slime_xfer *x = &op->work.xfers[i];

		if (!x->len)
			continue;
		/* What is wrong with them is found when their turn comes. */
		if (!last || last->local != x->local)
			rdma_mr_begin(c->offer->domain, x->local->region, RDMA_MR_OURS);
		if (i == op->work.piece)
			rdma_key_ask(c, x->remote, sl_work_remote_offset(&op->work, x),
				     x->len - op->work.byte);
		else
			rdma_key_ask(c, x->remote, x->remote_offset, x->len);
		last = x;
	}
}

static void look_ahead_all(struct rdma_conn *c)
{
	unsigned n = 0;
	struct sl_list *e;

	sl_list_for_each (e, &c->works) {
		if (++n > OPS_AHEAD)
			return;
		look_ahead(c, SL_CONTAINER_OF(e, struct slime_op, link));
	}
}

/* One request stays in one chunk of the peer's region; and share is left. */
static inline uint32_t request_max(const struct rdma_qp *q, const struct place *p, uint64_t share)
{
	uint32_t max_msg = atomic_load_explicit(&q->nic->max_msg, memory_order_relaxed);
	uint32_t max = max_msg < RDMA_PIECE_MAX ? max_msg : RDMA_PIECE_MAX;
	uint64_t in_chunk = rdma_chunk_left(p->key->shift, p->remote);

	if (in_chunk < share)
		share = in_chunk;
	return share < max ? (uint32_t)share : max;
}

/* At most max bytes of the block go into an entry of the list, and the work goes on by as many. */
static uint32_t take_stretch(struct sl_work *w, const struct place *p, const struct rdma_nic *nic,
			     uint32_t max, struct ibv_sge *sge)
{
	uint64_t in_chunk = rdma_chunk_left(p->mr->shift, p->local);
	uint64_t len = p->left < max ? p->left : max;

	/* The bounds keep it within its block, and so within its region. */
	if (len > in_chunk)
		len = in_chunk;
	sge->addr = p->local;
	sge->length = (uint32_t)len;
	sge->lkey = rdma_mr_part(p->mr, nic->index, p->local)->lkey;
	sl_work_pass(w, p->x, len);
	return (uint32_t)len;
}

/* Whether the bytes at that address are the next of the entry, in the same chunk. */
static bool continues(const struct rdma_mr *mr, const struct rdma_nic *nic,
		      const struct ibv_sge *last, uint64_t addr)
{
	return addr == last->addr + last->length &&
	       rdma_mr_part(mr, nic->index, addr)->lkey == last->lkey;
}

/* The piece that the work stands at, if it follows at the peer on len bytes from p on. */
static inline const struct slime_xfer *next_adjacent(struct sl_work *w, const struct place *p,
						     uint32_t len)
{
	const struct slime_xfer *x = sl_work_at(w);

	return x && x->remote == p->x->remote && x->local == p->x->local &&
			       p->key->addr + sl_work_remote_offset(w, x) == p->remote + len
		       ? x
		       : NULL;
}

/*
 * Adjacent pieces go into one request: those that follow each other at the peer, and here as well
 * into one entry of its list, or else into the next as long as there are some. Returns the bytes of
 * the request, whose first len are there, and which goes on with x.
 */
static __attribute__((noinline)) uint32_t extend(const struct rdma_nic *nic, struct sl_work *w,
						 const struct place *p, const struct slime_xfer *x,
						 struct ibv_send_wr *wr, uint32_t len, uint32_t max)
{
	struct place here = *p;

	do {
		struct ibv_sge *last = &wr->sg_list[wr->num_sge - 1];
		struct ibv_sge *next = last + 1;
		bool joins;

		stand(&here, w, x);
		joins = continues(p->mr, nic, last, here.local);
		if ((!joins && wr->num_sge == (int)nic->n_sges) || check_key(w, &here))
			break;
		if (joins) {
			struct ibv_sge sge;

			len += take_stretch(w, &here, nic, max - len, &sge);
			last->length += sge.length;
		} else {
			len += take_stretch(w, &here, nic, max - len, next);
			wr->num_sge++;
		}
	} while (len < max && (x = next_adjacent(w, p, len)));
	return len;
}

/* What a request says beside its number, its list and how it is sent. */
static inline void aim(const struct rdma_qp *q, const struct slime_op *op, const struct place *p,
		       struct ibv_send_wr *wr)
{
	/* Not as a whole, since no device looks at the rest. */
	wr->next = NULL;
	wr->num_sge = 1;
	wr->opcode = is_write(op) ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ;
	wr->send_flags = 0;
	wr->wr.rdma.remote_addr = p->remote;
	wr->wr.rdma.rkey = p->rkeys[q->path->peer_rail];
}

/* Its list is there, of so many bytes. */
static inline void complete_request(struct rdma_qp *q, const struct slime_op *op,
				    const struct place *p, uint32_t number, uint32_t len,
				    struct ibv_send_wr *wr)
{
	if (is_write(op) && len <= q->max_inline && !p->mr->is_device)
		wr->send_flags = IBV_SEND_INLINE;
	rdma_qp_entry(q, number)->len = len;
	p->key->n_inflight++;
	rdma_qp_number(q, wr, number, false);
}

/* The next request of w, which is op's, or a copy that stands elsewhere in it. */
static inline void add_request(struct chain *ch, struct slime_op *op, struct sl_work *w,
			       const struct place *p)
{
	struct rdma_conn *c = ch->c;
	struct rdma_qp *q = ch->q;
	struct ibv_send_wr *wr = &c->wrs[ch->n];
	uint32_t number = q->head + ch->n;
	uint32_t max = request_max(q, p, ch->share - ch->bytes);
	struct rdma_sent *s = rdma_qp_entry(q, number);
	const struct slime_xfer *x;
	uint32_t len;

	*s = (struct rdma_sent){
		.op = op,
		.key = p->key,
		.piece = w->piece,
		.byte = w->byte,
		.block = w->block,
	};
	aim(q, op, p, wr);
	len = take_stretch(w, p, q->nic, max, wr->sg_list);
	if (len < max && (x = next_adjacent(w, p, len)))
		len = extend(q->nic, w, p, x, wr, len, max);
	complete_request(q, op, p, number, len, wr);
	if (ch->n)
		wr[-1].next = wr;
	ch->n++;
	ch->bytes += len;
	ch->last = s;
}

/* The last request of the chain says when this part of the op is done. */
static void close_part(struct chain *ch, struct slime_op *op)
{
	ch->last->last = true;
	rdma_qp_signal(ch->q, &ch->c->wrs[ch->n - 1], ch->q->head + ch->n - 1);
	PARTS(op)++;
}

static void add_imm(struct chain *ch, struct slime_op *op)
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

/* The pieces that there is room for: 0 all of them, or as add_op(). */
static int add_pieces(struct chain *ch, struct slime_op *op)
{
	struct place p = { 0 };
	const struct slime_xfer *x;
	int ret = 0;

	while (!ret && (x = sl_work_at(&op->work))) {
		if (ch->n >= ch->room || ch->bytes >= ch->share ||
		    ch->q->n_bytes + ch->bytes >= RDMA_BYTES)
			ret = -EAGAIN;
		else
			ret = resolve(ch->c, &op->work, x, &p);
		if (!ret)
			add_request(ch, op, &op->work, &p);
	}
	return ret;
}

/*
 * Add what there is room for of op: 0 it has nothing left for now, -EAGAIN no room, -EINPROGRESS a
 * region is not known yet, -EXDEV it is for the first queue pair, -EBUSY for later, or why it
 * fails.
 */
static int add_op(struct chain *ch, struct slime_op *op)
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
	ret = add_pieces(ch, op);
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
static int post(struct rdma_conn *c, struct rdma_qp *q, uint32_t n, uint64_t bytes)
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

/* What one queue pair takes of the works, in one post; why it took no more: 0 they are all posted,
 * or as add_op(). */
static int pump_qp(struct rdma_conn *c, struct rdma_qp *q, uint32_t room, uint64_t share)
{
	struct chain ch = { .c = c, .q = q, .room = room, .share = share };
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

/* The first to be done with the next of len bytes, of those with room; from the one on that is
 * next. */
static __attribute__((noinline)) struct rdma_qp *pick_one(struct rdma_conn *c, uint64_t len)
{
	uint64_t more = len < SHARE_MIN ? len : SHARE_MIN;
	struct rdma_qp *best = NULL;

	for (unsigned i = 0; i < c->n_qps; i++) {
		struct rdma_qp *q = c->qps[(c->next_qp + i) % c->n_qps];

		if (!q->path->usable || !rdma_qp_room(q))
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

/* What one of several queue pairs takes of the op that is next before another has its turn. */
static uint64_t share_of(const struct rdma_conn *c, const struct rdma_path *p)
{
	const struct slime_op *op = SL_CONTAINER_OF(c->works.next, struct slime_op, link);
	uint64_t share;

	if (c->n_qps == 1)
		return UINT64_MAX;
	if (is_to_be_measured(p, op->work.total))
		return SHARE_MIN;
	/* Rounded up: nothing is left over for one more round. */
	share = (rdma_path_part(p, op->work.total) / p->n_qps | (SHARE_UNIT - 1)) + 1;
	return share < SHARE_MIN ? SHARE_MIN : share;
}

/* ---- what a rail left ---- */

/* Whether all of a request is under way again. */
static bool repeat(struct rdma_conn *c, struct rdma_sent *s)
{
	struct slime_op *op = s->op;

	while (s->len) {
		struct sl_work w = op->work;
		struct place p = { .key = s->key };
		struct chain ch = { .c = c, .q = pick(c, s->len), .share = s->len };
		const struct slime_xfer *x;

		if (!ch.q)
			return false;
		ch.room = rdma_qp_room(ch.q);
		w.piece = s->piece;
		w.byte = s->byte;
		w.block = s->block;
		while (ch.n < ch.room && ch.bytes < ch.share && (x = sl_work_at(&w)) &&
		       !rdma_mr_get(c->offer->domain, x->local->region, RDMA_MR_OURS, &p.mr)) {
			stand(&p, &w, x);
			p.rkeys = rdma_key_at(p.key, p.remote);
			add_request(&ch, op, &w, &p);
		}
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

/* Where such a piece is; false: that has to be asked for, or it is more than one request. */
static inline bool place_alone(struct rdma_conn *c, const struct slime_op *op, struct place *p)
{
	const struct slime_xfer *x = op->work.xfers;

	p->mr = rdma_mr_at_hand(c->offer->domain, x->local->region, RDMA_MR_OURS);
	p->key = rdma_key_at_hand(c->keys, x->remote);
	if (!p->mr || !p->key)
		return false;
	p->local = (uintptr_t)x->local->region->base + x->local_offset;
	p->remote = p->key->addr + x->remote_offset;
	p->left = x->len;
	p->rkeys = rdma_key_at(p->key, p->remote);
	return p->rkeys && !check_key(&op->work, p) &&
	       p->left <= request_max(c->qps[0], p, UINT64_MAX) &&
	       p->left <= rdma_chunk_left(p->mr->shift, p->local);
}

/* The short way of a short op: what pump() would come to, without looking for it. False: it goes
 * the other way. */
static inline bool post_alone(struct rdma_conn *c, struct slime_op *op)
{
	struct ibv_send_wr *wr = c->wrs;
	struct rdma_qp *q = c->qps[0];
	struct rdma_sent *s = rdma_qp_entry(q, q->head);
	struct place p;

	if (!is_alone(c, op) || !place_alone(c, op, &p))
		return false;
	*s = (struct rdma_sent){ .op = op, .key = p.key, .last = true };
	aim(q, op, &p, wr);
	*wr->sg_list = (struct ibv_sge){
		.addr = p.local,
		.length = (uint32_t)p.left,
		.lkey = rdma_mr_part(p.mr, q->nic->index, p.local)->lkey,
	};
	complete_request(q, op, &p, q->head, (uint32_t)p.left, wr);
	rdma_qp_signal(q, wr, q->head);
	op->work.piece = 1;
	PARTS(op) = 1;
	FLAGS(op) = ALL_POSTED;
	sl_list_append(&c->posted, &op->link);
	c->n_writes += is_write(op);
	(void)post(c, q, 1, p.left);
	return true;
}

int rdma_submit(struct sl_conn *conn, struct slime_op *op)
{
	struct rdma_conn *c = rdma_conn_of(conn);
	int ret = -ENOTCONN;

	pthread_mutex_lock(&c->lock);
	if (may_work(c)) {
		PARTS(op) = STATUS(op) = FLAGS(op) = 0;
		if (!post_alone(c, op)) {
			sl_list_append(&c->works, &op->link);
			pump(c);
		}
		ret = 0;
	}
	pthread_mutex_unlock(&c->lock);
	return ret;
}

/* ---- the end ---- */

void rdma_work_fail_all(struct rdma_conn *c, int status)
{
	struct sl_list *lists[] = { &c->posted, &c->held, &c->works };

	pthread_mutex_lock(&c->lock);
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		while (!sl_list_empty(lists[i])) {
			struct slime_op *op =
				SL_CONTAINER_OF(lists[i]->next, struct slime_op, link);

			finish(c, op, STATUS(op) ? -(int)STATUS(op) : status);
		}
	}
	pthread_mutex_unlock(&c->lock);
}
