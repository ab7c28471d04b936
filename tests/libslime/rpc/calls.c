/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that reach a handler: sizes, kinds of memory, kinds of handlers, errors. */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/libslime/rpc/pair.h"
#include "src/core/region.h"

static const char *const echoes[] = { "echo", "echo_inline", "echo_in_place" };

/* Around the lengths of slots and of what stands at their beginning. */
static const size_t sizes[] = {
	0,     1,     64,    960,   961,    1023,    1024,	    1025,	    4096,
	16320, 16321, 16384, 16385, 100000, 1 << 20, (1 << 20) + 1, (16 << 20) + 3,
};

static void call__of_any_size_and_handler_returns_the_same_bytes(void **state)
{
	struct pair *p = *state;
	struct slime_call *call = make_call(p->a.ctx);
	uint8_t *out = malloc((16 << 20) + 3);
	uint8_t *in = malloc((16 << 20) + 3);

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		pattern_fill(out, sizes[i], (uint32_t)i);
		for (size_t k = 0; k < sizeof(echoes) / sizeof(echoes[0]); k++) {
			memset(in, 0xee, sizes[i]);
			assert_int_equal(
				call_now(p->a.ep, call, echoes[k], out, sizes[i], in, sizes[i]), 0);
			assert_int_equal(slime_call_reply_len(call), sizes[i]);
			assert_true(pattern_ok(in, sizes[i], (uint32_t)i));
		}
	}
	free(in);
	free(out);
	assert_int_equal(slime_call_destroy(call), 0);
}

static void call__without_room_keeps_the_reply_until_release(void **state)
{
	struct pair *p = *state;
	struct slime_call *call = make_call(p->a.ctx);
	uint64_t lens[] = { 0, 10, 1024, 1025, 16384, 16385, 300000 };

	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		assert_int_equal(call_now(p->a.ep, call, "length", &lens[i], 8, NULL, 300000), 0);
		assert_int_equal(slime_call_reply_len(call), lens[i]);
		assert_true(pattern_ok(slime_call_reply_data(call), lens[i], 1));
		slime_call_release(call);
		assert_null(slime_call_reply_data(call));
	}
	assert_int_equal(slime_call_destroy(call), 0);
}

static void call__reply_kept_outlives_its_endpoint(void **state)
{
	struct pair *p = *state;
	struct slime_call *call = make_call(p->a.ctx);
	uint64_t len = 300000;

	assert_int_equal(call_now(p->a.ep, call, "length", &len, 8, NULL, len), 0);
	pair_drop(&p->a);
	assert_true(pattern_ok(slime_call_reply_data(call), len, 1));
	assert_int_equal(slime_call_destroy(call), 0);
}

static void call__with_regions_moves_between_them(void **state)
{
	const size_t len = 3 << 20;
	struct pair *p = *state;
	struct slime_call *call = make_call(p->a.ctx);
	struct slime_call_args args = SLIME_CALL_ARGS_INIT;
	struct slime_mem *mem;
	struct slime_mr *mr;
	uint8_t *at;

	assert_int_equal(slime_mem_alloc(p->a.ctx, 2 * len + 8192, NULL, &mem), 0);
	at = slime_mem_addr(mem);
	assert_int_equal(slime_mr_create(p->a.ctx, at, slime_mem_len(mem),
					 SLIME_ACCESS_REMOTE_READ | SLIME_ACCESS_REMOTE_WRITE, &mr),
			 0);
	pattern_fill(at + 4097, len, 9);
	args.method = slime_rpc_method_id("echo_inline");
	args.request_mr = mr;
	args.request_offset = 4097;
	args.reply_mr = mr;
	args.reply_offset = len + 8000;
	for (size_t n = 5; n <= len; n = n * 600) {
		args.request_len = n;
		args.reply_cap = n;
		assert_int_equal(slime_call_start(p->a.ep, &args, call), 0);
		assert_int_equal(slime_call_wait(call, PAIR_TIMEOUT_MS), 0);
		assert_int_equal(slime_call_status(call), 0);
		assert_int_equal(slime_call_reply_len(call), n);
		assert_ptr_equal(slime_call_reply_data(call), at + len + 8000);
		assert_true(pattern_ok(at + len + 8000, n, 9));
	}
	assert_int_equal(slime_call_destroy(call), 0);
	assert_int_equal(slime_mr_destroy(mr), 0);
	assert_int_equal(slime_mem_destroy(mem), 0);
}

