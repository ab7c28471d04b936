/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that do not simply succeed: deadlines, cancelled ones, links that end. */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tests/libslime/rpc/pair.h"

/* Start a call with a request of len bytes, and as much room. */
static struct slime_call *start(struct side *s, const char *method, size_t len, int64_t timeout_ms)
{
	static uint8_t out[100000], in[100000];
	struct slime_call_args args = SLIME_CALL_ARGS_INIT;
	struct slime_call *call = make_call(s->ctx);

	args.method = slime_rpc_method_id(method);
	args.request = out;
	args.request_len = len;
	args.reply = in;
	args.reply_cap = len;
	args.timeout_ms = timeout_ms;
	assert_int_equal(slime_call_start(s->ep, &args, call), 0);
	return call;
}

/* Wait for its end, destroy it: its status. */
static int finish(struct slime_call *call)
{
	int status;

	assert_int_equal(slime_call_wait(call, PAIR_TIMEOUT_MS), 0);
	status = slime_call_status(call);
	assert_int_equal(slime_call_destroy(call), 0);
	return status;
}

static void expect_echo_works(struct side *s)
{
	assert_int_equal(finish(start(s, "echo", 100, -1)), 0);
	assert_int_equal(finish(start(s, "echo_inline", 100000, -1)), 0);
}

/* ---- giving up ---- */

/* A call whose time is over while the handler has it: the time doubles until it gets there. */
static struct slime_rpc_request *outlive_call(struct pair *p, size_t len)
{
	for (int64_t timeout_ms = 20; !shelf_count(&p->b.shelf); timeout_ms *= 2)
		assert_int_equal(finish(start(&p->a, "defer", len, timeout_ms)), -ETIMEDOUT);
	return shelf_take(&p->b.shelf);
}

static void deadline__shorter_than_the_handler_ends_the_call(void **state)
{
	static const size_t lens[] = { 10, 5000, 100000 };
	struct pair *p = *state;

	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		struct slime_rpc_request *req = outlive_call(p, lens[i]);

		assert_true(slime_rpc_request_cancelled(req));
		/* Its clock began with the arrival. */
		assert_in_range(slime_rpc_request_remaining_us(req), 0, INT64_MAX - 1);
		assert_int_equal(slime_rpc_request_len(req), lens[i]);
		assert_int_equal(slime_rpc_reply(req, slime_rpc_request_data(req), lens[i]),
				 -ECANCELED);
	}
	expect_echo_works(&p->a);
}

static void deadline__that_is_over_at_once_ends_the_call(void **state)
{
	struct pair *p = *state;

	for (int i = 0; i < 50; i++) {
		int status = finish(start(&p->a, "echo", i % 2 ? 100000 : 10, 0));

		assert_int_equal(status, -ETIMEDOUT);
	}
	expect_echo_works(&p->a);
}

/* Callbacks that call again for ever; by themselves they end then. */
#define STORM_CALLS 16
#define STORM_NS    (20 * UINT64_C(1000000000))

struct storm {
	struct slime_endpoint *ep;
	uint64_t end_ns;
	_Atomic bool over;
};

static void call_for_ever(void *arg, struct slime_call *call)
{
	static uint8_t bytes[20000];
	struct storm *s = arg;
	struct slime_call_args args = SLIME_CALL_ARGS_INIT;

	if (s->over || sl_clock_ns() > s->end_ns)
		return;
	args.method = slime_rpc_method_id("count");
	args.request = bytes;
	args.request_len = sl_clock_ns() % 2 ? 8 : sizeof(bytes);
	(void)!slime_call_start(s->ep, &args, call);
}

