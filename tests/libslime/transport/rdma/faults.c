/* SPDX-License-Identifier: Apache-2.0 */
/* Devices, queues and paths that fail: which links end with them, for which reason, and which do
 * not. */
#include <stdio.h>

#include "base/clock.h"
#include "tests/libslime/transport/rdma/pair.h"
#include "tests/support/log_lines.h"

#define LEN 65536

static struct rdma_pair pair;

static int begin(void **state)
{
	struct slime_context_attr attr = rdma_quick();

	rdma_pair_reset(state);
	return rdma_pair_open(&pair, &attr, LEN);
}

/* Of what the device did not take back. */
static int end_with_leftovers(void **state)
{
	return rdma_pair_end(state) ? 0 : -1;
}

static struct slime_endpoint_info broken_info(const struct rdma_end *e)
{
	struct slime_endpoint_info info;

	do {
		rdma_poll(&pair);
		slime_endpoint_info(e->ep, &info);
	} while (info.state == SLIME_ENDPOINT_CONNECTED);
	return info;
}

static void region__that_cannot_be_deregistered_is_told(void **state)
{
	int ret;

	(void)state;
	assert_ok(rdma_write_now(&pair, LEN, 9));
	log_lines_keep();
	fakeverbs_fail_call_of(FAKEVERBS_DEREG_MR, 1, EBUSY);
	while ((ret = slime_mr_destroy(pair.a.mr)) == -EBUSY)
		rdma_poll(&pair);
	assert_ok(ret);
	pair.a.mr = NULL;
	assert_int_equal(log_lines_with("fake0: 65536 bytes at"), 1);
	assert_int_equal(log_lines_with("cannot be deregistered"), 1);
	log_lines_release();
}

static void region__that_cannot_be_pinned_fails_its_work_only(void **state)
{
	struct slime_xfer x = rdma_a_and_b(&pair, 0, 0, LEN);

	(void)state;
	fakeverbs_device(0)->max_pinned = 0;
	assert_ok(slime_write(pair.a.ep, &x, 1, 0, pair.a.op));
	assert_int_equal(rdma_wait(&pair, pair.a.op), -ENOMEM);
	/* Messages need no region of the user's. */
	rdma_exchange_a_message(&pair);
}

static void cut__ends_both_sides_with_a_cause(void **state)
{
	(void)state;
	fakeverbs_set_cut(0, 1, true);
	assert_int_equal(rdma_write_now(&pair, LEN, 9), -ECONNRESET);
	assert_int_equal(broken_info(&pair.a).state, SLIME_ENDPOINT_BROKEN);
	assert_int_equal(broken_info(&pair.b).state, SLIME_ENDPOINT_BROKEN);
}

/* ---- a port, of links without another rail ---- */

/* rdma_quick() lets it take some hundredths of a second; a starved machine has some more. */
#define REPORT_NS (10 * SL_NS_PER_S)

static void assert_both_are_reset_since(uint64_t begin_ns)
{
	while (!rdma_is_broken(&pair.a) || !rdma_is_broken(&pair.b)) {
		assert_true(sl_clock_ns() - begin_ns <= REPORT_NS);
		rdma_poll(&pair);
	}
	assert_int_equal(broken_info(&pair.a).cause, -ECONNRESET);
	assert_int_equal(broken_info(&pair.b).cause, -ECONNRESET);
}

/* Between the same contexts, once the port is up. */
static void assert_links_again(unsigned device)
{
	fakeverbs_set_port_state(device, 1, IBV_PORT_ACTIVE);
	rdma_settle(&pair);
	rdma_next_link(&pair);
	assert_ok(rdma_write_now(&pair, LEN, 9));
}

/* a's queue pair completes nothing, and has this write under way: its number. */
static uint32_t hold_write(const struct slime_xfer *x)
{
	uint32_t number;

	assert_int_equal(fakeverbs_qps(0, &number, 1), 1);
	fakeverbs_hold_qp(0, number, true);
	assert_ok(slime_write(pair.a.ep, x, 1, 0, pair.a.op));
	return number;
}

static void port__that_goes_down_under_work_ends_the_link_until_it_is_up(void **state)
{
	struct slime_xfer x = rdma_a_and_b(&pair, 0, 0, LEN);
	uint64_t begin = sl_clock_ns();
	uint32_t number;

	(void)state;
	number = hold_write(&x);
	fakeverbs_set_port_state(0, 1, IBV_PORT_DOWN);
	fakeverbs_hold_qp(0, number, false);
	assert_int_equal(rdma_wait(&pair, pair.a.op), -ECONNRESET);
	assert_both_are_reset_since(begin);
	assert_links_again(0);
}

