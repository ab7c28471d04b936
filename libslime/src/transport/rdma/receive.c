/* SPDX-License-Identifier: Apache-2.0 */
/* The input of a connection: messages, control frames, and messages before it is up. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>

#include "src/core/lock.h"
#include "src/transport/rdma/conn.h"
#include "src/transport/rdma/key.h"
#include "src/transport/rdma/limits.h"
#include "src/transport/rdma/offer.h"
#include "src/transport/rdma/path.h"
#include "src/transport/rdma/qp.h"
#include "src/transport/rdma/receive.h"
#include "src/transport/rdma/slot.h"
#include "src/transport/rdma/wire.h"
#include "src/transport/rdma/work.h"

static bool take_credit(struct rdma_conn *c, const struct sl_msg *m)
{
	if (m->w[0] < atomic_load_explicit(&c->imm_taken, memory_order_relaxed))
		return false;
	atomic_store_explicit(&c->imm_taken, m->w[0], memory_order_release);
	return true;
}

/* Works that wait for these keys go on. */
static bool take_keys(struct rdma_conn *c, const struct sl_msg *m)
{
	bool divided = false;
	bool ok;

	sl_lock(&c->lock);
	ok = rdma_key_opened(c, m, &divided);
	if (divided)
		rdma_work_ask_again(c);
	if (ok)
		rdma_work_pump(c);
	sl_unlock(&c->lock);
	return ok;
}

/* A frame that is no message. */
static bool take_control(struct rdma_conn *c, const struct sl_msg *m)
{
	switch (m->kind) {
	case RDMA_OPENED:
		return take_keys(c, m);
	case RDMA_KEYS:
		return rdma_key_more(c, m);
	case RDMA_OPEN:
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
	frame = c->offer->in_slots + rdma_slot_offset(area, slot);
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

__attribute__((cold)) void rdma_receive_early(struct rdma_conn *c)
{
	bool ok = true;

	for (unsigned i = 0; i < c->n_early && ok && !atomic_load(&c->ending); i++) {
		const struct rdma_early *e = &c->early[i];

		ok = e->in_slot ? take_slot(c, e->imm) : take_frame(c, &e->m);
	}
	rdma_receive_forget_early(c);
	if (!ok)
		break_protocol(c);
}

void rdma_receive_forget_early(struct rdma_conn *c)
{
	free(c->early);
	c->early = NULL;
	c->n_early = 0;
}

/* Messages that come before we are up, or when we leave; false: broken protocol. */
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
		rdma_conn_fail(c, -EPROTO, "the peer sent a message before it proved its identity");
	return true;
}

void rdma_receive(struct rdma_conn *c, struct rdma_qp *q, uint32_t i, const struct ibv_wc *wc)
{
	bool in_slot = wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM;
	struct sl_msg m;
	bool ok;

	m.head = 0; /* of no kind */
	if (!in_slot && wc->byte_len == RDMA_FRAME_LEN)
		rdma_frame_read(&m, q->receives + (size_t)i * RDMA_FRAME_PITCH);
	rdma_qp_return(q, i);
	if (q->n_begun < q->n_receives)
		rdma_qp_post_rest(q);
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
