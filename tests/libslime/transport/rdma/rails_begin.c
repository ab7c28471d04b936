/* SPDX-License-Identifier: Apache-2.0 */
/* A link that comes up though one of its rails does not, or breaks meanwhile. */
#include "base/clock.h"
#include "base/list.h"
#include "src/progress/context.h"
#include "src/transport/rdma/conn.h"
#include "src/transport/rdma/nic.h"
#include "src/transport/rdma/offer.h"
#include "src/transport/rdma/path.h"
#include "src/transport/rdma/qp.h"
#include "src/transport/rdma/transport.h"
#include "tests/libslime/transport/rdma/rails_fixture.h"
#include "tests/support/log_lines.h"

/* ---- its port goes down ---- */

static uint32_t only_qp(unsigned device)
{
	uint32_t number;

	assert_int_equal(fakeverbs_qps(device, &number, 1), 1);
	return number;
}

static void goes_down(unsigned device)
{
	rails_set_port(device, false);
}

/* A link anew: something happens to the device when b has made its offer, and a greets. */
static void begin_while(void (*happens)(unsigned device), unsigned device)
{
	rdma_pair_destroy_endpoints(&rails.pair);
	assert_ok(rdma_pair_create_endpoints(&rails.pair));
	assert_ok(rdma_pair_begin_to_connect(&rails.pair.a, &rails.pair.b));
	rails_settle_workers();
	happens(device);
	rails_settle_workers();
}

static void connect_while(void (*happens)(unsigned device), unsigned device)
{
	begin_while(happens, device);
	assert_ok(rdma_pair_begin_to_connect(&rails.pair.b, &rails.pair.a));
	assert_ok(rdma_pair_wait_for_both(&rails.pair));
}

static void port__that_goes_down_while_the_link_greets_is_left_when_it_is_up(void **state)
{
	(void)state;
	connect_while(goes_down, 1);
	rails_await(1, SLIME_RAIL_DOWN);
}

static void port__that_goes_down_before_the_link_begins_is_left_when_it_is_up(void **state)
{
	(void)state;
	connect_while(goes_down, RAILS + 1);
	rails_await(1, SLIME_RAIL_DOWN);
}

static void port__of_the_first_rail_that_goes_down_meanwhile_leaves_the_link_to_others(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		connect_while(goes_down, i * RAILS);
		rails_await(0, SLIME_RAIL_DOWN);
		rails_set_port(i * RAILS, true);
		rails_await_return(0);
	}
}

/* ---- it cannot be brought up ---- */

static struct ibv_context *_Atomic refuses; /* RTR */
static struct ibv_context *_Atomic leads;
static _Atomic unsigned n_refused, n_led;

int __real_ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
int __wrap_ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);

int __wrap_ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	if (attr->qp_state == IBV_QPS_RTR && qp->context == atomic_load(&leads))
		atomic_fetch_add(&n_led, 1);
	if (attr->qp_state == IBV_QPS_RTR && qp->context == atomic_load(&refuses)) {
		atomic_fetch_add(&n_refused, 1);
		return ETIMEDOUT;
	}
	return __real_ibv_modify_qp(qp, attr, mask);
}

/* As when there is no path to the peer's address. It comes back when there is. */
static void rail__that_does_not_come_up_leaves_the_link_to_the_others(void **state)
{
	const struct rdma_conn *c = rdma_endpoint_conn(rails.pair.a.ep);

	(void)state;
	atomic_store(&refuses, c->paths[2].rail->nic->device.ibv);
	rdma_next_link(&rails.pair);
	assert_ok(rdma_write_now(&rails.pair, LEN, 1));
	rails_await(2, SLIME_RAIL_DOWN);
	assert_ok(rdma_write_now(&rails.pair, LEN, 2));
	atomic_store(&refuses, NULL);
	rails_await_return(2);
}

static void assert_a_message_passes(void)
{
	rails_post_recv(0);
	rails_send_value(0, 1);
	rails_assert_got(0, 1);
	assert_ok(rdma_wait(&rails.pair, rails.sends[0]));
}