static void port__that_goes_down_ends_an_idle_link_until_it_is_up(void **state)
{
	uint64_t begin = sl_clock_ns();

	(void)state;
	fakeverbs_set_port_state(1, 1, IBV_PORT_DOWN);
	assert_both_are_reset_since(begin);
	assert_links_again(1);
}

/* soft-RoCE forgets what was under way then, also when it is up again. */
static void port__that_went_down_and_loses_what_was_under_way_ends_the_link(void **state)
{
	struct slime_xfer x = rdma_a_and_b(&pair, 0, 0, LEN);
	uint64_t begin = sl_clock_ns();

	(void)state;
	hold_write(&x);
	fakeverbs_raise(0, IBV_EVENT_PORT_ERR, 1);
	fakeverbs_raise(0, IBV_EVENT_PORT_ACTIVE, 1);
	assert_both_are_reset_since(begin);
	assert_int_equal(rdma_wait(&pair, pair.a.op), -ECONNRESET);
	assert_links_again(0);
}

static void device__that_dies_ends_its_links(void **state)
{
	struct slime_endpoint_info info;

	(void)state;
	fakeverbs_kill_device(1);
	info = broken_info(&pair.b);
	assert_int_equal(info.state, SLIME_ENDPOINT_BROKEN);
	rdma_assert_says(&info, ibv_event_type_str(IBV_EVENT_DEVICE_FATAL));
	assert_int_equal(broken_info(&pair.a).state, SLIME_ENDPOINT_BROKEN);
}

static bool is_connected(const struct rdma_end *e)
{
	struct slime_endpoint_info info;

	slime_endpoint_info(e->ep, &info);
	return info.state == SLIME_ENDPOINT_CONNECTED;
}

/* Each link completes into a queue of its own here. */
static void completion_queue__that_fails_ends_its_links_only(void **state)
{
	struct slime_context_attr attr = rdma_quick();
	struct slime_endpoint *ends[2];
	struct slime_endpoint_info info;
	uint64_t destroyed;
	uint32_t number;

	(void)state;
	fakeverbs_device(0)->max_cqe = fakeverbs_device(1)->max_cqe = 1500;
	assert_ok(rdma_pair_open(&pair, &attr, LEN));
	assert_int_equal(fakeverbs_qps(0, &number, 1), 1);
	ends[0] = pair.a.ep;
	ends[1] = pair.b.ep;
	assert_ok(rdma_pair_connect(&pair));
	destroyed = fakeverbs_counts().calls[FAKEVERBS_DESTROY_CQ];

	fakeverbs_break_cq(0, number);
	do {
		rdma_poll(&pair);
		slime_endpoint_info(ends[0], &info);
	} while (info.state == SLIME_ENDPOINT_CONNECTED);
	rdma_assert_says(&info, ibv_event_type_str(IBV_EVENT_CQ_ERR));
	assert_ok(rdma_write_now(&pair, LEN, 9));
	assert_ok(slime_endpoint_destroy(ends[0]));
	assert_ok(slime_endpoint_destroy(ends[1]));
	while (fakeverbs_counts().calls[FAKEVERBS_DESTROY_CQ] == destroyed)
		rdma_poll(&pair);
	assert_true(is_connected(&pair.a) && is_connected(&pair.b));

	/* There is another for the next link. */
	ends[0] = pair.a.ep;
	ends[1] = pair.b.ep;
	assert_ok(rdma_pair_connect(&pair));
	assert_ok(rdma_write_now(&pair, LEN, 9));
	slime_endpoint_close(ends[0]);
	slime_endpoint_close(ends[1]);
	rdma_settle(&pair);
	assert_ok(slime_endpoint_destroy(ends[0]));
	assert_ok(slime_endpoint_destroy(ends[1]));
}

static void count_errors(void *arg, enum slime_log_level level, const char *part, const char *line)
{
	unsigned *n = arg;

	(void)part;
	(void)line;
	*n += level == SLIME_LOG_ERROR;
}

