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

static void look(struct traffic *t, struct traffic_booked *b, uint64_t n, uint64_t bytes)
{
	struct slime_endpoint_stats s = reads(n, bytes);

	traffic_look_begin(t);
	traffic_book(t, b, "shm", &s, NULL, 0);
	traffic_look_pending(t, "shm", 1);
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
	struct traffic_booked first = { .rails = { 0 } }, second = { .rails = { 0 } };
	struct traffic t = { .n = 0 };

	(void)state;
	look(&t, &first, 3, 300);
	look(&t, &first, 5, 500);
	look(&t, &second, 1, 10);
	assert_int_equal(t.n, 1);
	assert_int_equal(t.nics[0].sum.kinds[SLIME_KIND_READ].submitted, 6);
	assert_int_equal(traffic_bytes(&t.nics[0].sum), 510);
	assert_int_equal(t.nics[0].sum.kinds[SLIME_KIND_READ].failed_bytes, 255);
	assert_int_equal(t.nics[0].pending, 1);
}

static uint64_t read_bytes(const struct traffic *t, const char *nic)
{
	for (size_t i = 0; i < t->n; i++)
		if (!strcmp(t->nics[i].name, nic))
			return t->nics[i].sum.kinds[SLIME_KIND_READ].bytes;
	return 0;
}

static void bytes__are_booked_at_the_device_of_the_rail_that_moved_them(void **state)
{
	struct slime_rail_info rails[] = { { .device = "rxe0:1" }, { .device = "rxe2:1" } };
	struct traffic_booked b = { .rails = { 0 } };
	struct slime_endpoint_stats s = reads(4, 1000);
	struct traffic t = { .n = 0 };

	(void)state;
	rails[0].bytes = 400;
	rails[1].bytes = 600;
	traffic_book(&t, &b, "rxe0", &s, rails, 2);
	assert_int_equal(read_bytes(&t, "rxe0"), 400);
	assert_int_equal(read_bytes(&t, "rxe2"), 600);
	assert_int_equal(t.nics[0].sum.kinds[SLIME_KIND_READ].completed, 4);
	/* Half of the next operation is moved, and nothing goes back. */
	rails[1].bytes = 1100;
	traffic_book(&t, &b, "rxe0", &s, rails, 2);
	assert_int_equal(read_bytes(&t, "rxe0"), 400);
	assert_int_equal(read_bytes(&t, "rxe2"), 600);
	rails[0].bytes = 900;
	s = reads(5, 2000);
	traffic_book(&t, &b, "rxe0", &s, rails, 2);
	assert_int_equal(read_bytes(&t, "rxe0"), 900);
	assert_int_equal(read_bytes(&t, "rxe2"), 1100);
	/* A link that broke tells of no rails. */
	s = reads(6, 2100);
	traffic_book(&t, &b, "rxe0", &s, rails, 0);
	assert_int_equal(read_bytes(&t, "rxe0"), 1000);
}

static void rate__forgets_what_was(void **state)
{
	struct traffic_rate r = { 0 };

	(void)state;
	traffic_rate_step(&r, 1000, 0); /* the first look: nothing to compare with */
	assert_true(r.gb_s == 0);
	traffic_rate_step(&r, 2000000001000, 1000000000000);
	assert_true(r.gb_s > 0.599 && r.gb_s < 0.601);
	for (int i = 0; i < 100; i++)
		traffic_rate_step(&r, 2000000001000, 1000000000);
	assert_true(r.gb_s < 1e-9);
}

static void nics__beyond_the_last_share_its_place(void **state)
{
	struct slime_endpoint_stats one = reads(1, 1);
	struct traffic t = { .n = 0 };
	char name[TRAFFIC_NIC_NAME];

	(void)state;
	for (int i = 0; i < 2 * TRAFFIC_NICS_MAX; i++) {
		snprintf(name, sizeof(name), "nic%d", i);
		traffic_book(&t, &(struct traffic_booked){ .rails = { 0 } }, name, &one, NULL, 0);
	}
	assert_int_equal(t.n, TRAFFIC_NICS_MAX);
	assert_string_equal(t.nics[TRAFFIC_NICS_MAX - 1].name, "others");
	assert_int_equal(traffic_bytes(&t.nics[TRAFFIC_NICS_MAX - 1].sum), TRAFFIC_NICS_MAX + 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nic__is_the_first_device_or_the_transport),
		cmocka_unit_test(counts__of_a_connection_that_ended_stay),
		cmocka_unit_test(bytes__are_booked_at_the_device_of_the_rail_that_moved_them),
		cmocka_unit_test(rate__forgets_what_was),
		cmocka_unit_test(nics__beyond_the_last_share_its_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
