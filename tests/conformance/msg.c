/* SPDX-License-Identifier: Apache-2.0 */
/* Send and receive with tags. */
#include "fixture.h"

#include <stdlib.h>

static const size_t sizes[] = { 0, 1, 1023, 1024, 1025, 64 * KiB, 500 * KiB };
#define N_SIZES (sizeof(sizes) / sizeof(sizes[0]))

static int send_at(struct end *e, uint64_t offset, uint64_t len, uint64_t tag, struct slime_op *op)
{
	return slime_send(e->ep, e->mr, offset, len, tag, op);
}

static int recv_at(struct end *e, uint64_t offset, uint64_t len, uint64_t tag, uint64_t mask,
		   struct slime_op *op)
{
	return slime_recv(e->ep, e->mr, offset, len, tag, mask, op);
}

static void assert_received(struct slime_op *op, uint64_t len, uint64_t tag)
{
	op_end_ok(op);
	assert_int_equal(slime_op_bytes(op), len);
	assert_int_equal(slime_op_tag(op), tag);
}

static void send__of_each_size_before_its_receive_arrives(void **state)
{
	struct pair *p = *state;

	for (size_t i = 0; i < N_SIZES; i++) {
		pattern_fill(p->a.bytes, sizes[i], i, 0);
		assert_ok(send_at(&p->a, 0, sizes[i], i, p->a.op));
		assert_ok(recv_at(&p->b, 64, sizes[i], i, SLIME_TAG_ALL, p->b.op));
		assert_received(p->b.op, sizes[i], i);
		op_end_ok(p->a.op);
		assert_int_equal(slime_op_bytes(p->a.op), sizes[i]);
		assert_pattern(p->b.bytes + 64, sizes[i], i, 0);
	}
}

static void send__of_each_size_after_its_receive_arrives(void **state)
{
	struct pair *p = *state;

	for (size_t i = 0; i < N_SIZES; i++) {
		pattern_fill(p->a.bytes + 1, sizes[i], i, 0);
		pattern_fill(p->b.bytes, MiB, 100 + i, 0);
		assert_ok(recv_at(&p->b, 3, sizes[i] + 100, i, SLIME_TAG_ALL, p->b.op));
		assert_ok(send_at(&p->a, 1, sizes[i], i, p->a.op));
		assert_received(p->b.op, sizes[i], i);
		op_end_ok(p->a.op);
		assert_pattern(p->b.bytes + 3, sizes[i], i, 0);
		assert_pattern(p->b.bytes + 3 + sizes[i], 100, 100 + i, 3 + sizes[i]);
	}
}

static void send__without_memory_is_an_empty_message(void **state)
{
	struct pair *p = *state;

	assert_ok(slime_send(p->a.ep, NULL, 0, 0, 7, p->a.op));
	assert_ok(slime_recv(p->b.ep, NULL, 0, 0, 7, SLIME_TAG_ALL, p->b.op));
	assert_received(p->b.op, 0, 7);
	op_end_ok(p->a.op);
}

static void check_too_long(struct pair *p, uint64_t sent, uint64_t room)
{
	pattern_fill(p->b.bytes, MiB, 1, 0);
	assert_ok(send_at(&p->a, 0, sent, 1, p->a.op));
	assert_ok(recv_at(&p->b, 0, room, 1, SLIME_TAG_ALL, p->b.op));
	assert_int_equal(op_end(p->b.op), -EMSGSIZE);
	assert_int_equal(op_end(p->a.op), -EMSGSIZE);
	assert_int_equal(slime_op_bytes(p->b.op), 0);
	assert_pattern(p->b.bytes, MiB, 1, 0);
}

static void send__longer_than_its_receive_fails_both_and_writes_nothing(void **state)
{
	struct pair *p = *state;

	check_too_long(p, 1, 0);
	check_too_long(p, 1024, 1023);
	check_too_long(p, 1025, 1024);
	check_too_long(p, 300 * KiB, 300 * KiB - 1);

	/* The link goes on. */
	assert_ok(send_at(&p->a, 0, 10, 2, p->a.op));
	assert_ok(recv_at(&p->b, 0, 10, 2, SLIME_TAG_ALL, p->b.op));
	assert_received(p->b.op, 10, 2);
	op_end_ok(p->a.op);
}

