/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "bench/service/claim.h"

#define LONG_MS 3600000

static void take__keeps_others_out_until_it_is_given_back(void **state)
{
	struct bench_claim claim = { .until_ns = 0 };

	(void)state;
	assert_true(bench_claim_is_free_for(&claim, "b"));
	bench_claim_take(&claim, "a", "p", LONG_MS);
	assert_false(bench_claim_is_free_for(&claim, "b"));
	assert_true(bench_claim_is_free_for(&claim, "a"));
	bench_claim_take(&claim, "a", "p", 0);
	assert_true(bench_claim_is_free_for(&claim, "b"));
}

static void drop__ends_the_claim_that_was_seen(void **state)
{
	struct bench_claim claim, seen;

	(void)state;
	bench_claim_take(&claim, "a", "p", LONG_MS);
	seen = claim;
	bench_claim_drop(&claim, &seen);
	assert_true(bench_claim_is_free_for(&claim, "b"));
}

static void drop__leaves_what_the_same_agent_claimed_since_over_another_link(void **state)
{
	struct bench_claim claim, seen;

	(void)state;
	bench_claim_take(&claim, "a", "p", LONG_MS);
	seen = claim;
	bench_claim_take(&claim, "a", "q", LONG_MS);
	bench_claim_drop(&claim, &seen);
	assert_false(bench_claim_is_free_for(&claim, "b"));
}

static void drop__leaves_what_was_claimed_anew_over_the_same_link(void **state)
{
	struct bench_claim claim, seen;

	(void)state;
	bench_claim_take(&claim, "a", "p", LONG_MS);
	seen = claim;
	bench_claim_take(&claim, "a", "p", 2 * LONG_MS);
	bench_claim_drop(&claim, &seen);
	assert_false(bench_claim_is_free_for(&claim, "b"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(take__keeps_others_out_until_it_is_given_back),
		cmocka_unit_test(drop__ends_the_claim_that_was_seen),
		cmocka_unit_test(drop__leaves_what_the_same_agent_claimed_since_over_another_link),
		cmocka_unit_test(drop__leaves_what_was_claimed_anew_over_the_same_link),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