/* The ends would greet each other over it; only one of them knows that it cannot be. */
static void rail__that_is_the_first_and_does_not_come_up_leaves_the_link_to_others(void **state)
{
	const struct rdma_end *ends[] = { &rails.pair.a, &rails.pair.b };

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		atomic_store(&refuses, rails_device_of(ends[i], 0));
		rdma_next_link(&rails.pair);
		assert_a_message_passes();
		assert_ok(rdma_write_now(&rails.pair, LEN, 1));
		rails_await(0, SLIME_RAIL_DOWN);
		atomic_store(&refuses, NULL);
		rails_await_return(0);
		assert_a_message_passes();
	}
}

/* And no device says so: others have their turn. */
static void rail__that_is_the_first_and_passes_nothing_leaves_the_link_to_others(void **state)
{
	(void)state;
	rails_cut(0, true);
	rdma_pair_destroy_endpoints(&rails.pair);
	assert_ok(rdma_pair_create_endpoints(&rails.pair));
	assert_ok(rdma_pair_begin_to_connect(&rails.pair.a, &rails.pair.b));
	assert_ok(rdma_pair_begin_to_connect(&rails.pair.b, &rails.pair.a));
	rails_settle_workers();
	rails.ahead_ns += 15 * SL_NS_PER_S; /* more than a turn, less than two */
	assert_ok(rdma_pair_wait_for_both(&rails.pair));
	assert_a_message_passes();
	rails_await(0, SLIME_RAIL_DOWN);
	rails_cut(0, false);
	rails_await_return(0);
}

/* Both ends begin, and no worker has been at it. */
static void begin_anew(void)
{
	rdma_pair_destroy_endpoints(&rails.pair);
	assert_ok(rdma_pair_create_endpoints(&rails.pair));
	assert_ok(rdma_pair_begin_to_connect(&rails.pair.a, &rails.pair.b));
	assert_ok(rdma_pair_begin_to_connect(&rails.pair.b, &rails.pair.a));
}

static void hold(unsigned device, bool is_held)
{
	fakeverbs_hold_qp(device, only_qp(device), is_held);
}

static void holds(unsigned device)
{
	hold(device, true);
}

static const struct sl_list *links_of(const struct rdma_end *e)
{
	return &rdma_of(e->ctx->transports[SLIME_TRANSPORT_RDMA])->conns;
}

static const struct rdma_conn *conn_of(const struct rdma_end *e)
{
	return SL_CONTAINER_OF(links_of(e)->next, struct rdma_conn, link);
}

static const struct rdma_conn *conn_of_a(void)
{
	return conn_of(&rails.pair.a);
}

/* As a try goes on, or a link ends. */
static void await_state(const struct rdma_end *e, enum rdma_conn_state state)
{
	uint64_t until = sl_deadline_ns(60000);

	while (sl_list_empty(links_of(e)) || rdma_state(conn_of(e)) != state) {
		rdma_poll(&rails.pair);
		assert_true(sl_clock_ns() < until);
	}
}

static void await_greeting_over(unsigned rail)
{
	uint64_t until = sl_deadline_ns(60000);

	while (conn_of_a()->paths[rail].state != RDMA_PATH_GREETING) {
		rdma_poll(&rails.pair);
		assert_true(sl_clock_ns() < until);
	}
}

/* Nor does a device say so, which repeats it for ever. */
static void rail__over_which_a_greeting_never_completes_leaves_the_link_to_others(void **state)
{
	(void)state;
	begin_anew();
	hold(0, true);
	hold(RAILS, true);
	rails_settle_workers();
	await_greeting_over(0);
	rails.ahead_ns += 15 * SL_NS_PER_S; /* more than a turn, less than two */
	assert_ok(rdma_pair_wait_for_both(&rails.pair));
	assert_a_message_passes();
	rails_await(0, SLIME_RAIL_DOWN);
	rails_await_return(0);
}

/* It was under way all the time. */
static void greeting__that_arrives_when_another_rail_has_its_turn_counts(void **state)
{
	(void)state;
	begin_anew();
	hold(0, true);
	hold(1, true);
	rails_settle_workers();
	await_greeting_over(0);
	rails.ahead_ns += 15 * SL_NS_PER_S;
	await_greeting_over(1);
	hold(0, false);
	assert_ok(rdma_pair_wait_for_both(&rails.pair));
	assert_ptr_equal(conn_of_a()->lead->path, &conn_of_a()->paths[0]);
	assert_a_message_passes();
	rails_await(1, SLIME_RAIL_DOWN);
	rails_await_return(1);
	assert_ok(rdma_write_now(&rails.pair, LEN, 1));
}

