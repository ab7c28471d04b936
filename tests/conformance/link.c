/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a link: connecting, closing, and what is refused before and after. */
#include "fixture.h"

#include <stdlib.h>
#include <string.h>

static int export_of(const struct end *e, uint8_t desc[SLIME_ENDPOINT_DESC_MAX])
{
	int len = slime_endpoint_export(e->ep, desc, SLIME_ENDPOINT_DESC_MAX);

	assert_true(len > 0);
	return len;
}

static int connect_to(struct end *from, const struct end *to, int64_t timeout_ms)
{
	uint8_t desc[SLIME_ENDPOINT_DESC_MAX];
	int len = export_of(to, desc);

	return slime_endpoint_connect(from->ep, desc, (size_t)len, timeout_ms, from->op);
}

/* Endpoints that are not connected. */
static int setup_apart(void **state)
{
	struct pair *p = pair_create(NULL);

	pair_create_endpoints(p, NULL);
	*state = p;
	return 0;
}

static void connect__makes_both_ends_connected(void **state)
{
	struct pair *p = *state;
	struct slime_endpoint_info a, b;

	pair_connect(p);
	end_await(&p->a, SLIME_ENDPOINT_CONNECTED);
	end_await(&p->b, SLIME_ENDPOINT_CONNECTED);
	slime_endpoint_info(p->a.ep, &a);
	slime_endpoint_info(p->b.ep, &b);
	assert_int_equal(a.state, SLIME_ENDPOINT_CONNECTED);
	assert_int_equal(a.transport, fixture_transport);
	assert_int_equal(b.transport, fixture_transport);
	assert_int_equal(a.epoch, b.epoch);
	assert_int_equal(a.peer, p->b.remote.owner);
	assert_int_equal(b.peer, p->a.remote.owner);
	assert_int_equal(a.cause, 0);
	assert_int_equal(a.pending_ops, 0);
	assert_true(a.address[0]);
}

static void connect__whoever_begins_works(void **state)
{
	(void)state;
	for (int first = 0; first < 2; first++) {
		struct pair *p = pair_create(NULL);
		struct end *begins = first ? &p->b : &p->a, *follows = first ? &p->a : &p->b;

		pair_create_endpoints(p, NULL);
		assert_ok(connect_to(begins, follows, PATIENCE_MS));
		assert_int_equal(slime_op_wait(begins->op, 30), -ETIMEDOUT);
		assert_ok(connect_to(follows, begins, PATIENCE_MS));
		op_end_ok(begins->op);
		op_end_ok(follows->op);
		pair_close(p);
	}
}

static void connect__to_nonsense_is_refused(void **state)
{
	struct pair *p = *state;
	uint8_t desc[SLIME_ENDPOINT_DESC_MAX];
	int len = export_of(&p->b, desc);

	for (int n = 0; n < len; n++)
		assert_true(slime_endpoint_connect(p->a.ep, desc, (size_t)n, 1000, p->a.op) < 0);
	desc[0] ^= 1;
	assert_int_equal(slime_endpoint_connect(p->a.ep, desc, (size_t)len, 1000, p->a.op),
			 -EINVAL);
	len = export_of(&p->a, desc);
	assert_int_equal(slime_endpoint_connect(p->a.ep, desc, (size_t)len, 1000, p->a.op),
			 -EINVAL);
	/* It can still be connected. */
	pair_connect(p);
}

static void connect__twice_is_refused(void **state)
{
	struct pair *p = *state;
	struct slime_op *op = op_new(p->a.ctx);
	uint8_t desc[SLIME_ENDPOINT_DESC_MAX];
	int len = export_of(&p->b, desc);

	pair_connect(p);
	assert_int_equal(slime_endpoint_connect(p->a.ep, desc, (size_t)len, 1000, op), -EALREADY);
	assert_ok(slime_op_destroy(op));
}

static void connect__to_a_peer_that_does_not_answer_times_out(void **state)
{
	struct pair *p = *state;
	struct slime_endpoint_info info;
	uint64_t begin = now_ms();

	assert_ok(connect_to(&p->a, &p->b, 100));
	assert_int_equal(op_end(p->a.op), -ETIMEDOUT);
	assert_true(now_ms() - begin >= 100);
	end_await(&p->a, SLIME_ENDPOINT_BROKEN);
	slime_endpoint_info(p->a.ep, &info);
	assert_int_equal(info.cause, -ETIMEDOUT);
}

