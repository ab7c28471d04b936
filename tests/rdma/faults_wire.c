/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a wire and its devices do to a link: packets lost, late, doubled and damaged are repaired or
 * the link ends; nothing wrong arrives, and what cannot be repaired is reported in time.
 */
#include "tests/rdma/wired.h"

#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#define A_WHILE_MS 800

/* Both ways. */
static void disturb(const char *how)
{
	char command[256];

	snprintf(command, sizeof(command),
		 "for w in wire0 wire1; do tc qdisc replace dev $w root netem %s || exit; done",
		 how);
	sh(command);
}

static void assert_are_reset(struct pair *p)
{
	assert_int_equal(cause_of(&p->a), -ECONNRESET);
	assert_int_equal(cause_of(&p->b), -ECONNRESET);
}

/* What it cannot send is an error of its own; what it has sent is not answered. */
static void assert_has_no_wire(const struct end *e)
{
	int cause = cause_of(e);

	assert_true(cause == -EIO || cause == -ECONNRESET);
}

/* For a while; none of it takes longer than a fault may until it is reported. */
static int run_a_while(struct pair *p, unsigned kinds)
{
	uint64_t begin = now_ms();
	int ret = traffic_run_of(p, A_WHILE_MS, kinds);

	assert_true(now_ms() - begin <= A_WHILE_MS + REPORT_MS);
	return ret;
}

static void traffic__survives(struct pair *p, const char *how)
{
	disturb(how);
	assert_ok(run_a_while(p, TRAFFIC_ALL));
}

static void traffic__with_1_percent_of_loss_goes_on(void **state)
{
	traffic__survives(*state, "loss 1%");
}

static void traffic__with_5_percent_of_loss_goes_on(void **state)
{
	traffic__survives(*state, "loss 5%");
}

/* Seven tries in a row that come to nothing end a link. */
static void assert_goes_on_or_ends_with_the_cause(struct pair *p, unsigned kinds)
{
	uint64_t begin = now_ms();

	if (!run_a_while(p, kinds))
		return;
	assert_both_break(p, begin, A_WHILE_MS + REPORT_MS);
	assert_are_reset(p);
}

static void traffic__with_20_percent_of_loss_goes_on_or_ends_with_the_cause(void **state)
{
	disturb("loss 20%");
	assert_goes_on_or_ends_with_the_cause(*state, TRAFFIC_ALL);
}

static void traffic__that_is_delayed_goes_on(void **state)
{
	traffic__survives(*state, "delay 10ms");
}

/*
 * Not both over one link: soft-RoCE of Linux 6.12 then completes reads whose bytes are not all
 * there, to whoever calls libibverbs. For a packet that is missing it sends all from there on anew,
 * which overtakes itself again: now and then that is the end.
 */
static void reads__that_overtake_themselves_go_on_or_end_with_the_cause(void **state)
{
	disturb("delay 5ms reorder 75% gap 3");
	assert_goes_on_or_ends_with_the_cause(*state, TRAFFIC_READS);
}

static void writes__that_overtake_themselves_go_on_or_end_with_the_cause(void **state)
{
	disturb("delay 5ms reorder 75% gap 3");
	assert_goes_on_or_ends_with_the_cause(*state, TRAFFIC_WRITES);
}

static void traffic__that_comes_twice_goes_on(void **state)
{
	traffic__survives(*state, "duplicate 20%");
}

static void traffic__that_is_damaged_goes_on_and_is_right(void **state)
{
	traffic__survives(*state, "corrupt 3%");
}

static void connect__over_a_wire_that_loses_makes_a_link(void **state)
{
	(void)state;
	disturb("loss 10%");
	*state = wired_open(false);
	assert_ok(traffic_run(*state, 0));
}

static void loss__of_everything_is_reported_by_both_ends(void **state)
{
	struct pair *p = *state;
	uint64_t begin;

	assert_ok(traffic_run(p, 0));
	begin = now_ms();
	disturb("loss 100%");
	assert_traffic_fails(p, begin);
	assert_are_reset(p);
}

/* Nobody sends anything, and yet it is noticed. */
static void loss__of_everything_is_reported_on_an_idle_link(void **state)
{
	struct pair *p = *state;
	uint64_t begin = now_ms();

	disturb("loss 100%");
	assert_both_break(p, begin, REPORT_MS);
	assert_are_reset(p);
}

/* ---- devices ---- */

