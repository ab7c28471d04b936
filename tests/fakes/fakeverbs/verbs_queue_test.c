/* SPDX-License-Identifier: Apache-2.0 */
/* The same as verbs_test.c, of queues: their states, what they tell, and how long they live. */
#include <sys/mman.h>

#include "tests/fakes/fakeverbs/pair.h"

/* ---- states ---- */

static void modify__with_a_wrong_mask_is_invalid(void **state)
{
	struct pair_attr attr = PAIR_ATTR_INIT;
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	struct pair *p;

	(void)state;
	attr.unconnected = true;
	p = pair_open(&attr);
	assert_int_equal(ibv_modify_qp(p->a.qp, &a, IBV_QP_STATE | IBV_QP_PORT), EINVAL);
	assert_int_equal(qp_to_rts(p, p->a.qp, &p->a), EINVAL);
	assert_int_equal(qp_to_rtr(p, p->a.qp, &p->a, &p->b, 1), EINVAL);
	assert_ok(qp_to_init(p->a.qp));
	assert_int_equal(qp_to_rts(p, p->a.qp, &p->a), EINVAL);
	assert_int_equal(p->a.qp->state, IBV_QPS_INIT);
	pair_close(p);
}

static void post__before_its_state_is_invalid(void **state)
{
	struct pair_attr attr = PAIR_ATTR_INIT;
	struct request r;
	struct pair *p;

	(void)state;
	attr.unconnected = true;
	p = pair_open(&attr);
	request_init(p, &r, IBV_WR_RDMA_WRITE, 0, 0, 8);
	assert_int_equal(post_recv(&p->a, 1, 0, 8), EINVAL);
	assert_int_equal(request_post(&p->a, &r), EINVAL);
	assert_ok(qp_to_init(p->a.qp));
	assert_int_equal(request_post(&p->a, &r), EINVAL);
	assert_ok(post_recv(&p->a, 1, 0, 8));
	pair_close(p);
}

static void error_state__flushes_both_queues(void **state)
{
	struct pair *p = *state;

	assert_ok(post_recv(&p->a, 1, 0, 8));
	assert_ok(post_recv(&p->a, 2, 0, 8));
	assert_ok(qp_to_error(p->a.qp));
	post(p, IBV_WR_RDMA_WRITE, 0, 0, 8);
	for (int i = 0; i < 3; i++)
		assert_wc(&p->a, IBV_WC_WR_FLUSH_ERR);
}

static void error_state__of_the_target_is_silence(void **state)
{
	struct pair *p = *state;

	assert_ok(qp_to_error(p->b.qp));
	post(p, IBV_WR_RDMA_WRITE, 0, 0, 8);
	assert_wc(&p->a, IBV_WC_RETRY_EXC_ERR);
}

static void reset__brings_it_back(void **state)
{
	struct pair *p = *state;
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RESET };

	assert_ok(qp_to_error(p->a.qp));
	assert_ok(ibv_modify_qp(p->a.qp, &a, IBV_QP_STATE));
	assert_ok(ibv_modify_qp(p->b.qp, &a, IBV_QP_STATE));
	pair_connect(p);
	fill(&p->a, 0, 100, 1);
	post(p, IBV_WR_RDMA_WRITE, 0, 0, 100);
	assert_wc(&p->a, IBV_WC_SUCCESS);
	assert_filled(&p->b, 0, 100, 1);
}

static void post_recv__beyond_the_depth_names_the_first_that_failed(void **state)
{
	struct pair *p = *state;
	struct ibv_recv_wr wr[400] = { 0 }, *bad = NULL;

	for (int i = 0; i < 400; i++)
		wr[i] = (struct ibv_recv_wr){ .wr_id = (uint64_t)i, .next = &wr[i + 1] };
	wr[399].next = NULL;
	assert_int_equal(ibv_post_recv(p->b.qp, wr, &bad), ENOMEM);
	assert_true(bad >= &wr[p->attr.max_recv_wr]);
}

/* ---- completion queues ---- */

static struct ibv_cq *take_event(struct end *e)
{
	struct ibv_cq *cq;
	void *arg;

	assert_ok(ibv_get_cq_event(e->channel, &cq, &arg));
	assert_ptr_equal(arg, e);
	ibv_ack_cq_events(cq, 1);
	return cq;
}

static void notify__comes_once_for_the_next_completion(void **state)
{
	struct pair *p = *state;

	post(p, IBV_WR_RDMA_WRITE, 0, 0, 8);
	assert_wc(&p->a, IBV_WC_SUCCESS);
	assert_false(is_readable(p->a.channel->fd));

	assert_ok(ibv_req_notify_cq(p->a.cq, 0));
	assert_false(is_readable(p->a.channel->fd));
	post(p, IBV_WR_RDMA_WRITE, 0, 0, 8);
	assert_ptr_equal(take_event(&p->a), p->a.cq);
	post(p, IBV_WR_RDMA_WRITE, 0, 0, 8);
	assert_wc(&p->a, IBV_WC_SUCCESS);
	assert_wc(&p->a, IBV_WC_SUCCESS);
	assert_false(is_readable(p->a.channel->fd));
}