/* b connects to a, and a to somebody else who is not b: nobody may come up as the other. */
static void connect__to_one_who_expects_another_fails(void **state)
{
	struct pair *p = *state;
	struct pair_attr attr = PAIR_ATTR_INIT;
	struct end other = { 0 };
	int status;

	end_create(&other, &attr);
	end_create_endpoint(&other, &attr);
	assert_ok(connect_to(&p->b, &other, 2000));
	assert_ok(connect_to(&p->a, &p->b, 2000));
	status = op_end(p->a.op);
	assert_true(status == -EACCES || status == -ECONNREFUSED || status == -ETIMEDOUT);
	assert_true(op_end(p->b.op) < 0);
	end_destroy(&other);
}

static void submit__before_connecting_is_refused(void **state)
{
	struct pair *p = *state;
	struct slime_xfer x = a_and_b(p, 0, 0, 64);

	assert_int_equal(slime_read(p->a.ep, &x, 1, 0, p->a.op), -ENOTCONN);
	assert_int_equal(slime_write(p->a.ep, &x, 1, 0, p->a.op), -ENOTCONN);
	assert_int_equal(slime_write_imm(p->a.ep, &x, 1, 0, 1, p->a.op), -ENOTCONN);
	assert_int_equal(slime_imm_recv(p->a.ep, p->a.op), -ENOTCONN);
	assert_int_equal(slime_send(p->a.ep, p->a.mr, 0, 1, 0, p->a.op), -ENOTCONN);
	assert_int_equal(slime_recv(p->a.ep, p->a.mr, 0, 1, 0, 0, p->a.op), -ENOTCONN);
	assert_true(slime_op_test(p->a.op));
}

static void destroy__while_connecting_ends_the_connect(void **state)
{
	struct pair *p = *state;

	assert_ok(connect_to(&p->a, &p->b, PATIENCE_MS));
	assert_ok(slime_endpoint_destroy(p->a.ep));
	p->a.ep = NULL;
	assert_true(slime_op_test(p->a.op));
	assert_int_equal(slime_op_status(p->a.op), -ECANCELED);
	assert_true(p->a.seen[SLIME_ENDPOINT_CLOSED]);
	assert_int_equal(p->a.cause, 0);
}

static void close__is_seen_by_both_ends(void **state)
{
	struct pair *p = *state;
	struct slime_xfer x = a_and_b(p, 0, 0, 64);
	struct slime_endpoint_info info;

	slime_endpoint_close(p->a.ep);
	slime_endpoint_close(p->a.ep);
	end_await(&p->a, SLIME_ENDPOINT_CLOSED);
	end_await(&p->b, SLIME_ENDPOINT_CLOSED);
	assert_int_equal(p->b.cause, 0);
	slime_endpoint_info(p->b.ep, &info);
	assert_int_equal(info.state, SLIME_ENDPOINT_CLOSED);
	assert_int_equal(slime_read(p->a.ep, &x, 1, 0, p->a.op), -ENOTCONN);
	assert_int_equal(slime_imm_recv(p->b.ep, p->b.op), -ENOTCONN);
}

#define IN_FLIGHT 64

static void close__with_work_in_flight_ends_each_op_once(void **state)
{
	struct pair_attr attr = PAIR_ATTR_INIT;
	struct slime_op *ops[IN_FLIGHT];
	struct slime_xfer x;
	struct pair *p;

	(void)state;
	attr.len = 8 * MiB;
	p = pair_open(&attr);
	x = a_and_b(p, 0, 0, 8 * MiB);
	pattern_fill(p->b.bytes, 8 * MiB, 1, 0);
	for (int i = 0; i < IN_FLIGHT; i++) {
		ops[i] = op_new(p->a.ctx);
		assert_ok(slime_read(p->a.ep, &x, 1, 0, ops[i]));
	}
	slime_endpoint_close(p->a.ep);
	for (int i = 0; i < IN_FLIGHT; i++) {
		int status = op_end(ops[i]);

		assert_true(status == 0 || status == -ECANCELED);
		assert_int_equal(slime_op_bytes(ops[i]), status ? 0 : 8 * MiB);
	}
	/* What has ended stays ended: nothing writes here any more. */
	pattern_fill(p->a.bytes, 8 * MiB, 2, 0);
	assert_ok(slime_endpoint_destroy(p->a.ep));
	p->a.ep = NULL;
	assert_pattern(p->a.bytes, 8 * MiB, 2, 0);
	for (int i = 0; i < IN_FLIGHT; i++)
		assert_ok(slime_op_destroy(ops[i]));
	end_await(&p->b, SLIME_ENDPOINT_CLOSED);
	pair_close(p);
}

