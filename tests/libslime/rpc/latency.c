/* SPDX-License-Identifier: Apache-2.0 */
/* How long operations take: which are timed, and where they are counted. */
#include <errno.h>
#include <stdlib.h>

#include "src/core/latency.h"
#include "tests/libslime/rpc/pair.h"

#define N (3 * SLIME_LATENCY_EVERY)

static struct slime_latency latency_of(const struct pair *p, enum slime_op_kind kind)
{
	struct slime_latency l;

	slime_context_latency(p->a.ctx, p->transport, kind, &l);
	return l;
}

/* n are counted, in some bucket each. */
static void assert_timed(const struct pair *p, enum slime_op_kind kind, uint64_t n)
{
	struct slime_latency l = latency_of(p, kind);
	uint64_t sum = 0;

	for (unsigned b = 0; b < SLIME_LATENCY_BUCKETS; b++)
		sum += l.counts[b];
	assert_int_equal(l.n, n);
	assert_int_equal(sum, n);
	assert_true(n ? l.sum_ns > 0 : l.sum_ns == 0);
}

static void call(struct pair *p, struct slime_call *call, const char *method, int status)
{
	struct slime_call_args args = SLIME_CALL_ARGS_INIT;

	args.method = slime_rpc_method_id(method);
	assert_int_equal(slime_call_start(p->a.ep, &args, call), 0);
	assert_int_equal(slime_call_wait(call, PAIR_TIMEOUT_MS), 0);
	assert_int_equal(slime_call_status(call), status);
}

static void call__is_timed_once_in_so_many(void **state)
{
	struct pair *p = *state;
	struct slime_call *c = make_call(p->a.ctx);

	call(p, c, "echo_inline", 0);
	assert_timed(p, SLIME_KIND_CALL, 1);
	for (int i = 1; i < N; i++)
		call(p, c, "echo_inline", 0);
	assert_timed(p, SLIME_KIND_CALL, N / SLIME_LATENCY_EVERY);
	assert_timed(p, SLIME_KIND_READ, 0);
	assert_int_equal(slime_call_destroy(c), 0);
}

static void call__that_fails_is_not_counted(void **state)
{
	struct pair *p = *state;
	struct slime_call *c = make_call(p->a.ctx);

	for (int i = 0; i < N; i++)
		call(p, c, "fail", -EREMOTEIO);
	assert_timed(p, SLIME_KIND_CALL, 0);
	assert_int_equal(slime_call_destroy(c), 0);
}

static void calls__that_start_together_are_timed_once_in_so_many(void **state)
{
	struct pair *p = *state;
	struct slime_call_args args = SLIME_CALL_ARGS_INIT;
	struct slime_call_item items[16];

	args.method = slime_rpc_method_id("echo_inline");
	for (size_t i = 0; i < 16; i++)
		items[i] = (struct slime_call_item){ .call = make_call(p->a.ctx), .args = &args };
	for (int round = 0; round < N / 16; round++) {
		assert_int_equal(slime_call_start_many(p->a.ep, items, 16), 16);
		for (size_t i = 0; i < 16; i++)
			assert_int_equal(slime_call_wait(items[i].call, PAIR_TIMEOUT_MS), 0);
	}
	assert_timed(p, SLIME_KIND_CALL, N / SLIME_LATENCY_EVERY);
	for (size_t i = 0; i < 16; i++)
		assert_int_equal(slime_call_destroy(items[i].call), 0);
}

static void write__is_timed_once_in_so_many(void **state)
{
	struct pair *p = *state;
	uint8_t descriptor[SLIME_MR_DESC_MAX];
	struct slime_mr *from = NULL, *to = NULL;
	struct slime_remote_mr remote;
	struct slime_op *op = NULL;
	struct slime_mem *memory[2] = { NULL, NULL };
	int len;

	for (int i = 0; i < 2; i++)
		assert_int_equal(slime_mem_alloc(i ? p->b.ctx : p->a.ctx, 4096, NULL, &memory[i]),
				 0);
	assert_int_equal(slime_mr_create(p->a.ctx, slime_mem_addr(memory[0]), 4096, 0, &from), 0);
	assert_int_equal(slime_mr_create(p->b.ctx, slime_mem_addr(memory[1]), 4096,
					 SLIME_ACCESS_REMOTE_WRITE, &to),
			 0);
	len = slime_mr_export(to, descriptor, sizeof(descriptor));
	assert_true(len > 0);
	assert_int_equal(slime_remote_mr_import(descriptor, (size_t)len, &remote), 0);
	assert_int_equal(slime_op_create(p->a.ctx, NULL, &op), 0);
	for (int i = 0; i < N; i++) {
		struct slime_xfer x = { .local = from, .remote = &remote, .len = 64 };

		assert_int_equal(slime_write(p->a.ep, &x, 1, 0, op), 0);
		assert_int_equal(slime_op_wait(op, PAIR_TIMEOUT_MS), 0);
		assert_int_equal(slime_op_status(op), 0);
	}
	assert_timed(p, SLIME_KIND_WRITE, N / SLIME_LATENCY_EVERY);
	assert_timed(p, SLIME_KIND_CALL, 0);
	assert_int_equal(slime_op_destroy(op), 0);
	assert_int_equal(slime_mr_destroy(from), 0);
	while (slime_mr_destroy(to) == -EBUSY)
		;
	for (int i = 0; i < 2; i++)
		assert_int_equal(slime_mem_destroy(memory[i]), 0);
}

/* Each bound belongs to its own bucket, and what is longer than all to the last. */
static void add__counts_in_the_first_bucket_that_is_long_enough(void **state)
{
	struct sl_latency l = { .sum_ns = 0 };
	struct slime_latency out;

	(void)state;
	for (unsigned b = 0; b < SLIME_LATENCY_BUCKETS - 1; b++) {
		sl_latency_add(&l, slime_latency_bound_ns(b));
		sl_latency_add(&l, slime_latency_bound_ns(b) + 1);
	}
	sl_latency_read(&l, &out);
	assert_int_equal(out.counts[0], 1);
	for (unsigned b = 1; b < SLIME_LATENCY_BUCKETS - 1; b++)
		assert_int_equal(out.counts[b], 2);
	assert_int_equal(out.counts[SLIME_LATENCY_BUCKETS - 1], 1);
	assert_int_equal(out.n, 2 * (SLIME_LATENCY_BUCKETS - 1));
	assert_true(slime_latency_bound_ns(SLIME_LATENCY_BUCKETS - 1) == UINT64_MAX);
}

static void latency__of_what_is_not_timed_is_nothing(void **state)
{
	struct pair *p = *state;
	struct slime_latency l = { .n = 1 };

	slime_context_latency(p->a.ctx, (enum slime_transport)77, SLIME_KIND_CALL, &l);
	assert_int_equal(l.n, 0);
	l.n = 1;
	slime_context_latency(p->a.ctx, p->transport, SLIME_KIND_MAX, &l);
	assert_int_equal(l.n, 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		IN_PAIR(call__is_timed_once_in_so_many),
		IN_PAIR(call__that_fails_is_not_counted),
		IN_PAIR(calls__that_start_together_are_timed_once_in_so_many),
		IN_PAIR(write__is_timed_once_in_so_many),
		IN_PAIR(add__counts_in_the_first_bucket_that_is_long_enough),
		IN_PAIR(latency__of_what_is_not_timed_is_nothing),
	};

	return PAIR_RUN("latency", tests);
}