/* As one of soft-RoCE that overflows does, for each completion that is lost. */
static void completion_queue__that_fails_again_and_again_is_logged_once(void **state)
{
	unsigned n_errors = 0;
	uint32_t number;

	(void)state;
	assert_int_equal(fakeverbs_qps(0, &number, 1), 1);
	slime_log_set(count_errors, &n_errors, SLIME_LOG_ERROR);
	for (int i = 0; i < 20; i++)
		fakeverbs_break_cq(0, number);
	assert_int_equal(broken_info(&pair.a).cause, -EIO);
	slime_log_set(NULL, NULL, SLIME_LOG_WARN);
	assert_int_equal(n_errors, 1);
}

static void destroy_ends(void)
{
	assert_ok(slime_endpoint_destroy(pair.a.ep));
	assert_ok(slime_endpoint_destroy(pair.b.ep));
	pair.a.ep = pair.b.ep = NULL;
	rdma_settle(&pair);
}

/* An endpoint that nobody has connected has queue pairs on it. */
static void device__that_died_is_not_offered_while_it_is_in_use(void **state)
{
	struct slime_endpoint_attr attr = SLIME_ENDPOINT_ATTR_INIT;
	uint8_t desc[SLIME_ENDPOINT_DESC_MAX];
	struct slime_endpoint *idle;

	(void)state;
	attr.transports[0] = SLIME_TRANSPORT_RDMA;
	assert_ok(slime_endpoint_create(pair.b.ctx, &attr, &idle));
	assert_true(slime_endpoint_export(idle, desc, sizeof(desc)) > 0);
	fakeverbs_kill_device(1);
	broken_info(&pair.b);
	broken_info(&pair.a);
	destroy_ends();
	rdma_assert_refused(&pair.b, rdma_pair_connect(&pair), "fake1 failed");
	assert_ok(slime_endpoint_destroy(idle));
}

static void lose_and_have_again(void (*lose)(unsigned device))
{
	assert_ok(rdma_write_now(&pair, LEN, 9));
	lose(1);
	broken_info(&pair.b);
	broken_info(&pair.a);
	destroy_ends();
	rdma_assert_refused(&pair.b, rdma_pair_connect(&pair), "fake1");
	destroy_ends();

	fakeverbs_revive_device(1);
	assert_ok(rdma_pair_connect(&pair));
	assert_ok(rdma_write_now(&pair, LEN, 9));
	rdma_exchange_a_message(&pair);
}

static void device__that_died_is_used_when_it_is_there_again(void **state)
{
	(void)state;
	lose_and_have_again(fakeverbs_kill_device);
}

static void remove_device(unsigned device)
{
	fakeverbs_remove_device(device);
	fakeverbs_raise(device, IBV_EVENT_DEVICE_FATAL, 0);
}

static void device__that_was_removed_is_used_when_it_is_there_again(void **state)
{
	(void)state;
	lose_and_have_again(remove_device);
}

/* As soft-RoCE whose network interface is deleted: it raises no event that says so. */
static void device__that_says_that_it_is_no_more_is_opened_again(void **state)
{
	uint64_t until = sl_deadline_ns(60000);

	(void)state;
	rdma_pair_destroy_endpoints(&pair);
	fakeverbs_fail_call_of(FAKEVERBS_QUERY_PORT, 1, ENODEV);
	assert_int_not_equal(rdma_pair_connect(&pair), 0);
	assert_true(fakeverbs_failed());
	rdma_pair_destroy_endpoints(&pair);
	while (!fakeverbs_counts().calls[FAKEVERBS_CLOSE_DEVICE]) {
		rdma_poll(&pair);
		assert_true(sl_clock_ns() < until);
	}
	assert_ok(rdma_pair_connect(&pair));
	assert_ok(rdma_write_now(&pair, LEN, 9));
}

/* All that is heard of it are flushes. */
static void link__that_lost_its_address_says_so(void **state)
{
	struct slime_xfer x = rdma_a_and_b(&pair, 0, 0, 4096);
	struct slime_endpoint_info info;
	uint32_t number;

	(void)state;
	assert_ok(rdma_write_now(&pair, LEN, 9));
	assert_int_equal(fakeverbs_qps(0, &number, 1), 1);
	fakeverbs_set_gid(0, 1, 3, NULL, IBV_GID_TYPE_ROCE_V2);
	fakeverbs_set_cut(0, 1, true);
	fakeverbs_drop_completion(0, number);
	assert_ok(slime_write(pair.a.ep, &x, 1, 0, pair.a.op));
	assert_int_equal(rdma_wait(&pair, pair.a.op), -ECONNRESET);
	info = broken_info(&pair.a);
	assert_int_equal(info.cause, -ECONNRESET);
	rdma_assert_says(&info, "fake0: the link's address, GID index 3, is gone");
}