static void call_start__malformed_args_are_refused(void **state)
{
	struct pair *p = *state;
	struct slime_call *call = make_call(p->a.ctx);
	struct slime_call_args good = SLIME_CALL_ARGS_INIT;
	struct slime_call_args args;
	uint8_t bytes[4096];
	struct slime_mr *local;

	assert_int_equal(slime_mr_create(p->a.ctx, bytes, sizeof(bytes), 0, &local), 0);
	good.method = slime_rpc_method_id("echo");
	good.request = bytes;
	good.request_len = 10;

	args = good;
	args.method = 0;
	assert_int_equal(slime_call_start(p->a.ep, &args, call), -EINVAL);
	args = good;
	args.request = NULL;
	assert_int_equal(slime_call_start(p->a.ep, &args, call), -EINVAL);
	args = good;
	args.request_mr = local;
	assert_int_equal(slime_call_start(p->a.ep, &args, call), -EINVAL);
	args.request = NULL;
	args.request_offset = 4090;
	assert_int_equal(slime_call_start(p->a.ep, &args, call), -ERANGE);
	args.request_offset = UINT64_MAX;
	assert_int_equal(slime_call_start(p->a.ep, &args, call), -ERANGE);
	assert_int_equal(slime_call_start(p->b.ep, &good, call), -EINVAL);
	args = good;
	args.request_len = SIZE_MAX;
	assert_int_equal(slime_call_start(p->a.ep, &args, call), -EINVAL);
	args = good;
	args.reply = bytes;
	args.reply_cap = SIZE_MAX;
	assert_int_equal(slime_call_start(p->a.ep, &args, call), -EINVAL);
	assert_true(slime_call_test(call));
	assert_int_equal(call_now(p->a.ep, call, "echo", bytes, 10, bytes, 10), 0);
	assert_int_equal(slime_call_destroy(call), 0);
	assert_int_equal(slime_mr_destroy(local), 0);
}

/* Its destroy has begun, and was not done in time. */
static void call_start__with_a_region_that_is_being_destroyed_is_refused(void **state)
{
	struct pair *p = *state;
	struct slime_call *call = make_call(p->a.ctx);
	struct slime_call_args args = SLIME_CALL_ARGS_INIT;
	uint8_t bytes[4096];
	struct slime_mr *mr;

	assert_int_equal(slime_mr_create(p->a.ctx, bytes, sizeof(bytes),
					 SLIME_ACCESS_REMOTE_READ | SLIME_ACCESS_REMOTE_WRITE, &mr),
			 0);
	sl_region_withdraw(mr->region);
	args.method = slime_rpc_method_id("echo");
	args.request_mr = mr;
	args.request_len = 10;
	assert_int_equal(slime_call_start(p->a.ep, &args, call), -EINVAL);
	args.request_mr = NULL;
	args.request_len = 0;
	args.reply_mr = mr;
	args.reply_cap = 10;
	assert_int_equal(slime_call_start(p->a.ep, &args, call), -EINVAL);
	assert_int_equal(slime_call_destroy(call), 0);
	assert_int_equal(slime_mr_destroy(mr), 0);
}

static void call__error_of_the_handler_comes_with_code_and_message(void **state)
{
	struct pair *p = *state;
	struct slime_call *call = make_call(p->a.ctx);
	const char *message;

	assert_int_equal(call_now(p->a.ep, call, "fail", NULL, 0, NULL, 0), -EREMOTEIO);
	assert_int_equal(slime_call_error(call, &message), 42);
	assert_string_equal(message, "no such page");
	assert_int_equal(call_now(p->a.ep, call, "echo", "x", 1, NULL, 1), 0);
	assert_int_equal(slime_call_error(call, &message), 0);
	assert_string_equal(message, "");
	assert_int_equal(slime_call_destroy(call), 0);
}

