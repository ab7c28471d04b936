/* SPDX-License-Identifier: Apache-2.0 */
/* Read and write: what arrives, and what is refused before anything moves. */
#include "fixture.h"

#include <stdlib.h>

#define N_SIZES 6

static size_t size_of(size_t i)
{
	const size_t sizes[N_SIZES] = { 0, 1, 4 * KiB - 1, 64 * KiB, MiB + 3, large(16 * MiB) };

	return sizes[i];
}

static int setup_large(void **state)
{
	struct pair_attr attr = PAIR_ATTR_INIT;

	attr.len = 16 * MiB + 64;
	*state = pair_open(&attr);
	return 0;
}

static void read__of_each_size_brings_these_bytes_and_no_other(void **state)
{
	struct pair *p = *state;

	for (size_t i = 0; i < N_SIZES; i++) {
		size_t len = size_of(i);
		struct slime_xfer x = a_and_b(p, 8, 8, len);

		pattern_fill(p->b.bytes, len + 16, i, 0);
		pattern_fill(p->a.bytes, len + 16, 1000 + i, 0);
		assert_ok(read_now(p, &x));
		assert_int_equal(slime_op_bytes(p->a.op), len);
		assert_pattern(p->a.bytes, 8, 1000 + i, 0);
		assert_pattern(p->a.bytes + 8, len, i, 8);
		assert_pattern(p->a.bytes + 8 + len, 8, 1000 + i, 8 + len);
	}
}

static void write__of_each_size_brings_these_bytes_and_no_other(void **state)
{
	struct pair *p = *state;

	for (size_t i = 0; i < N_SIZES; i++) {
		size_t len = size_of(i);
		struct slime_xfer x = a_and_b(p, 8, 8, len);

		pattern_fill(p->a.bytes, len + 16, i, 0);
		pattern_fill(p->b.bytes, len + 16, 1000 + i, 0);
		assert_ok(write_now(p, &x));
		assert_int_equal(slime_op_bytes(p->a.op), len);
		assert_pattern(p->b.bytes, 8, 1000 + i, 0);
		assert_pattern(p->b.bytes + 8, len, i, 8);
		assert_pattern(p->b.bytes + 8 + len, 8, 1000 + i, 8 + len);
	}
}

static void read__at_odd_offsets_brings_the_bytes(void **state)
{
	struct pair *p = *state;

	pattern_fill(p->b.bytes, MiB, 1, 0);
	for (size_t shift = 0; shift < 9; shift++) {
		struct slime_xfer x = a_and_b(p, 4096 - shift, 100 + 3 * shift, 5000 + shift);

		assert_ok(read_now(p, &x));
		assert_pattern(p->a.bytes + x.local_offset, x.len, 1, x.remote_offset);
	}
}

static void read__of_a_run_gathers_its_blocks(void **state)
{
	struct pair *p = *state;
	struct slime_xfer x = a_and_b(p, 64, 128, 100);

	x.count = 500;
	x.local_stride = 100;
	x.remote_stride = 1000;
	pattern_fill(p->b.bytes, MiB, 2, 0);
	assert_ok(read_now(p, &x));
	assert_int_equal(slime_op_bytes(p->a.op), 50000);
	for (size_t i = 0; i < x.count; i++)
		assert_pattern(p->a.bytes + 64 + i * 100, 100, 2, 128 + i * 1000);
}

static void write__of_a_run_leaves_what_lies_between(void **state)
{
	struct pair *p = *state;
	struct slime_xfer x = a_and_b(p, 0, 0, 24);

	x.count = 3000;
	x.local_stride = 24;
	x.remote_stride = 32;
	pattern_fill(p->a.bytes, MiB, 3, 0);
	pattern_fill(p->b.bytes, MiB, 4, 0);
	assert_ok(write_now(p, &x));
	for (size_t i = 0; i < x.count; i++) {
		assert_pattern(p->b.bytes + i * 32, 24, 3, i * 24);
		assert_pattern(p->b.bytes + i * 32 + 24, 8, 4, i * 32 + 24);
	}
}

