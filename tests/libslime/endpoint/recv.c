/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Send and receive against a peer that does what no honest one does: messages are put straight into
 * the layer, over a connection that only remembers what was posted.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "src/endpoint/endpoint.h"
#include "src/endpoint/recv.h"
#include <slime/slime.h>

#define assert_ok(expr) assert_int_equal(expr, 0)

#define PEER   UINT64_C(0x1234)
#define REGION 65536

struct fake {
	struct sl_conn conn; /* first */
	struct slime_context *ctx;
	struct slime_endpoint *ep;
	struct slime_mr *mr;
	struct slime_op *op;
	struct slime_op *pull; /* what was submitted, not finished yet */
	struct sl_msg posted[256];
	unsigned n_posted;
	uint8_t slots[SL_SLOTS_LEN];
	uint8_t memory[REGION];
};

static int fake_submit(struct sl_conn *conn, struct slime_op *op)
{
	((struct fake *)conn)->pull = op;
	return 0;
}

static uint8_t *fake_slot(struct sl_conn *conn, enum sl_area area, unsigned slot)
{
	return ((struct fake *)conn)->slots + sl_slot_offset(area, slot);
}

static void fake_post(struct sl_conn *conn, const struct sl_post *posts, size_t n)
{
	struct fake *f = (struct fake *)conn;

	for (size_t i = 0; i < n; i++) {
		assert_true(f->n_posted < 256);
		f->posted[f->n_posted++] = posts[i].m;
	}
}

static bool fake_is_stale(struct sl_conn *conn, const struct slime_remote_mr *r)
{
	(void)conn;
	(void)r;
	return false;
}

static const struct sl_conn_ops fake_ops = {
	.submit = fake_submit,
	.slot = fake_slot,
	.post = fake_post,
	.is_stale = fake_is_stale,
};

static int setup(void **state)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;
	struct fake *f = calloc(1, sizeof(*f));

	attr.manual = true;
	f->conn.ops = &fake_ops;
	f->conn.peer.context = PEER;
	assert_ok(slime_context_create(&attr, &f->ctx));
	assert_ok(slime_endpoint_create(f->ctx, NULL, &f->ep));
	assert_ok(slime_mr_create(f->ctx, f->memory, REGION, SLIME_ACCESS_REMOTE_READ, &f->mr));
	assert_ok(slime_op_create(f->ctx, NULL, &f->op));
	f->ep->peer.context = PEER;
	atomic_store(&f->ep->conn, &f->conn);
	atomic_store(&f->ep->state, SLIME_ENDPOINT_CONNECTED);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fake *f = *state;

	sl_recv_layer.down(f->ep->recv, -ECONNRESET);
	atomic_store(&f->ep->conn, NULL);
	atomic_store(&f->ep->state, SLIME_ENDPOINT_IDLE);
	assert_ok(slime_endpoint_destroy(f->ep));
	assert_ok(slime_op_destroy(f->op));
	assert_ok(slime_mr_destroy(f->mr));
	assert_ok(slime_context_destroy(f->ctx));
	free(f);
	return 0;
}

static bool arrives(struct fake *f, const struct sl_msg *m, const void *payload)
{
	return sl_recv_layer.msg(f->ep->recv, m, payload);
}

static struct sl_msg eager(uint16_t slot, uint64_t tag, uint32_t len)
{
	return (struct sl_msg){ .kind = SL_MSG_SEND, .slot = slot, .len = len, .w = { tag, len } };
}

static struct sl_msg done(uint16_t slot, uint64_t result)
{
	return (struct sl_msg){ .kind = SL_MSG_SEND_DONE, .slot = slot, .w = { result } };
}

/* A region of the peer as its library would describe it. */
static struct slime_remote_mr peer_region(void)
{
	return (struct slime_remote_mr){
		.owner = PEER,
		.addr = 0x10000,
		.len = 100000,
		.generation = 7,
		.access = SLIME_ACCESS_REMOTE_READ,
	};
}

static struct sl_msg by_desc(const struct slime_remote_mr *r, uint64_t offset, uint64_t len,
			     uint8_t desc[SLIME_MR_DESC_MAX])
{
	struct sl_msg m = { .kind = SL_MSG_SEND, .flags = SL_SEND_BY_DESC };
	int n = sl_desc_write_region(r, desc, SLIME_MR_DESC_MAX);

	assert_true(n > 0);
	m.len = (uint32_t)n;
	m.w[1] = len;
	m.w[2] = offset;
	return m;
}

/* ---- what is sent ---- */