static void call__unknown_method_is_enosys(void **state)
{
	struct pair *p = *state;
	struct slime_call *call = make_call(p->a.ctx);
	uint8_t *big = calloc(1, 100000);

	assert_int_equal(call_now(p->a.ep, call, "nobody", "x", 1, NULL, 0), -ENOSYS);
	assert_int_equal(call_now(p->a.ep, call, "nobody", big, 100000, big, 100000), -ENOSYS);
	free(big);
	assert_int_equal(slime_call_destroy(call), 0);
}

static void call__longer_than_the_method_allows_is_emsgsize(void **state)
{
	struct pair *p = *state;
	struct slime_call *call = make_call(p->a.ctx);
	uint8_t *big = calloc(1, 100000);

	assert_int_equal(call_now(p->a.ep, call, "limited", big, 2048, big, 2048), 0);
	assert_int_equal(call_now(p->a.ep, call, "limited", big, 2049, big, 2049), -EMSGSIZE);
	assert_int_equal(call_now(p->a.ep, call, "limited", big, 100000, big, 100000), -EMSGSIZE);
	free(big);
	assert_int_equal(slime_call_destroy(call), 0);
}

static void call__reply_longer_than_its_room_is_emsgsize(void **state)
{
	static const size_t caps[] = { 0, 9, 1024, 5000, 20000 };
	struct pair *p = *state;
	struct slime_call *call = make_call(p->a.ctx);
	uint8_t room[20001];

	for (size_t i = 0; i < sizeof(caps) / sizeof(caps[0]); i++) {
		uint64_t len = caps[i] + 1;

		room[caps[i]] = 0x5a;
		assert_int_equal(call_now(p->a.ep, call, "length", &len, 8, room, caps[i]),
				 -EMSGSIZE);
		assert_int_equal(room[caps[i]], 0x5a);
	}
	assert_int_equal(slime_call_destroy(call), 0);
}

static void call__both_ways_at_once_do_not_collide(void **state)
{
	enum { N = 200 };
	struct pair *p = *state;
	struct slime_call *calls[2][N];
	uint8_t(*in)[N][2000] = malloc(2 * sizeof(*in));
	uint8_t out[2000];

	pattern_fill(out, sizeof(out), 3);
	for (int i = 0; i < N; i++) {
		for (int s = 0; s < 2; s++) {
			struct side *side = s ? &p->b : &p->a;
			struct slime_call_args args = SLIME_CALL_ARGS_INIT;

			calls[s][i] = make_call(side->ctx);
			args.method = slime_rpc_method_id(echoes[i % 3]);
			args.request = out;
			args.request_len = (size_t)i * 10;
			args.reply = in[s][i];
			args.reply_cap = 2000;
			assert_int_equal(slime_call_start(side->ep, &args, calls[s][i]), 0);
		}
	}
	for (int i = 0; i < N; i++) {
		for (int s = 0; s < 2; s++) {
			assert_int_equal(slime_call_wait(calls[s][i], PAIR_TIMEOUT_MS), 0);
			assert_int_equal(slime_call_status(calls[s][i]), 0);
			assert_int_equal(slime_call_reply_len(calls[s][i]), (size_t)i * 10);
			assert_true(pattern_ok(in[s][i], (size_t)i * 10, 3));
			assert_int_equal(slime_call_destroy(calls[s][i]), 0);
		}
	}
	free(in);
}

struct counter {
	_Atomic unsigned n;
};

static void count_end(void *arg, struct slime_call *call)
{
	struct counter *c = arg;

	assert_int_equal(slime_call_status(call), 0);
	atomic_fetch_add(&c->n, 1);
}