static int begin_with_two_qps(void **state)
{
	(void)state;
	return rails_open(2);
}

/* The device waits long for each, and the link's deadline does not. */
static void rail__that_does_not_come_up_is_given_up_with_its_first_queue_pair(void **state)
{
	const struct rdma_conn *c = rdma_endpoint_conn(rails.pair.a.ep);

	(void)state;
	atomic_store(&refuses, c->paths[2].rail->nic->device.ibv);
	atomic_store(&leads, c->paths[0].rail->nic->device.ibv);
	atomic_store(&n_refused, 0);
	atomic_store(&n_led, 0);
	rdma_next_link(&rails.pair);
	/* In each try. */
	assert_int_equal(atomic_load(&n_led), 2 * atomic_load(&n_refused));
	atomic_store(&leads, NULL);
	rails_await(2, SLIME_RAIL_DOWN);
	atomic_store(&refuses, NULL);
	rails_await_return(2);
}

/* ---- it breaks before the link is up ---- */

static void breaks_qp(unsigned device)
{
	fakeverbs_raise_qp(device, only_qp(device), IBV_EVENT_QP_FATAL);
}

static void breaks_cq(unsigned device)
{
	fakeverbs_break_cq(device, only_qp(device));
}

static void assert_work_passes(void)
{
	assert_a_message_passes();
	assert_ok(rdma_write_now(&rails.pair, LEN, 1));
	assert_a_message_passes();
}

/* That a greets over, or not. */
static void rail__whose_queue_pair_fails_before_the_link_is_up_leaves_it_to_others(void **state)
{
	(void)state;
	for (unsigned device = 0; device < 2; device++) {
		connect_while(breaks_qp, device);
		assert_work_passes();
		rails_await_return(device);
	}
}

/* At a which greets, or at b which has not begun. It gets another when the link is up. */
static void
rail__whose_completion_queue_fails_before_the_link_is_up_leaves_it_to_others(void **state)
{
	static const unsigned devices[] = { 0, 1, RAILS };

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		connect_while(breaks_cq, devices[i]);
		assert_work_passes();
		rails_await_return(devices[i] % RAILS);
		assert_work_passes();
	}
}

/* The same; it is opened again when nobody uses it. */
static void rail__whose_device_dies_before_the_link_is_up_leaves_it_to_others(void **state)
{
	(void)state;
	connect_while(fakeverbs_kill_device, 0);
	assert_work_passes();
	rails_await(0, SLIME_RAIL_DOWN);
}

static void rail__whose_device_dies_before_the_link_begins_leaves_it_to_others(void **state)
{
	(void)state;
	connect_while(fakeverbs_kill_device, RAILS + 1);
	assert_work_passes();
	rails_await(1, SLIME_RAIL_DOWN);
}

static void rail__over_which_no_greeting_can_be_posted_leaves_the_link_to_others(void **state)
{
	(void)state;
	rdma_pair_destroy_endpoints(&rails.pair);
	fakeverbs_fail_call_of(FAKEVERBS_POST_SEND, 1, EIO);
	assert_ok(rdma_pair_connect(&rails.pair));
	assert_true(fakeverbs_failed());
	assert_work_passes();
	rails_await_return(0);
}

/* Where a greeting went, and nothing since. */
static void rail__that_the_peer_was_greeted_over_breaks_and_costs_nothing(void **state)
{
	uint64_t until = sl_deadline_ns(60000);

	(void)state;
	begin_anew();
	hold(RAILS, true);
	rails_settle_workers();
	while (conn_of_a()->heard != &conn_of_a()->paths[0]) {
		rdma_poll(&rails.pair);
		assert_true(sl_clock_ns() < until);
	}
	fakeverbs_kill_device(0);
	rails_settle_workers();
	rails.ahead_ns += 15 * SL_NS_PER_S; /* b greets over another */
	assert_ok(rdma_pair_wait_for_both(&rails.pair));
	rails_await(0, SLIME_RAIL_DOWN);
	assert_work_passes();
}

