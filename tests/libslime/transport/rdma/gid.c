/* SPDX-License-Identifier: Apache-2.0 */
/* Which GID a queue pair uses, from tables as ports have them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "src/transport/rdma/gid.h"

#define IPV4	   "::ffff:10.77.0.1"
#define GLOBAL	   "2001:db8::5"
#define LINK_LOCAL "fe80::5054:ff:fe00:1"

static struct slime_gid gid(uint32_t index, enum slime_gid_type type, const char *text)
{
	struct slime_gid g = { .index = index, .type = type, .netdev = "eth2" };

	assert_int_equal(inet_pton(AF_INET6, text, g.raw), 1);
	return g;
}

#define V1(i, text) gid(i, SLIME_GID_ROCE_V1, text)
#define V2(i, text) gid(i, SLIME_GID_ROCE_V2, text)
#define IB(i, text) gid(i, SLIME_GID_IB, text)

static void assert_taken(const struct slime_gid *table, size_t n, enum slime_link_layer layer,
			 int wanted, uint32_t index)
{
	struct sl_gid_choice c;

	assert_int_equal(sl_gid_choose(table, n, layer, wanted, &c), 0);
	assert_int_equal(c.gid.index, index);
}

static void assert_none(const struct slime_gid *table, size_t n, enum slime_link_layer layer,
			int wanted, const char *why)
{
	struct sl_gid_choice c;

	assert_int_equal(sl_gid_choose(table, n, layer, wanted, &c), -EADDRNOTAVAIL);
	assert_non_null(strstr(c.why, why));
}

/* As a Mellanox port with both families has it. */
static void choose__auto_on_ethernet_takes_ipv4_of_roce_v2(void **state)
{
	const struct slime_gid table[] = {
		V1(0, LINK_LOCAL), V2(1, LINK_LOCAL), V1(2, IPV4),
		V2(3, IPV4),	   V1(4, GLOBAL),     V2(5, GLOBAL),
	};

	(void)state;
	assert_taken(table, 6, SLIME_LINK_ETHERNET, SL_GID_AUTO, 3);
}

static void choose__auto_prefers_ipv4_wherever_it_stands(void **state)
{
	const struct slime_gid table[] = { V2(9, GLOBAL), V2(8, LINK_LOCAL), V2(7, IPV4) };

	(void)state;
	assert_taken(table, 3, SLIME_LINK_ETHERNET, SL_GID_AUTO, 7);
}

static void choose__auto_without_ipv4_takes_global_ipv6(void **state)
{
	const struct slime_gid table[] = { V2(1, LINK_LOCAL), V1(2, IPV4), V2(5, GLOBAL) };

	(void)state;
	assert_taken(table, 3, SLIME_LINK_ETHERNET, SL_GID_AUTO, 5);
}

static void choose__auto_without_addresses_takes_link_local(void **state)
{
	const struct slime_gid table[] = { V1(0, LINK_LOCAL), V2(1, LINK_LOCAL) };

	(void)state;
	assert_taken(table, 2, SLIME_LINK_ETHERNET, SL_GID_AUTO, 1);
}

static void choose__auto_among_equals_takes_the_lowest_index(void **state)
{
	const struct slime_gid table[] = { V2(6, "::ffff:10.0.0.6"), V2(4, "::ffff:10.0.0.4"),
					   V2(5, "::ffff:10.0.0.5") };

	(void)state;
	assert_taken(table, 3, SLIME_LINK_ETHERNET, SL_GID_AUTO, 4);
}

/* A queue pair's index has eight bits, and tables may have more entries. */
static void choose__auto_passes_over_an_index_that_no_queue_pair_takes(void **state)
{
	const struct slime_gid table[] = { V2(1, LINK_LOCAL), V2(300, IPV4), V2(255, GLOBAL) };

	(void)state;
	assert_taken(table, 3, SLIME_LINK_ETHERNET, SL_GID_AUTO, 255);
	assert_none(table + 1, 1, SLIME_LINK_ETHERNET, SL_GID_AUTO, "above 255");
}

static void choose__auto_never_takes_roce_v1(void **state)
{
	const struct slime_gid table[] = { V1(0, LINK_LOCAL), V1(2, IPV4) };

	(void)state;
	assert_none(table, 2, SLIME_LINK_ETHERNET, SL_GID_AUTO, "no RoCE v2 GID among 2");
}

static void choose__auto_never_takes_zero_or_multicast(void **state)
{
	const struct slime_gid table[] = { V2(0, "::"), V2(1, "ff02::1") };

	(void)state;
	assert_none(table, 2, SLIME_LINK_ETHERNET, SL_GID_AUTO, "IP address");
}

static void choose__from_an_empty_table_is_no_address(void **state)
{
	(void)state;
	assert_none(NULL, 0, SLIME_LINK_ETHERNET, SL_GID_AUTO, "among 0");
	assert_none(NULL, 0, SLIME_LINK_INFINIBAND, SL_GID_AUTO, "index 0");
	assert_none(NULL, 0, SLIME_LINK_ETHERNET, 3, "index 3");
}

