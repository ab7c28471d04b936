/* SPDX-License-Identifier: Apache-2.0 */
/* The fake's time and order: delays, retries, what is held back. */
#include <limits.h>

#include "tests/fakes/fakeverbs/fixture.h"

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

/* Both count: the write gives up first, and fails behind the read. */
static void cut__between_a_read_and_its_answer_ends_the_read_too(void **state)
{
	struct pair *p = *state; /* timeout 8 is 1.05 ms */

	post(p, IBV_WR_RDMA_READ, 0, 0, 100);
	fakeverbs_advance(10 * US);
	fakeverbs_set_cut(0, 1, true);
	post(p, IBV_WR_RDMA_WRITE, 0, 0, 100);
	fakeverbs_advance(100 * MS);
	assert_wc(&p->a, IBV_WC_RETRY_EXC_ERR);
	assert_wc(&p->a, IBV_WC_WR_FLUSH_ERR);
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

/* ---- what is sent again ---- */

static void send__whose_acknowledgement_is_lost_is_sent_again_and_taken_once(void **state)
{
	struct pair *p = *state;
	struct ibv_wc wc;

	for (unsigned i = 1; i <= 3; i++)
		assert_ok(post_recv(&p->b, i, 0, 100));
	fakeverbs_lose_acks(0, p->a.qp->qp_num, 2);
	fill(&p->a, 0, 100, 1);
	post(p, IBV_WR_SEND, 0, 0, 100);
	fakeverbs_advance(10 * US);
	fill(&p->a, 0, 100, 2);
	fakeverbs_advance(10 * MS);
	assert_int_equal(fakeverbs_counts().duplicates, 2);
	assert_wc(&p->a, IBV_WC_SUCCESS);
	wc = next_wc(&p->b);
	assert_int_equal(wc.wr_id, 1);
	assert_filled(&p->b, 0, 100, 1);
	assert_no_wc(&p->b);
	/* And what comes then is taken. */
	post(p, IBV_WR_SEND, 0, 0, 100);
	fakeverbs_advance(10 * MS);
	assert_wc(&p->a, IBV_WC_SUCCESS);
	assert_int_equal(next_wc(&p->b).wr_id, 2);
}

static void write__that_is_sent_again_is_placed_once(void **state)
{
	struct pair *p = *state;

	fakeverbs_lose_acks(0, p->a.qp->qp_num, 1);
	fill(&p->a, 0, 100, 1);
	post(p, IBV_WR_RDMA_WRITE, 0, 0, 100);
	fakeverbs_advance(10 * US);
	assert_filled(&p->b, 0, 100, 1);
	fill(&p->b, 0, 100, 2);
	fakeverbs_advance(10 * MS);
	assert_wc(&p->a, IBV_WC_SUCCESS);
	assert_filled(&p->b, 0, 100, 2);
}

static void read__that_is_sent_again_is_read_again(void **state)
{
	struct pair *p = *state;

	fakeverbs_lose_acks(0, p->a.qp->qp_num, 1);
	fill(&p->b, 0, 5000, 1);
	post(p, IBV_WR_RDMA_READ, 0, 0, 5000);
	fakeverbs_advance(10 * US);
	fill(&p->b, 0, 5000, 2);
	fakeverbs_advance(10 * MS);
	assert_wc(&p->a, IBV_WC_SUCCESS);
	assert_filled(&p->a, 0, 5000, 2);
}

static void atomic__that_is_sent_again_is_done_once_and_told_the_same(void **state)
{
	struct pair *p = *state;
	uint64_t *counter = (uint64_t *)(void *)p->b.bytes;
	uint64_t *was = (uint64_t *)(void *)p->a.bytes;
	struct request r;

	*counter = 40;
	fakeverbs_lose_acks(0, p->a.qp->qp_num, 2);
	request_init(p, &r, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 0, 8);
	r.wr.wr.atomic.compare_add = 2;
	assert_ok(request_post(&p->a, &r));
	fakeverbs_advance(10 * MS);
	assert_wc(&p->a, IBV_WC_SUCCESS);
	assert_int_equal(*was, 40);
	assert_int_equal(*counter, 42);
}

static void acknowledgements__that_are_all_lost_exhaust_the_retries(void **state)
{
	struct pair *p = *state; /* 2 retries */

	assert_ok(post_recv(&p->b, 1, 0, 100));
	fakeverbs_lose_acks(0, p->a.qp->qp_num, UINT_MAX);
	post(p, IBV_WR_SEND, 0, 0, 100);
	fakeverbs_advance(100 * MS);
	assert_wc(&p->a, IBV_WC_RETRY_EXC_ERR);
	assert_wc(&p->b, IBV_WC_SUCCESS);
	assert_no_wc(&p->b);
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
		IN_STILL_PAIR(cut__between_a_read_and_its_answer_ends_the_read_too),
		IN_STILL_PAIR(cut__that_ends_in_time_loses_nothing),
		IN_STILL_PAIR(send__whose_acknowledgement_is_lost_is_sent_again_and_taken_once),
		IN_STILL_PAIR(write__that_is_sent_again_is_placed_once),
		IN_STILL_PAIR(read__that_is_sent_again_is_read_again),
		IN_STILL_PAIR(atomic__that_is_sent_again_is_done_once_and_told_the_same),
		IN_STILL_PAIR(acknowledgements__that_are_all_lost_exhaust_the_retries),
		IN_STILL_PAIR(fence__keeps_a_write_behind_a_read),
		IN_STILL_PAIR(reads__beyond_max_rd_atomic_wait),
		IN_PAIR(hold__freezes_one_queue_pair),
		IN_PAIR(completion__is_dropped_or_doubled_when_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
