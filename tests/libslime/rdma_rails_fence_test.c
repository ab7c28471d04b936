/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was under way on a rail that ends: nothing is executed twice, late, or in another order, and
 * nothing that was is lost. Rail r is fake<r> of a and fake<3 + r> of b; only one-sided work goes
 * over another than the first, until that ends.
 */
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "src/endpoint.h"
#include "src/transport/rdma/rdma.h"
#include "tests/libslime/rdma_pair.h"

#define LEN	(1024u * 1024)
#define RAILS	3
#define MESSAGE 64
#define NEWER	0xee

static struct rdma_pair pair;
static struct slime_op *sends[3], *recvs[3];

/* ---- time: that of nobody who got no CPU for a while ---- */

static _Atomic uint64_t ahead_ns;

int __real_clock_gettime(clockid_t id, struct timespec *ts);
int __wrap_clock_gettime(clockid_t id, struct timespec *ts);

int __wrap_clock_gettime(clockid_t id, struct timespec *ts)
{
	int ret = __real_clock_gettime(id, ts);
	uint64_t now = (uint64_t)ts->tv_sec * SL_NS_PER_S + (uint64_t)ts->tv_nsec + ahead_ns;

	if (id == CLOCK_MONOTONIC || id == CLOCK_MONOTONIC_COARSE) {
		ts->tv_sec = (time_t)(now / SL_NS_PER_S);
		ts->tv_nsec = (long)(now % SL_NS_PER_S);
	}
	return ret;
}

/* ---- a link ---- */

static int begin(void **state)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;

	(void)state;
	/* The clock of fakeverbs sleeps by the real one: nobody who is there has seen another. */
	ahead_ns = 0;
	fakeverbs_reset();
	for (unsigned i = 2; i < 2 * RAILS; i++)
		(void)fakeverbs_device(i);
	attr.rdma_devices = "fake0,fake1,fake2;fake3,fake4,fake5";
	attr.rdma_timeout = 8; /* 1 ms */
	attr.rdma_retry_count = 2;
	attr.tcp_user_timeout_ms = 3600 * 1000; /* no probes of what is idle */
	if (rdma_pair_open(&pair, &attr, LEN))
		return -1;
	for (unsigned i = 0; i < 3; i++) {
		assert_ok(slime_op_create(pair.a.ctx, NULL, &sends[i]));
		assert_ok(slime_op_create(pair.b.ctx, NULL, &recvs[i]));
	}
	return 0;
}

static int end(void **state)
{
	(void)state;
	fakeverbs_set_delay(0, 0, 0);
	fakeverbs_hold_time(false);
	slime_endpoint_close(pair.a.ep);
	slime_endpoint_close(pair.b.ep);
	rdma_settle(&pair);
	assert_ok(slime_endpoint_destroy(pair.a.ep));
	assert_ok(slime_endpoint_destroy(pair.b.ep));
	pair.a.ep = pair.b.ep = NULL;
	for (unsigned i = 0; i < 3; i++) {
		assert_ok(slime_op_destroy(sends[i]));
		assert_ok(slime_op_destroy(recvs[i]));
	}
	rdma_pair_close(&pair);
	return fakeverbs_check() ? -1 : 0;
}

static enum slime_endpoint_state state_of(const struct rdma_end *e)
{
	struct slime_endpoint_info info;

	slime_endpoint_info(e->ep, &info);
	return info.state;
}

static void assert_connected(void)
{
	assert_int_equal(state_of(&pair.a), SLIME_ENDPOINT_CONNECTED);
	assert_int_equal(state_of(&pair.b), SLIME_ENDPOINT_CONNECTED);
}

static bool is(unsigned rail, enum slime_rail_state state)
{
	struct slime_rail_info a[RAILS], b[RAILS];

	assert_int_equal(slime_endpoint_rails(pair.a.ep, a, RAILS), RAILS);
	assert_int_equal(slime_endpoint_rails(pair.b.ep, b, RAILS), RAILS);
	return a[rail].state == state && b[rail].state == state;
}

static void await(unsigned rail, enum slime_rail_state state)
{
	uint64_t until = sl_deadline_ns(60000);

	while (!is(rail, state)) {
		rdma_poll(&pair);
		assert_connected();
		assert_true(sl_clock_ns() < until);
	}
}

static void port(unsigned device, bool up)
{
	fakeverbs_set_port_state(device, 1, up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN);
}

static void cut(unsigned rail, bool is_cut)
{
	fakeverbs_set_cut(rail, RAILS + rail, is_cut);
}