/* Its greeting is acknowledged when the link is up over another. */
static void greeting__that_arrives_when_the_link_is_up_costs_nothing(void **state)
{
	(void)state;
	begin_anew();
	hold(0, true);
	hold(1, true);
	rails_settle_workers();
	await_greeting_over(0);
	rails.ahead_ns += 15 * SL_NS_PER_S;
	await_greeting_over(1);
	rdma_busy_begin(&rails.pair.a); /* nobody takes the first down meanwhile */
	hold(1, false);
	assert_ok(rdma_pair_wait_for_both(&rails.pair));
	assert_ptr_equal(conn_of_a()->lead->path, &conn_of_a()->paths[1]);
	hold(0, false);
	rdma_settle(&rails.pair);
	rdma_busy_end();
	rails_await_return(0);
	assert_work_passes();
}

/* ---- a greeting that arrived, and is lost with a completion queue ---- */

/* Both greet over the first rail, and neither is heard. */
static void begin_unheard(void)
{
	begin_anew();
	hold(0, true);
	hold(RAILS, true);
	rails_settle_workers();
	await_greeting_over(0);
	await_state(&rails.pair.b, RDMA_CONN_GREETING);
}

/* What a's first device has to say is gone, and its queue pair takes what comes. */
static void lose_completions(void)
{
	fakeverbs_fail_call_of(FAKEVERBS_POLL_CQ, 1, EIO);
	(void)slime_context_poll(rails.pair.a.ctx);
	assert_true(fakeverbs_failed());
	assert_int_equal(conn_of_a()->paths[0].state, RDMA_PATH_FALLEN);
}

static void assert_comes_up_without_the_first_rail(void)
{
	assert_ok(rdma_pair_wait_for_both(&rails.pair));
	assert_ptr_equal(conn_of_a()->heard, &conn_of_a()->paths[1]);
	assert_ptr_equal(conn_of(&rails.pair.b)->heard, &conn_of(&rails.pair.b)->paths[0]);
	rails_await(0, SLIME_RAIL_DOWN);
	assert_work_passes();
	rails_await_return(0);
	assert_work_passes();
}

/* The peer is up then, and has nothing to say by itself. */
static void greeting__that_is_lost_with_a_completion_queue_is_said_over_another_rail(void **state)
{
	(void)state;
	begin_unheard();
	hold(RAILS, false);
	hold(0, false);
	lose_completions();
	assert_comes_up_without_the_first_rail();
}

/* The peer has not heard of us when it is lost, and is up as soon as it does. */
static void greeting__that_is_lost_before_its_sender_is_up_is_said_over_another_rail(void **state)
{
	(void)state;
	begin_unheard();
	hold(RAILS, false);
	lose_completions();
	assert_comes_up_without_the_first_rail();
}

/* ---- it ends while a worker has nothing to bring up ---- */

/* All rails stand, over which it has its turns; the link comes up before the worker has seen that.
 */
static void close__while_no_rail_is_brought_up_waits_for_the_worker(void **state)
{
	uint32_t found;

	(void)state;
	rdma_pair_destroy_endpoints(&rails.pair);
	assert_ok(rdma_pair_create_endpoints(&rails.pair));
	assert_ok(rdma_pair_begin_to_connect(&rails.pair.a, &rails.pair.b));
	hold(0, true);
	rails_settle_workers();
	await_greeting_over(0);
	rdma_busy_begin(&rails.pair.a);
	rails.ahead_ns += 15 * SL_NS_PER_S;
	await_state(&rails.pair.a, RDMA_CONN_BRINGING_UP);
	assert_ok(rdma_pair_begin_to_connect(&rails.pair.b, &rails.pair.a));
	await_state(&rails.pair.b, RDMA_CONN_GREETING);
	hold(0, false);
	assert_ok(rdma_pair_wait_for_both(&rails.pair));
	slime_endpoint_close(rails.pair.a.ep);
	while (!sl_list_empty(links_of(&rails.pair.b)))
		rdma_poll(&rails.pair);
	rdma_settle(&rails.pair);
	found = rdma_state(conn_of_a());
	rdma_busy_end();
	assert_int_equal(found, RDMA_CONN_LEAVING);
	while (!sl_list_empty(links_of(&rails.pair.a)))
		rdma_poll(&rails.pair);
}

static void kills_all_of_a(unsigned device)
{
	(void)device;
	for (unsigned i = 0; i < RAILS; i++)
		fakeverbs_kill_device(i);
}

