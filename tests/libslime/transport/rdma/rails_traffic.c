/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traffic of all kinds, both ways, over two rails that fail at any moment, one at a time, and come
 * back: no op fails, bytes and immediates and messages arrive once and in their order, and nothing
 * is placed over newer data. The seed determines faults and delays; --seed N, --faults N.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tests/libslime/transport/rdma/pair.h"
#include "tests/support/random.h"

#define RAILS	    2
#define AREA	    (192u * 1024) /* of a lane: more than one queue pair takes of an op */
#define SMALL	    4096	  /* whose immediates go along with its bytes */
#define PIECES	    8
#define WINDOW	    6
#define MESSAGE	    2048
#define NEWER	    0xee
#define PATIENCE_NS (60 * SL_NS_PER_S)

enum kind { WRITE, READ, IMM, KINDS };

/* Bytes that move again and again between the same two places. */
struct lane {
	struct rdma_end *from, *to; /* submits; the other */
	enum kind kind;
	unsigned number;
	uint64_t offset, len;
	struct slime_op *op;
	struct slime_xfer xfers[PIECES];
	bool busy, stamped;
	uint32_t seq;	/* of what moves, or moved */
	uint32_t heard; /* immediates */
};

/* Messages one way, so many on the way at a time. */
struct stream {
	struct rdma_end *from, *to;
	uint64_t from_offset, to_offset;
	struct slime_op *sends[WINDOW], *recvs[WINDOW];
	uint32_t sent, got;
	uint32_t n_submitted, n_posted;
};

#define LANES (2 * KINDS * 2)
#define LEN   (LANES * (uint64_t)AREA + 4 * WINDOW * MESSAGE)

static struct rdma_pair pair;
static struct lane lanes[LANES];
static struct stream streams[2];
static struct slime_op *imms[2];
static uint64_t seed = 1;
static unsigned n_faults = 10;

/* ---- what went wrong ---- */

static void tell_end(const char *name, const struct rdma_end *e)
{
	struct slime_rail_info rails[RAILS];
	struct slime_endpoint_info info;
	size_t n = slime_endpoint_rails(e->ep, rails, RAILS);

	slime_endpoint_info(e->ep, &info);
	print_error("%s: state %d, cause %d (%s)\n", name, info.state, info.cause, info.cause_text);
	for (size_t i = 0; i < n; i++)
		print_error("  rail %zu %s: %s\n", i, slime_rail_state_name(rails[i].state),
			    rails[i].error);
}

/* What is expected, or how it is with the link, too. */
static void expect(bool met, const char *what)
{
	if (met)
		return;
	tell_end("a", &pair.a);
	tell_end("b", &pair.b);
	fail_msg("%s", what);
}

/* ---- bytes ---- */

static uint8_t *place(const struct lane *l, const struct rdma_end *e)
{
	return e->bytes + l->offset;
}

static void fill(const struct lane *l, uint8_t *at)
{
	uint64_t n = (uint64_t)l->number << 56 | (uint64_t)l->seq << 24;

	for (uint64_t i = 0; i < l->len; i += sizeof(n), n++)
		memcpy(at + i, &n, sizeof(n));
}

static void check(const struct lane *l, const uint8_t *at)
{
	static uint8_t expected[AREA];

	fill(l, expected);
	if (memcmp(at, expected, l->len))
		fail_msg("lane %u, kind %d, round %u: wrong bytes", l->number, l->kind, l->seq);
}

static void check_stamp(const struct lane *l, const uint8_t *at)
{
	static uint8_t newer[AREA];

	memset(newer, NEWER, l->len);
	if (memcmp(at, newer, l->len))
		fail_msg("lane %u, kind %d, round %u: newer data were overwritten", l->number,
			 l->kind, l->seq);
}

/* ---- lanes ---- */

static struct rdma_end *target(const struct lane *l)
{
	return l->kind == READ ? l->from : l->to;
}

/* What arrived is checked, and newer data put in its place. */
static void take(struct lane *l)
{
	check(l, place(l, target(l)));
	memset(place(l, target(l)), NEWER, l->len);
	l->stamped = true;
}

