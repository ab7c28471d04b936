/* SPDX-License-Identifier: Apache-2.0 */
/* Long calls to handlers that work in place: on shm they look at the caller's memory itself. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/libslime/rpc/pair.h"

#define LEN  (1 << 20)
#define ROOM (LEN + 4096) /* where the reply goes, in the same region */

/* A link whose caller has a region, and offers what the handlers below see of it. */
struct bench {
	struct pair *p;
	struct slime_rpc_service *service;
	struct slime_endpoint *caller;
	struct slime_endpoint *callee;
	struct slime_mem *mem;
	struct slime_mr *mr;
	uint8_t *at;
	struct slime_call *call;
	_Atomic bool request_in_place;
	_Atomic bool reply_in_place;
	_Atomic size_t commit; /* how much of the buffer */
};

/* A byte of the caller's memory, for both ends' threads: what orders them lies in memory that is
 * mapped twice, where thread sanitizers do not see it. */
static _Atomic uint8_t *byte_of(struct bench *b, size_t i)
{
	return (_Atomic uint8_t *)b->at + i;
}

/* Whether what the handler has is the caller's memory: one changes with the other. */
static void look(void *arg, struct slime_rpc_request *req)
{
	struct bench *b = arg;
	const volatile uint8_t *data = slime_rpc_request_data(req);
	uint8_t *to = slime_rpc_reply_buffer(req, slime_rpc_request_len(req));
	uint8_t now = (uint8_t)(atomic_fetch_add(byte_of(b, 0), 1) + 1);

	assert_non_null(to);
	b->request_in_place = data[0] == now;
	memset(to, 0x5a, slime_rpc_request_len(req));
	b->reply_in_place = atomic_load(byte_of(b, ROOM)) == 0x5a;
	assert_int_equal(slime_rpc_reply_commit(req, b->commit), 0);
}

/* Onto the request itself, when the caller lends the same memory for both. */
static void echo(void *arg, struct slime_rpc_request *req)
{
	(void)arg;
	assert_int_equal(
		slime_rpc_reply(req, slime_rpc_request_data(req), slime_rpc_request_len(req)), 0);
}

static void add(struct bench *b, const char *name, slime_rpc_fn *fn)
{
	struct slime_rpc_method_attr attr = SLIME_RPC_METHOD_ATTR_INIT;

	attr.fn = fn;
	attr.arg = b;
	attr.flags = SLIME_RPC_INLINE | SLIME_RPC_IN_PLACE;
	assert_int_equal(slime_rpc_method_add(b->service, name, &attr), 0);
}

static struct slime_endpoint *make_endpoint(struct bench *b, struct side *s,
					    struct slime_rpc_service *service)
{
	struct slime_endpoint_attr attr = SLIME_ENDPOINT_ATTR_INIT;
	struct slime_endpoint *ep;

	attr.transports[0] = b->p->transport;
	attr.service = service;
	assert_int_equal(slime_endpoint_create(s->ctx, &attr, &ep), 0);
	return ep;
}

static void open_bench(struct bench *b, struct pair *p)
{
	memset(b, 0, sizeof(*b));
	b->p = p;
	b->commit = LEN;
	assert_int_equal(slime_rpc_service_create(p->b.ctx, &b->service), 0);
	add(b, "look", look);
	add(b, "echo", echo);
	b->caller = make_endpoint(b, &p->a, NULL);
	b->callee = make_endpoint(b, &p->b, b->service);
	connect_to(b->caller, b->callee, p->a.op);
	connect_to(b->callee, b->caller, p->b.op);
	assert_int_equal(slime_op_wait(p->a.op, PAIR_TIMEOUT_MS), 0);
	assert_int_equal(slime_op_wait(p->b.op, PAIR_TIMEOUT_MS), 0);
	assert_int_equal(slime_op_status(p->a.op), 0);
	assert_int_equal(slime_mem_alloc(p->a.ctx, ROOM + LEN, NULL, &b->mem), 0);
	b->at = slime_mem_addr(b->mem);
	assert_int_equal(slime_mr_create(p->a.ctx, b->at, ROOM + LEN,
					 SLIME_ACCESS_REMOTE_READ | SLIME_ACCESS_REMOTE_WRITE,
					 &b->mr),
			 0);
	assert_int_equal(slime_call_create(p->a.ctx, NULL, &b->call), 0);
}

static void close_bench(struct bench *b)
{
	assert_int_equal(slime_call_destroy(b->call), 0);
	assert_int_equal(slime_endpoint_destroy(b->caller), 0);
	assert_int_equal(slime_endpoint_destroy(b->callee), 0);
	assert_int_equal(slime_mr_destroy(b->mr), 0);
	assert_int_equal(slime_mem_destroy(b->mem), 0);
	assert_int_equal(slime_rpc_service_destroy(b->service), 0);
}

