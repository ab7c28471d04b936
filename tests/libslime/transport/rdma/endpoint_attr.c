/* SPDX-License-Identifier: Apache-2.0 */
/* What an endpoint asks of its link over rdma: queue pairs, rails, ports, bandwidth. Each port of
 * fakeverbs has 100 Gbit/s. */
#include <string.h>

#include "tests/libslime/transport/rdma/pair.h"

#define LEN	(1u << 20)
#define GBIT_S	UINT64_C(1000000000)
#define DEVICES 3 /* of each end */

static struct rdma_pair pair;
static struct slime_rail_info rails[SLIME_RAILS_MAX];

static int begin(void **state)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;

	rdma_pair_reset(state);
	for (unsigned i = 2; i < 2 * DEVICES; i++)
		(void)fakeverbs_device(i);
	attr.rdma_devices = "fake0,fake1,fake2;fake3,fake4,fake5";
	return rdma_pair_create(&pair, &attr, LEN);
}

/* A link works, and has so many rails. */
static void assert_rails(size_t n)
{
	assert_ok(rdma_pair_connect(&pair));
	assert_ok(rdma_write_now(&pair, LEN, 1));
	rdma_exchange_a_message(&pair);
	assert_int_equal(slime_endpoint_rails(pair.a.ep, rails, SLIME_RAILS_MAX), n);
}

static void assert_rail(size_t i, const char *device, const char *peer)
{
	assert_string_equal(rails[i].device, device);
	assert_string_equal(rails[i].peer, peer);
}

/* There is no link, and each end says why. */
static void assert_none(const char *why_a, const char *why_b)
{
	struct slime_endpoint_info a, b;

	assert_int_equal(rdma_pair_connect(&pair), -ECONNREFUSED);
	slime_endpoint_info(pair.a.ep, &a);
	slime_endpoint_info(pair.b.ep, &b);
	rdma_assert_says(&a, why_a);
	rdma_assert_says(&b, why_b);
}

static void qps__are_those_of_the_end_that_asks_for_fewer(void **state)
{
	struct slime_endpoint_info info;

	(void)state;
	pair.a.qps = 5;
	pair.b.qps = 3;
	assert_rails(DEVICES);
	assert_int_equal(rails[0].n_qps, 3);
	slime_endpoint_info(pair.a.ep, &info);
	assert_int_equal(info.n_qps, 3);
}

static void rails__are_those_of_the_end_that_asks_for_fewer(void **state)
{
	struct slime_endpoint_info info;

	(void)state;
	pair.b.rails = 2;
	assert_rails(2);
	assert_rail(1, "fake1:1", "fake4:1");
	slime_endpoint_info(pair.a.ep, &info);
	assert_int_equal(info.n_rails, 2);
	assert_true(info.bandwidth == 200 * GBIT_S);
}

static void devices__are_those_that_the_endpoint_names(void **state)
{
	(void)state;
	pair.a.devices = "fake1,fake2:1";
	assert_rails(2);
	assert_rail(0, "fake1:1", "fake4:1");
	assert_rail(1, "fake2:1", "fake5:1");
}

static void devices__of_the_peer_go_with_ours_in_their_order(void **state)
{
	(void)state;
	pair.a.devices = "fake2,fake0";
	pair.a.peer_devices = "fake4,fake3:1";
	assert_rails(2);
	assert_rail(0, "fake2:1", "fake4:1");
	assert_rail(1, "fake0:1", "fake3:1");
}

static void devices__that_both_ends_name_of_each_other_are_one_rail(void **state)
{
	(void)state;
	pair.a.peer_devices = "fake5";
	pair.b.peer_devices = "fake0";
	assert_rails(1);
	assert_rail(0, "fake0:1", "fake5:1");
}

static void device__that_the_context_does_not_have_is_told(void **state)
{
	(void)state;
	pair.a.devices = "fake1,fake9";
	assert_none("fake9 is not among the RDMA devices of this process",
		    "rdma: the peer does not offer it");
}

static void device__that_the_peer_does_not_have_is_told_at_both_ends(void **state)
{
	(void)state;
	pair.a.peer_devices = "fake9:2";
	assert_none("the peer does not offer its ports that we name: fake9:2",
		    "we do not offer the ports that the peer names: fake9:2");
}

