/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every RDMA device does, by verbs alone: the program is built with fakeverbs, and without it
 * for devices that are there, so that the fake keeps to what it stands for.
 */
#include <arpa/inet.h>
#include <string.h>

#include "tests/fakes/fakeverbs/pair.h"

/* ---- what moves ---- */

static void write__places_the_bytes_and_completes(void **state)
{
	struct pair *p = *state;
	struct ibv_wc wc;

	fill(&p->a, 0, 20000, 1);
	post(p, IBV_WR_RDMA_WRITE, 0, 30000, 20000);

	wc = next_wc(&p->a);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RDMA_WRITE);
	assert_int_equal(wc.wr_id, IBV_WR_RDMA_WRITE);
	assert_int_equal(wc.qp_num, p->a.qp->qp_num);
	assert_filled(&p->b, 30000, 20000, 1);
	assert_int_equal(p->b.bytes[29999], 0);
	assert_int_equal(p->b.bytes[50000], 0);
	assert_no_wc(&p->b);
}

static void read__fetches_the_bytes(void **state)
{
	struct pair *p = *state;
	struct ibv_wc wc;

	fill(&p->b, 100, 30000, 9);
	post(p, IBV_WR_RDMA_READ, 8, 100, 30000);

	wc = next_wc(&p->a);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RDMA_READ);
	assert_filled(&p->a, 8, 30000, 9);
}

static void write_with_imm__takes_a_receive_and_brings_the_number(void **state)
{
	struct pair *p = *state;
	struct request r;
	struct ibv_wc wc;

	assert_ok(post_recv(&p->b, 77, 0, 0));
	fill(&p->a, 0, 3000, 3);
	request_init(p, &r, IBV_WR_RDMA_WRITE_WITH_IMM, 0, 500, 3000);
	r.wr.imm_data = htonl(0xfeedf00d);
	assert_ok(request_post(&p->a, &r));

	wc = next_wc(&p->b);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(wc.wr_id, 77);
	assert_int_equal(wc.byte_len, 3000);
	assert_true(wc.wc_flags & IBV_WC_WITH_IMM);
	assert_int_equal(ntohl(wc.imm_data), 0xfeedf00d);
	assert_int_equal(wc.qp_num, p->b.qp->qp_num);
	assert_filled(&p->b, 500, 3000, 3);
	assert_wc(&p->a, IBV_WC_SUCCESS);
}

static void send__fills_the_oldest_receive(void **state)
{
	struct pair *p = *state;
	struct request r;
	struct ibv_wc wc;

	assert_ok(post_recv(&p->b, 1, 0, 8192));
	assert_ok(post_recv(&p->b, 2, 8192, 8192));
	fill(&p->a, 0, 5000, 5);
	post(p, IBV_WR_SEND, 0, 0, 5000);
	request_init(p, &r, IBV_WR_SEND_WITH_IMM, 0, 0, 0);
	r.wr.imm_data = htonl(4711);
	assert_ok(request_post(&p->a, &r));

	wc = next_wc(&p->b);
	assert_int_equal(wc.opcode, IBV_WC_RECV);
	assert_int_equal(wc.wr_id, 1);
	assert_int_equal(wc.byte_len, 5000);
	assert_false(wc.wc_flags & IBV_WC_WITH_IMM);
	assert_filled(&p->b, 0, 5000, 5);
	wc = next_wc(&p->b);
	assert_int_equal(wc.wr_id, 2);
	assert_int_equal(wc.byte_len, 0);
	assert_int_equal(ntohl(wc.imm_data), 4711);
	assert_int_equal(next_wc(&p->a).opcode, IBV_WC_SEND);
	assert_wc(&p->a, IBV_WC_SUCCESS);
}

static void atomics__change_the_target_and_return_what_was(void **state)
{
	struct pair *p = *state;
	uint64_t *counter = (uint64_t *)(void *)p->b.bytes;
	uint64_t *was = (uint64_t *)(void *)p->a.bytes;
	struct request r;

	*counter = 40;
	request_init(p, &r, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 0, 8);
	r.wr.wr.atomic.compare_add = 2;
	assert_ok(request_post(&p->a, &r));
	assert_int_equal(next_wc(&p->a).opcode, IBV_WC_FETCH_ADD);
	assert_int_equal(*was, 40);
	assert_int_equal(*counter, 42);

	request_init(p, &r, IBV_WR_ATOMIC_CMP_AND_SWP, 0, 0, 8);
	r.wr.wr.atomic.compare_add = 42;
	r.wr.wr.atomic.swap = 7;
	assert_ok(request_post(&p->a, &r));
	assert_int_equal(next_wc(&p->a).opcode, IBV_WC_COMP_SWAP);
	assert_int_equal(*was, 42);
	assert_int_equal(*counter, 7);
}

