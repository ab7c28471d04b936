/* SPDX-License-Identifier: Apache-2.0 */
/* What an operation costs in calls of libibverbs and in work requests. */
#include <string.h>

#include "src/progress/context.h"
#include "src/transport/rdma/conn.h"
#include "src/transport/rdma/limits.h"
#include "src/transport/rdma/nic.h"
#include "src/transport/rdma/transport.h"
#include "tests/libslime/transport/rdma/pair.h"
#include "tests/support/echo.h"

#define LEN    (1024u * 1024)
#define PIECES 200
#define MANY   15000

static struct rdma_pair pair;

/* Without probes of an idle link, which would be counted when the test is kept waiting. */
static int begin_pair_of(uint32_t n_qps)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;
	struct slime_xfer x;

	attr.tcp_user_timeout_ms = 3600 * 1000;
	attr.rdma_qps = n_qps;
	assert_ok(rdma_pair_open(&pair, &attr, LEN));
	/* The first one asks for the peer's key. */
	x = rdma_a_and_b(&pair, 0, 0, 64);
	assert_ok(slime_write(pair.a.ep, &x, 1, 0, pair.a.op));
	assert_ok(rdma_wait(&pair, pair.a.op));
	rdma_settle(&pair);
	fakeverbs_reset_counts();
	return 0;
}

static int begin_pair(void)
{
	return begin_pair_of(1);
}

static int begin(void **state)
{
	rdma_pair_reset(state);
	return begin_pair();
}

/* Pieces of len bytes that touch none of their neighbours. */
static void spread(struct slime_xfer *xfers, size_t n, uint64_t len)
{
	for (size_t i = 0; i < n; i++)
		xfers[i] = rdma_a_and_b(&pair, 2 * i * len, 2 * i * len, len);
}

static void write__of_a_batch_is_one_post_and_one_completion(void **state)
{
	struct slime_xfer xfers[PIECES];
	struct fakeverbs_counts c;

	(void)state;
	spread(xfers, PIECES, 1024);
	assert_ok(slime_write(pair.a.ep, xfers, PIECES, 0, pair.a.op));
	c = fakeverbs_counts();
	assert_int_equal(c.calls[FAKEVERBS_POST_SEND], 1);
	assert_int_equal(c.send_wrs, PIECES);
	assert_ok(rdma_wait(&pair, pair.a.op));
	c = fakeverbs_counts();
	assert_int_equal(c.calls[FAKEVERBS_POST_SEND], 1);
	/* One for the op, others where a quarter of the queue would go without. */
	assert_true(c.signaled <= 1 + PIECES / 128);
}

static void write__of_adjacent_pieces_is_one_request(void **state)
{
	struct slime_xfer xfers[PIECES];
	struct fakeverbs_counts c;

	(void)state;
	for (size_t i = 0; i < PIECES; i++)
		xfers[i] = rdma_a_and_b(&pair, i * 1024, i * 1024, 1024);
	assert_ok(slime_write(pair.a.ep, xfers, PIECES, 0, pair.a.op));
	assert_ok(rdma_wait(&pair, pair.a.op));
	c = fakeverbs_counts();
	assert_int_equal(c.send_wrs, 1);
	assert_int_equal(c.bytes, PIECES * 1024);
}

static void write__of_pieces_adjacent_at_the_peer_gathers_them(void **state)
{
	struct slime_xfer xfers[8];
	struct fakeverbs_counts c;

	(void)state;
	for (size_t i = 0; i < 8; i++)
		xfers[i] = rdma_a_and_b(&pair, i * 4096, i * 1024, 1024);
	assert_ok(slime_write(pair.a.ep, xfers, 8, 0, pair.a.op));
	assert_ok(rdma_wait(&pair, pair.a.op));
	c = fakeverbs_counts();
	assert_int_equal(c.send_wrs, 2); /* of four entries */
}

