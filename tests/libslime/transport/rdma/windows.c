/* SPDX-License-Identifier: Apache-2.0 */
/* All that may be on the way to an end that takes nothing is, of each kind at once: each of it has
 * a receive. */
#include "src/transport/rdma/conn.h"
#include "src/transport/rdma/limits.h"
#include "src/transport/rdma/qp.h"
#include "tests/libslime/transport/rdma/pair.h"
#include "tests/support/echo.h"

#define LEN	   65536
#define SHORT	   64
#define LONG_CALL  5000 /* of the other class of slots */
#define N_CREDITS  SL_WINDOW_IMM
#define N_REPLIES  SL_WINDOW_CALL
#define N_CANCELS  SL_WINDOW_CALL
#define N_ANSWERS  (SL_WINDOW_SEND + N_REPLIES + N_CREDITS)
#define N_MESSAGES (SL_WINDOW_IMM + SL_WINDOW_SEND + SL_WINDOW_CALL + N_CANCELS)

static struct rdma_pair pair;

/* What an end has under way, and waits for. */
static struct side {
	struct slime_op *imms[SL_WINDOW_IMM], *taken[SL_WINDOW_IMM];
	struct slime_op *sends[SL_WINDOW_SEND], *recvs[SL_WINDOW_SEND];
	struct slime_call *calls[SL_WINDOW_CALL];
	uint8_t bytes[LONG_CALL];
} of_a, of_b;

static void create_ops(struct rdma_end *e, struct slime_op **ops, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		assert_ok(slime_op_create(e->ctx, NULL, &ops[i]));
}

static void create(struct rdma_end *e, struct side *s)
{
	create_ops(e, s->imms, SL_WINDOW_IMM);
	create_ops(e, s->taken, SL_WINDOW_IMM);
	create_ops(e, s->sends, SL_WINDOW_SEND);
	create_ops(e, s->recvs, SL_WINDOW_SEND);
	for (unsigned i = 0; i < SL_WINDOW_CALL; i++)
		assert_ok(slime_call_create(e->ctx, NULL, &s->calls[i]));
}

static void wait_and_destroy(struct slime_op **ops, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		assert_ok(rdma_wait(&pair, ops[i]));
		assert_ok(slime_op_destroy(ops[i]));
	}
}

static void wait_for(struct side *s, int status_of_calls)
{
	wait_and_destroy(s->imms, SL_WINDOW_IMM);
	wait_and_destroy(s->taken, SL_WINDOW_IMM);
	wait_and_destroy(s->sends, SL_WINDOW_SEND);
	wait_and_destroy(s->recvs, SL_WINDOW_SEND);
	for (unsigned i = 0; i < SL_WINDOW_CALL; i++) {
		while (!slime_call_test(s->calls[i]))
			rdma_poll(&pair);
		assert_int_equal(slime_call_status(s->calls[i]), status_of_calls);
		assert_ok(slime_call_destroy(s->calls[i]));
	}
}

static void begin_all(struct rdma_end *e, struct side *s)
{
	struct slime_call_args args = SLIME_CALL_ARGS_INIT;

	for (unsigned i = 0; i < SL_WINDOW_IMM; i++)
		assert_ok(slime_write_imm(e->ep, NULL, 0, 0, i, s->imms[i]));
	for (unsigned i = 0; i < SL_WINDOW_SEND; i++)
		assert_ok(slime_send(e->ep, e->mr, 0, SHORT, 1, s->sends[i]));
	args.method = slime_rpc_method_id("echo");
	args.request = args.reply = s->bytes;
	for (unsigned i = 0; i < SL_WINDOW_CALL; i++) {
		args.request_len = args.reply_cap = i < SL_CALL_SLOTS_SMALL ? SHORT : LONG_CALL;
		assert_ok(slime_call_start(e->ep, &args, s->calls[i]));
	}
}

static void take_all(struct rdma_end *e, struct side *s)
{
	for (unsigned i = 0; i < SL_WINDOW_IMM; i++)
		assert_ok(slime_imm_recv(e->ep, s->taken[i]));
	for (unsigned i = 0; i < SL_WINDOW_SEND; i++)
		assert_ok(slime_recv(e->ep, e->mr, LEN / 2, SHORT, 1, SLIME_TAG_ALL, s->recvs[i]));
}

static void offer_echo(struct rdma_end *e)
{
	struct slime_rpc_method_attr attr = SLIME_RPC_METHOD_ATTR_INIT;

	attr.fn = test_echo;
	attr.flags = SLIME_RPC_INLINE;
	assert_ok(slime_rpc_service_create(e->ctx, &e->service));
	assert_ok(slime_rpc_method_add(e->service, "echo", &attr));
}

/* Posted, and not completed as far as the end has looked. */
static uint32_t n_receives_of(const struct rdma_end *e)
{
	return rdma_endpoint_conn(e->ep)->qps[0]->n_posted;
}

static void receives__are_there_for_all_windows_at_once(void **state)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;

	(void)state;
	attr.tcp_user_timeout_ms = 3600 * 1000; /* no probes, which would be counted */
	assert_ok(rdma_pair_create(&pair, &attr, LEN));
	offer_echo(&pair.a);
	offer_echo(&pair.b);
	assert_ok(rdma_pair_connect(&pair));
	rdma_settle(&pair);
	create(&pair.a, &of_a);
	create(&pair.b, &of_b);

	/* From here on b does not look. */
	begin_all(&pair.b, &of_b);
	fakeverbs_reset_counts();
	while (slime_context_poll(pair.a.ctx) > 0)
		;
	take_all(&pair.a, &of_a);
	assert_int_equal(fakeverbs_counts().send_wrs, N_ANSWERS);
	begin_all(&pair.a, &of_a);
	for (unsigned i = 0; i < SL_WINDOW_CALL; i++)
		assert_ok(slime_call_cancel(of_a.calls[i]));
	while (slime_context_poll(pair.a.ctx) > 0)
		;
	assert_int_equal(fakeverbs_counts().send_wrs, N_ANSWERS + N_MESSAGES);
	assert_int_equal(fakeverbs_counts().rnr_naks, 0);
	/* What is left is for frames of control, of which none is among these. */
	assert_true(n_receives_of(&pair.b) >= N_ANSWERS + N_MESSAGES + RDMA_CONTROLS);

	take_all(&pair.b, &of_b);
	wait_for(&of_b, 0);
	wait_for(&of_a, -ECANCELED);
	assert_int_equal(fakeverbs_counts().rnr_naks, 0);
	rdma_pair_destroy_endpoints(&pair);
	assert_ok(slime_rpc_service_destroy(pair.a.service));
	assert_ok(slime_rpc_service_destroy(pair.b.service));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_prestate_setup_teardown(
			receives__are_there_for_all_windows_at_once, rdma_pair_reset, rdma_pair_end,
			&pair),
	};

	return cmocka_run_group_tests_name("rdma_windows", tests, NULL, NULL);
}