static void write__gathers_and_send_scatters(void **state)
{
	struct pair *p = *state;
	uint64_t base = (uintptr_t)p->a.bytes, to = (uintptr_t)p->b.bytes;
	struct ibv_sge from[3] = { { base, 1000, p->a.mr->lkey },
				   { base + 1000, 1, p->a.mr->lkey },
				   { base + 1001, 2999, p->a.mr->lkey } };
	struct ibv_sge into[2] = { { to + 10000, 7, p->b.mr->lkey },
				   { to + 10007, 4000, p->b.mr->lkey } };
	struct ibv_recv_wr recv = { .sg_list = into, .num_sge = 2 }, *bad;
	struct request r;

	fill(&p->a, 0, 4000, 8);
	request_init(p, &r, IBV_WR_RDMA_WRITE, 0, 0, 0);
	r.wr.sg_list = from;
	r.wr.num_sge = 3;
	assert_ok(request_post(&p->a, &r));
	assert_wc(&p->a, IBV_WC_SUCCESS);
	assert_filled(&p->b, 0, 4000, 8);

	assert_ok(ibv_post_recv(p->b.qp, &recv, &bad));
	r.wr.opcode = IBV_WR_SEND;
	assert_ok(request_post(&p->a, &r));
	assert_wc(&p->a, IBV_WC_SUCCESS);
	assert_int_equal(next_wc(&p->b).byte_len, 4000);
	assert_filled(&p->b, 10000, 4000, 8);
}

static void inline_write__takes_the_payload_at_the_post(void **state)
{
	struct pair *p = *state;
	uint8_t stack[64]; /* in no region */
	struct request r;

	memset(stack, 1, sizeof(stack));
	request_init(p, &r, IBV_WR_RDMA_WRITE, 0, 0, sizeof(stack));
	r.sge.addr = (uintptr_t)stack;
	r.sge.lkey = 0;
	r.wr.send_flags |= IBV_SEND_INLINE;
	assert_ok(request_post(&p->a, &r));
	memset(stack, 2, sizeof(stack));

	assert_wc(&p->a, IBV_WC_SUCCESS);
	assert_int_equal(p->b.bytes[0], 1);
	assert_int_equal(p->b.bytes[63], 1);
}

static void chain__with_one_signaled_completes_once(void **state)
{
	struct pair *p = *state;
	struct request r[8];
	struct ibv_send_wr *bad;
	struct ibv_wc wc;

	fill(&p->a, 0, 8000, 2);
	for (unsigned i = 0; i < 8; i++) {
		request_init(p, &r[i], IBV_WR_RDMA_WRITE, i * 1000, i * 1000, 1000);
		r[i].wr.wr_id = i;
		r[i].wr.next = i < 7 ? &r[i + 1].wr : NULL;
		r[i].wr.send_flags = i < 7 ? 0 : IBV_SEND_SIGNALED;
	}
	assert_ok(ibv_post_send(p->a.qp, &r[0].wr, &bad));

	wc = next_wc(&p->a);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.wr_id, 7);
	assert_filled(&p->b, 0, 8000, 2);
	assert_no_wc(&p->a);
}

static void write__of_nothing_needs_no_region(void **state)
{
	struct pair *p = *state;
	struct request r;

	request_init(p, &r, IBV_WR_RDMA_WRITE, 0, 0, 0);
	r.wr.num_sge = 0;
	r.wr.wr.rdma.rkey = 0;
	r.wr.wr.rdma.remote_addr = 0;
	assert_ok(request_post(&p->a, &r));
	assert_wc(&p->a, IBV_WC_SUCCESS);
}

/* ---- what is refused ---- */

/* As soft-RoCE calls it, by kernel, is fine, too: bits of statuses. */
#define BIT(status)  (1u << (status))
#define LOCAL_ERRORS (BIT(IBV_WC_LOC_QP_OP_ERR) | BIT(IBV_WC_WR_FLUSH_ERR))

/* The request fails like that, and everything after it is flushed. */
static void expect_failure_or(struct pair *p, struct request *r, enum ibv_wc_status status,
			      unsigned others)
{
	struct ibv_wc wc;

	assert_ok(request_post(&p->a, r));
	wc = next_wc(&p->a);
	assert_true((others | BIT(status)) & BIT(wc.status));
	assert_int_equal(wc.wr_id, r->wr.wr_id);
	assert_int_equal(wc.qp_num, p->a.qp->qp_num);
	assert_int_equal(qp_state(p->a.qp), IBV_QPS_ERR);
	post(p, IBV_WR_RDMA_WRITE, 0, 0, 8);
	assert_wc(&p->a, IBV_WC_WR_FLUSH_ERR);
}

