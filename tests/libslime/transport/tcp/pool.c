/* SPDX-License-Identifier: Apache-2.0 */
/* What tcp links take of their context's pools while they are at it: an idle link has none of it,
 * and a link that gets none ends its operations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "src/endpoint/endpoint.h"
#include "src/transport/tcp/tcp.h"
#include "support/fail_alloc.h"
#include "support/log_lines.h"
#include <slime/slime.h>

#define LEN	     (8u << 20)
#define PATIENCE_MS  60000
#define assert_ok(e) assert_int_equal(e, 0)

struct side {
	struct slime_context *ctx;
	struct slime_rpc_service *service;
	struct slime_mem *mem;
	struct slime_mr *mr;
	struct slime_endpoint *ep;
	struct slime_op *op;
};

struct pair {
	struct side a, b;
	struct slime_remote_mr remote; /* b's */
	struct slime_call *call;
};

static void echo(void *arg, struct slime_rpc_request *req)
{
	(void)arg;
	slime_rpc_reply(req, slime_rpc_request_data(req), slime_rpc_request_len(req));
}

static void open_side(struct side *s)
{
	struct slime_context_attr ctx = SLIME_CONTEXT_ATTR_INIT;
	struct slime_endpoint_attr ep = SLIME_ENDPOINT_ATTR_INIT;
	struct slime_rpc_method_attr method = SLIME_RPC_METHOD_ATTR_INIT;

	/* It moves only while the test does. */
	ctx.manual = true;
	assert_ok(slime_context_create(&ctx, &s->ctx));
	assert_ok(slime_rpc_service_create(s->ctx, &s->service));
	method.fn = echo;
	method.flags = SLIME_RPC_INLINE;
	assert_ok(slime_rpc_method_add(s->service, "echo", &method));
	assert_ok(slime_mem_alloc(s->ctx, LEN, NULL, &s->mem));
	assert_ok(slime_mr_create(s->ctx, slime_mem_addr(s->mem), LEN,
				  SLIME_ACCESS_REMOTE_READ | SLIME_ACCESS_REMOTE_WRITE, &s->mr));
	ep.transports[0] = SLIME_TRANSPORT_TCP;
	ep.service = s->service;
	assert_ok(slime_endpoint_create(s->ctx, &ep, &s->ep));
	assert_ok(slime_op_create(s->ctx, NULL, &s->op));
}

static void poll_both(struct pair *p)
{
	assert_true(slime_context_poll(p->a.ctx) >= 0);
	assert_true(slime_context_poll(p->b.ctx) >= 0);
}

static void connect_to(struct side *s, struct side *other)
{
	uint8_t desc[SLIME_ENDPOINT_DESC_MAX];
	int len = slime_endpoint_export(other->ep, desc, sizeof(desc));

	assert_true(len > 0);
	assert_ok(slime_endpoint_connect(s->ep, desc, (size_t)len, PATIENCE_MS, s->op));
}

static void learn_region(struct pair *p)
{
	uint8_t desc[SLIME_MR_DESC_MAX];
	int len = slime_mr_export(p->b.mr, desc, sizeof(desc));

	assert_true(len > 0);
	assert_ok(slime_remote_mr_import(desc, (size_t)len, &p->remote));
}

static int setup(void **state)
{
	struct pair *p = calloc(1, sizeof(*p));

	log_lines_keep();
	open_side(&p->a);
	open_side(&p->b);
	connect_to(&p->a, &p->b);
	connect_to(&p->b, &p->a);
	while (!slime_op_test(p->a.op) || !slime_op_test(p->b.op))
		poll_both(p);
	assert_ok(slime_op_status(p->a.op));
	assert_ok(slime_op_status(p->b.op));
	learn_region(p);
	assert_ok(slime_call_create(p->a.ctx, NULL, &p->call));
	*state = p;
	return 0;
}

static bool is_connected(const struct side *s)
{
	struct slime_endpoint_info info;

	slime_endpoint_info(s->ep, &info);
	return info.state == SLIME_ENDPOINT_CONNECTED;
}

static void close_side(struct side *s)
{
	assert_ok(slime_endpoint_destroy(s->ep));
	assert_ok(slime_op_destroy(s->op));
	assert_ok(slime_mr_destroy(s->mr));
	assert_ok(slime_mem_destroy(s->mem));
	assert_ok(slime_rpc_service_destroy(s->service));
	assert_ok(slime_context_destroy(s->ctx));
}

