/* SPDX-License-Identifier: Apache-2.0 */
/* What tests can do with the fake and with no device: time, faults, calls that fail, counts. */
#include <arpa/inet.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fakes/fakeverbs.h"
#include "tests/fakes/fakeverbs/pair.h"

#define US UINT64_C(1000)
#define MS (1000 * US)

static int begin(void **state)
{
	(void)state;
	fakeverbs_reset();
	return 0;
}

/* Nothing is left, nothing was wrong. */
static int end(void **state)
{
	(void)state;
	return fakeverbs_check() ? -1 : 0;
}

static int open_pair(void **state)
{
	begin(state);
	*state = pair_open(NULL);
	return 0;
}

static int close_pair(void **state)
{
	pair_close(*state);
	return end(state);
}

/* Time stands still, requests take 10 us each way. */
static int open_still_pair(void **state)
{
	open_pair(state);
	fakeverbs_hold_time(true);
	fakeverbs_set_delay(10 * US, 10 * US, 1);
	return 0;
}

/* ---- time ---- */

static void delay__of_both_ways_passes_before_a_completion(void **state)
{
	struct pair *p = *state;

	fill(&p->a, 0, 100, 1);
	post(p, IBV_WR_RDMA_WRITE, 0, 0, 100);
	fakeverbs_advance(9 * US);
	assert_int_equal(p->b.bytes[1], 0);
	fakeverbs_advance(1 * US);
	assert_filled(&p->b, 0, 100, 1);
	assert_no_wc(&p->a);
	fakeverbs_advance(10 * US);
	assert_wc(&p->a, IBV_WC_SUCCESS);
	assert_false(fakeverbs_step());
}

static void step__goes_from_one_event_to_the_next(void **state)
{
	struct pair *p = *state;

	post(p, IBV_WR_RDMA_WRITE, 0, 0, 100);
	assert_true(fakeverbs_step());
	assert_no_wc(&p->a);
	assert_true(fakeverbs_step());
	assert_wc(&p->a, IBV_WC_SUCCESS);
	assert_false(fakeverbs_step());
}

static void delay__reorders_queue_pairs_and_not_requests_of_one(void **state)
{
	struct pair *p = *state;
	struct pair *other = pair_open(NULL);
	uint64_t last[2] = { 0, 0 };
	unsigned overtaken = 0;

	fakeverbs_set_delay(1 * US, 100 * US, 7);
	for (uint64_t i = 1; i <= 20; i++) {
		struct request r;

		request_init(p, &r, IBV_WR_RDMA_WRITE, 0, 0, 8);
		r.wr.wr_id = i;
		assert_ok(request_post(&p->a, &r));
		request_init(other, &r, IBV_WR_RDMA_WRITE, 0, 0, 8);
		r.wr.wr_id = i;
		assert_ok(request_post(&other->a, &r));
	}
	while (fakeverbs_step()) {
		struct ibv_wc wc;

		if (ibv_poll_cq(p->a.cq, 1, &wc) == 1)
			assert_int_equal(wc.wr_id, ++last[0]);
		if (ibv_poll_cq(other->a.cq, 1, &wc) == 1)
			assert_int_equal(wc.wr_id, ++last[1]);
		overtaken += last[1] > last[0];
	}
	assert_true(overtaken > 0);
	while (last[0] < 20)
		assert_int_equal(next_wc(&p->a).wr_id, ++last[0]);
	while (last[1] < 20)
		assert_int_equal(next_wc(&other->a).wr_id, ++last[1]);
	pair_close(other);
}

static void clock__brings_what_is_due_to_a_sleeper(void **state)
{
	struct pair *p = *state;
	struct ibv_cq *cq;
	void *arg;

	fakeverbs_set_delay(2 * MS, 2 * MS, 1);
	assert_ok(ibv_req_notify_cq(p->a.cq, 0));
	post(p, IBV_WR_RDMA_WRITE, 0, 0, 100);
	assert_no_wc(&p->a);
	assert_ok(ibv_get_cq_event(p->a.channel, &cq, &arg));
	ibv_ack_cq_events(cq, 1);
	assert_wc(&p->a, IBV_WC_SUCCESS);
}

