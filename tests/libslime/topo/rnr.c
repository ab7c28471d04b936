/* SPDX-License-Identifier: Apache-2.0 */
/* Counters of ports, from a sysfs that the test writes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <slime/rnr.h>
#include <tests/support/fail_alloc.h>
#include <tests/support/sysfs_tree.h>

static void put(const struct sysfs_tree *t, const char *device, unsigned port, const char *file,
		const char *text)
{
	char path[256];

	snprintf(path, sizeof(path), "class/infiniband/%s/ports/%u/%s", device, port, file);
	sysfs_tree_put(t, path, text);
}

static struct slime_rnr_monitor *monitor_of(const struct sysfs_tree *t)
{
	struct slime_rnr_monitor *m;

	assert_int_equal(slime_rnr_monitor_create(t->root, &m), 0);
	return m;
}

/* Of one device, of which nothing else is known. */
static struct slime_rnr_monitor *monitor_with(const struct sysfs_tree *t, const char *device,
					      const char *file, const char *text)
{
	put(t, device, 1, file, text);
	return monitor_of(t);
}

static size_t n_counters(const struct slime_rnr_monitor *m)
{
	size_t n;

	slime_rnr_monitor_counters(m, &n);
	return n;
}

static const struct slime_rnr_counter *counter(const struct slime_rnr_monitor *m, size_t i)
{
	size_t n;
	const struct slime_rnr_counter *const *all = slime_rnr_monitor_counters(m, &n);

	assert_true(i < n);
	return all[i];
}

static void assert_counts(const struct slime_rnr_counter *c, uint64_t value, uint64_t added,
			  uint64_t total)
{
	assert_int_equal(c->value, value);
	assert_int_equal(c->added, added);
	assert_int_equal(c->total, total);
}

static void monitor__without_devices_has_no_counters(void **state)
{
	struct slime_rnr_monitor *m = monitor_of(*state);

	assert_int_equal(n_counters(m), 0);
	assert_int_equal(slime_rnr_monitor_sample(m), 0);
	assert_int_equal(n_counters(m), 0);
	slime_rnr_monitor_destroy(m);
	slime_rnr_monitor_destroy(NULL);
}

static void sample__tells_what_was_added(void **state)
{
	struct slime_rnr_monitor *m =
		monitor_with(*state, "mlx5_0", "hw_counters/out_of_buffer", "100\n");

	assert_counts(counter(m, 0), 100, 0, 0);
	put(*state, "mlx5_0", 1, "hw_counters/out_of_buffer", "103\n");
	assert_int_equal(slime_rnr_monitor_sample(m), 0);
	assert_counts(counter(m, 0), 103, 3, 3);
	put(*state, "mlx5_0", 1, "hw_counters/out_of_buffer", "110\n");
	assert_int_equal(slime_rnr_monitor_sample(m), 0);
	assert_counts(counter(m, 0), 110, 7, 10);
	assert_int_equal(slime_rnr_monitor_sample(m), 0);
	assert_counts(counter(m, 0), 110, 0, 10);
	assert_string_equal(counter(m, 0)->device, "mlx5_0");
	assert_string_equal(counter(m, 0)->name, "out_of_buffer");
	assert_int_equal(counter(m, 0)->port, 1);
	assert_int_equal(counter(m, 0)->kind, SLIME_RNR_NOT_READY);
	slime_rnr_monitor_destroy(m);
}

static void sample__of_a_counter_that_went_back_adds_what_it_shows(void **state)
{
	struct slime_rnr_monitor *m =
		monitor_with(*state, "mlx5_0", "hw_counters/packet_seq_err", "50\n");

	put(*state, "mlx5_0", 1, "hw_counters/packet_seq_err", "2\n");
	assert_int_equal(slime_rnr_monitor_sample(m), 0);
	assert_counts(counter(m, 0), 2, 2, 2);
	slime_rnr_monitor_destroy(m);
}

static void sample__of_a_device_that_came_starts_from_its_value(void **state)
{
	struct slime_rnr_monitor *m =
		monitor_with(*state, "mlx5_1", "hw_counters/out_of_buffer", "1\n");

	put(*state, "mlx5_0", 1, "hw_counters/out_of_buffer", "70\n");
	put(*state, "mlx5_1", 1, "hw_counters/out_of_buffer", "4\n");
	assert_int_equal(slime_rnr_monitor_sample(m), 0);
	assert_int_equal(n_counters(m), 2);
	assert_counts(counter(m, 0), 70, 0, 0);
	assert_counts(counter(m, 1), 4, 3, 3);
	slime_rnr_monitor_destroy(m);
}