/* Until workers have nothing to do, either. */
static void settle_workers(void)
{
	do {
		rdma_settle(&pair);
	} while (rdma_is_working(&pair));
}

/* ---- what is under way ---- */

/* From here on each request, and each acknowledgement, moves with one go_on(). */
static void stop_time(void)
{
	rdma_settle(&pair);
	fakeverbs_hold_time(true);
	fakeverbs_set_delay(1000, 1000, 1);
}

static void go_on(void)
{
	fakeverbs_step();
	rdma_settle(&pair);
}

static void release_time(void)
{
	fakeverbs_set_delay(0, 0, 1);
	fakeverbs_hold_time(false);
}

static void post_recv(unsigned i)
{
	assert_ok(
		slime_recv(pair.b.ep, pair.b.mr, i * MESSAGE, MESSAGE, 1, SLIME_TAG_ALL, recvs[i]));
}

static void send_value(unsigned i, uint8_t value)
{
	memset(pair.a.bytes + i * MESSAGE, value, MESSAGE);
	assert_ok(slime_send(pair.a.ep, pair.a.mr, i * MESSAGE, MESSAGE, 1, sends[i]));
}

static void assert_got(unsigned i, uint8_t value)
{
	assert_ok(rdma_wait(&pair, recvs[i]));
	assert_int_equal(slime_op_bytes(recvs[i]), MESSAGE);
	assert_int_equal(pair.b.bytes[i * MESSAGE], value);
}

static int write_imm(uint64_t len, uint32_t flags, uint32_t imm)
{
	struct slime_xfer x = rdma_a_and_b(&pair, 0, 0, len);
	static struct slime_xfer xfers[3];

	xfers[imm % 3] = x;
	return slime_write_imm(pair.a.ep, &xfers[imm % 3], 1, flags, imm, sends[imm % 3]);
}

/* ---- messages ---- */

static void message__that_arrived_is_not_sent_again(void **state)
{
	(void)state;
	post_recv(0);
	post_recv(1);
	stop_time();
	send_value(0, 1);
	while (!slime_op_test(recvs[0]))
		go_on();
	/* Its acknowledgement is under way, and so is what b answers. */
	port(0, false);
	settle_workers();
	release_time();
	await(0, SLIME_RAIL_DOWN);
	assert_ok(rdma_wait(&pair, sends[0]));
	rdma_settle(&pair);
	assert_false(slime_op_test(recvs[1]));
	send_value(1, 2);
	assert_got(0, 1);
	assert_got(1, 2);
}

static void message__that_was_lost_arrives_before_newer_ones(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 3; i++)
		post_recv(i);
	cut(0, true);
	send_value(0, 1);
	send_value(1, 2);
	port(0, false);
	rdma_poll(&pair);
	send_value(2, 3);
	for (unsigned i = 0; i < 3; i++)
		assert_got(i, (uint8_t)(i + 1));
	for (unsigned i = 0; i < 3; i++)
		assert_ok(rdma_wait(&pair, sends[i]));
	assert_connected();
}

/* The rail that took over ends as well, before there was an agreement on the first. */
static void messages__keep_their_order_when_two_rails_end(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 3; i++)
		post_recv(i);
	stop_time();
	send_value(0, 1);
	port(0, false);
	rdma_settle(&pair);
	send_value(1, 2);
	port(1, false);
	rdma_settle(&pair);
	send_value(2, 3);
	release_time();
	for (unsigned i = 0; i < 3; i++)
		assert_got(i, (uint8_t)(i + 1));
	await(0, SLIME_RAIL_DOWN);
	await(1, SLIME_RAIL_DOWN);
	port(0, true);
	port(1, true);
	await(0, SLIME_RAIL_UP);
	await(1, SLIME_RAIL_UP);
}

/* b's count of what arrived is not known: a does not guess. */
static void message__in_doubt_ends_the_link(void **state)
{
	uint64_t until = sl_deadline_ns(60000);
	uint32_t qp;

	(void)state;
	post_recv(0);
	cut(0, true);
	send_value(0, 1);
	assert_int_equal(fakeverbs_qps(RAILS, &qp, 1), 1);
	fakeverbs_drop_completion(RAILS, qp);
	while (state_of(&pair.a) != SLIME_ENDPOINT_BROKEN ||
	       state_of(&pair.b) != SLIME_ENDPOINT_BROKEN) {
		rdma_poll(&pair);
		assert_true(sl_clock_ns() < until);
	}
	assert_int_equal(rdma_wait(&pair, sends[0]), -ECONNRESET);
	assert_int_equal(rdma_wait(&pair, recvs[0]), -ECONNRESET);
}