static int submit(struct lane *l)
{
	struct slime_endpoint *ep = l->from->ep;

	switch (l->kind) {
	case READ:
		return slime_read(ep, l->xfers, PIECES, 0, l->op);
	case WRITE:
		return slime_write(ep, l->xfers, PIECES, 0, l->op);
	default:
		return slime_write_imm(ep, l->xfers, PIECES, 0, l->number << 24 | l->seq, l->op);
	}
}

static void begin_lane(struct lane *l)
{
	uint64_t len = l->len / PIECES;

	if (l->stamped)
		check_stamp(l, place(l, target(l)));
	l->seq++;
	fill(l, place(l, l->kind == READ ? l->to : l->from));
	for (unsigned i = 0; i < PIECES; i++) {
		l->xfers[i] = (struct slime_xfer){ .local = l->from->mr,
						   .remote = &l->to->remote,
						   .local_offset = l->offset + i * len,
						   .remote_offset = l->offset + i * len,
						   .len = len };
	}
	l->stamped = false;
	l->busy = true;
	expect(submit(l) == 0, "an op is not taken");
}

static void step_lane(struct lane *l, uint64_t *random)
{
	if (l->busy && slime_op_test(l->op) && (l->kind != IMM || l->heard == l->seq)) {
		expect(slime_op_status(l->op) == 0, "an op failed");
		l->busy = false;
		if (l->kind != IMM)
			take(l);
	}
	if (!l->busy && next_random(random) % 4 == 0)
		begin_lane(l);
}

static void step_imms(unsigned e)
{
	struct rdma_end *end = e ? &pair.b : &pair.a;
	struct lane *l;
	uint32_t imm;

	if (!slime_op_test(imms[e]))
		return;
	expect(slime_op_status(imms[e]) == 0, "no immediate comes any more");
	imm = slime_op_imm(imms[e]);
	assert_in_range(imm >> 24, 0, LANES - 1);
	l = &lanes[imm >> 24];
	assert_ptr_equal(l->to, end);
	assert_int_equal(imm & 0xffffff, l->seq);
	assert_int_equal(l->heard + 1, l->seq);
	l->heard = l->seq;
	take(l);
	assert_ok(slime_imm_recv(end->ep, imms[e]));
}

/* ---- streams ---- */

static uint64_t message_len(uint32_t n)
{
	return n % 5 ? 16 + n % 900 : MESSAGE;
}

static void post_recvs(struct stream *s)
{
	while (s->n_posted - s->got < WINDOW) {
		unsigned i = s->n_posted++ % WINDOW;

		assert_ok(slime_recv(s->to->ep, s->to->mr, s->to_offset + i * MESSAGE, MESSAGE, 7,
				     SLIME_TAG_ALL, s->recvs[i]));
	}
}

static void step_stream(struct stream *s)
{
	post_recvs(s);
	while (s->got != s->n_posted && slime_op_test(s->recvs[s->got % WINDOW])) {
		unsigned i = s->got % WINDOW;
		const uint8_t *at = s->to->bytes + s->to_offset + i * MESSAGE;
		uint32_t n;

		assert_ok(slime_op_status(s->recvs[i]));
		memcpy(&n, at, sizeof(n));
		assert_int_equal(n, s->got);
		assert_int_equal(slime_op_bytes(s->recvs[i]), message_len(n));
		assert_int_equal(at[message_len(n) - 1], (uint8_t)n);
		s->got++;
	}
	while (s->sent != s->n_submitted && slime_op_test(s->sends[s->sent % WINDOW]))
		assert_ok(slime_op_status(s->sends[s->sent++ % WINDOW]));
	while (s->n_submitted - s->sent < WINDOW) {
		uint32_t n = s->n_submitted++;
		uint64_t offset = s->from_offset + (n % WINDOW) * MESSAGE;

		memset(s->from->bytes + offset, (uint8_t)n, MESSAGE);
		memcpy(s->from->bytes + offset, &n, sizeof(n));
		assert_ok(slime_send(s->from->ep, s->from->mr, offset, message_len(n), 7,
				     s->sends[n % WINDOW]));
	}
}

