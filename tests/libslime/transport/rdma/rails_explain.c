/* SPDX-License-Identifier: Apache-2.0 */
/* Which ports of two ends make a rail, and what a link says of its rails. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "tests/libslime/transport/rdma/pair.h"
#include "tests/support/log_lines.h"
#include "tests/support/sysfs_tree.h"

#define LEN   (1024u * 1024)
#define RAILS 2

static struct rdma_pair pair;
static struct rdma_pair other;
static void *tree;

/* Devices fake0 and fake1 are a's, fake2 and fake3 b's. */
static int begin(void **state)
{
	(void)state;
	fakeverbs_reset();
	(void)fakeverbs_device(2);
	(void)fakeverbs_device(3);
	memset(&pair, 0, sizeof(pair));
	memset(&other, 0, sizeof(other));
	log_lines_keep();
	return sysfs_tree_setup(&tree);
}

static int end(void **state)
{
	(void)state;
	rdma_pair_close(&pair);
	rdma_pair_close(&other);
	log_lines_release();
	sysfs_tree_teardown(&tree);
	return fakeverbs_check() ? -1 : 0;
}

static void put_on_node(unsigned device, const char *node)
{
	const struct sysfs_tree *t = tree;
	struct fakeverbs_device *d = fakeverbs_device(device);
	char path[128];

	snprintf(path, sizeof(path), "class/infiniband/fake%u/device/numa_node", device);
	sysfs_tree_put(t, path, node);
	snprintf(d->ibdev_path, sizeof(d->ibdev_path), "%s/class/infiniband/fake%u", t->root,
		 device);
}

static struct slime_context_attr attr_of(enum slime_rdma_pair by, const char *devices)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;

	attr.rdma_devices = devices;
	attr.rdma_pair = by;
	attr.rdma_timeout = 8; /* 1 ms */
	attr.rdma_retry_count = 2;
	attr.tcp_user_timeout_ms = 500;
	return attr;
}

static void link_by(enum slime_rdma_pair by, const char *devices)
{
	struct slime_context_attr attr = attr_of(by, devices);

	assert_ok(rdma_pair_open(&pair, &attr, LEN));
}

/* "fake1:1-fake2:1 fake0:1-fake3:1" at a, and the same at b. */
static void assert_rails(const char *expected)
{
	struct slime_rail_info a[RAILS], b[RAILS];
	size_t n = slime_endpoint_rails(pair.a.ep, a, RAILS);
	char text[RAILS * 140] = "";

	assert_int_equal(slime_endpoint_rails(pair.b.ep, b, RAILS), n);
	for (size_t i = 0; i < n; i++) {
		size_t at = strlen(text);

		snprintf(text + at, sizeof(text) - at, "%s%s-%s", i ? " " : "", a[i].device,
			 a[i].peer);
		assert_string_equal(a[i].device, b[i].peer);
		assert_string_equal(a[i].peer, b[i].device);
	}
	assert_string_equal(text, expected);
}

static void assert_why(size_t rail, const char *what)
{
	struct slime_rail_info a[RAILS], b[RAILS];

	assert_true(slime_endpoint_rails(pair.a.ep, a, RAILS) > rail);
	assert_true(slime_endpoint_rails(pair.b.ep, b, RAILS) > rail);
	if (!strstr(a[rail].why, what) || !strstr(b[rail].why, what))
		fail_msg("'%s' and '%s' do not say '%s'", a[rail].why, b[rail].why, what);
}

/* ---- pairing ---- */

/* Only ports of one node reach each other. */
static void numa__rails_of_one_node_meet(void **state)
{
	(void)state;
	put_on_node(0, "1\n");
	put_on_node(1, "0\n");
	put_on_node(2, "0\n");
	put_on_node(3, "1\n");
	fakeverbs_set_cut(0, 2, true);
	fakeverbs_set_cut(1, 3, true);
	link_by(SLIME_RDMA_PAIR_NUMA, "fake0,fake1;fake2,fake3");
	assert_rails("fake1:1-fake2:1 fake0:1-fake3:1");
	assert_why(0, "paired by NUMA node 0; ");
	assert_why(1, "paired by NUMA node 1; ");
	assert_ok(rdma_write_now(&pair, LEN, 5));
}