/* Long before its time is over. */
static void link__whose_devices_all_die_before_it_is_up_ends_for_that_reason(void **state)
{
	struct slime_endpoint_info info;

	(void)state;
	begin_while(kills_all_of_a, 0);
	assert_int_equal(rdma_wait(&rails.pair, rails.pair.a.op), -EIO);
	slime_endpoint_info(rails.pair.a.ep, &info);
	rdma_assert_says(&info, ibv_event_type_str(IBV_EVENT_DEVICE_FATAL));
}

/* ---- none comes up ---- */

/* One cannot be brought up, one passes nothing, one has a greeting under way. */
static void link__that_does_not_come_up_in_time_says_why_of_each_rail(void **state)
{
	struct slime_endpoint_info info;

	(void)state;
	atomic_store(&refuses, rails_device_of(&rails.pair.a, 1));
	begin_while(holds, 2);
	rails.ahead_ns += 25 * SL_NS_PER_S; /* the third has its turn, after two of 10 s */
	await_greeting_over(2);
	log_lines_keep();
	rails.ahead_ns += 60 * SL_NS_PER_S;
	assert_int_equal(rdma_wait(&rails.pair, rails.pair.a.op), -ETIMEDOUT);
	atomic_store(&refuses, NULL);
	slime_endpoint_info(rails.pair.a.ep, &info);
	rdma_assert_says(&info, "not up in time; rail 0: fake0: transport retry counter exceeded "
				"(vendor 0x8c): the peer does not answer: gone, unreachable, or "
				"packets are lost; rail 1: RTR (does the path to the peer's "
				"address exist?): Connection timed out; rail 2: our greeting is "
				"not answered");
	/* Once, in the line of the link. */
	assert_int_equal(log_lines_with("not connected: rdma: not up in time; rail 0: "), 1);
	assert_int_equal(log_lines_with("transport retry counter exceeded"), 1);
	assert_int_equal(log_lines_with("RTR (does the path to the peer's address exist?)"), 1);
	log_lines_release();
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		IN_PAIR(port__that_goes_down_while_the_link_greets_is_left_when_it_is_up),
		IN_PAIR(port__that_goes_down_before_the_link_begins_is_left_when_it_is_up),
		IN_PAIR(port__of_the_first_rail_that_goes_down_meanwhile_leaves_the_link_to_others),
		IN_PAIR(rail__that_does_not_come_up_leaves_the_link_to_the_others),
		IN_PAIR(rail__that_is_the_first_and_does_not_come_up_leaves_the_link_to_others),
		IN_PAIR(rail__that_is_the_first_and_passes_nothing_leaves_the_link_to_others),
		IN_PAIR(rail__over_which_a_greeting_never_completes_leaves_the_link_to_others),
		IN_PAIR(greeting__that_arrives_when_another_rail_has_its_turn_counts),
		cmocka_unit_test_setup_teardown(
			rail__that_does_not_come_up_is_given_up_with_its_first_queue_pair,
			begin_with_two_qps, rails_end),
		IN_PAIR(rail__whose_queue_pair_fails_before_the_link_is_up_leaves_it_to_others),
		IN_PAIR(rail__whose_completion_queue_fails_before_the_link_is_up_leaves_it_to_others),
		IN_PAIR(rail__whose_device_dies_before_the_link_is_up_leaves_it_to_others),
		IN_PAIR(rail__whose_device_dies_before_the_link_begins_leaves_it_to_others),
		IN_PAIR(rail__over_which_no_greeting_can_be_posted_leaves_the_link_to_others),
		IN_PAIR(rail__that_the_peer_was_greeted_over_breaks_and_costs_nothing),
		IN_PAIR(greeting__that_arrives_when_the_link_is_up_costs_nothing),
		IN_PAIR(greeting__that_is_lost_with_a_completion_queue_is_said_over_another_rail),
		IN_PAIR(greeting__that_is_lost_before_its_sender_is_up_is_said_over_another_rail),
		IN_PAIR(close__while_no_rail_is_brought_up_waits_for_the_worker),
		IN_PAIR(link__that_does_not_come_up_in_time_says_why_of_each_rail),
		IN_PAIR(link__whose_devices_all_die_before_it_is_up_ends_for_that_reason),
	};

	return cmocka_run_group_tests_name("rdma_rails_begin", tests, NULL, NULL);
}
