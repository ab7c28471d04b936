/* SPDX-License-Identifier: Apache-2.0 */
/* Which rails of two ends go together. Rails are written as "name.port@node", by position. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "src/core/desc.h"
#include "src/transport/rdma/pairing.h"
#include <slime/topo.h>

/* "-" is a port that is left out. */
static struct rdma_candidate candidate(enum slime_rdma_pair by, const char *text)
{
	struct rdma_candidate c = {
		.pair = by, .n_qps = 1, .slots = 4096, .most_rails = RDMA_RAILS_MAX
	};
	unsigned position = 0;

	for (const char *at = text; *at; at += strcspn(at, " "), at += *at == ' ', position++) {
		struct rdma_rail_address *a = &c.rails[c.n_rails];
		unsigned port;
		int node;
		char name[24];

		if (sscanf(at, "%20[^. ].%u@%d", name, &port, &node) != 3)
			continue;
		*a = (struct rdma_rail_address){
			.link_layer = SLIME_LINK_ETHERNET,
			.port = (uint8_t)port,
			.mtu = 3,
			.max_rd_atomic = 1,
			.max_dest_rd_atomic = 1,
			.position = (uint8_t)position,
			.numa_node = (int16_t)node,
		};
		memcpy(a->device, name, strnlen(name, sizeof(a->device)));
		c.n_rails++;
	}
	return c;
}

/* Pairs as indexes, "01 10", of both ends, which must come to the same. */
static void assert_pairs(enum slime_rdma_pair by, const char *ours, const char *peers,
			 const char *expected)
{
	struct rdma_candidate a = candidate(by, ours), b = candidate(by, peers);
	struct rdma_pairing p, q;
	char text[64] = "";

	assert_int_equal(rdma_pairing_make(&a, &b, &p), 0);
	assert_int_equal(rdma_pairing_make(&b, &a, &q), 0);
	assert_int_equal(p.n, q.n);
	assert_int_equal(p.in_order, q.in_order);
	for (unsigned i = 0; i < p.n; i++) {
		size_t at = strlen(text);

		assert_int_equal(p.rails[i].ours, q.rails[i].peers);
		assert_int_equal(p.rails[i].peers, q.rails[i].ours);
		snprintf(text + at, sizeof(text) - at, "%s%u%u", i ? " " : "", p.rails[i].ours,
			 p.rails[i].peers);
	}
	assert_string_equal(text, expected);
}

static void position__pairs_what_has_the_same(void **state)
{
	(void)state;
	assert_pairs(SLIME_RDMA_PAIR_POSITION, "a.1@0 b.1@1", "x.1@1 y.1@0", "00 11");
	assert_pairs(SLIME_RDMA_PAIR_POSITION, "a.1@0 - c.1@0", "x.1@0 y.1@0 z.1@0", "00 12");
	assert_pairs(SLIME_RDMA_PAIR_POSITION, "a.1@0 -", "- y.1@0", "00");
}

static void numa__pairs_one_node_in_the_order_of_positions(void **state)
{
	(void)state;
	assert_pairs(SLIME_RDMA_PAIR_NUMA, "a.1@1 b.1@0", "x.1@0 y.1@1", "10 01");
	assert_pairs(SLIME_RDMA_PAIR_NUMA, "a.1@1 b.1@0 c.1@1 d.1@0", "w.1@0 x.1@0 y.1@1 z.1@1",
		     "10 31 02 23");
}

static void numa__leaves_out_what_has_no_partner(void **state)
{
	(void)state;
	assert_pairs(SLIME_RDMA_PAIR_NUMA, "a.1@0 b.1@0", "x.1@0 y.1@1", "00");
	assert_pairs(SLIME_RDMA_PAIR_NUMA, "a.1@0 b.1@1 c.1@2", "x.1@2 y.1@3", "20");
}