static void deadline__beside_callbacks_that_call_for_ever_ends_the_call(void **state)
{
	struct pair *p = *state;
	struct storm s = { .ep = p->a.ep, .end_ns = sl_clock_ns() + STORM_NS };
	struct slime_call_attr attr = { .fn = call_for_ever, .arg = &s };
	struct slime_call *calls[STORM_CALLS];

	for (int i = 0; i < STORM_CALLS; i++) {
		assert_int_equal(slime_call_create(p->a.ctx, &attr, &calls[i]), 0);
		call_for_ever(&s, calls[i]);
	}
	for (int64_t timeout_ms = 10; timeout_ms <= 160; timeout_ms *= 2) {
		struct slime_call *call = start(&p->a, "defer", 8, timeout_ms);

		assert_int_equal(slime_call_wait(calls[0], 1), -ETIMEDOUT);
		assert_int_equal(finish(call), -ETIMEDOUT);
	}
	assert_true(sl_clock_ns() < s.end_ns);
	s.over = true;
	for (int i = 0; i < STORM_CALLS; i++)
		finish(calls[i]);
}

static void deadline__none_is_seen_as_none(void **state)
{
	struct pair *p = *state;
	struct slime_call *call = start(&p->a, "defer", 10, -1);
	struct slime_rpc_request *req = shelf_take(&p->b.shelf);

	assert_true(slime_rpc_request_remaining_us(req) == INT64_MAX);
	assert_false(slime_rpc_request_cancelled(req));
	assert_int_equal(slime_rpc_reply(req, NULL, 0), 0);
	assert_int_equal(finish(call), 0);
}

static void cancel__of_a_running_handler_ends_the_call_and_tells_it(void **state)
{
	struct pair *p = *state;
	struct slime_call *call = start(&p->a, "gate", 10, -1);

	gate_wait(&p->b.gate, 1);
	assert_int_equal(slime_call_cancel(call), 0);
	assert_int_equal(finish(call), -ECANCELED);
	/* The link goes on while the handler is still at it. */
	assert_int_equal(finish(start(&p->a, "echo", 100, -1)), 0);
	gate_open(&p->b.gate);
	pair_drop(&p->b);
	assert_int_equal(atomic_load(&p->b.n_cancelled), 1);
}

static void cancel__of_a_queued_request_keeps_the_handler_from_running(void **state)
{
	struct pair *p = *state;
	struct slime_call *busy[2] = { start(&p->a, "gate", 10, -1), start(&p->a, "gate", 10, -1) };
	struct slime_call *call;

	gate_wait(&p->b.gate, 2);
	call = start(&p->a, "defer_pool", 10, -1);
	/* Another call that is answered says that the request is there. */
	assert_int_equal(finish(start(&p->a, "count", 0, -1)), 0);
	assert_int_equal(slime_call_cancel(call), 0);
	assert_int_equal(finish(call), -ECANCELED);
	gate_open(&p->b.gate);
	assert_int_equal(finish(busy[0]), 0);
	assert_int_equal(finish(busy[1]), 0);
	assert_int_equal(finish(start(&p->a, "echo", 10, -1)), 0);
	assert_int_equal(shelf_count(&p->b.shelf), 0);
}

static void cancel__of_a_call_that_waits_for_a_slot_never_sends_it(void **state)
{
	enum { N = 80 };
	struct pair *p = *state;
	struct slime_call *calls[N];

	for (int i = 0; i < N; i++)
		calls[i] = start(&p->a, "defer", 10, -1);
	shelf_wait(&p->b.shelf, 72);
	assert_int_equal(slime_call_cancel(calls[N - 1]), 0);
	assert_int_equal(finish(calls[N - 1]), -ECANCELED);
	for (int i = 0; i < N - 1; i++)
		assert_int_equal(slime_rpc_reply(shelf_take(&p->b.shelf), NULL, 0), 0);
	for (int i = 0; i < N - 1; i++)
		assert_int_equal(finish(calls[i]), 0);
	assert_int_equal(shelf_count(&p->b.shelf), 0);
}

static void cancel__of_a_call_that_ended_is_enoent(void **state)
{
	struct pair *p = *state;
	struct slime_call *call = make_call(p->a.ctx);

	assert_int_equal(slime_call_cancel(call), -ENOENT);
	assert_int_equal(call_now(p->a.ep, call, "count", NULL, 0, NULL, 0), 0);
	assert_int_equal(slime_call_cancel(call), -ENOENT);
	assert_int_equal(slime_call_status(call), 0);
	assert_int_equal(slime_call_destroy(call), 0);
}