static void sample__of_a_device_that_went_leaves_the_others(void **state)
{
	struct slime_rnr_monitor *m;

	put(*state, "mlx5_0", 1, "hw_counters/out_of_buffer", "1\n");
	put(*state, "mlx5_1", 1, "hw_counters/out_of_buffer", "1\n");
	m = monitor_of(*state);
	sysfs_tree_remove(*state, "class/infiniband/mlx5_0");
	put(*state, "mlx5_1", 1, "hw_counters/out_of_buffer", "5\n");
	assert_int_equal(slime_rnr_monitor_sample(m), 0);
	assert_int_equal(n_counters(m), 1);
	assert_string_equal(counter(m, 0)->device, "mlx5_1");
	assert_counts(counter(m, 0), 5, 4, 4);
	slime_rnr_monitor_destroy(m);
}

static void counters__are_by_device_port_and_kind(void **state)
{
	struct slime_rnr_monitor *m;

	put(*state, "mlx5_10", 1, "hw_counters/out_of_buffer", "0\n");
	put(*state, "mlx5_2", 2, "hw_counters/local_ack_timeout_err", "0\n");
	put(*state, "mlx5_2", 2, "hw_counters/rnr_nak_retry_err", "0\n");
	put(*state, "mlx5_2", 1, "counters/link_downed", "0\n");
	m = monitor_of(*state);
	assert_int_equal(n_counters(m), 4);
	assert_string_equal(counter(m, 0)->name, "link_downed");
	assert_string_equal(counter(m, 1)->name, "rnr_nak_retry_err");
	assert_string_equal(counter(m, 2)->name, "local_ack_timeout_err");
	assert_string_equal(counter(m, 3)->device, "mlx5_10");
	slime_rnr_monitor_destroy(m);
}

static void sample__of_what_is_no_count_leaves_it_out(void **state)
{
	struct slime_rnr_monitor *m;

	put(*state, "mlx5_0", 1, "hw_counters/out_of_buffer", "N/A (no PMA)\n");
	put(*state, "mlx5_0", 1, "hw_counters/packet_seq_err", "-4\n");
	put(*state, "mlx5_0", 1, "hw_counters/rnr_nak_retry_err", "99999999999999999999999999\n");
	put(*state, "mlx5_0", 1, "hw_counters/lifespan", "10\n");
	m = monitor_of(*state);
	assert_int_equal(n_counters(m), 0);
	slime_rnr_monitor_destroy(m);
}

static void sample__that_fails_keeps_the_last(void **state)
{
	struct slime_rnr_monitor *m =
		monitor_with(*state, "mlx5_0", "hw_counters/out_of_buffer", "3\n");

	sysfs_tree_remove(*state, "class/infiniband");
	sysfs_tree_put(*state, "class/infiniband", "");
	assert_int_equal(slime_rnr_monitor_sample(m), -EIO);
	assert_counts(counter(m, 0), 3, 0, 0);
	slime_rnr_monitor_destroy(m);
}

static void monitor__without_memory_leaves_nothing(void **state)
{
	const struct sysfs_tree *t = *state;
	struct slime_rnr_monitor *m;
	int ret = -ENOMEM;

	put(t, "mlx5_0", 1, "hw_counters/out_of_buffer", "3\n");
	for (long n = 1; ret; n++) {
		fail_alloc_at(n);
		ret = slime_rnr_monitor_create(t->root, &m);
		(void)fail_alloc_end();
		assert_true(!ret || ret == -ENOMEM);
	}
	ret = -ENOMEM;
	for (long n = 1; ret; n++) {
		fail_alloc_at(n);
		ret = slime_rnr_monitor_sample(m);
		(void)fail_alloc_end();
		assert_true(!ret || ret == -ENOMEM);
		assert_int_equal(n_counters(m), 1);
	}
	slime_rnr_monitor_destroy(m);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, sysfs_tree_setup, sysfs_tree_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(monitor__without_devices_has_no_counters),
		TEST(sample__tells_what_was_added),
		TEST(sample__of_a_counter_that_went_back_adds_what_it_shows),
		TEST(sample__of_a_device_that_came_starts_from_its_value),
		TEST(sample__of_a_device_that_went_leaves_the_others),
		TEST(counters__are_by_device_port_and_kind),
		TEST(sample__of_what_is_no_count_leaves_it_out),
		TEST(sample__that_fails_keeps_the_last),
		TEST(monitor__without_memory_leaves_nothing),
	};

	return cmocka_run_group_tests_name("rnr", tests, NULL, NULL);
}
