/* SPDX-License-Identifier: Apache-2.0 */
/* Calls and requests in the context's queue: a program without callbacks waits and serves. */
#include "fixture.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define LONG ((size_t)300 * KiB)

static char the_arg[] = "arg";

static void add_service(struct end *e)
{
	struct slime_rpc_method_attr attr = SLIME_RPC_METHOD_ATTR_INIT;

	attr.flags = SLIME_RPC_QUEUED;
	attr.arg = the_arg;
	assert_ok(slime_rpc_service_create(e->ctx, &e->service));
	assert_ok(slime_rpc_method_add(e->service, "queued", &attr));
}

static struct pair *open_pair(bool manual_a)
{
	struct pair_attr attr = PAIR_ATTR_INIT;
	struct pair *p = calloc(1, sizeof(*p));

	end_create(&p->b, &attr);
	attr.manual_a = manual_a;
	end_create(&p->a, &attr);
	add_service(&p->a);
	add_service(&p->b);
	pair_create_endpoints(p, NULL);
	pair_connect(p);
	return p;
}

static int setup(void **state)
{
	*state = open_pair(false);
	return 0;
}

static struct slime_call *call_create(struct end *e, uint32_t flags)
{
	struct slime_call_attr attr = { .flags = flags };
	struct slime_call *call;

	assert_ok(slime_call_create(e->ctx, &attr, &call));
	return call;
}

static void start(struct end *e, struct slime_call *call, const void *request, void *reply,
		  size_t len, int64_t timeout_ms)
{
	struct slime_call_args args = SLIME_CALL_ARGS_INIT;

	args.method = slime_rpc_method_id("queued");
	args.request = request;
	args.request_len = len;
	args.reply = reply;
	args.reply_cap = len;
	args.timeout_ms = timeout_ms;
	assert_ok(slime_call_start(e->ep, &args, call));
}

/* The next event, within PATIENCE_MS. A manual context is polled. */
static struct slime_event await_event(struct slime_context *ctx, bool manual)
{
	struct pollfd fd = { .fd = slime_context_fd(ctx), .events = POLLIN };
	uint64_t end = now_ms() + PATIENCE_MS;
	struct slime_event event = { 0 };

	while (!slime_context_next(ctx, &event)) {
		assert_true(now_ms() < end);
		if (manual)
			while (slime_context_poll(ctx) > 0 || slime_context_arm(ctx) == -EAGAIN)
				;
		if (slime_context_next(ctx, &event))
			break;
		poll(&fd, 1, PATIENCE_MS);
	}
	return event;
}

static struct slime_rpc_request *await_request(struct end *e)
{
	struct slime_event event = await_event(e->ctx, false);

	assert_int_equal(event.kind, SLIME_EVENT_REQUEST);
	return event.request;
}

static void end_call(struct slime_call *call, int status)
{
	assert_ok(slime_call_wait(call, PATIENCE_MS));
	assert_int_equal(slime_call_status(call), status);
	assert_ok(slime_call_destroy(call));
}

static void echo(struct slime_rpc_request *req)
{
	assert_ok(slime_rpc_reply(req, slime_rpc_request_data(req), slime_rpc_request_len(req)));
}

static void queued_request__is_answered_by_who_took_it(void **state)
{
	static const size_t lens[] = { 0, 1, 1000, 10000, LONG };
	struct pair *p = *state;
	uint8_t *out = malloc(LONG), *in = malloc(LONG);

	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		struct slime_call *call = call_create(&p->a, 0);
		struct slime_rpc_request *req;

		pattern_fill(out, lens[i], i, 0);
		start(&p->a, call, out, in, lens[i], -1);
		req = await_request(&p->b);
		assert_ptr_equal(slime_rpc_request_arg(req), the_arg);
		assert_int_equal(slime_rpc_request_len(req), lens[i]);
		assert_false(slime_call_test(call));
		echo(req);
		end_call(call, 0);
		assert_pattern(in, lens[i], i, 0);
	}
	free(in);
	free(out);
}

static void queued_requests__of_a_manual_context_are_told_by_its_descriptor(void **state)
{
	struct pair *p = open_pair(true);

	(void)state;
	for (uint64_t i = 0; i < 50; i++) {
		struct slime_call *call = call_create(&p->b, 0);
		struct slime_event event;
		uint64_t echoed = 0;

		start(&p->b, call, &i, &echoed, sizeof(i), -1);
		event = await_event(p->a.ctx, true);
		assert_int_equal(event.kind, SLIME_EVENT_REQUEST);
		echo(event.request);
		end_call(call, 0);
		assert_true(echoed == i);
	}
	pair_close(p);
}

