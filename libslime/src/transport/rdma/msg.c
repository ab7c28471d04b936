/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/transport/rdma/rdma.h"

#define N_MSGS (sizeof(((struct rdma_conn *)NULL)->msgs) / sizeof(struct sl_msg))

#define SMALL_PITCH (SL_SLOT_SMALL + RDMA_FRAME_PITCH)
#define LARGE_PITCH (SL_SLOT_LARGE + RDMA_FRAME_PITCH)
#define SEND_AREA   (SL_SEND_SLOTS * SMALL_PITCH)
#define CALL_AREA \
	(SL_CALL_SLOTS_SMALL * SMALL_PITCH + (SL_CALL_SLOTS - SL_CALL_SLOTS_SMALL) * LARGE_PITCH)

_Static_assert(SEND_AREA + 2 * CALL_AREA == RDMA_SLOTS_LEN, "areas are all slots and their frames");
_Static_assert(SL_SEND_SLOTS <= SL_CALL_SLOTS_SMALL, "slots of sends are small");

/* Where a slot's frame lies among the slots of a direction; its payload follows at the pitch. */
static inline uint32_t slot_offset(enum sl_area area, unsigned slot)
{
	static const uint32_t begins[SL_AREAS] = {
		[SL_AREA_REQUEST] = SEND_AREA,
		[SL_AREA_REPLY] = SEND_AREA + CALL_AREA,
	};

	if (slot < SL_CALL_SLOTS_SMALL)
		return begins[area] + slot * SMALL_PITCH;
	return begins[area] + SL_CALL_SLOTS_SMALL * SMALL_PITCH +
	       (slot - SL_CALL_SLOTS_SMALL) * LARGE_PITCH;
}

/* ---- sending ---- */

uint8_t *rdma_slot(struct sl_conn *conn, enum sl_area area, unsigned slot)
{
	struct rdma_conn *c = rdma_conn_of(conn);

	if (rdma_state(c) != RDMA_CONN_UP)
		return NULL;
	return c->offer->out_slots + slot_offset(area, slot) + RDMA_FRAME_PITCH;
}

/* Frame and payload in one: written behind each other into the peer's slot. */
static uint8_t *prepare_slot(struct rdma_qp *q, const struct sl_msg *m, enum sl_area area,
			     struct ibv_send_wr *wr, struct ibv_sge *sge)
{
	const struct rdma_conn *c = q->conn;
	uint32_t offset = slot_offset(area, m->slot);

	wr->opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	wr->imm_data = htonl(RDMA_IMM_SLOT(area, m->slot));
	wr->wr.rdma.remote_addr = c->peer.slots + offset;
	wr->wr.rdma.rkey = c->peer.rails[q->path->peer_rail].slots_key;
	sge->length = RDMA_FRAME_PITCH + m->len;
	return c->offer->out_slots + offset;
}