static void call__thousands_in_flight_end_once_each(void **state)
{
	enum { N = 5000 };
	struct pair *p = *state;
	struct counter c = { 0 };
	struct slime_call_attr attr = { .fn = count_end, .arg = &c };
	struct slime_call **calls = calloc(N, sizeof(*calls));

	for (int i = 0; i < N; i++) {
		struct slime_call_args args = SLIME_CALL_ARGS_INIT;

		args.method = slime_rpc_method_id("count");
		assert_int_equal(slime_call_create(p->a.ctx, &attr, &calls[i]), 0);
		assert_int_equal(slime_call_start(p->a.ep, &args, calls[i]), 0);
	}
	while (atomic_load(&c.n) < N)
		slime_context_poll(p->a.ctx);
	assert_int_equal(atomic_load(&c.n), N);
	assert_int_equal(atomic_load(&p->b.n_handled), N);
	for (int i = 0; i < N; i++) {
		assert_int_equal(slime_call_wait(calls[i], PAIR_TIMEOUT_MS), 0);
		assert_int_equal(slime_call_destroy(calls[i]), 0);
	}
	free(calls);
}

/* A call that one thread starts and another destroys as soon as it may. */
struct reaped {
	struct slime_call *_Atomic call; /* to be destroyed; NULL: it was */
	_Atomic bool returned;
	_Atomic bool early; /* one was destroyed before its callback had returned */
	_Atomic bool over;
};

static void read_it_slowly(void *arg, struct slime_call *call)
{
	struct reaped *r = arg;
	const char *message;

	for (int i = 0; i < 3; i++) {
		sched_yield();
		(void)slime_call_status(call);
		(void)slime_call_error(call, &message);
		(void)slime_call_reply_len(call);
	}
	r->returned = slime_call_arg(call) == r;
}

static void *reap(void *arg)
{
	struct reaped *r = arg;

	while (!r->over) {
		struct slime_call *call = r->call;

		if (!call || slime_call_destroy(call) == -EBUSY) {
			sched_yield();
			continue;
		}
		r->early |= !r->returned;
		r->call = NULL;
	}
	return NULL;
}

static void call__beside_a_thread_that_destroys_it_is_there_until_its_callback_returns(void **state)
{
	static const char *const methods[] = { "count", "echo", "fail", "nobody" };
	struct pair *p = *state;
	struct reaped r = { 0 };
	struct slime_call_attr attr = { .fn = read_it_slowly, .arg = &r };
	uint8_t *bytes = calloc(1, 20000);
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, reap, &r), 0);
	for (unsigned i = 0; i < 160; i++) {
		struct slime_call_args args = SLIME_CALL_ARGS_INIT;
		struct slime_call *call;

		assert_int_equal(slime_call_create(p->a.ctx, &attr, &call), 0);
		args.method = slime_rpc_method_id(methods[i % 4]);
		args.request = bytes;
		args.request_len = i % 16 ? 8 : 20000;
		args.reply_cap = args.request_len;
		r.returned = false;
		assert_int_equal(slime_call_start(p->a.ep, &args, call), 0);
		r.call = call;
		while (r.call)
			sched_yield();
	}
	r.over = true;
	pthread_join(thread, NULL);
	assert_false(r.early);
	free(bytes);
}

static void call_start__on_a_pending_call_is_busy(void **state)
{
	struct pair *p = *state;
	struct slime_call *call = make_call(p->a.ctx);
	struct slime_call_args args = SLIME_CALL_ARGS_INIT;

	args.method = slime_rpc_method_id("gate");
	assert_int_equal(slime_call_start(p->a.ep, &args, call), 0);
	assert_int_equal(slime_call_start(p->a.ep, &args, call), -EBUSY);
	assert_int_equal(slime_call_destroy(call), -EBUSY);
	gate_open(&p->b.gate);
	assert_int_equal(slime_call_wait(call, PAIR_TIMEOUT_MS), 0);
	assert_int_equal(slime_call_status(call), 0);
	assert_int_equal(slime_call_destroy(call), 0);
}