static void close__by_the_peer_with_work_in_flight_ends_it(void **state)
{
	struct pair_attr attr = PAIR_ATTR_INIT;
	struct slime_op *ops[IN_FLIGHT];
	struct slime_xfer x;
	struct pair *p;

	(void)state;
	attr.len = 8 * MiB;
	p = pair_open(&attr);
	x = a_and_b(p, 0, 0, 8 * MiB);
	for (int i = 0; i < IN_FLIGHT; i++) {
		ops[i] = op_new(p->a.ctx);
		assert_ok(slime_write(p->a.ep, &x, 1, 0, ops[i]));
	}
	assert_ok(slime_endpoint_destroy(p->b.ep));
	p->b.ep = NULL;
	for (int i = 0; i < IN_FLIGHT; i++) {
		int status = op_end(ops[i]);

		assert_true(status == 0 || status == -ECANCELED || status == -ECONNRESET);
		assert_ok(slime_op_destroy(ops[i]));
	}
	/* No late write into memory whose link is gone. */
	pattern_fill(p->b.bytes, 8 * MiB, 3, 0);
	end_await(&p->a, SLIME_ENDPOINT_CLOSED);
	assert_pattern(p->b.bytes, 8 * MiB, 3, 0);
	pair_close(p);
}

static void link__can_be_made_again_between_the_same_contexts(void **state)
{
	struct pair *p = *state;
	struct slime_xfer x = a_and_b(p, 0, 0, 1000);
	uint64_t epoch = 0;

	for (uint64_t i = 0; i < 10; i++) {
		struct slime_endpoint_info info;

		slime_endpoint_info(p->a.ep, &info);
		assert_int_not_equal(info.epoch, epoch);
		epoch = info.epoch;
		pattern_fill(p->b.bytes, 1000, i, 0);
		assert_ok(read_now(p, &x));
		assert_pattern(p->a.bytes, 1000, i, 0);

		assert_ok(slime_endpoint_destroy(p->a.ep));
		assert_ok(slime_endpoint_destroy(p->b.ep));
		pair_create_endpoints(p, NULL);
		pair_connect(p);
	}
}

static void link__beside_another_between_the_same_peers_is_independent(void **state)
{
	struct pair *p = *state;
	struct slime_endpoint *first_a = p->a.ep, *first_b = p->b.ep;
	struct slime_xfer x = a_and_b(p, 0, 0, 1000);

	pair_create_endpoints(p, NULL);
	pair_connect(p);
	pattern_fill(p->b.bytes, 1000, 1, 0);
	assert_ok(read_now(p, &x));
	assert_ok(slime_write_imm(first_a, NULL, 0, 0, 1, p->a.op));
	op_end_ok(p->a.op);
	assert_ok(slime_imm_recv(p->b.ep, p->b.op));
	assert_int_equal(slime_op_wait(p->b.op, 10), -ETIMEDOUT);

	assert_ok(slime_endpoint_destroy(first_a));
	assert_ok(slime_endpoint_destroy(first_b));
	assert_ok(slime_write_imm(p->a.ep, &x, 1, 0, 2, p->a.op));
	op_end_ok(p->a.op);
	op_end_ok(p->b.op);
	assert_int_equal(slime_op_imm(p->b.op), 2);
}

/* ---- refused ---- */

static void endpoint_create__with_nonsense_is_refused(void **state)
{
	struct pair *p = *state;
	struct slime_endpoint_attr attr = SLIME_ENDPOINT_ATTR_INIT;
	struct slime_endpoint *ep;

	attr.transports[0] = (enum slime_transport)77;
	assert_int_equal(slime_endpoint_create(p->a.ctx, &attr, &ep), -EINVAL);
	attr.transports[0] = fixture_transport;
	attr.max_pending_ops = 0;
	assert_int_equal(slime_endpoint_create(p->a.ctx, &attr, &ep), -EINVAL);
}