static void numa__node_without_a_partner_is_not_used(void **state)
{
	(void)state;
	put_on_node(0, "0\n");
	put_on_node(1, "1\n");
	put_on_node(2, "1\n");
	put_on_node(3, "2\n");
	link_by(SLIME_RDMA_PAIR_NUMA, "fake0,fake1;fake2,fake3");
	assert_rails("fake1:1-fake2:1");
	assert_ok(rdma_write_now(&pair, LEN, 5));
}

/* The file is the kernel's word: what is no node is none. */
static void numa__node_that_cannot_be_is_unknown(void **state)
{
	(void)state;
	put_on_node(0, "-1\n");
	put_on_node(1, "100000\n");
	put_on_node(2, "x\n");
	link_by(SLIME_RDMA_PAIR_NUMA, "fake0,fake1;fake2,fake3");
	assert_rails("fake0:1-fake2:1 fake1:1-fake3:1");
	assert_why(1, "paired by NUMA node, which is unknown; ");
	assert_ok(rdma_write_now(&pair, LEN, 5));
}

static void numa__no_node_in_common_pairs_in_order(void **state)
{
	(void)state;
	put_on_node(0, "0\n");
	put_on_node(1, "1\n");
	link_by(SLIME_RDMA_PAIR_NUMA, "fake0,fake1;fake2,fake3");
	assert_rails("fake0:1-fake2:1 fake1:1-fake3:1");
	assert_why(0, "paired in order, as no NUMA node is the same; ");
}

/* Both ends are on the same two devices, in another order. */
static void name__rails_of_one_name_meet(void **state)
{
	(void)state;
	fakeverbs_set_cut(0, 1, true);
	link_by(SLIME_RDMA_PAIR_NAME, "fake0,fake1;fake1,fake0");
	assert_rails("fake0:1-fake0:1 fake1:1-fake1:1");
	assert_why(0, "paired by name; ");
	assert_ok(rdma_write_now(&pair, LEN, 5));
}

/* The second end is of the other pair. */
static int connect_mixed(const char *ours, const char *peers)
{
	struct slime_context_attr numa = attr_of(SLIME_RDMA_PAIR_NUMA, ours);
	struct slime_context_attr position = attr_of(SLIME_RDMA_PAIR_POSITION, peers);
	struct rdma_end b;

	assert_ok(rdma_pair_create(&pair, &numa, LEN));
	assert_ok(rdma_pair_create(&other, &position, LEN));
	b = pair.b;
	pair.b = other.b;
	other.b = b;
	return rdma_pair_connect(&pair);
}

static void ways__that_differ_fail_with_words(void **state)
{
	(void)state;
	assert_int_equal(connect_mixed("fake0,fake1", "fake0,fake1"), -ECONNREFUSED);
	assert_int_equal(
		log_lines_with("rdma: we pair rails by NUMA node, the peer by position: rdma_pair"),
		1);
	assert_int_equal(
		log_lines_with("rdma: we pair rails by position, the peer by NUMA node: rdma_pair"),
		1);
}

static void end__with_one_rail_takes_the_peers_way(void **state)
{
	(void)state;
	put_on_node(0, "1\n");
	put_on_node(1, "0\n");
	put_on_node(2, "0\n");
	assert_ok(connect_mixed("fake0,fake1", "fake2"));
	assert_rails("fake1:1-fake2:1");
	assert_why(0, "paired by NUMA node 0; ");
}

/* ---- what it says ---- */

static struct slime_rail_info rail_of_a(size_t rail)
{
	struct slime_rail_info info[RAILS];

	assert_true(slime_endpoint_rails(pair.a.ep, info, RAILS) > rail);
	return info[rail];
}

static void explain__says_why_each_port_and_address_was_taken(void **state)
{
	(void)state;
	link_by(SLIME_RDMA_PAIR_POSITION, "fake0,fake1;fake2,fake3");
	/* The name of an interface of this host may follow. */
	assert_why(1, "paired by position 1; GID index 3, RoCE v2, 10.88.0.");
	assert_why(1, ": automatic, the first RoCE v2 one that is IPv4");
}

static void explain__counts_what_each_rail_moved(void **state)
{
	(void)state;
	link_by(SLIME_RDMA_PAIR_POSITION, "fake0,fake1;fake2,fake3");
	assert_int_equal(rail_of_a(0).bytes + rail_of_a(1).bytes, 0);
	for (int i = 0; i < 4; i++)
		assert_ok(rdma_write_now(&pair, LEN, 5));
	assert_int_equal(rail_of_a(0).bytes + rail_of_a(1).bytes, 4 * LEN);
	assert_true(rail_of_a(0).bytes && rail_of_a(1).bytes);
}