static int teardown(void **state)
{
	struct pair *p = *state;

	assert_ok(slime_call_destroy(p->call));
	slime_endpoint_close(p->a.ep);
	while (is_connected(&p->a) || is_connected(&p->b))
		poll_both(p);
	close_side(&p->a);
	close_side(&p->b);
	log_lines_release();
	free(p);
	return 0;
}

/* ---- traffic: 0, or why something ended that was begun; -ENOTCONN, too ---- */

static int end_op(struct pair *p, struct slime_op *op)
{
	while (!slime_op_test(op))
		poll_both(p);
	return slime_op_status(op);
}

static int call(struct pair *p)
{
	static uint8_t bytes[64], reply[64];
	const struct slime_call_args args = {
		.method = slime_rpc_method_id("echo"),
		.request = bytes,
		.request_len = sizeof(bytes),
		.reply = reply,
		.reply_cap = sizeof(reply),
		.timeout_ms = PATIENCE_MS,
	};
	int ret = slime_call_start(p->a.ep, &args, p->call);

	if (ret)
		return ret;
	while (!slime_call_test(p->call))
		poll_both(p);
	return slime_call_status(p->call);
}

static int move_bytes(struct pair *p, bool write)
{
	struct slime_xfer x = { .local = p->a.mr, .remote = &p->remote, .len = LEN };
	int ret = write ? slime_write(p->a.ep, &x, 1, 0, p->a.op)
			: slime_read(p->a.ep, &x, 1, 0, p->a.op);

	return ret ? ret : end_op(p, p->a.op);
}

static int send_one(struct pair *p)
{
	int ret = slime_recv(p->b.ep, p->b.mr, 0, LEN, 1, SLIME_TAG_ALL, p->b.op);
	int sent;

	if (ret)
		return ret;
	sent = slime_send(p->a.ep, p->a.mr, 0, 100, 1, p->a.op);
	if (!sent)
		sent = end_op(p, p->a.op);
	if (sent)
		(void)slime_recv_cancel(p->b.ep, p->b.op);
	ret = end_op(p, p->b.op);
	return sent ? sent : ret;
}

static int all_traffic(struct pair *p)
{
	int ret = call(p);

	if (!ret)
		ret = move_bytes(p, false);
	if (!ret)
		ret = move_bytes(p, true);
	return ret ? ret : send_one(p);
}

/* ---- ---- */

static void assert_has_nothing(const struct side *s)
{
	const struct tcp_conn *c = tcp_conn_of(s->ep->attempts[SLIME_TRANSPORT_TCP].conn);

	assert_null(c->msgs);
	for (unsigned i = 0; i < c->n_streams; i++) {
		assert_null(c->streams[i]->rx);
		assert_null(c->streams[i]->batch);
		assert_null(c->streams[i]->requests);
		assert_null(c->streams[i]->serves);
	}
}

static void link__that_has_nothing_to_do_has_nothing_of_the_pools(void **state)
{
	struct pair *p = *state;

	for (int i = 0; i < 3; i++) {
		assert_ok(all_traffic(p));
		poll_both(p);
		assert_has_nothing(&p->a);
		assert_has_nothing(&p->b);
	}
}

/* Every allocation of the traffic fails once: what was begun ends, and a link that ends says why.
 */
static void traffic__without_memory_ends_with_an_error(void **state)
{
	bool failed = true;

	for (long n = 1; failed; n++) {
		int ret;

		fail_alloc_at(n);
		ret = all_traffic(*state);
		failed = fail_alloc_end();
		if (!failed)
			assert_ok(ret);
		assert_true(ret == 0 || ret == -ECONNRESET || ret == -ENOTCONN || ret == -ENOBUFS ||
			    ret == -EREMOTEIO);
		assert_true(ret != -ECONNRESET || log_lines_with("no memory") > 0);
		assert_ok(teardown(state));
		assert_ok(setup(state));
	}
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(link__that_has_nothing_to_do_has_nothing_of_the_pools),
		TEST(traffic__without_memory_ends_with_an_error),
	};

	return cmocka_run_group_tests_name("tcp pool", tests, NULL, NULL);
}
