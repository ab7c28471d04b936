/* SPDX-License-Identifier: Apache-2.0 */
/* Rails that are slow, or that end and return, again and again: what goes over them meanwhile. */
#include <sched.h>

#include "base/clock.h"
#include "src/core/lock.h"
#include "src/transport/rdma/conn.h"
#include "src/transport/rdma/cq.h"
#include "src/transport/rdma/nic.h"
#include "src/transport/rdma/offer.h"
#include "src/transport/rdma/path.h"
#include "tests/libslime/transport/rdma/rails_fixture.h"

/* ---- a slow rail ---- */

static uint32_t share_of(unsigned rail)
{
	struct slime_rail_info info[RAILS];

	slime_endpoint_rails(rails.pair.a.ep, info, RAILS);
	return info[rail].share;
}

static void write_all(void)
{
	static struct slime_xfer x;

	x = rdma_a_and_b(&rails.pair, 0, 0, LEN);
	assert_ok(slime_write(rails.pair.a.ep, &x, 1, 0, rails.pair.a.op));
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
	assert_ok(rdma_wait(&rails.pair, rails.pair.a.op));
	fakeverbs_hold_qp(0, qp, true);
	write_all();
	rdma_settle(&rails.pair);
	rails.ahead_ns += 100 * SL_NS_PER_S;
	fakeverbs_hold_qp(0, qp, false);
	assert_ok(rdma_wait(&rails.pair, rails.pair.a.op));
	assert_in_range(share_of(0), 0, 20);
	fakeverbs_hold_qp(0, qp, true);
	write_all();
	assert_ok(rdma_wait(&rails.pair, rails.pair.a.op));
	fakeverbs_hold_qp(0, qp, false);
	until = sl_deadline_ns(60000);
	while (share_of(0) < 100) {
		write_all();
		assert_ok(rdma_wait(&rails.pair, rails.pair.a.op));
		assert_true(sl_clock_ns() < until);
	}
	rails_assert_connected();
}

/* ---- when it is tried ---- */

static const struct rdma_path *first_of_a(void)
{
	return &rdma_endpoint_conn(rails.pair.a.ep)->paths[0];
}

/* Until the first is down at a: how long it waits then. */
static uint64_t end_first(void)
{
	uint64_t until = sl_deadline_ns(60000);

	rails_set_port(0, false);
	while (first_of_a()->state != RDMA_PATH_DOWN) {
		rdma_poll(&rails.pair);
		assert_true(sl_clock_ns() < until);
	}
	return first_of_a()->pause_ns;
}

static void rail__that_does_not_last_waits_twice_as_long_each_time(void **state)
{
	(void)state;
	for (uint64_t pause = RDMA_PAUSE_MIN_NS; pause < 2 * RDMA_PAUSE_MAX_NS; pause *= 2) {
		assert_int_equal(end_first(),
				 pause < RDMA_PAUSE_MAX_NS ? pause : RDMA_PAUSE_MAX_NS);
		rails_set_port(0, true);
		rails_await_return(0);
	}
	rails.ahead_ns += 10 * SL_NS_PER_S; /* so long it lasts */
	assert_int_equal(end_first(), RDMA_PAUSE_MIN_NS);
}

/* And not when its next try is due. */
static void rail__whose_port_comes_up_is_tried_at_once(void **state)
{
	uint64_t due;

	(void)state;
	end_first();
	while (first_of_a()->pause_ns < RDMA_PAUSE_MAX_NS) {
		rails.ahead_ns += RDMA_PAUSE_MAX_NS;
		rails_settle_workers();
	}
	rails.ahead_ns += RDMA_PAUSE_MAX_NS;
	rails_settle_workers();
	due = first_of_a()->timer.when_ns;
	assert_true(due > sl_clock_ns() + RDMA_PAUSE_MAX_NS / 2);
	rails_set_port(0, true);
	rails_await(0, SLIME_RAIL_UP);
	assert_true(sl_clock_ns() < due);
}

