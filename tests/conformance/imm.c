/* SPDX-License-Identifier: Apache-2.0 */
/* Immediates: delivered once, in order of arrival, after all bytes of their write. */
#include "fixture.h"

#include <stdlib.h>

static int write_imm_now(struct pair *p, const struct slime_xfer *x, size_t n, uint32_t imm)
{
	int ret = slime_write_imm(p->a.ep, x, n, 0, imm, p->a.op);

	return ret ? ret : op_end(p->a.op);
}

static void take_imm(struct end *e, uint32_t imm, uint64_t bytes)
{
	assert_ok(slime_imm_recv(e->ep, e->op));
	op_end_ok(e->op);
	assert_int_equal(slime_op_imm(e->op), imm);
	assert_int_equal(slime_op_bytes(e->op), bytes);
}

static void write_imm__before_its_receive_is_kept(void **state)
{
	struct pair *p = *state;
	struct slime_xfer x = a_and_b(p, 0, 0, 5000);

	pattern_fill(p->a.bytes, 5000, 1, 0);
	assert_ok(write_imm_now(p, &x, 1, 77));
	take_imm(&p->b, 77, 5000);
	assert_pattern(p->b.bytes, 5000, 1, 0);
}

static void write_imm__after_its_receive_completes_it(void **state)
{
	struct pair *p = *state;
	struct slime_xfer x = a_and_b(p, 0, 0, 5000);

	assert_ok(slime_imm_recv(p->b.ep, p->b.op));
	assert_int_equal(slime_op_wait(p->b.op, 0), -ETIMEDOUT);
	pattern_fill(p->a.bytes, 5000, 2, 0);
	assert_ok(write_imm_now(p, &x, 1, 0xffffffff));
	op_end_ok(p->b.op);
	assert_int_equal(slime_op_imm(p->b.op), 0xffffffff);
	assert_int_equal(slime_op_bytes(p->b.op), 5000);
	assert_pattern(p->b.bytes, 5000, 2, 0);
}

static void write_imm__without_pieces_brings_only_the_immediate(void **state)
{
	struct pair *p = *state;

	assert_ok(write_imm_now(p, NULL, 0, 5));
	take_imm(&p->b, 5, 0);
}

#define LARGE_PIECES 64

static void write_imm__of_a_large_batch_comes_once_after_all_its_bytes(void **state)
{
	struct pair *p = *state;
	struct slime_xfer xfers[LARGE_PIECES];

	for (uint32_t round = 0; round < 10; round++) {
		for (size_t i = 0; i < LARGE_PIECES; i++)
			xfers[i] =
				a_and_b(p, i * 8 * KiB, (LARGE_PIECES - 1 - i) * 8 * KiB, 8 * KiB);
		pattern_fill(p->a.bytes, LARGE_PIECES * 8 * KiB, round, 0);
		assert_ok(slime_imm_recv(p->b.ep, p->b.op));
		assert_ok(slime_write_imm(p->a.ep, xfers, LARGE_PIECES, 0, round, p->a.op));
		op_end_ok(p->b.op);
		assert_int_equal(slime_op_imm(p->b.op), round);
		assert_int_equal(slime_op_bytes(p->b.op), LARGE_PIECES * 8 * KiB);
		for (size_t i = 0; i < LARGE_PIECES; i++)
			assert_pattern(p->b.bytes + (LARGE_PIECES - 1 - i) * 8 * KiB, 8 * KiB,
				       round, i * 8 * KiB);
		op_end_ok(p->a.op);
	}
	/* Nothing came twice. */
	assert_ok(slime_imm_recv(p->b.ep, p->b.op));
	assert_int_equal(slime_op_wait(p->b.op, 0), -ETIMEDOUT);
}

static void imm_recv__takes_immediates_in_order(void **state)
{
	struct pair *p = *state;
	struct slime_op *second = op_new(p->b.ctx);

	for (uint32_t i = 0; i < 100; i++)
		assert_ok(write_imm_now(p, NULL, 0, i));
	for (uint32_t i = 0; i < 100; i++)
		take_imm(&p->b, i, 0);

	assert_ok(slime_imm_recv(p->b.ep, p->b.op));
	assert_ok(slime_imm_recv(p->b.ep, second));
	assert_ok(write_imm_now(p, NULL, 0, 1000));
	assert_ok(write_imm_now(p, NULL, 0, 1001));
	op_end_ok(p->b.op);
	op_end_ok(second);
	assert_int_equal(slime_op_imm(p->b.op), 1000);
	assert_int_equal(slime_op_imm(second), 1001);
	assert_ok(slime_op_destroy(second));
}

static int try_write_imm(void *arg)
{
	struct pair *p = arg;

	return slime_write_imm(p->a.ep, NULL, 0, 0, 4711, p->a.op);
}

