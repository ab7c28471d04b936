/* SPDX-License-Identifier: Apache-2.0 */
/* The future without an executor, and the walk over the pieces of a batch. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <string.h>

#include "src/core/op.h"
#include "src/core/region.h"

#define assert_ok(expr) assert_int_equal(expr, 0)

static struct sl_completions completions;
static int n_woken;

static void woken(void *arg)
{
	(void)arg;
	n_woken++;
}

static int setup(void **state)
{
	(void)state;
	n_woken = 0;
	return sl_completions_init(&completions, woken, NULL);
}

static int teardown(void **state)
{
	(void)state;
	sl_completions_fini(&completions);
	return 0;
}

static int order[8];
static int n_order;

static void note_order(void *arg, struct slime_op *op)
{
	(void)op;
	order[n_order++] = *(int *)arg;
}

static void finish__with_a_callback_delivers_in_order_and_wakes_once(void **state)
{
	struct slime_op ops[4];
	int names[4] = { 0, 1, 2, 3 };
	uint32_t passes = 0;

	(void)state;
	n_order = 0;
	for (int i = 0; i < 4; i++) {
		sl_op_init(&ops[i], NULL, &completions, note_order, &names[i]);
		assert_ok(sl_op_begin(&ops[i]));
		sl_op_finish(&ops[i], 0, 1);
		assert_int_equal(sl_op_begin(&ops[i]), -EBUSY);
	}
	assert_int_equal(n_woken, 1);
	assert_int_equal(n_order, 0);
	assert_true(sl_completions_waiting(&completions));
	assert_int_equal(sl_completions_deliver(&completions, &passes), 4);
	for (int i = 0; i < 4; i++)
		assert_int_equal(order[i], i);
	assert_false(sl_completions_waiting(&completions));
	assert_int_equal(sl_completions_deliver(&completions, &passes), 0);
}

static void count_it(void *arg, struct slime_op *op)
{
	(void)op;
	++*(unsigned *)arg;
}

/* Each callback may submit what takes long. */
static void deliver__of_many_or_of_large_ones_leaves_some_for_the_next_pass(void **state)
{
	static struct slime_op ops[100];
	const uint64_t sizes[] = { 0, UINT64_C(1) << 16, UINT64_C(1) << 40 };
	const unsigned most[] = { 64, 4, 1 };

	(void)state;
	for (int i = 0; i < 3; i++) {
		unsigned n = 0, n_passes = 0;
		uint32_t passes = 0;

		for (int k = 0; k < 100; k++) {
			sl_op_init(&ops[k], NULL, &completions, count_it, &n);
			assert_ok(sl_op_begin(&ops[k]));
			sl_op_finish(&ops[k], 0, sizes[i]);
		}
		while (sl_completions_waiting(&completions)) {
			assert_in_range(sl_completions_deliver(&completions, &passes), 1, most[i]);
			n_passes++;
		}
		assert_int_equal(n, 100);
		assert_int_equal(n_passes, (100 + most[i] - 1) / most[i]);
		assert_true(passes >= n);
	}
}

static void finish__of_a_failed_op_has_no_bytes(void **state)
{
	struct slime_op op;

	(void)state;
	sl_op_init(&op, NULL, &completions, NULL, NULL);
	assert_ok(sl_op_begin(&op));
	sl_op_finish(&op, -EIO, 100);
	assert_int_equal(slime_op_status(&op), -EIO);
	assert_int_equal(slime_op_bytes(&op), 0);
	assert_ok(sl_op_begin(&op));
	sl_op_finish(&op, 0, 100);
	assert_int_equal(slime_op_bytes(&op), 100);
}

static void begin__of_a_pending_op_is_busy_until_it_is_taken_back(void **state)
{
	struct slime_op op;

	(void)state;
	sl_op_init(&op, NULL, &completions, NULL, NULL);
	assert_ok(sl_op_begin(&op));
	assert_int_equal(sl_op_begin(&op), -EBUSY);
	sl_op_abort(&op);
	assert_ok(sl_op_begin(&op));
	sl_op_finish(&op, 0, 0);
}

static void next__of_queued_ops_empties_the_descriptor(void **state)
{
	struct pollfd fd = { .fd = completions.fd, .events = POLLIN };
	struct slime_op ops[3];

	(void)state;
	for (int i = 0; i < 3; i++) {
		sl_op_init(&ops[i], NULL, &completions, NULL, NULL);
		ops[i].flags = SLIME_OP_QUEUED;
		assert_ok(sl_op_begin(&ops[i]));
		sl_op_finish(&ops[i], 0, 0);
	}
	assert_int_equal(poll(&fd, 1, 0), 1);
	for (int i = 0; i < 3; i++)
		assert_ptr_equal(sl_completions_next(&completions), &ops[i]);
	assert_null(sl_completions_next(&completions));
	assert_int_equal(poll(&fd, 1, 0), 0);
}

/* Also while others finish. */
static void next__leaves_the_descriptor_readable_until_the_last_was_taken(void **state)
{
	struct pollfd fd = { .fd = completions.fd, .events = POLLIN };
	struct slime_op ops[4];

	(void)state;
	for (int i = 0; i < 4; i++) {
		sl_op_init(&ops[i], NULL, &completions, NULL, NULL);
		ops[i].flags = SLIME_OP_QUEUED;
		assert_ok(sl_op_begin(&ops[i]));
		if (i < 3)
			sl_op_finish(&ops[i], 0, 0);
	}
	for (int i = 0; i < 4; i++) {
		assert_int_equal(poll(&fd, 1, 0), 1);
		assert_ptr_equal(sl_completions_next(&completions), &ops[i]);
		if (i == 1)
			sl_op_finish(&ops[3], 0, 0);
	}
	assert_null(sl_completions_next(&completions));
	assert_int_equal(poll(&fd, 1, 0), 0);
}