#define MANY 200

static void queued_calls__come_out_of_the_context_each_once(void **state)
{
	struct pair *p = *state;
	struct slime_call *calls[MANY];
	uint64_t out[MANY], in[MANY];
	int seen[MANY] = { 0 };

	for (int i = 0; i < MANY; i++) {
		struct slime_call_attr attr = { .arg = &seen[i], .flags = SLIME_CALL_QUEUED };

		out[i] = (uint64_t)i;
		assert_ok(slime_call_create(p->a.ctx, &attr, &calls[i]));
		start(&p->a, calls[i], &out[i], &in[i], sizeof(out[i]), -1);
	}
	for (int i = 0; i < MANY; i++)
		echo(await_request(&p->b));
	for (int i = 0; i < MANY; i++) {
		struct slime_event event = await_event(p->a.ctx, false);

		assert_int_equal(event.kind, SLIME_EVENT_CALL);
		assert_ok(slime_call_status(event.call));
		++*(int *)slime_call_arg(event.call);
	}
	for (int i = 0; i < MANY; i++) {
		assert_int_equal(seen[i], 1);
		assert_true(in[i] == out[i]);
		assert_ok(slime_call_destroy(calls[i]));
	}
}

static void queued_call__stays_pending_until_it_was_taken(void **state)
{
	struct pair *p = *state;
	struct pollfd fd = { .fd = slime_context_fd(p->a.ctx), .events = POLLIN };
	struct slime_call *call = call_create(&p->a, SLIME_CALL_QUEUED);
	struct slime_event event;
	uint64_t out = 1, in = 0;

	start(&p->a, call, &out, &in, sizeof(out), -1);
	echo(await_request(&p->b));
	assert_int_equal(poll(&fd, 1, PATIENCE_MS), 1);
	assert_false(slime_call_test(call));
	assert_int_equal(slime_call_destroy(call), -EBUSY);
	assert_true(slime_context_next(p->a.ctx, &event));
	assert_ptr_equal(event.call, call);
	assert_false(slime_context_next(p->a.ctx, &event));
	assert_ok(slime_call_status(call));
	/* Again, with the same call. */
	start(&p->a, call, &out, &in, sizeof(out), -1);
	echo(await_request(&p->b));
	assert_ptr_equal(await_event(p->a.ctx, false).call, call);
	assert_ok(slime_call_destroy(call));
}

/* Of a link that dies all calls come out. */
static void queued_calls__of_a_closed_link_come_out_cancelled(void **state)
{
	struct pair *p = *state;
	struct slime_call *calls[MANY];
	uint64_t out = 1, in[MANY];

	for (int i = 0; i < MANY; i++) {
		calls[i] = call_create(&p->a, SLIME_CALL_QUEUED);
		start(&p->a, calls[i], &out, &in[i], sizeof(out), -1);
	}
	slime_endpoint_close(p->a.ep);
	for (int i = 0; i < MANY; i++)
		assert_int_equal(slime_call_status(await_event(p->a.ctx, false).call), -ECANCELED);
	for (int i = 0; i < MANY; i++)
		assert_ok(slime_call_destroy(calls[i]));
	end_await(&p->b, SLIME_ENDPOINT_CLOSED);
	/* Those that had arrived are answered when the queue is looked at. */
	assert_false(slime_context_next(p->b.ctx, &(struct slime_event){ 0 }));
}

static void await_readable(struct end *e)
{
	struct pollfd fd = { .fd = slime_context_fd(e->ctx), .events = POLLIN };

	assert_int_equal(poll(&fd, 1, PATIENCE_MS), 1);
}

static void queued_request__past_its_deadline_is_not_handed_out(void **state)
{
	struct pair *p = *state;
	struct slime_call *call = call_create(&p->a, 0), *next = call_create(&p->a, 0);
	uint64_t out = 1, in = 0;
	struct slime_event event;

	start(&p->a, call, &out, &in, sizeof(out), 100);
	await_readable(&p->b);
	end_call(call, -ETIMEDOUT);
	assert_false(slime_context_next(p->b.ctx, &event));
	/* Its slot is free again. */
	start(&p->a, next, &out, &in, sizeof(out), -1);
	echo(await_request(&p->b));
	end_call(next, 0);
}