/* ---- faults ---- */

static bool is_up(unsigned rail)
{
	struct slime_rail_info a[RAILS], b[RAILS];

	assert_int_equal(slime_endpoint_rails(pair.a.ep, a, RAILS), RAILS);
	assert_int_equal(slime_endpoint_rails(pair.b.ep, b, RAILS), RAILS);
	return a[rail].state == SLIME_RAIL_UP && b[rail].state == SLIME_RAIL_UP;
}

enum fault_kind {
	CUT,
	PORT_DOWN,
	NO_ACKS, /* what its queue pair sends arrives, and that is not heard of */
	QP_FATAL,
	FAULTS,
};

struct fault {
	enum fault_kind kind;
	unsigned device;
};

/* Rail r is fake<r> of a and fake<2 + r> of b. */
static unsigned rail_of(const struct fault *f)
{
	return f->device % RAILS;
}

static uint32_t any_qp(unsigned device, uint64_t *random)
{
	uint32_t qps[8];
	size_t n = fakeverbs_qps(device, qps, 8);

	return qps[next_random(random) % n];
}

static void do_fault(struct fault *f, uint64_t *random)
{
	f->kind = (enum fault_kind)(next_random(random) % FAULTS);
	f->device = (unsigned)(next_random(random) % (2 * RAILS));
	switch (f->kind) {
	case CUT:
		fakeverbs_set_cut(rail_of(f), RAILS + rail_of(f), true);
		break;
	case PORT_DOWN:
		fakeverbs_set_port_state(f->device, 1, IBV_PORT_DOWN);
		break;
	case NO_ACKS:
		fakeverbs_lose_acks(f->device, any_qp(f->device, random), UINT_MAX);
		break;
	default:
		fakeverbs_raise_qp(f->device, any_qp(f->device, random), IBV_EVENT_QP_FATAL);
	}
}

/* Also tells both ends: they would try by themselves, and wait longer and longer in between. */
static void mend(const struct fault *f)
{
	fakeverbs_set_cut(rail_of(f), RAILS + rail_of(f), false);
	fakeverbs_set_port_state(f->device, 1, IBV_PORT_ACTIVE);
}

static void try_both(unsigned rail)
{
	fakeverbs_raise(rail, IBV_EVENT_PORT_ACTIVE, 1);
	fakeverbs_raise(RAILS + rail, IBV_EVENT_PORT_ACTIVE, 1);
}

/* ---- all of it ---- */

static void step(uint64_t *random)
{
	for (unsigned i = 0; i < 8; i++)
		rdma_poll(&pair);
	for (unsigned i = 0; i < LANES; i++)
		step_lane(&lanes[i], random);
	step_imms(0);
	step_imms(1);
	step_stream(&streams[0]);
	step_stream(&streams[1]);
}

static void steps(uint64_t *random, uint64_t n)
{
	while (n--)
		step(random);
}

/* As long as it is not so; asking for a try from time to time. */
static void steps_until(uint64_t *random, unsigned rail, bool up)
{
	uint64_t end = sl_clock_ns() + PATIENCE_NS;

	while (is_up(rail) != up) {
		if (up && next_random(random) % 64 == 0)
			try_both(rail);
		step(random);
		expect(sl_clock_ns() < end, up ? "a rail does not return" : "a rail does not stop");
	}
}

static uint64_t work_done(void)
{
	uint64_t n = streams[0].got + streams[1].got;

	for (unsigned i = 0; i < LANES; i++)
		n += lanes[i].seq;
	return n;
}

static void traffic__survives_any_one_rail(void **state)
{
	uint64_t random = seed;

	(void)state;
	steps(&random, 50);
	for (unsigned i = 0; i < n_faults; i++) {
		uint64_t before;
		struct fault f;

		do_fault(&f, &random);
		if (f.kind != QP_FATAL)
			steps_until(&random, rail_of(&f), false);
		/* It goes on meanwhile. */
		before = work_done();
		while (work_done() < before + LANES)
			step(&random);
		mend(&f);
		steps(&random, next_random(&random) % 20);
		steps_until(&random, rail_of(&f), true);
		steps(&random, next_random(&random) % 20);
	}
}

