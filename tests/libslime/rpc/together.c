/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that are started together: which begin, in which order, and that each has its own end. */
#include <errno.h>
#include <string.h>

#include "tests/libslime/rpc/pair.h"

#define MANY	   200 /* more than there are slots */
#define FEW	   40  /* fewer, and not all of them start with one message */
#define LONGEST	   100000
#define MAX_CALLS  20
#define THREADS	   4
#define ROUNDS	   200
#define TIMEOUT_MS 20

/* So many calls, and memory for each. */
struct batch {
	struct slime_call *calls[MANY];
	struct slime_call_args args[MANY];
	struct slime_call_item items[MANY];
	uint8_t *out;
	uint8_t *in;
	size_t n;
};

static void fill_batch(struct batch *b, struct side *s, size_t n, const char *method)
{
	static uint8_t out[LONGEST], in[MANY][64];

	*b = (struct batch){ .n = n, .out = out };
	for (size_t i = 0; i < n; i++) {
		b->calls[i] = make_call(s->ctx);
		b->args[i] = (struct slime_call_args)SLIME_CALL_ARGS_INIT;
		b->args[i].method = slime_rpc_method_id(method);
		b->args[i].reply = in[i];
		b->args[i].reply_cap = sizeof(in[i]);
		b->items[i] = (struct slime_call_item){ .call = b->calls[i], .args = &b->args[i] };
	}
}

/* FEW that are kept, each with its number for a request. */
static void fill_numbered(struct batch *b, struct side *s)
{
	fill_batch(b, s, FEW, "defer");
	for (size_t i = 0; i < FEW; i++) {
		b->out[i] = (uint8_t)i;
		b->args[i].request = &b->out[i];
		b->args[i].request_len = 1;
	}
}

static void wait_for_all(struct batch *b, size_t n, int status)
{
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(slime_call_wait(b->calls[i], PAIR_TIMEOUT_MS), 0);
		assert_int_equal(slime_call_status(b->calls[i]), status);
	}
}

static void empty_batch(struct batch *b)
{
	for (size_t i = 0; i < b->n; i++)
		assert_int_equal(slime_call_destroy(b->calls[i]), 0);
}

static int start(struct side *s, struct batch *b, size_t from)
{
	return slime_call_start_many(s->ep, b->items + from, b->n - from);
}

/* The side's answers, which hold no bytes. */
static void answer(struct side *s, size_t n)
{
	while (n--)
		assert_int_equal(slime_rpc_reply(shelf_take(&s->shelf), NULL, 0), 0);
}

/* ---- all begin ---- */

/* Short and long ones, with room for the reply and without. */
static void start_many__of_all_lengths_returns_each_its_bytes(void **state)
{
	static const size_t lens[] = { 64, 1, 0, 65, 8, 1024, 64, 64, 5000, 33, 64, LONGEST };
	struct pair *p = *state;
	struct batch b;

	fill_batch(&b, &p->a, MANY, "echo");
	pattern_fill(b.out, LONGEST, 5);
	for (size_t i = 0; i < MANY; i++) {
		b.args[i].request = b.out + i;
		b.args[i].request_len = lens[i % 12] == LONGEST ? LONGEST - i : lens[i % 12];
		b.args[i].reply_cap = b.args[i].request_len;
		if (b.args[i].reply_cap > 64 || i % 5 == 0)
			b.args[i].reply = NULL;
	}

	assert_int_equal(start(&p->a, &b, 0), MANY);
	wait_for_all(&b, MANY, 0);
	for (size_t i = 0; i < MANY; i++) {
		assert_int_equal(slime_call_reply_len(b.calls[i]), b.args[i].request_len);
		assert_memory_equal(slime_call_reply_data(b.calls[i]), b.out + i,
				    b.args[i].request_len);
	}
	empty_batch(&b);
}

static void start_many__arrives_in_order(void **state)
{
	struct pair *p = *state;
	struct batch b;

	fill_numbered(&b, &p->a);

	assert_int_equal(start(&p->a, &b, 0), FEW);
	for (size_t i = 0; i < FEW; i++) {
		struct slime_rpc_request *req = shelf_take(&p->b.shelf);

		assert_int_equal(*(const uint8_t *)slime_rpc_request_data(req), i);
		assert_int_equal(slime_rpc_reply(req, NULL, 0), 0);
	}
	wait_for_all(&b, FEW, 0);
	empty_batch(&b);
}