/* ---- pieces ---- */

static uint8_t memory[4096];
static struct sl_region region = { .base = memory, .len = sizeof(memory) };
static struct slime_mr mr = { .region = &region };
static struct slime_remote_mr remote;

static struct slime_xfer piece(uint64_t local, uint64_t there, uint64_t len)
{
	return (struct slime_xfer){
		.local = &mr,
		.remote = &remote,
		.local_offset = local,
		.remote_offset = there,
		.len = len,
	};
}

static void expect(struct sl_work *w, uint64_t max, uint64_t local, uint64_t there, uint64_t len)
{
	struct sl_piece p;

	assert_true(sl_work_next(w, max, &p));
	assert_ptr_equal(p.local, memory + local);
	assert_int_equal(p.remote_offset, there);
	assert_int_equal(p.len, len);
}

static void expect_end(struct sl_work *w)
{
	struct sl_piece p;

	assert_false(sl_work_next(w, 100, &p));
	assert_false(sl_work_next(w, 100, &p));
}

static void work_next__merges_what_is_adjacent(void **state)
{
	struct slime_xfer xfers[] = { piece(0, 100, 10), piece(10, 110, 20), piece(30, 130, 5),
				      piece(35, 200, 5) };
	struct sl_work w = { .xfers = xfers, .n = 4 };

	(void)state;
	expect(&w, 1000, 0, 100, 35);
	expect(&w, 1000, 35, 200, 5);
	expect_end(&w);
}

static void work_next__keeps_apart_what_is_adjacent_at_one_end_only(void **state)
{
	struct slime_xfer xfers[] = { piece(0, 100, 10), piece(10, 200, 10), piece(40, 210, 10),
				      piece(60, 220, 10) };
	struct slime_remote_mr other = { 0 };
	struct sl_work w = { .xfers = xfers, .n = 4 };

	(void)state;
	xfers[3].local_offset = 50;
	xfers[3].remote = &other;
	expect(&w, 1000, 0, 100, 10);
	expect(&w, 1000, 10, 200, 10);
	expect(&w, 1000, 40, 210, 10);
	expect(&w, 1000, 50, 220, 10);
	expect_end(&w);
}

static void work_at__is_the_piece_that_comes_next(void **state)
{
	struct slime_xfer xfers[] = { piece(0, 0, 0), piece(8, 100, 8), piece(0, 200, 4) };
	struct sl_work w = { .xfers = xfers, .n = 3 };

	(void)state;
	xfers[1].count = 2;
	xfers[1].local_stride = 8;
	xfers[1].remote_stride = 50;
	assert_ptr_equal(sl_work_at(&w), &xfers[1]);
	expect(&w, 1000, 8, 100, 8);
	assert_ptr_equal(sl_work_at(&w), &xfers[1]);
	expect(&w, 1000, 16, 150, 8);
	assert_ptr_equal(sl_work_at(&w), &xfers[2]);
	expect(&w, 3, 0, 200, 3);
	assert_ptr_equal(sl_work_at(&w), &xfers[2]);
	expect(&w, 3, 3, 203, 1);
	assert_null(sl_work_at(&w));
}

static void work_next__splits_what_is_larger_than_asked(void **state)
{
	struct slime_xfer xfers[] = { piece(0, 100, 25), piece(25, 125, 3) };
	struct sl_work w = { .xfers = xfers, .n = 2 };

	(void)state;
	expect(&w, 10, 0, 100, 10);
	expect(&w, 10, 10, 110, 10);
	expect(&w, 10, 20, 120, 8);
	expect_end(&w);
}

static void work_next__walks_a_run_block_by_block(void **state)
{
	struct slime_xfer x = piece(0, 0, 8);
	struct sl_work w = { .xfers = &x, .n = 1 };

	(void)state;
	x.count = 3;
	x.local_stride = 8;
	x.remote_stride = 100;
	expect(&w, 1000, 0, 0, 8);
	expect(&w, 5, 8, 100, 5);
	expect(&w, 1000, 13, 105, 3);
	expect(&w, 1000, 16, 200, 8);
	expect_end(&w);
}

static void work_next__passes_over_what_is_empty(void **state)
{
	struct slime_xfer xfers[] = { piece(0, 0, 0), piece(5, 5, 0), piece(8, 8, 4),
				      piece(0, 0, 0) };
	struct sl_work w = { .xfers = xfers, .n = 4 };

	(void)state;
	xfers[1].count = UINT32_MAX;
	expect(&w, 1000, 8, 8, 4);
	expect_end(&w);
}

#define WITH_COMPLETIONS(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_COMPLETIONS(finish__with_a_callback_delivers_in_order_and_wakes_once),
		WITH_COMPLETIONS(deliver__of_many_or_of_large_ones_leaves_some_for_the_next_pass),
		cmocka_unit_test(finish__of_a_failed_op_has_no_bytes),
		WITH_COMPLETIONS(begin__of_a_pending_op_is_busy_until_it_is_taken_back),
		WITH_COMPLETIONS(next__of_queued_ops_empties_the_descriptor),
		WITH_COMPLETIONS(next__leaves_the_descriptor_readable_until_the_last_was_taken),
		cmocka_unit_test(work_next__merges_what_is_adjacent),
		cmocka_unit_test(work_next__keeps_apart_what_is_adjacent_at_one_end_only),
		cmocka_unit_test(work_at__is_the_piece_that_comes_next),
		cmocka_unit_test(work_next__splits_what_is_larger_than_asked),
		cmocka_unit_test(work_next__walks_a_run_block_by_block),
		cmocka_unit_test(work_next__passes_over_what_is_empty),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
