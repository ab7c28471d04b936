/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "bench/rounds/rounds.h"

#define SIZE 1000 /* bytes each way */

/* Operations of 1, 2, 3... microseconds. */
static int round_of_steps(void *arg, struct rounds *r)
{
	(void)arg;
	for (uint64_t us = 1; !rounds_over(r, 0); us++)
		rounds_add(r, us * 1000, 2 * SIZE);
	return 0;
}

/* Operations that take a millisecond together. */
static int round_of_a_millisecond(void *arg, struct rounds *r)
{
	uint64_t begin = sl_clock_ns();

	(void)arg;
	while (!rounds_over(r, 0))
		rounds_add(r, 1000, 2 * SIZE);
	while (sl_clock_ns() - begin < 1000000)
		;
	return 0;
}

/* What n operations print. */
static void run(int (*round)(void *arg, struct rounds *r), uint64_t n, char *printed, size_t cap)
{
	const struct rounds_attr attr = { .n_ops = n };
	const struct pair pair = { .server = getpid() };
	const struct rounds_side side = { .round = round, .pair = &pair };
	int before, fd = memfd_create("printed", MFD_CLOEXEC);
	ssize_t len;
	int ret;

	assert_true(fd >= 0);
	fflush(stdout);
	before = dup(STDOUT_FILENO);
	dup2(fd, STDOUT_FILENO);
	ret = rounds_run(&attr, &side);
	dup2(before, STDOUT_FILENO);
	close(before);
	assert_int_equal(ret, 0);
	len = pread(fd, printed, cap - 1, 0);
	assert_true(len > 0);
	printed[len] = '\0';
	close(fd);
}

/* slime-bench compare puts them beside slime-bench's own, which come of a histogram. */
static void percentile__is_the_least_that_its_share_is_not_above(void **state)
{
	double average, p50, p99;
	char printed[256];

	(void)state;
	run(round_of_steps, 50, printed, sizeof(printed));
	assert_int_equal(sscanf(printed, "1000,%lf,%lf,%lf,", &average, &p50, &p99), 3);
	assert_true(p50 > 24.9 && p50 < 25.1);
	assert_true(p99 > 49.9 && p99 < 50.1);
	run(round_of_steps, 1000, printed, sizeof(printed));
	assert_int_equal(sscanf(printed, "1000,%lf,%lf,%lf,", &average, &p50, &p99), 3);
	assert_true(p50 > 499.9 && p50 < 500.1);
	assert_true(p99 > 989.9 && p99 < 990.1);
}

static void bandwidth__of_echoes_counts_one_direction(void **state)
{
	double average, p50, p99, gb_s;
	char printed[256];

	(void)state;
	run(round_of_a_millisecond, 10, printed, sizeof(printed));
	assert_int_equal(sscanf(printed, "1000,%lf,%lf,%lf,%lf", &average, &p50, &p99, &gb_s), 4);
	assert_true(average >= 100);
	assert_true(gb_s * average * 1000 > 0.99 * SIZE && gb_s * average * 1000 < 1.01 * SIZE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(percentile__is_the_least_that_its_share_is_not_above),
		cmocka_unit_test(bandwidth__of_echoes_counts_one_direction),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