/* Its flushes are found before the event that says why. */
static void queue_pair__with_a_fatal_event_ends_its_link_for_that_reason(void **state)
{
	struct slime_endpoint_info info;
	uint32_t number;

	(void)state;
	assert_int_equal(fakeverbs_qps(0, &number, 1), 1);
	fakeverbs_raise_qp(0, number, IBV_EVENT_QP_ACCESS_ERR);
	info = broken_info(&pair.a);
	assert_int_equal(info.state, SLIME_ENDPOINT_BROKEN);
	assert_int_equal(info.cause, -EIO);
	rdma_assert_says(&info, ibv_event_type_str(IBV_EVENT_QP_ACCESS_ERR));
	assert_int_equal(broken_info(&pair.b).state, SLIME_ENDPOINT_BROKEN);
}

static void events__that_end_nothing_end_nothing(void **state)
{
	static const enum ibv_event_type types[] = {
		IBV_EVENT_LID_CHANGE,  IBV_EVENT_PKEY_CHANGE,	    IBV_EVENT_SM_CHANGE,
		IBV_EVENT_PORT_ACTIVE, IBV_EVENT_CLIENT_REREGISTER, IBV_EVENT_GID_CHANGE
	};

	(void)state;
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		fakeverbs_raise(0, types[i], 1);
	rdma_settle(&pair);
	assert_ok(rdma_write_now(&pair, LEN, 9));
}

/* Events that an end asked for. */
static uint64_t n_taken(void)
{
	return fakeverbs_counts().calls[FAKEVERBS_GET_ASYNC_EVENT];
}

/* An end has all that wait when it asked for more than n: nobody looks at the poller each time. */
static void poll_until_taken(uint64_t n)
{
	while (n_taken() == n)
		rdma_poll(&pair);
}

static uint64_t n_events(const struct rdma_end *e, enum slime_device_event event)
{
	struct slime_device_stats all[2];

	assert_int_equal(slime_context_device_stats(e->ctx, all, 2), 1);
	return all[0].events[event];
}