static void explain__counts_bytes_of_the_only_rail(void **state)
{
	(void)state;
	link_by(SLIME_RDMA_PAIR_POSITION, "fake0;fake2");
	assert_ok(rdma_write_now(&pair, LEN, 5));
	assert_int_equal(rail_of_a(0).bytes, LEN);
	assert_int_equal(rail_of_a(0).share, 1000);
}

/* Until both ends are in that state. */
static void await(unsigned rail, enum slime_rail_state state)
{
	uint64_t until = sl_deadline_ns(60000);
	struct slime_rail_info a[RAILS], b[RAILS];

	do {
		rdma_poll(&pair);
		assert_int_equal(slime_endpoint_rails(pair.a.ep, a, RAILS), RAILS);
		assert_int_equal(slime_endpoint_rails(pair.b.ep, b, RAILS), RAILS);
		assert_true(sl_clock_ns() < until);
	} while (a[rail].state != state || b[rail].state != state);
}

/* Also that the address which it comes back with is another. */
static void explain__counts_failures_and_follows_the_address(void **state)
{
	const union ibv_gid gid = fakeverbs_gid("10.99.0.7");

	(void)state;
	link_by(SLIME_RDMA_PAIR_POSITION, "fake0,fake1;fake2,fake3");
	for (unsigned i = 1; i <= 2; i++) {
		fakeverbs_set_port_state(1, 1, IBV_PORT_DOWN);
		await(1, SLIME_RAIL_DOWN);
		fakeverbs_set_gid(1, 1, 3, &gid, IBV_GID_TYPE_ROCE_V2);
		fakeverbs_set_port_state(1, 1, IBV_PORT_ACTIVE);
		await(1, SLIME_RAIL_UP);
		assert_int_equal(rail_of_a(1).n_failures, i);
		assert_string_equal(rail_of_a(1).error, "its port went down");
	}
	assert_int_equal(rail_of_a(0).n_failures, 0);
	assert_why(0, "10.88.0.");
	assert_non_null(strstr(rail_of_a(1).why, "RoCE v2, 10.99.0.7"));
}

static void assert_address(const struct rdma_end *e, const char *expected)
{
	struct slime_endpoint_info info;

	slime_endpoint_info(e->ep, &info);
	assert_string_equal(info.address, expected);
}

/* Of both ends, when the address of one is another at another place of the table. */
static void address__follows_the_first_rail(void **state)
{
	const union ibv_gid gid = fakeverbs_gid("10.99.0.7");

	(void)state;
	link_by(SLIME_RDMA_PAIR_POSITION, "fake0,fake1;fake2,fake3");
	assert_address(&pair.a, "fake0 GID 3 to fake2 10.88.0.3");
	assert_address(&pair.b, "fake2 GID 3 to fake0 10.88.0.1");
	fakeverbs_set_port_state(0, 1, IBV_PORT_DOWN);
	await(0, SLIME_RAIL_DOWN);
	fakeverbs_set_gid(0, 1, 3, NULL, IBV_GID_TYPE_ROCE_V2);
	fakeverbs_set_gid(0, 1, 5, &gid, IBV_GID_TYPE_ROCE_V2);
	fakeverbs_set_port_state(0, 1, IBV_PORT_ACTIVE);
	await(0, SLIME_RAIL_UP);
	assert_address(&pair.a, "fake0 GID 5 to fake2 10.88.0.3");
	assert_address(&pair.b, "fake2 GID 3 to fake0 10.99.0.7");
}

#define T(fn) cmocka_unit_test_setup_teardown(fn, begin, end)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		T(numa__rails_of_one_node_meet),
		T(numa__node_without_a_partner_is_not_used),
		T(numa__node_that_cannot_be_is_unknown),
		T(numa__no_node_in_common_pairs_in_order),
		T(name__rails_of_one_name_meet),
		T(ways__that_differ_fail_with_words),
		T(end__with_one_rail_takes_the_peers_way),
		T(explain__says_why_each_port_and_address_was_taken),
		T(explain__counts_what_each_rail_moved),
		T(explain__counts_bytes_of_the_only_rail),
		T(explain__counts_failures_and_follows_the_address),
		T(address__follows_the_first_rail),
	};

	return cmocka_run_group_tests_name("rdma_rails_explain", tests, NULL, NULL);
}
