/* SPDX-License-Identifier: Apache-2.0 */
/* Each call of libibverbs fails in its turn: what was asked for is done, or it is said that it is
 * not; nothing hangs, nothing is left. */
#include <string.h>

#include "tests/libslime/rdma_pair.h"

#define LEN 20000

static void fill(uint8_t *at, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++)
		at[i] = (uint8_t)(seed + i * 7);
}

static bool is_filled(const uint8_t *at, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++)
		if (at[i] != (uint8_t)(seed + i * 7))
			return false;
	return true;
}

/* ---- what is tried: 0, or how it failed ---- */

static int try_write(struct rdma_pair *p)
{
	struct slime_xfer x = rdma_a_and_b(p, 0, LEN, LEN);
	int ret;

	fill(p->a.bytes, LEN, 1);
	ret = slime_write(p->a.ep, &x, 1, 0, p->a.op);
	if (!ret)
		ret = rdma_wait(p, p->a.op);
	if (!ret)
		assert_true(is_filled(p->b.bytes + LEN, LEN, 1));
	return ret;
}

static int try_read(struct rdma_pair *p)
{
	struct slime_xfer x = rdma_a_and_b(p, 2 * LEN, 0, LEN);
	int ret;

	fill(p->b.bytes, LEN, 2);
	ret = slime_read(p->a.ep, &x, 1, 0, p->a.op);
	if (!ret)
		ret = rdma_wait(p, p->a.op);
	if (!ret)
		assert_true(is_filled(p->a.bytes + 2 * LEN, LEN, 2));
	return ret;
}

static int try_imm(struct rdma_pair *p)
{
	struct slime_xfer x = rdma_a_and_b(p, 0, 0, 8);
	int ret = slime_imm_recv(p->b.ep, p->b.op);

	if (ret)
		return ret;
	ret = slime_write_imm(p->a.ep, &x, 1, 0, 4711, p->a.op);
	if (!ret)
		ret = rdma_wait(p, p->a.op);
	/* The receive of a link that lives waits for ever, and that of one that does not has
	 * failed. */
	if (ret)
		slime_endpoint_close(p->b.ep);
	if (!rdma_wait(p, p->b.op))
		assert_int_equal(slime_op_imm(p->b.op), 4711);
	return ret ? ret : slime_op_status(p->b.op);
}

static int try_message(struct rdma_pair *p, uint64_t len)
{
	int sent, received = slime_recv(p->b.ep, p->b.mr, 0, len, 1, SLIME_TAG_ALL, p->b.op);

	if (received)
		return received;
	fill(p->a.bytes, len, 3);
	sent = slime_send(p->a.ep, p->a.mr, 0, len, 1, p->a.op);
	if (sent)
		slime_endpoint_close(p->b.ep);
	received = rdma_wait(p, p->b.op);
	if (received)
		slime_endpoint_close(p->a.ep);
	else
		assert_true(is_filled(p->b.bytes, len, 3));
	return sent ? sent : rdma_wait(p, p->a.op);
}

static int try_all(struct rdma_pair *p)
{
	int ret = try_write(p);

	if (!ret)
		ret = try_read(p);
	if (!ret)
		ret = try_imm(p);
	if (!ret)
		ret = try_message(p, 100);
	return ret ? ret : try_message(p, LEN);
}

/* ---- with each call failing ---- */

static const struct slime_context_attr *quick(void)
{
	static struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;

	attr.rdma_timeout = 10; /* 4 ms */
	attr.rdma_retry_count = 2;
	attr.tcp_user_timeout_ms =
		200; /* a quarter of it until an idle end looks whether its peer is there */
	return &attr;
}

static void links__with_each_call_failing_say_so_and_leave_nothing(void **state)
{
	unsigned n = 1;
	bool failed = true;

	(void)state;
	for (; failed; n++) {
		struct rdma_pair p;
		int ret;

		fakeverbs_fail_call(n, EIO);
		ret = rdma_pair_open(&p, quick(), 4 * LEN);
		if (!ret)
			ret = try_all(&p);
		rdma_pair_close(&p);
		failed = fakeverbs_failed();
		if (!failed)
			assert_ok(ret);
		if (fakeverbs_check())
			fail_msg("call %u, %s", n, fakeverbs_call_name(fakeverbs_failed_call()));
	}
	assert_true(n > 50);
}

/* What such a poll took is lost, whatever it was: nobody waits for it. */
static void links__with_a_poll_failing_say_so_and_leave_nothing(void **state)
{
	unsigned n = 1;
	bool failed = true;

	(void)state;
	for (; failed; n += 1 + n / 8) {
		struct rdma_pair p;
		int ret;

		fakeverbs_fail_call_of(FAKEVERBS_POLL_CQ, n, EIO);
		ret = rdma_pair_open(&p, quick(), 4 * LEN);
		if (!ret)
			ret = try_all(&p);
		failed = fakeverbs_failed();
		if (!failed)
			assert_ok(ret);
		rdma_pair_close(&p);
		if (fakeverbs_check())
			fail_msg("poll %u", n);
	}
}

/* An event that cannot be read is tried again. */
static void links__with_calls_failing_of_one_kind(void **state)
{
	static const enum fakeverbs_call kinds[] = { FAKEVERBS_GET_CQ_EVENT,
						     FAKEVERBS_GET_ASYNC_EVENT };

	(void)state;
	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
		struct rdma_pair p;

		fakeverbs_fail_call_of(kinds[k], 20, EIO);
		assert_ok(rdma_pair_open(&p, quick(), 4 * LEN));
		assert_ok(try_all(&p));
		rdma_pair_close(&p);
		fakeverbs_failed();
		assert_int_equal(fakeverbs_check(), 0);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(links__with_each_call_failing_say_so_and_leave_nothing,
				       rdma_pair_reset),
		cmocka_unit_test_setup(links__with_a_poll_failing_say_so_and_leave_nothing,
				       rdma_pair_reset),
		cmocka_unit_test_setup(links__with_calls_failing_of_one_kind, rdma_pair_reset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
