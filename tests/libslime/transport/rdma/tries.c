/* SPDX-License-Identifier: Apache-2.0 */
/* A link whose ends begin at different times: each tries until the other is there. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "src/transport/rdma/nic.h"
#include "src/transport/rdma/qp.h"
#include "tests/libslime/transport/rdma/tries_fixture.h"

#define LATEST_MS 60  /* begins the one end after the other */
#define MEET_MS	  300 /* of tries that last 12 */

/* ---- links ---- */

/* How long after the second began; at most MEET_MS. */
static unsigned time_to_meet(unsigned apart_ms)
{
	struct rdma_pair p;
	unsigned ms = 0;

	tries_begin(&p, "fake0;fake1");
	tries_connect(&p.a, &p.b);
	for (unsigned i = 0; i < apart_ms; i++)
		tries_step(&p);
	tries_connect(&p.b, &p.a);
	while (ms < MEET_MS && !(slime_op_test(p.a.op) && slime_op_test(p.b.op))) {
		tries_step(&p);
		ms++;
	}
	tries_release_time();
	rdma_pair_close(&p);
	return ms;
}

static void connect__meets_a_peer_that_begins_at_any_time(void **state)
{
	(void)state;
	for (unsigned apart_ms = 0; apart_ms <= LATEST_MS; apart_ms += 5) {
		unsigned ms = time_to_meet(apart_ms);

		if (ms == MEET_MS)
			fail_msg("%u ms apart they do not meet", apart_ms);
		assert_int_equal(fakeverbs_check(), 0);
	}
}

/* What a says, whose time of a second is over. */
static struct slime_endpoint_info meet_nobody(struct rdma_pair *p, const char *devices)
{
	uint8_t desc[SLIME_ENDPOINT_DESC_MAX];
	struct slime_endpoint_info info;
	int len;

	tries_begin(p, devices);
	len = slime_endpoint_export(p->b.ep, desc, sizeof(desc));
	assert_true(len > 0);
	assert_ok(slime_endpoint_connect(p->a.ep, desc, (size_t)len, 1000, p->a.op));
	while (!slime_op_test(p->a.op))
		tries_step(p);
	slime_endpoint_info(p->a.ep, &info);
	return info;
}

static void connect__that_meets_nobody_says_what_the_last_try_failed_with(void **state)
{
	struct slime_endpoint_info info;
	struct rdma_pair p;

	(void)state;
	info = meet_nobody(&p, "fake0;fake1");
	rdma_assert_says(&info, "the peer did not come up in time; the last try: fake0: transport "
				"retry counter exceeded");
	tries_end(&p);
}

static void connect__that_meets_nobody_over_four_rails_says_why_of_each(void **state)
{
	struct slime_endpoint_info info;
	struct rdma_pair p;

	(void)state;
	info = meet_nobody(&p, "fake0,fake1,fake2,fake3;fake4,fake5,fake0,fake1");
	for (unsigned i = 0; i < 4; i++) {
		char why[160];

		snprintf(why, sizeof(why),
			 "; rail %u: fake%u: transport retry counter exceeded (vendor 0x8c): the "
			 "peer does not answer: gone, unreachable, or packets are lost",
			 i, i);
		rdma_assert_says(&info, why);
	}
	tries_end(&p);
}

/* Of irdma's. */
static void connect__whose_queue_pair_cannot_be_reset_ends_after_its_try(void **state)
{
	struct slime_endpoint_info info;
	struct rdma_pair p;

	(void)state;
	tries_begin(&p, "fake0;fake2");
	fakeverbs_device(0)->cannot_reset = true;
	tries_connect(&p.a, &p.b);
	while (!slime_op_test(p.a.op))
		tries_step(&p);
	assert_int_equal(slime_op_status(p.a.op), -ECONNRESET);
	slime_endpoint_info(p.a.ep, &info);
	rdma_assert_says(&info, "transport retry counter exceeded");
	tries_end(&p);
}

