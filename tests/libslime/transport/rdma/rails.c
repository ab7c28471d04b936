/* SPDX-License-Identifier: Apache-2.0 */
/* Links of several rails, of which some fail, in every order of events, and come back. */
#include <sched.h>
#include <string.h>

#include "base/clock.h"
#include "tests/libslime/transport/rdma/pair.h"

#define LEN   (1024u * 1024)
#define RAILS 2

static struct rdma_pair pair;

/* Rail r is fake<r> of a and fake<2 + r> of b. */
static int begin_with(uint32_t user_timeout_ms)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;

	fakeverbs_reset();
	(void)fakeverbs_device(2);
	(void)fakeverbs_device(3);
	memset(&pair, 0, sizeof(pair));
	attr.rdma_devices = "fake0,fake1;fake2,fake3";
	attr.rdma_timeout = 8; /* 1 ms */
	attr.rdma_retry_count = 2;
	attr.tcp_user_timeout_ms = user_timeout_ms;
	return rdma_pair_open(&pair, &attr, LEN);
}

static int begin(void **state)
{
	(void)state;
	return begin_with(500);
}

/* The link goes on: an end that gets no CPU for a while is not taken for one that disagrees. */
static int begin_calm(void **state)
{
	(void)state;
	return begin_with(20000);
}

/* Without probes of what is idle, which would be counted. */
static int begin_patient(void **state)
{
	(void)state;
	return begin_with(3600 * 1000);
}

static void cut(unsigned rail, bool is_cut)
{
	fakeverbs_set_cut(rail, 2 + rail, is_cut);
}

static void assert_connected(void)
{
	struct slime_endpoint_info info;

	slime_endpoint_info(pair.a.ep, &info);
	assert_int_equal(info.state, SLIME_ENDPOINT_CONNECTED);
	slime_endpoint_info(pair.b.ep, &info);
	assert_int_equal(info.state, SLIME_ENDPOINT_CONNECTED);
}

static enum slime_rail_state state_of(const struct rdma_end *e, unsigned rail)
{
	struct slime_rail_info info[RAILS];

	assert_int_equal(slime_endpoint_rails(e->ep, info, RAILS), RAILS);
	return info[rail].state;
}

static void await(unsigned rail, enum slime_rail_state state)
{
	uint64_t until = sl_deadline_ns(60000);

	while (state_of(&pair.a, rail) != state || state_of(&pair.b, rail) != state) {
		rdma_poll(&pair);
		assert_connected();
		assert_true(sl_clock_ns() < until);
	}
}

static void await_calls(enum fakeverbs_call kind, uint64_t n)
{
	uint64_t until = sl_deadline_ns(60000);

	while (fakeverbs_counts().calls[kind] < n) {
		rdma_poll(&pair);
		assert_true(sl_clock_ns() < until);
	}
}

/* ---- one rail ---- */

static void rail__that_is_cut_leaves_its_work_to_the_other(void **state)
{
	(void)state;
	cut(0, true);
	assert_ok(rdma_write_now(&pair, LEN, 2));
	assert_ok(rdma_read_now(&pair, LEN, 3));
	await(0, SLIME_RAIL_DOWN);
	assert_ok(rdma_write_now(&pair, LEN, 4));
	assert_connected();
}

static void rail__that_is_mended_is_used_again(void **state)
{
	uint64_t before;

	(void)state;
	for (uint8_t i = 0; i < 6; i++) {
		unsigned rail = i % RAILS;

		cut(rail, true);
		assert_ok(rdma_write_now(&pair, LEN, i));
		await(rail, SLIME_RAIL_DOWN);
		cut(rail, false);
		await(rail, SLIME_RAIL_UP);
	}
	/* Of one large write each of the rails has its part. */
	before = fakeverbs_counts().send_wrs;
	assert_ok(rdma_write_now(&pair, LEN, 9));
	assert_int_equal(fakeverbs_counts().send_wrs - before, RAILS);
}

static void port__that_goes_down_and_up_takes_its_rail_along(void **state)
{
	(void)state;
	for (unsigned device = 0; device < 2 * RAILS; device++) {
		fakeverbs_set_port_state(device, 1, IBV_PORT_DOWN);
		await(device % RAILS, SLIME_RAIL_DOWN);
		assert_ok(rdma_write_now(&pair, LEN, 1));
		fakeverbs_set_port_state(device, 1, IBV_PORT_ACTIVE);
		await(device % RAILS, SLIME_RAIL_UP);
		assert_ok(rdma_write_now(&pair, LEN, 2));
	}
}

