/* SPDX-License-Identifier: Apache-2.0 */
/* One request: from the requester's memory to the responder's, or the reason why not. */
#include "tests/fakes/fakeverbs/lab.h"

#define TAIL 64 /* bytes of a message's beginning and end that are placed word by word */

/* ---- memory ---- */

struct span {
	uint8_t *at;
	uint64_t len;
};

/* Ascending, word by word, so that who polls the last word of a message finds all before it, as a
 * device places them; a program that reads memory so does it with atomics, hence so do we. */
static void copy_words(uint8_t *to, const uint8_t *from, uint64_t len)
{
	while (len) {
		if (len >= 8 && !((uintptr_t)to & 7) && !((uintptr_t)from & 7)) {
			uint64_t word = __atomic_load_n((const uint64_t *)(const void *)from,
							__ATOMIC_ACQUIRE);

			__atomic_store_n((uint64_t *)(void *)to, word, __ATOMIC_RELEASE);
			to += 8, from += 8, len -= 8;
		} else if (len >= 4 && !((uintptr_t)to & 3) && !((uintptr_t)from & 3)) {
			uint32_t word = __atomic_load_n((const uint32_t *)(const void *)from,
							__ATOMIC_ACQUIRE);

			__atomic_store_n((uint32_t *)(void *)to, word, __ATOMIC_RELEASE);
			to += 4, from += 4, len -= 4;
		} else {
			__atomic_store_n(to, __atomic_load_n(from, __ATOMIC_ACQUIRE),
					 __ATOMIC_RELEASE);
			to++, from++, len--;
		}
	}
}

/* A long message's middle: a device's DMA, which no sanitizer sees; the ends tell of races enough.
 */
__attribute__((no_sanitize("thread"))) static void copy_middle(uint8_t *to, const uint8_t *from,
							       uint64_t len)
{
	for (; len >= TAIL; to += TAIL, from += TAIL, len -= TAIL) {
		__builtin_memcpy(to, from, TAIL);
		__asm__ volatile("" ::: "memory"); /* no call of memcpy, which is watched */
	}
}

static void copy(uint8_t *to, const uint8_t *from, uint64_t len)
{
	if (len > 3 * TAIL) {
		uint64_t middle = (len - 2 * TAIL) / TAIL * TAIL;

		copy_words(to, from, TAIL);
		copy_middle(to + TAIL, from + TAIL, middle);
		to += TAIL + middle, from += TAIL + middle, len -= TAIL + middle;
	}
	copy_words(to, from, len);
}

/* As many bytes as both sides have. */
static void move(struct span *to, const struct span *to_end, struct span *from,
		 const struct span *from_end)
{
	while (to != to_end && from != from_end) {
		uint64_t n = to->len < from->len ? to->len : from->len;

		copy(to->at, from->at, n);
		fv_lab.counts.bytes += n;
		to->at += n, to->len -= n;
		from->at += n, from->len -= n;
		to += !to->len;
		from += !from->len;
	}
}

/* Where a scatter list's bytes are; false when one of them is not the queue pair's to use so. */
static bool resolve(struct fv_qp *qp, const struct ibv_sge *sge, int n, unsigned access,
		    struct span *out)
{
	for (int i = 0; i < n; i++) {
		out[i].len = sge[i].length;
		out[i].at = sge[i].length ? fv_mr_at(qp->dev, qp->ibv.pd, sge[i].lkey, sge[i].addr,
						     sge[i].length, access)
					  : (uint8_t *)out; /* nothing is touched */
		if (!out[i].at)
			return false;
	}
	return true;
}

/* ---- the way there ---- */

static const struct fakeverbs_port *port_of(const struct fv_device *dev, uint32_t num)
{
	return num >= 1 && num <= dev->is.n_ports ? &dev->is.ports[num - 1] : NULL;
}

static bool has_gid(const struct fakeverbs_port *p, const union ibv_gid *gid,
		    enum ibv_gid_type type)
{
	for (unsigned i = 0; i < FAKEVERBS_GIDS; i++)
		if (p->gids[i].type == type && !memcmp(&p->gids[i].gid, gid, sizeof(*gid)))
			return true;
	return false;
}

/* Whether packets of the queue pair arrive at that port. */
static bool leads_to(const struct fv_qp *qp, const struct fakeverbs_port *to)
{
	const struct fakeverbs_port *from = port_of(qp->dev, qp->attr.port_num);
	const struct ibv_ah_attr *ah = &qp->attr.ah_attr;

	if (!from || from->state != IBV_PORT_ACTIVE || to->state != IBV_PORT_ACTIVE ||
	    from->link_layer != to->link_layer)
		return false;
	if (ah->is_global)
		return has_gid(to, &ah->grh.dgid, from->gids[ah->grh.sgid_index].type);
	return to->lid == ah->dlid &&
	       to->gids[0].gid.global.subnet_prefix == from->gids[0].gid.global.subnet_prefix;
}