/* ---- again and again ---- */

/* It goes down once more at each moment of its return; nothing of an earlier life is taken for one
 * of a later. */
static void rail__that_flaps_while_it_returns_comes_back(void **state)
{
	(void)state;
	for (unsigned n = 1; n < 48; n++) {
		unsigned device = n % 2 ? 0 : RAILS;

		rails_set_port(device, false);
		rails_await(0, SLIME_RAIL_DOWN);
		rails_set_port(device, true);
		for (unsigned i = 0; i < n; i++)
			rdma_poll(&rails.pair);
		rails_set_port(device, false);
		rdma_poll(&rails.pair);
		rails_set_port(device, true);
		rails_post_recv(0);
		rails_send_value(0, (uint8_t)n);
		rails_assert_got(0, (uint8_t)n);
		assert_ok(rdma_wait(&rails.pair, rails.sends[0]));
		rails_await_return(0);
	}
}

/* Its probes are answered, and it fails, before anybody looks. */
static void rail__that_fails_in_the_moment_of_its_return_is_not_used(void **state)
{
	struct rdma_path *p = &rdma_endpoint_conn(rails.pair.a.ep)->paths[0];
	uint64_t until = sl_deadline_ns(60000);

	(void)state;
	rails_set_port(0, false);
	rails_await(0, SLIME_RAIL_DOWN);
	rails_cut(0, true);
	rails_set_port(0, true);
	while (p->state != RDMA_PATH_PROVING) {
		rdma_poll(&rails.pair);
		assert_true(sl_clock_ns() < until);
	}
	sl_lock(&p->c->lock);
	assert_true(rdma_path_leave(p, "a test"));
	sl_unlock(&p->c->lock);
	rdma_path_come_up(p);
	assert_false(p->usable);
	rails_cut(0, false);
	rails_await_return(0);
}

/* It is the last then, and its device still moves bytes. */
static void rail__whose_port_went_down_is_left_when_another_comes_up(void **state)
{
	struct slime_rail_info info[RAILS];

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		rails_set_port(i, false);
		rails_await(i, SLIME_RAIL_DOWN);
	}
	fakeverbs_raise(2, IBV_EVENT_PORT_ERR, 1);
	rails_settle_workers();
	rails_assert_connected();
	rails_set_port(0, true);
	rails_await_return(0);
	rails_await_return(2);
	assert_int_equal(slime_endpoint_rails(rails.pair.a.ep, info, RAILS), RAILS);
	assert_int_equal(info[2].n_failures, 1);
}

/* As when its interface is set down: the GID table follows the port, which still moves bytes. */
static void port__that_is_down_stays_so_when_its_addresses_go(void **state)
{
	(void)state;
	for (unsigned i = 1; i < RAILS; i++) {
		rails_set_port(RAILS + i, false);
		rails_await(i, SLIME_RAIL_DOWN);
	}
	fakeverbs_raise(0, IBV_EVENT_PORT_ERR, 1);
	fakeverbs_set_gid(0, 1, 0, NULL, IBV_GID_TYPE_ROCE_V1);
	rails_settle_workers();
	rails_set_port(RAILS + 1, true);
	rails_await(1, SLIME_RAIL_UP);
	rails_await(0, SLIME_RAIL_DOWN);
}

static void await_path(const struct rdma_end *e, unsigned rail, enum rdma_path_state state)
{
	const struct rdma_path *p = &rdma_endpoint_conn(e->ep)->paths[rail];
	uint64_t until = sl_deadline_ns(60000);

	while (p->state != state) {
		rdma_poll(&rails.pair);
		rails_assert_connected();
		assert_true(sl_clock_ns() < until);
	}
}

