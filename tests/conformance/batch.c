/* SPDX-License-Identifier: Apache-2.0 */
/* Batches that are checked once and submitted many times. */
#include "fixture.h"

#include <stdlib.h>

#define PIECES	100
#define THREADS 4

static struct slime_batch *prepare(struct pair *p, enum slime_batch_kind kind,
				   const struct slime_xfer *xfers, size_t n)
{
	struct slime_batch *batch;

	assert_ok(slime_batch_create(p->a.ep, kind, xfers, n, &batch));
	return batch;
}

static int submit_now(struct pair *p, struct slime_batch *batch)
{
	int ret = slime_batch_submit(p->a.ep, batch, 0, p->a.op);

	return ret ? ret : op_end(p->a.op);
}

/* Every other KiB of b, to a without gaps. */
static void scatter(struct pair *p, struct slime_xfer *xfers)
{
	for (uint64_t i = 0; i < PIECES; i++)
		xfers[i] = a_and_b(p, i * KiB, 2 * i * KiB, KiB);
}

static void batch_submit__each_time_moves_the_bytes_that_are_there(void **state)
{
	struct pair *p = *state;
	struct slime_xfer xfers[PIECES];
	struct slime_batch *read, *write;

	scatter(p, xfers);
	read = prepare(p, SLIME_BATCH_READ, xfers, PIECES);
	write = prepare(p, SLIME_BATCH_WRITE, xfers, PIECES);
	for (uint64_t round = 0; round < rounds(50); round++) {
		for (uint64_t i = 0; i < PIECES; i++)
			pattern_fill(p->b.bytes + 2 * i * KiB, KiB, round, i * KiB);
		assert_ok(submit_now(p, read));
		assert_int_equal(slime_op_bytes(p->a.op), PIECES * KiB);
		assert_pattern(p->a.bytes, PIECES * KiB, round, 0);

		pattern_fill(p->a.bytes, PIECES * KiB, 1000 + round, 0);
		assert_ok(submit_now(p, write));
		for (uint64_t i = 0; i < PIECES; i++)
			assert_pattern(p->b.bytes + 2 * i * KiB, KiB, 1000 + round, i * KiB);
	}
	assert_ok(slime_batch_destroy(read));
	assert_ok(slime_batch_destroy(write));
	assert_ok(slime_batch_destroy(NULL));
}

static void batch__has_copies_of_what_it_was_made_of(void **state)
{
	struct pair *p = *state;
	struct slime_remote_mr *remote = malloc(sizeof(*remote));
	struct slime_xfer x = a_and_b(p, 0, 0, KiB);
	struct slime_batch *batch;

	*remote = p->b.remote;
	x.remote = remote;
	batch = prepare(p, SLIME_BATCH_READ, &x, 1);
	free(remote);
	x = (struct slime_xfer){ 0 };
	pattern_fill(p->b.bytes, KiB, 1, 0);
	assert_ok(submit_now(p, batch));
	assert_pattern(p->a.bytes, KiB, 1, 0);
	assert_ok(slime_batch_destroy(batch));
}

/* Neighbours, empty pieces, runs, and pieces that meet at one side alone. */
static void batch__of_all_sorts_of_pieces_moves_each_to_its_place(void **state)
{
	struct pair *p = *state;
	struct slime_xfer xfers[8] = {
		a_and_b(p, 0, 0, 0),	    a_and_b(p, 0, 0, 100),	 a_and_b(p, 100, 100, 28),
		a_and_b(p, 128, 4096, 128), a_and_b(p, 4096, 4224, 128), a_and_b(p, 256, 256, 64),
		a_and_b(p, 8192, 8192, 16), a_and_b(p, 16384, 16384, 0),
	};
	struct slime_batch *batch;

	xfers[5].count = 4;
	xfers[5].local_stride = 128;
	xfers[5].remote_stride = 64;
	batch = prepare(p, SLIME_BATCH_READ, xfers, 8);
	for (uint64_t round = 0; round < 3; round++) {
		pattern_fill(p->b.bytes, 16 * KiB, round, 0);
		assert_ok(submit_now(p, batch));
		assert_int_equal(slime_op_bytes(p->a.op), 128 + 2 * 128 + 4 * 64 + 16);
		assert_pattern(p->a.bytes, 128, round, 0);
		assert_pattern(p->a.bytes + 128, 128, round, 4096);
		assert_pattern(p->a.bytes + 4096, 128, round, 4224);
		for (uint64_t i = 0; i < 4; i++)
			assert_pattern(p->a.bytes + 256 + 128 * i, 64, round, 256 + 64 * i);
		assert_pattern(p->a.bytes + 8192, 16, round, 8192);
	}
	assert_ok(slime_batch_destroy(batch));
}