#define TAGGED 16

static void recv__matches_the_first_send_of_its_tag(void **state)
{
	struct pair *p = *state;
	struct slime_op *ops[TAGGED];

	/* Tags 0, 1, 2, 3, 0, 1, ... with the number as payload. */
	for (uint32_t i = 0; i < TAGGED; i++) {
		p->a.bytes[i] = (uint8_t)i;
		ops[i] = op_new(p->a.ctx);
		assert_ok(send_at(&p->a, i, 1, i % 4, ops[i]));
	}
	for (uint32_t tag = 4; tag-- > 0;) {
		for (uint32_t i = tag; i < TAGGED; i += 4) {
			assert_ok(recv_at(&p->b, 0, 1, tag, SLIME_TAG_ALL, p->b.op));
			assert_received(p->b.op, 1, tag);
			assert_int_equal(p->b.bytes[0], i);
		}
	}
	for (uint32_t i = 0; i < TAGGED; i++) {
		op_end_ok(ops[i]);
		assert_ok(slime_op_destroy(ops[i]));
	}
}

static void send__matches_the_first_receive_posted_that_fits_its_tag(void **state)
{
	struct pair *p = *state;
	struct slime_op *ops[4];

	for (int i = 0; i < 4; i++)
		ops[i] = op_new(p->b.ctx);
	assert_ok(recv_at(&p->b, 0, 8, 5, SLIME_TAG_ALL, ops[0]));
	assert_ok(recv_at(&p->b, 8, 8, 0, SLIME_TAG_ANY, ops[1]));
	assert_ok(recv_at(&p->b, 16, 8, 0x70, 0xf0, ops[2]));
	assert_ok(recv_at(&p->b, 24, 8, 0x71, SLIME_TAG_ALL, ops[3]));

	assert_ok(send_at(&p->a, 0, 1, 0x71, p->a.op)); /* any */
	op_end_ok(p->a.op);
	assert_received(ops[1], 1, 0x71);
	assert_ok(send_at(&p->a, 0, 2, 0x7f, p->a.op)); /* under the mask */
	op_end_ok(p->a.op);
	assert_received(ops[2], 2, 0x7f);
	assert_ok(send_at(&p->a, 0, 3, 0x71, p->a.op)); /* the last one */
	op_end_ok(p->a.op);
	assert_received(ops[3], 3, 0x71);
	assert_false(slime_op_test(ops[0]));
	assert_ok(send_at(&p->a, 0, 4, 5, p->a.op));
	op_end_ok(p->a.op);
	assert_received(ops[0], 4, 5);
	for (int i = 0; i < 4; i++)
		assert_ok(slime_op_destroy(ops[i]));
}

static void send__stays_pending_until_it_was_matched(void **state)
{
	struct pair *p = *state;

	assert_ok(send_at(&p->a, 0, 100, 1, p->a.op));
	assert_ok(recv_at(&p->b, 0, 100, 2, SLIME_TAG_ALL, p->b.op));
	assert_int_equal(slime_op_wait(p->a.op, 20), -ETIMEDOUT);
	assert_false(slime_op_test(p->b.op));
	assert_ok(slime_recv_cancel(p->b.ep, p->b.op));
	assert_int_equal(op_end(p->b.op), -ECANCELED);
	assert_ok(recv_at(&p->b, 0, 100, 1, SLIME_TAG_ALL, p->b.op));
	assert_received(p->b.op, 100, 1);
	op_end_ok(p->a.op);
}

/* ---- credits ---- */

#define MANY 1000

struct attempt {
	struct end *e;
	struct slime_op *op;
};

static int try_send(void *arg)
{
	struct attempt *t = arg;

	return send_at(t->e, 0, 8, 4711, t->op);
}