static void expect_failure(struct pair *p, struct request *r, enum ibv_wc_status status)
{
	expect_failure_or(p, r, status, 0);
}

static void write__with_a_wrong_rkey_is_a_remote_access_error(void **state)
{
	struct pair *p = *state;
	struct request r;

	request_init(p, &r, IBV_WR_RDMA_WRITE, 0, 0, 100);
	r.wr.wr.rdma.rkey ^= 0x5500;
	expect_failure(p, &r, IBV_WC_REM_ACCESS_ERR);
}

static void read__beyond_the_region_is_a_remote_access_error(void **state)
{
	struct pair *p = *state;
	struct request r;

	request_init(p, &r, IBV_WR_RDMA_READ, 0, 65536 - 99, 100);
	expect_failure(p, &r, IBV_WC_REM_ACCESS_ERR);
}

static void write__to_a_region_for_reading_is_a_remote_access_error(void **state)
{
	struct pair *p = *state;
	struct ibv_mr *mr = ibv_reg_mr(p->b.pd, p->b.bytes, 4096, IBV_ACCESS_REMOTE_READ);
	struct request r;

	assert_non_null(mr);
	request_init(p, &r, IBV_WR_RDMA_WRITE, 0, 0, 100);
	r.wr.wr.rdma.rkey = mr->rkey;
	expect_failure(p, &r, IBV_WC_REM_ACCESS_ERR);
	assert_ok(ibv_dereg_mr(mr));
}

static void write__to_a_region_of_another_domain_is_a_remote_access_error(void **state)
{
	struct pair *p = *state;
	struct ibv_pd *pd = ibv_alloc_pd(p->b.ctx);
	struct ibv_mr *mr = ibv_reg_mr(pd, p->b.bytes, 4096, ALL_ACCESS);
	struct request r;

	assert_non_null(mr);
	request_init(p, &r, IBV_WR_RDMA_WRITE, 0, 0, 100);
	r.wr.wr.rdma.rkey = mr->rkey;
	expect_failure(p, &r, IBV_WC_REM_ACCESS_ERR);
	assert_ok(ibv_dereg_mr(mr));
	assert_ok(ibv_dealloc_pd(pd));
}

static void write__to_a_region_that_went_away_is_a_remote_access_error(void **state)
{
	struct pair *p = *state;
	struct request r;

	request_init(p, &r, IBV_WR_RDMA_WRITE, 0, 0, 100);
	assert_ok(ibv_dereg_mr(p->b.mr));
	p->b.mr = NULL;
	assert_ok(request_post(&p->a, &r));
	assert_wc(&p->a, IBV_WC_REM_ACCESS_ERR);
}

static void write__from_a_wrong_lkey_is_a_local_protection_error(void **state)
{
	struct pair *p = *state;
	struct request r;

	request_init(p, &r, IBV_WR_RDMA_WRITE, 0, 0, 100);
	r.sge.lkey ^= 0x5500;
	expect_failure_or(p, &r, IBV_WC_LOC_PROT_ERR, LOCAL_ERRORS);
}

static void write__from_beyond_the_region_is_a_local_protection_error(void **state)
{
	struct pair *p = *state;
	struct request r;

	request_init(p, &r, IBV_WR_RDMA_WRITE, 65536 - 99, 0, 100);
	expect_failure_or(p, &r, IBV_WC_LOC_PROT_ERR, LOCAL_ERRORS);
}

static void send__longer_than_the_receive_fails_on_both_sides(void **state)
{
	struct pair *p = *state;
	struct request r;

	assert_ok(post_recv(&p->b, 5, 0, 99));
	request_init(p, &r, IBV_WR_SEND, 0, 0, 100);
	expect_failure_or(p, &r, IBV_WC_REM_INV_REQ_ERR, BIT(IBV_WC_REM_OP_ERR));
	assert_int_not_equal(next_wc(&p->b).status, IBV_WC_SUCCESS);
}

static void send__without_a_receive_fails_when_no_retries_are_allowed(void **state)
{
	struct pair_attr attr = PAIR_ATTR_INIT;
	struct pair *p;

	(void)state;
	attr.rnr_retry = 0;
	p = pair_open(&attr);
	post(p, IBV_WR_SEND, 0, 0, 100);
	assert_wc(&p->a, IBV_WC_RNR_RETRY_EXC_ERR);
	pair_close(p);
}