static void wait__that_times_out_leaves_the_call_alone(void **state)
{
	struct pair *p = *state;
	struct slime_call *call = start(&p->a, "gate", 10, -1);

	assert_int_equal(slime_call_wait(call, 0), -ETIMEDOUT);
	assert_int_equal(slime_call_wait(call, 5), -ETIMEDOUT);
	assert_int_equal(slime_call_destroy(call), -EBUSY);
	gate_open(&p->b.gate);
	assert_int_equal(finish(call), 0);
}

/* ---- callers that give up, and handlers that go on ---- */

#define SLOTS 72

/* So many calls of "defer" that are given up once their handlers have them. */
static void begin_and_cancel(struct pair *p, struct slime_call *calls[SLOTS], unsigned n_before)
{
	for (unsigned i = 0; i < SLOTS; i++)
		calls[i] = start(&p->a, "defer", 10, -1);
	shelf_wait(&p->b.shelf, n_before + SLOTS);
	for (unsigned i = 0; i < SLOTS; i++)
		assert_int_equal(slime_call_cancel(calls[i]), 0);
}

static unsigned n_ended(struct slime_call *calls[SLOTS])
{
	unsigned n = 0;

	for (unsigned i = 0; i < SLOTS; i++)
		n += slime_call_test(calls[i]);
	return n;
}

/* A second link between the two, which is left to the caller. */
static void link_again(struct pair *p, struct side *a, struct side *b)
{
	struct slime_endpoint_attr attr = SLIME_ENDPOINT_ATTR_INIT;

	*a = (struct side){ .ctx = p->a.ctx, .op = p->a.op };
	*b = (struct side){ .ctx = p->b.ctx, .op = p->b.op };
	attr.transports[0] = p->transport;
	attr.service = p->b.service;
	assert_int_equal(slime_endpoint_create(a->ctx, NULL, &a->ep), 0);
	assert_int_equal(slime_endpoint_create(b->ctx, &attr, &b->ep), 0);
	connect_to(a->ep, b->ep, a->op);
	connect_to(b->ep, a->ep, b->op);
	assert_int_equal(slime_op_wait(a->op, PAIR_TIMEOUT_MS), 0);
	assert_int_equal(slime_op_wait(b->op, PAIR_TIMEOUT_MS), 0);
	assert_int_equal(slime_op_status(a->op), 0);
}

/* 128 of them; then the handlers are waited for, those of other links are not. */
static void cancel__of_more_than_a_links_share_waits_for_the_handlers(void **state)
{
	struct slime_call *first[SLOTS], *second[SLOTS], *other;
	struct pair *p = *state;
	struct side a, b;

	begin_and_cancel(p, first, 0);
	for (unsigned i = 0; i < SLOTS; i++)
		assert_int_equal(finish(first[i]), -ECANCELED);
	begin_and_cancel(p, second, SLOTS);
	while (n_ended(second) < 128 - SLOTS)
		sched_yield();
	/* What was cancelled before this one is looked after. */
	assert_int_equal(finish(start(&p->a, "echo", 10, -1)), 0);
	assert_int_equal(n_ended(second), 128 - SLOTS);

	link_again(p, &a, &b);
	other = start(&a, "defer", 10, -1);
	shelf_wait(&p->b.shelf, 2 * SLOTS + 1);
	assert_int_equal(slime_call_cancel(other), 0);
	assert_int_equal(finish(other), -ECANCELED);

	for (unsigned i = 0; i < 2 * SLOTS + 1; i++)
		assert_int_equal(slime_rpc_reply(shelf_take(&p->b.shelf), NULL, 0), -ECANCELED);
	for (unsigned i = 0; i < SLOTS; i++)
		assert_int_equal(finish(second[i]), -ECANCELED);
	/* The share is there again. */
	begin_and_cancel(p, first, 0);
	for (unsigned i = 0; i < SLOTS; i++)
		assert_int_equal(finish(first[i]), -ECANCELED);
	assert_int_equal(slime_endpoint_destroy(a.ep), 0);
	assert_int_equal(slime_endpoint_destroy(b.ep), 0);
}

