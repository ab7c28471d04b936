/* SPDX-License-Identifier: Apache-2.0 */
/* A peer that breaks the protocol of calls: every message that is not allowed ends the connection
 * and touches nothing. The connection is a fake that keeps what is posted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "src/endpoint/endpoint.h"
#include "src/rpc/mailbox.h"
#include "src/progress/progress.h"
#include <slime/slime.h>

/* ---- a connection to nobody ---- */

struct fake {
	struct sl_conn conn;
	uint8_t slots[SL_SLOTS_LEN];
	struct sl_msg posted;
	unsigned n_posted;
	void (*on_post)(void *arg); /* once, before the next one returns to who posts */
	void *arg;
};

static int fake_submit(struct sl_conn *conn, struct slime_op *op)
{
	(void)conn;
	sl_op_finish(op, -EREMOTEIO, 0);
	return 0;
}

static uint8_t *fake_slot(struct sl_conn *conn, enum sl_area area, unsigned slot)
{
	struct fake *f = SL_CONTAINER_OF(conn, struct fake, conn);

	return f->slots + sl_slot_offset(area, slot);
}

static void fake_post(struct sl_conn *conn, const struct sl_post *posts, size_t n)
{
	struct fake *f = SL_CONTAINER_OF(conn, struct fake, conn);
	void (*on_post)(void *arg) = f->on_post;

	f->posted = posts[n - 1].m;
	f->n_posted += (unsigned)n;
	for (size_t i = 0; i < n; i++)
		if (posts[i].going)
			atomic_store(posts[i].going, posts[i].m.w[0]);
	f->on_post = NULL;
	if (on_post)
		on_post(f->arg);
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

#define PEER_CONTEXT UINT64_C(77)

struct scene {
	struct slime_context *ctx;
	struct slime_rpc_service *service;
	struct slime_endpoint *ep;
	struct slime_rpc_request *held;
	unsigned n_handled;
	struct fake fake;
};

static void hold(void *arg, struct slime_rpc_request *req)
{
	struct scene *s = arg;

	s->held = req;
	s->n_handled++;
}

static int open_scene(void **state)
{
	struct slime_context_attr ctx_attr = SLIME_CONTEXT_ATTR_INIT;
	struct slime_endpoint_attr attr = SLIME_ENDPOINT_ATTR_INIT;
	struct slime_rpc_method_attr method = SLIME_RPC_METHOD_ATTR_INIT;
	struct scene *s = test_calloc(1, sizeof(*s));

	ctx_attr.manual = true;
	assert_int_equal(slime_context_create(&ctx_attr, &s->ctx), 0);
	assert_int_equal(slime_rpc_service_create(s->ctx, &s->service), 0);
	method.fn = hold;
	method.arg = s;
	method.flags = SLIME_RPC_INLINE;
	assert_int_equal(slime_rpc_method_add(s->service, "hold", &method), 0);
	attr.service = s->service;
	assert_int_equal(slime_endpoint_create(s->ctx, &attr, &s->ep), 0);
	s->fake.conn = (struct sl_conn){ .ops = &fake_ops, .peer = { PEER_CONTEXT, 1 } };
	atomic_store(&s->ep->conn, &s->fake.conn);
	atomic_store(&s->ep->state, SLIME_ENDPOINT_CONNECTED);
	*state = s;
	return 0;
}

/* The connection ends as the endpoint would end it. */
static int close_scene(void **state)
{
	struct scene *s = *state;

	sl_progress_enter(s->ctx);
	atomic_store(&s->ep->state, SLIME_ENDPOINT_BROKEN);
	sl_mailbox_layer.down(s->ep->mailbox, -EPROTO);
	atomic_store(&s->ep->conn, NULL);
	sl_progress_leave(s->ctx);
	assert_int_equal(slime_endpoint_destroy(s->ep), 0);
	if (s->held)
		assert_int_equal(slime_rpc_reply(s->held, NULL, 0), -ECONNRESET);
	assert_int_equal(slime_rpc_service_destroy(s->service), 0);
	assert_int_equal(slime_context_destroy(s->ctx), 0);
	test_free(s);
	return 0;
}

/* A message arrives; its payload is checked by the transport for its length only. */
static bool arrives(struct scene *s, const struct sl_msg *m, const uint8_t *payload)
{
	bool ok;

	assert_true(sl_msg_valid(m));
	sl_progress_enter(s->ctx);
	ok = sl_mailbox_layer.msg(s->ep->mailbox, m, m->len ? payload : NULL);
	sl_progress_leave(s->ctx);
	return ok;
}

/* ---- replies ---- */

/* A call that is out, and the reply it should get. */
static struct slime_call *call_out(struct scene *s, size_t request_len, size_t reply_cap,
				   struct sl_msg *reply)
{
	static uint8_t bytes[100000];
	struct slime_call_args args = SLIME_CALL_ARGS_INIT;
	struct slime_call *call;

	args.method = 5;
	args.request = bytes;
	args.request_len = request_len;
	args.reply = bytes;
	args.reply_cap = reply_cap;
	assert_int_equal(slime_call_create(s->ctx, NULL, &call), 0);
	assert_int_equal(slime_call_start(s->ep, &args, call), 0);
	assert_int_equal(s->fake.posted.kind, SL_MSG_REQUEST);
	*reply = (struct sl_msg){ .kind = SL_MSG_REPLY,
				  .slot = s->fake.posted.slot,
				  .w[SL_REPLY_ID] = s->fake.posted.w[SL_REQUEST_ID] };
	return call;
}

static void expect_reply_refused(struct scene *s, struct slime_call *call, const struct sl_msg *m)
{
	static const uint8_t payload[SL_SLOT_LARGE];

	assert_false(arrives(s, m, payload));
	assert_false(slime_call_test(call));
}

static void reply__that_is_not_allowed_ends_the_connection(void **state)
{
	struct scene *s = *state;
	struct sl_msg good, m;
	struct slime_call *call = call_out(s, 10, 100, &good);

	m = good;
	m.w[SL_REPLY_ID] ^= UINT64_C(1) << 8;
	expect_reply_refused(s, call, &m);
	m = good;
	m.slot ^= 1;
	expect_reply_refused(s, call, &m);
	m = good;
	m.slot = SL_CALL_SLOTS - 1;
	m.w[SL_REPLY_ID] = 0;
	expect_reply_refused(s, call, &m);
	m = good;
	m.flags = 2;
	expect_reply_refused(s, call, &m);
	m = good;
	m.flags = SL_REPLY_WRITTEN; /* nothing was lent */
	expect_reply_refused(s, call, &m);
	m = good;
	m.w[SL_REPLY_STATUS] = SL_REPLY_STATUSES;
	expect_reply_refused(s, call, &m);
	m = good;
	m.w[SL_REPLY_STATUS] = UINT64_MAX;
	expect_reply_refused(s, call, &m);
	m = good;
	m.w[SL_REPLY_STATUS] = SL_REPLY_CANCELLED; /* nobody asked */
	expect_reply_refused(s, call, &m);
	m = good;
	m.len = 101;
	expect_reply_refused(s, call, &m);
	m = good;
	m.w[SL_REPLY_STATUS] = SL_REPLY_ERROR;
	m.len = SLIME_RPC_MESSAGE_MAX + 1;
	expect_reply_refused(s, call, &m);
	m.len = 0;
	m.w[SL_REPLY_CODE] = UINT64_C(1) << 32;
	expect_reply_refused(s, call, &m);
	m = good;
	m.w[SL_REPLY_STATUS] = SL_REPLY_NO_METHOD;
	m.len = 1;
	expect_reply_refused(s, call, &m);

	assert_true(arrives(s, &good, NULL));
	assert_true(slime_call_test(call));
	assert_false(arrives(s, &good, NULL)); /* twice */
	assert_int_equal(slime_call_destroy(call), 0);
}

static void reply__longer_than_was_lent_ends_the_connection(void **state)
{
	struct scene *s = *state;
	struct sl_msg good, m;
	struct slime_call *call = call_out(s, 50000, 60000, &good);

	good.flags = SL_REPLY_WRITTEN;
	m = good;
	m.w[SL_REPLY_LEN] = 60001;
	expect_reply_refused(s, call, &m);
	m.w[SL_REPLY_LEN] = UINT64_MAX;
	expect_reply_refused(s, call, &m);
	m = good;
	m.len = 1; /* both written and in the slot */
	expect_reply_refused(s, call, &m);
	m = good;
	m.w[SL_REPLY_LEN] = 60000;
	assert_true(arrives(s, &m, NULL));
	assert_int_equal(slime_call_status(call), 0);
	assert_int_equal(slime_call_reply_len(call), 60000);
	assert_int_equal(slime_call_destroy(call), 0);
}

/* ---- fences ---- */

/* A call of which the peer was told that it is cancelled, and its reply. */
static struct slime_call *call_cancelled(struct scene *s, struct sl_msg *reply)
{
	struct slime_call *call = call_out(s, 10, 100, reply);

	assert_int_equal(slime_call_cancel(call), 0);
	assert_true(slime_context_poll(s->ctx) >= 0);
	assert_int_equal(s->fake.posted.kind, SL_MSG_CANCEL);
	return call;
}

static void end_cancelled(struct slime_call *call)
{
	assert_true(slime_call_test(call));
	assert_int_equal(slime_call_status(call), -ECANCELED);
	assert_int_equal(slime_call_destroy(call), 0);
}

/* A call is answered; returns the slot that it took. */
static unsigned slot_of_next_call(struct scene *s)
{
	struct sl_msg reply;
	struct slime_call *call = call_out(s, 10, 100, &reply);

	assert_true(arrives(s, &reply, NULL));
	assert_int_equal(slime_call_status(call), 0);
	assert_int_equal(slime_call_destroy(call), 0);
	return reply.slot;
}

static void expect_no_answer_to_fence(struct scene *s, const struct sl_msg *m)
{
	static const uint8_t payload[SL_SLOT_SMALL];

	assert_false(arrives(s, m, payload));
}

static void reply__that_may_have_met_the_cancel_leaves_a_fence_in_the_slot(void **state)
{
	struct scene *s = *state;
	struct sl_msg reply, good, m;
	struct slime_call *call = call_cancelled(s, &reply);

	assert_true(arrives(s, &reply, NULL));
	end_cancelled(call);
	assert_int_equal(s->fake.posted.kind, SL_MSG_REQUEST);
	assert_int_equal(s->fake.posted.slot, reply.slot);
	assert_int_equal(s->fake.posted.w[SL_REQUEST_METHOD], SL_METHOD_NONE);
	assert_int_not_equal(s->fake.posted.w[SL_REQUEST_ID], reply.w[SL_REPLY_ID]);

	good = reply;
	good.w[SL_REPLY_ID] = s->fake.posted.w[SL_REQUEST_ID];
	good.w[SL_REPLY_STATUS] = SL_REPLY_NO_METHOD;
	assert_int_not_equal(slot_of_next_call(s), reply.slot);
	expect_no_answer_to_fence(s, &reply);
	m = good;
	m.w[SL_REPLY_STATUS] = SL_REPLY_OK;
	expect_no_answer_to_fence(s, &m);
	m = good;
	m.flags = SL_REPLY_WRITTEN;
	expect_no_answer_to_fence(s, &m);
	m = good;
	m.len = 1;
	expect_no_answer_to_fence(s, &m);

	assert_true(arrives(s, &good, NULL));
	expect_no_answer_to_fence(s, &good); /* twice */
	assert_int_equal(slot_of_next_call(s), reply.slot);
}

static void reply__that_answers_the_cancel_frees_the_slot(void **state)
{
	struct scene *s = *state;
	struct sl_msg reply;
	struct slime_call *call = call_cancelled(s, &reply);

	reply.w[SL_REPLY_STATUS] = SL_REPLY_CANCELLED;
	assert_true(arrives(s, &reply, NULL));
	end_cancelled(call);
	assert_int_equal(s->fake.posted.kind, SL_MSG_CANCEL);
	assert_int_equal(slot_of_next_call(s), reply.slot);
}

static void reply__before_the_peer_is_told_of_the_cancel_frees_the_slot(void **state)
{
	struct scene *s = *state;
	struct sl_msg reply;
	struct slime_call *call = call_out(s, 10, 100, &reply);

	assert_int_equal(slime_call_cancel(call), 0);
	assert_true(arrives(s, &reply, NULL));
	end_cancelled(call);
	assert_int_equal(slot_of_next_call(s), reply.slot);
}

/* ---- the next call, before the one before it has returned ---- */

struct overtaken {
	struct scene *s;
	struct slime_call *next;
	struct sl_msg reply;
};

static void answer_and_call_again(void *arg)
{
	struct overtaken *o = arg;
	struct sl_msg reply = { .kind = SL_MSG_REPLY,
				.slot = o->s->fake.posted.slot,
				.w[SL_REPLY_ID] = o->s->fake.posted.w[SL_REQUEST_ID] };

	assert_true(arrives(o->s, &reply, NULL));
	o->next = call_out(o->s, 5000, 5000, &o->reply);
	assert_int_equal(o->reply.slot, reply.slot);
}

/* A call of which the peer knows, and that is known to have left. */
static struct slime_call *call_after_one_that_is_still_leaving(struct overtaken *o)
{
	struct sl_msg reply;
	struct slime_call *first;

	o->s->fake.on_post = answer_and_call_again;
	o->s->fake.arg = o;
	first = call_out(o->s, 5000, 5000, &reply);
	assert_int_equal(slime_call_status(first), 0);
	assert_int_equal(slime_call_destroy(first), 0);
	return o->next;
}

static void call__in_the_slot_of_one_that_is_still_leaving_is_cancelled_at_the_peer(void **state)
{
	struct overtaken o = { .s = *state };
	struct slime_call *call = call_after_one_that_is_still_leaving(&o);

	assert_int_equal(slime_call_cancel(call), 0);
	assert_true(slime_context_poll(o.s->ctx) >= 0);
	assert_int_equal(o.s->fake.posted.kind, SL_MSG_CANCEL);
	assert_int_equal(o.s->fake.posted.w[SL_CANCEL_ID], o.reply.w[SL_REPLY_ID]);
	assert_true(arrives(o.s, &o.reply, NULL));
	assert_int_equal(slime_call_destroy(call), 0);
}

static void call__in_the_slot_of_one_that_is_still_leaving_may_have_been_executed(void **state)
{
	struct overtaken o = { .s = *state };
	struct slime_call *call = call_after_one_that_is_still_leaving(&o);

	sl_progress_enter(o.s->ctx);
	atomic_store(&o.s->ep->state, SLIME_ENDPOINT_BROKEN);
	sl_mailbox_layer.down(o.s->ep->mailbox, -EPROTO);
	sl_progress_leave(o.s->ctx);
	assert_int_equal(slime_call_status(call), -ECONNRESET);
	assert_int_equal(slime_call_destroy(call), 0);
}

/* ---- requests ---- */

static struct sl_msg request_of(unsigned slot, uint32_t len)
{
	return (struct sl_msg){
		.kind = SL_MSG_REQUEST,
		.slot = (uint16_t)slot,
		.len = len,
		.w[SL_REQUEST_ID] = 0x1200 | slot,
		.w[SL_REQUEST_METHOD] = slime_rpc_method_id("hold"),
		.w[SL_REQUEST_LEN] = len,
	};
}

static void expect_request_refused(struct scene *s, const struct sl_msg *m, const uint8_t *payload)
{
	unsigned n_posted = s->fake.n_posted;
	unsigned n_handled = s->n_handled;

	assert_false(arrives(s, m, payload));
	assert_int_equal(s->fake.n_posted, n_posted);
	assert_int_equal(s->n_handled, n_handled);
}

static void request__that_is_not_allowed_ends_the_connection(void **state)
{
	static const uint8_t payload[SL_SLOT_LARGE];
	struct scene *s = *state;
	struct sl_msg m = request_of(3, 100);

	m.flags = 4;
	expect_request_refused(s, &m, payload);
	m = request_of(3, 100);
	m.w[SL_REQUEST_LEN] = 101;
	expect_request_refused(s, &m, payload);
	m = request_of(3, SL_LOAN_LEN - 1);
	m.flags = SL_REPLY_LOAN;
	expect_request_refused(s, &m, payload);
	m.flags = SL_REQUEST_LOAN;
	expect_request_refused(s, &m, payload);
	/* Zeros are no descriptor. */
	m.len = SL_LOAN_LEN;
	expect_request_refused(s, &m, payload);

	m = request_of(3, 100);
	assert_true(arrives(s, &m, payload));
	assert_int_equal(s->n_handled, 1);
	/* The slot is taken until the answer. */
	expect_request_refused(s, &m, payload);
}

static void request__with_memory_that_cannot_be_ends_the_connection(void **state)
{
	struct scene *s = *state;
	uint8_t payload[SL_LOAN_LEN];
	struct sl_loan good = { .remote = { .owner = PEER_CONTEXT,
					    .addr = 4096,
					    .len = 1000,
					    .generation = 1,
					    .access = SLIME_ACCESS_REMOTE_READ },
				.offset = 10 };
	struct sl_loan lent;
	struct sl_msg m = request_of(70, SL_LOAN_LEN);

	m.flags = SL_REQUEST_LOAN;
	m.w[SL_REQUEST_LEN] = 990;

	lent = good;
	lent.remote.addr = UINT64_MAX; /* it wraps */
	sl_loan_write(&lent, payload);
	expect_request_refused(s, &m, payload);
	lent = good;
	lent.offset = 11;
	sl_loan_write(&lent, payload);
	expect_request_refused(s, &m, payload);
	lent.offset = UINT64_MAX;
	sl_loan_write(&lent, payload);
	expect_request_refused(s, &m, payload);
	sl_loan_write(&good, payload);
	m.w[SL_REQUEST_LEN] = 0;
	expect_request_refused(s, &m, payload);
	m.w[SL_REQUEST_LEN] = UINT64_MAX;
	expect_request_refused(s, &m, payload);

	/* What is well-formed and cannot be read is an answer, not a breach. */
	m.w[SL_REQUEST_LEN] = 990;
	assert_true(arrives(s, &m, payload));
	while (!s->fake.n_posted)
		assert_true(slime_context_poll(s->ctx) >= 0);
	assert_int_equal(s->fake.posted.kind, SL_MSG_REPLY);
	assert_int_equal(s->fake.posted.w[SL_REPLY_STATUS], SL_REPLY_UNREACHABLE);
	assert_int_equal(s->n_handled, 0);
}

static void request__for_no_method_is_answered_and_not_counted(void **state)
{
	struct scene *s = *state;
	struct sl_msg m = { .kind = SL_MSG_REQUEST, .slot = 5, .w[SL_REQUEST_ID] = 261 };
	struct slime_endpoint_stats stats;

	assert_true(arrives(s, &m, NULL));
	assert_int_equal(s->fake.posted.kind, SL_MSG_REPLY);
	assert_int_equal(s->fake.posted.slot, 5);
	assert_int_equal(s->fake.posted.w[SL_REPLY_ID], 261);
	assert_int_equal(s->fake.posted.w[SL_REPLY_STATUS], SL_REPLY_NO_METHOD);
	slime_endpoint_stats(s->ep, &stats);
	assert_int_equal(stats.kinds[SLIME_KIND_SERVE].failed, 0);
}

static void cancel__of_what_is_not_there_is_ignored_unless_it_cannot_be(void **state)
{
	struct scene *s = *state;
	struct sl_msg m = { .kind = SL_MSG_CANCEL, .slot = 5, .w[SL_CANCEL_ID] = 9 };
	struct sl_msg request = request_of(5, 1);
	struct slime_rpc_request *req;

	assert_true(arrives(s, &m, NULL));
	assert_true(arrives(s, &request, (const uint8_t *)"x"));
	assert_true(arrives(s, &m, NULL)); /* of another request */
	assert_false(slime_rpc_request_cancelled(s->held));
	assert_int_equal(s->fake.n_posted, 0);

	m.w[SL_CANCEL_ID] = request.w[SL_REQUEST_ID];
	assert_true(arrives(s, &m, NULL));
	assert_int_equal(s->fake.n_posted, 1);
	assert_int_equal(s->fake.posted.w[SL_REPLY_STATUS], SL_REPLY_CANCELLED);
	assert_true(arrives(s, &m, NULL)); /* twice */
	assert_int_equal(s->fake.n_posted, 1);
	req = s->held;
	s->held = NULL;
	assert_true(slime_rpc_request_cancelled(req));
	assert_int_equal(slime_rpc_reply(req, NULL, 0), -ECANCELED);

	m.slot = SL_CALL_SLOTS;
	assert_false(arrives(s, &m, NULL));
	m.slot = UINT16_MAX;
	assert_false(arrives(s, &m, NULL));
}

static void quiet(void *arg, enum slime_log_level level, const char *part, const char *line)
{
	(void)arg;
	(void)level;
	(void)part;
	(void)line;
}

#define T(f) cmocka_unit_test_setup_teardown(f, open_scene, close_scene)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		T(reply__that_is_not_allowed_ends_the_connection),
		T(reply__longer_than_was_lent_ends_the_connection),
		T(reply__that_may_have_met_the_cancel_leaves_a_fence_in_the_slot),
		T(reply__that_answers_the_cancel_frees_the_slot),
		T(reply__before_the_peer_is_told_of_the_cancel_frees_the_slot),
		T(call__in_the_slot_of_one_that_is_still_leaving_is_cancelled_at_the_peer),
		T(call__in_the_slot_of_one_that_is_still_leaving_may_have_been_executed),
		T(request__that_is_not_allowed_ends_the_connection),
		T(request__with_memory_that_cannot_be_ends_the_connection),
		T(request__for_no_method_is_answered_and_not_counted),
		T(cancel__of_what_is_not_there_is_ignored_unless_it_cannot_be),
	};

	slime_log_set(quiet, NULL, SLIME_LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
