/* SPDX-License-Identifier: Apache-2.0 */
/* Calls, where they are many or large, or the client dies. */
#include "fixture.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "peer.h"

#define LARGEST large((size_t)256 * MiB)

/* ---- methods ---- */

static void echo(void *arg, struct slime_rpc_request *req)
{
	(void)arg;
	slime_rpc_reply(req, slime_rpc_request_data(req), slime_rpc_request_len(req));
}

/* Handlers wait here until it is open. */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool open;
} gate = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static void pass_gate(void *arg, struct slime_rpc_request *req)
{
	pthread_mutex_lock(&gate.lock);
	while (!gate.open)
		pthread_cond_wait(&gate.changed, &gate.lock);
	pthread_mutex_unlock(&gate.lock);
	echo(arg, req);
}

static void open_gate(void)
{
	pthread_mutex_lock(&gate.lock);
	gate.open = true;
	pthread_cond_broadcast(&gate.changed);
	pthread_mutex_unlock(&gate.lock);
}

static struct slime_rpc_request *_Atomic kept;

static void keep(void *arg, struct slime_rpc_request *req)
{
	(void)arg;
	kept = req;
}

static void offer(struct end *e, const char *name, slime_rpc_fn *fn, uint32_t flags)
{
	struct slime_rpc_method_attr attr = SLIME_RPC_METHOD_ATTR_INIT;

	attr.fn = fn;
	attr.flags = flags;
	assert_ok(slime_rpc_method_add(e->service, name, &attr));
}

static void create_end(struct end *e)
{
	struct pair_attr attr = PAIR_ATTR_INIT;

	end_create(e, &attr);
	assert_ok(slime_rpc_service_create(e->ctx, &e->service));
	offer(e, "echo", echo, 0);
	offer(e, "gate", pass_gate, 0);
	offer(e, "keep", keep, SLIME_RPC_INLINE);
}

static int setup(void **state)
{
	struct pair *p = calloc(1, sizeof(*p));

	gate.open = false;
	create_end(&p->a);
	create_end(&p->b);
	pair_create_endpoints(p, NULL);
	pair_connect(p);
	*state = p;
	return 0;
}

/* ---- calls ---- */

static struct slime_call *start(struct end *e, const char *method, const void *request, void *reply,
				size_t len)
{
	struct slime_call_args args = SLIME_CALL_ARGS_INIT;
	struct slime_call *call;

	args.method = slime_rpc_method_id(method);
	args.request = request;
	args.request_len = len;
	args.reply = reply;
	args.reply_cap = len;
	assert_ok(slime_call_create(e->ctx, NULL, &call));
	assert_ok(slime_call_start(e->ep, &args, call));
	return call;
}

static void finish(struct slime_call *call, size_t len)
{
	assert_ok(slime_call_wait(call, 2 * PATIENCE_MS));
	assert_ok(slime_call_status(call));
	assert_int_equal(slime_call_reply_len(call), len);
	assert_ok(slime_call_destroy(call));
}

static void call__of_up_to_256_mib_returns_the_bytes(void **state)
{
	const size_t sizes[] = { 0, 1, 4 * KiB - 1, 64 * KiB, large(16 * MiB), LARGEST };
	struct pair *p = *state;
	uint8_t *out, *in;

	/* The request, the handler's, the reply. */
	need_memory(6 * (uint64_t)LARGEST);
	out = malloc(LARGEST);
	in = malloc(LARGEST);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		pattern_fill(out, sizes[i], i, 0);
		finish(start(&p->a, "echo", out, in, sizes[i]), sizes[i]);
		assert_pattern(in, sizes[i], i, 0);
	}
	free(in);
	free(out);
}

/* Memory for long messages that lay idle for a second is given back to the kernel: not where a
 * device would go on reaching its old pages. Nothing tells when that has happened. */
static void call__after_an_idle_time_returns_the_bytes(void **state)
{
	const size_t len = 1 * MiB;
	struct pair *p = *state;
	uint8_t *out = malloc(len), *in = malloc(len);

	for (uint64_t round = 0; round < 2; round++) {
		if (round)
			poll(NULL, 0, 1500);
		pattern_fill(out, len, round, 0);
		finish(start(&p->a, "echo", out, in, len), len);
		assert_pattern(in, len, round, 0);
	}
	free(in);
	free(out);
}

