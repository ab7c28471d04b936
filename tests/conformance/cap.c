/* SPDX-License-Identifier: Apache-2.0 */
/* Links and contexts with a cap of bandwidth. */
#include <string.h>
#include <time.h>

#include "tests/conformance/fixture.h"

#define LEN    (2 * MiB)
#define BITS_S UINT64_C(200000000)
#define N_OPS  8
/* What a link may have saved up: 50 ms of the cap. */
#define SAVED_NS (50 * UINT64_C(1000000))

static uint64_t now_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static struct pair *open_capped(uint64_t link, uint64_t context)
{
	struct pair_attr attr = PAIR_ATTR_INIT;

	attr.len = LEN;
	attr.max_bandwidth = link;
	attr.context_max_bandwidth = context;
	return pair_open(&attr);
}

/* A write of all bytes, again and again, by each of the endpoints at the same time. */
static void assert_rate_holds(struct pair *p, struct slime_endpoint *const eps[], unsigned n_eps,
			      uint64_t bits_s)
{
	const struct slime_xfer x = a_and_b(p, 0, 0, LEN);
	uint64_t due_ns = (uint64_t)N_OPS * LEN * 8 * 1000000000 / bits_s;
	uint64_t begin = now_ns(CLOCK_MONOTONIC), cpu = now_ns(CLOCK_PROCESS_CPUTIME_ID);
	struct slime_op *ops[N_OPS];

	for (unsigned i = 0; i < N_OPS; i++) {
		ops[i] = op_new(p->a.ctx);
		assert_ok(slime_write(eps[i % n_eps], &x, 1, 0, ops[i]));
	}
	for (int i = 0; i < N_OPS; i++) {
		op_end_ok(ops[i]);
		assert_ok(slime_op_destroy(ops[i]));
	}
	begin = now_ns(CLOCK_MONOTONIC) - begin;
	cpu = now_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu;
	assert_in_range(begin, due_ns * 9 / 10 - SAVED_NS, due_ns * 11 / 10);
	/* Both ends' threads together, with the copying. */
	assert_in_range(cpu, 0, begin / 4);
}

static void write__over_a_link_with_a_cap_keeps_its_rate_without_cpu(void **state)
{
	struct pair *p = open_capped(BITS_S, 0);
	struct slime_endpoint *const eps[] = { p->a.ep };

	(void)state;
	assert_rate_holds(p, eps, 1, BITS_S);
	pair_close(p);
}

static void write__over_two_links_of_a_context_with_a_cap_keeps_its_rate(void **state)
{
	struct pair *p = open_capped(0, BITS_S);
	struct slime_endpoint *const first[] = { p->a.ep, p->b.ep };
	struct slime_endpoint *both[2] = { p->a.ep };
	struct pair_attr attr = PAIR_ATTR_INIT;

	(void)state;
	pair_create_endpoints(p, &attr);
	pair_connect(p);
	both[1] = p->a.ep;
	assert_rate_holds(p, both, 2, BITS_S);
	assert_ok(slime_endpoint_destroy(first[0]));
	assert_ok(slime_endpoint_destroy(first[1]));
	pair_close(p);
}

/* The lower of the two counts. */
static void write__with_a_link_above_the_context_has_the_cap_of_the_context(void **state)
{
	struct pair *p = open_capped(10 * BITS_S, BITS_S);
	struct slime_endpoint *const eps[] = { p->a.ep };

	(void)state;
	assert_rate_holds(p, eps, 1, BITS_S);
	pair_close(p);
}

/* It goes in many slices, and both a long one and pieces that are no multiple of anything come
 * right. */
static void read__over_a_link_with_a_cap_brings_the_bytes(void **state)
{
	struct pair *p = open_capped(100 * BITS_S, 0);
	struct slime_xfer x[100];
	uint64_t at = 0;

	(void)state;
	pattern_fill(p->b.bytes, LEN, 3, 0);
	for (size_t i = 0; i < 100; i++) {
		x[i] = a_and_b(p, at, at, 7777);
		at += 7777;
	}
	assert_ok(slime_read(p->a.ep, x, 100, 0, p->a.op));
	op_end_ok(p->a.op);
	assert_pattern(p->a.bytes, at, 3, 0);
	x[0] = a_and_b(p, at, at, LEN - at);
	assert_ok(slime_read(p->a.ep, x, 1, 0, p->a.op));
	op_end_ok(p->a.op);
	assert_int_equal(slime_op_bytes(p->a.op), LEN - at);
	assert_pattern(p->a.bytes, LEN, 3, 0);
	pair_close(p);
}