/* The memory of a request is used again for the next of its slot, which is another handler's. */
static void reply__by_a_worker_whose_own_request_had_the_slot_is_as_any(void **state)
{
	struct pair *p = *state;
	struct slime_call *call;

	assert_int_equal(finish(start(&p->a, "outlast", 10, -1)), 0);
	gate_wait(&p->b.gate, 1);
	call = start(&p->a, "defer", 10, -1);
	shelf_wait(&p->b.shelf, 1);
	assert_int_equal(slime_call_cancel(call), 0);
	assert_int_equal(finish(call), -ECANCELED);
	gate_open(&p->b.gate);
	while (!atomic_load(&p->b.outcome))
		sched_yield();
	assert_int_equal(atomic_load(&p->b.outcome), -ECANCELED);
	expect_echo_works(&p->a);
}

/* ---- memory is bounded ---- */

static void call__more_bytes_than_are_admitted_take_turns(void **state)
{
	enum { N = 9 };
	const size_t len = 40 << 20;
	struct pair *p = *state;
	uint8_t *out = malloc(len);
	struct slime_call *calls[N];

	memset(out, 7, len);
	for (int i = 0; i < N; i++) {
		struct slime_call_args args = SLIME_CALL_ARGS_INIT;

		calls[i] = make_call(p->a.ctx);
		args.method = slime_rpc_method_id("count");
		args.request = out;
		args.request_len = len;
		assert_int_equal(slime_call_start(p->a.ep, &args, calls[i]), 0);
	}
	for (int i = 0; i < N; i++)
		assert_int_equal(finish(calls[i]), 0);
	assert_int_equal(atomic_load(&p->b.n_handled), N);
	free(out);
}

static void call__deadline_of_one_that_waits_for_memory_ends_it(void **state)
{
	enum { N = 8 };
	const size_t len = 40 << 20;
	struct pair *p = *state;
	uint8_t *out = malloc(len);
	struct slime_call *calls[N];
	unsigned n_timed_out = 0;

	memset(out, 7, len);
	for (int i = 0; i < N; i++) {
		struct slime_call_args args = SLIME_CALL_ARGS_INIT;

		calls[i] = make_call(p->a.ctx);
		args.method = slime_rpc_method_id("gate");
		args.request = out;
		args.request_len = len;
		/* The first go, the others wait: for memory here, or over tcp at the peer. */
		args.timeout_ms = i < 2 ? -1 : 1;
		assert_int_equal(slime_call_start(p->a.ep, &args, calls[i]), 0);
	}
	gate_wait(&p->b.gate, 2);
	for (int i = 2; i < N; i++)
		n_timed_out += finish(calls[i]) == -ETIMEDOUT;
	assert_int_equal(n_timed_out, N - 2);
	gate_open(&p->b.gate);
	assert_int_equal(finish(calls[0]), -EMSGSIZE); /* no room for what is echoed */
	assert_int_equal(finish(calls[1]), -EMSGSIZE);
	free(out);
}