static void send__before_its_receive_waits_for_it(void **state)
{
	struct pair_attr attr = PAIR_ATTR_INIT;
	struct pair *p;

	(void)state;
	attr.rnr_retry = 7;
	p = pair_open(&attr);
	post(p, IBV_WR_SEND, 0, 0, 100);
	assert_no_wc(&p->a);
	assert_ok(post_recv(&p->b, 1, 0, 100));
	assert_wc(&p->a, IBV_WC_SUCCESS);
	assert_wc(&p->b, IBV_WC_SUCCESS);
	pair_close(p);
}

static void write__to_nobody_exhausts_the_retries(void **state)
{
	struct pair *p = *state;

	assert_ok(ibv_destroy_qp(p->b.qp));
	p->b.qp = NULL;
	post(p, IBV_WR_RDMA_WRITE, 0, 0, 100);
	assert_wc(&p->a, IBV_WC_RETRY_EXC_ERR);
}

static void write__with_a_wrong_sequence_number_never_arrives(void **state)
{
	struct pair_attr attr = PAIR_ATTR_INIT;
	struct pair *p;

	(void)state;
	attr.wrong_psn = 100;
	p = pair_open(&attr);
	fill(&p->a, 0, 100, 1);
	post(p, IBV_WR_RDMA_WRITE, 0, 0, 100);
	assert_wc(&p->a, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(p->b.bytes[1], 0);
	pair_close(p);
}

/* As one does that begins anew, with the number that it began with. */
static void begin_anew(struct pair *p, struct end *e, const struct end *other)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RESET };

	assert_ok(ibv_modify_qp(e->qp, &a, IBV_QP_STATE));
	assert_ok(qp_to_init(e->qp));
	assert_ok(qp_to_rtr(p, e->qp, e, other, other->qp->qp_num));
	assert_ok(qp_to_rts(p, e->qp, e));
}

static void send__with_a_number_that_was_taken_is_acknowledged_and_not_taken_again(void **state)
{
	struct pair *p = *state;

	assert_ok(post_recv(&p->b, 1, 0, 100));
	assert_ok(post_recv(&p->b, 2, 0, 100));
	fill(&p->a, 0, 100, 1);
	post(p, IBV_WR_SEND, 0, 0, 100);
	assert_wc(&p->a, IBV_WC_SUCCESS);
	assert_int_equal(next_wc(&p->b).wr_id, 1);
	begin_anew(p, &p->a, &p->b);
	fill(&p->a, 0, 100, 2);
	post(p, IBV_WR_SEND, 0, 0, 100);
	assert_wc(&p->a, IBV_WC_SUCCESS);
	assert_no_wc(&p->b);
	assert_filled(&p->b, 0, 100, 1);
	/* The next one is, of the number behind. */
	post(p, IBV_WR_SEND, 0, 0, 100);
	assert_wc(&p->a, IBV_WC_SUCCESS);
	assert_int_equal(next_wc(&p->b).wr_id, 2);
	assert_filled(&p->b, 0, 100, 2);
}

#define IN_PAIR(fn) cmocka_unit_test_setup_teardown(fn, pair_setup, pair_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_PAIR(write__places_the_bytes_and_completes),
		IN_PAIR(read__fetches_the_bytes),
		IN_PAIR(write_with_imm__takes_a_receive_and_brings_the_number),
		IN_PAIR(send__fills_the_oldest_receive),
		IN_PAIR(atomics__change_the_target_and_return_what_was),
		IN_PAIR(write__gathers_and_send_scatters),
		IN_PAIR(inline_write__takes_the_payload_at_the_post),
		IN_PAIR(chain__with_one_signaled_completes_once),
		IN_PAIR(write__of_nothing_needs_no_region),
		IN_PAIR(write__with_a_wrong_rkey_is_a_remote_access_error),
		IN_PAIR(read__beyond_the_region_is_a_remote_access_error),
		IN_PAIR(write__to_a_region_for_reading_is_a_remote_access_error),
		IN_PAIR(write__to_a_region_of_another_domain_is_a_remote_access_error),
		IN_PAIR(write__to_a_region_that_went_away_is_a_remote_access_error),
		IN_PAIR(write__from_a_wrong_lkey_is_a_local_protection_error),
		IN_PAIR(write__from_beyond_the_region_is_a_local_protection_error),
		IN_PAIR(send__longer_than_the_receive_fails_on_both_sides),
		cmocka_unit_test(send__without_a_receive_fails_when_no_retries_are_allowed),
		cmocka_unit_test(send__before_its_receive_waits_for_it),
		IN_PAIR(write__to_nobody_exhausts_the_retries),
		IN_PAIR(send__with_a_number_that_was_taken_is_acknowledged_and_not_taken_again),
		cmocka_unit_test(write__with_a_wrong_sequence_number_never_arrives),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