/* A read may have fewer entries than a write. */
static void read__has_no_more_entries_than_its_device_takes_of_a_read(void **state)
{
	struct slime_xfer xfers[8];

	(void)state;
	fakeverbs_device(0)->max_sge = 3;
	fakeverbs_device(0)->max_sge_rd = 2;
	begin_pair();
	rdma_fill(pair.b.bytes, 8 * 1024, 3);
	for (size_t i = 0; i < 8; i++)
		xfers[i] = rdma_a_and_b(&pair, i * 4096, i * 1024, 1024);
	assert_ok(slime_read(pair.a.ep, xfers, 8, 0, pair.a.op));
	assert_ok(rdma_wait(&pair, pair.a.op));
	assert_int_equal(fakeverbs_counts().send_wrs, 4);
	for (size_t i = 0; i < 8; i++)
		assert_memory_equal(pair.a.bytes + i * 4096, pair.b.bytes + i * 1024, 1024);
}

static void write__of_few_bytes_is_inline(void **state)
{
	struct slime_xfer x = rdma_a_and_b(&pair, 0, 0, 64);

	(void)state;
	assert_ok(slime_write(pair.a.ep, &x, 1, 0, pair.a.op));
	assert_ok(rdma_wait(&pair, pair.a.op));
	assert_int_equal(fakeverbs_counts().inlined, 1);
}

static void write__beyond_max_msg_sz_is_split(void **state)
{
	struct slime_xfer x;

	(void)state;
	fakeverbs_device(0)->ports[0].max_msg_sz = 4096;
	begin_pair();
	x = rdma_a_and_b(&pair, 0, 0, 20000);
	memset(pair.a.bytes, 7, 20000);
	assert_ok(slime_write(pair.a.ep, &x, 1, 0, pair.a.op));
	assert_ok(rdma_wait(&pair, pair.a.op));
	assert_int_equal(fakeverbs_counts().send_wrs, 5);
	assert_memory_equal(pair.b.bytes, pair.a.bytes, 20000);
}

/* What has nothing to gain from several queue pairs takes one, and the others are told nothing. */
static void write__of_few_bytes_takes_one_of_several_queue_pairs(void **state)
{
	struct slime_xfer x;

	(void)state;
	begin_pair_of(4);
	x = rdma_a_and_b(&pair, 0, 0, 4096);
	assert_ok(slime_write(pair.a.ep, &x, 1, 0, pair.a.op));
	assert_ok(rdma_wait(&pair, pair.a.op));
	assert_int_equal(fakeverbs_counts().calls[FAKEVERBS_POST_SEND], 1);
	assert_int_equal(fakeverbs_counts().send_wrs, 1);
}

static void write__of_many_bytes_takes_all_queue_pairs_but_that_of_messages(void **state)
{
	struct slime_xfer x;

	(void)state;
	begin_pair_of(4);
	x = rdma_a_and_b(&pair, 0, 0, LEN);
	memset(pair.a.bytes, 7, LEN);
	assert_ok(slime_write(pair.a.ep, &x, 1, 0, pair.a.op));
	assert_ok(rdma_wait(&pair, pair.a.op));
	assert_int_equal(fakeverbs_counts().calls[FAKEVERBS_POST_SEND], 3);
	assert_int_equal(fakeverbs_counts().send_wrs, 3);
	assert_memory_equal(pair.b.bytes, pair.a.bytes, LEN);
}

/* As long as each has room, and whatever the shares are rounded to. */
static void write__of_a_batch_is_one_post_for_each_queue_pair(void **state)
{
	struct slime_xfer xfers[PIECES];

	(void)state;
	begin_pair_of(4);
	spread(xfers, PIECES, 2048);
	assert_ok(slime_write(pair.a.ep, xfers, PIECES, 0, pair.a.op));
	assert_ok(rdma_wait(&pair, pair.a.op));
	assert_int_equal(fakeverbs_counts().calls[FAKEVERBS_POST_SEND], 3);
	assert_int_equal(fakeverbs_counts().send_wrs, PIECES);
}