/* Of its first life b does not hear while a is told nothing but what comes over rail 1. */
static uint32_t end_and_make_rail_0(void)
{
	uint32_t qp;

	assert_int_equal(fakeverbs_qps(1, &qp, 1), 1);
	fakeverbs_hold_qp(1, qp, true);
	rails_set_port(0, false);
	rails_set_port(RAILS, false);
	await_path(&rails.pair.a, 0, RDMA_PATH_DOWN);
	rails_set_port(0, true);
	await_path(&rails.pair.a, 0, RDMA_PATH_MADE);
	return qp;
}

static void await_return_of_rails_0_and_1(uint32_t held_qp)
{
	fakeverbs_hold_qp(1, held_qp, false);
	rails_await(1, SLIME_RAIL_DOWN);
	rails_set_port(0, true);
	rails_set_port(1, true);
	rails_set_port(RAILS, true);
	rails_await_return(0);
	rails_await_return(1);
}

/* b hears of neither end of rail 0, of two of its lives, before rail 1 over which a says so ends.
 */
static void rail__that_ends_twice_before_the_peer_hears_of_it_is_agreed_on(void **state)
{
	uint32_t qp = end_and_make_rail_0();

	(void)state;
	rails_set_port(0, false);
	await_path(&rails.pair.a, 0, RDMA_PATH_STOPPED);
	rails_set_port(1, false);
	await_path(&rails.pair.a, 1, RDMA_PATH_DRAINING);
	await_return_of_rails_0_and_1(qp);
}

/* The word of its first end is with rail 1, on whose end nobody has agreed yet. */
static void rail__that_ends_again_while_the_first_end_is_not_told_is_agreed_on(void **state)
{
	uint32_t qp = end_and_make_rail_0();

	(void)state;
	rails_set_port(1, false);
	await_path(&rails.pair.a, 1, RDMA_PATH_DRAINING);
	rails_set_port(0, false);
	await_path(&rails.pair.a, 0, RDMA_PATH_STOPPED);
	rdma_settle(&rails.pair);
	await_return_of_rails_0_and_1(qp);
}

/* Of all rails only rail 0 is left, and rail 1 returns: b's queue pair of it, which is held before
 * it is proved. */
static uint32_t hold_the_probe_of_rail_1(void)
{
	uint32_t qp;

	for (unsigned i = 1; i < RAILS; i++) {
		rails_set_port(i, false);
		rails_set_port(RAILS + i, false);
		rails_await(i, SLIME_RAIL_DOWN);
	}
	rails_set_port(1, true);
	rails_set_port(RAILS + 1, true);
	while (!fakeverbs_qps(RAILS + 1, &qp, 1))
		rdma_poll(&rails.pair);
	fakeverbs_hold_qp(RAILS + 1, qp, true);
	await_path(&rails.pair.b, 1, RDMA_PATH_PROVING);
	return qp;
}

/* Nothing passes over the one that returns, whose port is up. */
static void rail__that_is_the_last_in_use_is_not_left_for_one_that_is_not_proved(void **state)
{
	uint32_t qp = hold_the_probe_of_rail_1();

	(void)state;
	rails_set_port(RAILS, false);
	rdma_settle(&rails.pair);
	assert_true(rdma_endpoint_conn(rails.pair.b.ep)->paths[0].usable);
	rails_set_port(RAILS, true);
	rails_post_recv(0);
	rails_send_value(0, 1);
	rails_assert_got(0, 1);
	assert_ok(rdma_wait(&rails.pair, rails.sends[0]));
	fakeverbs_hold_qp(RAILS + 1, qp, false);
	rails_await_return(1);
}

/* It is up at a. */
static void rail__whose_probe_is_under_way_takes_over_from_the_last(void **state)
{
	uint32_t qp = hold_the_probe_of_rail_1();

	(void)state;
	await_path(&rails.pair.a, 1, RDMA_PATH_UP);
	rails_post_recv(0);
	rails_cut(0, true);
	rails_send_value(0, 1);
	assert_int_equal(fakeverbs_qps(RAILS, &qp, 1), 1);
	fakeverbs_raise_qp(RAILS, qp, IBV_EVENT_QP_FATAL);
	rdma_settle(&rails.pair);
	rails_assert_connected();
	assert_int_equal(fakeverbs_qps(RAILS + 1, &qp, 1), 1);
	fakeverbs_hold_qp(RAILS + 1, qp, false);
	rails_assert_got(0, 1);
	assert_ok(rdma_wait(&rails.pair, rails.sends[0]));
	rails_await(1, SLIME_RAIL_UP);
	rails_cut(0, false);
	rails_await_return(0);
}