static void send__without_a_receiver_is_refused_at_a_bound_and_goes_on_after(void **state)
{
	struct pair *p = *state;
	struct slime_op *ops[MANY];
	struct attempt last = { .e = &p->a };
	int n = 0, ret = 0;

	for (int i = 0; i < MANY; i++)
		ops[i] = op_new(p->a.ctx);
	while (n < MANY && (ret = send_at(&p->a, 0, 8, (uint64_t)n, ops[n])) == 0)
		n++;
	assert_int_equal(ret, -EAGAIN);
	assert_true(n >= 1 && slime_op_test(ops[n]));

	assert_ok(recv_at(&p->b, 0, 8, 0, SLIME_TAG_ALL, p->b.op));
	assert_received(p->b.op, 8, 0);
	last.op = ops[n];
	assert_ok(until_not_again(try_send, &last));
	for (int i = 1; i < n; i++) {
		assert_ok(recv_at(&p->b, 0, 8, 0, SLIME_TAG_ANY, p->b.op));
		assert_received(p->b.op, 8, (uint64_t)i);
	}
	assert_ok(recv_at(&p->b, 0, 8, 0, SLIME_TAG_ANY, p->b.op));
	assert_received(p->b.op, 8, 4711);
	for (int i = 0; i < MANY; i++) {
		assert_ok(op_end(ops[i]));
		assert_ok(slime_op_destroy(ops[i]));
	}
}

/* ---- cancelling and the end ---- */

static void recv_cancel__of_what_does_not_wait_finds_nothing(void **state)
{
	struct pair *p = *state;

	assert_int_equal(slime_recv_cancel(p->b.ep, p->b.op), -ENOENT);
	assert_ok(slime_imm_recv(p->b.ep, p->b.op));
	assert_int_equal(slime_recv_cancel(p->b.ep, p->b.op), -ENOENT);
	slime_endpoint_close(p->b.ep);
	(void)op_end(p->b.op);
}

static void recv_cancel__leaves_the_other_receives(void **state)
{
	struct pair *p = *state;
	struct slime_op *ops[3];

	for (int i = 0; i < 3; i++) {
		ops[i] = op_new(p->b.ctx);
		assert_ok(recv_at(&p->b, 0, 8, 0, SLIME_TAG_ANY, ops[i]));
	}
	assert_ok(slime_recv_cancel(p->b.ep, ops[1]));
	assert_int_equal(op_end(ops[1]), -ECANCELED);
	for (int i = 0; i < 3; i += 2) {
		assert_ok(send_at(&p->a, 0, 8, (uint64_t)i, p->a.op));
		op_end_ok(p->a.op);
		assert_received(ops[i], 8, (uint64_t)i);
	}
	for (int i = 0; i < 3; i++)
		assert_ok(slime_op_destroy(ops[i]));
}

static void close__ends_what_waits_at_both_ends(void **state)
{
	struct pair *p = *state;
	struct slime_op *large = op_new(p->a.ctx);

	assert_ok(send_at(&p->a, 0, 8, 1, p->a.op));
	assert_ok(send_at(&p->a, 0, 300 * KiB, 2, large));
	assert_ok(recv_at(&p->b, 0, 8, 3, SLIME_TAG_ALL, p->b.op));
	slime_endpoint_close(p->a.ep);
	assert_int_equal(op_end(p->a.op), -ECANCELED);
	assert_int_equal(op_end(large), -ECANCELED);
	assert_int_equal(op_end(p->b.op), -ECONNRESET);
	assert_int_equal(send_at(&p->a, 0, 8, 1, p->a.op), -ENOTCONN);
	assert_int_equal(recv_at(&p->a, 0, 8, 1, 0, p->a.op), -ENOTCONN);
	assert_ok(slime_op_destroy(large));
}

/* ---- refused ---- */

static void send__out_of_bounds_is_refused(void **state)
{
	struct pair *p = *state;

	assert_int_equal(send_at(&p->a, 0, MiB + 1, 0, p->a.op), -ERANGE);
	assert_int_equal(send_at(&p->a, MiB, 1, 0, p->a.op), -ERANGE);
	assert_int_equal(send_at(&p->a, UINT64_MAX, 2, 0, p->a.op), -ERANGE);
	assert_int_equal(recv_at(&p->a, 1, MiB, 0, 0, p->a.op), -ERANGE);
	assert_int_equal(slime_send(p->a.ep, p->b.mr, 0, 1, 0, p->a.op), -EINVAL);
	assert_int_equal(slime_recv(p->a.ep, p->b.mr, 0, 1, 0, 0, p->a.op), -EINVAL);
	assert_int_equal(slime_send(p->a.ep, NULL, 0, 1, 0, p->a.op), -EINVAL);
	assert_int_equal(slime_recv(p->a.ep, NULL, 0, 1, 0, 0, p->a.op), -EINVAL);
}