/* As when the subnet manager has not given it yet: its queue pair does not leave RESET before. */
static void connect__of_a_port_without_its_partition_key_waits_for_it(void **state)
{
	uint16_t *pkey = &fakeverbs_device(0)->ports[0].pkeys[0], given;
	struct rdma_pair p;
	uint64_t n;

	(void)state;
	tries_begin(&p, "fake0;fake2");
	given = *pkey;
	*pkey = 0;
	n = fakeverbs_counts().calls[FAKEVERBS_MODIFY_QP];
	tries_connect(&p.a, &p.b);
	while (!slime_op_test(p.a.op) && fakeverbs_counts().calls[FAKEVERBS_MODIFY_QP] < n + 3)
		tries_step(&p);
	assert_false(slime_op_test(p.a.op));
	*pkey = given;
	tries_connect(&p.b, &p.a);
	while (!slime_op_test(p.a.op) || !slime_op_test(p.b.op))
		tries_step(&p);
	assert_ok(slime_op_status(p.a.op));
	assert_ok(slime_op_status(p.b.op));
	tries_end(&p);
}

/* Of two rails the first cannot be brought up a second time: what was posted on the other, in the
 * try before, is known to be flushed. */
static void close__after_a_try_that_could_not_begin_takes_no_time(void **state)
{
	struct rdma_pair p;
	uint64_t n;

	(void)state;
	tries_begin(&p, "fake0,fake1;fake2,fake3");
	tries_connect(&p.a, &p.b);
	tries_do_all(&p);
	n = fakeverbs_counts().calls[FAKEVERBS_MODIFY_QP];
	fakeverbs_fail_call_of(FAKEVERBS_MODIFY_QP, 3, ETIMEDOUT); /* to RTR */
	while (fakeverbs_counts().calls[FAKEVERBS_MODIFY_QP] < n + 3)
		tries_step(&p);
	assert_true(fakeverbs_failed());
	assert_true(tries_has_links(&p.a));
	slime_endpoint_close(p.a.ep);
	tries_do_all(&p);
	assert_false(tries_has_links(&p.a));
	tries_end(&p);
}

static void connect_both(struct rdma_pair *p)
{
	tries_connect(&p->a, &p->b);
	tries_connect(&p->b, &p->a);
	while (!slime_op_test(p->a.op) || !slime_op_test(p->b.op))
		tries_step(p);
	assert_ok(slime_op_status(p->a.op));
	assert_ok(slime_op_status(p->b.op));
}

/* Whether its receives are flushed before it is to end, or after that. */
static void close__of_a_queue_pair_that_takes_no_marker_takes_no_time(void **state)
{
	(void)state;
	for (unsigned flushed = 0; flushed < 2; flushed++) {
		struct rdma_pair p;

		tries_begin(&p, "fake0;fake2");
		fakeverbs_device(0)->refuses_in_error = true;
		connect_both(&p);
		if (flushed)
			fakeverbs_raise_qp(0, tries_only_qp(0), IBV_EVENT_QP_FATAL);
		else
			slime_endpoint_close(p.a.ep);
		tries_do_all(&p);
		assert_false(tries_has_links(&p.a));
		tries_end(&p);
	}
}

/* ---- a peer that is up first ---- */

static int (*poll_cq)(struct ibv_cq *cq, int n, struct ibv_wc *wc);
static struct ibv_context *loses_acks;

/* What a sent there arrived, and a is not told so. */
static int poll_without_acks(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	int got = poll_cq(cq, n, wc);

	for (int i = 0; i < got; i++) {
		if (cq->context == loses_acks && wc[i].status == IBV_WC_SUCCESS &&
		    wc[i].opcode == IBV_WC_SEND)
			wc[i].status = IBV_WC_RETRY_EXC_ERR;
	}
	return got;
}

/* Of three rails the first passes nothing from b to a. It has brought a's READY, which a cannot
 * know: a rests. b is about to greet over the second: to let that go is the test's. */
static void begin_with_lost_acks(struct rdma_pair *p)
{
	tries_begin(p, "fake0,fake1,fake4;fake2,fake3,fake5");
	loses_acks = tries_transport_of(&p->a)->nics[0]->device.ibv;
	poll_cq = loses_acks->ops.poll_cq;
	loses_acks->ops.poll_cq = poll_without_acks;
	fakeverbs_raise(2, IBV_EVENT_PORT_ERR, 1); /* b prefers the second */
	tries_do_all(p);
	fakeverbs_hold_qp(3, tries_only_qp(3), true);
	tries_connect(&p->b, &p->a);
	tries_await(p, &p->b, RDMA_CONN_GREETING);
	tries_connect(&p->a, &p->b);
	tries_await(p, &p->a, RDMA_CONN_RESTING);
}