static void write_imm__over_a_link_with_a_cap_follows_all_of_its_bytes(void **state)
{
	struct pair *p = open_capped(10 * BITS_S, 0);
	const struct slime_xfer x = a_and_b(p, 0, 0, LEN);

	(void)state;
	pattern_fill(p->a.bytes, LEN, 5, 0);
	assert_ok(slime_imm_recv(p->b.ep, p->b.op));
	assert_ok(slime_write_imm(p->a.ep, &x, 1, 0, 77, p->a.op));
	op_end_ok(p->b.op);
	assert_pattern(p->b.bytes, LEN, 5, 0);
	assert_int_equal(slime_op_imm(p->b.op), 77);
	assert_int_equal(slime_op_bytes(p->b.op), LEN);
	op_end_ok(p->a.op);
	/* And one without bytes. */
	assert_ok(slime_imm_recv(p->b.ep, p->b.op));
	assert_ok(slime_write_imm(p->a.ep, NULL, 0, 0, 78, p->a.op));
	op_end_ok(p->b.op);
	assert_int_equal(slime_op_imm(p->b.op), 78);
	op_end_ok(p->a.op);
	pair_close(p);
}

/* The first one's immediate goes behind its last slice, the second one's with its bytes. */
static void write_imm__with_a_fence_over_a_link_with_a_cap_keeps_its_order(void **state)
{
	struct pair *p = open_capped(10 * BITS_S, 0);
	const struct slime_xfer all = a_and_b(p, 0, 0, LEN), some = a_and_b(p, 0, 0, 200000);
	struct slime_op *sent = op_new(p->a.ctx), *taken = op_new(p->b.ctx);

	(void)state;
	for (uint32_t i = 0; i < 8; i++) {
		assert_ok(slime_imm_recv(p->b.ep, p->b.op));
		assert_ok(slime_imm_recv(p->b.ep, taken));
		assert_ok(slime_write_imm(p->a.ep, &all, 1, 0, 2 * i, p->a.op));
		assert_ok(slime_write_imm(p->a.ep, &some, 1, SLIME_FENCE, 2 * i + 1, sent));
		op_end_ok(p->b.op);
		op_end_ok(taken);
		assert_int_equal(slime_op_imm(p->b.op), 2 * i);
		assert_int_equal(slime_op_imm(taken), 2 * i + 1);
		op_end_ok(p->a.op);
		op_end_ok(sent);
	}
	assert_ok(slime_op_destroy(sent));
	assert_ok(slime_op_destroy(taken));
	pair_close(p);
}

/* What would take minutes ends with the link, whichever end closes it. */
static void write__that_waits_for_its_time_ends_with_the_link(void **state)
{
	struct pair *p = open_capped(BITS_S / 1000, 0);
	struct slime_xfer x = a_and_b(p, 0, 0, LEN);
	struct slime_op *second = op_new(p->a.ctx);

	(void)state;
	assert_ok(slime_write(p->a.ep, &x, 1, 0, p->a.op));
	assert_ok(slime_write(p->a.ep, &x, 1, 0, second));
	slime_endpoint_close(p->b.ep);
	assert_int_equal(op_end(p->a.op), -ECONNRESET);
	assert_int_equal(op_end(second), -ECONNRESET);
	assert_int_equal(slime_write(p->a.ep, &x, 1, 0, second), -ENOTCONN);
	assert_ok(slime_op_destroy(second));
	pair_close(p);

	p = open_capped(BITS_S / 1000, 0);
	x = a_and_b(p, 0, 0, LEN);
	assert_ok(slime_write(p->a.ep, &x, 1, 0, p->a.op));
	slime_endpoint_close(p->a.ep);
	assert_int_equal(op_end(p->a.op), -ECANCELED);
	pair_close(p);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(write__over_a_link_with_a_cap_keeps_its_rate_without_cpu),
	cmocka_unit_test(write__over_two_links_of_a_context_with_a_cap_keeps_its_rate),
	cmocka_unit_test(write__with_a_link_above_the_context_has_the_cap_of_the_context),
	cmocka_unit_test(read__over_a_link_with_a_cap_brings_the_bytes),
	cmocka_unit_test(write_imm__over_a_link_with_a_cap_follows_all_of_its_bytes),
	cmocka_unit_test(write_imm__with_a_fence_over_a_link_with_a_cap_keeps_its_order),
	cmocka_unit_test(write__that_waits_for_its_time_ends_with_the_link),
};

FIXTURE_MAIN("cap")