static void batch__without_bytes_completes_at_once(void **state)
{
	struct pair *p = *state;
	struct slime_xfer x = a_and_b(p, 0, 0, 0);
	struct slime_batch *none = prepare(p, SLIME_BATCH_READ, NULL, 0);
	struct slime_batch *empty = prepare(p, SLIME_BATCH_WRITE, &x, 1);

	assert_ok(slime_batch_submit(p->a.ep, none, 0, p->a.op));
	assert_true(slime_op_test(p->a.op));
	assert_ok(slime_op_status(p->a.op));
	assert_ok(slime_batch_submit(p->a.ep, empty, SLIME_FENCE, p->a.op));
	assert_ok(op_end(p->a.op));
	assert_ok(slime_batch_destroy(none));
	assert_ok(slime_batch_destroy(empty));
}

/* Nothing is held of one that was refused: the regions go with the pair. */
static void batch_create__of_pieces_that_may_not_be_is_refused(void **state)
{
	struct pair_attr attr = PAIR_ATTR_INIT;
	struct slime_batch *batch;
	struct slime_xfer x[2];
	struct pair *p;

	(void)state;
	attr.access = SLIME_ACCESS_REMOTE_READ;
	p = pair_create(&attr);
	pair_create_endpoints(p, &attr);
	x[0] = x[1] = a_and_b(p, 0, 0, KiB);
	assert_int_equal(slime_batch_create(p->a.ep, SLIME_BATCH_READ, x, 1, &batch), -ENOTCONN);
	pair_connect(p);
	assert_int_equal(slime_batch_create(p->a.ep, SLIME_BATCH_WRITE, x, 1, &batch), -EACCES);
	assert_int_equal(slime_batch_create(p->a.ep, SLIME_BATCH_READ, NULL, 1, &batch), -EINVAL);
	assert_int_equal(slime_batch_create(p->a.ep, (enum slime_batch_kind)7, x, 1, &batch),
			 -EINVAL);
	assert_int_equal(slime_batch_create(p->a.ep, SLIME_BATCH_READ, x, SIZE_MAX, &batch),
			 -ENOMEM);
	x[1].remote_offset = attr.len;
	assert_int_equal(slime_batch_create(p->a.ep, SLIME_BATCH_READ, x, 2, &batch), -ERANGE);
	x[1].remote = &p->a.remote;
	assert_int_equal(slime_batch_create(p->a.ep, SLIME_BATCH_READ, x, 2, &batch), -EINVAL);
	pair_close(p);
}

static void batch_submit__in_states_that_do_not_allow_it_is_refused(void **state)
{
	struct pair *p = *state;
	struct slime_xfer x = a_and_b(p, 0, 0, KiB);
	struct slime_batch *batch = prepare(p, SLIME_BATCH_READ, &x, 1);

	assert_int_equal(slime_batch_submit(p->a.ep, batch, 1u << 30, p->a.op), -EINVAL);
	assert_int_equal(slime_batch_submit(p->b.ep, batch, 0, p->b.op), -EINVAL);
	assert_int_equal(slime_batch_submit(p->a.ep, batch, 0, p->b.op), -EINVAL);
	assert_ok(slime_imm_recv(p->a.ep, p->a.op));
	assert_int_equal(slime_batch_submit(p->a.ep, batch, 0, p->a.op), -EBUSY);
	slime_endpoint_close(p->a.ep);
	assert_int_equal(op_end(p->a.op), -ECANCELED);
	assert_int_equal(slime_batch_submit(p->a.ep, batch, 0, p->a.op), -ENOTCONN);
	/* It outlives its endpoint, and not its regions and its context. */
	assert_ok(slime_endpoint_destroy(p->a.ep));
	p->a.ep = NULL;
	assert_int_equal(slime_mr_destroy(p->a.mr), -EBUSY);
	assert_int_equal(slime_context_destroy(p->a.ctx), -EBUSY);
	assert_ok(slime_batch_destroy(batch));
	assert_ok(slime_mr_destroy(p->a.mr));
	p->a.mr = NULL;
}

