/* SPDX-License-Identifier: Apache-2.0 */
/* What a queue pair does as time goes on: requests leave, are answered, complete, are flushed. */
#include "tests/fakes/fakeverbs/lab.h"

#define GARBAGE 0xdddddddd /* in fields that a failed completion does not define */

static struct fv_send *send_at(struct fv_qp *qp, uint64_t i)
{
	return &qp->sq[i % qp->init.cap.max_send_wr];
}

static bool is_read(const struct fv_send *s)
{
	return s->opcode == IBV_WR_RDMA_READ || s->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	       s->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

/* ---- completions ---- */

static struct ibv_wc failure(const struct fv_qp *qp, uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	memset(&wc, GARBAGE & 0xff, sizeof(wc));
	wc.wr_id = wr_id;
	wc.status = status;
	wc.vendor_err = 0x80 + (uint32_t)status;
	wc.qp_num = qp->ibv.qp_num;
	return wc;
}

static struct ibv_wc success(const struct fv_qp *qp, const struct fv_send *s)
{
	static const enum ibv_wc_opcode opcodes[] = {
		[IBV_WR_RDMA_WRITE] = IBV_WC_RDMA_WRITE,
		[IBV_WR_RDMA_WRITE_WITH_IMM] = IBV_WC_RDMA_WRITE,
		[IBV_WR_SEND] = IBV_WC_SEND,
		[IBV_WR_SEND_WITH_IMM] = IBV_WC_SEND,
		[IBV_WR_RDMA_READ] = IBV_WC_RDMA_READ,
		[IBV_WR_ATOMIC_CMP_AND_SWP] = IBV_WC_COMP_SWAP,
		[IBV_WR_ATOMIC_FETCH_AND_ADD] = IBV_WC_FETCH_ADD,
	};

	return (struct ibv_wc){ .wr_id = s->wr_id,
				.status = IBV_WC_SUCCESS,
				.opcode = opcodes[s->opcode],
				.byte_len = is_read(s) ? (uint32_t)s->len : 0,
				.qp_num = qp->ibv.qp_num };
}

static void add(struct fv_qp *qp, struct fv_cq *cq, const struct fv_cqe *cqe, bool solicited)
{
	unsigned n = 1;

	if (qp->n_drop) {
		qp->n_drop--;
		n = 0;
	} else if (qp->n_duplicate) {
		qp->n_duplicate--;
		n = 2;
	}
	while (n--)
		fv_cq_add(cq, cqe, solicited);
}

/* Failed ones are told whether signaled or not. */
static void tell_sent(struct fv_qp *qp, uint64_t i, enum ibv_wc_status status)
{
	const struct fv_send *s = send_at(qp, i);
	struct fv_cqe cqe = { .qp = qp, .sq_free = i + 1 };

	if (status == IBV_WC_SUCCESS && !(s->flags & IBV_SEND_SIGNALED))
		return;
	cqe.wc = status == IBV_WC_SUCCESS ? success(qp, s) : failure(qp, s->wr_id, status);
	add(qp, fv_cq(qp->ibv.send_cq), &cqe, status != IBV_WC_SUCCESS);
}

void fv_qp_received(struct fv_qp *qp, const struct fv_recv *r, const struct ibv_wc *wc,
		    bool solicited)
{
	struct fv_cqe cqe = { .qp = qp, .is_recv = true };

	if (qp->ibv.srq)
		cqe.srq = fv_srq(qp->ibv.srq);
	if (wc->status == IBV_WC_SUCCESS) {
		cqe.wc = *wc;
		cqe.wc.wr_id = r->wr_id;
		cqe.wc.qp_num = qp->ibv.qp_num;
		cqe.wc.src_qp = qp->attr.dest_qp_num;
	} else {
		cqe.wc = failure(qp, r->wr_id, wc->status);
	}
	add(qp, fv_cq(qp->ibv.recv_cq), &cqe, solicited || wc->status != IBV_WC_SUCCESS);
}

/* ---- the error state ---- */

/* False when there was nothing. */
static bool flush(struct fv_qp *qp)
{
	static const struct ibv_wc flushed = { .status = IBV_WC_WR_FLUSH_ERR };
	const struct fv_recv *r;
	bool any = qp->completed != qp->posted;

	while (qp->completed != qp->posted)
		tell_sent(qp, qp->completed++, IBV_WC_WR_FLUSH_ERR);
	qp->executed = qp->posted;
	qp->n_reads = 0;
	if (qp->ibv.srq && !qp->last_wqe_told) {
		qp->last_wqe_told = true;
		fv_raise_qp(qp, IBV_EVENT_QP_LAST_WQE_REACHED);
	}
	while ((r = fv_rq_take(&qp->rq))) {
		fv_qp_received(qp, r, &flushed, false);
		any = true;
	}
	return any;
}

static void begin_error(struct fv_qp *qp, uint64_t now)
{
	uint64_t delay = fv_delay();

	qp->state = IBV_QPS_ERR;
	qp->flush_at = delay ? now + delay : 0;
}

/* ---- requests ---- */

static uint64_t rnr_ns(unsigned code)
{
	/* InfiniBand specification, table 45, in 10 us. */
	static const uint32_t times[32] = { 65536, 1,	 2,    3,     4,     6,	    8,	   12,
					    16,	   24,	 32,   48,    64,    96,    128,   192,
					    256,   384,	 512,  768,   1024,  1536,  2048,  3072,
					    4096,  6144, 8192, 12288, 16384, 24576, 32768, 49152 };

	return times[code & 31] * UINT64_C(10000);
}

/* It is the queue pair's last: acknowledgements before it still arrive, then it fails. */
static void fail(struct fv_qp *qp, struct fv_send *s, enum ibv_wc_status status)
{
	s->status = status;
	qp->failing = true;
	qp->executed++;
}

static void acknowledge_at(struct fv_qp *qp, struct fv_send *s, uint64_t now)
{
	uint64_t delay = fv_delay();

	if (delay && now + delay > qp->last_ack)
		qp->last_ack = now + delay;
	s->due = qp->last_ack;
}

static void on_rnr(struct fv_qp *qp, struct fv_send *s, uint64_t now)
{
	const struct fv_qp *peer = fv_peer(qp);

	fv_lab.counts.rnr_naks++;
	if (qp->attr.rnr_retry != 7 && !qp->rnr_left--) {
		acknowledge_at(qp, s, now);
		fail(qp, s, IBV_WC_RNR_RETRY_EXC_ERR);
		return;
	}
	qp->wait_until = now + rnr_ns(peer ? peer->attr.min_rnr_timer : 0);
}

/* Requests, and answers before them, may be lost at the same time: one count, which stays used up.
 */
static bool gives_up(struct fv_qp *qp)
{
	if (qp->attr.retry_cnt == 7 && qp->dev->is.retries_for_ever_at_7)
		return false;
	if (!qp->retries_left)
		return true;
	qp->retries_left--;
	return false;
}

static uint64_t ack_timeout_ns(const struct fv_qp *qp)
{
	return UINT64_C(4096) << qp->attr.timeout;
}

static void on_lost(struct fv_qp *qp, struct fv_send *s, uint64_t now)
{
	fv_lab.counts.lost++;
	if (!qp->attr.timeout)
		qp->wait_until = FV_NEVER;
	else if (qp->wait_until && gives_up(qp))
		fail(qp, s, IBV_WC_RETRY_EXC_ERR);
	else
		qp->wait_until = now + ack_timeout_ns(qp);
}

static bool may_begin(const struct fv_qp *qp, const struct fv_send *s, uint64_t now)
{
	if (s->due > now || qp->wait_until > now)
		return false;
	if (s->flags & IBV_SEND_FENCE && qp->n_reads)
		return false;
	return !is_read(s) || !qp->attr.max_rd_atomic || qp->n_reads < qp->attr.max_rd_atomic;
}

/* It arrived, and this end does not hear of it: it goes out again, with the number that it had. */
static bool loses_ack(struct fv_qp *qp, uint32_t psn)
{
	if (!qp->n_lose_acks)
		return false;
	qp->n_lose_acks--;
	qp->send_psn = psn;
	return true;
}

static void on_done(struct fv_qp *qp, struct fv_send *s, uint64_t now)
{
	qp->executed++;
	qp->n_reads += is_read(s);
	qp->wait_until = 0;
	qp->retries_left = qp->attr.retry_cnt;
	qp->rnr_left = qp->attr.rnr_retry;
	acknowledge_at(qp, s, now);
}

/* The next request leaves; false when none may. */
static bool begin_next(struct fv_qp *qp, uint64_t now)
{
	struct fv_send *s = send_at(qp, qp->executed);
	uint32_t psn = qp->send_psn;

	if (qp->state != IBV_QPS_RTS || qp->failing || qp->executed == qp->posted ||
	    !may_begin(qp, s, now))
		return false;
	switch (fv_execute(qp, s)) {
	case FV_DONE:
		if (loses_ack(qp, psn))
			on_lost(qp, s, now);
		else
			on_done(qp, s, now);
		break;
	case FV_FAILED:
		acknowledge_at(qp, s, now);
		fail(qp, s, s->status);
		break;
	case FV_RNR:
		on_rnr(qp, s, now);
		break;
	case FV_LOST:
		on_lost(qp, s, now);
		break;
	}
	return true;
}

/* The bytes of a read move when it is answered. False: the answer got lost and comes again. */
static bool answered(struct fv_qp *qp, struct fv_send *s, uint64_t now)
{
	if (!is_read(s) || s->status != IBV_WC_SUCCESS)
		return true;
	if (fv_answer(qp, s) != FV_LOST)
		return true;
	fv_lab.counts.lost++;
	if (qp->attr.timeout && gives_up(qp)) {
		s->status = IBV_WC_RETRY_EXC_ERR;
		return true;
	}
	s->due = qp->last_ack = qp->attr.timeout ? now + ack_timeout_ns(qp) : FV_NEVER;
	return false;
}

/* The oldest request completes; false when its time has not come. */
static bool complete_next(struct fv_qp *qp, uint64_t now)
{
	struct fv_send *s = send_at(qp, qp->completed);

	if (qp->completed == qp->executed || s->due > now)
		return false;
	if (!answered(qp, s, now))
		return true;
	qp->n_reads -= qp->n_reads && is_read(s);
	tell_sent(qp, qp->completed++, s->status);
	if (s->status != IBV_WC_SUCCESS && qp->state != IBV_QPS_ERR)
		begin_error(qp, now);
	return true;
}

static void tell_drained(struct fv_qp *qp)
{
	if (qp->state != IBV_QPS_SQD || qp->completed != qp->executed || qp->drained_told ||
	    !qp->attr.en_sqd_async_notify)
		return;
	qp->drained_told = true;
	fv_raise_qp(qp, IBV_EVENT_SQ_DRAINED);
}

static bool step(struct fv_qp *qp, uint64_t now)
{
	if (qp->held || qp->state == IBV_QPS_RESET)
		return false;
	if (qp->state == IBV_QPS_ERR)
		return qp->flush_at <= now && flush(qp);
	return complete_next(qp, now) || begin_next(qp, now);
}

static uint64_t next_moment(const struct fv_qp *qp, uint64_t now)
{
	const struct fv_send *done = &qp->sq[qp->completed % qp->init.cap.max_send_wr];
	const struct fv_send *next = &qp->sq[qp->executed % qp->init.cap.max_send_wr];
	uint64_t at = FV_NEVER;

	if (qp->held || qp->state == IBV_QPS_RESET)
		return FV_NEVER;
	if (qp->state == IBV_QPS_ERR)
		return qp->flush_at > now ? qp->flush_at : FV_NEVER;
	if (qp->completed != qp->executed)
		at = done->due;
	if (qp->state == IBV_QPS_RTS && !qp->failing && qp->executed != qp->posted) {
		uint64_t begin = next->due > qp->wait_until ? next->due : qp->wait_until;

		/* Else it waits for a read to complete. */
		if (begin > now && begin < at)
			at = begin;
	}
	return at;
}

void fv_qp_run(struct fv_qp *qp)
{
	uint64_t now = fv_now();

	/* Two ends in one: what the inner call would do the outer one does. */
	if (qp->running)
		return;
	qp->running = true;
	while (step(qp, now))
		;
	tell_drained(qp);
	qp->running = false;
	qp->run_at = next_moment(qp, now);
	if (qp->run_at != FV_NEVER)
		fv_clock_want(qp->run_at);
}