/* Who submits waits for no completion: what has no room is posted by who polls. */
static void read__of_more_pieces_than_any_queue_is_submitted_without_a_poll(void **state)
{
	static struct slime_xfer xfers[MANY];
	struct fakeverbs_counts c;

	(void)state;
	spread(xfers, MANY, 32);
	assert_ok(slime_read(pair.a.ep, xfers, MANY, 0, pair.a.op));
	c = fakeverbs_counts();
	assert_int_equal(c.calls[FAKEVERBS_POST_SEND], 1);
	assert_in_range(c.send_wrs, 1, RDMA_SENDS);
	assert_int_equal(c.calls[FAKEVERBS_POLL_CQ], 0);
	assert_ok(rdma_wait(&pair, pair.a.op));
	assert_int_equal(fakeverbs_counts().send_wrs, MANY);
}

static void read__of_more_pieces_than_any_queue_flows(void **state)
{
	static struct slime_xfer xfers[MANY];
	struct fakeverbs_counts c;

	(void)state;
	spread(xfers, MANY, 32);
	memset(pair.b.bytes, 5, LEN);
	assert_ok(slime_read(pair.a.ep, xfers, MANY, 0, pair.a.op));
	assert_ok(rdma_wait(&pair, pair.a.op));
	c = fakeverbs_counts();
	assert_int_equal(c.send_wrs, MANY);
	/* The queue is filled by quarters, not piece by piece. */
	assert_true(c.calls[FAKEVERBS_POST_SEND] <= MANY / 64);
	assert_int_equal(pair.a.bytes[2 * 32 * (MANY - 1)], 5);
}

/* The device grants no entry more than is asked for, and none is free before its completion. */
static void read__of_many_pieces_on_the_shallowest_queues_flows(void **state)
{
	static struct slime_xfer xfers[MANY];

	(void)state;
	fakeverbs_device(0)->max_qp_wr = fakeverbs_device(1)->max_qp_wr = RDMA_RECEIVES;
	begin_pair();
	spread(xfers, MANY, 32);
	assert_ok(slime_read(pair.a.ep, xfers, MANY, 0, pair.a.op));
	assert_ok(rdma_wait(&pair, pair.a.op));
	assert_int_equal(fakeverbs_counts().send_wrs, MANY);
}

static void device__of_shallower_queues_is_refused(void **state)
{
	(void)state;
	fakeverbs_device(0)->max_qp_wr = RDMA_RECEIVES - 1;
	rdma_assert_refused(&pair.a, rdma_pair_open(&pair, NULL, LEN),
			    "queues of 865 entries, and 866 are needed");
}

/* Many are there when somebody looks: then it is 16 to a call, and one that finds the end. */
static void poll__under_load_takes_16_completions_at_a_time(void **state)
{
	struct slime_op *ops[64];
	struct slime_xfer x = rdma_a_and_b(&pair, 0, 0, 256);
	struct fakeverbs_counts c;

	(void)state;
	fakeverbs_hold_time(true);
	fakeverbs_set_delay(1000, 1000, 1);
	for (int i = 0; i < 64; i++) {
		assert_ok(slime_op_create(pair.a.ctx, NULL, &ops[i]));
		assert_ok(slime_write(pair.a.ep, &x, 1, 0, ops[i]));
	}
	fakeverbs_advance(1000000);
	fakeverbs_reset_counts();
	assert_true(slime_context_poll(pair.a.ctx) >= 64);
	c = fakeverbs_counts();
	assert_int_equal(c.completions, 64);
	assert_true(c.calls[FAKEVERBS_POLL_CQ] <= 64 / 16 + 1);
	for (int i = 0; i < 64; i++) {
		assert_true(slime_op_test(ops[i]));
		assert_ok(slime_op_destroy(ops[i]));
	}
	fakeverbs_set_delay(0, 0, 1);
	fakeverbs_hold_time(false);
}

