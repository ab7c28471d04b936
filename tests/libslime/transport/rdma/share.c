/* SPDX-License-Identifier: Apache-2.0 */
/* How fast a rail is, as its share of the work follows from it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/clock.h"
#include "src/transport/rdma/share.h"

#define PART (RDMA_SHARE_SAMPLE / 4)

/* From a time on: so many parts of one sample, one after the other, each taking part_ns. */
static uint64_t move(struct rdma_share *s, unsigned n_parts, uint64_t part_ns, uint64_t now_ns)
{
	rdma_share_begin(s, n_parts * PART, now_ns);
	for (unsigned i = 0; i < n_parts; i++)
		rdma_share_end(s, PART, now_ns += part_ns);
	return now_ns;
}

static void rate__is_bytes_in_the_time_they_took(void **state)
{
	struct rdma_share s = { 0 };

	(void)state;
	move(&s, 4, SL_NS_PER_MS, SL_NS_PER_S);
	assert_int_equal(s.rate, PART);
}

static void rate__does_not_count_time_without_work(void **state)
{
	struct rdma_share s = { 0 };
	uint64_t now = move(&s, 4, SL_NS_PER_MS, SL_NS_PER_S);

	(void)state;
	move(&s, 4, SL_NS_PER_MS, now + 100 * SL_NS_PER_S);
	assert_int_equal(s.rate, PART);
}

static void rate__of_too_little_is_not_known(void **state)
{
	struct rdma_share s = { 0 };
	uint64_t now = 0;

	(void)state;
	for (int i = 0; i < 100; i++) {
		rdma_share_begin(&s, RDMA_SHARE_LEAST - 1, now);
		rdma_share_end(&s, RDMA_SHARE_LEAST - 1, now += SL_NS_PER_MS);
	}
	assert_int_equal(s.rate, 0);
}

/* Nothing is behind it, so that its time is known: operations one after the other. */
static void rate__of_a_single_part_is_known_when_it_is_all(void **state)
{
	struct rdma_share s = { 0 };

	(void)state;
	move(&s, 1, SL_NS_PER_MS, SL_NS_PER_S);
	assert_int_equal(s.rate, PART);
}

static void rate__that_is_old_does_not_count(void **state)
{
	struct rdma_share s = { 0 };
	uint64_t now = move(&s, 4, 100 * SL_NS_PER_MS, 0);

	(void)state;
	assert_false(rdma_share_is_stale(&s, now));
	now += RDMA_SHARE_STALE_NS;
	assert_true(rdma_share_is_stale(&s, now));
	now = move(&s, 1, SL_NS_PER_MS, now);
	assert_int_equal(s.rate, PART);
	assert_false(rdma_share_is_stale(&s, now));
}

static void rate__follows_a_rail_that_becomes_slow(void **state)
{
	struct rdma_share s = { 0 };
	uint64_t now = move(&s, 4, SL_NS_PER_MS, 0);

	(void)state;
	for (int i = 0; i < 20; i++)
		now = move(&s, 4, 4 * SL_NS_PER_MS, now);
	assert_in_range(s.rate, PART / 4, PART / 4 + PART / 64);
}

static void weight__is_as_the_rates(void **state)
{
	struct rdma_share fast = { .rate = 4000 }, slow = { .rate = 1000 }, slowest = { .rate = 1 };
	struct rdma_share unknown = { 0 };

	(void)state;
	assert_int_equal(rdma_share_weight(&fast, 4000), RDMA_SHARE_WHOLE);
	assert_int_equal(rdma_share_weight(&slow, 4000), RDMA_SHARE_WHOLE / 4);
	assert_int_equal(rdma_share_weight(&slowest, 4000), 1);
	assert_int_equal(rdma_share_weight(&unknown, 4000), RDMA_SHARE_WHOLE);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(rate__is_bytes_in_the_time_they_took),
		cmocka_unit_test(rate__does_not_count_time_without_work),
		cmocka_unit_test(rate__of_too_little_is_not_known),
		cmocka_unit_test(rate__of_a_single_part_is_known_when_it_is_all),
		cmocka_unit_test(rate__that_is_old_does_not_count),
		cmocka_unit_test(rate__follows_a_rail_that_becomes_slow),
		cmocka_unit_test(weight__is_as_the_rates),
	};

	return cmocka_run_group_tests_name("share", tests, NULL, NULL);
}