static uint8_t *prepare_frame(struct rdma_qp *q, uint32_t number, struct ibv_send_wr *wr,
			      struct ibv_sge *sge)
{
	wr->opcode = IBV_WR_SEND;
	sge->length = RDMA_FRAME_LEN;
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
	sge->lkey = q->lkey;
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

void rdma_post(struct sl_conn *conn, const struct sl_msg *m)
{
	struct rdma_conn *c = rdma_conn_of(conn);

	sl_lock(&c->lock);
	if (rdma_state(c) == RDMA_CONN_UP)
		put(c, m);
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

/* ---- receiving ---- */

static bool take_credit(struct rdma_conn *c, const struct sl_msg *m)
{
	if (m->w[0] < atomic_load_explicit(&c->imm_taken, memory_order_relaxed))
		return false;
	atomic_store_explicit(&c->imm_taken, m->w[0], memory_order_release);
	return true;
}

/* A frame that is no message. */
static bool take_control(struct rdma_conn *c, const struct sl_msg *m)
{
	switch (m->kind) {
	case RDMA_OPEN:
	case RDMA_OPENED:
	case RDMA_WITHDRAW:
	case RDMA_WITHDRAWN:
		return rdma_key_received(c, m);
	case RDMA_CREDIT:
		return take_credit(c, m);
	case RDMA_STOPPED:
	case RDMA_RAIL:
	case RDMA_RISEN:
		return rdma_path_received(c, m);
	case RDMA_BYE:
		rdma_conn_fail(c, 0, "closed by the peer");
		return true;
	default:
		return false;
	}
}

__attribute__((always_inline)) static inline bool take_frame(struct rdma_conn *c,
							     const struct sl_msg *m)
{
	if (m->kind >= SL_MSG_KINDS)
		return take_control(c, m);
	if (m->len || !sl_msg_valid(m))
		return false;
	return c->conn.events->msg(c->conn.owner, m, NULL);
}

/* The peer wrote a frame and its payload into a slot. */
__attribute__((always_inline)) static inline bool take_slot(struct rdma_conn *c, uint32_t imm)
{
	enum sl_area area = (enum sl_area)(imm >> 16);
	unsigned slot = imm & 0xffff;
	const uint8_t *frame;
	struct sl_msg m;

	if ((imm >> 16) >= SL_AREAS || slot >= sl_area_slots(area))
		return false;
	frame = c->offer->in_slots + slot_offset(area, slot);
	rdma_frame_read(&m, frame);
	if (sl_msg_area(m.kind) != area || m.slot != slot || !m.len ||
	    m.len > sl_slot_len(area, slot))
		return false;
	return c->conn.events->msg(c->conn.owner, &m, frame + RDMA_FRAME_PITCH);
}

static __attribute__((cold, noinline)) void break_protocol(struct rdma_conn *c)
{
	rdma_conn_fail(c, -EPROTO, "the peer broke the protocol of rdma's frames");
}

/* One that came before we are up: over a rail that a worker has not handed back, or one that broke
 * since. It has been acknowledged, and does not come again. */
struct rdma_early {
	struct sl_msg m;
	uint32_t imm;
	bool in_slot;
};

static void keep_early(struct rdma_conn *c, const struct sl_msg *m, const struct ibv_wc *wc)
{
	if (!c->early)
		c->early = calloc(RDMA_RECEIVES, sizeof(*c->early));
	if (!c->early)
		rdma_conn_fail(c, -ENOMEM, "no memory for what the peer says before we are up");
	else if (c->n_early == RDMA_RECEIVES)
		rdma_conn_fail(c, -EPROTO, "the peer says more than the windows allow");
	else
		c->early[c->n_early++] = (struct rdma_early){
			.m = *m,
			.imm = ntohl(wc->imm_data),
			.in_slot = wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM,
		};
}

__attribute__((cold)) void rdma_msg_take_early(struct rdma_conn *c)
{
	bool ok = true;

	for (unsigned i = 0; i < c->n_early && ok && !atomic_load(&c->ending); i++) {
		const struct rdma_early *e = &c->early[i];

		ok = e->in_slot ? take_slot(c, e->imm) : take_frame(c, &e->m);
	}
	rdma_msg_forget_early(c);
	if (!ok)
		break_protocol(c);
}

void rdma_msg_forget_early(struct rdma_conn *c)
{
	free(c->early);
	c->early = NULL;
	c->n_early = 0;
}

/* What comes before we are up, or when we leave; false: broken protocol. */
static __attribute__((cold, noinline)) bool take_early_or_late(struct rdma_conn *c,
							       struct rdma_qp *q,
							       const struct sl_msg *m,
							       const struct ibv_wc *wc)
{
	uint32_t state = rdma_state(c);

	if (m->kind == RDMA_READY)
		rdma_conn_greeted(c, q, m);
	else if (state == RDMA_CONN_LEAVING)
		return m->kind != RDMA_BYE || take_control(c, m);
	else if (state >= RDMA_CONN_UP || atomic_load(&c->ending))
		return true;
	else if (c->proven)
		keep_early(c, m, wc);
	else
		rdma_conn_fail(c, -EPROTO, "the peer spoke before it proved who it is");
	return true;
}

void rdma_msg_received(struct rdma_conn *c, struct rdma_qp *q, uint32_t i, const struct ibv_wc *wc)
{
	bool in_slot = wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM;
	struct sl_msg m;
	bool ok;

	m.head = 0; /* of no kind */
	if (!in_slot && wc->byte_len == RDMA_FRAME_LEN)
		rdma_frame_read(&m, q->receives + (size_t)i * RDMA_FRAME_PITCH);
	rdma_qp_return(q, i);
	if (m.kind != RDMA_READY && rdma_state(c) < RDMA_CONN_UP)
		rdma_conn_spoken_to(c, q->path);
	if (q->path->state == RDMA_PATH_RISEN || q->path->state == RDMA_PATH_RISING)
		rdma_path_spoke(q->path);
	if (rdma_state(c) != RDMA_CONN_UP || m.kind == RDMA_READY)
		ok = take_early_or_late(c, q, &m, wc);
	else if (atomic_load(&c->ending))
		ok = true;
	else
		ok = in_slot ? take_slot(c, ntohl(wc->imm_data)) : take_frame(c, &m);
	if (!ok)
		break_protocol(c);
}