static void start_many__of_none_starts_none(void **state)
{
	struct pair *p = *state;

	assert_int_equal(slime_call_start_many(p->a.ep, NULL, 0), 0);
}

/* ---- some begin ---- */

/* The one that cannot be started is the first, is among those that leave together, or is later. */
static void start_many__with_a_malformed_one_starts_those_before(void **state)
{
	static const size_t bad[] = { 0, 1, 15, 16, 17, FEW - 1 };
	struct pair *p = *state;
	struct batch b;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		fill_batch(&b, &p->a, FEW, "count");
		b.args[bad[i]].method = 0;

		assert_int_equal(start(&p->a, &b, 0), bad[i] ? (int)bad[i] : -EINVAL);
		assert_int_equal(start(&p->a, &b, bad[i]), -EINVAL);
		wait_for_all(&b, bad[i], 0);
		for (size_t k = bad[i]; k < FEW; k++)
			assert_true(slime_call_test(b.calls[k]));
		b.args[bad[i]].method = b.args[bad[i] ? 0 : 1].method;
		assert_int_equal(start(&p->a, &b, bad[i]), FEW - bad[i]);
		wait_for_all(&b, FEW, 0);
		empty_batch(&b);
	}
}

static void start_many__with_a_call_twice_starts_it_once(void **state)
{
	struct pair *p = *state;
	struct slime_call *other;
	struct batch b;

	fill_batch(&b, &p->a, FEW, "defer");
	other = b.items[9].call;
	b.items[9].call = b.items[2].call;

	assert_int_equal(start(&p->a, &b, 0), 9);
	assert_int_equal(start(&p->a, &b, 9), -EBUSY);
	answer(&p->b, 9);
	wait_for_all(&b, 9, 0);
	b.items[9].call = other;
	empty_batch(&b);
}

/* An endpoint more, with room for a few calls. */
static struct slime_endpoint *connect_small(struct pair *p, struct slime_endpoint **peer)
{
	struct slime_endpoint_attr attr = SLIME_ENDPOINT_ATTR_INIT;
	struct slime_endpoint *ep;

	attr.transports[0] = pair_transport();
	attr.max_pending_ops = MAX_CALLS;
	assert_int_equal(slime_endpoint_create(p->a.ctx, &attr, &ep), 0);
	attr.service = p->b.service;
	assert_int_equal(slime_endpoint_create(p->b.ctx, &attr, peer), 0);
	connect_to(ep, *peer, p->a.op);
	connect_to(*peer, ep, p->b.op);
	assert_int_equal(slime_op_wait(p->a.op, PAIR_TIMEOUT_MS), 0);
	assert_int_equal(slime_op_status(p->a.op), 0);
	assert_int_equal(slime_op_wait(p->b.op, PAIR_TIMEOUT_MS), 0);
	assert_int_equal(slime_op_status(p->b.op), 0);
	return ep;
}

static void start_many__beyond_max_pending_ops_starts_those_before(void **state)
{
	struct slime_endpoint *ep, *peer;
	struct pair *p = *state;
	struct batch b;

	ep = connect_small(p, &peer);
	fill_batch(&b, &p->a, FEW, "defer");

	assert_int_equal(slime_call_start_many(ep, b.items, FEW), MAX_CALLS);
	assert_int_equal(slime_call_start_many(ep, b.items + MAX_CALLS, 1), -EAGAIN);
	answer(&p->b, 1);
	assert_int_equal(slime_call_wait(b.calls[0], PAIR_TIMEOUT_MS), 0);
	assert_int_equal(slime_call_start_many(ep, b.items + MAX_CALLS, FEW - MAX_CALLS), 1);
	answer(&p->b, MAX_CALLS);
	wait_for_all(&b, MAX_CALLS + 1, 0);
	empty_batch(&b);
	assert_int_equal(slime_endpoint_destroy(ep), 0);
	assert_int_equal(slime_endpoint_destroy(peer), 0);
}

