/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "peeragent/lib/links/traffic.h"

static struct slime_endpoint_stats reads(uint64_t n, uint64_t bytes)
{
	struct slime_endpoint_stats s = { 0 };

	s.kinds[SLIME_KIND_READ] = (struct slime_kind_stats){ n, n, 0, bytes, bytes / 2 };
	return s;
}

static void look(struct traffic *t, const char *nic, uint64_t n, uint64_t bytes)
{
	struct slime_endpoint_stats s = reads(n, bytes);

	traffic_look_begin(t);
	traffic_look_add(t, nic, &s, 1);
	traffic_look_end(t, 1000000000);
}

static void nic__is_the_first_device_or_the_transport(void **state)
{
	struct slime_endpoint_info info = { .transport = SLIME_TRANSPORT_RDMA,
					    .address = "mlx5_0 GID 3 to mlx5_1 ::1" };
	char nic[TRAFFIC_NIC_NAME];

	(void)state;
	traffic_local_nic(&info, nic);
	assert_string_equal(nic, "mlx5_0");
	assert_string_equal(traffic_remote_nic(&info), "mlx5_1 ::1");
	info = (struct slime_endpoint_info){ .transport = SLIME_TRANSPORT_TCP,
					     .address = "127.0.0.1:4000" };
	traffic_local_nic(&info, nic);
	assert_string_equal(nic, "tcp");
	assert_string_equal(traffic_remote_nic(&info), "127.0.0.1:4000");
	info = (struct slime_endpoint_info){ .transport = SLIME_TRANSPORT_NONE };
	traffic_local_nic(&info, nic);
	assert_string_equal(nic, "");
}

static void counts__of_a_connection_that_ended_stay(void **state)
{
	struct slime_endpoint_stats gone = reads(5, 500);
	struct traffic t = { .n = 0 };

	(void)state;
	look(&t, "shm", 5, 500);
	traffic_keep(&t, "shm", &gone);
	look(&t, "shm", 1, 10);
	assert_int_equal(t.n, 1);
	assert_int_equal(t.nics[0].sum.kinds[SLIME_KIND_READ].submitted, 6);
	assert_int_equal(traffic_bytes(&t.nics[0].sum), 510);
	assert_int_equal(t.nics[0].sum.kinds[SLIME_KIND_READ].failed_bytes, 255);
	assert_int_equal(t.nics[0].pending, 1);
}

static void rate__forgets_what_was(void **state)
{
	struct traffic_rate r = { 0 };

	(void)state;
	traffic_rate_step(&r, 1000, 0); /* the first look: nothing to compare with */
	assert_true(r.bps == 0);
	traffic_rate_step(&r, 2000, 1000000000);
	assert_true(r.bps > 2399 && r.bps < 2401);
	for (int i = 0; i < 100; i++)
		traffic_rate_step(&r, 2000, 1000000000);
	assert_true(r.bps < 1);
}

static void nics__beyond_the_last_share_its_place(void **state)
{
	struct slime_endpoint_stats one = reads(1, 1);
	struct traffic t = { .n = 0 };
	char name[TRAFFIC_NIC_NAME];

	(void)state;
	for (int i = 0; i < 2 * TRAFFIC_NICS_MAX; i++) {
		snprintf(name, sizeof(name), "nic%d", i);
		traffic_keep(&t, name, &one);
	}
	traffic_look_begin(&t);
	assert_int_equal(t.n, TRAFFIC_NICS_MAX);
	assert_string_equal(t.nics[TRAFFIC_NICS_MAX - 1].name, "others");
	assert_int_equal(traffic_bytes(&t.nics[TRAFFIC_NICS_MAX - 1].sum), TRAFFIC_NICS_MAX + 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nic__is_the_first_device_or_the_transport),
		cmocka_unit_test(counts__of_a_connection_that_ended_stay),
		cmocka_unit_test(rate__forgets_what_was),
		cmocka_unit_test(nics__beyond_the_last_share_its_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
