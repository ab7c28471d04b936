/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was under way on a rail that ends: nothing is executed twice, late, or in another order, and
 * nothing that was is lost.
 */
#include <string.h>

#include "base/clock.h"
#include "base/wire.h"
#include "src/transport/rdma/conn.h"
#include "src/transport/rdma/path.h"
#include "src/transport/rdma/qp.h"
#include "src/transport/rdma/share.h"
#include "src/transport/rdma/wire.h"
#include "tests/libslime/transport/rdma/rails_fixture.h"

#define NEWER 0xee

/* ---- what is under way ---- */

/* From here on each request, and each acknowledgement, moves with one go_on(). */
static void stop_time(void)
{
	rdma_settle(&rails.pair);
	fakeverbs_hold_time(true);
	fakeverbs_set_delay(1000, 1000, 1);
}

static void go_on(void)
{
	fakeverbs_step();
	rdma_settle(&rails.pair);
}

static void release_time(void)
{
	fakeverbs_set_delay(0, 0, 1);
	fakeverbs_hold_time(false);
}

/* Nothing is on the way. Where the machine is busy a rail is found slow that is not, and would have
 * nothing of the next batch. */
static void forget_shares(const struct rdma_end *e)
{
	struct rdma_conn *c = rdma_endpoint_conn(e->ep);

	for (unsigned i = 0; i < RAILS; i++) {
		rdma_share_reset(&c->paths[i].share);
		c->paths[i].weight = RDMA_SHARE_WHOLE;
	}
}

static int write_imm(uint64_t len, uint32_t flags, uint32_t imm)
{
	struct slime_xfer x = rdma_a_and_b(&rails.pair, 0, 0, len);
	static struct slime_xfer xfers[3];

	xfers[imm % 3] = x;
	return slime_write_imm(rails.pair.a.ep, &xfers[imm % 3], 1, flags, imm,
			       rails.sends[imm % 3]);
}

/* ---- messages ---- */

static void message__that_arrived_is_not_sent_again(void **state)
{
	(void)state;
	rails_post_recv(0);
	rails_post_recv(1);
	stop_time();
	rails_send_value(0, 1);
	while (!slime_op_test(rails.recvs[0]))
		go_on();
	/* Its acknowledgement is under way, and so is what b answers. */
	rails_set_port(0, false);
	rails_settle_workers();
	release_time();
	rails_await(0, SLIME_RAIL_DOWN);
	assert_ok(rdma_wait(&rails.pair, rails.sends[0]));
	rdma_settle(&rails.pair);
	assert_false(slime_op_test(rails.recvs[1]));
	rails_send_value(1, 2);
	rails_assert_got(0, 1);
	rails_assert_got(1, 2);
}

static void message__that_was_lost_arrives_before_newer_ones(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 3; i++)
		rails_post_recv(i);
	rails_cut(0, true);
	rails_send_value(0, 1);
	rails_send_value(1, 2);
	rails_set_port(0, false);
	rdma_poll(&rails.pair);
	rails_send_value(2, 3);
	for (unsigned i = 0; i < 3; i++)
		rails_assert_got(i, (uint8_t)(i + 1));
	for (unsigned i = 0; i < 3; i++)
		assert_ok(rdma_wait(&rails.pair, rails.sends[i]));
	rails_assert_connected();
}

/* The rail that took over ends as well, before there was an agreement on the first. */
static void messages__keep_their_order_when_two_rails_end(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 3; i++)
		rails_post_recv(i);
	stop_time();
	rails_send_value(0, 1);
	rails_set_port(0, false);
	rdma_settle(&rails.pair);
	rails_send_value(1, 2);
	rails_set_port(1, false);
	rdma_settle(&rails.pair);
	rails_send_value(2, 3);
	release_time();
	for (unsigned i = 0; i < 3; i++)
		rails_assert_got(i, (uint8_t)(i + 1));
	rails_await(0, SLIME_RAIL_DOWN);
	rails_await(1, SLIME_RAIL_DOWN);
	rails_set_port(0, true);
	rails_set_port(1, true);
	rails_await(0, SLIME_RAIL_UP);
	rails_await(1, SLIME_RAIL_UP);
}

static void await_broken(void)
{
	uint64_t until = sl_deadline_ns(60000);

	while (rails_state_of(&rails.pair.a) != SLIME_ENDPOINT_BROKEN ||
	       rails_state_of(&rails.pair.b) != SLIME_ENDPOINT_BROKEN) {
		rdma_poll(&rails.pair);
		assert_true(sl_clock_ns() < until);
	}
}