static void progress__that_polls_arms_nothing(void **state)
{
	struct slime_xfer x = rdma_a_and_b(&pair, 0, 0, 256);
	struct fakeverbs_counts c;

	(void)state;
	for (int i = 0; i < 1000; i++) {
		assert_ok(slime_write(pair.a.ep, &x, 1, 0, pair.a.op));
		assert_ok(rdma_wait(&pair, pair.a.op));
	}
	c = fakeverbs_counts();
	assert_int_equal(c.calls[FAKEVERBS_REQ_NOTIFY_CQ], 0);
	assert_int_equal(c.calls[FAKEVERBS_POST_SEND], 1000);
	assert_int_equal(c.rnr_naks, 0);
}

static void arm__is_one_call_and_not_repeated(void **state)
{
	(void)state;
	while (slime_context_poll(pair.a.ctx) > 0 || slime_context_arm(pair.a.ctx) == -EAGAIN)
		;
	assert_int_equal(fakeverbs_counts().calls[FAKEVERBS_REQ_NOTIFY_CQ], 1);
	assert_int_equal(fakeverbs_counts().busy_arms, 0);
	assert_ok(slime_context_arm(pair.a.ctx));
	assert_int_equal(fakeverbs_counts().calls[FAKEVERBS_REQ_NOTIFY_CQ], 1);
}

#define MESSAGES 100

/* Of the message at the one end, and of its answer at the other; of others before some may be left.
 */
static void post_recv__gives_buffers_back_in_lots(void **state)
{
	struct fakeverbs_counts c;

	(void)state;
	for (int i = 0; i < MESSAGES; i++) {
		assert_ok(slime_recv(pair.b.ep, pair.b.mr, 0, 64, 1, SLIME_TAG_ALL, pair.b.op));
		assert_ok(slime_send(pair.a.ep, pair.a.mr, 0, 64, 1, pair.a.op));
		assert_ok(rdma_wait(&pair, pair.b.op));
		assert_ok(rdma_wait(&pair, pair.a.op));
	}
	c = fakeverbs_counts();
	assert_int_equal(c.rnr_naks, 0);
	assert_in_range(c.calls[FAKEVERBS_POST_RECV], 2 * (MESSAGES / RDMA_POLL),
			2 * (MESSAGES / RDMA_POLL + 1));
	assert_int_equal(c.recv_wrs, c.calls[FAKEVERBS_POST_RECV] * RDMA_POLL);
}

/* ---- calls ---- */

static const struct slime_rpc_method_attr echo_attr = {
	.fn = test_echo,
	.flags = SLIME_RPC_INLINE,
	.max_message = 4096,
};

/* What two calls of that length, requests and replies, cost. */
static struct fakeverbs_counts cost_of_calls(uint64_t len)
{
	struct slime_call_args args = SLIME_CALL_ARGS_INIT;
	struct slime_call *call;

	args.method = slime_rpc_method_id("echo");
	args.request = pair.a.bytes;
	args.reply = pair.a.bytes;
	args.request_len = args.reply_cap = len;
	assert_ok(slime_call_create(pair.a.ctx, NULL, &call));
	fakeverbs_reset_counts();
	for (int i = 0; i < 2; i++) {
		assert_ok(slime_call_start(pair.a.ep, &args, call));
		while (!slime_call_test(call))
			rdma_poll(&pair);
		assert_ok(slime_call_status(call));
	}
	assert_ok(slime_call_destroy(call));
	return fakeverbs_counts();
}

/* Frame and payload are the 128 bytes that are asked for. */
static void call__of_few_bytes_is_inline(void **state)
{
	struct slime_rpc_service *service;

	assert_ok(rdma_pair_create(&pair, NULL, LEN));
	assert_ok(slime_rpc_service_create(pair.b.ctx, &service));
	assert_ok(slime_rpc_method_add(service, "echo", &echo_attr));
	pair.b.service = service;
	assert_ok(rdma_pair_connect(&pair));
	rdma_settle(&pair);
	assert_int_equal(cost_of_calls(64).send_wrs, 4);
	assert_int_equal(cost_of_calls(64).inlined, 4);
	assert_int_equal(cost_of_calls(65).send_wrs, 4);
	assert_int_equal(cost_of_calls(65).inlined, 0);
	rdma_pair_destroy_endpoints(&pair);
	assert_ok(slime_rpc_service_destroy(service));
	(void)state;
}