static void start_many__without_a_connection_starts_none(void **state)
{
	struct slime_endpoint_attr attr = SLIME_ENDPOINT_ATTR_INIT;
	struct slime_endpoint_stats stats;
	struct slime_endpoint *ep;
	struct pair *p = *state;
	struct batch b;

	assert_int_equal(slime_endpoint_create(p->a.ctx, &attr, &ep), 0);
	fill_batch(&b, &p->a, FEW, "count");

	assert_int_equal(slime_call_start_many(ep, b.items, FEW), -ENOTCONN);
	for (size_t i = 0; i < FEW; i++)
		assert_true(slime_call_test(b.calls[i]));
	slime_endpoint_stats(ep, &stats);
	assert_int_equal(stats.kinds[SLIME_KIND_CALL].submitted, 0);
	empty_batch(&b);
	assert_int_equal(slime_endpoint_destroy(ep), 0);
}

/* ---- how they end ---- */

/* Which requests give up: the first by their deadlines, the second are cancelled. */
static bool has_deadline(size_t i)
{
	return i % 4 == 0;
}

static bool is_cancelled(size_t i)
{
	return i % 4 == 1;
}

static void start_many__of_some_that_give_up_ends_those_alone(void **state)
{
	struct pair *p = *state;
	size_t n_left = FEW / 2;
	struct batch b;

	fill_numbered(&b, &p->a);
	for (size_t i = 0; i < FEW; i++)
		b.args[i].timeout_ms = has_deadline(i) ? TIMEOUT_MS : -1;

	assert_int_equal(start(&p->a, &b, 0), FEW);
	for (size_t i = 0; i < FEW; i++) {
		if (is_cancelled(i))
			assert_int_equal(slime_call_cancel(b.calls[i]), 0);
	}
	for (size_t i = 0; i < FEW; i++) {
		if (!has_deadline(i) && !is_cancelled(i))
			continue;
		assert_int_equal(slime_call_wait(b.calls[i], PAIR_TIMEOUT_MS), 0);
		assert_int_equal(slime_call_status(b.calls[i]),
				 is_cancelled(i) ? -ECANCELED : -ETIMEDOUT);
	}
	/* Of the others some came to the shelf, and some were late already. */
	while (n_left) {
		struct slime_rpc_request *req = shelf_take(&p->b.shelf);
		size_t i = *(const uint8_t *)slime_rpc_request_data(req);
		int ret = slime_rpc_reply(req, NULL, 0);

		if (has_deadline(i) || is_cancelled(i))
			continue;
		assert_int_equal(ret, 0);
		n_left--;
	}
	for (size_t i = 0; i < FEW; i++) {
		assert_int_equal(slime_call_wait(b.calls[i], PAIR_TIMEOUT_MS), 0);
		if (!has_deadline(i) && !is_cancelled(i))
			assert_int_equal(slime_call_status(b.calls[i]), 0);
	}
	empty_batch(&b);
}

static void start_many__then_the_link_dies_ends_each(void **state)
{
	struct pair *p = *state;
	struct batch b;

	fill_batch(&b, &p->a, MANY, "defer");

	assert_int_equal(start(&p->a, &b, 0), MANY);
	shelf_wait(&p->b.shelf, FEW);
	pair_drop(&p->b);
	for (size_t i = 0; i < MANY; i++) {
		int status;

		assert_int_equal(slime_call_wait(b.calls[i], PAIR_TIMEOUT_MS), 0);
		status = slime_call_status(b.calls[i]);
		assert_true(status == -ECONNRESET || (status == -ENOTCONN && i >= FEW));
	}
	empty_batch(&b);
}

/* The last of a chain of callbacks. */
struct chain {
	struct slime_endpoint *ep;
	struct slime_call_item items[FEW];
	_Atomic int ret;
	_Atomic unsigned n_ended;
};

static void start_next(void *arg, struct slime_call *call)
{
	struct chain *c = arg;

	(void)call;
	c->ret = slime_call_start_many(c->ep, c->items, FEW);
}

