/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both ends of a link in one process, stepped in turn by one thread, so that what an operation
 * costs can be counted: steps CASE N repeats an operation N times inside counted_steps().
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>

#include <slime/slime.h>
#include "src/core/op.h"
#include "src/rpc/rpc_call.h"

#define BLOCK	  4096
#define N_SCATTER UINT64_C(15000)
#define N_CHAIN	  256 /* pieces that one post has room for */
#define POOL	  (2 * N_SCATTER * BLOCK)
#define CALL_SIZE 64
#define N_CALLS	  64 /* in flight at once */
#define N_IDLE	  64
/* Until links of which nothing is heard are not looked at in every round. */
#define WARM_CALLS 1000

struct end {
	struct slime_context *ctx;
	struct slime_rpc_service *service;
	struct slime_endpoint *ep;
	struct slime_op *op;
	struct slime_mem *mem;
	struct slime_mr *mr;
};

struct steps {
	struct end a, b;
	struct slime_remote_mr remote; /* b's memory */
	struct slime_call *calls[N_CALLS];
	struct slime_call_args args;
	uint8_t request[CALL_SIZE], reply[CALL_SIZE];
	struct slime_context *others; /* whose links to b are idle */
	struct slime_xfer xfers[N_SCATTER];
	struct slime_batch *batch; /* of them, from the first use on */
};

/*
 * valgrind 3.19 knows no pidfd_open. Here the peer is this process, and a descriptor of it would
 * never become readable: nor does this one.
 */
long __real_syscall(long number, ...);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f);

long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f)
{
	if (number == SYS_pidfd_open)
		return eventfd(0, EFD_CLOEXEC);
	return __real_syscall(number, a, b, c, d, e, f);
}

static void must(int ret, const char *what)
{
	if (ret < 0) {
		fprintf(stderr, "%s: %s\n", what, strerror(-ret));
		exit(EXIT_FAILURE);
	}
}

/* An operation is pending until sl_op_is_idle(): slime_op_test() would make a pass of its own. */
static void step(struct steps *s)
{
	slime_context_poll(s->b.ctx);
	slime_context_poll(s->a.ctx);
}

/* ---- the operations ---- */

static void end_calls(struct steps *s, int n)
{
	for (int i = 0; i < n; i++) {
		while (!sl_op_is_idle(&s->calls[i]->op))
			step(s);
		must(slime_call_status(s->calls[i]), "call");
	}
}

static void call_at_once(struct steps *s, int n)
{
	for (int i = 0; i < n; i++)
		must(slime_call_start(s->a.ep, &s->args, s->calls[i]), "slime_call_start");
	end_calls(s, n);
}

static void call(struct steps *s)
{
	call_at_once(s, 1);
}

static void call_many(struct steps *s)
{
	call_at_once(s, N_CALLS);
}

static void call_together(struct steps *s)
{
	struct slime_call_item items[N_CALLS];

	for (int i = 0; i < N_CALLS; i++)
		items[i] = (struct slime_call_item){ .call = s->calls[i], .args = &s->args };
	must(slime_call_start_many(s->a.ep, items, N_CALLS) - N_CALLS, "slime_call_start_many");
	end_calls(s, N_CALLS);
}

/* What is counted, by its name. */
__attribute__((noinline)) void counted_post(struct steps *s, size_t n);
__attribute__((noinline)) void counted_submit(struct steps *s);
__attribute__((noinline)) void counted_steps(struct steps *s, void (*operate)(struct steps *),
					     unsigned long n);

void counted_post(struct steps *s, size_t n)
{
	must(slime_read(s->a.ep, s->xfers, n, 0, s->a.op), "slime_read");
}

static void read_pieces(struct steps *s, size_t n)
{
	counted_post(s, n);
	while (!sl_op_is_idle(s->a.op))
		step(s);
	must(slime_op_status(s->a.op), "read");
}

void counted_submit(struct steps *s)
{
	must(slime_batch_submit(s->a.ep, s->batch, 0, s->a.op), "slime_batch_submit");
}

/* The same pieces, which were checked once. */
static void read_prepared(struct steps *s, size_t n)
{
	if (!s->batch)
		must(slime_batch_create(s->a.ep, SLIME_BATCH_READ, s->xfers, n, &s->batch),
		     "slime_batch_create");
	counted_submit(s);
	while (!sl_op_is_idle(s->a.op))
		step(s);
	must(slime_op_status(s->a.op), "read");
}