static int call_in_region(struct bench *b, const char *method, uint64_t reply_offset)
{
	struct slime_call_args args = SLIME_CALL_ARGS_INIT;

	args.method = slime_rpc_method_id(method);
	args.request_mr = b->mr;
	args.request_len = LEN;
	args.reply_mr = b->mr;
	args.reply_offset = reply_offset;
	args.reply_cap = LEN;
	assert_int_equal(slime_call_start(b->caller, &args, b->call), 0);
	assert_int_equal(slime_call_wait(b->call, PAIR_TIMEOUT_MS), 0);
	return slime_call_status(b->call);
}

/* The first call finds nothing mapped yet, and its bytes are carried. */
static void in_place__long_call_works_on_the_callers_memory(void **state)
{
	struct pair *p = *state;
	bool shm = p->transport == SLIME_TRANSPORT_SHM;
	struct bench b;

	open_bench(&b, p);
	for (int i = 0; i < 3; i++) {
		atomic_store(byte_of(&b, ROOM), 0);
		assert_int_equal(call_in_region(&b, "look", ROOM), 0);
		assert_int_equal(slime_call_reply_len(b.call), LEN);
		assert_int_equal(atomic_load(byte_of(&b, ROOM + LEN - 1)), 0x5a);
		if (i) {
			assert_int_equal(b.request_in_place, shm);
			assert_int_equal(b.reply_in_place, shm);
		}
	}
	close_bench(&b);
}

static void in_place__less_than_the_buffer_may_be_committed(void **state)
{
	static const size_t lens[] = { 0, 1, 1024, 16384, 100000 };
	struct bench b;

	open_bench(&b, *state);
	assert_int_equal(call_in_region(&b, "look", ROOM), 0);
	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		b.commit = lens[i];
		assert_int_equal(call_in_region(&b, "look", ROOM), 0);
		assert_int_equal(slime_call_reply_len(b.call), lens[i]);
		assert_ptr_equal(slime_call_reply_data(b.call), b.at + ROOM);
	}
	close_bench(&b);
}

static void in_place__request_and_reply_may_overlap(void **state)
{
	static const uint64_t offsets[] = { 0, 1, 4096 };
	struct bench b;

	open_bench(&b, *state);
	for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
		for (int again = 0; again < 2; again++) {
			pattern_fill(b.at, LEN, 7);
			assert_int_equal(call_in_region(&b, "echo", offsets[i]), 0);
			assert_true(pattern_ok(slime_call_reply_data(b.call), LEN, 7));
		}
	}
	close_bench(&b);
}

/* The peer has it mapped and lets go of it when it is told. */
static void in_place__region_can_be_withdrawn_after_a_call(void **state)
{
	struct slime_mr *other;
	struct bench b;

	open_bench(&b, *state);
	for (int i = 0; i < 2; i++)
		assert_int_equal(call_in_region(&b, "echo", ROOM), 0);
	assert_int_equal(slime_mr_destroy(b.mr), 0);
	assert_int_equal(slime_mr_create(b.p->a.ctx, b.at, ROOM + LEN,
					 SLIME_ACCESS_REMOTE_READ | SLIME_ACCESS_REMOTE_WRITE,
					 &other),
			 0);
	b.mr = other;
	for (int i = 0; i < 2; i++)
		assert_int_equal(call_in_region(&b, "look", ROOM), 0);
	close_bench(&b);
}

/* Memory of malloc's, which the peer does not map: it is read and written by system calls. */
static void in_place__any_memory_may_be_registered(void **state)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;
	enum slime_transport transport = ((struct pair *)*state)->transport;
	uint8_t *memory = malloc(ROOM + LEN);
	struct slime_mr *mr, *mapped;
	struct bench b;

	attr.foreign_memory = SLIME_FOREIGN_REQUIRE;
	open_bench(&b, pair_open(transport, &attr));
	assert_int_equal(slime_mr_create(b.p->a.ctx, memory, ROOM + LEN,
					 SLIME_ACCESS_REMOTE_READ | SLIME_ACCESS_REMOTE_WRITE, &mr),
			 0);
	mapped = b.mr;
	b.mr = mr;
	for (int i = 0; i < 3; i++) {
		pattern_fill(memory, LEN, (uint32_t)i);
		assert_int_equal(call_in_region(&b, "echo", ROOM), 0);
		assert_ptr_equal(slime_call_reply_data(b.call), memory + ROOM);
		assert_true(pattern_ok(memory + ROOM, LEN, (uint32_t)i));
	}
	assert_int_equal(slime_mr_destroy(mr), 0);
	b.mr = mapped;
	close_bench(&b);
	pair_close(b.p);
	free(memory);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		IN_PAIR(in_place__long_call_works_on_the_callers_memory),
		IN_PAIR(in_place__less_than_the_buffer_may_be_committed),
		IN_PAIR(in_place__request_and_reply_may_overlap),
		IN_PAIR(in_place__region_can_be_withdrawn_after_a_call),
		IN_PAIR(in_place__any_memory_may_be_registered),
	};

	return PAIR_RUN("rpc in place", tests);
}