/* Its receive is not flushed: b has not seen it, and never will. */
static void message__whose_receive_tells_of_nothing_is_sent_again(void **state)
{
	uint32_t qp;

	(void)state;
	rails_post_recv(0);
	rails_cut(0, true);
	rails_send_value(0, 1);
	assert_int_equal(fakeverbs_qps(RAILS, &qp, 1), 1);
	fakeverbs_drop_completion(RAILS, qp);
	rails_assert_got(0, 1);
	assert_ok(rdma_wait(&rails.pair, rails.sends[0]));
	rails_assert_connected();
}

/* a has the acknowledgement, and b's device lost the completion: nobody has it. */
static void immediate__that_was_acknowledged_and_not_seen_ends_the_link(void **state)
{
	uint32_t qp;

	(void)state;
	assert_ok(slime_imm_recv(rails.pair.b.ep, rails.recvs[0]));
	assert_int_equal(fakeverbs_qps(RAILS, &qp, 1), 1);
	fakeverbs_drop_completion(RAILS, qp);
	assert_ok(write_imm(0, 0, 0));
	assert_ok(rdma_wait(&rails.pair, rails.sends[0]));
	rails_set_port(0, false);
	await_broken();
	assert_int_equal(rdma_wait(&rails.pair, rails.recvs[0]), -ECONNRESET);
}

static int (*poll_cq)(struct ibv_cq *cq, int n, struct ibv_wc *wc);

/* Its completions come later. */
static int poll_nothing(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	(void)cq;
	(void)n;
	(void)wc;
	return 0;
}

/* b's device takes no request behind all others any more, whose flush would say that all were seen.
 */
static void immediate__that_is_seen_late_by_a_device_that_flushes_no_marker_counts(void **state)
{
	struct ibv_context *device = rails_device_of(&rails.pair.b, 0);
	const struct rdma_path *p;

	(void)state;
	p = &rdma_endpoint_conn(rails.pair.b.ep)->paths[0];
	fakeverbs_device(RAILS)->refuses_in_error = true;
	assert_ok(slime_imm_recv(rails.pair.b.ep, rails.recvs[0]));
	poll_cq = device->ops.poll_cq;
	device->ops.poll_cq = poll_nothing;
	assert_ok(write_imm(0, 0, 0));
	assert_ok(rdma_wait(&rails.pair, rails.sends[0]));
	rails_set_port(0, false);
	while (p->state < RDMA_PATH_DRAINING)
		rdma_poll(&rails.pair);
	assert_int_equal(p->state, RDMA_PATH_DRAINING);
	device->ops.poll_cq = poll_cq;
	assert_ok(rdma_wait(&rails.pair, rails.recvs[0]));
	rails_await(0, SLIME_RAIL_DOWN);
}

/* Flushes are there when it looks again. */
static void rail__of_who_got_no_cpu_for_long_is_agreed_on(void **state)
{
	uint32_t qp;

	(void)state;
	rails_post_recv(0);
	rails_cut(0, true);
	rails_send_value(0, 1);
	assert_int_equal(fakeverbs_qps(RAILS, &qp, 1), 1);
	fakeverbs_hold_qp(RAILS, qp, true);
	rails_set_port(RAILS, false);
	rails_settle_workers();
	rails.ahead_ns += SL_NS_PER_S;
	rdma_settle(&rails.pair);
	fakeverbs_hold_qp(RAILS, qp, false);
	rails_assert_got(0, 1);
	assert_ok(rdma_wait(&rails.pair, rails.sends[0]));
	rails_assert_connected();
}

/* ---- reads ---- */

/* That b has a message from behind it says that b's device has read, and not that a has the bytes.
 */
static void read__whose_answer_was_lost_is_read_again(void **state)
{
	struct slime_xfer x = rdma_a_and_b(&rails.pair, 0, 0, MESSAGE);
	struct rdma_conn *c = rdma_endpoint_conn(rails.pair.a.ep);
	uint32_t head;

	(void)state;
	assert_ok(slime_read(rails.pair.a.ep, &x, 1, 0, rails.pair.a.op));
	assert_ok(rdma_wait(&rails.pair, rails.pair.a.op));
	memset(rails.pair.b.bytes, NEWER, MESSAGE);
	rails_post_recv(1);
	stop_time();
	c->next_qp = 0;
	head = c->qps[0]->head;
	assert_ok(slime_read(rails.pair.a.ep, &x, 1, 0, rails.pair.a.op));
	rails_send_value(1, 2);
	assert_int_equal(c->qps[0]->head - head, 2);
	while (!slime_op_test(rails.recvs[1]))
		go_on();
	assert_false(slime_op_test(rails.pair.a.op));
	rails_set_port(0, false);
	rails_settle_workers();
	release_time();
	assert_ok(rdma_wait(&rails.pair, rails.pair.a.op));
	assert_memory_equal(rails.pair.a.bytes, rails.pair.b.bytes, MESSAGE);
	rails_await(0, SLIME_RAIL_DOWN);
	rails_assert_got(1, 2);
	assert_ok(rdma_wait(&rails.pair, rails.sends[1]));
}