static void numa__that_is_unknown_is_a_node(void **state)
{
	(void)state;
	assert_pairs(SLIME_RDMA_PAIR_NUMA, "a.1@-1 b.1@-1", "x.1@-1 y.1@-1", "00 11");
	assert_pairs(SLIME_RDMA_PAIR_NUMA, "a.1@0 b.1@-1", "x.1@-1 y.1@0", "10 01");
}

static void name__pairs_device_and_port(void **state)
{
	(void)state;
	assert_pairs(SLIME_RDMA_PAIR_NAME, "m1.1@0 m0.1@0", "m0.1@0 m1.1@0", "10 01");
	assert_pairs(SLIME_RDMA_PAIR_NAME, "m0.2@0 m0.1@0", "m0.1@0 m0.2@0", "10 01");
	assert_pairs(SLIME_RDMA_PAIR_NAME, "m0.1@0 m1.1@0", "m0.2@0 m1.1@0", "11");
}

/* What is told of a name ends there. */
static void name__counts_for_16_bytes(void **state)
{
	(void)state;
	assert_pairs(SLIME_RDMA_PAIR_NAME, "roceP1234567p1s0f0.1@0 b.1@0",
		     "c.1@0 roceP1234567p1s0f1.1@0", "01");
	assert_pairs(SLIME_RDMA_PAIR_NAME, "roceP1234567p1s0f0.1@0 roceP1234567p1s0f1.1@0",
		     "roceP1234567p1s0f0.1@0 roceP1234567p1s0f1.1@0", "00 11");
}

static void rails__of_which_none_agrees_go_together_in_order(void **state)
{
	(void)state;
	assert_pairs(SLIME_RDMA_PAIR_NUMA, "a.1@0 b.1@1", "x.1@2 y.1@3 z.1@4", "00 11");
	assert_pairs(SLIME_RDMA_PAIR_NAME, "a.1@0", "x.1@0 y.1@0", "00");
}

static void ways__that_differ_are_refused(void **state)
{
	struct rdma_candidate a = candidate(SLIME_RDMA_PAIR_NUMA, "a.1@0 b.1@1");
	struct rdma_candidate b = candidate(SLIME_RDMA_PAIR_POSITION, "x.1@1 y.1@0");
	struct rdma_pairing p;

	(void)state;
	assert_int_equal(rdma_pairing_make(&a, &b, &p), -EPROTONOSUPPORT);
	assert_int_equal(rdma_pairing_make(&b, &a, &p), -EPROTONOSUPPORT);
}

static void end__with_one_rail_goes_along(void **state)
{
	struct rdma_candidate a = candidate(SLIME_RDMA_PAIR_NAME, "a.1@0 b.1@1");
	struct rdma_candidate b = candidate(SLIME_RDMA_PAIR_POSITION, "b.1@0");
	struct rdma_pairing p, q;

	(void)state;
	assert_int_equal(rdma_pairing_make(&a, &b, &p), 0);
	assert_int_equal(rdma_pairing_make(&b, &a, &q), 0);
	assert_int_equal(p.by, SLIME_RDMA_PAIR_NAME);
	assert_int_equal(q.by, SLIME_RDMA_PAIR_NAME);
	assert_int_equal(p.rails[0].ours, 1);
	assert_int_equal(q.rails[0].peers, 1);
	a.n_rails = 1;
	assert_int_equal(rdma_pairing_make(&a, &b, &p), 0);
	assert_int_equal(rdma_pairing_make(&b, &a, &q), 0);
	assert_int_equal(p.by, q.by);
}

/* ---- what a link asks for ---- */

/* "x:2 y" of the peer's. */
static void name_ports(struct rdma_candidate *c, const char *text)
{
	for (; *text; text += strcspn(text, " "), text += *text == ' ') {
		struct rdma_port_name *n = &c->named[c->n_named++];
		size_t len = strcspn(text, ": ");

		memcpy(n->device, text, len);
		n->port = text[len] == ':' ? (uint8_t)(text[len + 1] - '0') : 0;
	}
}