/* Of what has no other rail. Between the same contexts there is another when it is up again. */
static void assert_links_again(struct pair *p)
{
	assert_ok(slime_endpoint_destroy(p->a.ep));
	assert_ok(slime_endpoint_destroy(p->b.ep));
	p->a.ep = p->b.ep = NULL;
	mend_wires();
	pair_create_endpoints(p, NULL);
	pair_connect(p);
	assert_ok(traffic_run(p, 0));
}

static void wire__that_goes_down_under_traffic_ends_the_link_until_it_is_up(void **state)
{
	struct pair *p = *state;
	uint64_t begin;

	assert_ok(traffic_run(p, 0));
	begin = now_ms();
	sh("ip link set wire0 down &");
	assert_traffic_fails(p, begin);
	assert_has_no_wire(&p->a);
	assert_int_equal(cause_of(&p->b), -ECONNRESET);
	assert_links_again(p);
}

static void wire__that_goes_down_ends_an_idle_link_until_it_is_up(void **state)
{
	struct pair *p = *state;
	uint64_t begin = now_ms();

	sh("ip link set wire1 down");
	assert_both_break(p, begin, REPORT_MS);
	assert_int_equal(cause_of(&p->a), -ECONNRESET);
	assert_has_no_wire(&p->b);
	assert_links_again(p);
}

/* Both ends afresh: what was broken is mended, and a link comes up. */
static void assert_mends(void **state)
{
	struct pair *p = *state;

	pair_close(p);
	mend_wires();
	*state = wired_open(false);
	assert_ok(traffic_run(*state, 0));
}

static void address__that_is_removed_ends_the_link_until_it_is_back(void **state)
{
	struct pair *p = *state;
	uint64_t begin;

	assert_ok(traffic_run(p, 0));
	begin = now_ms();
	sh("ip address del 10.77.0.1/24 dev wire0");
	assert_traffic_fails(p, begin);
	assert_has_no_wire(&p->a);
	assert_int_equal(cause_of(&p->b), -ECONNRESET);
	assert_mends(state);
}

static bool is_deleted(const char *device)
{
	char path[64];

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s", device);
	return access(path, F_OK) != 0;
}

/*
 * soft-RoCE waits with it until nobody has the device open, and works on meanwhile. So no call may
 * hang, no byte be wrong, and the device is free once its contexts are destroyed.
 */
static void device__that_is_deleted_under_traffic_goes_when_it_is_closed(void **state)
{
	struct pair *p = *state;
	uint64_t begin;

	assert_ok(traffic_run(p, 0));
	delete_device(wired_near);
	assert_goes_on_or_ends_with_the_cause(p, TRAFFIC_ALL);
	*state = NULL;
	begin = now_ms();
	pair_close(p);
	while (!is_deleted(wired_near) && now_ms() - begin < REPORT_MS)
		sched_yield();
	assert_true(is_deleted(wired_near));
	mend_wires();
	*state = wired_open(false);
	assert_ok(traffic_run(*state, 0));
}

static int nothing(void **state)
{
	(void)state;
	return 0;
}

#define WIRED(fn) cmocka_unit_test_setup_teardown(fn, wired_setup, wired_teardown)

static const struct CMUnitTest tests[] = {
	WIRED(traffic__with_1_percent_of_loss_goes_on),
	WIRED(traffic__with_5_percent_of_loss_goes_on),
	WIRED(traffic__with_20_percent_of_loss_goes_on_or_ends_with_the_cause),
	WIRED(traffic__that_is_delayed_goes_on),
	WIRED(reads__that_overtake_themselves_go_on_or_end_with_the_cause),
	WIRED(writes__that_overtake_themselves_go_on_or_end_with_the_cause),
	WIRED(traffic__that_comes_twice_goes_on),
	WIRED(traffic__that_is_damaged_goes_on_and_is_right),
	cmocka_unit_test_setup_teardown(connect__over_a_wire_that_loses_makes_a_link, nothing,
					wired_teardown),
	WIRED(loss__of_everything_is_reported_by_both_ends),
	WIRED(loss__of_everything_is_reported_on_an_idle_link),
	WIRED(wire__that_goes_down_under_traffic_ends_the_link_until_it_is_up),
	WIRED(wire__that_goes_down_ends_an_idle_link_until_it_is_up),
	WIRED(address__that_is_removed_ends_the_link_until_it_is_back),
	WIRED(device__that_is_deleted_under_traffic_goes_when_it_is_closed),
};

int main(int argc, char **argv)
{
	if (!wired_has_wires()) {
		printf("skipped: there are no wires to disturb\n");
		return 77;
	}
	return wired_main(argc, argv, "faults-wire", tests, sizeof(tests) / sizeof(tests[0]));
}
