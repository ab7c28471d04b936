/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ring of messages has no read index: that none is written over before it was read is counted.
 * Here a peer stands still at the worst moment there is, and then reads what it was sent.
 */
#include <errno.h>
#include <string.h>

#include "tests/libslime/transport/shm/raw.h"
#include "src/endpoint/endpoint.h"
#include "src/rpc/mailbox.h"

/* ---- the peer ---- */

/* Post, and leave our end as it is. */
static void post(struct raw_shm *r, const struct sl_msg *m)
{
	struct shm_entry *e = shm_half_entry(r->own, r->n_posted);

	e->m = *m;
	atomic_store_explicit(&e->seq, ++r->n_posted, memory_order_release);
}

/* What the peer has read. */
struct reader {
	struct raw_shm *r;
	uint64_t n_read;
	struct sl_msg requests[SL_CALL_SLOTS]; /* the last one of each slot */
};

static bool has_next(const struct reader *rd)
{
	const struct shm_entry *e = shm_half_entry(rd->r->other, rd->n_read);

	return atomic_load_explicit(&e->seq, memory_order_acquire) == rd->n_read + 1;
}

/* All there is; returns how many they are. */
static unsigned read_all(struct reader *rd)
{
	unsigned n = 0;

	for (; has_next(rd); n++) {
		struct sl_msg m = shm_half_entry(rd->r->other, rd->n_read++)->m;

		m.slot &= (uint16_t)~SHM_SLOT_HERE;
		if (m.kind == SL_MSG_REQUEST)
			rd->requests[m.slot] = m;
	}
	return n;
}

/* The requests that were read last, as one without methods answers them. */
static void answer_all(struct reader *rd)
{
	for (uint16_t i = 0; i < SL_CALL_SLOTS; i++) {
		struct sl_msg reply = { .kind = SL_MSG_REPLY,
					.slot = i,
					.w[SL_REPLY_ID] = rd->requests[i].w[SL_REQUEST_ID],
					.w[SL_REPLY_STATUS] = SL_REPLY_NO_METHOD };

		post(rd->r, &reply);
	}
}

static void send_all(struct raw_shm *r)
{
	for (uint16_t i = 0; i < SL_SEND_SLOTS; i++) {
		struct sl_msg m = { .kind = SL_MSG_SEND, .slot = i };

		post(r, &m);
	}
}

static void call_all(struct raw_shm *r)
{
	for (uint16_t i = 0; i < SL_CALL_SLOTS; i++) {
		struct sl_msg m = { .kind = SL_MSG_REQUEST,
				    .slot = i,
				    .w[SL_REQUEST_ID] = UINT64_C(1) << 8 | i,
				    .w[SL_REQUEST_METHOD] = slime_rpc_method_id("echo") };

		post(r, &m);
	}
}

/* ---- our end ---- */

static void start_calls(struct raw_shm *r, struct slime_call *calls[SL_CALL_SLOTS])
{
	struct slime_call_args args = SLIME_CALL_ARGS_INIT;

	args.method = 5;
	for (unsigned i = 0; i < SL_CALL_SLOTS; i++) {
		assert_ok(slime_call_create(r->ctx, NULL, &calls[i]));
		assert_ok(slime_call_start(r->ep, &args, calls[i]));
	}
}

static void cancel_calls(struct slime_call *calls[SL_CALL_SLOTS])
{
	for (unsigned i = 0; i < SL_CALL_SLOTS; i++)
		assert_ok(slime_call_cancel(calls[i]));
}

static void end_calls(struct slime_call *calls[SL_CALL_SLOTS], int status)
{
	for (unsigned i = 0; i < SL_CALL_SLOTS; i++) {
		assert_ok(slime_call_wait(calls[i], PATIENCE_MS));
		assert_int_equal(slime_call_status(calls[i]), status);
		assert_ok(slime_call_destroy(calls[i]));
	}
}

static void start_sends(struct raw_shm *r, struct slime_op *ops[SL_SEND_SLOTS])
{
	for (unsigned i = 0; i < SL_SEND_SLOTS; i++) {
		assert_ok(slime_op_create(r->ctx, NULL, &ops[i]));
		assert_ok(slime_send(r->ep, NULL, 0, 0, 1, ops[i]));
	}
	assert_int_equal(slime_send(r->ep, NULL, 0, 0, 1, r->op), -EAGAIN);
}

static void start_receives(struct raw_shm *r, struct slime_op *ops[SL_SEND_SLOTS])
{
	for (unsigned i = 0; i < SL_SEND_SLOTS; i++) {
		assert_ok(slime_op_create(r->ctx, NULL, &ops[i]));
		assert_ok(slime_recv(r->ep, NULL, 0, 0, 0, 0, ops[i]));
	}
}

static void destroy_ops(struct slime_op *ops[SL_SEND_SLOTS])
{
	for (unsigned i = 0; i < SL_SEND_SLOTS; i++)
		assert_ok(slime_op_destroy(ops[i]));
}

static void write_immediates(struct raw_shm *r)
{
	for (unsigned i = 0; i < SL_WINDOW_IMM; i++) {
		assert_ok(slime_write_imm(r->ep, NULL, 0, 0, 1, r->op));
		assert_ok(slime_op_wait(r->op, PATIENCE_MS));
	}
	assert_int_equal(slime_write_imm(r->ep, NULL, 0, 0, 1, r->op), -EAGAIN);
}

/* Every slot's call is cancelled while its reply is on the way behind more messages than one look
 * takes; from here on the peer reads nothing. */
static void cross_all_replies(struct reader *rd, struct slime_call *calls[SL_CALL_SLOTS])
{
	struct slime_op *receives[SL_SEND_SLOTS];

	start_receives(rd->r, receives);
	start_calls(rd->r, calls);
	assert_int_equal(read_all(rd), SL_CALL_SLOTS);
	send_all(rd->r);
	answer_all(rd);
	cancel_calls(calls);
	raw_shm_turn(rd->r);
	end_calls(calls, -ECANCELED);
	destroy_ops(receives);
}

static void ring__of_a_peer_that_stands_still_has_room_for_the_most_there_can_be(void **state)
{
	struct raw_shm *r = *state;
	struct reader rd = { .r = r };
	struct slime_call *calls[SL_CALL_SLOTS];
	struct slime_op *sends[SL_SEND_SLOTS];

	raw_shm_link(r);
	cross_all_replies(&rd, calls);
	start_calls(r, calls);
	cancel_calls(calls);
	call_all(r);
	start_sends(r, sends);
	write_immediates(r);
	raw_shm_turn(r);
	assert_false(r->ended);

	/* And it goes on: all of it was there, in its order. */
	assert_true(has_next(&rd));
	assert_int_equal(read_all(&rd), SL_WINDOWS);
	answer_all(&rd);
	raw_shm_turn(r);
	end_calls(calls, -ECANCELED);
	start_calls(r, calls);
	assert_int_equal(read_all(&rd), SL_CALL_SLOTS);
	answer_all(&rd);
	raw_shm_turn(r);
	end_calls(calls, -ENOSYS);
	assert_false(r->ended);

	slime_endpoint_close(r->ep);
	raw_shm_turn(r);
	destroy_ops(sends);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_RAW_SHM(ring__of_a_peer_that_stands_still_has_room_for_the_most_there_can_be),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