static void count__that_nothing_depends_on_may_be_unknown(void **state)
{
	uint32_t qp;

	(void)state;
	rdma_settle(&pair);
	assert_int_equal(fakeverbs_qps(RAILS + 1, &qp, 1), 1);
	fakeverbs_drop_completion(RAILS + 1, qp);
	port(1, false);
	await(1, SLIME_RAIL_DOWN);
}

/* Flushes are there when it looks again. */
static void rail__of_who_got_no_cpu_for_long_is_agreed_on(void **state)
{
	uint32_t qp;

	(void)state;
	post_recv(0);
	cut(0, true);
	send_value(0, 1);
	assert_int_equal(fakeverbs_qps(RAILS, &qp, 1), 1);
	fakeverbs_hold_qp(RAILS, qp, true);
	port(RAILS, false);
	settle_workers();
	ahead_ns += SL_NS_PER_S;
	rdma_settle(&pair);
	fakeverbs_hold_qp(RAILS, qp, false);
	assert_got(0, 1);
	assert_ok(rdma_wait(&pair, sends[0]));
	assert_connected();
}

/* ---- writes and their immediates ---- */

static void write_imm__that_arrived_is_not_written_again(void **state)
{
	(void)state;
	memset(pair.a.bytes, 1, MESSAGE);
	assert_ok(slime_imm_recv(pair.b.ep, recvs[0]));
	assert_ok(slime_imm_recv(pair.b.ep, recvs[1]));
	stop_time();
	assert_ok(write_imm(MESSAGE, 0, 1));
	while (!slime_op_test(recvs[0]))
		go_on();
	assert_int_equal(pair.b.bytes[0], 1);
	memset(pair.b.bytes, NEWER, MESSAGE);
	assert_false(slime_op_test(sends[1]));
	port(0, false);
	settle_workers();
	release_time();
	assert_ok(rdma_wait(&pair, sends[1]));
	await(0, SLIME_RAIL_DOWN);
	assert_int_equal(pair.b.bytes[0], NEWER);
	assert_int_equal(pair.b.bytes[MESSAGE - 1], NEWER);
	assert_false(slime_op_test(recvs[1]));
	assert_ok(write_imm(MESSAGE, 0, 2));
	assert_ok(rdma_wait(&pair, recvs[1]));
	assert_int_equal(slime_op_imm(recvs[1]), 2);
}

static void write_imm__that_was_lost_comes_once_and_behind_its_bytes(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 2; i++) {
		uint64_t len = i ? LEN : MESSAGE; /* of one request, and over all rails */

		memset(pair.a.bytes, 7, len);
		memset(pair.b.bytes, 0, len);
		assert_ok(slime_imm_recv(pair.b.ep, recvs[0]));
		assert_ok(slime_imm_recv(pair.b.ep, recvs[1]));
		cut(i, true);
		assert_ok(write_imm(len, 0, i));
		assert_ok(rdma_wait(&pair, recvs[0]));
		assert_memory_equal(pair.a.bytes, pair.b.bytes, len);
		assert_ok(rdma_wait(&pair, sends[i]));
		rdma_settle(&pair);
		assert_false(slime_op_test(recvs[1]));
		assert_ok(write_imm(0, 0, 5));
		assert_ok(rdma_wait(&pair, recvs[1]));
		assert_int_equal(slime_op_imm(recvs[1]), 5);
		assert_ok(rdma_wait(&pair, sends[2]));
		cut(i, false);
		await(i, SLIME_RAIL_UP);
	}
}

/* Not before the bytes of a write that moves from its rail to another. */
static void fence__holds_while_work_moves(void **state)
{
	struct slime_xfer x = rdma_a_and_b(&pair, 0, 0, LEN);

	(void)state;
	for (unsigned rail = 0; rail < RAILS; rail++) {
		memset(pair.a.bytes, (int)rail + 1, LEN);
		assert_ok(slime_imm_recv(pair.b.ep, recvs[0]));
		cut(rail, true);
		assert_ok(slime_write(pair.a.ep, &x, 1, 0, pair.a.op));
		assert_ok(write_imm(0, SLIME_FENCE, rail));
		assert_ok(rdma_wait(&pair, recvs[0]));
		assert_memory_equal(pair.a.bytes, pair.b.bytes, LEN);
		assert_ok(rdma_wait(&pair, pair.a.op));
		assert_ok(rdma_wait(&pair, sends[rail]));
		cut(rail, false);
		await(rail, SLIME_RAIL_UP);
	}
}