static void endpoint_create__beyond_max_endpoints_is_refused(void **state)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;
	struct slime_endpoint *ep[3];
	struct slime_context *ctx;

	(void)state;
	attr.max_endpoints = 2;
	assert_ok(slime_context_create(&attr, &ctx));
	assert_ok(slime_endpoint_create(ctx, NULL, &ep[0]));
	assert_ok(slime_endpoint_create(ctx, NULL, &ep[1]));
	assert_int_equal(slime_endpoint_create(ctx, NULL, &ep[2]), -ENOSPC);
	assert_ok(slime_endpoint_destroy(ep[0]));
	assert_ok(slime_endpoint_create(ctx, NULL, &ep[2]));
	assert_ok(slime_endpoint_destroy(ep[1]));
	assert_ok(slime_endpoint_destroy(ep[2]));
	assert_ok(slime_context_destroy(ctx));
}

static void endpoint_export__into_too_small_a_buffer_is_refused(void **state)
{
	struct pair *p = *state;
	uint8_t desc[SLIME_ENDPOINT_DESC_MAX];
	int len = export_of(&p->a, desc);

	for (int cap = 0; cap < len; cap++)
		assert_int_equal(slime_endpoint_export(p->a.ep, desc, (size_t)cap), -ENOSPC);
}

static void context_destroy__before_its_children_is_busy(void **state)
{
	struct slime_context *ctx;
	struct slime_endpoint *ep;
	struct slime_mem *mem;
	struct slime_mr *mr;
	struct slime_op *op;

	(void)state;
	assert_ok(slime_context_create(NULL, &ctx));
	assert_ok(slime_op_create(ctx, NULL, &op));
	assert_int_equal(slime_context_destroy(ctx), -EBUSY);
	assert_ok(slime_op_destroy(op));

	assert_ok(slime_endpoint_create(ctx, NULL, &ep));
	assert_int_equal(slime_context_destroy(ctx), -EBUSY);
	assert_ok(slime_endpoint_destroy(ep));

	assert_ok(slime_mem_alloc(ctx, 4096, NULL, &mem));
	assert_ok(slime_mr_create(ctx, slime_mem_addr(mem), 4096, 0, &mr));
	assert_int_equal(slime_context_destroy(ctx), -EBUSY);
	assert_int_equal(slime_mem_destroy(mem), -EBUSY);
	assert_ok(slime_mr_destroy(mr));
	assert_int_equal(slime_context_destroy(ctx), -EBUSY);
	assert_ok(slime_mem_destroy(mem));
	assert_ok(slime_context_destroy(ctx));
}

static void destroy__of_nothing_is_harmless(void **state)
{
	(void)state;
	assert_ok(slime_context_destroy(NULL));
	assert_ok(slime_endpoint_destroy(NULL));
	assert_ok(slime_mem_destroy(NULL));
	assert_ok(slime_mr_destroy(NULL));
	assert_ok(slime_op_destroy(NULL));
}

#define APART(fn) cmocka_unit_test_setup_teardown(fn, setup_apart, pair_teardown)

static const struct CMUnitTest tests[] = {
	APART(connect__makes_both_ends_connected),
	cmocka_unit_test(connect__whoever_begins_works),
	APART(connect__to_nonsense_is_refused),
	APART(connect__twice_is_refused),
	APART(connect__to_a_peer_that_does_not_answer_times_out),
	APART(connect__to_one_who_expects_another_fails),
	APART(submit__before_connecting_is_refused),
	APART(destroy__while_connecting_ends_the_connect),
	IN_PAIR(close__is_seen_by_both_ends),
	cmocka_unit_test(close__with_work_in_flight_ends_each_op_once),
	cmocka_unit_test(close__by_the_peer_with_work_in_flight_ends_it),
	IN_PAIR(link__can_be_made_again_between_the_same_contexts),
	IN_PAIR(link__beside_another_between_the_same_peers_is_independent),
	IN_PAIR(endpoint_create__with_nonsense_is_refused),
	cmocka_unit_test(endpoint_create__beyond_max_endpoints_is_refused),
	IN_PAIR(endpoint_export__into_too_small_a_buffer_is_refused),
	cmocka_unit_test(context_destroy__before_its_children_is_busy),
	cmocka_unit_test(destroy__of_nothing_is_harmless),
};

FIXTURE_MAIN("link")