/* ---- writes and their immediates ---- */

static void write_imm__that_arrived_is_not_written_again(void **state)
{
	(void)state;
	memset(rails.pair.a.bytes, 1, MESSAGE);
	assert_ok(slime_imm_recv(rails.pair.b.ep, rails.recvs[0]));
	assert_ok(slime_imm_recv(rails.pair.b.ep, rails.recvs[1]));
	stop_time();
	assert_ok(write_imm(MESSAGE, 0, 1));
	while (!slime_op_test(rails.recvs[0]))
		go_on();
	assert_int_equal(rails.pair.b.bytes[0], 1);
	memset(rails.pair.b.bytes, NEWER, MESSAGE);
	assert_false(slime_op_test(rails.sends[1]));
	rails_set_port(0, false);
	rails_settle_workers();
	release_time();
	assert_ok(rdma_wait(&rails.pair, rails.sends[1]));
	rails_await(0, SLIME_RAIL_DOWN);
	assert_int_equal(rails.pair.b.bytes[0], NEWER);
	assert_int_equal(rails.pair.b.bytes[MESSAGE - 1], NEWER);
	assert_false(slime_op_test(rails.recvs[1]));
	assert_ok(write_imm(MESSAGE, 0, 2));
	assert_ok(rdma_wait(&rails.pair, rails.recvs[1]));
	assert_int_equal(slime_op_imm(rails.recvs[1]), 2);
}

static void write_imm__that_was_lost_comes_once_and_behind_its_bytes(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 2; i++) {
		uint64_t len = i ? LEN : MESSAGE; /* of one request, and over all rails */

		memset(rails.pair.a.bytes, 7, len);
		memset(rails.pair.b.bytes, 0, len);
		assert_ok(slime_imm_recv(rails.pair.b.ep, rails.recvs[0]));
		assert_ok(slime_imm_recv(rails.pair.b.ep, rails.recvs[1]));
		rails_cut(i, true);
		assert_ok(write_imm(len, 0, i));
		assert_ok(rdma_wait(&rails.pair, rails.recvs[0]));
		assert_memory_equal(rails.pair.a.bytes, rails.pair.b.bytes, len);
		assert_ok(rdma_wait(&rails.pair, rails.sends[i]));
		rdma_settle(&rails.pair);
		assert_false(slime_op_test(rails.recvs[1]));
		assert_ok(write_imm(0, 0, 5));
		assert_ok(rdma_wait(&rails.pair, rails.recvs[1]));
		assert_int_equal(slime_op_imm(rails.recvs[1]), 5);
		assert_ok(rdma_wait(&rails.pair, rails.sends[2]));
		rails_cut(i, false);
		rails_await(i, SLIME_RAIL_UP);
	}
}

static void ask_for_key(void)
{
	struct slime_xfer x = rdma_a_and_b(&rails.pair, 0, 0, MESSAGE);

	assert_ok(slime_write(rails.pair.a.ep, &x, 1, 0, rails.pair.a.op));
	assert_ok(rdma_wait(&rails.pair, rails.pair.a.op));
}

