/* SPDX-License-Identifier: Apache-2.0 */
/* A peer that falls silent without a word, as after a loss of power or a partition: with the
 * defaults of a context each end knows it within 2.5 s, also on an idle link. */
#include <sched.h>
#include <string.h>

#include "base/clock.h"
#include "tests/libslime/transport/rdma/held_clock.h"
#include "tests/libslime/transport/rdma/pair.h"

#define LEN	 (1u << 20)
#define BOUND_NS (2500 * SL_NS_PER_MS)
#define STEP_NS	 SL_NS_PER_MS
#define RAILS	 8

static struct rdma_pair pair;

static const char *const devices[] = {
	[1] = "fake0;fake8",
	[2] = "fake0,fake1;fake8,fake9",
	[RAILS] = "fake0,fake1,fake2,fake3,fake4,fake5,fake6,fake7;"
		  "fake8,fake9,fake10,fake11,fake12,fake13,fake14,fake15",
};

static void open_pair(unsigned n_rails, uint32_t timeout)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;

	for (unsigned i = 2; i < 2 * RAILS; i++)
		(void)fakeverbs_device(i);
	attr.rdma_devices = devices[n_rails];
	attr.rdma_timeout = timeout;
	assert_ok(rdma_pair_open(&pair, &attr, LEN));
	assert_ok(rdma_write_now(&pair, LEN, 1));
	rdma_settle(&pair);
}

static void cut_all(void)
{
	for (unsigned i = 0; i < RAILS; i++)
		fakeverbs_set_cut(i, RAILS + i, true);
}

static bool has_ended(const struct rdma_end *e)
{
	struct slime_endpoint_info info;

	slime_endpoint_info(e->ep, &info);
	if (info.state != SLIME_ENDPOINT_BROKEN)
		return false;
	assert_int_equal(info.cause, -ECONNRESET);
	rdma_assert_says(&info, "the peer does not answer: gone, unreachable, or packets are lost");
	return true;
}

/* Until nothing is left that could happen now. */
static void go_on(void)
{
	do {
		while (slime_context_poll(pair.a.ctx) + slime_context_poll(pair.b.ctx) > 0)
			;
		sched_yield();
	} while (rdma_is_working(&pair));
	held_clock_step(STEP_NS);
}

/* Each by itself, since neither hears of the other. */
static void assert_known_in_time(void)
{
	uint64_t end;

	held_clock_begin();
	end = sl_clock_ns() + BOUND_NS;
	while ((!has_ended(&pair.a) || !has_ended(&pair.b)) && sl_clock_ns() < end)
		go_on();
	held_clock_end();
	assert_true(has_ended(&pair.a) && has_ended(&pair.b));
}

static void silence__of_an_idle_link_is_known_in_time(void **state)
{
	(void)state;
	open_pair(1, 14);
	cut_all();
	assert_known_in_time();
}

/* A device may take up to four times the timeout for each try, as the specification allows. */
static void silence__is_known_in_time_with_a_device_that_is_slow_to_give_up(void **state)
{
	(void)state;
	open_pair(1, 16);
	cut_all();
	assert_known_in_time();
}

static void silence__of_all_rails_of_an_idle_link_is_known_in_time(void **state)
{
	(void)state;
	open_pair(RAILS, 16);
	cut_all();
	assert_known_in_time();
}

static void silence__under_a_write_and_a_message_is_known_in_time(void **state)
{
	struct slime_xfer x;
	struct slime_op *op;

	(void)state;
	open_pair(2, 14);
	x = rdma_a_and_b(&pair, 0, 0, LEN);
	assert_ok(slime_op_create(pair.a.ctx, NULL, &op));
	cut_all();
	assert_ok(slime_write(pair.a.ep, &x, 1, 0, pair.a.op));
	assert_ok(slime_send(pair.a.ep, pair.a.mr, 0, 64, 1, op));
	assert_known_in_time();
	assert_int_equal(rdma_wait(&pair, pair.a.op), -ECONNRESET);
	assert_int_equal(rdma_wait(&pair, op), -ECONNRESET);
	assert_ok(slime_op_destroy(op));
}

#define TEST(fn)                                               \
	{                                                      \
#fn, fn, rdma_pair_reset, rdma_pair_end, &pair \
	}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(silence__of_an_idle_link_is_known_in_time),
		TEST(silence__is_known_in_time_with_a_device_that_is_slow_to_give_up),
		TEST(silence__of_all_rails_of_an_idle_link_is_known_in_time),
		TEST(silence__under_a_write_and_a_message_is_known_in_time),
	};

	return cmocka_run_group_tests_name("rdma_death", tests, NULL, NULL);
}