/* It tells of nothing any more; the rail comes back with another. */
static void rail__whose_completion_queue_fails_is_used_again(void **state)
{
	uint32_t number;

	(void)state;
	for (unsigned device = 0; device < 2 * RAILS; device++) {
		assert_int_equal(fakeverbs_qps(device, &number, 1), 1);
		fakeverbs_break_cq(device, number);
		await(device % RAILS, SLIME_RAIL_DOWN);
		await(device % RAILS, SLIME_RAIL_UP);
		assert_ok(rdma_write_now(&pair, LEN, 2));
	}
	await_calls(FAKEVERBS_DESTROY_CQ, 2 * RAILS);
}

static void rail__tells_what_it_failed_with(void **state)
{
	struct slime_rail_info info[RAILS];

	(void)state;
	assert_int_equal(slime_endpoint_rails(pair.a.ep, info, RAILS), RAILS);
	assert_string_equal(info[1].device, "fake1:1");
	assert_string_equal(info[1].peer, "fake3:1");
	assert_string_equal(info[1].error, "");
	assert_int_equal(info[0].share, 500);
	assert_int_equal(info[1].share, 500);
	fakeverbs_set_port_state(1, 1, IBV_PORT_DOWN);
	await(1, SLIME_RAIL_DOWN);
	slime_endpoint_rails(pair.a.ep, info, RAILS);
	assert_string_equal(info[1].error, "its port went down");
	assert_int_equal(info[0].share, 1000);
	assert_int_equal(info[1].share, 0);
	slime_endpoint_rails(pair.b.ep, info, RAILS);
	assert_string_equal(info[1].error, "the peer does not use it any more");
	assert_string_equal(info[0].error, "");
}

static void await_registrations(uint64_t n)
{
	uint64_t until = sl_deadline_ns(60000);

	while (fakeverbs_counts().calls[FAKEVERBS_REG_MR] < n) {
		sched_yield();
		assert_true(sl_clock_ns() < until);
	}
}

/* The device is no more before anybody has read its event. */
static void region__whose_device_fails_while_it_is_registered_is_used_over_the_other(void **state)
{
	uint64_t n = fakeverbs_counts().calls[FAKEVERBS_REG_MR] + RAILS;
	uint64_t until = sl_deadline_ns(60000);
	struct slime_xfer x = rdma_a_and_b(&pair, 0, 0, LEN);
	struct slime_mr *mr;

	(void)state;
	memset(pair.a.bytes, 1, LEN);
	assert_ok(slime_mr_create(pair.a.ctx, pair.a.bytes, LEN, 0, &mr));
	x.local = mr;
	fakeverbs_kill_device(1);
	assert_ok(slime_write(pair.a.ep, &x, 1, 0, pair.a.op));
	await_registrations(n);
	assert_ok(rdma_wait(&pair, pair.a.op));
	assert_memory_equal(pair.a.bytes, pair.b.bytes, LEN);
	assert_connected();
	while (slime_mr_destroy(mr) == -EBUSY) {
		rdma_poll(&pair);
		assert_true(sl_clock_ns() < until);
	}
}

static void rail__whose_device_is_removed_leaves_its_work_to_the_other(void **state)
{
	(void)state;
	fakeverbs_remove_device(1);
	fakeverbs_raise(1, IBV_EVENT_DEVICE_FATAL, 0);
	await(1, SLIME_RAIL_DOWN);
	assert_ok(rdma_write_now(&pair, LEN, 4));
	assert_connected();
}

/* No event says so, but that there will be none. */
static void rail__whose_device_takes_its_events_along_leaves_its_work_to_the_other(void **state)
{
	(void)state;
	fakeverbs_remove_device(1);
	fakeverbs_end_events(1);
	await(1, SLIME_RAIL_DOWN);
	assert_ok(rdma_write_now(&pair, LEN, 4));
	assert_connected();
}