/* Of which a rail has a part that takes long; the others have nothing to do. */
static void fence__holds_behind_a_write_over_all_rails(void **state)
{
	struct slime_xfer x = rdma_a_and_b(&rails.pair, 0, 0, LEN - MESSAGE);
	struct slime_xfer last = rdma_a_and_b(&rails.pair, LEN - MESSAGE, LEN - MESSAGE, MESSAGE);
	uint32_t qp;

	(void)state;
	ask_for_key();
	for (unsigned rail = 1; rail < RAILS; rail++) {
		forget_shares(&rails.pair.a);
		memset(rails.pair.a.bytes, (int)rail, LEN);
		assert_ok(slime_imm_recv(rails.pair.b.ep, rails.recvs[0]));
		assert_int_equal(fakeverbs_qps(rail, &qp, 1), 1);
		fakeverbs_hold_qp(rail, qp, true);
		assert_ok(slime_write(rails.pair.a.ep, &x, 1, 0, rails.pair.a.op));
		assert_ok(slime_write(rails.pair.a.ep, &last, 1, SLIME_FENCE, rails.sends[0]));
		assert_ok(write_imm(0, SLIME_FENCE, rail));
		rdma_settle(&rails.pair);
		assert_false(slime_op_test(rails.pair.a.op));
		assert_int_not_equal(rails.pair.b.bytes[LEN - 1], rail);
		assert_false(slime_op_test(rails.recvs[0]));
		fakeverbs_hold_qp(rail, qp, false);
		assert_ok(rdma_wait(&rails.pair, rails.recvs[0]));
		assert_memory_equal(rails.pair.a.bytes, rails.pair.b.bytes, LEN);
		assert_ok(rdma_wait(&rails.pair, rails.pair.a.op));
		assert_ok(rdma_wait(&rails.pair, rails.sends[0]));
		assert_ok(rdma_wait(&rails.pair, rails.sends[rail]));
	}
}

/* Not before the bytes of a write that moves from its rail to another. */
static void fence__holds_while_work_moves(void **state)
{
	struct slime_xfer x = rdma_a_and_b(&rails.pair, 0, 0, LEN);

	(void)state;
	for (unsigned rail = 0; rail < RAILS; rail++) {
		memset(rails.pair.a.bytes, (int)rail + 1, LEN);
		assert_ok(slime_imm_recv(rails.pair.b.ep, rails.recvs[0]));
		rails_cut(rail, true);
		assert_ok(slime_write(rails.pair.a.ep, &x, 1, 0, rails.pair.a.op));
		assert_ok(write_imm(0, SLIME_FENCE, rail));
		assert_ok(rdma_wait(&rails.pair, rails.recvs[0]));
		assert_memory_equal(rails.pair.a.bytes, rails.pair.b.bytes, LEN);
		assert_ok(rdma_wait(&rails.pair, rails.pair.a.op));
		assert_ok(rdma_wait(&rails.pair, rails.sends[rail]));
		rails_cut(rail, false);
		rails_await(rail, SLIME_RAIL_UP);
	}
}

static void poll_a_until(bool (*is_so)(void))
{
	uint64_t until = sl_deadline_ns(60000);

	while (!is_so()) {
		slime_context_poll(rails.pair.a.ctx);
		assert_true(sl_clock_ns() < until);
	}
}

static bool is_without_rail_0(void)
{
	struct slime_rail_info info[RAILS];

	slime_endpoint_rails(rails.pair.a.ep, info, RAILS);
	return info[0].state != SLIME_RAIL_UP;
}

static bool is_op_done(void)
{
	return slime_op_test(rails.pair.a.op);
}

/* b says nothing of the rail's end for as long as nobody polls it. */
static void write__behind_an_immediate_that_waits_goes_over_the_other_rails(void **state)
{
	struct slime_xfer x = rdma_a_and_b(&rails.pair, 0, 0, MESSAGE);

	(void)state;
	assert_ok(slime_write(rails.pair.a.ep, &x, 1, 0, rails.pair.a.op));
	assert_ok(rdma_wait(&rails.pair, rails.pair.a.op));
	assert_ok(slime_imm_recv(rails.pair.b.ep, rails.recvs[0]));
	rails_set_port(0, false);
	poll_a_until(is_without_rail_0);
	assert_ok(write_imm(MESSAGE, 0, 0));
	assert_ok(slime_write(rails.pair.a.ep, &x, 1, 0, rails.pair.a.op));
	poll_a_until(is_op_done);
	assert_ok(slime_op_status(rails.pair.a.op));
	/* Behind a fence it waits for the immediate's bytes. */
	assert_ok(slime_write(rails.pair.a.ep, &x, 1, SLIME_FENCE, rails.pair.a.op));
	for (unsigned i = 0; i < 100; i++)
		slime_context_poll(rails.pair.a.ctx);
	assert_false(slime_op_test(rails.pair.a.op));
	assert_false(slime_op_test(rails.sends[0]));
	assert_ok(rdma_wait(&rails.pair, rails.recvs[0]));
	assert_ok(rdma_wait(&rails.pair, rails.sends[0]));
	assert_ok(rdma_wait(&rails.pair, rails.pair.a.op));
	rails_await(0, SLIME_RAIL_DOWN);
}