static void handler__slow_one_does_not_delay_others(void **state)
{
	struct pair *p = *state;
	struct slime_call *slow = make_call(p->a.ctx);
	struct slime_call *fast = make_call(p->a.ctx);
	struct slime_call_args args = SLIME_CALL_ARGS_INIT;
	uint8_t *big = calloc(1, 200000);

	args.method = slime_rpc_method_id("gate");
	assert_int_equal(slime_call_start(p->a.ep, &args, slow), 0);
	gate_wait(&p->b.gate, 1);
	for (int i = 0; i < 300; i++)
		assert_int_equal(call_now(p->a.ep, fast, echoes[i % 3], big, 100, big, 100), 0);
	assert_int_equal(call_now(p->a.ep, fast, "echo", big, 200000, big, 200000), 0);
	assert_false(slime_call_test(slow));
	gate_open(&p->b.gate);
	assert_int_equal(slime_call_wait(slow, PAIR_TIMEOUT_MS), 0);
	free(big);
	assert_int_equal(slime_call_destroy(slow), 0);
	assert_int_equal(slime_call_destroy(fast), 0);
}

static void handler__answers_later_from_another_thread(void **state)
{
	static const size_t lens[] = { 0, 100, 5000, 100000 };
	static const char *const names[] = { "defer", "defer_pool" };
	struct pair *p = *state;
	struct slime_call *call = make_call(p->a.ctx);
	uint8_t *out = malloc(100000);
	uint8_t *in = malloc(100000);

	pattern_fill(out, 100000, 4);
	for (size_t i = 0; i < 2 * sizeof(lens) / sizeof(lens[0]); i++) {
		struct slime_call_args args = SLIME_CALL_ARGS_INIT;
		struct slime_rpc_request *req;

		args.method = slime_rpc_method_id(names[i % 2]);
		args.request = out;
		args.request_len = lens[i / 2];
		args.reply = in;
		args.reply_cap = 100000;
		assert_int_equal(slime_call_start(p->a.ep, &args, call), 0);
		req = shelf_take(&p->b.shelf);
		assert_int_equal(slime_rpc_request_len(req), lens[i / 2]);
		assert_true(pattern_ok(slime_rpc_request_data(req), lens[i / 2], 4));
		assert_int_equal(slime_rpc_reply(req, slime_rpc_request_data(req), lens[i / 2]), 0);
		assert_int_equal(slime_call_wait(call, PAIR_TIMEOUT_MS), 0);
		assert_int_equal(slime_call_status(call), 0);
		assert_true(pattern_ok(in, lens[i / 2], 4));
	}
	free(in);
	free(out);
	assert_int_equal(slime_call_destroy(call), 0);
}

static void handler__reply_in_a_buffer_from_another_thread(void **state)
{
	static const size_t lens[] = { 100, 5000, 100000 };
	struct pair *p = *state;
	struct slime_call *call = make_call(p->a.ctx);
	uint8_t *in = malloc(100000);

	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		struct slime_call_args args = SLIME_CALL_ARGS_INIT;
		struct slime_rpc_request *req;
		uint8_t *to;

		args.method = slime_rpc_method_id("defer");
		args.reply = in;
		args.reply_cap = 100000;
		assert_int_equal(slime_call_start(p->a.ep, &args, call), 0);
		req = shelf_take(&p->b.shelf);
		assert_null(slime_rpc_reply_buffer(req, 100001));
		/* A second buffer replaces the first. */
		assert_non_null(slime_rpc_reply_buffer(req, 100000));
		to = slime_rpc_reply_buffer(req, lens[i]);
		assert_non_null(to);
		pattern_fill(to, lens[i], 6);
		assert_int_equal(slime_rpc_reply_commit(req, lens[i] - 1), 0);
		assert_int_equal(slime_call_wait(call, PAIR_TIMEOUT_MS), 0);
		assert_int_equal(slime_call_status(call), 0);
		assert_int_equal(slime_call_reply_len(call), lens[i] - 1);
		assert_true(pattern_ok(in, lens[i] - 1, 6));
	}
	free(in);
	assert_int_equal(slime_call_destroy(call), 0);
}

static struct slime_call *inner;
static int inner_wait;

static void wait_inside(void *arg, struct slime_call *call)
{
	struct counter *c = arg;

	(void)call;
	inner_wait = slime_call_wait(inner, 0);
	atomic_store(&c->n, 1);
}