static void batch_submit__to_a_region_that_was_withdrawn_is_stale(void **state)
{
	struct pair *p = *state;
	struct slime_xfer x = a_and_b(p, 0, 0, KiB);
	struct slime_batch *batch = prepare(p, SLIME_BATCH_READ, &x, 1);
	uint64_t end = now_ms() + PATIENCE_MS;
	int ret;

	assert_ok(submit_now(p, batch));
	while (slime_mr_destroy(p->b.mr) == -EBUSY)
		assert_true(now_ms() < end);
	p->b.mr = NULL;
	do
		ret = submit_now(p, batch);
	while (!ret && now_ms() < end);
	assert_int_equal(ret, -ESTALE);
	assert_ok(slime_batch_destroy(batch));
}

/* What is under way has the batch. */
static void batch_destroy__while_it_is_under_way_is_busy(void **state)
{
	struct pair_attr attr = PAIR_ATTR_INIT;
	struct slime_batch *batch;
	struct slime_xfer x;
	struct pair *p;

	(void)state;
	attr.len = 8 * MiB;
	attr.manual_a = true;
	p = pair_open(&attr);
	x = a_and_b(p, 0, 0, attr.len);
	batch = prepare(p, SLIME_BATCH_READ, &x, 1);
	pattern_fill(p->b.bytes, attr.len, 1, 0);
	assert_ok(slime_batch_submit(p->a.ep, batch, 0, p->a.op));
	assert_false(slime_op_test(p->a.op));
	assert_int_equal(slime_batch_destroy(batch), -EBUSY);
	op_end_ok(p->a.op);
	assert_pattern(p->a.bytes, attr.len, 1, 0);
	assert_ok(slime_batch_destroy(batch));
	pair_close(p);
}

#ifndef __SANITIZE_THREAD__ /* the threads write the same bytes, which is the point */
struct worker {
	struct pair *p;
	struct slime_batch *batch;
	pthread_t thread;
};

static void *submit_often(void *arg)
{
	struct worker *w = arg;
	struct slime_op *op = op_new(w->p->a.ctx);

	for (uint64_t i = 0; i < rounds(200); i++) {
		assert_ok(slime_batch_submit(w->p->a.ep, w->batch, 0, op));
		op_end_ok(op);
		assert_int_equal(slime_op_bytes(op), PIECES * KiB);
	}
	assert_ok(slime_op_destroy(op));
	return NULL;
}

static void batch_submit__by_several_threads_at_once_ends_each(void **state)
{
	struct pair *p = *state;
	struct slime_xfer xfers[PIECES];
	struct worker workers[THREADS];
	struct slime_batch *batch;

	scatter(p, xfers);
	batch = prepare(p, SLIME_BATCH_READ, xfers, PIECES);
	for (int i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){ .p = p, .batch = batch };
		assert_ok(pthread_create(&workers[i].thread, NULL, submit_often, &workers[i]));
	}
	for (int i = 0; i < THREADS; i++)
		assert_ok(pthread_join(workers[i].thread, NULL));
	assert_ok(slime_batch_destroy(batch));
}
#endif

static const struct CMUnitTest tests[] = {
	IN_PAIR(batch_submit__each_time_moves_the_bytes_that_are_there),
	IN_PAIR(batch__has_copies_of_what_it_was_made_of),
	IN_PAIR(batch__of_all_sorts_of_pieces_moves_each_to_its_place),
	IN_PAIR(batch__without_bytes_completes_at_once),
	cmocka_unit_test(batch_create__of_pieces_that_may_not_be_is_refused),
	IN_PAIR(batch_submit__in_states_that_do_not_allow_it_is_refused),
	IN_PAIR(batch_submit__to_a_region_that_was_withdrawn_is_stale),
	cmocka_unit_test(batch_destroy__while_it_is_under_way_is_busy),
#ifndef __SANITIZE_THREAD__
	IN_PAIR(batch_submit__by_several_threads_at_once_ends_each),
#endif
};

FIXTURE_MAIN("batch")