/* As long as its queue pair may still move bytes, the op and its memory are the library's. */
static void op__of_a_dead_rail_is_pending_until_both_ends_have_fenced_it(void **state)
{
	struct slime_xfer x = rdma_a_and_b(&rails.pair, 0, 0, LEN);
	uint64_t until = sl_deadline_ns(60000);
	uint32_t qp;

	(void)state;
	/* Keys are known, and what asked for them was acknowledged, before. */
	assert_ok(slime_read(rails.pair.a.ep, &x, 1, 0, rails.pair.a.op));
	assert_ok(rdma_wait(&rails.pair, rails.pair.a.op));
	forget_shares(&rails.pair.a);
	assert_int_equal(fakeverbs_qps(RAILS, &qp, 1), 1);
	memset(rails.pair.b.bytes, 5, LEN);
	rails_cut(0, true);
	assert_ok(slime_read(rails.pair.a.ep, &x, 1, 0, rails.pair.a.op));
	fakeverbs_hold_qp(RAILS, qp, true);
	rails_set_port(0, false);
	/* a is without its queue pair, b is not. */
	while (fakeverbs_qps(0, &qp, 1)) {
		rdma_poll(&rails.pair);
		assert_true(sl_clock_ns() < until);
	}
	assert_int_equal(fakeverbs_qps(RAILS, &qp, 1), 1);
	assert_false(slime_op_test(rails.pair.a.op));
	while (!slime_op_test(rails.pair.a.op)) {
		assert_true(sl_clock_ns() < until);
		rdma_poll(&rails.pair);
	}
	assert_int_equal(fakeverbs_qps(RAILS, &qp, 1), 0);
	assert_ok(slime_op_status(rails.pair.a.op));
	assert_memory_equal(rails.pair.a.bytes, rails.pair.b.bytes, LEN);
}

/* It says that the peer is ready, and comes, as far as a knows, over that rail. */
static void take_greeting(struct rdma_conn *c, unsigned rail)
{
	struct sl_msg m = { .kind = RDMA_READY };

	for (unsigned i = 0; i < SL_AUTH_MAC_LEN / 8; i++)
		m.w[i] = sl_get_le64(c->peer_proof + 8 * (size_t)i);
	rdma_conn_greeted(c, c->paths[rail].qps[0], &m);
	assert_true(c->paths[rail].greeted);
}

/* The greeting that answers it is the only message of its rail, and no word on what is before it.
 */
static void write__before_a_greeting_on_a_rail_that_ends_is_written_again(void **state)
{
	struct slime_xfer x = rdma_a_and_b(&rails.pair, 0, 0, LEN);

	(void)state;
	assert_ok(slime_read(rails.pair.a.ep, &x, 1, 0, rails.pair.a.op));
	assert_ok(rdma_wait(&rails.pair, rails.pair.a.op));
	forget_shares(&rails.pair.a);
	memset(rails.pair.a.bytes, 6, LEN);
	rails_cut(1, true);
	assert_ok(slime_write(rails.pair.a.ep, &x, 1, 0, rails.pair.a.op));
	take_greeting(rdma_endpoint_conn(rails.pair.a.ep), 1);
	assert_ok(rdma_wait(&rails.pair, rails.pair.a.op));
	assert_memory_equal(rails.pair.a.bytes, rails.pair.b.bytes, LEN);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		IN_PAIR(message__that_arrived_is_not_sent_again),
		IN_PAIR(message__that_was_lost_arrives_before_newer_ones),
		IN_PAIR(messages__keep_their_order_when_two_rails_end),
		IN_PAIR(message__whose_receive_tells_of_nothing_is_sent_again),
		IN_PAIR(immediate__that_was_acknowledged_and_not_seen_ends_the_link),
		IN_PAIR(immediate__that_is_seen_late_by_a_device_that_flushes_no_marker_counts),
		IN_PAIR(rail__of_who_got_no_cpu_for_long_is_agreed_on),
		IN_PAIR(read__whose_answer_was_lost_is_read_again),
		IN_PAIR(write_imm__that_arrived_is_not_written_again),
		IN_PAIR(write_imm__that_was_lost_comes_once_and_behind_its_bytes),
		IN_PAIR(fence__holds_behind_a_write_over_all_rails),
		IN_PAIR(fence__holds_while_work_moves),
		IN_PAIR(write__behind_an_immediate_that_waits_goes_over_the_other_rails),
		IN_PAIR(op__of_a_dead_rail_is_pending_until_both_ends_have_fenced_it),
		IN_PAIR(write__before_a_greeting_on_a_rail_that_ends_is_written_again),
	};

	return cmocka_run_group_tests_name("rdma_rails_fence", tests, NULL, NULL);
}