static struct slime_op *new_op(struct rdma_end *e)
{
	struct slime_op *op;

	assert_ok(slime_op_create(e->ctx, NULL, &op));
	return op;
}

static void make_stream(struct stream *s, struct rdma_end *from, struct rdma_end *to, unsigned i)
{
	*s = (struct stream){ .from = from, .to = to };
	s->from_offset = LANES * (uint64_t)AREA + (2 * i + 0) * WINDOW * MESSAGE;
	s->to_offset = LANES * (uint64_t)AREA + (2 * i + 1) * WINDOW * MESSAGE;
	for (unsigned k = 0; k < WINDOW; k++) {
		s->sends[k] = new_op(from);
		s->recvs[k] = new_op(to);
	}
}

static int begin(void **state)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;

	(void)state;
	fakeverbs_reset();
	(void)fakeverbs_device(2);
	(void)fakeverbs_device(3);
	attr.rdma_devices = "fake0,fake1;fake2,fake3";
	attr.rdma_qps = 2;
	attr.rdma_timeout = 9; /* 2 ms */
	attr.rdma_retry_count = 2;
	attr.tcp_user_timeout_ms =
		30 * 1000; /* for who gets no CPU, to agree on the end of a rail */
	/* The second rail's are as some adapters have it. */
	for (unsigned i = 1; i < 2 * RAILS; i += RAILS) {
		fakeverbs_device(i)->forgets_completions = true;
		fakeverbs_device(i)->refuses_in_error = true;
		fakeverbs_device(i)->cannot_reset = true;
	}
	assert_ok(rdma_pair_open(&pair, &attr, LEN));
	fakeverbs_set_delay(0, 50 * 1000, seed);
	for (unsigned i = 0; i < LANES; i++) {
		bool of_a = i % 2;

		lanes[i] = (struct lane){ .from = of_a ? &pair.a : &pair.b,
					  .to = of_a ? &pair.b : &pair.a,
					  .kind = i / 2 % KINDS,
					  .number = i,
					  .offset = i * (uint64_t)AREA,
					  .len = i < LANES / 2 ? AREA : SMALL };
		lanes[i].op = new_op(lanes[i].from);
	}
	make_stream(&streams[0], &pair.a, &pair.b, 0);
	make_stream(&streams[1], &pair.b, &pair.a, 1);
	for (unsigned e = 0; e < 2; e++) {
		struct rdma_end *end = e ? &pair.b : &pair.a;

		imms[e] = new_op(end);
		assert_ok(slime_imm_recv(end->ep, imms[e]));
	}
	return 0;
}

static int end(void **state)
{
	(void)state;
	slime_endpoint_close(pair.a.ep);
	slime_endpoint_close(pair.b.ep);
	fakeverbs_set_delay(0, 0, 0);
	rdma_settle(&pair);
	while (slime_endpoint_destroy(pair.a.ep) || slime_endpoint_destroy(pair.b.ep))
		;
	pair.a.ep = pair.b.ep = NULL;
	for (unsigned i = 0; i < LANES; i++)
		assert_ok(slime_op_destroy(lanes[i].op));
	for (unsigned i = 0; i < 2; i++) {
		for (unsigned k = 0; k < WINDOW; k++) {
			assert_ok(slime_op_destroy(streams[i].sends[k]));
			assert_ok(slime_op_destroy(streams[i].recvs[k]));
		}
		assert_ok(slime_op_destroy(imms[i]));
	}
	rdma_pair_close(&pair);
	return fakeverbs_check() ? -1 : 0;
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(traffic__survives_any_one_rail, begin, end),
	};

	for (int i = 1; i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "--seed"))
			seed = strtoull(argv[i + 1], NULL, 10);
		else if (!strcmp(argv[i], "--faults"))
			n_faults = (unsigned)strtoul(argv[i + 1], NULL, 10);
	}
	print_message("seed %llu\n", (unsigned long long)seed);
	return cmocka_run_group_tests_name("rdma_rails_traffic", tests, NULL, NULL);
}