static void call_start__beyond_max_pending_ops_is_eagain(void **state)
{
	enum { MAX = 100 };
	struct slime_endpoint_attr attr = SLIME_ENDPOINT_ATTR_INIT;
	struct pair *p = *state;
	struct slime_endpoint *ep[2];
	uint8_t desc[2][SLIME_ENDPOINT_DESC_MAX];
	int len[2];
	struct slime_call *calls[MAX + 1];
	struct slime_call_args args = SLIME_CALL_ARGS_INIT;

	attr.transports[0] = p->transport;
	attr.max_pending_ops = MAX;
	attr.service = p->b.service;
	assert_int_equal(slime_endpoint_create(p->b.ctx, &attr, &ep[1]), 0);
	attr.service = NULL;
	assert_int_equal(slime_endpoint_create(p->a.ctx, &attr, &ep[0]), 0);
	for (int i = 0; i < 2; i++) {
		len[i] = slime_endpoint_export(ep[i], desc[i], sizeof(desc[i]));
		assert_true(len[i] > 0);
	}
	assert_int_equal(
		slime_endpoint_connect(ep[0], desc[1], (size_t)len[1], PAIR_TIMEOUT_MS, p->a.op),
		0);
	assert_int_equal(
		slime_endpoint_connect(ep[1], desc[0], (size_t)len[0], PAIR_TIMEOUT_MS, p->b.op),
		0);
	assert_int_equal(slime_op_wait(p->a.op, PAIR_TIMEOUT_MS), 0);
	assert_int_equal(slime_op_wait(p->b.op, PAIR_TIMEOUT_MS), 0);

	args.method = slime_rpc_method_id("defer");
	for (int i = 0; i < MAX; i++) {
		calls[i] = make_call(p->a.ctx);
		assert_int_equal(slime_call_start(ep[0], &args, calls[i]), 0);
	}
	calls[MAX] = make_call(p->a.ctx);
	assert_int_equal(slime_call_start(ep[0], &args, calls[MAX]), -EAGAIN);
	assert_int_equal(slime_rpc_reply(shelf_take(&p->b.shelf), NULL, 0), 0);
	while (slime_call_start(ep[0], &args, calls[MAX]) == -EAGAIN)
		slime_context_poll(p->a.ctx);
	for (int i = 0; i < MAX; i++)
		assert_int_equal(slime_rpc_reply(shelf_take(&p->b.shelf), NULL, 0), 0);
	for (int i = 0; i <= MAX; i++)
		assert_int_equal(finish(calls[i]), 0);
	assert_int_equal(slime_endpoint_destroy(ep[0]), 0);
	assert_int_equal(slime_endpoint_destroy(ep[1]), 0);
}

/* ---- links that end ---- */

static void close__here_cancels_calls_sent_and_not(void **state)
{
	enum { N = 100 };
	struct pair *p = *state;
	struct slime_call *calls[N];
	struct slime_call_args args = SLIME_CALL_ARGS_INIT;

	for (int i = 0; i < N; i++)
		calls[i] = start(&p->a, "defer", i % 3 ? 10 : 100000, -1);
	shelf_wait(&p->b.shelf, 72);
	slime_endpoint_close(p->a.ep);
	for (int i = 0; i < N; i++)
		assert_int_equal(finish(calls[i]), -ECANCELED);
	calls[0] = make_call(p->a.ctx);
	args.method = slime_rpc_method_id("echo");
	assert_int_equal(slime_call_start(p->a.ep, &args, calls[0]), -ENOTCONN);
	assert_int_equal(slime_call_destroy(calls[0]), 0);
}

static void close__by_the_peer_tells_sent_calls_from_those_that_were_not(void **state)
{
	enum { N = 100 };
	struct pair *p = *state;
	struct slime_call *calls[N];
	unsigned n_reset = 0, n_unsent = 0;

	for (int i = 0; i < N; i++)
		calls[i] = start(&p->a, "defer", 10, -1);
	shelf_wait(&p->b.shelf, 72);
	slime_endpoint_close(p->b.ep);
	for (int i = 0; i < N; i++) {
		int status = finish(calls[i]);

		n_reset += status == -ECONNRESET;
		n_unsent += status == -ENOTCONN;
	}
	assert_int_equal(n_reset, 72);
	assert_int_equal(n_unsent, N - 72);
}