static void choose__auto_on_infiniband_takes_index_0(void **state)
{
	const struct slime_gid table[] = { IB(1, "fec0::2"), IB(0, "fe80::2:c903:1") };

	(void)state;
	assert_taken(table, 2, SLIME_LINK_INFINIBAND, SL_GID_AUTO, 0);
}

static void choose__a_configured_index_is_taken_whatever_its_type(void **state)
{
	const struct slime_gid table[] = { V1(0, LINK_LOCAL), V1(2, IPV4), V2(3, IPV4) };

	(void)state;
	assert_taken(table, 3, SLIME_LINK_ETHERNET, 2, 2);
	assert_taken(table, 3, SLIME_LINK_ETHERNET, 0, 0);
}

static void choose__a_configured_index_that_is_absent_or_empty_is_no_address(void **state)
{
	const struct slime_gid table[] = { V2(1, LINK_LOCAL), V2(4, "::") };

	(void)state;
	assert_none(table, 2, SLIME_LINK_ETHERNET, 2, "index 2 (configured)");
	assert_none(table, 2, SLIME_LINK_ETHERNET, 4, "index 4 (configured)");
	assert_none(table, 2, SLIME_LINK_ETHERNET, -2, "index -2 (configured)");
}

static void choose__on_another_link_layer_is_not_supported(void **state)
{
	const struct slime_gid table[] = { IB(0, LINK_LOCAL) };
	struct sl_gid_choice c;

	(void)state;
	assert_int_equal(sl_gid_choose(table, 1, SLIME_LINK_UNKNOWN, 0, &c), -EOPNOTSUPP);
	assert_non_null(strstr(c.why, "link layer"));
}

static void choose__says_what_it_took_and_why(void **state)
{
	const struct slime_gid table[] = { V2(1, IPV4) };
	struct sl_gid_choice c;

	(void)state;
	assert_int_equal(sl_gid_choose(table, 1, SLIME_LINK_ETHERNET, SL_GID_AUTO, &c), 0);
	assert_string_equal(c.why, "GID index 1, RoCE v2, 10.77.0.1 of eth2: automatic, the first "
				   "RoCE v2 one that is IPv4");
	assert_int_equal(sl_gid_choose(table, 1, SLIME_LINK_ETHERNET, 1, &c), 0);
	assert_string_equal(c.why, "GID index 1, RoCE v2, 10.77.0.1 of eth2: configured");
}

static void choose__its_words_fit_with_the_longest_names(void **state)
{
	struct slime_gid g = V2(255, "fe80:1111:2222:3333:4444:5555:6666:7777");
	struct sl_gid_choice c;

	(void)state;
	memcpy(g.netdev, "fifteen-letters", 16);
	assert_int_equal(sl_gid_choose(&g, 1, SLIME_LINK_ETHERNET, SL_GID_AUTO, &c), 0);
	assert_non_null(strstr(c.why, "link-local"));
}

static void gid_text__of_ipv4_is_its_address(void **state)
{
	char text[SLIME_GID_TEXT_MAX];

	(void)state;
	assert_string_equal(slime_gid_text(V2(0, IPV4).raw, text), "10.77.0.1");
	assert_string_equal(slime_gid_text(V2(0, GLOBAL).raw, text), GLOBAL);
}

static void is_global__within_a_subnet_of_infiniband_is_not(void **state)
{
	const struct slime_gid a = IB(0, "fe80::1"), b = IB(0, "fe80::2"), c = IB(0, "fec0::2");

	(void)state;
	assert_false(sl_gid_is_global(SLIME_LINK_INFINIBAND, a.raw, b.raw));
	assert_true(sl_gid_is_global(SLIME_LINK_INFINIBAND, a.raw, c.raw));
	assert_true(sl_gid_is_global(SLIME_LINK_ETHERNET, a.raw, b.raw));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(choose__auto_on_ethernet_takes_ipv4_of_roce_v2),
		cmocka_unit_test(choose__auto_prefers_ipv4_wherever_it_stands),
		cmocka_unit_test(choose__auto_without_ipv4_takes_global_ipv6),
		cmocka_unit_test(choose__auto_without_addresses_takes_link_local),
		cmocka_unit_test(choose__auto_among_equals_takes_the_lowest_index),
		cmocka_unit_test(choose__auto_passes_over_an_index_that_no_queue_pair_takes),
		cmocka_unit_test(choose__auto_never_takes_roce_v1),
		cmocka_unit_test(choose__auto_never_takes_zero_or_multicast),
		cmocka_unit_test(choose__from_an_empty_table_is_no_address),
		cmocka_unit_test(choose__auto_on_infiniband_takes_index_0),
		cmocka_unit_test(choose__a_configured_index_is_taken_whatever_its_type),
		cmocka_unit_test(choose__a_configured_index_that_is_absent_or_empty_is_no_address),
		cmocka_unit_test(choose__on_another_link_layer_is_not_supported),
		cmocka_unit_test(choose__says_what_it_took_and_why),
		cmocka_unit_test(choose__its_words_fit_with_the_longest_names),
		cmocka_unit_test(gid_text__of_ipv4_is_its_address),
		cmocka_unit_test(is_global__within_a_subnet_of_infiniband_is_not),
	};

	return cmocka_run_group_tests_name("gid", tests, NULL, NULL);
}