static void call__of_many_mib_both_ways_at_once_returns_the_bytes(void **state)
{
	const size_t len = large(48 * MiB);
	struct pair *p = *state;
	struct slime_call *calls[4];
	uint8_t *out, *in[4];

	need_memory(16 * (uint64_t)len);
	out = malloc(len);
	pattern_fill(out, len, 9, 0);
	for (int i = 0; i < 4; i++) {
		in[i] = malloc(len);
		calls[i] = start(i % 2 ? &p->a : &p->b, "echo", out, in[i], len);
	}
	for (int i = 0; i < 4; i++) {
		finish(calls[i], len);
		assert_pattern(in[i], len, 9, 0);
		free(in[i]);
	}
	free(out);
}

#define MANY 10000

struct numbered {
	struct slime_call *call;
	uint64_t number, echoed;
	_Atomic unsigned n_ends;
};

static void count_end(void *arg, struct slime_call *call)
{
	struct numbered *n = arg;

	(void)call;
	n->n_ends++;
}

static void start_numbered(struct end *e, struct numbered *n, uint64_t number)
{
	struct slime_call_attr attr = { .fn = count_end, .arg = n };
	struct slime_call_args args = SLIME_CALL_ARGS_INIT;

	n->number = number;
	args.method = slime_rpc_method_id("gate");
	args.request = &n->number;
	args.request_len = sizeof(n->number);
	args.reply = &n->echoed;
	args.reply_cap = sizeof(n->echoed);
	assert_ok(slime_call_create(e->ctx, &attr, &n->call));
	assert_ok(slime_call_start(e->ep, &args, n->call));
}

/* Nobody else makes progress of a's context. */
static void call_test__of_a_manual_context_makes_progress(void **state)
{
	struct pair_attr attr = PAIR_ATTR_INIT;
	uint64_t end = now_ms() + PATIENCE_MS, in = 0, out = 7;
	struct slime_call *call;
	struct pair *p;

	(void)state;
	attr.manual_a = true;
	p = pair_create(&attr);
	assert_ok(slime_rpc_service_create(p->b.ctx, &p->b.service));
	offer(&p->b, "echo", echo, 0);
	pair_create_endpoints(p, &attr);
	pair_connect(p);
	call = start(&p->a, "echo", &out, &in, sizeof(out));
	while (!slime_call_test(call) && now_ms() < end)
		;
	assert_true(slime_call_test(call));
	finish(call, sizeof(in));
	assert_int_equal(in, 7);
	pair_close(p);
}

static void call__ten_thousand_in_flight_each_end_once_with_their_own_reply(void **state)
{
	struct pair *p = *state;
	struct numbered *calls = calloc(MANY, sizeof(*calls));
	uint64_t deadline = now_ms() + 4 * PATIENCE_MS;

	for (uint64_t i = 0; i < MANY; i++)
		start_numbered(&p->a, &calls[i], i * i + 1);
	for (size_t i = 0; i < MANY; i++)
		assert_int_equal(calls[i].n_ends, 0);
	open_gate();
	for (size_t i = 0; i < MANY; i++) {
		while (!calls[i].n_ends && now_ms() < deadline)
			poll(NULL, 0, 1);
	}
	for (size_t i = 0; i < MANY; i++) {
		assert_int_equal(calls[i].n_ends, 1);
		assert_ok(slime_call_wait(calls[i].call, PATIENCE_MS));
		assert_ok(slime_call_status(calls[i].call));
		assert_true(calls[i].echoed == i * i + 1);
		assert_ok(slime_call_destroy(calls[i].call));
	}
	free(calls);
}

