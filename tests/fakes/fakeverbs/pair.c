/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fakes/fakeverbs/pair.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

#define PATIENCE_NS (30 * SL_NS_PER_S)

/* ---- ends ---- */

/* RoCE v2 of an IPv4 address, as everybody has one; InfiniBand has index 0. */
static void choose_gid(struct end *e)
{
	struct ibv_gid_entry g;

	if (e->port.link_layer == IBV_LINK_LAYER_INFINIBAND) {
		assert_ok(ibv_query_gid(e->ctx, 1, 0, &e->gid));
		return;
	}
	for (uint32_t i = 0; i < 16; i++) {
		if (ibv_query_gid_ex(e->ctx, 1, i, &g, 0) || g.gid_type != IBV_GID_TYPE_ROCE_V2)
			continue;
		if (g.gid.raw[10] != 0xff)
			continue;
		e->gid_index = (uint8_t)i;
		e->gid = g.gid;
		return;
	}
	fail_msg("no RoCE v2 address");
}

static void end_open(struct pair *p, struct end *e, struct ibv_device *dev, bool srq)
{
	struct ibv_srq_init_attr srq_init = { .attr = { .max_wr = p->attr.max_recv_wr,
							.max_sge = p->attr.max_sge } };

	e->ctx = ibv_open_device(dev);
	assert_non_null(e->ctx);
	assert_ok(ibv_query_port(e->ctx, 1, &e->port));
	choose_gid(e);
	e->pd = ibv_alloc_pd(e->ctx);
	e->channel = ibv_create_comp_channel(e->ctx);
	assert_non_null(e->pd);
	assert_non_null(e->channel);
	e->cq = ibv_create_cq(e->ctx, p->attr.cqe, e, e->channel, 0);
	assert_non_null(e->cq);
	e->bytes = aligned_alloc(4096, p->attr.len);
	memset(e->bytes, 0, p->attr.len);
	e->mr = ibv_reg_mr(e->pd, e->bytes, p->attr.len, ALL_ACCESS);
	assert_non_null(e->mr);
	if (srq) {
		e->srq = ibv_create_srq(e->pd, &srq_init);
		assert_non_null(e->srq);
	}
	e->qp = qp_new(p, e);
	e->psn = (uint32_t)(uintptr_t)e & 0xffff;
}

static void end_close(struct end *e)
{
	if (e->qp)
		assert_ok(ibv_destroy_qp(e->qp));
	if (e->srq)
		assert_ok(ibv_destroy_srq(e->srq));
	if (e->mr)
		assert_ok(ibv_dereg_mr(e->mr));
	assert_ok(ibv_destroy_cq(e->cq));
	assert_ok(ibv_destroy_comp_channel(e->channel));
	assert_ok(ibv_dealloc_pd(e->pd));
	assert_ok(ibv_close_device(e->ctx));
	free(e->bytes);
}

struct ibv_qp *qp_new(struct pair *p, struct end *e)
{
	struct ibv_qp_init_attr init = { .send_cq = e->cq,
					 .recv_cq = e->cq,
					 .srq = e->srq,
					 .qp_type = IBV_QPT_RC,
					 .cap = { .max_send_wr = p->attr.max_send_wr,
						  .max_recv_wr = p->attr.max_recv_wr,
						  .max_send_sge = p->attr.max_sge,
						  .max_recv_sge = p->attr.max_sge,
						  .max_inline_data = p->attr.max_inline } };
	struct ibv_qp *qp = ibv_create_qp(e->pd, &init);

	assert_non_null(qp);
	assert_true(init.cap.max_send_wr >= p->attr.max_send_wr);
	assert_true(init.cap.max_inline_data >= p->attr.max_inline);
	return qp;
}

int qp_to_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT,
				 .port_num = 1,
				 .qp_access_flags = ALL_ACCESS };

	return ibv_modify_qp(qp, &a,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

int qp_to_rtr(struct pair *p, struct ibv_qp *qp, const struct end *local, const struct end *remote,
	      uint32_t dest_qp_num)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTR,
				 .path_mtu = local->port.active_mtu < remote->port.active_mtu
						     ? local->port.active_mtu
						     : remote->port.active_mtu,
				 .dest_qp_num = dest_qp_num,
				 .rq_psn = remote->psn,
				 .max_dest_rd_atomic = p->attr.max_rd_atomic,
				 .min_rnr_timer = p->attr.min_rnr_timer };

	if (local == &p->b)
		a.rq_psn += p->attr.wrong_psn;
	a.ah_attr.port_num = 1;
	a.ah_attr.dlid = remote->port.lid;
	a.ah_attr.is_global = local->port.link_layer == IBV_LINK_LAYER_ETHERNET;
	a.ah_attr.grh.dgid = remote->gid;
	a.ah_attr.grh.sgid_index = local->gid_index;
	a.ah_attr.grh.hop_limit = 64;
	return ibv_modify_qp(qp, &a,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				     IBV_QP_MIN_RNR_TIMER);
}

int qp_to_rts(struct pair *p, struct ibv_qp *qp, const struct end *local)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTS,
				 .timeout = p->attr.timeout,
				 .retry_cnt = p->attr.retry_cnt,
				 .rnr_retry = p->attr.rnr_retry,
				 .sq_psn = local->psn,
				 .max_rd_atomic = p->attr.max_rd_atomic };

	return ibv_modify_qp(qp, &a,
			     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

int qp_to_error(struct ibv_qp *qp)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_ERR };

	return ibv_modify_qp(qp, &a, IBV_QP_STATE);
}