/* Its queue pair is destroyed before that. */
static void rail__whose_device_says_late_that_it_is_removed_is_waited_for(void **state)
{
	uint64_t n = fakeverbs_counts().calls[FAKEVERBS_DESTROY_QP];

	(void)state;
	fakeverbs_remove_device(1);
	await_calls(FAKEVERBS_DESTROY_QP, n + 1);
	rdma_settle(&pair);
	fakeverbs_raise(1, IBV_EVENT_DEVICE_FATAL, 0);
	await(1, SLIME_RAIL_DOWN);
	assert_ok(rdma_write_now(&pair, LEN, 4));
	assert_connected();
}

/* ---- the link ---- */

static int end_of(const struct rdma_end *e)
{
	struct slime_endpoint_info info;
	uint64_t until = sl_deadline_ns(60000);

	do {
		rdma_poll(&pair);
		slime_endpoint_info(e->ep, &info);
		assert_true(sl_clock_ns() < until);
	} while (info.state == SLIME_ENDPOINT_CONNECTED);
	assert_int_equal(info.state, SLIME_ENDPOINT_BROKEN);
	return info.cause;
}

static void link__whose_rails_all_fail_ends(void **state)
{
	struct slime_xfer x = rdma_a_and_b(&pair, 0, 0, LEN);

	(void)state;
	cut(0, true);
	cut(1, true);
	assert_ok(slime_write(pair.a.ep, &x, 1, 0, pair.a.op));
	assert_int_equal(rdma_wait(&pair, pair.a.op), -ECONNRESET);
	assert_int_equal(end_of(&pair.a), -ECONNRESET);
	assert_int_equal(end_of(&pair.b), -ECONNRESET);
}

/* It may still place what is under way. */
static void link__whose_queue_pair_cannot_be_destroyed_ends(void **state)
{
	(void)state;
	fakeverbs_fail_call_of(FAKEVERBS_DESTROY_QP, 1, EIO);
	fakeverbs_raise(1, IBV_EVENT_PORT_ERR, 1);
	assert_int_equal(end_of(&pair.a), -ECONNRESET);
	assert_int_equal(end_of(&pair.b), -ECONNRESET);
}

/* Too little to measure a rail: each has half of what follows. */
static void learn_keys(void)
{
	struct slime_xfer x = rdma_a_and_b(&pair, 0, 0, 64);

	assert_ok(slime_write(pair.a.ep, &x, 1, 0, pair.a.op));
	assert_ok(rdma_wait(&pair, pair.a.op));
}

/* The first is agreed on, its work is under way again on the second, and not done. */
static void link__whose_second_rail_fails_while_work_moves_ends(void **state)
{
	struct slime_xfer x = rdma_a_and_b(&pair, 0, 0, LEN);

	(void)state;
	learn_keys();
	fakeverbs_hold_time(true);
	fakeverbs_set_delay(1000, 1000, 1);
	assert_ok(slime_read(pair.a.ep, &x, 1, 0, pair.a.op));
	fakeverbs_set_port_state(0, 1, IBV_PORT_DOWN);
	while (state_of(&pair.a, 0) != SLIME_RAIL_DOWN) {
		rdma_settle(&pair);
		if (state_of(&pair.a, 0) != SLIME_RAIL_DOWN)
			fakeverbs_step();
	}
	assert_false(slime_op_test(pair.a.op));
	cut(1, true);
	fakeverbs_set_delay(0, 0, 1);
	fakeverbs_hold_time(false);
	assert_int_equal(rdma_wait(&pair, pair.a.op), -ECONNRESET);
	assert_int_equal(end_of(&pair.b), -ECONNRESET);
}

/* Its queue pair may still place what is under way: nothing is sent again. */
static void link__whose_peer_does_not_agree_ends(void **state)
{
	struct slime_xfer x = rdma_a_and_b(&pair, 0, 0, LEN);
	uint64_t until = sl_deadline_ns(60000);

	(void)state;
	learn_keys();
	memset(pair.b.bytes, 7, LEN / 2);
	cut(0, true);
	assert_ok(slime_write(pair.a.ep, &x, 1, 0, pair.a.op));
	while (!slime_op_test(pair.a.op)) {
		slime_context_poll(pair.a.ctx);
		assert_true(sl_clock_ns() < until);
	}
	assert_int_equal(slime_op_status(pair.a.op), -ECONNRESET);
	/* The part of the dead rail, which is the first or the second half. */
	assert_true(pair.b.bytes[0] == 7 || pair.b.bytes[LEN - 1] != 7);
	assert_int_equal(end_of(&pair.b), -ECONNRESET);
}