static void device__whose_port_is_down_is_told(void **state)
{
	(void)state;
	fakeverbs_set_port_state(1, 1, IBV_PORT_DOWN);
	pair.a.devices = "fake1";
	assert_none("none of the ports that this link names is up: fake1",
		    "rdma: the peer does not offer it");
}

static void bandwidth__that_the_rails_have_makes_a_link(void **state)
{
	(void)state;
	pair.a.min_bandwidth = 300 * GBIT_S;
	assert_rails(DEVICES);
	assert_true(rails[0].bandwidth == 100 * GBIT_S);
}

static void bandwidth__that_the_rails_do_not_have_makes_none(void **state)
{
	(void)state;
	pair.a.min_bandwidth = 250 * GBIT_S;
	pair.b.rails = 2;
	assert_none("2 rails have 200.0 Gbit/s together, and we want at least 250.0 Gbit/s",
		    "2 rails have 200.0 Gbit/s together, and the peer wants at least 250.0 Gbit/s");
}

static void bandwidth__of_a_slower_port_of_the_peer_counts(void **state)
{
	(void)state;
	fakeverbs_device(4)->ports[0].active_speed = 1; /* 10 Gbit/s over 4 lanes */
	pair.a.min_bandwidth = 211 * GBIT_S;
	assert_none("3 rails have 210.0 Gbit/s together", "the peer wants at least 211.0 Gbit/s");
}

static void bandwidth__that_is_not_there_leaves_the_link_to_tcp(void **state)
{
	struct slime_endpoint_info info;

	(void)state;
	pair.a.min_bandwidth = 400 * GBIT_S;
	pair.a.or_tcp = pair.b.or_tcp = true;
	assert_ok(rdma_pair_connect(&pair));
	slime_endpoint_info(pair.a.ep, &info);
	assert_int_equal(info.transport, SLIME_TRANSPORT_TCP);
	assert_non_null(strstr(info.passed_over, "and we want at least 400.0 Gbit/s"));
	assert_int_equal(info.n_rails, 0);
}

static void attributes__that_cannot_be_are_refused(void **state)
{
	static const struct slime_endpoint_attr bad[] = {
		{ .max_pending_ops = 1, .rdma_qps = 9 },
		{ .max_pending_ops = 1, .rdma_rails = SLIME_RAILS_MAX + 1 },
		{ .max_pending_ops = 1, .rdma_devices = "" },
		{ .max_pending_ops = 1, .rdma_devices = "a," },
		{ .max_pending_ops = 1, .rdma_devices = "a:0" },
		{ .max_pending_ops = 1, .rdma_devices = "a:256" },
		{ .max_pending_ops = 1, .rdma_devices = "a:1x" },
		{ .max_pending_ops = 1, .rdma_peer_devices = "a,b,a" },
		{ .max_pending_ops = 1, .rdma_peer_devices = ":1" },
	};
	struct slime_endpoint *ep;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_int_equal(slime_endpoint_create(pair.a.ctx, &bad[i], &ep), -EINVAL);
}

#define TEST(fn)                                     \
	{                                            \
#fn, fn, begin, rdma_pair_end, &pair \
	}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(qps__are_those_of_the_end_that_asks_for_fewer),
		TEST(rails__are_those_of_the_end_that_asks_for_fewer),
		TEST(devices__are_those_that_the_endpoint_names),
		TEST(devices__of_the_peer_go_with_ours_in_their_order),
		TEST(devices__that_both_ends_name_of_each_other_are_one_rail),
		TEST(device__that_the_context_does_not_have_is_told),
		TEST(device__that_the_peer_does_not_have_is_told_at_both_ends),
		TEST(device__whose_port_is_down_is_told),
		TEST(bandwidth__that_the_rails_have_makes_a_link),
		TEST(bandwidth__that_the_rails_do_not_have_makes_none),
		TEST(bandwidth__of_a_slower_port_of_the_peer_counts),
		TEST(bandwidth__that_is_not_there_leaves_the_link_to_tcp),
		TEST(attributes__that_cannot_be_are_refused),
	};

	return cmocka_run_group_tests_name("rdma_endpoint_attr", tests, NULL, NULL);
}
