/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "bench/load/histogram.h"

static struct load_histogram h;

static int start(void **state)
{
	(void)state;
	load_histogram_init(&h);
	return 0;
}

static void permille__of_nothing_is_0(void **state)
{
	(void)state;
	assert_int_equal(load_histogram_permille(&h, 500), 0);
	assert_int_equal(h.max_ns, 0);
}

static void permille__below_128_ns_is_exact(void **state)
{
	(void)state;
	for (uint64_t ns = 1; ns <= 100; ns++)
		load_histogram_add(&h, ns);

	assert_int_equal(load_histogram_permille(&h, 500), 50);
	assert_int_equal(load_histogram_permille(&h, 990), 99);
	assert_int_equal(load_histogram_permille(&h, 999), 100);
	assert_int_equal(load_histogram_permille(&h, 1000), 100);
	assert_int_equal(h.sum_ns, 5050);
	assert_int_equal(h.min_ns, 1);
}

/* On both sides of every border between buckets. */
static void permille__of_any_value_is_at_most_a_64th_above(void **state)
{
	(void)state;
	for (unsigned bit = 1; bit < 42; bit++) {
		for (int off = -1; off <= 1; off++) {
			uint64_t ns = (UINT64_C(1) << bit) + (uint64_t)off;
			uint64_t got;

			load_histogram_init(&h);
			load_histogram_add(&h, ns);
			load_histogram_add(&h, UINT64_C(1) << 50);
			got = load_histogram_permille(&h, 500);
			assert_true(got >= ns && got - ns <= ns / 64);
		}
	}
}

static void add__beyond_the_last_bucket_counts_there(void **state)
{
	(void)state;
	load_histogram_add(&h, UINT64_MAX);

	assert_int_equal(h.buckets[LOAD_BUCKETS - 1], 1);
	assert_int_equal(h.max_ns, UINT64_MAX);
}

static void permille__is_never_above_the_longest(void **state)
{
	(void)state;
	load_histogram_add(&h, 1000001);

	assert_int_equal(load_histogram_permille(&h, 999), 1000001);
}

static void merge__is_as_if_all_were_added_to_one(void **state)
{
	static struct load_histogram all, part;

	(void)state;
	load_histogram_init(&all);
	load_histogram_init(&part);
	for (uint64_t i = 0; i < 1000; i++) {
		load_histogram_add(&all, i * i);
		load_histogram_add(i % 3 ? &h : &part, i * i);
	}
	load_histogram_merge(&h, &part);

	assert_memory_equal(&h, &all, sizeof(all));
}

static void merge__with_an_empty_one_changes_nothing(void **state)
{
	static struct load_histogram empty;

	(void)state;
	load_histogram_init(&empty);
	load_histogram_add(&h, 7);
	load_histogram_merge(&h, &empty);

	assert_int_equal(h.n, 1);
	assert_int_equal(h.min_ns, 7);
	assert_int_equal(h.max_ns, 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(permille__of_nothing_is_0, start),
		cmocka_unit_test_setup(permille__below_128_ns_is_exact, start),
		cmocka_unit_test_setup(permille__of_any_value_is_at_most_a_64th_above, start),
		cmocka_unit_test_setup(add__beyond_the_last_bucket_counts_there, start),
		cmocka_unit_test_setup(permille__is_never_above_the_longest, start),
		cmocka_unit_test_setup(merge__is_as_if_all_were_added_to_one, start),
		cmocka_unit_test_setup(merge__with_an_empty_one_changes_nothing, start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