/* As both ends come to it: ours, the peer's, and what each names of the other's. */
static void assert_named(const char *ours, const char *our_names, const char *peers,
			 const char *peer_names, const char *expected)
{
	struct rdma_candidate a = candidate(SLIME_RDMA_PAIR_POSITION, ours);
	struct rdma_candidate b = candidate(SLIME_RDMA_PAIR_POSITION, peers);
	struct rdma_pairing p, q;
	char text[64] = "";

	name_ports(&a, our_names);
	name_ports(&b, peer_names);
	assert_int_equal(rdma_pairing_make(&a, &b, &p), *expected ? 0 : -ENODEV);
	assert_int_equal(rdma_pairing_make(&b, &a, &q), *expected ? 0 : -ENODEV);
	if (!*expected)
		return;
	assert_int_equal(p.n, q.n);
	for (unsigned i = 0; i < p.n; i++) {
		size_t at = strlen(text);

		assert_int_equal(p.rails[i].ours, q.rails[i].peers);
		assert_int_equal(p.rails[i].peers, q.rails[i].ours);
		snprintf(text + at, sizeof(text) - at, "%s%u%u", i ? " " : "", p.rails[i].ours,
			 p.rails[i].peers);
	}
	assert_string_equal(text, expected);
}

static void named_ports__pair_in_the_order_of_the_list(void **state)
{
	(void)state;
	assert_named("a.1@0", "z", "x.1@0 y.1@0 z.1@0", "", "02");
	assert_named("a.1@0 b.1@0", "z y", "x.1@0 y.1@0 z.1@0", "", "02 11");
	assert_named("a.1@0 b.1@0 c.1@0", "y", "x.1@0 y.1@0", "c", "21");
	assert_named("a.1@0 b.1@0", "x", "x.1@0 x.2@0", "", "00 11");
	assert_named("a.1@0 b.1@0", "x:2 x", "x.1@0 x.2@0", "", "01 10");
}

static void named_ports__that_are_not_offered_make_no_link(void **state)
{
	(void)state;
	assert_named("a.1@0", "z", "x.1@0", "", "");
	assert_named("a.1@0", "x:2", "x.1@0", "", "");
	assert_named("a.1@0", "x", "x.1@0", "b", "");
}

static void rails__are_as_many_as_the_smaller_limit(void **state)
{
	struct rdma_candidate a = candidate(SLIME_RDMA_PAIR_POSITION, "a.1@0 b.1@0 c.1@0");
	struct rdma_candidate b = candidate(SLIME_RDMA_PAIR_POSITION, "x.1@0 y.1@0 z.1@0");
	struct rdma_pairing p;

	(void)state;
	a.most_rails = 2;
	assert_int_equal(rdma_pairing_make(&a, &b, &p), 0);
	assert_int_equal(p.n, 2);
	b.most_rails = 1;
	assert_int_equal(rdma_pairing_make(&a, &b, &p), 0);
	assert_int_equal(p.n, 1);
	assert_int_equal(rdma_pairing_make(&b, &a, &p), 0);
	assert_int_equal(p.n, 1);
}

static void bandwidth__is_the_sum_over_the_slower_ports(void **state)
{
	struct rdma_candidate a = candidate(SLIME_RDMA_PAIR_POSITION, "a.1@0 b.1@0");
	struct rdma_candidate b = candidate(SLIME_RDMA_PAIR_POSITION, "x.1@0 y.1@0");
	struct rdma_pairing p;

	(void)state;
	a.rails[0].mbps = a.rails[1].mbps = b.rails[0].mbps = 100000;
	b.rails[1].mbps = 25000;
	a.min_bandwidth = UINT64_C(125000000000);
	assert_int_equal(rdma_pairing_make(&a, &b, &p), 0);
	assert_true(p.bandwidth == a.min_bandwidth);
	a.min_bandwidth++;
	assert_int_equal(rdma_pairing_make(&a, &b, &p), -ENOSPC);
	assert_int_equal(rdma_pairing_make(&b, &a, &p), -ENOSPC);
	a.min_bandwidth = UINT64_C(100000000000);
	b.rails[1].mbps = 0; /* unknown */
	assert_int_equal(rdma_pairing_make(&a, &b, &p), 0);
}

