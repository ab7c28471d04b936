/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/core/lock.h"
#include "src/transport/rdma/conn.h"
#include "src/transport/rdma/msg.h"
#include "src/transport/rdma/offer.h"
#include "src/transport/rdma/path.h"
#include "src/transport/rdma/qp.h"
#include "src/transport/rdma/slot.h"
#include "src/transport/rdma/wire.h"

#define N_MSGS (sizeof(((struct rdma_conn *)NULL)->msgs) / sizeof(struct sl_msg))

/* ---- sending ---- */

static uint8_t *payload_at(const struct rdma_conn *c, enum sl_area area, unsigned slot)
{
	return c->offer->out_slots + rdma_slot_offset(area, slot) + RDMA_FRAME_PITCH;
}

uint8_t *rdma_slot(struct sl_conn *conn, enum sl_area area, unsigned slot)
{
	struct rdma_conn *c = rdma_conn_of(conn);

	return rdma_state(c) == RDMA_CONN_UP ? payload_at(c, area, slot) : NULL;
}

/* Frame and payload in one: written behind each other into the peer's slot. */
static uint8_t *prepare_slot(struct rdma_qp *q, const struct sl_msg *m, enum sl_area area,
			     struct ibv_send_wr *wr, struct ibv_sge *sge)
{
	const struct rdma_conn *c = q->conn;
	uint32_t offset = rdma_slot_offset(area, m->slot);

	wr->opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	wr->imm_data = htonl(RDMA_IMM_SLOT(area, m->slot));
	wr->wr.rdma.remote_addr = c->peer.slots + offset;
	wr->wr.rdma.rkey = c->peer.rails[q->path->peer_rail].slots_key;
	sge->length = RDMA_FRAME_PITCH + m->len;
	sge->lkey = q->slots_lkey;
	return c->offer->out_slots + offset;
}

static uint8_t *prepare_frame(struct rdma_qp *q, uint32_t number, struct ibv_send_wr *wr,
			      struct ibv_sge *sge)
{
	wr->opcode = IBV_WR_SEND;
	sge->length = RDMA_FRAME_LEN;
	sge->lkey = q->lkey;
	return q->frames + (size_t)(number % q->n_frames) * RDMA_FRAME_PITCH;
}

static inline void prepare(struct rdma_qp *q, uint32_t n, const struct sl_msg *m,
			   struct slime_op *op)
{
	enum sl_area area = sl_msg_area(m->kind);
	const struct rdma_conn *c = q->conn;
	struct ibv_send_wr *wr = &c->wrs[n];
	struct ibv_sge *sge = wr->sg_list;
	uint32_t number = q->head + n;
	uint8_t *frame;

	assert(!c->leaderless);
	/* Not as a whole, since no device looks at the rest. */
	wr->next = NULL;
	wr->num_sge = 1;
	wr->send_flags = 0;
	frame = area != SL_AREAS && m->len ? prepare_slot(q, m, area, wr, sge)
					   : prepare_frame(q, number, wr, sge);
	rdma_frame_write(m, frame);
	sge->addr = (uintptr_t)frame;
	if (sge->length <= q->max_inline)
		wr->send_flags = IBV_SEND_INLINE;
	*rdma_qp_entry(q, number) = (struct rdma_sent){
		.op = op,
		.last = op != NULL,
		.frame = frame,
		.ready = m->kind == RDMA_READY,
		.bye = m->kind == RDMA_BYE,
	};
	rdma_qp_number(q, wr, number, op || m->kind == RDMA_READY || m->kind == RDMA_BYE);
	if (n)
		wr[-1].next = wr;
}

void rdma_msg_prepare(struct rdma_conn *c, uint32_t n, const struct sl_msg *m, struct slime_op *op)
{
	prepare(c->lead, n, m, op);
}

static void post_chain(struct rdma_qp *q, uint32_t n)
{
	int ret = n ? rdma_qp_post(q, q->conn->wrs, n) : 0;

	if (ret)
		rdma_path_fail_locked(q->path, ret, "a request cannot be posted");
}

static bool may_send(const struct rdma_conn *c)
{
	uint32_t state = rdma_state(c);

	return state == RDMA_CONN_UP || state == RDMA_CONN_LEAVING || state == RDMA_CONN_GREETING;
}

/* How many immediates were taken, unless the peer knows. */
static bool prepare_credit(struct rdma_conn *c, uint32_t n)
{
	struct sl_msg m = { .kind = RDMA_CREDIT, .w = { c->taken } };

	if (c->taken == c->taken_told || rdma_state(c) != RDMA_CONN_UP)
		return false;
	c->taken_told = c->taken;
	rdma_msg_prepare(c, n, &m, NULL);
	return true;
}

void rdma_msg_pump(struct rdma_conn *c)
{
	uint32_t room, n = 0;
	struct sl_msg told;

	if (!rdma_msg_waits(c) || !may_send(c) || c->leaderless)
		return;
	room = rdma_qp_message_room(c->lead);
	while (n < room && rdma_path_next_told(c, &told))
		rdma_msg_prepare(c, n++, &told, NULL);
	while (n < room && c->n_msgs && !c->n_held) {
		rdma_msg_prepare(c, n++, &c->msgs[c->msgs_first], NULL);
		c->msgs_first = (c->msgs_first + 1) % N_MSGS;
		c->n_msgs--;
	}
	if (n < room && !c->n_held)
		n += prepare_credit(c, n);
	post_chain(c->lead, n);
}

/* In a state in which it may be sent. */
static inline void put(struct rdma_conn *c, const struct sl_msg *m)
{
	if (!c->n_msgs && !c->n_held && rdma_qp_message_room(c->lead)) {
		prepare(c->lead, 0, m, NULL);
		post_chain(c->lead, 1);
	} else if (c->n_msgs < N_MSGS) {
		c->msgs[(c->msgs_first + c->n_msgs++) % N_MSGS] = *m;
	} else {
		rdma_conn_fail_locked(c, -ENOBUFS, "more messages than the windows allow");
	}
}

void rdma_msg_put(struct rdma_conn *c, const struct sl_msg *m)
{
	if (may_send(c))
		put(c, m);
}

void rdma_msg_put_over(struct rdma_qp *q, const struct sl_msg *m)
{
	prepare(q, 0, m, NULL);
	post_chain(q, 1);
}

bool rdma_msg_put_back(struct rdma_conn *c, const struct sl_msg *m)
{
	if (c->n_msgs == N_MSGS)
		return false;
	c->msgs_first = (c->msgs_first + N_MSGS - 1) % N_MSGS;
	c->msgs[c->msgs_first] = *m;
	c->n_msgs++;
	return true;
}

void rdma_post(struct sl_conn *conn, const struct sl_post *posts, size_t n)
{
	struct rdma_conn *c = rdma_conn_of(conn);
	bool up;

	sl_lock(&c->lock);
	up = rdma_state(c) == RDMA_CONN_UP;
	for (size_t i = 0; i < n; i++) {
		const struct sl_post *p = &posts[i];

		if (up && p->payload)
			memcpy(payload_at(c, sl_msg_area(p->m.kind), p->m.slot), p->payload,
			       p->m.len);
		if (p->going)
			atomic_store_explicit(p->going, p->m.w[0], memory_order_release);
		if (up)
			put(c, &p->m);
	}
	sl_unlock(&c->lock);
}

void rdma_take_imm(struct sl_conn *conn, uint64_t taken)
{
	struct rdma_conn *c = rdma_conn_of(conn);

	sl_lock(&c->lock);
	if (taken > c->taken)
		c->taken = taken;
	rdma_msg_pump(c);
	sl_unlock(&c->lock);
}