/* Nothing is on the way. Where the machine is busy a rail is found slow that is not, and would have
 * nothing of the next batch. */
static void forget_shares(const struct rdma_end *e)
{
	struct rdma_conn *c = rdma_conn_of(sl_endpoint_conn(e->ep));

	for (unsigned i = 0; i < RAILS; i++) {
		rdma_share_reset(&c->paths[i].share);
		c->paths[i].weight = RDMA_SHARE_WHOLE;
	}
}

/* As long as its queue pair may still move bytes, the op and its memory are the library's. */
static void op__of_a_dead_rail_is_pending_until_both_ends_have_fenced_it(void **state)
{
	struct slime_xfer x = rdma_a_and_b(&pair, 0, 0, LEN);
	uint64_t until = sl_deadline_ns(60000);
	uint32_t qp;

	(void)state;
	/* Keys are known, and what asked for them was acknowledged, before. */
	assert_ok(slime_read(pair.a.ep, &x, 1, 0, pair.a.op));
	assert_ok(rdma_wait(&pair, pair.a.op));
	forget_shares(&pair.a);
	assert_int_equal(fakeverbs_qps(RAILS, &qp, 1), 1);
	memset(pair.b.bytes, 5, LEN);
	cut(0, true);
	assert_ok(slime_read(pair.a.ep, &x, 1, 0, pair.a.op));
	fakeverbs_hold_qp(RAILS, qp, true);
	port(0, false);
	/* a is without its queue pair, b is not. */
	while (fakeverbs_qps(0, &qp, 1)) {
		rdma_poll(&pair);
		assert_true(sl_clock_ns() < until);
	}
	assert_int_equal(fakeverbs_qps(RAILS, &qp, 1), 1);
	assert_false(slime_op_test(pair.a.op));
	while (!slime_op_test(pair.a.op)) {
		assert_true(sl_clock_ns() < until);
		rdma_poll(&pair);
	}
	assert_int_equal(fakeverbs_qps(RAILS, &qp, 1), 0);
	assert_ok(slime_op_status(pair.a.op));
	assert_memory_equal(pair.a.bytes, pair.b.bytes, LEN);
}

/* ---- a slow rail ---- */

static uint32_t share_of(unsigned rail)
{
	struct slime_rail_info info[RAILS];

	slime_endpoint_rails(pair.a.ep, info, RAILS);
	return info[rail].share;
}

static void write_all(void)
{
	static struct slime_xfer x;

	x = rdma_a_and_b(&pair, 0, 0, LEN);
	assert_ok(slime_write(pair.a.ep, &x, 1, 0, pair.a.op));
}

/* Operations are done without it, and it has its share again soon after it is as fast as others. */
static void rail__that_is_slow_holds_nothing_up_and_is_noticed_when_it_is_not(void **state)
{
	uint64_t until;
	uint32_t qp;

	(void)state;
	/* Its part of one takes very long. */
	assert_int_equal(fakeverbs_qps(0, &qp, 1), 1);
	write_all();
	assert_ok(rdma_wait(&pair, pair.a.op));
	fakeverbs_hold_qp(0, qp, true);
	write_all();
	rdma_settle(&pair);
	ahead_ns += 100 * SL_NS_PER_S;
	fakeverbs_hold_qp(0, qp, false);
	assert_ok(rdma_wait(&pair, pair.a.op));
	assert_in_range(share_of(0), 0, 20);
	fakeverbs_hold_qp(0, qp, true);
	write_all();
	assert_ok(rdma_wait(&pair, pair.a.op));
	fakeverbs_hold_qp(0, qp, false);
	until = sl_deadline_ns(60000);
	while (share_of(0) < 100) {
		write_all();
		assert_ok(rdma_wait(&pair, pair.a.op));
		assert_true(sl_clock_ns() < until);
	}
	assert_connected();
}

/* ---- again and again ---- */

/* Both ends hear of it: they would try by themselves, and wait longer and longer in between. */
static void await_return(unsigned rail)
{
	uint64_t until = sl_deadline_ns(60000);

	for (unsigned i = 0; !is(rail, SLIME_RAIL_UP); i++) {
		if (i % 64 == 0) {
			fakeverbs_raise(rail, IBV_EVENT_PORT_ACTIVE, 1);
			fakeverbs_raise(RAILS + rail, IBV_EVENT_PORT_ACTIVE, 1);
		}
		rdma_poll(&pair);
		assert_connected();
		assert_true(sl_clock_ns() < until);
	}
}

