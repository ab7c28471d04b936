/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A peer that holds the key and breaks the protocol of frames. The link ends with one line in the
 * log; nothing else notices.
 */
#include <arpa/inet.h>
#include <string.h>

#include "base/clock.h"
#include "base/list.h"
#include "src/progress/context.h"
#include "src/transport/rdma/conn.h"
#include "src/transport/rdma/nic.h"
#include "src/transport/rdma/qp.h"
#include "src/transport/rdma/transport.h"
#include "src/transport/rdma/wire.h"
#include "tests/libslime/transport/rdma/pair.h"
#include "tests/support/log_lines.h"
#include "tests/support/random.h"

#define LEN	  4096
#define ROUNDS	  60
#define IN_A_ROW  8 /* frames at random */
#define KINDS_END 160

/* a is the one that breaks it. */
static struct rdma_pair pair;
static struct slime_endpoint *other_a, *other_b; /* of a link of the same contexts */

/* ---- links ---- */

static int begin(void **state)
{
	struct slime_context_attr attr = rdma_quick();

	rdma_pair_reset(state);
	log_lines_keep();
	assert_ok(rdma_pair_open(&pair, &attr, LEN));
	other_a = pair.a.ep;
	other_b = pair.b.ep;
	pair.a.ep = pair.b.ep = NULL;
	return rdma_pair_connect(&pair);
}

static void end_link(void)
{
	rdma_pair_destroy_endpoints(&pair);
}

static int end(void **state)
{
	end_link();
	pair.a.ep = other_a;
	pair.b.ep = other_b;
	assert_ok(rdma_write_now(&pair, LEN, 9));
	rdma_exchange_a_message(&pair);
	log_lines_release();
	return rdma_pair_end(state);
}

static enum slime_endpoint_state state_of(const struct rdma_end *e, struct slime_endpoint_info *out)
{
	slime_endpoint_info(e->ep, out);
	return out->state;
}

static void assert_breaks(int cause, const char *why)
{
	struct slime_endpoint_info info;
	uint64_t until = sl_deadline_ns(60000);

	while (state_of(&pair.b, &info) == SLIME_ENDPOINT_CONNECTED) {
		rdma_poll(&pair);
		assert_true(sl_clock_ns() < until);
	}
	assert_int_equal(info.cause, cause);
	rdma_assert_says(&info, why);
	assert_int_equal(log_lines_with(why), 1);
}

static void link_again(void)
{
	end_link();
	log_lines_keep();
	assert_ok(rdma_pair_connect(&pair));
}

static struct rdma_qp *qp_of_a(void)
{
	return rdma_endpoint_conn(pair.a.ep)->qps[0];
}

/* ---- what it sends, of which its own library knows nothing ---- */

static void post(struct ibv_send_wr *wr, const void *bytes, uint32_t len)
{
	struct ibv_sge sge = { .addr = (uintptr_t)bytes, .length = len };
	struct ibv_send_wr *bad;

	wr->wr_id = UINT64_MAX;
	wr->sg_list = &sge;
	wr->num_sge = 1;
	wr->send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
	assert_ok(ibv_post_send(qp_of_a()->ibv, wr, &bad));
}

static void send_bytes(const void *bytes, uint32_t len)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };

	post(&wr, bytes, len);
}

static void say(const struct sl_msg *m)
{
	uint8_t frame[RDMA_FRAME_LEN];

	rdma_frame_write(m, frame);
	send_bytes(frame, sizeof(frame));
}

/* Into the first slot of sends, and it says that it was that one. */
static void fill_slot(const struct sl_msg *m, uint32_t imm)
{
	const struct rdma_conn *c = rdma_endpoint_conn(pair.a.ep);
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.imm_data = htonl(imm),
		.wr.rdma.remote_addr = c->peer.slots,
		.wr.rdma.rkey = c->peer.rails[0].slots_key,
	};
	uint8_t frame[RDMA_FRAME_LEN];

	rdma_frame_write(m, frame);
	post(&wr, frame, sizeof(frame));
}

/* ---- frames ---- */

#define BROKEN "the peer broke the protocol"