static void handler__on_a_worker_calls_its_caller(void **state)
{
	struct pair *p = *state;
	struct slime_call *call = make_call(p->a.ctx);
	uint8_t *out = malloc(100000);
	uint8_t *in = malloc(100000);

	pattern_fill(out, 100000, 8);
	for (size_t len = 10; len <= 100000; len *= 10) {
		assert_int_equal(call_now(p->a.ep, call, "call_back", out, len, in, len), 0);
		assert_true(pattern_ok(in, len, 8));
	}
	free(in);
	free(out);
	assert_int_equal(slime_call_destroy(call), 0);
}

static void wait__inside_a_callback_is_edeadlk(void **state)
{
	struct pair *p = *state;
	struct counter c = { 0 };
	struct slime_call_attr attr = { .fn = wait_inside, .arg = &c };
	struct slime_call_args args = SLIME_CALL_ARGS_INIT;
	struct slime_call *outer;

	inner = make_call(p->a.ctx);
	args.method = slime_rpc_method_id("gate");
	assert_int_equal(slime_call_start(p->a.ep, &args, inner), 0);
	args.method = slime_rpc_method_id("count");
	assert_int_equal(slime_call_create(p->a.ctx, &attr, &outer), 0);
	assert_int_equal(slime_call_start(p->a.ep, &args, outer), 0);
	while (!atomic_load(&c.n))
		slime_context_poll(p->a.ctx);
	assert_int_equal(inner_wait, -EDEADLK);
	gate_open(&p->b.gate);
	assert_int_equal(slime_call_wait(inner, PAIR_TIMEOUT_MS), 0);
	assert_int_equal(slime_call_destroy(inner), 0);
	assert_int_equal(slime_call_wait(outer, PAIR_TIMEOUT_MS), 0);
	assert_int_equal(slime_call_destroy(outer), 0);
}

static void method_add__names_and_flags_are_checked(void **state)
{
	struct pair *p = *state;
	struct slime_rpc_method_attr attr = SLIME_RPC_METHOD_ATTR_INIT;
	struct slime_rpc_service *s;
	char name[SLIME_RPC_NAME_MAX + 2];

	memset(name, 'n', sizeof(name));
	name[SLIME_RPC_NAME_MAX + 1] = '\0';
	assert_int_equal(slime_rpc_service_create(p->a.ctx, &s), 0);
	assert_int_equal(slime_rpc_method_add(s, "x", &attr), -EINVAL);
	attr.fn = (slime_rpc_fn *)(uintptr_t)wait_inside;
	assert_int_equal(slime_rpc_method_add(s, "", &attr), -EINVAL);
	assert_int_equal(slime_rpc_method_add(s, name, &attr), -EINVAL);
	name[SLIME_RPC_NAME_MAX] = '\0';
	attr.flags = SLIME_RPC_IN_PLACE;
	assert_int_equal(slime_rpc_method_add(s, name, &attr), -EINVAL);
	attr.flags = 4;
	assert_int_equal(slime_rpc_method_add(s, name, &attr), -EINVAL);
	attr.flags = SLIME_RPC_INLINE;
	for (int i = 0; i < 100; i++) {
		name[0] = (char)('A' + i);
		assert_int_equal(slime_rpc_method_add(s, name, &attr), 0);
		assert_int_equal(slime_rpc_method_add(s, name, &attr), -EEXIST);
	}
	assert_int_equal(slime_rpc_service_destroy(s), 0);
	assert_int_equal(slime_rpc_method_add(p->a.service, "late", &attr), -EBUSY);
	assert_int_equal(slime_rpc_service_destroy(p->a.service), -EBUSY);
}