static void reply__after_the_link_died_is_econnreset(void **state)
{
	static const size_t lens[] = { 10, 5000, 100000 };
	struct pair *p = *state;
	struct slime_rpc_request *req[3];
	struct slime_call *calls[3];

	for (int i = 0; i < 3; i++) {
		calls[i] = start(&p->a, "defer", lens[i], -1);
		req[i] = shelf_take(&p->b.shelf);
	}
	pair_drop(&p->a);
	for (int i = 0; i < 3; i++)
		assert_int_equal(finish(calls[i]), -ECANCELED);
	/* Once before this end is gone, the rest after it. */
	while (!slime_rpc_request_cancelled(req[0]))
		slime_context_poll(p->b.ctx);
	assert_null(slime_rpc_reply_buffer(req[0], 10));
	assert_int_equal(slime_rpc_reply(req[0], NULL, 0), -ECONNRESET);
	pair_drop(&p->b);
	for (int i = 1; i < 3; i++) {
		uint8_t zeros[64] = { 0 };

		assert_true(slime_rpc_request_cancelled(req[i]));
		assert_memory_equal(slime_rpc_request_data(req[i]), zeros, sizeof(zeros));
		assert_null(slime_rpc_reply_buffer(req[i], 10));
		assert_int_equal(slime_rpc_service_destroy(NULL), 0);
		assert_int_equal(slime_context_destroy(p->b.ctx), -EBUSY);
		assert_int_equal(slime_rpc_reply(req[i], zeros, 10), -ECONNRESET);
	}
}

struct destroyer {
	struct slime_endpoint *ep;
	struct gate *gate;
};

static void *open_soon(void *arg)
{
	struct destroyer *d = arg;
	struct slime_endpoint_info info;

	do {
		slime_endpoint_info(d->ep, &info);
	} while (info.state == SLIME_ENDPOINT_CONNECTED);
	gate_open(d->gate);
	return NULL;
}

static void destroy__waits_for_handlers_that_run(void **state)
{
	struct pair *p = *state;
	struct destroyer d = { p->b.ep, &p->b.gate };
	struct slime_call *call = start(&p->a, "gate", 10, -1);
	struct slime_call *queued[2];
	pthread_t thread;

	for (int i = 0; i < 2; i++)
		queued[i] = start(&p->a, "gate", 10, -1);
	gate_wait(&p->b.gate, 2);
	slime_endpoint_close(p->b.ep);
	assert_int_equal(finish(call), -ECONNRESET);
	assert_int_equal(finish(queued[0]), -ECONNRESET);
	assert_int_equal(finish(queued[1]), -ECONNRESET);
	assert_int_equal(pthread_create(&thread, NULL, open_soon, &d), 0);
	pthread_join(thread, NULL);
	pair_drop(&p->b);
	assert_int_equal(p->b.gate.n_inside, 0);
}

static void destroy__by_a_handler_of_the_endpoint_is_edeadlk(void **state)
{
	struct pair *p = *state;

	assert_int_equal(finish(start(&p->a, "destroy", 0, -1)), 0);
	assert_int_equal(atomic_load(&p->b.outcome), -EDEADLK);
	expect_echo_works(&p->a);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		IN_PAIR(deadline__shorter_than_the_handler_ends_the_call),
		IN_PAIR(deadline__that_is_over_at_once_ends_the_call),
		IN_PAIR(deadline__beside_callbacks_that_call_for_ever_ends_the_call),
		IN_PAIR(deadline__none_is_seen_as_none),
		IN_PAIR(cancel__of_a_running_handler_ends_the_call_and_tells_it),
		IN_PAIR(cancel__of_a_queued_request_keeps_the_handler_from_running),
		IN_PAIR(cancel__of_a_call_that_waits_for_a_slot_never_sends_it),
		IN_PAIR(cancel__of_a_call_that_ended_is_enoent),
		IN_PAIR(wait__that_times_out_leaves_the_call_alone),
		IN_PAIR(cancel__of_more_than_a_links_share_waits_for_the_handlers),
		IN_PAIR(reply__by_a_worker_whose_own_request_had_the_slot_is_as_any),
		IN_PAIR(call__more_bytes_than_are_admitted_take_turns),
		IN_PAIR(call__deadline_of_one_that_waits_for_memory_ends_it),
		IN_PAIR(call_start__beyond_max_pending_ops_is_eagain),
		IN_PAIR(close__here_cancels_calls_sent_and_not),
		IN_PAIR(close__by_the_peer_tells_sent_calls_from_those_that_were_not),
		IN_PAIR(reply__after_the_link_died_is_econnreset),
		IN_PAIR(destroy__waits_for_handlers_that_run),
		IN_PAIR(destroy__by_a_handler_of_the_endpoint_is_edeadlk),
	};

	return PAIR_RUN("rpc life", tests);
}