static void send__from_a_region_for_local_use_is_eager_or_refused(void **state)
{
	struct pair *p = *state;
	struct slime_mr *mr = end_mr(&p->a, p->a.bytes, 4096, 0);

	assert_int_equal(slime_send(p->a.ep, mr, 0, SLIME_SEND_EAGER + 1, 0, p->a.op), -EACCES);
	pattern_fill(p->a.bytes, SLIME_SEND_EAGER, 1, 0);
	assert_ok(slime_send(p->a.ep, mr, 0, SLIME_SEND_EAGER, 0, p->a.op));
	assert_ok(recv_at(&p->b, 0, 4096, 0, SLIME_TAG_ANY, p->b.op));
	assert_received(p->b.op, SLIME_SEND_EAGER, 0);
	op_end_ok(p->a.op);
	assert_pattern(p->b.bytes, SLIME_SEND_EAGER, 1, 0);
	assert_ok(slime_mr_destroy(mr));
}

static void recv__into_a_region_for_local_use_is_fine(void **state)
{
	struct pair *p = *state;
	struct slime_mr *mr = end_mr(&p->b, p->b.bytes, 64 * KiB, 0);

	pattern_fill(p->a.bytes, 64 * KiB, 2, 0);
	assert_ok(slime_recv(p->b.ep, mr, 0, 64 * KiB, 0, 0, p->b.op));
	assert_ok(send_at(&p->a, 0, 64 * KiB, 9, p->a.op));
	assert_received(p->b.op, 64 * KiB, 9);
	op_end_ok(p->a.op);
	assert_pattern(p->b.bytes, 64 * KiB, 2, 0);
	assert_ok(slime_mr_destroy(mr));
}

static void mr_destroy__with_a_receive_waiting_is_busy(void **state)
{
	struct pair *p = *state;
	struct slime_mr *mr = end_mr(&p->b, p->b.bytes, 4096, 0);

	assert_ok(slime_recv(p->b.ep, mr, 0, 4096, 0, 0, p->b.op));
	assert_int_equal(slime_mr_destroy(mr), -EBUSY);
	assert_ok(slime_recv_cancel(p->b.ep, p->b.op));
	(void)op_end(p->b.op);
	assert_ok(slime_mr_destroy(mr));
}

/* ---- many ---- */

/* Both ends send and receive messages of random lengths, four of each on the way. */
#define LANES  4
#define ROUNDS 300

static void send__both_ways_at_once_keeps_every_message(void **state)
{
	struct pair *p = *state;
	struct end *ends[2] = { &p->a, &p->b };
	struct slime_op *sends[2][LANES], *recvs[2][LANES];
	uint64_t seed = 99;

	for (int side = 0; side < 2; side++) {
		for (int i = 0; i < LANES; i++) {
			sends[side][i] = op_new(ends[side]->ctx);
			recvs[side][i] = op_new(ends[side]->ctx);
		}
	}
	for (int round = 0; round < (int)rounds(ROUNDS); round++) {
		uint64_t len[2][LANES];

		for (int i = 0; i < LANES; i++) {
			for (int side = 0; side < 2; side++) {
				uint64_t at = (uint64_t)i * 64 * KiB;

				len[side][i] = next_random(&seed) % (i % 2 ? 60 * KiB : 1200);
				pattern_fill(ends[side]->bytes + at, len[side][i],
					     (uint64_t)(round * 8 + side * 4 + i), 0);
				assert_ok(send_at(ends[side], at, len[side][i], (uint64_t)i,
						  sends[side][i]));
				assert_ok(recv_at(ends[1 - side], at + 512 * KiB, 64 * KiB,
						  (uint64_t)i, SLIME_TAG_ALL, recvs[1 - side][i]));
			}
		}
		for (int i = 0; i < LANES; i++) {
			for (int side = 0; side < 2; side++) {
				assert_received(recvs[1 - side][i], len[side][i], (uint64_t)i);
				op_end_ok(sends[side][i]);
				assert_pattern(
					ends[1 - side]->bytes + 512 * KiB + (uint64_t)i * 64 * KiB,
					len[side][i], (uint64_t)(round * 8 + side * 4 + i), 0);
			}
		}
	}
	for (int side = 0; side < 2; side++) {
		for (int i = 0; i < LANES; i++) {
			assert_ok(slime_op_destroy(sends[side][i]));
			assert_ok(slime_op_destroy(recvs[side][i]));
		}
	}
}