static void frame__malformed_or_out_of_place_ends_the_link(void **state)
{
	static const struct sl_msg frames[] = {
		{ .kind = 0 },
		{ .kind = SL_MSG_KINDS },
		{ .kind = RDMA_READY - 1 },
		{ .kind = RDMA_KEYS + 1 },
		/* Keys of rails that the peer does not offer. */
		{ .kind = RDMA_KEYS },
		{ .kind = UINT8_MAX },
		/* What belongs into a slot, or into one that there is not. */
		{ .kind = SL_MSG_IMM, .len = 1 },
		{ .kind = SL_MSG_SEND, .len = 1 },
		{ .kind = SL_MSG_SEND, .slot = SL_SEND_SLOTS },
		{ .kind = SL_MSG_REQUEST, .slot = SL_CALL_SLOTS },
		{ .kind = SL_MSG_REPLY, .slot = UINT16_MAX },
		/* Answers to what nobody asked. */
		{ .kind = SL_MSG_SEND_DONE },
		{ .kind = SL_MSG_REPLY },
		{ .kind = RDMA_OPENED, .w = { 1, RDMA_ANSWER_STALE } },
		{ .kind = RDMA_OPENED, .len = UINT32_MAX, .w = { UINT64_MAX, UINT64_MAX } },
		{ .kind = RDMA_WITHDRAWN, .w = { 1 } },
		{ .kind = RDMA_WITHDRAWN, .len = UINT32_MAX },
		/* Rails that there are not, in lives that there are not; and one that is in use. */
		{ .kind = RDMA_STOPPED, .slot = 1 },
		{ .kind = RDMA_STOPPED, .slot = UINT16_MAX },
		{ .kind = RDMA_STOPPED, .w = { 1 } },
		{ .kind = RDMA_RAIL, .slot = RDMA_RAILS_MAX },
		{ .kind = RDMA_RAIL, .w = { UINT64_MAX } },
		{ .kind = RDMA_RAIL },
		{ .kind = RDMA_RISEN, .slot = 1 },
		{ .kind = RDMA_RISEN, .w = { 1 } },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(frames) / sizeof(frames[0]); i++) {
		say(&frames[i]);
		assert_breaks(-EPROTO, BROKEN);
		link_again();
	}
}

/* It was, once, and the answer has come. */
static void opened__that_comes_again_ends_the_link(void **state)
{
	struct slime_xfer x = { .local = pair.b.mr, .remote = &pair.a.remote, .len = LEN };
	const struct slime_remote_mr *r = &pair.a.remote;

	(void)state;
	assert_ok(slime_read(pair.b.ep, &x, 1, 0, pair.b.op));
	assert_ok(rdma_wait(&pair, pair.b.op));
	say(&(struct sl_msg){
		.kind = RDMA_OPENED,
		.len = r->id,
		.w = { r->generation, RDMA_ANSWER_OK, r->addr, LEN, UINT64_MAX, UINT64_MAX },
	});
	assert_breaks(-EPROTO, BROKEN);
}

static void frame__of_another_length_ends_the_link(void **state)
{
	static const uint32_t lens[] = { 0, 1, RDMA_FRAME_LEN - 1, RDMA_FRAME_LEN + 1,
					 RDMA_FRAME_PITCH };
	const uint8_t bytes[RDMA_FRAME_PITCH] = { RDMA_CREDIT };

	(void)state;
	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		send_bytes(bytes, lens[i]);
		assert_breaks(-EPROTO, BROKEN);
		link_again();
	}
}

/* The device says so. */
static void frame__longer_than_a_receive_ends_the_link(void **state)
{
	const uint8_t bytes[RDMA_FRAME_PITCH + 1] = { RDMA_CREDIT };

	(void)state;
	send_bytes(bytes, sizeof(bytes));
	assert_breaks(-EMSGSIZE, "a message longer than its buffer");
}

static void credit__that_shrinks_ends_the_link(void **state)
{
	(void)state;
	say(&(struct sl_msg){ .kind = RDMA_CREDIT, .w = { 3 } });
	say(&(struct sl_msg){ .kind = RDMA_CREDIT, .w = { 2 } });
	assert_breaks(-EPROTO, BROKEN);
}

static void slot__whose_frame_is_of_another_ends_the_link(void **state)
{
	static const struct {
		struct sl_msg m;
		uint32_t imm;
	} wrong[] = {
		{ { .kind = SL_MSG_SEND, .len = 1 }, RDMA_IMM_SLOT(SL_AREAS, 0) },
		{ { .kind = SL_MSG_SEND, .len = 1 }, UINT32_MAX },
		{ { .kind = SL_MSG_SEND, .len = 1 }, RDMA_IMM_SLOT(SL_AREA_SEND, SL_SEND_SLOTS) },
		{ { .kind = SL_MSG_SEND, .slot = 1, .len = 1 }, RDMA_IMM_SLOT(SL_AREA_SEND, 0) },
		{ { .kind = SL_MSG_REPLY, .len = 1 }, RDMA_IMM_SLOT(SL_AREA_SEND, 0) },
		{ { .kind = SL_MSG_IMM, .len = 1 }, RDMA_IMM_SLOT(SL_AREA_SEND, 0) },
		{ { .kind = RDMA_CREDIT, .len = 1 }, RDMA_IMM_SLOT(SL_AREA_SEND, 0) },
		{ { .kind = SL_MSG_SEND }, RDMA_IMM_SLOT(SL_AREA_SEND, 0) },
		{ { .kind = SL_MSG_SEND, .len = SL_SLOT_SMALL + 1 },
		  RDMA_IMM_SLOT(SL_AREA_SEND, 0) },
		{ { .kind = SL_MSG_SEND, .len = UINT32_MAX }, RDMA_IMM_SLOT(SL_AREA_SEND, 0) },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		fill_slot(&wrong[i].m, wrong[i].imm);
		assert_breaks(-EPROTO, BROKEN);
		link_again();
	}
}

