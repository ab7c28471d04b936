/* SPDX-License-Identifier: Apache-2.0 */
/* A link of eight rails, the most there are: rail r is fake<r> of a and fake<8 + r> of b. */
#include <string.h>

#include "base/clock.h"
#include "src/transport/rdma/conn.h"
#include "src/transport/rdma/limits.h"
#include "src/transport/rdma/qp.h"
#include "src/transport/rdma/wire.h"
#include "tests/libslime/transport/rdma/held_clock.h"
#include "tests/libslime/transport/rdma/pair.h"

#define RAILS	SLIME_RAILS_MAX
#define LEN	(8u << 20)
#define OP_LEN	(1u << 20)
#define N_OPS	8 /* at a time */
#define ROUNDS	16
#define STEP_NS (10 * SL_NS_PER_US)
#define SENDS	64 /* that may be on the way */
#define MESSAGE 64

static struct rdma_pair pair;
static struct slime_rail_info rails[RAILS];

static void open_pair(const struct slime_context_attr *from)
{
	struct slime_context_attr attr = *from;

	for (unsigned i = 2; i < 2 * RAILS; i++)
		(void)fakeverbs_device(i);
	attr.rdma_devices = "fake0,fake1,fake2,fake3,fake4,fake5,fake6,fake7;"
			    "fake8,fake9,fake10,fake11,fake12,fake13,fake14,fake15";
	assert_ok(rdma_pair_open(&pair, &attr, LEN));
	assert_int_equal(slime_endpoint_rails(pair.a.ep, rails, RAILS), RAILS);
}

/* No looks at what is idle, which would move something. */
static struct slime_context_attr without_probes(void)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;

	attr.rdma_timeout = 8; /* 1 ms */
	attr.rdma_retry_count = 2;
	attr.tcp_user_timeout_ms = 3600 * 1000;
	return attr;
}

/* ---- shares ---- */

/* Until all ops have ended; time goes on when nothing else does. */
static void await_ops(struct slime_op *const ops[N_OPS])
{
	unsigned n_left = N_OPS;

	while (n_left) {
		while (slime_context_poll(pair.a.ctx) + slime_context_poll(pair.b.ctx) > 0)
			;
		held_clock_step(STEP_NS);
		n_left = 0;
		for (unsigned i = 0; i < N_OPS; i++)
			n_left += !slime_op_test(ops[i]);
	}
}

static void write_all(struct slime_op *const ops[N_OPS])
{
	struct slime_xfer xfers[N_OPS];

	for (unsigned i = 0; i < N_OPS; i++) {
		xfers[i] = rdma_a_and_b(&pair, i * OP_LEN, i * OP_LEN, OP_LEN);
		assert_ok(slime_write(pair.a.ep, &xfers[i], 1, 0, ops[i]));
	}
	await_ops(ops);
	for (unsigned i = 0; i < N_OPS; i++)
		assert_ok(slime_op_status(ops[i]));
}

/* The devices take as long for each request. */
static void rails__of_one_speed_carry_an_eighth_of_the_bytes_each(void **state)
{
	const uint64_t share = (uint64_t)ROUNDS * LEN / RAILS;
	struct slime_context_attr attr = without_probes();
	struct slime_op *ops[N_OPS];

	(void)state;
	open_pair(&attr);
	assert_ok(rdma_write_now(&pair, MESSAGE, 1));
	for (unsigned i = 0; i < N_OPS; i++)
		assert_ok(slime_op_create(pair.a.ctx, NULL, &ops[i]));
	held_clock_begin();
	fakeverbs_set_delay(STEP_NS, STEP_NS, 1);
	for (unsigned i = 0; i < ROUNDS; i++) {
		rdma_fill(pair.a.bytes, LEN, i);
		write_all(ops);
		assert_memory_equal(pair.b.bytes, pair.a.bytes, LEN);
	}
	fakeverbs_set_delay(0, 0, 0);
	held_clock_end();
	assert_int_equal(slime_endpoint_rails(pair.a.ep, rails, RAILS), RAILS);
	for (unsigned i = 0; i < RAILS; i++) {
		assert_int_equal(rails[i].state, SLIME_RAIL_UP);
		assert_in_range(rails[i].bytes, share - share / 20, share + share / 20);
	}
	for (unsigned i = 0; i < N_OPS; i++)
		assert_ok(slime_op_destroy(ops[i]));
}

/* ---- keys ---- */

static void keys__of_chunks_reach_all_rails(void **state)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;

	(void)state;
	attr.rdma_chunk = 1u << 20;
	open_pair(&attr);
	assert_ok(rdma_write_now(&pair, LEN, 3));
	assert_ok(rdma_read_now(&pair, LEN, 4));
	assert_int_equal(slime_endpoint_rails(pair.a.ep, rails, RAILS), RAILS);
	for (unsigned i = 0; i < RAILS; i++)
		assert_true(rails[i].bytes > 0);
}

/* Of b, which its own library knows nothing of. */
static void say(const struct sl_msg *m)
{
	uint8_t frame[RDMA_FRAME_LEN];
	struct ibv_sge sge = { .addr = (uintptr_t)frame, .length = sizeof(frame) };
	struct ibv_send_wr *bad, wr = {
		.wr_id = UINT64_MAX,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE,
	};

	rdma_frame_write(m, frame);
	assert_ok(ibv_post_send(rdma_endpoint_conn(pair.b.ep)->lead->ibv, &wr, &bad));
}