static void send__of_a_short_message_puts_it_into_a_slot(void **state)
{
	struct fake *f = *state;
	struct sl_msg answer;

	memcpy(f->memory, "hello", 5);
	assert_ok(slime_send(f->ep, f->mr, 0, 5, 77, f->op));
	assert_int_equal(f->n_posted, 1);
	assert_int_equal(f->posted[0].kind, SL_MSG_SEND);
	assert_int_equal(f->posted[0].flags, 0);
	assert_int_equal(f->posted[0].len, 5);
	assert_int_equal(f->posted[0].w[0], 77);
	assert_memory_equal(fake_slot(&f->conn, SL_AREA_SEND, f->posted[0].slot), "hello", 5);
	assert_false(slime_op_test(f->op));

	answer = done(f->posted[0].slot, SL_SEND_RECEIVED);
	assert_true(arrives(f, &answer, NULL));
	assert_true(slime_op_test(f->op));
	assert_ok(slime_op_status(f->op));
	assert_int_equal(slime_op_bytes(f->op), 5);
}

static void send__of_a_long_message_sends_its_descriptor(void **state)
{
	struct fake *f = *state;
	struct slime_remote_mr r;

	assert_ok(slime_send(f->ep, f->mr, 100, 50000, 1, f->op));
	assert_int_equal(f->posted[0].flags, SL_SEND_BY_DESC);
	assert_int_equal(f->posted[0].w[1], 50000);
	assert_int_equal(f->posted[0].w[2], 100);
	assert_ok(sl_desc_read_region(&r, fake_slot(&f->conn, SL_AREA_SEND, f->posted[0].slot),
				      f->posted[0].len));
	assert_int_equal(r.len, REGION);
	assert_int_equal(slime_mr_destroy(f->mr), -EBUSY);
}

static void send_done__of_each_result_has_its_status(void **state)
{
	static const int want[SL_SEND_RESULTS] = { 0, -EMSGSIZE, -EOPNOTSUPP, -EREMOTEIO };
	struct fake *f = *state;

	for (uint64_t result = 0; result < SL_SEND_RESULTS; result++) {
		struct sl_msg answer;

		assert_ok(slime_send(f->ep, f->mr, 0, 5, 0, f->op));
		answer = done(f->posted[f->n_posted - 1].slot, result);
		assert_true(arrives(f, &answer, NULL));
		assert_int_equal(slime_op_status(f->op), want[result]);
	}
}

static void send_done__that_nobody_waits_for_breaks_the_link(void **state)
{
	struct fake *f = *state;
	struct sl_msg unknown = done(5, SL_SEND_RECEIVED);
	struct sl_msg outside = done(SL_WINDOW_SEND, SL_SEND_RECEIVED);
	struct sl_msg answer;

	assert_false(arrives(f, &unknown, NULL));
	assert_false(arrives(f, &outside, NULL));
	assert_ok(slime_send(f->ep, f->mr, 0, 5, 0, f->op));
	answer = done(f->posted[0].slot, SL_SEND_RESULTS);
	assert_false(arrives(f, &answer, NULL));
	answer = done(f->posted[0].slot, SL_SEND_RECEIVED);
	assert_true(arrives(f, &answer, NULL));
	assert_false(arrives(f, &answer, NULL));
}

/* ---- what arrives ---- */

static void send__in_a_busy_slot_breaks_the_link(void **state)
{
	struct fake *f = *state;
	struct sl_msg m = eager(3, 1, 5);

	assert_true(arrives(f, &m, (const uint8_t *)"hello"));
	assert_false(arrives(f, &m, (const uint8_t *)"again"));
	/* Once it was received and answered the slot may be used again. */
	assert_ok(slime_recv(f->ep, f->mr, 0, 100, 1, SLIME_TAG_ALL, f->op));
	assert_true(slime_op_test(f->op));
	assert_memory_equal(f->memory, "hello", 5);
	assert_int_equal(f->posted[0].kind, SL_MSG_SEND_DONE);
	assert_int_equal(f->posted[0].slot, 3);
	assert_true(arrives(f, &m, (const uint8_t *)"again"));
}

static void send__that_contradicts_itself_breaks_the_link(void **state)
{
	struct fake *f = *state;
	struct sl_msg m = eager(0, 1, 5);

	m.w[1] = 6;
	assert_false(arrives(f, &m, (const uint8_t *)"hello"));
	m = eager(0, 1, 5);
	m.flags = 0x80;
	assert_false(arrives(f, &m, (const uint8_t *)"hello"));
	m = eager(SL_WINDOW_SEND, 1, 5);
	assert_false(arrives(f, &m, (const uint8_t *)"hello"));
}