/* And see what a makes of it, in the time that there is. */
static void let_peer_up(struct rdma_pair *p)
{
	fakeverbs_hold_qp(3, tries_only_qp(3), false);
	while (!slime_op_test(p->a.op) || !slime_op_test(p->b.op))
		rdma_poll(p);
}

static void end_with_lost_acks(struct rdma_pair *p)
{
	loses_acks->ops.poll_cq = poll_cq;
	tries_release_time();
	assert_ok(rdma_write_now(p, LEN, 1));
	rdma_exchange_a_message(p);
	rdma_pair_close(p);
	assert_int_equal(fakeverbs_check(), 0);
}

/* It says at once that it does not use the first. */
static void connect__that_rests_hears_a_peer_that_is_up(void **state)
{
	struct rdma_pair p;

	(void)state;
	begin_with_lost_acks(&p);
	let_peer_up(&p);
	assert_ok(slime_op_status(p.b.op));
	assert_ok(slime_op_status(p.a.op));
	end_with_lost_acks(&p);
}

/* Where no path is, its device looks for one for seconds. */
static void connect__that_brings_a_rail_up_hears_a_peer_that_is_up(void **state)
{
	struct rdma_pair p;

	(void)state;
	begin_with_lost_acks(&p);
	tries_begin_to_bring_up(&p);
	let_peer_up(&p);
	assert_ok(slime_op_status(p.b.op));
	assert_ok(slime_op_status(p.a.op));
	assert_int_equal(rdma_state(tries_conn_of(&p.a)), RDMA_CONN_UP);
	rdma_busy_end();
	tries_do_all(&p);
	end_with_lost_acks(&p);
}

/* It greets at once, which cannot be posted: the next greeting waits for the worker. */
static void connect__that_cannot_greet_while_it_brings_a_rail_up_greets_later(void **state)
{
	struct ibv_context *second;
	struct rdma_pair p;

	(void)state;
	begin_with_lost_acks(&p);
	tries_begin_to_bring_up(&p);
	second = tries_transport_of(&p.a)->nics[1]->device.ibv;
	tries_refuse_post(second);
	fakeverbs_hold_qp(3, tries_only_qp(3), false);
	while (tries_conn_of(&p.a)->n_early == 0)
		rdma_poll(&p);
	assert_true(tries_has_refused(second));
	for (unsigned i = 0; i < 100; i++) {
		tries_tick();
		rdma_poll(&p);
	}
	assert_int_equal(rdma_state(tries_conn_of(&p.a)), RDMA_CONN_BRINGING_UP);
	rdma_busy_end();
	while (!slime_op_test(p.a.op))
		tries_step(&p);
	assert_ok(slime_op_status(p.a.op));
	assert_ok(slime_op_status(p.b.op));
	end_with_lost_acks(&p);
}

static uint64_t n_steps(void)
{
	return fakeverbs_counts().calls[FAKEVERBS_MODIFY_QP];
}

/* The link is up meanwhile, and the queue pair of the third is taken down: the worker leaves it as
 * it is. */
static void rail__that_ends_while_another_is_brought_up_is_not_brought_up_with_it(void **state)
{
	const struct rdma_path *first, *third;
	struct rdma_pair p;
	uint64_t before;

	(void)state;
	begin_with_lost_acks(&p);
	tries_begin_to_bring_up(&p);
	let_peer_up(&p);
	first = &tries_conn_of(&p.a)->paths[0];
	third = &tries_conn_of(&p.a)->paths[2];
	while (tries_conn_of(&p.b)->paths[0].state != RDMA_PATH_STOPPED)
		rdma_poll(&p);
	before = n_steps();
	fakeverbs_raise(4, IBV_EVENT_PORT_ERR, 1);
	while (third->state == RDMA_PATH_UP) {
		tries_tick();
		rdma_poll(&p);
	}
	rdma_busy_end();
	while (first->state != RDMA_PATH_DOWN || third->state != RDMA_PATH_DOWN)
		rdma_poll(&p);
	/* RESET, INIT, RTR, RTS and ERR of the first; ERR of the third, and there. */
	assert_int_equal(n_steps() - before, 5 + 2);
	end_with_lost_acks(&p);
}