static void read_one_prepared(struct steps *s)
{
	read_prepared(s, 1);
}

static void read_chain_prepared(struct steps *s)
{
	read_prepared(s, N_CHAIN);
}

static void read_many_prepared(struct steps *s)
{
	read_prepared(s, N_SCATTER);
}

static void read_one(struct steps *s)
{
	read_pieces(s, 1);
}

static void read_chain(struct steps *s)
{
	read_pieces(s, N_CHAIN);
}

static void read_many(struct steps *s)
{
	read_pieces(s, N_SCATTER);
}

void counted_steps(struct steps *s, void (*operate)(struct steps *), unsigned long n)
{
	for (unsigned long i = 0; i < n; i++)
		operate(s);
}

/* ---- the link ---- */

static void echo(void *arg, struct slime_rpc_request *req)
{
	(void)arg;
	slime_rpc_reply(req, slime_rpc_request_data(req), slime_rpc_request_len(req));
}

static void open_end(struct end *e, enum slime_transport transport)
{
	struct slime_context_attr ctx_attr = SLIME_CONTEXT_ATTR_INIT;
	struct slime_endpoint_attr ep_attr = SLIME_ENDPOINT_ATTR_INIT;
	struct slime_rpc_method_attr method = SLIME_RPC_METHOD_ATTR_INIT;

	ctx_attr.manual = true;
	must(slime_context_create(&ctx_attr, &e->ctx), "slime_context_create");
	must(slime_op_create(e->ctx, NULL, &e->op), "slime_op_create");
	must(slime_rpc_service_create(e->ctx, &e->service), "slime_rpc_service_create");
	method.fn = echo;
	method.flags = SLIME_RPC_INLINE | SLIME_RPC_IN_PLACE;
	must(slime_rpc_method_add(e->service, "echo", &method), "slime_rpc_method_add");
	ep_attr.service = e->service;
	ep_attr.transports[0] = transport;
	must(slime_endpoint_create(e->ctx, &ep_attr, &e->ep), "slime_endpoint_create");
	must(slime_mem_alloc(e->ctx, POOL, NULL, &e->mem), "slime_mem_alloc");
	must(slime_mr_create(e->ctx, slime_mem_addr(e->mem), POOL, SLIME_ACCESS_REMOTE_READ,
			     &e->mr),
	     "slime_mr_create");
}

static void start_connect(struct end *from, struct end *to)
{
	uint8_t desc[SLIME_ENDPOINT_DESC_MAX];
	int len = slime_endpoint_export(to->ep, desc, sizeof(desc));

	must(len, "slime_endpoint_export");
	must(slime_endpoint_connect(from->ep, desc, (size_t)len, 120000, from->op),
	     "slime_endpoint_connect");
}

static void connect_ends(struct steps *s)
{
	start_connect(&s->a, &s->b);
	start_connect(&s->b, &s->a);
	while (!sl_op_is_idle(s->a.op) || !sl_op_is_idle(s->b.op))
		step(s);
	must(slime_op_status(s->a.op), "connect");
	must(slime_op_status(s->b.op), "connect");
}

static struct slime_endpoint *open_endpoint(struct slime_context *ctx,
					    enum slime_transport transport)
{
	struct slime_endpoint_attr attr = SLIME_ENDPOINT_ATTR_INIT;
	struct slime_endpoint *ep;

	attr.transports[0] = transport;
	must(slime_endpoint_create(ctx, &attr, &ep), "slime_endpoint_create");
	return ep;
}

static void connect_other(struct steps *s, enum slime_transport transport)
{
	struct end from = { .ctx = s->others }, to = { .ctx = s->b.ctx };
	struct end *ends[] = { &from, &to };

	for (int i = 0; i < 2; i++) {
		ends[i]->ep = open_endpoint(ends[i]->ctx, transport);
		must(slime_op_create(ends[i]->ctx, NULL, &ends[i]->op), "slime_op_create");
	}
	start_connect(&from, &to);
	start_connect(&to, &from);
	while (!sl_op_is_idle(from.op) || !sl_op_is_idle(to.op)) {
		slime_context_poll(s->others);
		slime_context_poll(s->b.ctx);
	}
	must(slime_op_status(from.op), "connect");
	must(slime_op_status(to.op), "connect");
}

/* Of one more process, so to speak, which does nothing from here on. */
static void connect_others(struct steps *s, enum slime_transport transport)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;

	attr.manual = true;
	must(slime_context_create(&attr, &s->others), "slime_context_create");
	for (int i = 0; i < N_IDLE; i++)
		connect_other(s, transport);
}

