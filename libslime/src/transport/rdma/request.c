/* SPDX-License-Identifier: Apache-2.0 */
#include "src/transport/rdma/conn.h"
#include "src/transport/rdma/key.h"
#include "src/transport/rdma/limits.h"
#include "src/transport/rdma/mr.h"
#include "src/transport/rdma/nic.h"
#include "src/transport/rdma/offer.h"
#include "src/transport/rdma/qp.h"
#include "src/transport/rdma/request.h"

#include <assert.h>
#include <errno.h>

/* ---- the piece ---- */

/* The part of the piece at which the work stands that a request needs. */
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

/* The access that the peer's region has to grant, and for which ours has to be ready: one bit says
 * both. It is read once, since after an acquire the compiler reads the op again. */
static inline uint32_t access_of(const struct sl_work *w)
{
	return w->kind == SLIME_KIND_READ ? SLIME_ACCESS_REMOTE_READ : SLIME_ACCESS_REMOTE_WRITE;
}

/* The owner's word counts, not the descriptor's. */
static int check_key(uint32_t access, const struct place *p)
{
	const struct rdma_key *k = p->key;
	uint64_t at = p->remote - k->addr;

	if (!(k->access & access))
		return -EACCES;
	return p->left > k->len || at > k->len - p->left ? -ERANGE : 0;
}

/* The regions of a piece that are not at hand. */
static __attribute__((cold, noinline)) int look_up(struct rdma_conn *c, uint32_t access,
						   const struct slime_xfer *x, struct place *p)
{
	int ret = rdma_mr_get(c->offer->domain, x->local->region, RDMA_MR_OURS, access, &p->mr);
	/* Both are asked for before either is waited for. */
	int of_key = rdma_key_get(c, x->remote, &p->key);

	if (ret && ret != -EINPROGRESS)
		return ret;
	return of_key ? of_key : ret;
}

/* Both regions of the piece: -EINPROGRESS: not yet. */
static inline int resolve(struct rdma_conn *c, const struct sl_work *w, uint32_t access,
			  const struct slime_xfer *x, struct place *p)
{
	int ret;

	if (!p->x || p->x->local != x->local || p->x->remote != x->remote) {
		p->mr = rdma_mr_at_hand(c->offer->domain, x->local->region, RDMA_MR_OURS, access);
		p->key = rdma_key_at_hand(c->keys, x->remote);
		ret = p->mr && p->key ? 0 : look_up(c, access, x, p);
		if (ret)
			return ret;
	}
	stand(p, w, x);
	ret = check_key(access, p);
	if (ret)
		return ret;
	p->rkeys = rdma_key_at(p->key, p->remote);
	return p->rkeys ? 0 : -EINPROGRESS;
}

/* ---- the request ---- */

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
		if ((!joins && wr->num_sge == (int)nic->n_sges) || check_key(access_of(w), &here))
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

/* The contents of a request beside its number, its list and how it is sent. */
static inline void aim(const struct rdma_qp *q, const struct slime_op *op, const struct place *p,
		       struct ibv_send_wr *wr)
{
	/* Not as a whole, since no device looks at the rest. */
	wr->next = NULL;
	wr->num_sge = 1;
	wr->opcode = rdma_is_write(op) ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ;
	wr->send_flags = 0;
	wr->wr.rdma.remote_addr = p->remote;
	wr->wr.rdma.rkey = p->rkeys[q->path->peer_rail];
}

/* Its list is there, of so many bytes. */
static inline void complete_request(struct rdma_qp *q, const struct slime_op *op,
				    const struct place *p, uint32_t number, uint32_t len,
				    struct ibv_send_wr *wr)
{
	if (rdma_is_write(op) && len <= q->max_inline && !p->mr->is_device)
		wr->send_flags = IBV_SEND_INLINE;
	rdma_qp_entry(q, number)->len = len;
	p->key->n_inflight++;
	rdma_qp_number(q, wr, number, false);
}

static inline void add(struct rdma_chain *ch, struct slime_op *op, struct sl_work *w,
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

int rdma_request_add_op(struct rdma_chain *ch, struct slime_op *op)
{
	uint32_t access = access_of(&op->work);
	struct place p = { 0 };
	const struct slime_xfer *x;
	int ret = 0;

	while (!ret && (x = sl_work_at(&op->work))) {
		if (ch->n >= ch->room || ch->bytes >= ch->share ||
		    ch->q->n_bytes + ch->bytes >= RDMA_BYTES)
			ret = -EAGAIN;
		else
			ret = resolve(ch->c, &op->work, access, x, &p);
		if (!ret)
			add(ch, op, &op->work, &p);
	}
	return ret;
}

void rdma_request_add_again(struct rdma_chain *ch, struct slime_op *op, struct sl_work *w,
			    struct rdma_key *key)
{
	struct place p = { .key = key };
	const struct slime_xfer *x;

	while (ch->n < ch->room && ch->bytes < ch->share && (x = sl_work_at(w)) &&
	       !rdma_mr_get(ch->c->offer->domain, x->local->region, RDMA_MR_OURS, access_of(w),
			    &p.mr)) {
		stand(&p, w, x);
		p.rkeys = rdma_key_at(key, p.remote);
		assert(p.rkeys);
		add(ch, op, w, &p);
	}
}

/* ---- one that is all of an op ---- */

/* Where such a piece is; false: that has to be asked for, or it is more than one request. */
static inline bool place_alone(const struct rdma_chain *ch, const struct slime_op *op,
			       struct place *p)
{
	const struct slime_xfer *x = op->work.xfers;
	uint32_t access = access_of(&op->work);

	p->mr = rdma_mr_at_hand(ch->c->offer->domain, x->local->region, RDMA_MR_OURS, access);
	p->key = rdma_key_at_hand(ch->c->keys, x->remote);
	if (!p->mr || !p->key)
		return false;
	p->local = (uintptr_t)x->local->region->base + x->local_offset;
	p->remote = p->key->addr + x->remote_offset;
	p->left = x->len;
	if (check_key(access, p))
		return false;
	p->rkeys = rdma_key_at(p->key, p->remote);
	return p->rkeys && p->left <= request_max(ch->q, p, UINT64_MAX) &&
	       p->left <= rdma_chunk_left(p->mr->shift, p->local);
}

bool rdma_request_alone(struct rdma_chain *ch, struct slime_op *op)
{
	struct ibv_send_wr *wr = ch->c->wrs;
	struct rdma_qp *q = ch->q;
	struct place p;

	if (!place_alone(ch, op, &p))
		return false;
	ch->last = rdma_qp_entry(q, q->head);
	*ch->last = (struct rdma_sent){ .op = op, .key = p.key, .last = true };
	aim(q, op, &p, wr);
	*wr->sg_list = (struct ibv_sge){
		.addr = p.local,
		.length = (uint32_t)p.left,
		.lkey = rdma_mr_part(p.mr, q->nic->index, p.local)->lkey,
	};
	complete_request(q, op, &p, q->head, (uint32_t)p.left, wr);
	rdma_qp_signal(q, wr, q->head);
	ch->n = 1;
	ch->bytes = p.left;
	return true;
}