static void read__of_a_run_without_stride_repeats_its_block(void **state)
{
	struct pair *p = *state;
	struct slime_xfer x = a_and_b(p, 0, 640, 64);

	x.count = 16;
	x.local_stride = 64;
	pattern_fill(p->b.bytes, MiB, 5, 0);
	assert_ok(read_now(p, &x));
	for (size_t i = 0; i < x.count; i++)
		assert_pattern(p->a.bytes + i * 64, 64, 5, 640);
}

/* n pieces of 8 bytes, the i-th from far away to close by. */
static struct slime_xfer *scattered(struct pair *p, size_t n)
{
	struct slime_xfer *xfers = calloc(n, sizeof(*xfers));

	assert_non_null(xfers);
	for (size_t i = 0; i < n; i++)
		xfers[i] = a_and_b(p, i * 8, (n - 1 - i) * 10, 8);
	return xfers;
}

static void check_batch(struct pair *p, size_t n, bool is_read)
{
	struct slime_xfer *xfers = scattered(p, n);

	pattern_fill(p->a.bytes, MiB, 6, 0);
	pattern_fill(p->b.bytes, MiB, 7, 0);
	if (is_read)
		assert_ok(slime_read(p->a.ep, xfers, n, 0, p->a.op));
	else
		assert_ok(slime_write(p->a.ep, xfers, n, 0, p->a.op));
	op_end_ok(p->a.op);
	assert_int_equal(slime_op_bytes(p->a.op), n * 8);
	for (size_t i = 0; i < n; i++) {
		if (is_read)
			assert_pattern(p->a.bytes + i * 8, 8, 7, (n - 1 - i) * 10);
		else
			assert_pattern(p->b.bytes + (n - 1 - i) * 10, 8, 6, i * 8);
	}
	free(xfers);
}

static void read__of_any_number_of_pieces_is_one_op(void **state)
{
	check_batch(*state, 1, true);
	check_batch(*state, 1000, true);
	check_batch(*state, large(100000), true);
}

static void write__of_any_number_of_pieces_is_one_op(void **state)
{
	check_batch(*state, 1, false);
	check_batch(*state, 1000, false);
	check_batch(*state, large(100000), false);
}

static void read__of_an_empty_batch_completes_at_once(void **state)
{
	struct pair *p = *state;

	assert_ok(slime_read(p->a.ep, NULL, 0, 0, p->a.op));
	op_end_ok(p->a.op);
	assert_int_equal(slime_op_bytes(p->a.op), 0);
	assert_ok(slime_write(p->a.ep, NULL, 0, 0, p->a.op));
	op_end_ok(p->a.op);
}

static void read__of_overlapping_sources_brings_each(void **state)
{
	struct pair *p = *state;
	struct slime_xfer xfers[16];

	pattern_fill(p->b.bytes, MiB, 8, 0);
	for (size_t i = 0; i < 16; i++)
		xfers[i] = a_and_b(p, i * 4096, i * 1000, 4096);
	assert_ok(slime_read(p->a.ep, xfers, 16, 0, p->a.op));
	op_end_ok(p->a.op);
	for (size_t i = 0; i < 16; i++)
		assert_pattern(p->a.bytes + i * 4096, 4096, 8, i * 1000);
}

/* Both pieces say the same of the bytes they share, so that the order does not matter. */
static void write__of_overlapping_destinations_leaves_what_both_say(void **state)
{
	struct pair *p = *state;
	struct slime_xfer xfers[2] = { a_and_b(p, 0, 0, 6000), a_and_b(p, 4000, 4000, 6000) };

	pattern_fill(p->a.bytes, MiB, 9, 0);
	assert_ok(slime_write(p->a.ep, xfers, 2, 0, p->a.op));
	op_end_ok(p->a.op);
	assert_pattern(p->b.bytes, 10000, 9, 0);
}