static void write_imm__into_a_full_window_is_refused_until_one_was_taken(void **state)
{
	struct pair *p = *state;
	uint32_t n = 0;
	int ret;

	while ((ret = write_imm_now(p, NULL, 0, n)) == 0 && n < 100000)
		n++;
	assert_int_equal(ret, -EAGAIN);
	assert_true(n >= 1);

	take_imm(&p->b, 0, 0);
	assert_ok(until_not_again(try_write_imm, p));
	op_end_ok(p->a.op);
	for (uint32_t i = 1; i < n; i++)
		take_imm(&p->b, i, 0);
	take_imm(&p->b, 4711, 0);
}

static void write_imm__many_times_the_window_is_delivered_each_once(void **state)
{
	struct pair *p = *state;
	uint32_t sent = 0, taken = 0;

	while (taken < 1000) {
		int ret = sent < 1000 ? write_imm_now(p, NULL, 0, sent) : -EAGAIN;

		if (ret == 0)
			sent++;
		else
			assert_int_equal(ret, -EAGAIN);
		if (ret && taken < sent)
			take_imm(&p->b, taken++, 0);
	}
	assert_int_equal(sent, 1000);
}

static void write_imm__out_of_bounds_brings_no_immediate(void **state)
{
	struct pair *p = *state;
	struct slime_xfer x = a_and_b(p, 0, MiB, 1);

	assert_int_equal(write_imm_now(p, &x, 1, 1), -ERANGE);
	assert_ok(write_imm_now(p, NULL, 0, 2));
	take_imm(&p->b, 2, 0);
}

/* Its owner finds that the region is not as long as it was said to be: the immediate stays here. */
static void write_imm__that_its_owner_refuses_leaves_its_place_in_the_window(void **state)
{
	struct pair *p = *state;
	struct slime_remote_mr longer = p->b.remote;
	struct slime_xfer x = a_and_b(p, 0, MiB, 8);

	longer.len += 4096;
	x.remote = &longer;
	for (uint32_t i = 0; i < 300; i++) {
		assert_ok(slime_write_imm(p->a.ep, &x, 1, 0, i, p->a.op));
		assert_true(op_end(p->a.op) < 0);
	}
	assert_ok(write_imm_now(p, NULL, 0, 1000));
	take_imm(&p->b, 1000, 0);
}

#define EARLIER 16

static void write_imm__with_a_fence_tells_that_earlier_writes_are_there(void **state)
{
	struct pair *p = *state;
	struct slime_xfer xfers[EARLIER];
	struct slime_op *ops[EARLIER];

	for (size_t i = 0; i < EARLIER; i++)
		ops[i] = op_new(p->a.ctx);
	for (uint32_t round = 0; round < 20; round++) {
		pattern_fill(p->a.bytes, EARLIER * 32 * KiB, round, 0);
		assert_ok(slime_imm_recv(p->b.ep, p->b.op));
		for (size_t i = 0; i < EARLIER; i++) {
			xfers[i] = a_and_b(p, i * 32 * KiB, i * 32 * KiB, 32 * KiB);
			assert_ok(slime_write(p->a.ep, &xfers[i], 1, 0, ops[i]));
		}
		assert_ok(slime_write_imm(p->a.ep, NULL, 0, SLIME_FENCE, round, p->a.op));
		op_end_ok(p->b.op);
		assert_pattern(p->b.bytes, EARLIER * 32 * KiB, round, 0);
		op_end_ok(p->a.op);
		for (size_t i = 0; i < EARLIER; i++)
			op_end_ok(ops[i]);
	}
	for (size_t i = 0; i < EARLIER; i++)
		assert_ok(slime_op_destroy(ops[i]));
}

static void imm_recv__errors_are_told_at_once(void **state)
{
	struct pair *p = *state;

	assert_ok(slime_imm_recv(p->b.ep, p->b.op));
	assert_int_equal(slime_imm_recv(p->b.ep, p->b.op), -EBUSY);
	slime_endpoint_close(p->b.ep);
	assert_int_equal(op_end(p->b.op), -ECANCELED);
	assert_int_equal(slime_imm_recv(p->b.ep, p->b.op), -ENOTCONN);
}

static const struct CMUnitTest tests[] = {
	IN_PAIR(write_imm__before_its_receive_is_kept),
	IN_PAIR(write_imm__after_its_receive_completes_it),
	IN_PAIR(write_imm__without_pieces_brings_only_the_immediate),
	IN_PAIR(write_imm__of_a_large_batch_comes_once_after_all_its_bytes),
	IN_PAIR(imm_recv__takes_immediates_in_order),
	IN_PAIR(write_imm__into_a_full_window_is_refused_until_one_was_taken),
	IN_PAIR(write_imm__many_times_the_window_is_delivered_each_once),
	IN_PAIR(write_imm__out_of_bounds_brings_no_immediate),
	IN_PAIR(write_imm__that_its_owner_refuses_leaves_its_place_in_the_window),
	IN_PAIR(write_imm__with_a_fence_tells_that_earlier_writes_are_there),
	IN_PAIR(imm_recv__errors_are_told_at_once),
};

FIXTURE_MAIN("imm")
