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

/* What n operations print. */
static void run(uint64_t n, char *printed, size_t cap)
{
	const struct rounds_attr attr = { .n_ops = n };
	const struct pair pair = { .server = getpid() };
	const struct rounds_side side = { .round = round_of_steps, .pair = &pair };
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
	run(50, printed, sizeof(printed));
	assert_int_equal(sscanf(printed, "1000,%lf,%lf,%lf,", &average, &p50, &p99), 3);
	assert_true(p50 > 24.9 && p50 < 25.1);
	assert_true(p99 > 49.9 && p99 < 50.1);
	run(1000, printed, sizeof(printed));
	assert_int_equal(sscanf(printed, "1000,%lf,%lf,%lf,", &average, &p50, &p99), 3);
	assert_true(p50 > 499.9 && p50 < 500.1);
	assert_true(p99 > 989.9 && p99 < 990.1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(percentile__is_the_least_that_its_share_is_not_above),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