/* ---- what a peer reads of it ---- */

static size_t write_candidate(const struct rdma_candidate *c, uint8_t bytes[SL_CANDIDATE_MAX])
{
	struct sl_writer w = { .at = bytes, .room = SL_CANDIDATE_MAX };

	rdma_candidate_write(c, &w);
	assert_false(w.failed);
	return SL_CANDIDATE_MAX - w.room;
}

static void candidate__of_two_rails_has_its_bytes(void **state)
{
	struct rdma_candidate c = candidate(SLIME_RDMA_PAIR_POSITION, "a.1@0 b.1@1"), got;
	uint8_t bytes[SL_CANDIDATE_MAX];
	size_t len = write_candidate(&c, bytes);

	(void)state;
	assert_int_equal(bytes[0], 5);
	assert_int_equal(bytes[3], 0);
	assert_int_equal(len, 26 + 2 * (50 + 8));
	assert_int_equal(rdma_candidate_read(&got, bytes, len), 0);
	assert_memory_equal(&got, &c, sizeof(c));
}

static void candidate__of_another_pairing_tells_it_and_the_nodes(void **state)
{
	struct rdma_candidate c = candidate(SLIME_RDMA_PAIR_NUMA, "a.1@1023 b.1@-1"), got;
	uint8_t bytes[SL_CANDIDATE_MAX];
	size_t len = write_candidate(&c, bytes);

	(void)state;
	assert_int_equal(rdma_candidate_read(&got, bytes, len), 0);
	assert_memory_equal(&got, &c, sizeof(c));
}

static void candidate__of_the_most_rails_fits(void **state)
{
	struct rdma_candidate c =
		candidate(SLIME_RDMA_PAIR_NAME, "a.1@0 b.1@0 c.1@0 d.1@0 e.1@0 f.1@0 g.1@0 h.1@0");
	uint8_t bytes[SL_CANDIDATE_MAX];

	(void)state;
	assert_int_equal(c.n_rails, SLIME_RAILS_MAX);
	c.n_qps = RDMA_QPS_MAX;
	name_ports(&c, "a:1 b:1 c:1 d:1 e:1 f:1 g:1 h:1");
	(void)write_candidate(&c, bytes);
}

static void candidate__of_another_version_is_refused(void **state)
{
	struct rdma_candidate c = candidate(SLIME_RDMA_PAIR_NUMA, "a.1@0"), got;
	uint8_t bytes[SL_CANDIDATE_MAX];
	size_t len = write_candidate(&c, bytes);

	(void)state;
	for (unsigned version = 0; version < 256; version++) {
		bytes[0] = (uint8_t)version;
		if (version != 5)
			assert_int_equal(rdma_candidate_read(&got, bytes, len), -EPROTONOSUPPORT);
	}
}

static void candidate__that_requires_an_unknown_feature_is_refused(void **state)
{
	struct rdma_candidate c = candidate(SLIME_RDMA_PAIR_NUMA, "a.1@0"), got;

	(void)state;
	for (unsigned bit = 0; bit < 32; bit++) {
		uint8_t bytes[SL_CANDIDATE_MAX];
		size_t len;

		c.features = UINT32_C(1) << bit;
		len = write_candidate(&c, bytes);
		assert_int_equal(rdma_candidate_read(&got, bytes, len),
				 bit < 16 ? 0 : -EPROTONOSUPPORT);
	}
}

static void candidate__with_what_cannot_be_is_malformed(void **state)
{
	struct rdma_candidate c = candidate(SLIME_RDMA_PAIR_NUMA, "a.1@0"), got;
	uint8_t bytes[SL_CANDIDATE_MAX];
	size_t len = write_candidate(&c, bytes);

	(void)state;
	for (unsigned way = 0; way < 256; way++) {
		bytes[3] = (uint8_t)way;
		assert_int_equal(rdma_candidate_read(&got, bytes, len), way <= 2 ? 0 : -EINVAL);
	}
	bytes[3] = 1;
	bytes[26 + 44] = 0;
	bytes[26 + 45] = 4; /* 1024 */
	assert_int_equal(rdma_candidate_read(&got, bytes, len), -EINVAL);
	bytes[26 + 45] = 3;
	assert_int_equal(rdma_candidate_read(&got, bytes, len), 0);
	for (size_t cut = 0; cut < len; cut++)
		assert_int_equal(rdma_candidate_read(&got, bytes, cut), -EINVAL);
}