static void flush__takes_its_time_and_nothing_lands_after_the_error_state(void **state)
{
	struct pair *p = *state;

	fill(&p->b, 0, 100, 3);
	post(p, IBV_WR_RDMA_READ, 0, 0, 100);
	fakeverbs_advance(10 * US);
	assert_ok(qp_to_error(p->a.qp));
	assert_no_wc(&p->a);
	fakeverbs_advance(10 * US);
	assert_wc(&p->a, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(p->a.bytes[1], 0);
}

static void error_state__flushes_receives_posted_later(void **state)
{
	struct pair *p = *state;

	assert_ok(qp_to_error(p->a.qp));
	assert_ok(post_recv(&p->a, 3, 0, 8));
	assert_int_equal(next_wc(&p->a).wr_id, 3);
}

static void rnr__is_tried_again_as_often_as_allowed(void **state)
{
	struct pair_attr attr = PAIR_ATTR_INIT;
	struct pair *p;

	(void)state;
	attr.rnr_retry = 2;
	p = pair_open(&attr);
	fakeverbs_hold_time(true);
	post(p, IBV_WR_SEND, 0, 0, 100);
	fakeverbs_advance(2 * 640 * US - 1);
	assert_no_wc(&p->a);
	assert_int_equal(fakeverbs_counts().rnr_naks, 2);
	fakeverbs_advance(1);
	assert_int_equal(fakeverbs_counts().rnr_naks, 3);
	assert_wc(&p->a, IBV_WC_RNR_RETRY_EXC_ERR);
	pair_close(p);
}

static void rnr__with_7_retries_waits_for_ever(void **state)
{
	struct pair_attr attr = PAIR_ATTR_INIT;
	struct pair *p;

	(void)state;
	attr.rnr_retry = 7;
	p = pair_open(&attr);
	fakeverbs_hold_time(true);
	post(p, IBV_WR_SEND, 0, 0, 100);
	fakeverbs_advance(1000 * MS);
	assert_no_wc(&p->a);
	assert_true(fakeverbs_counts().rnr_naks > 1000);
	assert_ok(post_recv(&p->b, 1, 0, 100));
	fakeverbs_advance(640 * US);
	assert_wc(&p->a, IBV_WC_SUCCESS);
	pair_close(p);
}

static void cut__exhausts_the_retries_in_their_time(void **state)
{
	struct pair *p = *state; /* timeout 8 is 1.05 ms, 2 retries */
	const uint64_t timeout = 4096 << 8;

	fakeverbs_set_delay(0, 0, 0);
	fakeverbs_set_cut(0, 1, true);
	post(p, IBV_WR_RDMA_WRITE, 0, 0, 100);
	fakeverbs_advance(3 * timeout - 1);
	assert_no_wc(&p->a);
	fakeverbs_advance(1);
	assert_wc(&p->a, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(fakeverbs_counts().lost, 4);
}

static void cut__that_ends_in_time_loses_nothing(void **state)
{
	struct pair *p = *state;

	fill(&p->a, 0, 100, 1);
	fakeverbs_set_cut(0, 1, true);
	post(p, IBV_WR_RDMA_WRITE, 0, 0, 100);
	fakeverbs_advance(1 * MS);
	fakeverbs_set_cut(0, 1, false);
	fakeverbs_advance(2 * MS);
	assert_wc(&p->a, IBV_WC_SUCCESS);
	assert_filled(&p->b, 0, 100, 1);
}

/* ---- order ---- */

/* A read of b's bytes, then a write over them: what the read brought. */
static uint8_t read_then_write(struct pair *p, unsigned flags)
{
	struct request r;

	p->b.bytes[0] = 1;
	p->a.bytes[100] = 2;
	post(p, IBV_WR_RDMA_READ, 0, 0, 1);
	request_init(p, &r, IBV_WR_RDMA_WRITE, 100, 0, 1);
	r.wr.send_flags |= flags;
	assert_ok(request_post(&p->a, &r));
	fakeverbs_advance(1 * MS);
	assert_int_equal(next_wc(&p->a).opcode, IBV_WC_RDMA_READ);
	assert_int_equal(next_wc(&p->a).opcode, IBV_WC_RDMA_WRITE);
	return p->a.bytes[0];
}

static void fence__keeps_a_write_behind_a_read(void **state)
{
	assert_int_equal(read_then_write(*state, IBV_SEND_FENCE), 1);
	assert_int_equal(read_then_write(*state, 0), 2);
}

static void reads__beyond_max_rd_atomic_wait(void **state)
{
	struct pair *p = *state; /* 4 at a time */

	for (int i = 0; i < 5; i++)
		post(p, IBV_WR_RDMA_READ, 0, 0, 8);
	fakeverbs_advance(20 * US);
	for (int i = 0; i < 4; i++)
		assert_wc(&p->a, IBV_WC_SUCCESS);
	assert_no_wc(&p->a);
	fakeverbs_advance(10 * US);
	assert_wc(&p->a, IBV_WC_SUCCESS);
}

static void hold__freezes_one_queue_pair(void **state)
{
	struct pair *p = *state;

	fakeverbs_hold_qp(0, p->a.qp->qp_num, true);
	post(p, IBV_WR_RDMA_WRITE, 0, 0, 8);
	assert_ok(qp_to_error(p->a.qp));
	assert_no_wc(&p->a);
	fakeverbs_hold_qp(0, p->a.qp->qp_num, false);
	assert_wc(&p->a, IBV_WC_WR_FLUSH_ERR);
}

static void completion__is_dropped_or_doubled_when_told(void **state)
{
	struct pair *p = *state;

	fakeverbs_drop_completion(0, p->a.qp->qp_num);
	post(p, IBV_WR_RDMA_WRITE, 0, 0, 8);
	assert_no_wc(&p->a);
	fakeverbs_duplicate_completion(0, p->a.qp->qp_num);
	post(p, IBV_WR_RDMA_READ, 0, 0, 8);
	assert_int_equal(next_wc(&p->a).wr_id, IBV_WR_RDMA_READ);
	assert_int_equal(next_wc(&p->a).wr_id, IBV_WR_RDMA_READ);
	assert_no_wc(&p->a);
}

/* ---- queues ---- */

static void post_send__has_room_only_after_a_poll(void **state)
{
	struct pair *p = *state;
	struct request r;

	for (uint32_t i = 0; i < p->attr.max_send_wr; i++)
		post(p, IBV_WR_RDMA_WRITE, 0, 0, 8);
	request_init(p, &r, IBV_WR_RDMA_WRITE, 0, 0, 8);
	assert_int_equal(request_post(&p->a, &r), ENOMEM);
	assert_wc(&p->a, IBV_WC_SUCCESS);
	assert_ok(request_post(&p->a, &r));
}

static void post_send__beyond_the_capabilities_is_invalid(void **state)
{
	struct pair *p = *state;
	struct ibv_sge sges[5] = { { 0 } };
	struct request r;

	request_init(p, &r, IBV_WR_RDMA_WRITE, 0, 0, p->attr.max_inline + 1);
	r.wr.send_flags |= IBV_SEND_INLINE;
	assert_int_equal(request_post(&p->a, &r), EINVAL);
	request_init(p, &r, IBV_WR_RDMA_WRITE, 0, 0, 8);
	r.wr.sg_list = sges;
	r.wr.num_sge = 5;
	assert_int_equal(request_post(&p->a, &r), EINVAL);
}

static void write__beyond_max_msg_sz_is_a_local_length_error(void **state)
{
	struct pair *p;

	(void)state;
	fakeverbs_device(0)->ports[0].max_msg_sz = 4096;
	p = pair_open(NULL);
	post(p, IBV_WR_RDMA_WRITE, 0, 0, 4096);
	assert_wc(&p->a, IBV_WC_SUCCESS);
	post(p, IBV_WR_RDMA_WRITE, 0, 0, 4097);
	assert_wc(&p->a, IBV_WC_LOC_LEN_ERR);
	pair_close(p);
}

static void last_wqe__is_told_of_a_shared_receive_queue(void **state)
{
	struct pair_attr attr = PAIR_ATTR_INIT;
	struct pair *p;

	(void)state;
	attr.srq = true;
	p = pair_open(&attr);
	assert_ok(post_recv(&p->b, 1, 0, 8));
	assert_ok(qp_to_error(p->b.qp));
	assert_int_equal(next_event(&p->b), IBV_EVENT_QP_LAST_WQE_REACHED);
	assert_no_wc(&p->b);
	pair_close(p);
}

static void remote_access_error__ends_the_responder_with_an_event(void **state)
{
	struct pair *p = *state;
	struct request r;

	request_init(p, &r, IBV_WR_RDMA_WRITE, 0, 0, 8);
	r.wr.wr.rdma.rkey ^= 0x100;
	assert_ok(request_post(&p->a, &r));
	assert_wc(&p->a, IBV_WC_REM_ACCESS_ERR);
	await_event(&p->b, IBV_EVENT_QP_ACCESS_ERR);
	assert_int_equal(qp_state(p->b.qp), IBV_QPS_ERR);
}

static void queue_pairs__of_two_devices_have_the_same_numbers(void **state)
{
	struct pair *p = *state;
	uint32_t number;

	assert_int_equal(p->a.qp->qp_num, p->b.qp->qp_num);
	assert_int_equal(fakeverbs_qps(0, &number, 1), 1);
	assert_int_equal(number, p->a.qp->qp_num);
	assert_ok(ibv_destroy_qp(p->a.qp));
	p->a.qp = qp_new(p, &p->a);
	assert_int_equal(number, p->a.qp->qp_num);
}

static void completions__of_a_queue_pair_that_is_gone_stay_or_go(void **state)
{
	struct pair *p = *state;

	for (int i = 0; i < 2; i++) {
		fakeverbs_device(0)->forgets_completions = i;
		post(p, IBV_WR_RDMA_WRITE, 0, 0, 8);
		assert_ok(ibv_destroy_qp(p->a.qp));
		if (i)
			assert_no_wc(&p->a);
		else
			assert_wc(&p->a, IBV_WC_SUCCESS);
		assert_ok(ibv_destroy_qp(p->b.qp));
		p->a.qp = qp_new(p, &p->a);
		p->b.qp = qp_new(p, &p->b);
		pair_connect(p);
	}
}

/* ---- events ---- */

static void port__that_goes_down_is_told_and_loses_packets(void **state)
{
	struct pair *p = *state;

	fakeverbs_set_port_state(0, 1, IBV_PORT_DOWN);
	assert_int_equal(next_event(&p->a), IBV_EVENT_PORT_ERR);
	assert_ok(ibv_query_port(p->a.ctx, 1, &p->a.port));
	assert_int_equal(p->a.port.state, IBV_PORT_DOWN);
	post(p, IBV_WR_RDMA_WRITE, 0, 0, 8);
	fakeverbs_set_port_state(0, 1, IBV_PORT_ACTIVE);
	assert_int_equal(next_event(&p->a), IBV_EVENT_PORT_ACTIVE);
	fakeverbs_advance(2 * MS);
	assert_wc(&p->a, IBV_WC_SUCCESS);
	assert_false(is_readable(p->b.ctx->async_fd));
}

static void gid__that_changes_is_told(void **state)
{
	struct pair *p = *state;
	union ibv_gid gid = fakeverbs_gid("10.88.0.99"), is;

	fakeverbs_set_gid(0, 1, 5, &gid, IBV_GID_TYPE_ROCE_V2);
	assert_int_equal(next_event(&p->a), IBV_EVENT_GID_CHANGE);
	assert_ok(ibv_query_gid(p->a.ctx, 1, 5, &is));
	assert_memory_equal(&is, &gid, sizeof(is));
}

static void device__that_dies_flushes_and_refuses(void **state)
{
	struct pair *p = *state;

	assert_ok(post_recv(&p->a, 1, 0, 8));
	fakeverbs_kill_device(0);
	assert_int_equal(next_event(&p->a), IBV_EVENT_DEVICE_FATAL);
	assert_wc(&p->a, IBV_WC_WR_FLUSH_ERR);
	assert_null(ibv_alloc_pd(p->a.ctx));
	assert_int_equal(errno, EIO);
}

static void queue_pair__fatal_error_is_told_and_flushes(void **state)
{
	struct pair *p = *state;

	assert_ok(post_recv(&p->a, 1, 0, 8));
	fakeverbs_raise_qp(0, p->a.qp->qp_num, IBV_EVENT_QP_FATAL);
	assert_int_equal(next_event(&p->a), IBV_EVENT_QP_FATAL);
	assert_wc(&p->a, IBV_WC_WR_FLUSH_ERR);
}

/* ---- what only hardware has ---- */

static void infiniband__routes_by_lid_within_a_subnet(void **state)
{
	struct pair *p;

	(void)state;
	fakeverbs_make_infiniband(0, 11, 0xfe80000000000000);
	fakeverbs_make_infiniband(1, 12, 0xfe80000000000000);
	p = pair_open(NULL);
	post(p, IBV_WR_RDMA_WRITE, 0, 0, 8);
	assert_wc(&p->a, IBV_WC_SUCCESS);
	pair_close(p);
}

static void infiniband__between_subnets_needs_a_global_route(void **state)
{
	struct pair *p;

	(void)state;
	fakeverbs_make_infiniband(0, 11, 0xfe80000000000000);
	fakeverbs_make_infiniband(1, 12, 0xfe80000000000001);
	p = pair_open(NULL);
	post(p, IBV_WR_RDMA_WRITE, 0, 0, 8);
	assert_wc(&p->a, IBV_WC_RETRY_EXC_ERR);
	pair_close(p);
}

static void dmabuf__is_registered_where_the_device_can(void **state)
{
	struct pair *p;
	int fd = memfd_create("dmabuf", MFD_CLOEXEC);
	uint8_t *gpu;
	struct ibv_mr *mr;
	struct request r;

	(void)state;
	assert_ok(ftruncate(fd, 8192));
	gpu = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	p = pair_open(NULL);
	assert_null(ibv_reg_dmabuf_mr(p->b.pd, 0, 8192, 0x1000, fd, ALL_ACCESS));
	assert_int_equal(errno, EOPNOTSUPP);
	fakeverbs_device(1)->dmabuf_errno = 0;
	mr = ibv_reg_dmabuf_mr(p->b.pd, 4096, 4096, 0x1000, fd, ALL_ACCESS);
	assert_non_null(mr);
	p->a.bytes[0] = 42;
	request_init(p, &r, IBV_WR_RDMA_WRITE, 0, 0, 1);
	r.wr.wr.rdma.remote_addr = 0x1000;
	r.wr.wr.rdma.rkey = mr->rkey;
	assert_ok(request_post(&p->a, &r));
	assert_wc(&p->a, IBV_WC_SUCCESS);
	assert_int_equal(gpu[4096], 42);
	assert_ok(ibv_dereg_mr(mr));
	pair_close(p);
	munmap(gpu, 8192);
	close(fd);
}

static void device_memory__needs_the_peer_memory_module(void **state)
{
	static uint8_t backing[8192];
	struct pair *p = pair_open(NULL);
	void *gpu = mmap(NULL, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr;
	struct request r;

	(void)state;
	fakeverbs_add_device_memory(gpu, 8192, backing);
	assert_null(ibv_reg_mr(p->b.pd, gpu, 8192, ALL_ACCESS));
	assert_int_equal(errno, EFAULT);
	fakeverbs_device(1)->has_peer_memory = true;
	mr = ibv_reg_mr(p->b.pd, gpu, 8192, ALL_ACCESS);
	assert_non_null(mr);
	p->a.bytes[0] = 42;
	request_init(p, &r, IBV_WR_RDMA_WRITE, 0, 0, 1);
	r.wr.wr.rdma.remote_addr = (uintptr_t)gpu + 100;
	r.wr.wr.rdma.rkey = mr->rkey;
	assert_ok(request_post(&p->a, &r));
	assert_wc(&p->a, IBV_WC_SUCCESS);
	assert_int_equal(backing[100], 42);
	assert_ok(ibv_dereg_mr(mr));
	pair_close(p);
	munmap(gpu, 8192);
}

static void on_demand__region_is_not_pinned(void **state)
{
	struct pair *p;
	struct ibv_mr *mr;

	(void)state;
	fakeverbs_device(0)->max_pinned = 65536;
	p = pair_open(NULL);
	assert_null(ibv_reg_mr(p->a.pd, p->a.bytes, 4096, ALL_ACCESS));
	assert_int_equal(errno, ENOMEM);
	assert_null(ibv_reg_mr(p->a.pd, p->a.bytes, 4096, ALL_ACCESS | IBV_ACCESS_ON_DEMAND));
	assert_int_equal(errno, EOPNOTSUPP);
	fakeverbs_device(0)->odp_caps.general_caps = IBV_ODP_SUPPORT;
	mr = ibv_reg_mr(p->a.pd, p->a.bytes, 4096, ALL_ACCESS | IBV_ACCESS_ON_DEMAND);
	assert_non_null(mr);
	assert_ok(ibv_dereg_mr(mr));
	pair_close(p);
}

/* ---- calls ---- */

/* Everything that a program of verbs does, without a word about what fails: 0 or an errno. */
static int try_scenario(struct ibv_device *dev)
{
	struct ibv_context *ctx = ibv_open_device(dev);
	struct ibv_pd *pd = ctx ? ibv_alloc_pd(ctx) : NULL;
	struct ibv_comp_channel *ch = pd ? ibv_create_comp_channel(ctx) : NULL;
	struct ibv_cq *cq = ch ? ibv_create_cq(ctx, 4, NULL, ch, 0) : NULL;
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 0 }
	};
	struct ibv_qp *qp = cq ? ibv_create_qp(pd, &init) : NULL;
	int err = qp ? qp_to_init(qp) : errno;

	if (!err)
		err = ibv_req_notify_cq(cq, 0);
	if (qp)
		assert_ok(ibv_destroy_qp(qp));
	if (cq)
		assert_ok(ibv_destroy_cq(cq));
	if (ch)
		assert_ok(ibv_destroy_comp_channel(ch));
	if (pd)
		assert_ok(ibv_dealloc_pd(pd));
	if (ctx)
		assert_ok(ibv_close_device(ctx));
	return err;
}

static void fail_call__fails_each_in_turn_and_then_none(void **state)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	unsigned n = 1;

	(void)state;
	for (;; n++) {
		int err;

		fakeverbs_fail_call(n, EDOM);
		err = try_scenario(list[0]);
		assert_int_equal(err, fakeverbs_failed() ? EDOM : 0);
		assert_int_equal(fakeverbs_check(), 0);
		if (!err)
			break;
	}
	assert_int_equal(n, 8); /* seven calls can fail */
	fakeverbs_fail_call_of(FAKEVERBS_CREATE_QP, 1, ENOMEM);
	assert_int_equal(try_scenario(list[0]), ENOMEM);
	assert_true(fakeverbs_failed());
	assert_string_equal(fakeverbs_call_name(fakeverbs_failed_call()), "ibv_create_qp");
	ibv_free_device_list(list);
}