static void send__with_a_bad_descriptor_breaks_the_link(void **state)
{
	struct fake *f = *state;
	struct slime_remote_mr r = peer_region();
	uint8_t desc[SLIME_MR_DESC_MAX];
	struct sl_msg m = by_desc(&r, 0, 100001, desc);

	assert_false(arrives(f, &m, desc)); /* longer than the region */
	m = by_desc(&r, 100000, 2000, desc);
	assert_false(arrives(f, &m, desc)); /* behind its end */
	m = by_desc(&r, UINT64_MAX - 100, 2000, desc);
	assert_false(arrives(f, &m, desc)); /* wraps */
	m = by_desc(&r, 0, SLIME_SEND_EAGER, desc);
	assert_false(arrives(f, &m, desc)); /* would have been eager */
	m = by_desc(&r, 0, 2000, desc);
	m.len--;
	assert_false(arrives(f, &m, desc)); /* cut off */
	m.len = 0;
	assert_false(arrives(f, &m, NULL)); /* not there */
	r.owner = PEER + 1;
	m = by_desc(&r, 0, 2000, desc);
	assert_false(arrives(f, &m, desc)); /* somebody else's memory */
	r = peer_region();
	m = by_desc(&r, 0, 2000, desc);
	assert_true(arrives(f, &m, desc));
}

/* The slot is in memory that the peer can write at any time. */
static void send__whose_descriptor_changes_after_it_was_read_keeps_the_first(void **state)
{
	struct fake *f = *state;
	struct slime_remote_mr r = peer_region();
	uint8_t desc[SLIME_MR_DESC_MAX];
	struct sl_msg m = by_desc(&r, 1000, 2000, desc);

	assert_true(arrives(f, &m, desc));
	memset(desc, 0xff, sizeof(desc));
	assert_ok(slime_recv(f->ep, f->mr, 0, 4096, 0, SLIME_TAG_ANY, f->op));
	assert_non_null(f->pull);
	assert_int_equal(f->pull->work.xfers->remote->len, 100000);
	assert_int_equal(f->pull->work.xfers->remote_offset, 1000);
	assert_int_equal(f->pull->work.xfers->len, 2000);
	assert_int_equal(f->n_posted, 0);

	sl_op_finish(f->pull, 0, 2000);
	while (slime_context_poll(f->ctx) > 0)
		;
	assert_true(slime_op_test(f->op));
	assert_ok(slime_op_status(f->op));
	assert_int_equal(slime_op_bytes(f->op), 2000);
	assert_int_equal(f->posted[0].w[0], SL_SEND_RECEIVED);
}

static void recv__whose_transfer_fails_tells_both(void **state)
{
	struct fake *f = *state;
	struct slime_remote_mr r = peer_region();
	uint8_t desc[SLIME_MR_DESC_MAX];
	struct sl_msg m = by_desc(&r, 0, 2000, desc);

	assert_ok(slime_recv(f->ep, f->mr, 0, 4096, 0, SLIME_TAG_ANY, f->op));
	assert_true(arrives(f, &m, desc));
	sl_op_finish(f->pull, -ESTALE, 0);
	while (slime_context_poll(f->ctx) > 0)
		;
	assert_int_equal(slime_op_status(f->op), -ESTALE);
	assert_int_equal(f->posted[0].w[0], SL_SEND_FAILED);
}

static void recv__of_memory_the_peer_did_not_open_fails_both(void **state)
{
	struct fake *f = *state;
	struct slime_remote_mr r = peer_region();
	uint8_t desc[SLIME_MR_DESC_MAX];
	struct sl_msg m;

	r.access = 0;
	m = by_desc(&r, 0, 2000, desc);
	assert_true(arrives(f, &m, desc));
	assert_ok(slime_recv(f->ep, f->mr, 0, 4096, 0, SLIME_TAG_ANY, f->op));
	assert_int_equal(slime_op_status(f->op), -EREMOTEIO);
	assert_int_equal(f->posted[0].w[0], SL_SEND_FAILED);
}

/* ---- the end ---- */

/* The message is matched at the moment at which the link ends. */
static int status_after_match(struct fake *f, enum slime_endpoint_state state, bool shut)
{
	struct slime_remote_mr r = peer_region();
	uint8_t desc[SLIME_MR_DESC_MAX];
	struct sl_msg m = by_desc(&r, 0, 2000, desc);

	assert_ok(slime_recv(f->ep, f->mr, 0, 4096, 0, SLIME_TAG_ANY, f->op));
	atomic_store(&f->ep->state, state);
	atomic_store(&f->ep->shut, shut);
	assert_true(arrives(f, &m, desc));
	atomic_store(&f->ep->shut, false);
	atomic_store(&f->ep->state, SLIME_ENDPOINT_CONNECTED);
	return slime_op_status(f->op);
}