static void stats__count_requests_that_were_answered(void **state)
{
	struct pair *p = *state;
	struct slime_call *call = make_call(p->a.ctx);
	struct slime_endpoint_stats stats;
	const struct slime_kind_stats *served = &stats.kinds[SLIME_KIND_SERVE];

	assert_int_equal(call_now(p->a.ep, call, "echo", "x", 1, NULL, 1), 0);
	assert_int_equal(call_now(p->a.ep, call, "fail", NULL, 0, NULL, 0), -EREMOTEIO);
	assert_int_equal(call_now(p->a.ep, call, "nobody", NULL, 0, NULL, 0), -ENOSYS);
	/* They are counted behind the answer. */
	do
		slime_endpoint_stats(p->b.ep, &stats);
	while (served->completed + served->failed < 3);
	assert_int_equal(served->completed, 2);
	assert_int_equal(served->failed, 1);
	assert_int_equal(served->submitted, 3);
	assert_int_equal(slime_call_destroy(call), 0);
}

/* So many that some lie behind others of the same place. */
static void method_remove__leaves_all_others(void **state)
{
	enum { N = 200 };
	struct slime_rpc_method_attr attr = SLIME_RPC_METHOD_ATTR_INIT;
	struct pair *p = *state;
	struct slime_rpc_service *s;
	char name[16];

	attr.fn = (slime_rpc_fn *)(uintptr_t)wait_inside;
	attr.flags = SLIME_RPC_INLINE;
	assert_int_equal(slime_rpc_service_create(p->a.ctx, &s), 0);
	for (int i = 0; i < N; i++) {
		snprintf(name, sizeof(name), "m%d", i);
		assert_int_equal(slime_rpc_method_add(s, name, &attr), 0);
	}
	for (int i = 0; i < N; i += 2) {
		snprintf(name, sizeof(name), "m%d", i);
		assert_int_equal(slime_rpc_method_remove(s, name), 0);
		assert_int_equal(slime_rpc_method_remove(s, name), -ENOENT);
	}
	for (int i = 0; i < N; i++) {
		snprintf(name, sizeof(name), "m%d", i);
		assert_int_equal(slime_rpc_method_add(s, name, &attr), i % 2 ? -EEXIST : 0);
	}
	assert_int_equal(slime_rpc_service_destroy(s), 0);
	assert_int_equal(slime_rpc_method_remove(p->a.service, "echo"), -EBUSY);
}

static void endpoint_create__with_a_service_of_another_context_is_refused(void **state)
{
	struct slime_endpoint_attr attr = SLIME_ENDPOINT_ATTR_INIT;
	struct pair *p = *state;
	struct slime_endpoint *ep;

	attr.service = p->a.service;
	assert_int_equal(slime_endpoint_create(p->b.ctx, &attr, &ep), -EINVAL);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		IN_PAIR(call__of_any_size_and_handler_returns_the_same_bytes),
		IN_PAIR(call__without_room_keeps_the_reply_until_release),
		IN_PAIR(call__reply_kept_outlives_its_endpoint),
		IN_PAIR(call__with_regions_moves_between_them),
		IN_PAIR(call_start__malformed_args_are_refused),
		IN_PAIR(call_start__with_a_region_that_is_being_destroyed_is_refused),
		IN_PAIR(call__error_of_the_handler_comes_with_code_and_message),
		IN_PAIR(call__unknown_method_is_enosys),
		IN_PAIR(call__longer_than_the_method_allows_is_emsgsize),
		IN_PAIR(call__reply_longer_than_its_room_is_emsgsize),
		IN_PAIR(call__both_ways_at_once_do_not_collide),
		IN_PAIR(call__thousands_in_flight_end_once_each),
		IN_PAIR(call__beside_a_thread_that_destroys_it_is_there_until_its_callback_returns),
		IN_PAIR(call_start__on_a_pending_call_is_busy),
		IN_PAIR(handler__slow_one_does_not_delay_others),
		IN_PAIR(handler__answers_later_from_another_thread),
		IN_PAIR(handler__reply_in_a_buffer_from_another_thread),
		IN_PAIR(handler__on_a_worker_calls_its_caller),
		IN_PAIR(wait__inside_a_callback_is_edeadlk),
		IN_PAIR(method_add__names_and_flags_are_checked),
		IN_PAIR(method_remove__leaves_all_others),
		IN_PAIR(stats__count_requests_that_were_answered),
		IN_PAIR(endpoint_create__with_a_service_of_another_context_is_refused),
	};

	return PAIR_RUN("rpc", tests);
}