static void prepare(struct steps *s)
{
	uint8_t desc[SLIME_MR_DESC_MAX];
	int len = slime_mr_export(s->b.mr, desc, sizeof(desc));

	must(len, "slime_mr_export");
	must(slime_remote_mr_import(desc, (size_t)len, &s->remote), "slime_remote_mr_import");
	for (int i = 0; i < N_CALLS; i++)
		must(slime_call_create(s->a.ctx, NULL, &s->calls[i]), "slime_call_create");
	s->args = (struct slime_call_args){
		.method = slime_rpc_method_id("echo"),
		.request = s->request,
		.request_len = CALL_SIZE,
		.reply = s->reply,
		.reply_cap = CALL_SIZE,
		.timeout_ms = -1,
	};
	/* Pieces that no two of lie side by side at both ends. */
	for (size_t i = 0; i < N_SCATTER; i++)
		s->xfers[i] = (struct slime_xfer){
			.local = s->a.mr,
			.remote = &s->remote,
			.local_offset = i * BLOCK,
			.remote_offset = i * 7 % N_SCATTER * 2 * BLOCK,
			.len = BLOCK,
		};
}

static void close_link(struct steps *s)
{
	slime_endpoint_close(s->a.ep);
	for (int i = 0; i < 100; i++)
		step(s);
	for (int i = 0; i < N_CALLS; i++)
		slime_call_destroy(s->calls[i]);
	slime_batch_destroy(s->batch);
}

static const struct {
	const char *name;
	enum slime_transport transport;
	void (*operate)(struct steps *s);
	bool others; /* the server has idle links, too */
} cases[] = {
	{ "shm-call", SLIME_TRANSPORT_SHM, call, false },
	{ "shm-calls", SLIME_TRANSPORT_SHM, call_many, false },
	{ "shm-calls-together", SLIME_TRANSPORT_SHM, call_together, false },
	{ "shm-call-among-idle", SLIME_TRANSPORT_SHM, call, true },
	{ "shm-read", SLIME_TRANSPORT_SHM, read_one, false },
	{ "shm-pieces", SLIME_TRANSPORT_SHM, read_many, false },
	{ "shm-read-prepared", SLIME_TRANSPORT_SHM, read_one_prepared, false },
	{ "shm-pieces-prepared", SLIME_TRANSPORT_SHM, read_many_prepared, false },
	{ "tcp-call", SLIME_TRANSPORT_TCP, call, false },
	{ "tcp-call-among-idle", SLIME_TRANSPORT_TCP, call, true },
	{ "tcp-read", SLIME_TRANSPORT_TCP, read_one, false },
	{ "tcp-pieces", SLIME_TRANSPORT_TCP, read_many, false },
	{ "tcp-read-prepared", SLIME_TRANSPORT_TCP, read_one_prepared, false },
	{ "tcp-pieces-prepared", SLIME_TRANSPORT_TCP, read_many_prepared, false },
	/* Linked with fakeverbs. */
	{ "rdma-call", SLIME_TRANSPORT_RDMA, call, false },
	{ "rdma-read", SLIME_TRANSPORT_RDMA, read_one, false },
	{ "rdma-chain", SLIME_TRANSPORT_RDMA, read_chain, false },
	{ "rdma-pieces", SLIME_TRANSPORT_RDMA, read_many, false },
	{ "rdma-read-prepared", SLIME_TRANSPORT_RDMA, read_one_prepared, false },
	{ "rdma-chain-prepared", SLIME_TRANSPORT_RDMA, read_chain_prepared, false },
};

int main(int argc, char **argv)
{
	static struct steps s;

	for (size_t i = 0; argc == 3 && i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (strcmp(argv[1], cases[i].name))
			continue;
		open_end(&s.a, cases[i].transport);
		open_end(&s.b, cases[i].transport);
		connect_ends(&s);
		if (cases[i].others)
			connect_others(&s, cases[i].transport);
		prepare(&s);
		for (int warm = 0; warm < (cases[i].others ? WARM_CALLS : 5); warm++)
			cases[i].operate(&s);
		counted_steps(&s, cases[i].operate, strtoul(argv[2], NULL, 10));
		close_link(&s);
		return 0;
	}
	fprintf(stderr, "usage: %s CASE N\n", argv[0]);
	return 2;
}