static void notify__of_solicited_ones_ignores_the_others(void **state)
{
	struct pair *p = *state;
	struct request r;

	assert_ok(ibv_req_notify_cq(p->b.cq, 1));
	assert_ok(post_recv(&p->b, 1, 0, 100));
	assert_ok(post_recv(&p->b, 2, 0, 100));
	post(p, IBV_WR_SEND, 0, 0, 100);
	assert_wc(&p->b, IBV_WC_SUCCESS);
	assert_false(is_readable(p->b.channel->fd));

	request_init(p, &r, IBV_WR_SEND, 0, 0, 100);
	r.wr.send_flags |= IBV_SEND_SOLICITED;
	assert_ok(request_post(&p->a, &r));
	assert_wc(&p->b, IBV_WC_SUCCESS);
	take_event(&p->b);
	assert_wc(&p->a, IBV_WC_SUCCESS);
	assert_wc(&p->a, IBV_WC_SUCCESS);
}

static void overrun__is_told(void **state)
{
	struct pair_attr attr = PAIR_ATTR_INIT;
	struct pair *p;

	(void)state;
	attr.cqe = 4;
	p = pair_open(&attr);
	for (int i = 0; i < 16; i++)
		post(p, IBV_WR_RDMA_WRITE, 0, 0, 8);
	await_event(&p->a, IBV_EVENT_CQ_ERR);
	while (is_readable(p->a.ctx->async_fd))
		next_event(&p->a);
	pair_close(p);
}

/* ---- shared receive queues ---- */

static void srq__serves_and_tells_its_limit(void **state)
{
	struct pair_attr attr = PAIR_ATTR_INIT;
	struct ibv_srq_attr limit = { .srq_limit = 2 };
	struct pair *p;

	(void)state;
	attr.srq = true;
	p = pair_open(&attr);
	for (uint64_t i = 0; i < 3; i++)
		assert_ok(post_recv(&p->b, i, i * 100, 100));
	assert_ok(ibv_modify_srq(p->b.srq, &limit, IBV_SRQ_LIMIT));
	fill(&p->a, 0, 100, 6);
	post(p, IBV_WR_SEND, 0, 0, 100);
	post(p, IBV_WR_SEND, 0, 0, 100);
	assert_int_equal(next_wc(&p->b).wr_id, 0);
	assert_int_equal(next_wc(&p->b).wr_id, 1);
	assert_filled(&p->b, 100, 100, 6);
	await_event(&p->b, IBV_EVENT_SRQ_LIMIT_REACHED);
	pair_close(p);
}

/* ---- lives ---- */

static void destroy__of_what_is_used_is_busy(void **state)
{
	struct pair *p = *state;

	assert_int_equal(ibv_destroy_cq(p->a.cq), EBUSY);
	assert_int_equal(ibv_dealloc_pd(p->a.pd), EBUSY);
	assert_int_equal(ibv_destroy_comp_channel(p->a.channel), EBUSY);
}

static void reg_mr__of_what_cannot_be_pinned_fails(void **state)
{
	struct pair *p = *state;
	void *hole = mmap(NULL, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_null(ibv_reg_mr(p->a.pd, hole, 8192, IBV_ACCESS_LOCAL_WRITE));
	assert_int_equal(errno, EFAULT);
	munmap(hole, 8192);
	assert_null(ibv_reg_mr(p->a.pd, hole, 8192, 0));
	assert_int_equal(errno, EFAULT);
	assert_null(ibv_reg_mr(p->a.pd, p->a.bytes, 8192, IBV_ACCESS_REMOTE_WRITE));
	assert_int_equal(errno, EINVAL);
}

static void mr__at_another_address_is_reached_there(void **state)
{
	struct pair *p = *state;
	struct ibv_mr *mr = ibv_reg_mr_iova(p->b.pd, p->b.bytes + 4096, 4096, 0x100000, ALL_ACCESS);
	struct request r;

	if (!mr) {
		print_message("skipped: no regions with an address of their own here\n");
		skip();
	}
	fill(&p->a, 0, 100, 4);
	request_init(p, &r, IBV_WR_RDMA_WRITE, 0, 0, 100);
	r.wr.wr.rdma.remote_addr = 0x100000 + 20;
	r.wr.wr.rdma.rkey = mr->rkey;
	assert_ok(request_post(&p->a, &r));
	assert_wc(&p->a, IBV_WC_SUCCESS);
	assert_filled(&p->b, 4096 + 20, 100, 4);
	assert_ok(ibv_dereg_mr(mr));
}

#define IN_PAIR(fn) cmocka_unit_test_setup_teardown(fn, pair_setup, pair_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(modify__with_a_wrong_mask_is_invalid),
		cmocka_unit_test(post__before_its_state_is_invalid),
		IN_PAIR(error_state__flushes_both_queues),
		IN_PAIR(error_state__of_the_target_is_silence),
		IN_PAIR(reset__brings_it_back),
		IN_PAIR(post_recv__beyond_the_depth_names_the_first_that_failed),
		IN_PAIR(notify__comes_once_for_the_next_completion),
		IN_PAIR(notify__of_solicited_ones_ignores_the_others),
		cmocka_unit_test(overrun__is_told),
		cmocka_unit_test(srq__serves_and_tells_its_limit),
		IN_PAIR(destroy__of_what_is_used_is_busy),
		IN_PAIR(reg_mr__of_what_cannot_be_pinned_fails),
		IN_PAIR(mr__at_another_address_is_reached_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