static void read__while_the_peer_reads_goes_both_ways(void **state)
{
	struct pair *p = *state;
	struct slime_xfer ours = a_and_b(p, 0, 0, 200 * KiB);
	struct slime_xfer theirs = {
		.local = p->b.mr,
		.remote = &p->a.remote,
		.local_offset = 512 * KiB,
		.remote_offset = 512 * KiB,
		.len = 200 * KiB,
	};

	pattern_fill(p->b.bytes, 200 * KiB, 10, 0);
	pattern_fill(p->a.bytes + 512 * KiB, 200 * KiB, 11, 0);
	for (int i = 0; i < 20; i++) {
		assert_ok(slime_read(p->a.ep, &ours, 1, 0, p->a.op));
		assert_ok(slime_read(p->b.ep, &theirs, 1, 0, p->b.op));
		op_end_ok(p->a.op);
		op_end_ok(p->b.op);
	}
	assert_pattern(p->a.bytes, 200 * KiB, 10, 0);
	assert_pattern(p->b.bytes + 512 * KiB, 200 * KiB, 11, 0);
}

/* ---- refused ---- */

static void read__out_of_bounds_is_refused(void **state)
{
	struct pair *p = *state;
	struct {
		uint64_t local, remote, len;
	} bad[] = {
		{ 0, 0, MiB + 1 },
		{ 0, 1, MiB },
		{ 1, 0, MiB },
		{ MiB + 1, 0, 0 },
		{ 0, MiB + 1, 0 },
		{ 0, MiB - 7, 8 },
		{ 0, UINT64_MAX - 3, 8 },
		{ UINT64_MAX - 3, 0, 8 },
		{ 0, 0, UINT64_MAX },
		{ 0, 8, UINT64_MAX - 7 },
		{ UINT64_MAX, 0, 1 },
		{ 0, UINT64_MAX, UINT64_MAX },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct slime_xfer x = a_and_b(p, bad[i].local, bad[i].remote, bad[i].len);

		assert_int_equal(read_now(p, &x), -ERANGE);
		assert_int_equal(write_now(p, &x), -ERANGE);
	}
}

static void read__at_the_very_end_of_a_region_is_inside(void **state)
{
	struct pair *p = *state;
	struct slime_xfer last = a_and_b(p, MiB - 1, MiB - 1, 1);
	struct slime_xfer empty = a_and_b(p, MiB, MiB, 0);

	p->b.bytes[MiB - 1] = 0xa5;
	assert_ok(read_now(p, &last));
	assert_int_equal(p->a.bytes[MiB - 1], 0xa5);
	assert_ok(read_now(p, &empty));
}

static void read__of_a_run_out_of_bounds_is_refused(void **state)
{
	struct pair *p = *state;
	struct slime_xfer x = a_and_b(p, 0, 0, 16);

	x.count = 1000;
	x.remote_stride = MiB / 998;
	x.local_stride = 16;
	assert_int_equal(read_now(p, &x), -ERANGE);
	x.remote_stride = 16;
	x.local_stride = MiB / 998;
	assert_int_equal(read_now(p, &x), -ERANGE);
	/* Products that wrap to something small. */
	x.count = 3;
	x.local_stride = 16;
	x.remote_stride = UINT64_C(1) << 63;
	assert_int_equal(read_now(p, &x), -ERANGE);
	x.count = 5;
	x.local_stride = UINT64_C(1) << 62;
	x.remote_stride = 16;
	assert_int_equal(read_now(p, &x), -ERANGE);
}

/* Blocks that overlap need no room: their sum alone can be too large to count. */
static void read__of_more_bytes_than_can_be_counted_is_refused(void **state)
{
	struct pair *p = *state;
	struct slime_xfer xfers[4096 + 1];

	for (size_t i = 0; i < 4096 + 1; i++) {
		xfers[i] = a_and_b(p, 0, 0, MiB);
		xfers[i].count = UINT32_MAX;
	}
	assert_int_equal(slime_read(p->a.ep, xfers, 4096 + 1, 0, p->a.op), -EINVAL);
	assert_true(slime_op_test(p->a.op));
}

static void read__with_one_bad_piece_moves_nothing(void **state)
{
	struct pair *p = *state;
	struct slime_xfer xfers[100];

	for (size_t i = 0; i < 100; i++)
		xfers[i] = a_and_b(p, i * 16, i * 16, 16);
	xfers[99].remote_offset = MiB;
	pattern_fill(p->a.bytes, 1600, 12, 0);
	assert_int_equal(slime_read(p->a.ep, xfers, 100, 0, p->a.op), -ERANGE);
	assert_true(slime_op_test(p->a.op));
	assert_pattern(p->a.bytes, 1600, 12, 0);
}