static void assert_breaks(void)
{
	struct slime_endpoint_info info;
	uint64_t end = sl_deadline_ns(60000);

	while (!rdma_is_broken(&pair.a)) {
		rdma_poll(&pair);
		assert_true(sl_clock_ns() < end);
	}
	slime_endpoint_info(pair.a.ep, &info);
	assert_int_equal(info.cause, -EPROTO);
}

/* a asks for keys, b's answer stays away, and another comes in its place. */
static void keys__without_the_rest_of_them_end_the_link(void **state)
{
	struct slime_context_attr attr = without_probes();
	const struct slime_remote_mr *r = &pair.b.remote;
	struct slime_xfer x;

	(void)state;
	open_pair(&attr);
	x = rdma_a_and_b(&pair, 0, 0, MESSAGE);
	assert_ok(slime_write(pair.a.ep, &x, 1, 0, pair.a.op));
	say(&(struct sl_msg){
		.kind = RDMA_OPENED,
		.len = r->id,
		.w = { r->generation, RDMA_ANSWER_OK, r->addr, LEN, UINT64_MAX, UINT64_MAX },
	});
	while (slime_context_poll(pair.a.ctx) > 0)
		;
	assert_breaks();
	assert_int_equal(rdma_wait(&pair, pair.a.op), -ECONNRESET);
}

static void keys__twice_without_what_they_are_of_end_the_link(void **state)
{
	struct slime_context_attr attr = without_probes();

	(void)state;
	open_pair(&attr);
	say(&(struct sl_msg){ .kind = RDMA_KEYS });
	say(&(struct sl_msg){ .kind = RDMA_KEYS });
	assert_breaks();
}

/* ---- receives ---- */

/* A greeting may have come over another rail than the first, if the machine is slow. */
static void receives__of_a_link_are_few_on_rails_that_no_message_takes(void **state)
{
	struct slime_context_attr attr = without_probes();
	unsigned n_few = 0;

	(void)state;
	open_pair(&attr);
	for (unsigned i = 0; i < RAILS; i++) {
		const struct rdma_qp *q = rdma_endpoint_conn(pair.a.ep)->paths[i].qps[0];
		uint32_t most = i && !q->n_received ? RDMA_RECEIVES_IDLE : RDMA_RECEIVES;

		assert_in_range(q->n_posted, 1, most);
		n_few += most == RDMA_RECEIVES_IDLE;
	}
	assert_true(n_few > 0);
}

static bool all_ended(struct slime_op *const ops[SENDS])
{
	for (unsigned i = 0; i < SENDS; i++) {
		if (!slime_op_test(ops[i]))
			return false;
	}
	return true;
}

/* As many messages as there may be leave when the rail that carried them is gone. */
static void send_all(struct slime_op *const sends[SENDS], struct slime_op *const recvs[SENDS],
		     uint8_t value)
{
	uint64_t end = sl_deadline_ns(60000);

	memset(pair.a.bytes, value, LEN);
	for (unsigned i = 0; i < SENDS; i++)
		assert_ok(slime_recv(pair.b.ep, pair.b.mr, i * MESSAGE, MESSAGE, 1, SLIME_TAG_ALL,
				     recvs[i]));
	for (unsigned i = 0; i < SENDS; i++)
		assert_ok(slime_send(pair.a.ep, pair.a.mr, i * MESSAGE, MESSAGE, 1, sends[i]));
	while (!all_ended(sends) || !all_ended(recvs)) {
		rdma_poll(&pair);
		assert_true(sl_clock_ns() < end);
	}
	for (unsigned i = 0; i < SENDS; i++) {
		assert_ok(slime_op_status(recvs[i]));
		assert_int_equal(pair.b.bytes[i * MESSAGE], value);
	}
}

static void messages__find_receives_on_rail_after_rail_that_takes_over(void **state)
{
	struct slime_context_attr attr = without_probes();
	struct slime_op *sends[SENDS], *recvs[SENDS];

	(void)state;
	open_pair(&attr);
	for (unsigned i = 0; i < SENDS; i++) {
		assert_ok(slime_op_create(pair.a.ctx, NULL, &sends[i]));
		assert_ok(slime_op_create(pair.b.ctx, NULL, &recvs[i]));
	}
	for (unsigned i = 0; i < RAILS; i++) {
		send_all(sends, recvs, (uint8_t)(i + 1));
		assert_int_equal(fakeverbs_counts().rnr_naks, 0);
		if (i + 1 < RAILS)
			fakeverbs_set_cut(i, RAILS + i, true);
	}
	assert_ok(rdma_write_now(&pair, LEN, 9));
	for (unsigned i = 0; i < SENDS; i++) {
		assert_ok(slime_op_destroy(sends[i]));
		assert_ok(slime_op_destroy(recvs[i]));
	}
}

#define TEST(fn)                                               \
	{                                                      \
#fn, fn, rdma_pair_reset, rdma_pair_end, &pair \
	}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(rails__of_one_speed_carry_an_eighth_of_the_bytes_each),
		TEST(keys__of_chunks_reach_all_rails),
		TEST(keys__without_the_rest_of_them_end_the_link),
		TEST(keys__twice_without_what_they_are_of_end_the_link),
		TEST(receives__of_a_link_are_few_on_rails_that_no_message_takes),
		TEST(messages__find_receives_on_rail_after_rail_that_takes_over),
	};

	return cmocka_run_group_tests_name("rdma_rails_eight", tests, NULL, NULL);
}
