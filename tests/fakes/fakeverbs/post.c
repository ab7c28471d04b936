/* SPDX-License-Identifier: Apache-2.0 */
/* Work requests come in. */
#include "tests/fakes/fakeverbs/lab.h"

static const unsigned known_flags =
	IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE;

static bool is_read(enum ibv_wr_opcode op)
{
	return op == IBV_WR_RDMA_READ || op == IBV_WR_ATOMIC_CMP_AND_SWP ||
	       op == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static bool is_known(enum ibv_wr_opcode op)
{
	return op <= IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static uint64_t length(const struct ibv_send_wr *wr)
{
	uint64_t len = 0;

	for (int i = 0; i < wr->num_sge; i++)
		len += wr->sg_list[i].length;
	return len;
}

static int check(const struct fv_qp *qp, const struct ibv_send_wr *wr)
{
	const struct ibv_qp_cap *c = &qp->init.cap;

	if (!is_known(wr->opcode) || wr->send_flags & ~known_flags)
		return EINVAL;
	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > c->max_send_sge)
		return EINVAL;
	if (is_read(wr->opcode) && wr->num_sge > qp->dev->is.max_sge_rd)
		return EINVAL;
	if (wr->send_flags & IBV_SEND_INLINE &&
	    (is_read(wr->opcode) || length(wr) > c->max_inline_data))
		return EINVAL;
	return qp->posted - qp->freed < c->max_send_wr ? 0 : ENOMEM;
}

/* Inline means that the bytes are taken now, whatever region they lie in. */
static void take_payload(struct fv_send *s, const struct ibv_send_wr *wr)
{
	uint8_t *to = s->inlined;

	s->n_sge = wr->num_sge;
	s->len = length(wr);
	if (wr->num_sge)
		memcpy(s->sge, wr->sg_list, (size_t)wr->num_sge * sizeof(*s->sge));
	if (!(wr->send_flags & IBV_SEND_INLINE))
		return;
	for (int i = 0; i < wr->num_sge; i++) {
		if (wr->sg_list[i].length)
			memcpy(to, (const void *)(uintptr_t)wr->sg_list[i].addr,
			       wr->sg_list[i].length);
		to += wr->sg_list[i].length;
	}
}

static void take_target(struct fv_send *s, const struct ibv_send_wr *wr)
{
	if (wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		s->remote_addr = wr->wr.atomic.remote_addr;
		s->rkey = wr->wr.atomic.rkey;
		s->compare_add = wr->wr.atomic.compare_add;
		s->swap = wr->wr.atomic.swap;
	} else {
		s->remote_addr = wr->wr.rdma.remote_addr;
		s->rkey = wr->wr.rdma.rkey;
	}
}

static void count(const struct fv_send *s)
{
	fv_lab.counts.send_wrs++;
	fv_lab.counts.signaled += !!(s->flags & IBV_SEND_SIGNALED);
	fv_lab.counts.inlined += !!(s->flags & IBV_SEND_INLINE);
}

static void accept_wr(struct fv_qp *qp, const struct ibv_send_wr *wr)
{
	struct fv_send *s = &qp->sq[qp->posted % qp->init.cap.max_send_wr];
	uint64_t delay = fv_delay();

	s->wr_id = wr->wr_id;
	s->opcode = wr->opcode;
	s->flags = wr->send_flags;
	if (qp->init.sq_sig_all)
		s->flags |= IBV_SEND_SIGNALED;
	s->imm = wr->imm_data;
	s->status = IBV_WC_SUCCESS;
	take_payload(s, wr);
	take_target(s, wr);
	if (delay && fv_now() + delay > qp->last_due)
		qp->last_due = fv_now() + delay;
	s->due = qp->last_due;
	qp->posted++;
	count(s);
}

static bool takes_requests(const struct fv_qp *qp)
{
	return qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD ||
	       (qp->state == IBV_QPS_ERR && !qp->dev->is.refuses_in_error);
}

int fv_post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct fv_qp *qp = fv_qp(ibv);
	int err = fv_enter(FAKEVERBS_POST_SEND, qp->dev);

	if (!err && !takes_requests(qp))
		err = EINVAL;
	for (; !err && wr; wr = wr->next) {
		err = check(qp, wr);
		if (err)
			break;
		accept_wr(qp, wr);
	}
	if (err)
		*bad = wr;
	fv_qp_run(qp);
	fv_leave();
	return err;
}

int fv_post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct fv_qp *qp = fv_qp(ibv);
	int err = fv_enter(FAKEVERBS_POST_RECV, qp->dev);

	if (!err && (qp->state == IBV_QPS_RESET || qp->ibv.srq))
		err = EINVAL;
	for (; !err && wr; wr = wr->next) {
		err = fv_rq_post(&qp->rq, wr);
		if (err)
			break;
	}
	if (err)
		*bad = wr;
	if (qp->state == IBV_QPS_ERR)
		fv_qp_run(qp);
	fv_leave();
	return err;
}