/* Of all rails only rail 0 is left, and rail 1 returns: b uses it, and its word that it has risen
 * is with rail 0, where b's queue pair is held. */
static void hold_the_risen_of_rail_1(uint32_t *a_qp, uint32_t *b_qp)
{
	for (unsigned i = 1; i < RAILS; i++) {
		rails_set_port(i, false);
		rails_set_port(RAILS + i, false);
		rails_await(i, SLIME_RAIL_DOWN);
	}
	assert_int_equal(fakeverbs_qps(0, a_qp, 1), 1);
	assert_int_equal(fakeverbs_qps(RAILS, b_qp, 1), 1);
	/* b is told of a's queue pair when it has told of its own. */
	fakeverbs_hold_qp(0, *a_qp, true);
	rails_set_port(1, true);
	rails_set_port(RAILS + 1, true);
	await_path(&rails.pair.b, 1, RDMA_PATH_MADE);
	fakeverbs_hold_qp(RAILS, *b_qp, true);
	fakeverbs_hold_qp(0, *a_qp, false);
	await_path(&rails.pair.b, 1, RDMA_PATH_UP);
	await_path(&rails.pair.a, 1, RDMA_PATH_RISEN);
}

static void assert_goes_on_over_rail_1(void)
{
	rails_await(1, SLIME_RAIL_UP);
	rails_post_recv(0);
	rails_send_value(0, 1);
	rails_assert_got(0, 1);
	assert_ok(rdma_wait(&rails.pair, rails.sends[0]));
	rails_await_return(0);
}

/* What b says over rail 1 is as good. */
static void rail__whose_risen_is_lost_with_the_last_takes_over_from_it(void **state)
{
	uint32_t a_qp, b_qp;

	(void)state;
	hold_the_risen_of_rail_1(&a_qp, &b_qp);
	fakeverbs_raise_qp(RAILS, b_qp, IBV_EVENT_QP_FATAL);
	fakeverbs_hold_qp(RAILS, b_qp, false);
	assert_goes_on_over_rail_1();
}

/* b has said nothing over rail 1 when a finds rail 0 broken. */
static void rail__whose_peer_has_not_said_that_it_rose_takes_over_from_the_last(void **state)
{
	uint32_t a_qp, b_qp;

	(void)state;
	hold_the_risen_of_rail_1(&a_qp, &b_qp);
	fakeverbs_raise_qp(0, a_qp, IBV_EVENT_QP_FATAL);
	await_path(&rails.pair.a, 0, RDMA_PATH_STOPPED);
	fakeverbs_hold_qp(RAILS, b_qp, false);
	assert_goes_on_over_rail_1();
}

/* ---- a rail that rises while the last ends ---- */

static struct ibv_context *_Atomic waits; /* with RTS, until it is not to any more */
static _Atomic bool is_waiting;
static struct rdma_path *_Atomic watched;
static _Atomic bool is_raised; /* though it is found broken */

/* A worker begins to bring one up, and does no more, so that what it did is no news to others. */
static struct ibv_context *_Atomic begins;
static _Atomic bool has_begun;

static void wait_where_it_begins(const struct ibv_qp *qp)
{
	while (qp->context == atomic_load_explicit(&begins, memory_order_relaxed)) {
		atomic_store_explicit(&has_begun, true, memory_order_relaxed);
		sched_yield();
	}
}

int __real_ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
int __wrap_ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);

