/* SPDX-License-Identifier: Apache-2.0 */
/* The fake's devices: queues, events, and what no machine here has. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fakes/fakeverbs/fixture.h"

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

static void post_send__in_error_is_flushed_or_refused(void **state)
{
	struct pair *p = *state;
	struct request r;

	assert_ok(qp_to_error(p->a.qp));
	post(p, IBV_WR_RDMA_WRITE, 0, 0, 8);
	assert_wc(&p->a, IBV_WC_WR_FLUSH_ERR);
	fakeverbs_device(0)->refuses_in_error = true;
	request_init(p, &r, IBV_WR_RDMA_WRITE, 0, 0, 8);
	assert_int_equal(request_post(&p->a, &r), EINVAL);
	assert_no_wc(&p->a);
}

static void queue_pair__that_cannot_be_reset_is_in_error_for_good(void **state)
{
	struct pair *p = *state;
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RESET };

	fakeverbs_device(0)->cannot_reset = true;
	assert_ok(ibv_modify_qp(p->a.qp, &a, IBV_QP_STATE));
	assert_int_equal(qp_state(p->a.qp), IBV_QPS_ERR);
	assert_int_equal(qp_to_init(p->a.qp), EINVAL);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_PAIR(post_send__has_room_only_after_a_poll),
		IN_PAIR(post_send__beyond_the_capabilities_is_invalid),
		IN_PAIR(post_send__in_error_is_flushed_or_refused),
		IN_PAIR(queue_pair__that_cannot_be_reset_is_in_error_for_good),
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
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