/* ---- the sender closes before its message is read ---- */

#define LONG (64 * KiB)

/* A long message has come, and is not read yet: a short one behind it was received. */
static void await_long_send(struct pair *p, struct slime_op *longer)
{
	assert_ok(send_at(&p->b, 0, LONG, 1, longer));
	assert_ok(send_at(&p->b, 0, 8, 2, p->b.op));
	assert_ok(recv_at(&p->a, 0, 8, 2, SLIME_TAG_ALL, p->a.op));
	assert_received(p->a.op, 8, 2);
	op_end_ok(p->b.op);
}

static void recv__of_a_send_whose_sender_closed_is_econnreset(void **state)
{
	struct pair_attr attr = PAIR_ATTR_INIT;
	struct slime_op *sent;
	struct pair *p;

	(void)state;
	/* It does not hear of the end before it looks. */
	attr.manual_a = true;
	p = pair_open(&attr);
	sent = op_new(p->b.ctx);
	/* What is set up for the first use of a region is there. */
	await_long_send(p, sent);
	assert_ok(recv_at(&p->a, 0, LONG, 1, SLIME_TAG_ALL, p->a.op));
	assert_received(p->a.op, LONG, 1);
	op_end_ok(sent);
	await_long_send(p, sent);

	slime_endpoint_close(p->b.ep);
	assert_int_equal(op_end(sent), -ECANCELED);
	end_await(&p->b, SLIME_ENDPOINT_CLOSED);
	/* The memory is the sender's again. */
	pattern_fill(p->b.bytes, LONG, 3, 0);

	assert_ok(recv_at(&p->a, 0, LONG, 1, SLIME_TAG_ALL, p->a.op));
	assert_int_equal(op_end(p->a.op), -ECONNRESET);
	assert_int_equal(slime_op_bytes(p->a.op), 0);
	assert_ok(slime_op_destroy(sent));
	pair_close(p);
}

static const struct CMUnitTest tests[] = {
	IN_PAIR(send__of_each_size_before_its_receive_arrives),
	IN_PAIR(send__of_each_size_after_its_receive_arrives),
	IN_PAIR(send__without_memory_is_an_empty_message),
	IN_PAIR(send__longer_than_its_receive_fails_both_and_writes_nothing),
	IN_PAIR(recv__matches_the_first_send_of_its_tag),
	IN_PAIR(send__matches_the_first_receive_posted_that_fits_its_tag),
	IN_PAIR(send__stays_pending_until_it_was_matched),
	IN_PAIR(send__without_a_receiver_is_refused_at_a_bound_and_goes_on_after),
	IN_PAIR(recv_cancel__of_what_does_not_wait_finds_nothing),
	IN_PAIR(recv_cancel__leaves_the_other_receives),
	IN_PAIR(close__ends_what_waits_at_both_ends),
	IN_PAIR(send__out_of_bounds_is_refused),
	IN_PAIR(send__from_a_region_for_local_use_is_eager_or_refused),
	IN_PAIR(recv__into_a_region_for_local_use_is_fine),
	IN_PAIR(mr_destroy__with_a_receive_waiting_is_busy),
	IN_PAIR(send__both_ways_at_once_keeps_every_message),
	cmocka_unit_test(recv__of_a_send_whose_sender_closed_is_econnreset),
};

FIXTURE_MAIN("msg")