static void recv__whose_link_ends_before_its_bytes_are_fetched_says_who_ended_it(void **state)
{
	struct fake *f = *state;

	assert_int_equal(status_after_match(f, SLIME_ENDPOINT_BROKEN, false), -ECONNRESET);
	assert_int_equal(status_after_match(f, SLIME_ENDPOINT_CLOSED, false), -ECONNRESET);
	assert_int_equal(status_after_match(f, SLIME_ENDPOINT_CLOSED, true), -ECANCELED);
}

static void recv__whose_transfer_fails_with_the_link_is_reset(void **state)
{
	static const int causes[] = { -EPROTO, -ETIMEDOUT, -ENOTCONN, -ECONNRESET };
	struct fake *f = *state;
	struct slime_remote_mr r = peer_region();
	uint8_t desc[SLIME_MR_DESC_MAX];
	struct sl_msg m = by_desc(&r, 0, 2000, desc);

	for (size_t i = 0; i < sizeof(causes) / sizeof(causes[0]); i++) {
		assert_ok(slime_recv(f->ep, f->mr, 0, 4096, 0, SLIME_TAG_ANY, f->op));
		assert_true(arrives(f, &m, desc));
		sl_op_finish(f->pull, causes[i], 0);
		while (slime_context_poll(f->ctx) > 0)
			;
		assert_int_equal(slime_op_status(f->op), -ECONNRESET);
	}
}

static void down__ends_sends_and_receives_and_refuses_more(void **state)
{
	struct fake *f = *state;
	struct slime_op *send;

	assert_ok(slime_op_create(f->ctx, NULL, &send));
	assert_ok(slime_send(f->ep, f->mr, 0, 5, 0, send));
	assert_ok(slime_recv(f->ep, f->mr, 0, 5, 0, 0, f->op));
	sl_recv_layer.down(f->ep->recv, -ECONNRESET);
	assert_int_equal(slime_op_status(send), -ECONNRESET);
	assert_int_equal(slime_op_status(f->op), -ECONNRESET);
	assert_int_equal(slime_send(f->ep, f->mr, 0, 5, 0, send), -ENOTCONN);
	assert_int_equal(slime_recv(f->ep, f->mr, 0, 5, 0, 0, f->op), -ENOTCONN);
	assert_true(slime_op_test(send) && slime_op_test(f->op));
	assert_ok(slime_op_destroy(send));
}

static void send__with_every_slot_taken_is_refused(void **state)
{
	struct fake *f = *state;
	struct slime_op *ops[SL_WINDOW_SEND];

	for (int i = 0; i < SL_WINDOW_SEND; i++) {
		assert_ok(slime_op_create(f->ctx, NULL, &ops[i]));
		assert_ok(slime_send(f->ep, f->mr, 0, 5, 0, ops[i]));
		for (int j = 0; j < i; j++)
			assert_int_not_equal(f->posted[i].slot, f->posted[j].slot);
	}
	assert_int_equal(slime_send(f->ep, f->mr, 0, 5, 0, f->op), -EAGAIN);
	assert_true(slime_op_test(f->op));
	sl_recv_layer.down(f->ep->recv, -ECONNRESET);
	for (int i = 0; i < SL_WINDOW_SEND; i++)
		assert_ok(slime_op_destroy(ops[i]));
}

#define ON_FAKE(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_FAKE(send__of_a_short_message_puts_it_into_a_slot),
		ON_FAKE(send__of_a_long_message_sends_its_descriptor),
		ON_FAKE(send_done__of_each_result_has_its_status),
		ON_FAKE(send_done__that_nobody_waits_for_breaks_the_link),
		ON_FAKE(send__in_a_busy_slot_breaks_the_link),
		ON_FAKE(send__that_contradicts_itself_breaks_the_link),
		ON_FAKE(send__with_a_bad_descriptor_breaks_the_link),
		ON_FAKE(send__whose_descriptor_changes_after_it_was_read_keeps_the_first),
		ON_FAKE(recv__whose_transfer_fails_tells_both),
		ON_FAKE(recv__of_memory_the_peer_did_not_open_fails_both),
		ON_FAKE(recv__whose_link_ends_before_its_bytes_are_fetched_says_who_ended_it),
		ON_FAKE(recv__whose_transfer_fails_with_the_link_is_reset),
		ON_FAKE(down__ends_sends_and_receives_and_refuses_more),
		ON_FAKE(send__with_every_slot_taken_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