static void counts__tell_calls_and_work(void **state)
{
	struct pair *p = *state;
	struct fakeverbs_counts c;

	fakeverbs_fail_call(7, EIO); /* polls are not among those that fail */
	fakeverbs_reset_counts();
	post(p, IBV_WR_RDMA_WRITE, 0, 0, 1000);
	post(p, IBV_WR_RDMA_WRITE, 0, 0, 1000);
	assert_ok(ibv_req_notify_cq(p->a.cq, 0));
	assert_wc(&p->a, IBV_WC_SUCCESS);
	assert_wc(&p->a, IBV_WC_SUCCESS);
	for (int i = 0; i < 10; i++)
		assert_no_wc(&p->a);
	assert_false(fakeverbs_failed());
	c = fakeverbs_counts();
	assert_int_equal(c.calls[FAKEVERBS_POST_SEND], 2);
	assert_int_equal(c.calls[FAKEVERBS_POLL_CQ], 12);
	assert_int_equal(c.empty_polls, 10);
	assert_int_equal(c.completions, 2);
	assert_int_equal(c.signaled, 2);
	assert_int_equal(c.busy_arms, 1);
	assert_int_equal(c.bytes, 2000);
}

static void check__lists_what_is_left_and_what_was_wrong(void **state)
{
	struct pair *p = pair_open(NULL);
	struct ibv_cq *cq;
	void *arg;

	(void)state;
	assert_int_equal(fakeverbs_check(), 2 * (1 /* context */ + 5));
	assert_ok(ibv_req_notify_cq(p->a.cq, 0));
	post(p, IBV_WR_RDMA_WRITE, 0, 0, 8);
	assert_ok(ibv_get_cq_event(p->a.channel, &cq, &arg));
	fakeverbs_set_patience(1); /* it is never acknowledged */
	pair_close(p);
	assert_int_equal(fakeverbs_check(), 1);
	assert_int_equal(fakeverbs_check(), 0);
}