static void service__of_thousands_of_methods_finds_each(void **state)
{
	struct pair *p = calloc(1, sizeof(*p));
	char name[32];

	(void)state;
	create_end(&p->a);
	create_end(&p->b);
	for (int i = 0; i < 3000; i++) {
		snprintf(name, sizeof(name), "method %d", i);
		offer(&p->b, name, echo, SLIME_RPC_INLINE);
	}
	pair_create_endpoints(p, NULL);
	pair_connect(p);
	for (int i = 0; i < 3000; i += 7) {
		uint64_t number = (uint64_t)i, echoed = 0;

		snprintf(name, sizeof(name), "method %d", i);
		finish(start(&p->a, name, &number, &echoed, sizeof(number)), sizeof(number));
		assert_true(echoed == number);
	}
	pair_close(p);
}

/* ---- a reply that comes too late ---- */

/* A call whose time is over while its handler has the request: the time doubles until it gets
 * there.
 */
static struct slime_rpc_request *outlive_call(struct pair *p, struct slime_call_args *args)
{
	struct slime_call *call;

	kept = NULL;
	assert_ok(slime_call_create(p->a.ctx, NULL, &call));
	for (args->timeout_ms = 20; !kept; args->timeout_ms *= 2) {
		assert_ok(slime_call_start(p->a.ep, args, call));
		assert_ok(slime_call_wait(call, PATIENCE_MS));
		assert_int_equal(slime_call_status(call), -ETIMEDOUT);
	}
	assert_ok(slime_call_destroy(call));
	return kept;
}

static void check_late_reply(struct pair *p, size_t len, bool from_buffer)
{
	struct slime_call_args args = SLIME_CALL_ARGS_INIT;
	uint8_t *out = malloc(len), *in = malloc(len), *late = malloc(len);
	struct slime_rpc_request *req;

	args.method = slime_rpc_method_id("keep");
	args.request = out;
	args.request_len = len;
	args.reply = in;
	args.reply_cap = len;
	pattern_fill(out, len, 1, 0);
	req = outlive_call(p, &args);
	/* The call ended: its memory is ours, and full of other things. */
	pattern_fill(in, len, 2, 0);
	pattern_fill(out, len, 3, 0);
	assert_pattern(slime_rpc_request_data(req), len, 1, 0);
	pattern_fill(late, len, 4, 0);
	if (from_buffer) {
		assert_null(slime_rpc_reply_buffer(req, len));
		assert_int_equal(slime_rpc_reply_commit(req, 0), -ECANCELED);
	} else {
		assert_int_equal(slime_rpc_reply(req, late, len), -ECANCELED);
	}
	/* What was posted before this one has arrived when it has. */
	finish(start(&p->a, "echo", late, late, len), len);
	assert_pattern(late, len, 4, 0);
	assert_pattern(in, len, 2, 0);
	assert_pattern(out, len, 3, 0);
	free(late);
	free(in);
	free(out);
}

static void reply__after_the_deadline_reaches_nobody(void **state)
{
	static const size_t lens[] = { 1, 1000, 10000, 300000 };

	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		check_late_reply(*state, lens[i], false);
		check_late_reply(*state, lens[i], true);
	}
}

/* ---- the client dies between request and reply ---- */

static void check_reply_to_the_dead(uint64_t len, bool in_place)
{
	struct pair_attr attr = PAIR_ATTR_INIT;
	struct slime_rpc_request *req;
	struct peer client;
	struct end e = { 0 };

	kept = NULL;
	peer_start(&client, MiB);
	create_end(&e);
	end_create_endpoint(&e, &attr);
	peer_link(&client, &e);
	assert_ok(peer_ask(&client, PEER_CALL, len, 0, 0));
	while (!kept)
		poll(NULL, 0, 1);
	req = kept;
	assert_int_equal(slime_rpc_request_len(req), len);
	assert_false(slime_rpc_request_cancelled(req));
	peer_kill(&client);
	end_await(&e, SLIME_ENDPOINT_BROKEN);
	assert_true(slime_rpc_request_cancelled(req));
	if (in_place) {
		assert_null(slime_rpc_reply_buffer(req, len));
		assert_int_equal(slime_rpc_reply_commit(req, 0), -ECONNRESET);
	} else {
		assert_int_equal(slime_rpc_reply(req, slime_rpc_request_data(req), len),
				 -ECONNRESET);
	}
	end_destroy(&e);
}