static void assert_goes_on(void)
{
	struct slime_endpoint_info info;

	rdma_settle(&pair);
	assert_int_equal(state_of(&pair.b, &info), SLIME_ENDPOINT_CONNECTED);
	assert_int_equal(state_of(&pair.a, &info), SLIME_ENDPOINT_CONNECTED);
	assert_ok(rdma_write_now(&pair, LEN, 7));
}

/* Who is up has no use for it, whatever it proves. */
static void ready__that_is_said_again_is_no_news(void **state)
{
	(void)state;
	say(&(struct sl_msg){ .kind = RDMA_READY, .w = { 1, 2, 3, 4 } });
	assert_goes_on();
}

/* Words of a life that is over, and of what is so anyhow. */
static void rail__of_which_nothing_new_is_said_goes_on(void **state)
{
	(void)state;
	say(&(struct sl_msg){ .kind = RDMA_RISEN });
	assert_goes_on();
}

/* ---- before the link is up ---- */

static struct rdma_conn *begin_to_connect(void)
{
	const struct rdma_transport *t = rdma_of(pair.a.ctx->transports[SLIME_TRANSPORT_RDMA]);

	end_link();
	log_lines_keep();
	assert_ok(rdma_pair_create_endpoints(&pair));
	rdma_busy_begin(&pair.a);
	assert_ok(rdma_pair_begin_to_connect(&pair.a, &pair.b));
	assert_ok(rdma_pair_begin_to_connect(&pair.b, &pair.a));
	/* The other one is the first. */
	while (t->conns.prev == t->conns.next)
		rdma_poll(&pair);
	return SL_CONTAINER_OF(t->conns.prev, struct rdma_conn, link);
}

static void assert_fails(int status, const char *why)
{
	struct slime_endpoint_info info;

	assert_int_equal(rdma_wait(&pair, pair.b.op), status);
	slime_endpoint_info(pair.b.ep, &info);
	rdma_assert_says(&info, why);
}

static void ready__without_the_key_makes_no_link(void **state)
{
	struct rdma_conn *c = begin_to_connect();

	(void)state;
	c->proof[0] ^= 1;
	rdma_busy_end();
	assert_fails(-EACCES, "the peer does not hold the link's key");
}

static int (*post_send)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
static const struct ibv_qp *liar;

/* Its greeting becomes another frame. */
static int post_credit(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	if (qp == liar && wr->opcode == IBV_WR_SEND)
		*(uint8_t *)(uintptr_t)wr->sg_list->addr = RDMA_CREDIT;
	return post_send(qp, wr, bad);
}

static void frame__before_ready_makes_no_link(void **state)
{
	const struct rdma_qp *q = begin_to_connect()->qps[0];
	struct ibv_context *device = q->nic->device.ibv;

	(void)state;
	liar = q->ibv;
	post_send = device->ops.post_send;
	device->ops.post_send = post_credit;
	rdma_busy_end();
	assert_fails(-EPROTO, "the peer sent a message before it proved its identity");
	device->ops.post_send = post_send;
}

/* ---- at random ---- */

static struct sl_msg frame_at_random(uint64_t *random)
{
	struct sl_msg m = {
		.kind = (uint8_t)(next_random(random) % KINDS_END),
		.flags = (uint8_t)(next_random(random) % 4),
		.slot = (uint16_t)(next_random(random) % 3),
		.len = (uint32_t)(next_random(random) % 3),
	};

	for (size_t i = 0; i < sizeof(m.w) / sizeof(m.w[0]); i++)
		m.w[i] = next_random(random) % 4 ? next_random(random) % 3 : next_random(random);
	return m;
}

/* Kinds that there are, more often than not. */
static void frames__at_random_harm_nobody_else(void **state)
{
	uint64_t random = 1;

	(void)state;
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct slime_endpoint_info info;

		for (unsigned k = 0; k < IN_A_ROW; k++) {
			struct sl_msg m = frame_at_random(&random);

			if (state_of(&pair.a, &info) != SLIME_ENDPOINT_CONNECTED)
				break;
			say(&m);
			slime_context_poll(pair.b.ctx);
		}
		link_again();
	}
}

#define LINKED(fn) cmocka_unit_test_prestate_setup_teardown(fn, begin, end, &pair)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		LINKED(frame__malformed_or_out_of_place_ends_the_link),
		LINKED(opened__that_comes_again_ends_the_link),
		LINKED(frame__of_another_length_ends_the_link),
		LINKED(frame__longer_than_a_receive_ends_the_link),
		LINKED(credit__that_shrinks_ends_the_link),
		LINKED(slot__whose_frame_is_of_another_ends_the_link),
		LINKED(ready__that_is_said_again_is_no_news),
		LINKED(rail__of_which_nothing_new_is_said_goes_on),
		LINKED(ready__without_the_key_makes_no_link),
		LINKED(frame__before_ready_makes_no_link),
		LINKED(frames__at_random_harm_nobody_else),
	};

	return cmocka_run_group_tests_name("rdma_hostile", tests, NULL, NULL);
}