int __wrap_ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	const struct rdma_path *p = atomic_load(&watched);

	if (attr->qp_state == IBV_QPS_RTR && p && qp->context == p->rail->nic->device.ibv &&
	    atomic_load(&p->failed))
		atomic_store(&is_raised, true);
	if (attr->qp_state == IBV_QPS_INIT)
		wait_where_it_begins(qp);
	while (attr->qp_state == IBV_QPS_RTS && qp->context == atomic_load(&waits)) {
		atomic_store(&is_waiting, true);
		sched_yield();
	}
	return __real_ibv_modify_qp(qp, attr, mask);
}

/* a's half of rail 1 has risen, and b's has not, when rail 0 fails, of which a tells over it. */
static void rail__that_rises_takes_over_from_the_last(void **state)
{
	struct rdma_conn *b = rdma_endpoint_conn(rails.pair.b.ep);
	uint32_t qp;

	(void)state;
	for (unsigned i = 1; i < RAILS; i++) {
		rails_set_port(i, false);
		rails_set_port(RAILS + i, false);
		rails_await(i, SLIME_RAIL_DOWN);
	}
	assert_int_equal(fakeverbs_qps(0, &qp, 1), 1);
	atomic_store(&is_waiting, false);
	atomic_store(&waits, rails_device_of(&rails.pair.b, 1));
	rails_set_port(1, true);
	rails_set_port(RAILS + 1, true);
	await_path(&rails.pair.a, 1, RDMA_PATH_RISEN);
	while (!atomic_load(&is_waiting))
		rdma_poll(&rails.pair);
	fakeverbs_raise_qp(0, qp, IBV_EVENT_QP_FATAL);
	while (!b->paths[0].peer_stopped && !b->paths[0].life)
		rdma_poll(&rails.pair);
	assert_false(atomic_load(&b->ending));
	await_path(&rails.pair.b, 0, RDMA_PATH_DOWN);
	atomic_store(&waits, NULL);
	assert_goes_on_over_rail_1();
}

/* Where the test failed, too. */
static int end_of_waiting(void **state)
{
	atomic_store(&waits, NULL);
	atomic_store(&begins, NULL);
	return rails_end(state);
}

static uint64_t n_posts(void)
{
	return fakeverbs_counts().calls[FAKEVERBS_POST_SEND];
}

/* Its queue pairs are the worker's; those of the others are probed. */
static void rail__that_rises_is_not_looked_at_by_probes(void **state)
{
	uint64_t until = sl_deadline_ns(60000);
	uint64_t n;

	(void)state;
	end_first();
	atomic_store(&has_begun, false);
	atomic_store(&begins, rails_device_of(&rails.pair.a, 0));
	rails_set_port(0, true);
	while (!atomic_load_explicit(&has_begun, memory_order_relaxed)) {
		rdma_poll(&rails.pair);
		assert_true(sl_clock_ns() < until);
	}
	rdma_settle(&rails.pair);
	n = n_posts();
	rails.ahead_ns += 3600 * SL_NS_PER_S;
	rdma_settle(&rails.pair);
	assert_true(n_posts() >= n + 2 * (RAILS - 1));
	atomic_store(&begins, NULL);
	rails_await_return(0);
}

/* ---- a completion queue that fails before it has a queue pair ---- */

static _Atomic bool breaks_next_cq, may_have_it;

struct ibv_cq *__real_ibv_create_cq(struct ibv_context *ibv, int cqe, void *arg,
				    struct ibv_comp_channel *channel, int vector);
struct ibv_cq *__wrap_ibv_create_cq(struct ibv_context *ibv, int cqe, void *arg,
				    struct ibv_comp_channel *channel, int vector);

static uint64_t n_looks_for_events(void)
{
	return fakeverbs_counts().calls[FAKEVERBS_GET_ASYNC_EVENT];
}

/* It comes back when the token's holder has heard of it, and looks for the next event; and the test
 * says so. */