static void events__are_counted_by_kind(void **state)
{
	static const struct {
		enum ibv_event_type type;
		enum slime_device_event counted;
	} told[] = {
		{ IBV_EVENT_PORT_ACTIVE, SLIME_DEVICE_PORT_ACTIVE },
		{ IBV_EVENT_PORT_ERR, SLIME_DEVICE_PORT_ERROR },
		{ IBV_EVENT_GID_CHANGE, SLIME_DEVICE_ADDRESS_CHANGE },
		{ IBV_EVENT_LID_CHANGE, SLIME_DEVICE_ADDRESS_CHANGE },
		{ IBV_EVENT_PKEY_CHANGE, SLIME_DEVICE_ADDRESS_CHANGE },
		{ IBV_EVENT_SM_CHANGE, SLIME_DEVICE_OTHER },
		{ IBV_EVENT_DEVICE_FATAL, SLIME_DEVICE_FATAL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(told) / sizeof(told[0]); i++) {
		uint64_t before = n_events(&pair.a, told[i].counted);
		uint64_t n = n_taken();

		fakeverbs_raise(0, told[i].type, 1);
		poll_until_taken(n);
		assert_int_equal(n_events(&pair.a, told[i].counted), before + 1);
	}
	assert_int_equal(n_events(&pair.b, SLIME_DEVICE_FATAL), 0);
}

static void events__of_queues_are_counted(void **state)
{
	uint64_t n = n_taken();
	uint32_t number;

	(void)state;
	assert_int_equal(fakeverbs_qps(1, &number, 1), 1);
	fakeverbs_break_cq(1, number);
	poll_until_taken(n);
	assert_int_equal(n_events(&pair.b, SLIME_DEVICE_CQ_ERROR), 1);
	assert_int_equal(n_events(&pair.a, SLIME_DEVICE_CQ_ERROR), 0);
	n = n_taken();
	assert_int_equal(fakeverbs_qps(0, &number, 1), 1);
	fakeverbs_raise_qp(0, number, IBV_EVENT_QP_FATAL);
	poll_until_taken(n);
	assert_int_equal(n_events(&pair.a, SLIME_DEVICE_QP_ERROR), 1);
}

static void events__of_another_port_are_not_counted(void **state)
{
	uint64_t n = n_taken();

	(void)state;
	fakeverbs_raise(0, IBV_EVENT_PORT_ERR, 2);
	poll_until_taken(n);
	assert_int_equal(n_events(&pair.a, SLIME_DEVICE_PORT_ERROR), 0);
}

/* "fake0 port 1: GID change event" */
static unsigned n_lines_of_port(enum ibv_event_type type)
{
	char text[128];

	snprintf(text, sizeof(text), "fake0 port 1: %s", ibv_event_type_str(type));
	return log_lines_with(text);
}

static void events__of_a_port_are_lines_of_the_log(void **state)
{
	static const enum ibv_event_type told[] = { IBV_EVENT_PORT_ACTIVE, IBV_EVENT_GID_CHANGE,
						    IBV_EVENT_LID_CHANGE, IBV_EVENT_PKEY_CHANGE,
						    IBV_EVENT_PORT_ERR };

	(void)state;
	log_lines_keep_from(SLIME_LOG_INFO);
	for (size_t i = 0; i < sizeof(told) / sizeof(told[0]); i++) {
		uint64_t n = n_taken();

		fakeverbs_raise(0, told[i], 1);
		poll_until_taken(n);
		assert_int_equal(n_lines_of_port(told[i]), 1);
	}
	log_lines_release();
}

static void events__are_named(void **state)
{
	(void)state;
	assert_string_equal(slime_device_event_name(SLIME_DEVICE_PORT_ERROR), "port error");
	assert_string_equal(slime_device_event_name(SLIME_DEVICE_EVENTS), "unknown");
}

/* The op ends when nothing can land any more: its flush was seen, not before. */
static void op__ends_after_its_queue_pair_was_drained(void **state)
{
	struct slime_xfer x = rdma_a_and_b(&pair, 0, 0, 4096);
	uint32_t number;

	(void)state;
	assert_ok(rdma_write_now(&pair, LEN, 9));
	assert_int_equal(fakeverbs_qps(0, &number, 1), 1);
	fakeverbs_hold_qp(0, number, true);
	assert_ok(slime_read(pair.a.ep, &x, 1, 0, pair.a.op));
	fakeverbs_raise_qp(0, number, IBV_EVENT_QP_FATAL);
	rdma_settle(&pair);
	assert_false(slime_op_test(pair.a.op));
	fakeverbs_hold_qp(0, number, false);
	assert_int_equal(rdma_wait(&pair, pair.a.op), -ECONNRESET);
}

static void raise_qp(unsigned device, uint32_t number)
{
	uint64_t n = n_taken();

	fakeverbs_raise_qp(device, number, IBV_EVENT_QP_FATAL);
	poll_until_taken(n);
}

/* What is still on its way over the old link cannot land after what the new one brings. */
static void link__begins_when_the_one_before_is_drained(void **state)
{
	struct slime_endpoint *ends[2] = { pair.a.ep, pair.b.ep };
	struct slime_endpoint_info info;
	uint32_t number;

	(void)state;
	assert_int_equal(fakeverbs_qps(1, &number, 1), 1);
	fakeverbs_hold_qp(1, number, true);
	raise_qp(1, number);
	assert_ok(rdma_pair_connect(&pair));
	slime_endpoint_info(ends[1], &info);
	assert_int_equal(info.state, SLIME_ENDPOINT_BROKEN);
	assert_ok(rdma_write_now(&pair, LEN, 9));
	rdma_next_link(&pair);
	slime_endpoint_close(ends[0]);
	rdma_settle(&pair);
	assert_ok(slime_endpoint_destroy(ends[0]));
	assert_ok(slime_endpoint_destroy(ends[1]));
}

static void completion__that_comes_twice_is_taken_once(void **state)
{
	uint32_t number;

	(void)state;
	assert_ok(rdma_write_now(&pair, LEN, 9));
	assert_int_equal(fakeverbs_qps(0, &number, 1), 1);
	fakeverbs_duplicate_completion(0, number);
	assert_ok(rdma_write_now(&pair, LEN, 9));
	for (int i = 0; i < 100; i++)
		assert_ok(rdma_write_now(&pair, LEN, 9));
}

/* The later one of the same queue pair stands for it. */
static void completion__that_gets_lost_is_made_up_by_the_next(void **state)
{
	struct slime_xfer x = rdma_a_and_b(&pair, 0, 0, 4096);
	struct slime_op *other;
	uint32_t number;

	(void)state;
	assert_ok(rdma_write_now(&pair, LEN, 9));
	assert_int_equal(fakeverbs_qps(0, &number, 1), 1);
	assert_ok(slime_op_create(pair.a.ctx, NULL, &other));
	fakeverbs_drop_completion(0, number);
	assert_ok(slime_write(pair.a.ep, &x, 1, 0, pair.a.op));
	assert_ok(slime_write(pair.a.ep, &x, 1, 0, other));
	assert_ok(rdma_wait(&pair, other));
	assert_ok(rdma_wait(&pair, pair.a.op));
	assert_ok(slime_op_destroy(other));
}

#define N_IMMS 128 /* so many are not signaled but for the last */

/* Each is answered with a message, of which a needs no poll to take one. */
static void send_imms_to_a(void)
{
	for (unsigned i = 0; i < N_IMMS; i++) {
		assert_ok(slime_write_imm(pair.b.ep, NULL, 0, 0, i, pair.b.op));
		assert_ok(rdma_wait(&pair, pair.b.op));
	}
	rdma_settle(&pair);
}

static void post__that_failed_is_not_done_by_what_comes_after_it(void **state)
{
	struct slime_xfer x = rdma_a_and_b(&pair, 0, 0, LEN);
	struct slime_op *op;

	(void)state;
	assert_ok(rdma_write_now(&pair, LEN, 9));
	assert_ok(slime_op_create(pair.a.ctx, NULL, &op));
	send_imms_to_a();
	memset(pair.b.bytes, 0, LEN);
	fakeverbs_fail_call_of(FAKEVERBS_POST_SEND, 1, ENOMEM);
	assert_ok(slime_write(pair.a.ep, &x, 1, 0, pair.a.op));
	assert_true(fakeverbs_failed());
	for (unsigned i = 0; i < N_IMMS; i++) {
		assert_ok(slime_imm_recv(pair.a.ep, op));
		assert_true(slime_op_test(op));
	}
	assert_int_equal(rdma_wait(&pair, pair.a.op), -ECONNRESET);
	assert_int_equal(pair.b.bytes[0], 0);
	assert_ok(slime_op_destroy(op));
}

#define ALONE(fn) \
	cmocka_unit_test_prestate_setup_teardown(fn, rdma_pair_reset, rdma_pair_end, &pair)
#define IN_PAIR(fn) cmocka_unit_test_prestate_setup_teardown(fn, begin, rdma_pair_end, &pair)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		IN_PAIR(region__that_cannot_be_pinned_fails_its_work_only),
		cmocka_unit_test_prestate_setup_teardown(
			region__that_cannot_be_deregistered_is_told, begin, end_with_leftovers,
			&pair),
		IN_PAIR(cut__ends_both_sides_with_a_cause),
		IN_PAIR(port__that_goes_down_under_work_ends_the_link_until_it_is_up),
		IN_PAIR(port__that_goes_down_ends_an_idle_link_until_it_is_up),
		IN_PAIR(port__that_went_down_and_loses_what_was_under_way_ends_the_link),
		IN_PAIR(device__that_dies_ends_its_links),
		ALONE(completion_queue__that_fails_ends_its_links_only),
		IN_PAIR(completion_queue__that_fails_again_and_again_is_logged_once),
		IN_PAIR(device__that_died_is_not_offered_while_it_is_in_use),
		IN_PAIR(device__that_died_is_used_when_it_is_there_again),
		IN_PAIR(device__that_was_removed_is_used_when_it_is_there_again),
		IN_PAIR(device__that_says_that_it_is_no_more_is_opened_again),
		IN_PAIR(link__that_lost_its_address_says_so),
		IN_PAIR(queue_pair__with_a_fatal_event_ends_its_link_for_that_reason),
		IN_PAIR(events__that_end_nothing_end_nothing),
		IN_PAIR(events__are_counted_by_kind),
		IN_PAIR(events__of_queues_are_counted),
		IN_PAIR(events__of_another_port_are_not_counted),
		IN_PAIR(events__of_a_port_are_lines_of_the_log),
		IN_PAIR(events__are_named),
		IN_PAIR(op__ends_after_its_queue_pair_was_drained),
		IN_PAIR(link__begins_when_the_one_before_is_drained),
		IN_PAIR(completion__that_comes_twice_is_taken_once),
		IN_PAIR(completion__that_gets_lost_is_made_up_by_the_next),
		IN_PAIR(post__that_failed_is_not_done_by_what_comes_after_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