static void candidate__with_limits_that_cannot_be_is_malformed(void **state)
{
	struct rdma_candidate c = candidate(SLIME_RDMA_PAIR_NUMA, "a.1@0 b.1@0"), got;
	uint8_t bytes[SL_CANDIDATE_MAX];
	size_t len = write_candidate(&c, bytes);

	(void)state;
	for (unsigned most = 0; most < 256; most++) {
		bytes[24] = (uint8_t)most;
		assert_int_equal(rdma_candidate_read(&got, bytes, len),
				 most && most <= RDMA_RAILS_MAX ? 0 : -EINVAL);
	}
	bytes[24] = 1;
	bytes[25] = 1; /* a name that is not there */
	assert_int_equal(rdma_candidate_read(&got, bytes, len), -EINVAL);
	bytes[25] = 0;
	bytes[26 + 58 + 5] = 0; /* the position of the first */
	assert_int_equal(rdma_candidate_read(&got, bytes, len), -EINVAL);
	c.n_named = 1;
	memcpy(c.named[0].device, "a b", 3);
	len = write_candidate(&c, bytes);
	assert_int_equal(rdma_candidate_read(&got, bytes, len), -EINVAL);
}

static void candidate__names_ports_of_the_peer(void **state)
{
	struct rdma_candidate c = candidate(SLIME_RDMA_PAIR_NUMA, "a.1@0"), got;
	uint8_t bytes[SL_CANDIDATE_MAX];
	size_t len;

	(void)state;
	name_ports(&c, "x:2 y");
	c.min_bandwidth = UINT64_C(100000000000);
	len = write_candidate(&c, bytes);
	assert_int_equal(len, 26 + 58 + 2 * 17);
	assert_int_equal(rdma_candidate_read(&got, bytes, len), 0);
	assert_memory_equal(&got, &c, sizeof(c));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(position__pairs_what_has_the_same),
		cmocka_unit_test(numa__pairs_one_node_in_the_order_of_positions),
		cmocka_unit_test(numa__leaves_out_what_has_no_partner),
		cmocka_unit_test(numa__that_is_unknown_is_a_node),
		cmocka_unit_test(name__pairs_device_and_port),
		cmocka_unit_test(name__counts_for_16_bytes),
		cmocka_unit_test(rails__of_which_none_agrees_go_together_in_order),
		cmocka_unit_test(ways__that_differ_are_refused),
		cmocka_unit_test(end__with_one_rail_goes_along),
		cmocka_unit_test(named_ports__pair_in_the_order_of_the_list),
		cmocka_unit_test(named_ports__that_are_not_offered_make_no_link),
		cmocka_unit_test(rails__are_as_many_as_the_smaller_limit),
		cmocka_unit_test(bandwidth__is_the_sum_over_the_slower_ports),
		cmocka_unit_test(candidate__of_two_rails_has_its_bytes),
		cmocka_unit_test(candidate__of_another_pairing_tells_it_and_the_nodes),
		cmocka_unit_test(candidate__of_the_most_rails_fits),
		cmocka_unit_test(candidate__of_another_version_is_refused),
		cmocka_unit_test(candidate__that_requires_an_unknown_feature_is_refused),
		cmocka_unit_test(candidate__with_what_cannot_be_is_malformed),
		cmocka_unit_test(candidate__with_limits_that_cannot_be_is_malformed),
		cmocka_unit_test(candidate__names_ports_of_the_peer),
	};

	return cmocka_run_group_tests_name("rdma_pairing", tests, NULL, NULL);
}