/* ---- threads ---- */

#define ROUNDS 2000

static void *write_and_poll(void *arg)
{
	struct pair *p = arg;

	for (unsigned i = 0; i < ROUNDS; i++) {
		uint64_t value = i + 1;

		memcpy(p->a.bytes, &value, 8);
		post(p, IBV_WR_RDMA_WRITE, 0, 8, 8);
		assert_wc(&p->a, IBV_WC_SUCCESS);
		/* As a program does that polls memory. */
		assert_int_equal(
			__atomic_load_n((uint64_t *)(void *)(p->b.bytes + 8), __ATOMIC_ACQUIRE),
			value);
	}
	return NULL;
}

static void threads__use_devices_at_the_same_time(void **state)
{
	struct pair *pairs[3];
	pthread_t threads[3];

	(void)state;
	fakeverbs_set_delay(0, 20 * US, 3);
	for (int i = 0; i < 3; i++) {
		pairs[i] = pair_open(NULL);
		assert_ok(pthread_create(&threads[i], NULL, write_and_poll, pairs[i]));
	}
	for (int i = 0; i < 3; i++) {
		assert_ok(pthread_join(threads[i], NULL));
		pair_close(pairs[i]);
	}
}

#define ALONE(fn)	  cmocka_unit_test_setup_teardown(fn, begin, end)
#define IN_PAIR(fn)	  cmocka_unit_test_setup_teardown(fn, open_pair, close_pair)
#define IN_STILL_PAIR(fn) cmocka_unit_test_setup_teardown(fn, open_still_pair, close_pair)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_STILL_PAIR(delay__of_both_ways_passes_before_a_completion),
		IN_STILL_PAIR(step__goes_from_one_event_to_the_next),
		IN_STILL_PAIR(delay__reorders_queue_pairs_and_not_requests_of_one),
		IN_PAIR(clock__brings_what_is_due_to_a_sleeper),
		IN_STILL_PAIR(flush__takes_its_time_and_nothing_lands_after_the_error_state),
		IN_PAIR(error_state__flushes_receives_posted_later),
		ALONE(rnr__is_tried_again_as_often_as_allowed),
		ALONE(rnr__with_7_retries_waits_for_ever),
		IN_STILL_PAIR(cut__exhausts_the_retries_in_their_time),
		IN_STILL_PAIR(cut__that_ends_in_time_loses_nothing),
		IN_STILL_PAIR(fence__keeps_a_write_behind_a_read),
		IN_STILL_PAIR(reads__beyond_max_rd_atomic_wait),
		IN_PAIR(hold__freezes_one_queue_pair),
		IN_PAIR(completion__is_dropped_or_doubled_when_told),
		IN_PAIR(post_send__has_room_only_after_a_poll),
		IN_PAIR(post_send__beyond_the_capabilities_is_invalid),
		ALONE(write__beyond_max_msg_sz_is_a_local_length_error),
		ALONE(last_wqe__is_told_of_a_shared_receive_queue),
		IN_PAIR(remote_access_error__ends_the_responder_with_an_event),
		IN_PAIR(queue_pairs__of_two_devices_have_the_same_numbers),
		IN_PAIR(completions__of_a_queue_pair_that_is_gone_stay_or_go),
		IN_STILL_PAIR(port__that_goes_down_is_told_and_loses_packets),
		IN_PAIR(gid__that_changes_is_told),
		IN_PAIR(device__that_dies_flushes_and_refuses),
		IN_PAIR(queue_pair__fatal_error_is_told_and_flushes),
		ALONE(infiniband__routes_by_lid_within_a_subnet),
		ALONE(infiniband__between_subnets_needs_a_global_route),
		ALONE(dmabuf__is_registered_where_the_device_can),
		ALONE(device_memory__needs_the_peer_memory_module),
		ALONE(on_demand__region_is_not_pinned),
		ALONE(fail_call__fails_each_in_turn_and_then_none),
		IN_PAIR(counts__tell_calls_and_work),
		ALONE(check__lists_what_is_left_and_what_was_wrong),
		ALONE(threads__use_devices_at_the_same_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
