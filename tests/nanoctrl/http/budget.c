/* SPDX-License-Identifier: Apache-2.0 */
/* Which requests are given up when they hold too much. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "http/budget.h"

#define MIB	 (size_t)1048576
#define HERE	 "127.0.0.1"
#define N_SHARES 5000

static struct budget b;
static struct budget_share shares[N_SHARES];

static int setup(void **state)
{
	(void)state;
	budget_init(&b, 64 * MIB, NULL);
	for (size_t i = 0; i < N_SHARES; i++)
		budget_enter(&b, &shares[i], HERE);
	return 0;
}

/* It gets so much, and those who pay for it are given up. Returns how many did. */
static unsigned get(struct budget_share *s, size_t bytes)
{
	struct budget_share *payer;
	unsigned n = 0;

	budget_hold(&b, s, bytes);
	while ((payer = budget_payer(&b, s))) {
		budget_hold(&b, payer, 0);
		n++;
	}
	return n;
}

static void payer__is_the_largest_and_of_equal_ones_the_oldest(void **state)
{
	(void)state;
	assert_int_equal(get(&shares[0], 4 * MIB), 0);
	for (int i = 1; i <= 6; i++)
		assert_int_equal(get(&shares[i], 8 * MIB), 0);
	assert_int_equal(get(&shares[7], 4 * MIB), 0);
	/* 56 MiB: all that large ones may have. */
	assert_int_equal(get(&shares[8], 1 * MIB), 1);
	assert_int_equal(shares[1].bytes, 0);
	assert_int_equal(get(&shares[9], 8 * MIB), 1);
	assert_int_equal(shares[2].bytes, 0);
	assert_int_equal(shares[0].bytes, 4 * MIB);
	assert_int_equal(shares[9].bytes, 8 * MIB);
	/* The largest one asks itself. */
	assert_int_equal(get(&shares[10], 32 * MIB), 1);
	assert_int_equal(shares[10].bytes, 0);
}

static void small_ones__have_memory_of_their_own(void **state)
{
	(void)state;
	for (int i = 0; i < 40; i++)
		get(&shares[i], 2 * MIB);
	assert_int_equal(b.large, 56 * MIB);
	for (int i = 100; i < 100 + 512; i++)
		assert_int_equal(get(&shares[i], BUDGET_SMALL), 0);
	assert_int_equal(b.total, 64 * MIB);
	/* More of them, and the large ones pay. */
	assert_int_equal(get(&shares[1000], BUDGET_SMALL), 1);
	assert_int_equal(shares[100].bytes, BUDGET_SMALL);
}

static void small_ones__that_never_end_pay_for_each_other(void **state)
{
	(void)state;
	for (int i = 0; i < N_SHARES - 1; i++)
		get(&shares[i], BUDGET_SMALL);
	assert_int_equal(b.total, 64 * MIB);
	assert_int_equal(shares[0].bytes, 0);
	assert_int_equal(get(&shares[N_SHARES - 1], 300), 1);
	assert_int_equal(shares[N_SHARES - 1].bytes, 300);
}

static void finished_ones__are_not_given_up(void **state)
{
	size_t kept = 0;

	(void)state;
	for (int i = 0; i < 28; i++) {
		assert_int_equal(get(&shares[i], 2 * MIB), 0);
		kept += budget_keep(&b, &shares[i]);
	}
	assert_int_equal(kept, 56 * MIB);
	assert_int_equal(get(&shares[30], 2 * MIB), 1);
	assert_int_equal(shares[30].bytes, 0);
	assert_int_equal(get(&shares[31], BUDGET_SMALL), 0);
	for (int i = 0; i < 28; i++)
		budget_release(&b, 2 * MIB);
	assert_int_equal(get(&shares[30], 2 * MIB), 0);
	budget_hold(&b, &shares[30], 0);
	budget_hold(&b, &shares[31], 0);
	assert_int_equal(b.total, 0);
	assert_int_equal(b.large, 0);
}

static void address__beyond_loopback_has_a_quarter(void **state)
{
	static const char *const same[] = { "10.0.0.1", "::ffff:10.0.0.1" };
	static const char *const network[] = { "fd00:1:2:3::1", "fd00:1:2:3:4::1" };

	(void)state;
	for (int i = 0; i < 8; i++) {
		budget_enter(&b, &shares[i], same[i % 2]);
		assert_int_equal(get(&shares[i], 2 * MIB), 0);
	}
	budget_enter(&b, &shares[8], same[0]);
	assert_int_equal(get(&shares[8], 300), 1);
	assert_int_equal(shares[8].bytes, 0);
	assert_int_equal(get(&shares[9], 2 * MIB), 0);
	/* What has arrived in full is nobody's any more. */
	budget_release(&b, budget_keep(&b, &shares[0]));
	assert_int_equal(get(&shares[8], 300), 0);
	budget_enter(&b, &shares[20], network[0]);
	budget_enter(&b, &shares[21], network[1]);
	assert_int_equal(shares[20].address, shares[21].address);
	budget_enter(&b, &shares[22], "::1");
	assert_int_equal(shares[22].address, BUDGET_ADDRESSES);
	budget_enter(&b, &shares[22], "::ffff:127.0.0.9");
	assert_int_equal(shares[22].address, BUDGET_ADDRESSES);
}

#define TEST(name) cmocka_unit_test_setup(name, setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(payer__is_the_largest_and_of_equal_ones_the_oldest),
		TEST(small_ones__have_memory_of_their_own),
		TEST(small_ones__that_never_end_pay_for_each_other),
		TEST(finished_ones__are_not_given_up),
		TEST(address__beyond_loopback_has_a_quarter),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