static bool hears(const struct fv_qp *peer, const struct fv_qp *qp)
{
	return (peer->state == IBV_QPS_RTR || peer->state == IBV_QPS_RTS ||
		peer->state == IBV_QPS_SQD) &&
	       peer->attr.dest_qp_num == qp->ibv.qp_num &&
	       peer->attr.ah_attr.is_global == qp->attr.ah_attr.is_global &&
	       leads_to(peer, port_of(qp->dev, qp->attr.port_num));
}

struct fv_qp *fv_peer(struct fv_qp *qp)
{
	for (unsigned d = 0; d < FAKEVERBS_DEVICES; d++) {
		struct fv_device *dev = &fv_lab.devices[d];

		if (dev->dead || qp->dev->dead || dev->cut[qp->dev->index])
			continue;
		for (unsigned p = 1; p <= dev->is.n_ports; p++) {
			struct fv_qp *peer;

			if (!leads_to(qp, &dev->is.ports[p - 1]))
				continue;
			peer = fv_qp_find(dev, qp->attr.dest_qp_num);
			if (peer && peer->attr.port_num == p && hears(peer, qp))
				return peer;
		}
	}
	return NULL;
}

/* ---- the responder ---- */

static bool needs_recv(const struct fv_send *s)
{
	return s->opcode == IBV_WR_SEND || s->opcode == IBV_WR_SEND_WITH_IMM ||
	       s->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static bool has_imm(const struct fv_send *s)
{
	return s->opcode == IBV_WR_SEND_WITH_IMM || s->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static bool is_atomic(const struct fv_send *s)
{
	return s->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || s->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

/* What the target must allow; 0 for sends. */
static unsigned needed_access(const struct fv_send *s)
{
	switch (s->opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return IBV_ACCESS_REMOTE_WRITE;
	case IBV_WR_RDMA_READ:
		return IBV_ACCESS_REMOTE_READ;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return IBV_ACCESS_REMOTE_ATOMIC;
	default:
		return 0;
	}
}

/* The responder refuses, and ends, too. */
static enum fv_outcome refuse(struct fv_qp *peer, struct fv_send *s, enum ibv_wc_status status)
{
	s->status = status;
	if (!peer->dev->is.responder_stays) {
		fv_raise_qp(peer, status == IBV_WC_REM_ACCESS_ERR ? IBV_EVENT_QP_ACCESS_ERR
								  : IBV_EVENT_QP_REQ_ERR);
		fv_qp_error(peer);
	}
	return FV_FAILED;
}

static uint32_t mtu_bytes(const struct fv_qp *qp)
{
	return 128u << qp->attr.path_mtu;
}

static uint32_t n_packets(const struct fv_qp *qp, const struct fv_send *s)
{
	uint64_t n = (s->len + mtu_bytes(qp) - 1) / mtu_bytes(qp);

	return n && !is_atomic(s) ? (uint32_t)n : 1;
}

/* What makes a request invalid before anybody looks at memory. */
static bool is_valid(const struct fv_qp *qp, const struct fv_qp *peer, const struct fv_send *s)
{
	unsigned access = needed_access(s);
	bool reads = access & (IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);

	if ((peer->attr.qp_access_flags & access) != access)
		return false;
	if (reads && qp->n_reads >= peer->attr.max_dest_rd_atomic)
		return false;
	if (is_atomic(s) && (s->remote_addr & 7 || s->len != 8))
		return false;
	return peer->attr.path_mtu == qp->attr.path_mtu ||
	       (s->len <= mtu_bytes(peer) && s->len <= mtu_bytes(qp));
}

/* Zero bytes touch no region, and their key is not looked at. */
static bool find_target(struct fv_qp *peer, const struct fv_send *s, struct span *out)
{
	out->len = s->len;
	out->at = (uint8_t *)out;
	if (s->len && needed_access(s))
		out->at = fv_mr_at(peer->dev, peer->ibv.pd, s->rkey, s->remote_addr, s->len,
				   needed_access(s));
	return out->at;
}

static void raise_established(struct fv_qp *peer)
{
	if (peer->state == IBV_QPS_RTR && !peer->spoke)
		fv_raise_qp(peer, IBV_EVENT_COMM_EST);
	peer->spoke = true;
}

static void receive(struct fv_qp *peer, const struct fv_send *s, const struct fv_recv *r,
		    enum ibv_wc_status status)
{
	struct ibv_wc wc = { .status = status, .byte_len = (uint32_t)s->len };
	bool is_write = s->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;

	wc.opcode = is_write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
	if (has_imm(s)) {
		wc.wc_flags = IBV_WC_WITH_IMM;
		wc.imm_data = s->imm;
	}
	if (peer->attr.ah_attr.is_global)
		wc.wc_flags |= IBV_WC_GRH;
	fv_qp_received(peer, r, &wc, s->flags & IBV_SEND_SOLICITED);
}

/* Into the buffers of a receive; the bytes' source was checked. */
static enum fv_outcome deliver_send(struct fv_qp *peer, struct fv_send *s, struct fv_recv *r,
				    struct span *from, const struct span *from_end)
{
	struct span to[FV_SGES];
	uint64_t room = 0;
	enum ibv_wc_status status = IBV_WC_SUCCESS;

	for (int i = 0; i < r->n_sge; i++)
		room += r->sge[i].length;
	if (room < s->len)
		status = IBV_WC_LOC_LEN_ERR;
	else if (!resolve(peer, r->sge, r->n_sge, IBV_ACCESS_LOCAL_WRITE, to))
		status = IBV_WC_LOC_PROT_ERR;
	if (status == IBV_WC_SUCCESS)
		move(to, to + r->n_sge, from, from_end);
	receive(peer, s, r, status);
	if (status == IBV_WC_SUCCESS)
		return FV_DONE;
	s->status = status == IBV_WC_LOC_LEN_ERR ? IBV_WC_REM_INV_REQ_ERR : IBV_WC_REM_OP_ERR;
	fv_qp_error(peer);
	return FV_FAILED;
}

static struct fv_recv *take_recv(struct fv_qp *peer)
{
	struct fv_recv *r;

	if (!peer->ibv.srq)
		return fv_rq_take(&peer->rq);
	r = fv_rq_take(&fv_srq(peer->ibv.srq)->rq);
	if (r)
		fv_srq_took(fv_srq(peer->ibv.srq));
	return r;
}

static void do_atomic(struct fv_send *s, const struct span *target)
{
	uint64_t *at = (uint64_t *)(void *)target->at;
	uint64_t old = s->compare_add;

	if (s->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		old = __atomic_fetch_add(at, s->compare_add, __ATOMIC_ACQ_REL);
	else
		__atomic_compare_exchange_n(at, &old, s->swap, false, __ATOMIC_ACQ_REL,
					    __ATOMIC_ACQUIRE);
	s->swap = old; /* what the answer brings */
}

static enum fv_outcome respond(struct fv_qp *qp, struct fv_qp *peer, struct fv_send *s,
			       struct span *from, const struct span *from_end)
{
	struct fv_recv *r = NULL;
	struct span target;

	if (!is_valid(qp, peer, s))
		return refuse(peer, s, IBV_WC_REM_INV_REQ_ERR);
	if (!find_target(peer, s, &target))
		return refuse(peer, s, IBV_WC_REM_ACCESS_ERR);
	if (needs_recv(s)) {
		r = take_recv(peer);
		if (!r)
			return FV_RNR;
	}
	if (is_atomic(s))
		do_atomic(s, &target);
	else if (needed_access(s) == IBV_ACCESS_REMOTE_WRITE)
		move(&target, &target + 1, from, from_end);
	else if (r)
		return deliver_send(peer, s, r, from, from_end);
	if (r)
		receive(peer, s, r, IBV_WC_SUCCESS);
	return FV_DONE;
}

/* ---- sequence numbers ---- */

/* From one on to another, which half of all are ahead of, and half behind. */
static int32_t distance(uint32_t from, uint32_t to)
{
	return (int32_t)((to - from) << 8) >> 8;
}

static void remember_reply(struct fv_qp *peer, const struct fv_qp *qp, const struct fv_send *s)
{
	peer->replies[peer->n_replies++ % FV_REPLIES] =
		(struct fv_reply){ .psn = qp->send_psn, .was = s->swap };
}

static bool find_reply(const struct fv_qp *peer, uint32_t psn, uint64_t *was)
{
	for (unsigned i = 0; i < FV_REPLIES && i < peer->n_replies; i++) {
		if (peer->replies[i].psn != psn)
			continue;
		*was = peer->replies[i].was;
		return true;
	}
	return false;
}

static enum fv_outcome deliver(struct fv_qp *qp, struct fv_qp *peer, struct fv_send *s,
			       struct span *from, const struct span *from_end)
{
	enum fv_outcome outcome = respond(qp, peer, s, from, from_end);

	if (outcome != FV_DONE)
		return outcome;
	if (is_atomic(s))
		remember_reply(peer, qp, s);
	qp->send_psn = (qp->send_psn + n_packets(qp, s)) & FV_PSN_MASK;
	peer->expected_psn = qp->send_psn;
	return FV_DONE;
}

/* All that the requester has to send, or has sent, and knows no answer to. */
static uint32_t n_packets_posted(struct fv_qp *qp)
{
	uint32_t n = 0;

	for (uint64_t i = qp->executed; i != qp->posted; i++)
		n += n_packets(qp, &qp->sq[i % qp->init.cap.max_send_wr]);
	return n;
}

/*
 * Packets that the responder has had come again: reads are read again, an atomic is told what it
 * was told then, and all else is acknowledged and not executed. That acknowledgement names the last
 * packet that the responder took: whoever did not send so many takes no notice of it.
 */
static enum fv_outcome repeat(struct fv_qp *qp, struct fv_qp *peer, struct fv_send *s)
{
	uint32_t n = n_packets(qp, s);
	uint32_t n_had = (uint32_t)distance(qp->send_psn, peer->expected_psn);
	enum fv_outcome outcome = FV_DONE;

	fv_lab.counts.duplicates++;
	/* The first that it has not had is in the middle of a message. */
	if (n_had < n)
		return refuse(peer, s, IBV_WC_REM_INV_REQ_ERR);
	if (s->opcode == IBV_WR_RDMA_READ)
		outcome = respond(qp, peer, s, NULL, NULL);
	else if (is_atomic(s))
		outcome = find_reply(peer, qp->send_psn, &s->swap) ? FV_DONE : FV_LOST;
	else if (n_had > n_packets_posted(qp))
		outcome = FV_LOST;
	if (outcome == FV_DONE)
		qp->send_psn = (qp->send_psn + n) & FV_PSN_MASK;
	return outcome;
}

/* ---- the requester ---- */

static enum fv_outcome local_error(struct fv_send *s, enum ibv_wc_status status)
{
	s->status = status;
	return FV_FAILED;
}

/* The payload where it lies, or, of a read, where it will. */
static bool find_local(struct fv_qp *qp, struct fv_send *s, struct span *out, int *n)
{
	bool reads = needed_access(s) & (IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);

	*n = s->n_sge;
	if (s->flags & IBV_SEND_INLINE) {
		out[0] = (struct span){ s->inlined, s->len };
		*n = 1;
		return true;
	}
	return resolve(qp, s->sge, s->n_sge, reads ? IBV_ACCESS_LOCAL_WRITE : 0, out);
}

enum fv_outcome fv_execute(struct fv_qp *qp, struct fv_send *s)
{
	const struct fakeverbs_port *port = port_of(qp->dev, qp->attr.port_num);
	struct span local[FV_SGES];
	struct fv_qp *peer;
	int32_t ahead;
	int n;

	if (port->max_msg_sz && s->len > port->max_msg_sz)
		return local_error(s, IBV_WC_LOC_LEN_ERR);
	if (!find_local(qp, s, local, &n))
		return local_error(s, IBV_WC_LOC_PROT_ERR);
	if (needed_access(s) & (IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC) &&
	    !qp->attr.max_rd_atomic)
		return local_error(s, IBV_WC_LOC_QP_OP_ERR);
	peer = fv_peer(qp);
	ahead = peer ? distance(peer->expected_psn, qp->send_psn) : 0;
	if (!peer || ahead > 0)
		return FV_LOST;
	raise_established(peer);
	return ahead ? repeat(qp, peer, s) : deliver(qp, peer, s, local, local + n);
}

enum fv_outcome fv_answer(struct fv_qp *qp, struct fv_send *s)
{
	struct span local[FV_SGES], target;
	struct fv_qp *peer = fv_peer(qp);
	int n;

	if (!peer)
		return FV_LOST;
	if (!find_local(qp, s, local, &n))
		return local_error(s, IBV_WC_LOC_PROT_ERR);
	if (is_atomic(s))
		target = (struct span){ (uint8_t *)&s->swap, 8 };
	else if (!find_target(peer, s, &target))
		return refuse(peer, s, IBV_WC_REM_ACCESS_ERR);
	move(local, local + n, &target, &target + 1);
	return FV_DONE;
}