/* ---- calls that fail ---- */

static bool is_up(unsigned rail)
{
	return state_of(&pair.a, rail) == SLIME_RAIL_UP && state_of(&pair.b, rail) == SLIME_RAIL_UP;
}

static bool is_connected(void)
{
	struct slime_endpoint_info a, b;

	slime_endpoint_info(pair.a.ep, &a);
	slime_endpoint_info(pair.b.ep, &b);
	return a.state == SLIME_ENDPOINT_CONNECTED && b.state == SLIME_ENDPOINT_CONNECTED;
}

/* Until the rail is back, or the link ended, which it does at both ends. */
static void await_back_or_end(unsigned rail)
{
	uint64_t until = sl_deadline_ns(60000);

	while (is_connected() && !is_up(rail)) {
		rdma_poll(&pair);
		assert_true(sl_clock_ns() < until);
	}
	if (!is_connected()) {
		end_of(&pair.a);
		end_of(&pair.b);
	}
}

/* The n-th call from the rail's end to its return fails: then the work is done as it should be, or
 * has failed with its link. */
static void failover__whose_nth_call_fails_ends_well_or_the_link(void **state)
{
	bool failed = true;

	rdma_pair_end(state);
	for (unsigned n = 1; failed; n++) {
		struct slime_xfer x;
		int status;

		assert_ok(begin(state));
		assert_ok(rdma_write_now(&pair, LEN, 1));
		memset(pair.a.bytes, 2, LEN);
		x = rdma_a_and_b(&pair, 0, 0, LEN);
		cut(0, true);
		fakeverbs_fail_call(n, EIO);
		assert_ok(slime_write(pair.a.ep, &x, 1, 0, pair.a.op));
		status = rdma_wait(&pair, pair.a.op);
		if (!status)
			assert_memory_equal(pair.a.bytes, pair.b.bytes, LEN);
		cut(0, false);
		await_back_or_end(0);
		failed = fakeverbs_failed();
		if (!failed)
			assert_ok(status);
		assert_int_equal(rdma_pair_end(state), 0);
	}
	assert_ok(begin(state));
}

/* A queue pair is left, which the test is about. */
static int end_with_one_left(void **state)
{
	rdma_pair_close(*state);
	return fakeverbs_check() ? 0 : -1;
}

#define IN_PAIR(fn) cmocka_unit_test_prestate_setup_teardown(fn, begin, rdma_pair_end, &pair)
#define IN_CALM_PAIR(fn) \
	cmocka_unit_test_prestate_setup_teardown(fn, begin_calm, rdma_pair_end, &pair)

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		IN_CALM_PAIR(rail__that_is_cut_leaves_its_work_to_the_other),
		cmocka_unit_test_prestate_setup_teardown(rail__that_is_mended_is_used_again,
							 begin_patient, rdma_pair_end, &pair),
		IN_CALM_PAIR(port__that_goes_down_and_up_takes_its_rail_along),
		IN_CALM_PAIR(rail__whose_completion_queue_fails_is_used_again),
		IN_CALM_PAIR(rail__tells_what_it_failed_with),
		IN_CALM_PAIR(
			region__whose_device_fails_while_it_is_registered_is_used_over_the_other),
		IN_CALM_PAIR(rail__whose_device_is_removed_leaves_its_work_to_the_other),
		IN_CALM_PAIR(
			rail__whose_device_takes_its_events_along_leaves_its_work_to_the_other),
		IN_CALM_PAIR(rail__whose_device_says_late_that_it_is_removed_is_waited_for),
		cmocka_unit_test_prestate_setup_teardown(
			link__whose_queue_pair_cannot_be_destroyed_ends, begin, end_with_one_left,
			&pair),
		IN_PAIR(link__whose_rails_all_fail_ends),
		IN_PAIR(link__whose_second_rail_fails_while_work_moves_ends),
		IN_PAIR(link__whose_peer_does_not_agree_ends),
	};

	static const struct CMUnitTest failures[] = {
		IN_PAIR(failover__whose_nth_call_fails_ends_well_or_the_link),
	};

	if (argc == 2 && !strcmp(argv[1], "--failures"))
		return cmocka_run_group_tests_name("rdma_rails_failures", failures, NULL, NULL);
	return cmocka_run_group_tests_name("rdma_rails", tests, NULL, NULL);
}