struct ibv_cq *__wrap_ibv_create_cq(struct ibv_context *ibv, int cqe, void *arg,
				    struct ibv_comp_channel *channel, int vector)
{
	struct ibv_cq *ibv_cq = __real_ibv_create_cq(ibv, cqe, arg, channel, vector);
	const struct rdma_cq *cq = arg;
	uint64_t n;

	if (ibv_cq && atomic_exchange(&breaks_next_cq, false)) {
		fakeverbs_break_new_cq(ibv_cq);
		while (!atomic_load(&cq->failed))
			sched_yield();
		n = n_looks_for_events();
		while (n_looks_for_events() == n || !atomic_load(&may_have_it))
			sched_yield();
	}
	return ibv_cq;
}

static void rail__whose_next_completion_queue_fails_at_once_comes_back(void **state)
{
	uint32_t qp;

	(void)state;
	assert_int_equal(fakeverbs_qps(0, &qp, 1), 1);
	atomic_store(&breaks_next_cq, true);
	atomic_store(&may_have_it, true);
	fakeverbs_break_cq(0, qp);
	rails_await(0, SLIME_RAIL_DOWN);
	rails_await_return(0);
	assert_false(atomic_load(&breaks_next_cq));
}

/* The peer's queue pair is known by then. */
static void rail__whose_next_completion_queue_fails_at_once_is_not_raised(void **state)
{
	struct rdma_path *p = &rdma_endpoint_conn(rails.pair.a.ep)->paths[0];
	uint64_t until = sl_deadline_ns(60000);
	uint32_t qp;

	(void)state;
	assert_int_equal(fakeverbs_qps(0, &qp, 1), 1);
	atomic_store(&is_raised, false);
	atomic_store(&watched, p);
	atomic_store(&may_have_it, false);
	atomic_store(&breaks_next_cq, true);
	fakeverbs_break_cq(0, qp);
	while (atomic_load(&breaks_next_cq) || !p->peer_qps) {
		rdma_poll(&rails.pair);
		assert_true(sl_clock_ns() < until);
	}
	atomic_store(&may_have_it, true);
	rails_await_return(0);
	assert_false(atomic_load(&is_raised));
	atomic_store(&watched, NULL);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		IN_PAIR(rail__that_is_slow_holds_nothing_up_and_is_noticed_when_it_is_not),
		IN_PAIR(rail__that_does_not_last_waits_twice_as_long_each_time),
		IN_PAIR(rail__whose_port_comes_up_is_tried_at_once),
		IN_PAIR(rail__that_flaps_while_it_returns_comes_back),
		IN_PAIR(rail__that_fails_in_the_moment_of_its_return_is_not_used),
		IN_PAIR(rail__whose_port_went_down_is_left_when_another_comes_up),
		IN_PAIR(port__that_is_down_stays_so_when_its_addresses_go),
		IN_PAIR(rail__that_ends_twice_before_the_peer_hears_of_it_is_agreed_on),
		IN_PAIR(rail__that_ends_again_while_the_first_end_is_not_told_is_agreed_on),
		IN_PAIR(rail__that_is_the_last_in_use_is_not_left_for_one_that_is_not_proved),
		IN_PAIR(rail__whose_probe_is_under_way_takes_over_from_the_last),
		IN_PAIR(rail__whose_risen_is_lost_with_the_last_takes_over_from_it),
		IN_PAIR(rail__whose_peer_has_not_said_that_it_rose_takes_over_from_the_last),
		cmocka_unit_test_setup_teardown(rail__that_rises_takes_over_from_the_last,
						rails_begin, end_of_waiting),
		cmocka_unit_test_setup_teardown(rail__that_rises_is_not_looked_at_by_probes,
						rails_begin, end_of_waiting),
		IN_PAIR(rail__whose_next_completion_queue_fails_at_once_comes_back),
		IN_PAIR(rail__whose_next_completion_queue_fails_at_once_is_not_raised),
	};

	return cmocka_run_group_tests_name("rdma_rails_return", tests, NULL, NULL);
}