/* It goes down once more at each moment of its return; nothing of an earlier life is taken for one
 * of a later. */
static void rail__that_flaps_while_it_returns_comes_back(void **state)
{
	(void)state;
	for (unsigned n = 1; n < 48; n++) {
		unsigned device = n % 2 ? 0 : RAILS;

		port(device, false);
		await(0, SLIME_RAIL_DOWN);
		port(device, true);
		for (unsigned i = 0; i < n; i++)
			rdma_poll(&pair);
		port(device, false);
		rdma_poll(&pair);
		port(device, true);
		post_recv(0);
		send_value(0, (uint8_t)n);
		assert_got(0, (uint8_t)n);
		assert_ok(rdma_wait(&pair, sends[0]));
		await_return(0);
	}
}

/* Its probes are answered, and it fails, before anybody looks. */
static void rail__that_fails_in_the_moment_of_its_return_is_not_used(void **state)
{
	struct rdma_path *p = &rdma_conn_of(sl_endpoint_conn(pair.a.ep))->paths[0];
	uint64_t until = sl_deadline_ns(60000);

	(void)state;
	port(0, false);
	await(0, SLIME_RAIL_DOWN);
	cut(0, true);
	port(0, true);
	while (p->state != RDMA_PATH_PROVING) {
		rdma_poll(&pair);
		assert_true(sl_clock_ns() < until);
	}
	pthread_mutex_lock(&p->c->lock);
	assert_true(rdma_path_leave(p, "a test"));
	pthread_mutex_unlock(&p->c->lock);
	rdma_path_come_up(p);
	assert_false(p->usable);
	cut(0, false);
	await_return(0);
}

/* It is the last then, and its device still moves bytes. */
static void rail__whose_port_went_down_is_left_when_another_comes_up(void **state)
{
	struct slime_rail_info info[RAILS];

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		port(i, false);
		await(i, SLIME_RAIL_DOWN);
	}
	fakeverbs_raise(2, IBV_EVENT_PORT_ERR, 1);
	settle_workers();
	assert_connected();
	port(0, true);
	await_return(0);
	await_return(2);
	assert_int_equal(slime_endpoint_rails(pair.a.ep, info, RAILS), RAILS);
	assert_int_equal(info[2].n_failures, 1);
}

static void await_path(const struct rdma_end *e, unsigned rail, enum rdma_path_state state)
{
	const struct rdma_path *p = &rdma_conn_of(sl_endpoint_conn(e->ep))->paths[rail];
	uint64_t until = sl_deadline_ns(60000);

	while (p->state != state) {
		rdma_poll(&pair);
		assert_connected();
		assert_true(sl_clock_ns() < until);
	}
}

/* Of its first life b does not hear while a is told nothing but what comes over rail 1. */
static uint32_t end_and_make_rail_0(void)
{
	uint32_t qp;

	assert_int_equal(fakeverbs_qps(1, &qp, 1), 1);
	fakeverbs_hold_qp(1, qp, true);
	port(0, false);
	port(RAILS, false);
	await_path(&pair.a, 0, RDMA_PATH_DOWN);
	port(0, true);
	await_path(&pair.a, 0, RDMA_PATH_MADE);
	return qp;
}

static void await_return_of_rails_0_and_1(uint32_t held_qp)
{
	fakeverbs_hold_qp(1, held_qp, false);
	await(1, SLIME_RAIL_DOWN);
	port(0, true);
	port(1, true);
	port(RAILS, true);
	await_return(0);
	await_return(1);
}

/* b hears of neither end of rail 0, of two of its lives, before rail 1 over which a says so ends.
 */
static void rail__that_ends_twice_before_the_peer_hears_of_it_is_agreed_on(void **state)
{
	uint32_t qp = end_and_make_rail_0();

	(void)state;
	port(0, false);
	await_path(&pair.a, 0, RDMA_PATH_STOPPED);
	port(1, false);
	await_path(&pair.a, 1, RDMA_PATH_DRAINING);
	await_return_of_rails_0_and_1(qp);
}