static void write__to_a_region_that_is_for_reading_is_refused(void **state)
{
	struct pair *p = *state;
	struct slime_mr *mr = end_mr(&p->b, p->b.bytes, 4096, SLIME_ACCESS_REMOTE_READ);
	struct slime_remote_mr remote = remote_of(mr);
	struct slime_xfer x = a_and_b(p, 0, 0, 100);

	x.remote = &remote;
	assert_int_equal(write_now(p, &x), -EACCES);
	assert_ok(read_now(p, &x));
	assert_ok(slime_mr_destroy(mr));
}

static void read__of_a_region_that_is_for_writing_is_refused(void **state)
{
	struct pair *p = *state;
	struct slime_mr *mr = end_mr(&p->b, p->b.bytes, 4096, SLIME_ACCESS_REMOTE_WRITE);
	struct slime_remote_mr remote = remote_of(mr);
	struct slime_xfer x = a_and_b(p, 0, 0, 100);

	x.remote = &remote;
	assert_int_equal(read_now(p, &x), -EACCES);
	assert_ok(write_now(p, &x));
	assert_ok(slime_mr_destroy(mr));
}

static void read__into_a_region_for_local_use_is_fine(void **state)
{
	struct pair *p = *state;
	static uint8_t plain[4096];
	struct slime_mr *mr = end_mr(&p->a, plain, sizeof(plain), 0);
	struct slime_xfer x = a_and_b(p, 0, 0, sizeof(plain));

	x.local = mr;
	pattern_fill(p->b.bytes, sizeof(plain), 13, 0);
	assert_ok(read_now(p, &x));
	assert_pattern(plain, sizeof(plain), 13, 0);
	pattern_fill(plain, sizeof(plain), 14, 0);
	assert_ok(write_now(p, &x));
	assert_pattern(p->b.bytes, sizeof(plain), 14, 0);
	assert_ok(slime_mr_destroy(mr));
}

static void read__of_what_is_not_the_peers_is_refused(void **state)
{
	struct pair *p = *state;
	struct pair_attr attr = PAIR_ATTR_INIT;
	struct end stranger = { 0 };
	struct slime_xfer x = a_and_b(p, 0, 0, 100);

	end_create(&stranger, &attr);
	x.remote = &stranger.remote;
	assert_int_equal(read_now(p, &x), -EINVAL);
	x.remote = &p->a.remote;
	assert_int_equal(read_now(p, &x), -EINVAL);
	x = a_and_b(p, 0, 0, 100);
	x.local = stranger.mr;
	assert_int_equal(read_now(p, &x), -EINVAL);
	end_destroy(&stranger);
}

static void read__of_a_malformed_piece_is_refused(void **state)
{
	struct pair *p = *state;
	struct slime_xfer x = a_and_b(p, 0, 0, 100);

	assert_int_equal(slime_read(p->a.ep, &x, 1, 1u << 20, p->a.op), -EINVAL);
	x.local = NULL;
	assert_int_equal(read_now(p, &x), -EINVAL);
	x = a_and_b(p, 0, 0, 100);
	x.remote = NULL;
	assert_int_equal(read_now(p, &x), -EINVAL);
}

/* ---- fences ---- */

#define FENCED_LEN   (32 * KiB)
#define FENCED_ROUND 16