static void start_many__inside_a_callback_starts_all(void **state)
{
	struct slime_call_attr attr = { .fn = start_next };
	struct slime_call_args args = SLIME_CALL_ARGS_INIT;
	struct pair *p = *state;
	struct chain c = { .ep = p->a.ep };
	struct slime_call *first;
	struct batch b;

	fill_batch(&b, &p->a, FEW, "count");
	memcpy(c.items, b.items, sizeof(c.items));
	attr.arg = &c;
	assert_int_equal(slime_call_create(p->a.ctx, &attr, &first), 0);
	args.method = b.args[0].method;

	assert_int_equal(slime_call_start(p->a.ep, &args, first), 0);
	while (!c.ret)
		slime_context_poll(p->a.ctx);
	assert_int_equal(c.ret, FEW);
	wait_for_all(&b, FEW, 0);
	assert_int_equal(slime_call_wait(first, PAIR_TIMEOUT_MS), 0);
	assert_int_equal(slime_call_destroy(first), 0);
	empty_batch(&b);
}

/* ---- threads ---- */

struct starter {
	struct side *side;
	size_t number;
	unsigned n_wrong;
	pthread_t thread;
};

/* Batches of any length up to all of them, each answered before the next. */
static void *start_batches(void *arg)
{
	struct starter *s = arg;
	struct slime_call_item items[FEW];
	struct slime_call_args args[FEW];
	uint64_t out[FEW], in[FEW];

	for (size_t i = 0; i < FEW; i++) {
		args[i] = (struct slime_call_args)SLIME_CALL_ARGS_INIT;
		args[i].method = slime_rpc_method_id("echo_inline");
		args[i].request = &out[i];
		args[i].request_len = sizeof(out[i]);
		args[i].reply = &in[i];
		args[i].reply_cap = sizeof(in[i]);
		args[i].timeout_ms = PAIR_TIMEOUT_MS;
		items[i].args = &args[i];
		s->n_wrong += slime_call_create(s->side->ctx, NULL, &items[i].call) != 0;
	}
	for (size_t r = 0; r < ROUNDS && !s->n_wrong; r++) {
		size_t n = (r * 7 + s->number) % FEW + 1;

		for (size_t i = 0; i < n; i++)
			out[i] = s->number << 32 | r << 16 | i;
		s->n_wrong += slime_call_start_many(s->side->ep, items, n) != (int)n;
		for (size_t i = 0; i < n; i++) {
			s->n_wrong += slime_call_wait(items[i].call, PAIR_TIMEOUT_MS) != 0;
			s->n_wrong += slime_call_status(items[i].call) != 0;
			s->n_wrong += in[i] != out[i];
		}
	}
	for (size_t i = 0; i < FEW; i++)
		s->n_wrong += slime_call_destroy(items[i].call) != 0;
	return NULL;
}

static void start_many__by_several_threads_returns_each_its_bytes(void **state)
{
	struct starter starters[THREADS];
	struct pair *p = *state;

	for (size_t i = 0; i < THREADS; i++) {
		starters[i] = (struct starter){ .side = i % 2 ? &p->b : &p->a, .number = i };
		assert_int_equal(
			pthread_create(&starters[i].thread, NULL, start_batches, &starters[i]), 0);
	}
	for (size_t i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(starters[i].thread, NULL), 0);
		assert_int_equal(starters[i].n_wrong, 0);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		IN_PAIR(start_many__of_all_lengths_returns_each_its_bytes),
		IN_PAIR(start_many__arrives_in_order),
		IN_PAIR(start_many__of_none_starts_none),
		IN_PAIR(start_many__with_a_malformed_one_starts_those_before),
		IN_PAIR(start_many__with_a_call_twice_starts_it_once),
		IN_PAIR(start_many__beyond_max_pending_ops_starts_those_before),
		IN_PAIR(start_many__without_a_connection_starts_none),
		IN_PAIR(start_many__of_some_that_give_up_ends_those_alone),
		IN_PAIR(start_many__then_the_link_dies_ends_each),
		IN_PAIR(start_many__inside_a_callback_starts_all),
		IN_PAIR(start_many__by_several_threads_returns_each_its_bytes),
	};

	return PAIR_RUN("calls started together", tests);
}