/* The word of its first end is with rail 1, on whose end nobody has agreed yet. */
static void rail__that_ends_again_while_the_first_end_is_not_told_is_agreed_on(void **state)
{
	uint32_t qp = end_and_make_rail_0();

	(void)state;
	port(1, false);
	await_path(&pair.a, 1, RDMA_PATH_DRAINING);
	port(0, false);
	await_path(&pair.a, 0, RDMA_PATH_STOPPED);
	rdma_settle(&pair);
	await_return_of_rails_0_and_1(qp);
}

/* Of all rails only rail 0 is left, and rail 1 returns: b's queue pair of it, which is held before
 * it is proved. */
static uint32_t hold_the_probe_of_rail_1(void)
{
	uint32_t qp;

	for (unsigned i = 1; i < RAILS; i++) {
		port(i, false);
		port(RAILS + i, false);
		await(i, SLIME_RAIL_DOWN);
	}
	port(1, true);
	port(RAILS + 1, true);
	while (!fakeverbs_qps(RAILS + 1, &qp, 1))
		rdma_poll(&pair);
	fakeverbs_hold_qp(RAILS + 1, qp, true);
	await_path(&pair.b, 1, RDMA_PATH_PROVING);
	return qp;
}

/* Nothing passes over the one that returns, whose port is up. */
static void rail__that_is_the_last_in_use_is_not_left_for_one_that_is_not_proved(void **state)
{
	uint32_t qp = hold_the_probe_of_rail_1();

	(void)state;
	port(RAILS, false);
	rdma_settle(&pair);
	assert_true(rdma_conn_of(sl_endpoint_conn(pair.b.ep))->paths[0].usable);
	port(RAILS, true);
	post_recv(0);
	send_value(0, 1);
	assert_got(0, 1);
	assert_ok(rdma_wait(&pair, sends[0]));
	fakeverbs_hold_qp(RAILS + 1, qp, false);
	await_return(1);
}

/* It is up at a. */
static void rail__whose_probe_is_under_way_takes_over_from_the_last(void **state)
{
	uint32_t qp = hold_the_probe_of_rail_1();

	(void)state;
	await_path(&pair.a, 1, RDMA_PATH_UP);
	post_recv(0);
	cut(0, true);
	send_value(0, 1);
	assert_int_equal(fakeverbs_qps(RAILS, &qp, 1), 1);
	fakeverbs_raise_qp(RAILS, qp, IBV_EVENT_QP_FATAL);
	rdma_settle(&pair);
	assert_connected();
	assert_int_equal(fakeverbs_qps(RAILS + 1, &qp, 1), 1);
	fakeverbs_hold_qp(RAILS + 1, qp, false);
	assert_got(0, 1);
	assert_ok(rdma_wait(&pair, sends[0]));
	await(1, SLIME_RAIL_UP);
	cut(0, false);
	await_return(0);
}

#define IN_PAIR(fn) cmocka_unit_test_setup_teardown(fn, begin, end)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		IN_PAIR(message__that_arrived_is_not_sent_again),
		IN_PAIR(message__that_was_lost_arrives_before_newer_ones),
		IN_PAIR(messages__keep_their_order_when_two_rails_end),
		IN_PAIR(message__in_doubt_ends_the_link),
		IN_PAIR(count__that_nothing_depends_on_may_be_unknown),
		IN_PAIR(rail__of_who_got_no_cpu_for_long_is_agreed_on),
		IN_PAIR(write_imm__that_arrived_is_not_written_again),
		IN_PAIR(write_imm__that_was_lost_comes_once_and_behind_its_bytes),
		IN_PAIR(fence__holds_while_work_moves),
		IN_PAIR(op__of_a_dead_rail_is_pending_until_both_ends_have_fenced_it),
		IN_PAIR(rail__that_is_slow_holds_nothing_up_and_is_noticed_when_it_is_not),
		IN_PAIR(rail__that_flaps_while_it_returns_comes_back),
		IN_PAIR(rail__that_fails_in_the_moment_of_its_return_is_not_used),
		IN_PAIR(rail__whose_port_went_down_is_left_when_another_comes_up),
		IN_PAIR(rail__that_ends_twice_before_the_peer_hears_of_it_is_agreed_on),
		IN_PAIR(rail__that_ends_again_while_the_first_end_is_not_told_is_agreed_on),
		IN_PAIR(rail__that_is_the_last_in_use_is_not_left_for_one_that_is_not_proved),
		IN_PAIR(rail__whose_probe_is_under_way_takes_over_from_the_last),
	};

	return cmocka_run_group_tests_name("rdma_rails_fence", tests, NULL, NULL);
}