/* A fenced write of a flag: who sees the flag sees every byte written before. */
static void write__with_a_fence_comes_after_earlier_writes(void **state)
{
	struct pair *p = *state;
	struct slime_op *ops[FENCED_ROUND];
	volatile uint64_t *flag = (volatile uint64_t *)(void *)(p->b.bytes + MiB - 64);

	for (int i = 0; i < FENCED_ROUND; i++)
		ops[i] = op_new(p->a.ctx);
	for (uint64_t round = 1; round <= 20; round++) {
		struct slime_xfer xfers[FENCED_ROUND];
		struct slime_xfer last = a_and_b(p, MiB - 64, MiB - 64, 8);
		uint64_t deadline = now_ms() + PATIENCE_MS;

		pattern_fill(p->a.bytes, FENCED_ROUND * FENCED_LEN, round, 0);
		*(uint64_t *)(void *)(p->a.bytes + MiB - 64) = round;
		for (size_t i = 0; i < FENCED_ROUND; i++) {
			xfers[i] = a_and_b(p, i * FENCED_LEN, i * FENCED_LEN, FENCED_LEN);
			assert_ok(slime_write(p->a.ep, &xfers[i], 1, 0, ops[i]));
		}
		assert_ok(slime_write(p->a.ep, &last, 1, SLIME_FENCE, p->a.op));
		while (__atomic_load_n(flag, __ATOMIC_ACQUIRE) != round && now_ms() < deadline)
			;
		assert_pattern(p->b.bytes, FENCED_ROUND * FENCED_LEN, round, 0);
		op_end_ok(p->a.op);
		for (size_t i = 0; i < FENCED_ROUND; i++)
			op_end_ok(ops[i]);
	}
	for (int i = 0; i < FENCED_ROUND; i++)
		assert_ok(slime_op_destroy(ops[i]));
}

static void endpoint_stats__count_what_was_done(void **state)
{
	struct pair *p = *state;
	struct slime_xfer x = a_and_b(p, 0, 0, 1000);
	struct slime_endpoint_stats stats;

	assert_ok(read_now(p, &x));
	assert_ok(read_now(p, &x));
	assert_ok(write_now(p, &x));
	slime_endpoint_stats(p->a.ep, &stats);
	assert_int_equal(stats.kinds[SLIME_KIND_READ].submitted, 2);
	assert_int_equal(stats.kinds[SLIME_KIND_READ].completed, 2);
	assert_int_equal(stats.kinds[SLIME_KIND_READ].bytes, 2000);
	assert_int_equal(stats.kinds[SLIME_KIND_WRITE].completed, 1);
	assert_int_equal(stats.kinds[SLIME_KIND_WRITE].failed, 0);
	assert_int_equal(stats.kinds[SLIME_KIND_SEND].submitted, 0);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_setup_teardown(read__of_each_size_brings_these_bytes_and_no_other,
					setup_large, pair_teardown),
	cmocka_unit_test_setup_teardown(write__of_each_size_brings_these_bytes_and_no_other,
					setup_large, pair_teardown),
	IN_PAIR(read__at_odd_offsets_brings_the_bytes),
	IN_PAIR(read__of_a_run_gathers_its_blocks),
	IN_PAIR(write__of_a_run_leaves_what_lies_between),
	IN_PAIR(read__of_a_run_without_stride_repeats_its_block),
	IN_PAIR(read__of_any_number_of_pieces_is_one_op),
	IN_PAIR(write__of_any_number_of_pieces_is_one_op),
	IN_PAIR(read__of_an_empty_batch_completes_at_once),
	IN_PAIR(read__of_overlapping_sources_brings_each),
	IN_PAIR(write__of_overlapping_destinations_leaves_what_both_say),
	IN_PAIR(read__while_the_peer_reads_goes_both_ways),
	IN_PAIR(read__out_of_bounds_is_refused),
	IN_PAIR(read__at_the_very_end_of_a_region_is_inside),
	IN_PAIR(read__of_a_run_out_of_bounds_is_refused),
	IN_PAIR(read__of_more_bytes_than_can_be_counted_is_refused),
	IN_PAIR(read__with_one_bad_piece_moves_nothing),
	IN_PAIR(write__to_a_region_that_is_for_reading_is_refused),
	IN_PAIR(read__of_a_region_that_is_for_writing_is_refused),
	IN_PAIR(read__into_a_region_for_local_use_is_fine),
	IN_PAIR(read__of_what_is_not_the_peers_is_refused),
	IN_PAIR(read__of_a_malformed_piece_is_refused),
	IN_PAIR(write__with_a_fence_comes_after_earlier_writes),
	IN_PAIR(endpoint_stats__count_what_was_done),
};

FIXTURE_MAIN("xfer")