static bool second_stands(const struct rdma_end *e)
{
	enum rdma_path_state state = tries_conn_of(e)->paths[1].state;

	return state == RDMA_PATH_STANDING || state == RDMA_PATH_GREETING;
}

/* Its receives are flushed. */
static void break_second_rail(const struct rdma_end *e)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct ibv_qp *qp = tries_conn_of(e)->paths[1].qps[0]->ibv;

	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	(void)slime_context_poll(e->ctx);
}

/* As soon as b's READY would be heard there. */
static void step_until_both_are_up(struct rdma_pair *p)
{
	while (!second_stands(&p->a))
		tries_step(p);
	fakeverbs_hold_qp(3, tries_only_qp(3), false);
	while (!slime_op_test(p->a.op) || !slime_op_test(p->b.op))
		tries_step(p);
	assert_ok(slime_op_status(p->b.op));
	assert_ok(slime_op_status(p->a.op));
}

static void assert_says_its_own(const struct rdma_end *e)
{
	struct slime_rail_info info[RDMA_RAILS_MAX];

	assert_true(slime_endpoint_rails(e->ep, info, RDMA_RAILS_MAX) > 0);
	assert_non_null(strstr(info[0].error, "fake0"));
}

static void rail__that_breaks_while_the_link_rests_is_brought_up_again(void **state)
{
	struct rdma_pair p;

	(void)state;
	begin_with_lost_acks(&p);
	assert_true(second_stands(&p.a));
	break_second_rail(&p.a);
	fakeverbs_raise(0, IBV_EVENT_PORT_ERR, 1); /* a prefers it, too */
	assert_false(second_stands(&p.a));
	step_until_both_are_up(&p);
	assert_says_its_own(&p.a);
	end_with_lost_acks(&p);
}

static void rail__that_breaks_while_another_is_brought_up_is_so_again(void **state)
{
	struct rdma_pair p;

	(void)state;
	begin_with_lost_acks(&p);
	tries_begin_to_bring_up(&p);
	assert_true(second_stands(&p.a));
	break_second_rail(&p.a);
	assert_false(second_stands(&p.a));
	rdma_busy_end();
	step_until_both_are_up(&p);
	end_with_lost_acks(&p);
}

/* And so is a link that is closed before the worker is done. */
static void close__while_a_rail_is_brought_up_waits_for_that(void **state)
{
	struct rdma_pair p;

	(void)state;
	begin_with_lost_acks(&p);
	tries_begin_to_bring_up(&p);
	let_peer_up(&p);
	slime_endpoint_close(p.a.ep);
	while (tries_has_links(&p.b))
		rdma_poll(&p);
	assert_true(tries_has_links(&p.a));
	rdma_busy_end();
	while (tries_has_links(&p.a))
		tries_step(&p);
	loses_acks->ops.poll_cq = poll_cq;
	tries_end(&p);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(connect__meets_a_peer_that_begins_at_any_time),
		cmocka_unit_test(connect__that_meets_nobody_says_what_the_last_try_failed_with),
		cmocka_unit_test(connect__that_meets_nobody_over_four_rails_says_why_of_each),
		cmocka_unit_test(connect__whose_queue_pair_cannot_be_reset_ends_after_its_try),
		cmocka_unit_test(connect__of_a_port_without_its_partition_key_waits_for_it),
		cmocka_unit_test(close__after_a_try_that_could_not_begin_takes_no_time),
		cmocka_unit_test(close__of_a_queue_pair_that_takes_no_marker_takes_no_time),
		cmocka_unit_test(connect__that_rests_hears_a_peer_that_is_up),
		cmocka_unit_test(connect__that_brings_a_rail_up_hears_a_peer_that_is_up),
		cmocka_unit_test(connect__that_cannot_greet_while_it_brings_a_rail_up_greets_later),
		cmocka_unit_test(
			rail__that_ends_while_another_is_brought_up_is_not_brought_up_with_it),
		cmocka_unit_test(rail__that_breaks_while_the_link_rests_is_brought_up_again),
		cmocka_unit_test(rail__that_breaks_while_another_is_brought_up_is_so_again),
		cmocka_unit_test(close__while_a_rail_is_brought_up_waits_for_that),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