static void queued_request__whose_caller_gave_up_is_not_handed_out(void **state)
{
	struct pair *p = *state;
	struct slime_call *call = call_create(&p->a, 0);
	uint8_t *out = calloc(1, LONG), *in = malloc(LONG);
	struct slime_event event;

	start(&p->a, call, out, in, LONG, -1);
	await_readable(&p->b);
	assert_ok(slime_call_cancel(call));
	end_call(call, -ECANCELED);
	assert_false(slime_context_next(p->b.ctx, &event));
	free(in);
	free(out);
}

/* The service, and the endpoint, may be gone before it is answered. */
static void queued_request__outlives_its_link(void **state)
{
	struct pair *p = *state;
	struct slime_call *call = call_create(&p->a, 0), *untaken = call_create(&p->a, 0);
	uint64_t out = 7, in = 0;
	struct slime_rpc_request *req;
	struct slime_event event;

	start(&p->a, call, &out, &in, sizeof(out), -1);
	req = await_request(&p->b);
	start(&p->a, untaken, &out, &in, sizeof(out), -1);
	await_readable(&p->b);
	slime_endpoint_close(p->a.ep);
	end_call(call, -ECANCELED);
	end_call(untaken, -ECANCELED);
	end_await(&p->b, SLIME_ENDPOINT_CLOSED);
	assert_ok(slime_endpoint_destroy(p->b.ep));
	p->b.ep = NULL;
	assert_ok(slime_rpc_service_destroy(p->b.service));
	p->b.service = NULL;
	assert_int_equal(slime_context_destroy(p->b.ctx), -EBUSY);
	assert_true(slime_rpc_request_cancelled(req));
	assert_ptr_equal(slime_rpc_request_arg(req), the_arg);
	assert_true(*(const uint64_t *)slime_rpc_request_data(req) == 7);
	assert_int_equal(slime_rpc_reply(req, &out, sizeof(out)), -ECONNRESET);
	assert_false(slime_context_next(p->b.ctx, &event));
}

static void method_add__of_a_queued_method_with_a_handler_is_refused(void **state)
{
	struct pair *p = *state;
	struct slime_rpc_method_attr attr = SLIME_RPC_METHOD_ATTR_INIT;
	struct slime_rpc_service *service;

	assert_ok(slime_rpc_service_create(p->a.ctx, &service));
	attr.flags = SLIME_RPC_QUEUED | SLIME_RPC_INLINE;
	assert_int_equal(slime_rpc_method_add(service, "m", &attr), -EINVAL);
	attr.flags = SLIME_RPC_QUEUED | SLIME_RPC_IN_PLACE;
	assert_int_equal(slime_rpc_method_add(service, "m", &attr), -EINVAL);
	attr.flags = 0;
	assert_int_equal(slime_rpc_method_add(service, "m", &attr), -EINVAL);
	attr.flags = SLIME_RPC_QUEUED;
	attr.fn = (slime_rpc_fn *)(void (*)(void))abort;
	assert_int_equal(slime_rpc_method_add(service, "m", &attr), -EINVAL);
	attr.fn = NULL;
	assert_ok(slime_rpc_method_add(service, "m", &attr));
	assert_ok(slime_rpc_service_destroy(service));
}

static void call_create__queued_with_a_callback_is_refused(void **state)
{
	struct pair *p = *state;
	struct slime_call_attr attr = { .fn = (slime_call_fn *)(void (*)(void))abort,
					.flags = SLIME_CALL_QUEUED };
	struct slime_call *call;

	assert_int_equal(slime_call_create(p->a.ctx, &attr, &call), -EINVAL);
	attr.fn = NULL;
	attr.flags = 1u << 30;
	assert_int_equal(slime_call_create(p->a.ctx, &attr, &call), -EINVAL);
}

#define WITH_QUEUE(fn) cmocka_unit_test_setup_teardown(fn, setup, pair_teardown)

static const struct CMUnitTest tests[] = {
	WITH_QUEUE(queued_request__is_answered_by_who_took_it),
	cmocka_unit_test(queued_requests__of_a_manual_context_are_told_by_its_descriptor),
	WITH_QUEUE(queued_calls__come_out_of_the_context_each_once),
	WITH_QUEUE(queued_call__stays_pending_until_it_was_taken),
	WITH_QUEUE(queued_calls__of_a_closed_link_come_out_cancelled),
	WITH_QUEUE(queued_request__past_its_deadline_is_not_handed_out),
	WITH_QUEUE(queued_request__whose_caller_gave_up_is_not_handed_out),
	WITH_QUEUE(queued_request__outlives_its_link),
	WITH_QUEUE(method_add__of_a_queued_method_with_a_handler_is_refused),
	WITH_QUEUE(call_create__queued_with_a_callback_is_refused),
};

FIXTURE_MAIN("queue")