/* ---- the context's thread ---- */

static int (*post_send)(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
static unsigned n_told, n_untold;

static int count_told(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	if (atomic_load(&pair.a.ctx->progress.posting))
		n_told++;
	else
		n_untold++;
	return post_send(ibv, wr, bad);
}

/* A device without hardware does the work there: the thread would be in its way. */
static void post__of_a_transfer_or_a_message_is_known_to_the_thread(void **state)
{
	struct sl_transport *t = pair.a.ctx->transports[SLIME_TRANSPORT_RDMA];
	struct ibv_context *device = ((struct rdma_transport *)t)->nics[0]->device.ibv;
	struct slime_xfer x = rdma_a_and_b(&pair, 0, 0, 64);

	(void)state;
	n_told = n_untold = 0;
	post_send = device->ops.post_send;
	device->ops.post_send = count_told;
	assert_ok(slime_write(pair.a.ep, &x, 1, 0, pair.a.op));
	assert_int_equal(n_told, 1);
	assert_ok(rdma_wait(&pair, pair.a.op));
	assert_ok(slime_recv(pair.b.ep, pair.b.mr, 0, 64, 1, SLIME_TAG_ALL, pair.b.op));
	assert_ok(slime_send(pair.a.ep, pair.a.mr, 0, 64, 1, pair.a.op));
	assert_true(n_told >= 2);
	device->ops.post_send = post_send;
	assert_int_equal(n_untold, 0);
	assert_false(atomic_load(&pair.a.ctx->progress.posting));
	assert_ok(rdma_wait(&pair, pair.b.op));
	assert_ok(rdma_wait(&pair, pair.a.op));
}

/* ---- regions that are asked for ---- */

static unsigned long n_asks; /* pieces whose keys were looked after */

void __real_rdma_key_ask(struct rdma_conn *c, const struct slime_remote_mr *r, uint64_t offset,
			 uint64_t len);
void __wrap_rdma_key_ask(struct rdma_conn *c, const struct slime_remote_mr *r, uint64_t offset,
			 uint64_t len);

void __wrap_rdma_key_ask(struct rdma_conn *c, const struct slime_remote_mr *r, uint64_t offset,
			 uint64_t len)
{
	n_asks++;
	__real_rdma_key_ask(c, r, offset, len);
}

static unsigned n_asked(void)
{
	return rdma_endpoint_conn(pair.a.ep)->n_asked;
}

/* All of b's memory, as a region of which a knows nothing yet. */
static struct slime_mr *show_another(struct slime_remote_mr *remote)
{
	uint8_t desc[SLIME_MR_DESC_MAX];
	struct slime_mr *mr;
	int len;

	assert_ok(slime_mr_create(pair.b.ctx, pair.b.bytes, LEN, SLIME_ACCESS_REMOTE_WRITE, &mr));
	len = slime_mr_export(mr, desc, sizeof(desc));
	assert_true(len > 0);
	assert_ok(slime_remote_mr_import(desc, (size_t)len, remote));
	return mr;
}

#define WAITING 40

/* Of a batch that waits for its region each piece is looked at once. */
static void submit__behind_a_batch_that_waits_does_not_look_through_it(void **state)
{
	static struct slime_xfer xfers[MANY];
	struct slime_op *ops[WAITING];
	struct slime_remote_mr remote;
	struct slime_mr *mr = show_another(&remote);

	(void)state;
	spread(xfers, MANY, 32);
	for (size_t i = 0; i < MANY; i++)
		xfers[i].remote = &remote;
	memset(pair.a.bytes, 6, LEN);
	n_asks = 0;
	assert_ok(slime_write(pair.a.ep, xfers, MANY, 0, pair.a.op));
	assert_in_range(n_asks, 1, MANY + 1);
	n_asks = 0;
	for (unsigned i = 0; i < WAITING; i++) {
		assert_ok(slime_op_create(pair.a.ctx, NULL, &ops[i]));
		assert_ok(slime_write(pair.a.ep, &xfers[i], 1, 0, ops[i]));
	}
	assert_int_equal(n_asked(), 1);
	assert_in_range(n_asks, 1, 2 * WAITING);
	for (unsigned i = 0; i < WAITING; i++) {
		assert_ok(rdma_wait(&pair, ops[i]));
		assert_ok(slime_op_destroy(ops[i]));
	}
	assert_ok(rdma_wait(&pair, pair.a.op));
	assert_int_equal(pair.b.bytes[2 * 32 * (MANY - 1)], 6);
	rdma_pair_destroy_endpoints(&pair);
	assert_ok(slime_mr_destroy(mr));
}

#define N_CHUNKS 8

/* That there are several the answer to the first question tells. */
static void keys__of_a_region_in_chunks_are_asked_for_all_at_once(void **state)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;
	struct slime_xfer xfers[N_CHUNKS];
	unsigned most = 0;

	(void)state;
	attr.rdma_chunk = LEN / N_CHUNKS;
	assert_ok(rdma_pair_open(&pair, &attr, LEN));
	for (size_t i = 0; i < N_CHUNKS; i++)
		xfers[i] = rdma_a_and_b(&pair, i * LEN / N_CHUNKS, i * LEN / N_CHUNKS, 64);
	assert_ok(slime_write(pair.a.ep, xfers, N_CHUNKS, 0, pair.a.op));
	while (!slime_op_test(pair.a.op)) {
		slime_context_poll(pair.b.ctx);
		slime_context_poll(pair.a.ctx);
		if (n_asked() > most)
			most = n_asked();
	}
	assert_ok(slime_op_status(pair.a.op));
	assert_int_equal(most, N_CHUNKS - 1);
}

