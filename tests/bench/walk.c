/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>

#include "bench/rounds/walk.h"

#define BLOCK	UINT64_C(4096)
#define N_BATCH UINT64_C(1500)

static void walk_init__warm_is_one_batch_again_and_again(void **state)
{
	struct walk w;

	(void)state;
	assert_int_equal(walk_init(&w, BLOCK, N_BATCH, false, false), 0);
	for (int batch = 0; batch < 3; batch++) {
		assert_int_equal(walk_offset(&w, 0), 0);
		assert_int_equal(walk_offset(&w, N_BATCH - 1), (N_BATCH - 1) * BLOCK);
		walk_next(&w);
	}
	walk_fini(&w);
}

static void walk_init__cold_is_a_pool_of_whole_batches_that_no_cache_holds(void **state)
{
	struct walk w;

	(void)state;
	assert_int_equal(walk_init(&w, BLOCK, N_BATCH, true, false), 0);
	assert_true(walk_pool_bytes(&w) >= WALK_COLD_POOL);
	assert_int_equal(w.n_pool % N_BATCH, 0);
	walk_next(&w);
	assert_int_equal(walk_offset(&w, 1), (N_BATCH + 1) * BLOCK);
	walk_fini(&w);
}

static void walk_next__scattered_takes_every_block_once_before_it_begins_again(void **state)
{
	struct walk w;
	uint64_t n_at_its_place = 0;
	uint8_t *seen;

	(void)state;
	assert_int_equal(walk_init(&w, BLOCK, N_BATCH, true, true), 0);
	seen = calloc(w.n_pool, 1);
	assert_non_null(seen);
	for (uint64_t n = 0; n < w.n_pool; n += N_BATCH, walk_next(&w)) {
		for (uint64_t i = 0; i < N_BATCH; i++) {
			uint64_t block = walk_offset(&w, i) / BLOCK;

			assert_true(block < w.n_pool && !seen[block]);
			seen[block] = 1;
			n_at_its_place += block == n + i;
		}
	}
	assert_int_equal(w.at, 0);
	assert_true(n_at_its_place < w.n_pool / 100);
	free(seen);
	walk_fini(&w);
}

static void walk_init__a_batch_of_nothing_or_beyond_the_pool_is_refused(void **state)
{
	struct walk w;

	(void)state;
	assert_int_equal(walk_init(&w, 0, 1, false, false), -EINVAL);
	assert_int_equal(walk_init(&w, 8, 0, false, false), -EINVAL);
	assert_int_equal(walk_init(&w, WALK_COLD_POOL, 2, true, false), -EINVAL);
	assert_int_equal(walk_init(&w, UINT64_MAX, 2, true, false), -EINVAL);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(walk_init__warm_is_one_batch_again_and_again),
		cmocka_unit_test(walk_init__cold_is_a_pool_of_whole_batches_that_no_cache_holds),
		cmocka_unit_test(
			walk_next__scattered_takes_every_block_once_before_it_begins_again),
		cmocka_unit_test(walk_init__a_batch_of_nothing_or_beyond_the_pool_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