enum ibv_qp_state qp_state(struct ibv_qp *qp)
{
	struct ibv_qp_attr a;
	struct ibv_qp_init_attr init;

	assert_ok(ibv_query_qp(qp, &a, IBV_QP_STATE, &init));
	return a.qp_state;
}

void pair_connect(struct pair *p)
{
	assert_ok(qp_to_init(p->a.qp));
	assert_ok(qp_to_init(p->b.qp));
	assert_ok(qp_to_rtr(p, p->a.qp, &p->a, &p->b, p->b.qp->qp_num));
	assert_ok(qp_to_rtr(p, p->b.qp, &p->b, &p->a, p->a.qp->qp_num));
	assert_ok(qp_to_rts(p, p->a.qp, &p->a));
	assert_ok(qp_to_rts(p, p->b.qp, &p->b));
}

struct pair *pair_open(const struct pair_attr *attr)
{
	static const struct pair_attr defaults = PAIR_ATTR_INIT;
	struct pair *p = calloc(1, sizeof(*p));
	int n;
	struct ibv_device **list = ibv_get_device_list(&n);

	assert_non_null(list);
	assert_true(n > 0);
	p->attr = attr ? *attr : defaults;
	end_open(p, &p->a, list[0], false);
	end_open(p, &p->b, list[n > 1], p->attr.srq);
	ibv_free_device_list(list);
	if (!p->attr.unconnected)
		pair_connect(p);
	return p;
}

void pair_close(struct pair *p)
{
	end_close(&p->a);
	end_close(&p->b);
	free(p);
}

int pair_setup(void **state)
{
	*state = pair_open(NULL);
	return 0;
}

int pair_teardown(void **state)
{
	pair_close(*state);
	return 0;
}

/* ---- requests ---- */

void request_init(struct pair *p, struct request *r, enum ibv_wr_opcode opcode, uint64_t offset,
		  uint64_t remote_offset, uint32_t len)
{
	uint64_t remote = (uintptr_t)p->b.bytes + remote_offset;

	memset(r, 0, sizeof(*r));
	r->sge = (struct ibv_sge){ .addr = (uintptr_t)p->a.bytes + offset,
				   .length = len,
				   .lkey = p->a.mr->lkey };
	r->wr.wr_id = opcode;
	r->wr.sg_list = &r->sge;
	r->wr.num_sge = 1;
	r->wr.opcode = opcode;
	r->wr.send_flags = IBV_SEND_SIGNALED;
	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		r->wr.wr.atomic.remote_addr = remote;
		r->wr.wr.atomic.rkey = p->b.mr->rkey;
	} else {
		r->wr.wr.rdma.remote_addr = remote;
		r->wr.wr.rdma.rkey = p->b.mr->rkey;
	}
}

int request_post(struct end *e, struct request *r)
{
	struct ibv_send_wr *bad;

	return ibv_post_send(e->qp, &r->wr, &bad);
}

void post(struct pair *p, enum ibv_wr_opcode opcode, uint64_t offset, uint64_t remote_offset,
	  uint32_t len)
{
	struct request r;

	request_init(p, &r, opcode, offset, remote_offset, len);
	assert_ok(request_post(&p->a, &r));
}

int post_recv(struct end *e, uint64_t wr_id, uint64_t offset, uint32_t len)
{
	struct ibv_sge sge = { .addr = (uintptr_t)e->bytes + offset,
			       .length = len,
			       .lkey = e->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = len ? 1 : 0 }, *bad;

	return e->srq ? ibv_post_srq_recv(e->srq, &wr, &bad) : ibv_post_recv(e->qp, &wr, &bad);
}

/* ---- what comes back ---- */

struct ibv_wc next_wc(struct end *e)
{
	uint64_t end = sl_clock_ns() + PATIENCE_NS;
	struct ibv_wc wc;
	int n;

	while (!(n = ibv_poll_cq(e->cq, 1, &wc)))
		if (sl_clock_ns() > end)
			fail_msg("no completion");
	assert_int_equal(n, 1);
	return wc;
}

void assert_no_wc(struct end *e)
{
	struct ibv_wc wc;

	assert_int_equal(ibv_poll_cq(e->cq, 1, &wc), 0);
}

bool is_readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

enum ibv_event_type next_event(struct end *e)
{
	struct pollfd p = { .fd = e->ctx->async_fd, .events = POLLIN };
	struct ibv_async_event event;

	assert_int_equal(poll(&p, 1, PATIENCE_NS / SL_NS_PER_MS), 1);
	assert_ok(ibv_get_async_event(e->ctx, &event));
	ibv_ack_async_event(&event);
	return event.event_type;
}

void await_event(struct end *e, enum ibv_event_type type)
{
	while (next_event(e) != type)
		;
}

void fill(struct end *e, uint64_t offset, size_t len, uint8_t seed)
{
	for (size_t i = 0; i < len; i++)
		e->bytes[offset + i] = (uint8_t)(seed + i * 7 + (i >> 8));
}

void assert_filled(const struct end *e, uint64_t offset, size_t len, uint8_t seed)
{
	for (size_t i = 0; i < len; i++)
		if (e->bytes[offset + i] != (uint8_t)(seed + i * 7 + (i >> 8)))
			fail_msg("byte %zu is 0x%02x", i, e->bytes[offset + i]);
}