#define IN_PAIR(fn) cmocka_unit_test_prestate_setup_teardown(fn, begin, rdma_pair_end, &pair)
#define ALONE(fn) \
	cmocka_unit_test_prestate_setup_teardown(fn, rdma_pair_reset, rdma_pair_end, &pair)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		IN_PAIR(write__of_a_batch_is_one_post_and_one_completion),
		IN_PAIR(write__of_adjacent_pieces_is_one_request),
		IN_PAIR(write__of_pieces_adjacent_at_the_peer_gathers_them),
		ALONE(read__has_no_more_entries_than_its_device_takes_of_a_read),
		IN_PAIR(write__of_few_bytes_is_inline),
		ALONE(write__beyond_max_msg_sz_is_split),
		ALONE(write__of_few_bytes_takes_one_of_several_queue_pairs),
		ALONE(write__of_many_bytes_takes_all_queue_pairs_but_that_of_messages),
		ALONE(write__of_a_batch_is_one_post_for_each_queue_pair),
		IN_PAIR(read__of_more_pieces_than_any_queue_is_submitted_without_a_poll),
		IN_PAIR(read__of_more_pieces_than_any_queue_flows),
		ALONE(read__of_many_pieces_on_the_shallowest_queues_flows),
		ALONE(device__of_shallower_queues_is_refused),
		IN_PAIR(poll__under_load_takes_16_completions_at_a_time),
		IN_PAIR(progress__that_polls_arms_nothing),
		IN_PAIR(arm__is_one_call_and_not_repeated),
		IN_PAIR(post_recv__gives_buffers_back_in_lots),
		ALONE(call__of_few_bytes_is_inline),
		IN_PAIR(post__of_a_transfer_or_a_message_is_known_to_the_thread),
		IN_PAIR(submit__behind_a_batch_that_waits_does_not_look_through_it),
		ALONE(keys__of_a_region_in_chunks_are_asked_for_all_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
