/* SPDX-License-Identifier: Apache-2.0 */
/* Operations in flight: in turn, and all waited for, whatever fails. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "bench/load/lanes.h"

#define N 3

struct load {
	char said[256]; /* "+0" when lane 0 began, "-0" when its operation ended */
	int left;	/* operations that may begin */
	int fails;	/* the number of the begin or end that fails; 0: none */
	int n_calls;
	int pending[N];
};

static int note(struct load *l, char what, uint64_t lane)
{
	size_t n = strlen(l->said);

	l->said[n] = what;
	l->said[n + 1] = (char)('0' + lane);
	return ++l->n_calls == l->fails ? -EIO : 0;
}

static int begin(void *arg, uint64_t lane)
{
	struct load *l = arg;
	int ret = note(l, '+', lane);

	assert_int_equal(l->pending[lane], 0);
	l->pending[lane] = !ret;
	l->left--;
	return ret;
}

static int end(void *arg, uint64_t lane)
{
	struct load *l = arg;

	assert_int_equal(l->pending[lane], 1);
	l->pending[lane] = 0;
	return note(l, '-', lane);
}

static bool goes_on(void *arg)
{
	return ((struct load *)arg)->left > 0;
}

static int run(struct load *l, uint64_t n)
{
	const struct lanes lanes = {
		.n = n, .begin = begin, .end = end, .goes_on = goes_on, .arg = l
	};
	int ret = lanes_run(&lanes);

	for (int i = 0; i < N; i++)
		assert_int_equal(l->pending[i], 0);
	return ret;
}

static void lanes_run__begins_each_lane_again_in_turn(void **state)
{
	struct load l = { .left = 5 };

	(void)state;
	assert_int_equal(run(&l, N), 0);
	assert_string_equal(l.said, "+0+1+2-0+0-1+1-2-0-1");
}

static void lanes_run__of_fewer_operations_than_lanes_ends_those_that_began(void **state)
{
	struct load l = { .left = 2 }, none = { .left = 0 };

	(void)state;
	assert_int_equal(run(&l, N), 0);
	assert_string_equal(l.said, "+0+1-0-1");
	assert_int_equal(run(&none, N), 0);
	assert_string_equal(none.said, "");
}

static void lanes_run__that_fails_anywhere_waits_for_all(void **state)
{
	(void)state;
	for (int fails = 1;; fails++) {
		struct load l = { .left = 5, .fails = fails };
		int ret = run(&l, N);

		if (l.n_calls < fails) {
			assert_int_equal(ret, 0);
			break;
		}
		assert_int_equal(ret, -EIO);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lanes_run__begins_each_lane_again_in_turn),
		cmocka_unit_test(lanes_run__of_fewer_operations_than_lanes_ends_those_that_began),
		cmocka_unit_test(lanes_run__that_fails_anywhere_waits_for_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