static void reply__to_a_client_that_was_killed_is_econnreset(void **state)
{
	static const uint64_t lens[] = { 0, 100, 10000, 300000 };

	(void)state;
	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		check_reply_to_the_dead(lens[i], false);
		check_reply_to_the_dead(lens[i], true);
	}
}

/* ---- the caller closes before its request is read ---- */

#define LONG (64 * KiB)

static struct {
	_Atomic unsigned n_calls;
	_Atomic unsigned n_wrong;
} watched;

/* Every request that is sent is the pattern of seed 1. */
static void watch(void *arg, struct slime_rpc_request *req)
{
	(void)arg;
	if (!pattern_matches(slime_rpc_request_data(req), slime_rpc_request_len(req), 1, 0))
		watched.n_wrong++;
	watched.n_calls++;
	slime_rpc_reply(req, NULL, 0);
}

static void check_request_of_closed_caller(uint32_t flags)
{
	struct slime_call_args args = SLIME_CALL_ARGS_INIT;
	struct pair_attr attr = PAIR_ATTR_INIT;
	struct slime_endpoint_info info;
	struct slime_call *call;
	struct pair *p;

	/* The server does not hear of the end before it looks. */
	attr.manual_a = true;
	watched.n_calls = 0;
	watched.n_wrong = 0;
	p = pair_create(&attr);
	assert_ok(slime_rpc_service_create(p->a.ctx, &p->a.service));
	offer(&p->a, "watch", watch, flags);
	pair_create_endpoints(p, &attr);
	pair_connect(p);
	args.method = slime_rpc_method_id("watch");
	args.request_mr = p->b.mr;
	args.request_len = LONG;
	assert_ok(slime_call_create(p->b.ctx, NULL, &call));
	pattern_fill(p->b.bytes, LONG, 1, 0);
	/* What is set up for the first use of a region is there. */
	assert_ok(slime_call_start(p->b.ep, &args, call));
	while (!slime_call_test(call))
		slime_context_poll(p->a.ctx);
	assert_ok(slime_call_status(call));
	assert_int_equal(watched.n_calls, 1);

	assert_ok(slime_call_start(p->b.ep, &args, call));
	slime_endpoint_close(p->b.ep);
	assert_ok(slime_call_wait(call, PATIENCE_MS));
	assert_int_equal(slime_call_status(call), -ECANCELED);
	/* The memory is the caller's again. */
	pattern_fill(p->b.bytes, LONG, 2, 0);
	do {
		slime_context_poll(p->a.ctx);
		slime_endpoint_info(p->a.ep, &info);
	} while (info.state == SLIME_ENDPOINT_CONNECTED);
	assert_ok(slime_endpoint_destroy(p->a.ep));
	p->a.ep = NULL;
	assert_int_equal(watched.n_wrong, 0);
	assert_ok(slime_call_destroy(call));
	pair_close(p);
}

static void handler__of_a_long_request_sees_no_bytes_from_after_its_caller_closed(void **state)
{
	(void)state;
	check_request_of_closed_caller(0);
	check_request_of_closed_caller(SLIME_RPC_INLINE);
}

#define WITH_SERVICES(fn) cmocka_unit_test_setup_teardown(fn, setup, pair_teardown)

static const struct CMUnitTest tests[] = {
	WITH_SERVICES(call__of_up_to_256_mib_returns_the_bytes),
	WITH_SERVICES(call__after_an_idle_time_returns_the_bytes),
	WITH_SERVICES(call__of_many_mib_both_ways_at_once_returns_the_bytes),
	WITH_SERVICES(call__ten_thousand_in_flight_each_end_once_with_their_own_reply),
	WITH_SERVICES(reply__after_the_deadline_reaches_nobody),
	cmocka_unit_test(call_test__of_a_manual_context_makes_progress),
	cmocka_unit_test(service__of_thousands_of_methods_finds_each),
	cmocka_unit_test(reply__to_a_client_that_was_killed_is_econnreset),
	cmocka_unit_test(handler__of_a_long_request_sees_no_bytes_from_after_its_caller_closed),
};

FIXTURE_MAIN("rpc")
