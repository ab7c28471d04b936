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
#include "support/echo.h"
#include "support/fail_alloc.h"
#include "support/log_lines.h"
#include "support/manual_link.h"
#include <slime/slime.h>

#define LEN	     (8u << 20)
#define PATIENCE_MS  60000
#define assert_ok(e) assert_int_equal(e, 0)

struct side {
	struct manual_side end;
	struct slime_mem *mem;
	struct slime_mr *mr;
	struct slime_op *op;
};

struct traffic {
	struct side a, b;
	struct manual_link link;
	struct slime_remote_mr remote; /* b's */
	struct slime_call *call;
};

static void open_side(struct side *s)
{
	manual_side_open(&s->end, NULL, test_echo);
	assert_ok(slime_mem_alloc(s->end.ctx, LEN, NULL, &s->mem));
	assert_ok(slime_mr_create(s->end.ctx, slime_mem_addr(s->mem), LEN,
				  SLIME_ACCESS_REMOTE_READ | SLIME_ACCESS_REMOTE_WRITE, &s->mr));
	assert_ok(slime_op_create(s->end.ctx, NULL, &s->op));
}

static void learn_region(struct traffic *p)
{
	uint8_t desc[SLIME_MR_DESC_MAX];
	int len = slime_mr_export(p->b.mr, desc, sizeof(desc));

	assert_true(len > 0);
	assert_ok(slime_remote_mr_import(desc, (size_t)len, &p->remote));
}

static int setup(void **state)
{
	struct traffic *p = calloc(1, sizeof(*p));

	log_lines_keep();
	open_side(&p->a);
	open_side(&p->b);
	manual_link_open(&p->link, &p->a.end, &p->b.end, SLIME_TRANSPORT_TCP);
	learn_region(p);
	assert_ok(slime_call_create(p->a.end.ctx, NULL, &p->call));
	*state = p;
	return 0;
}

static void close_side(struct side *s)
{
	assert_ok(slime_op_destroy(s->op));
	assert_ok(slime_mr_destroy(s->mr));
	assert_ok(slime_mem_destroy(s->mem));
	manual_side_close(&s->end);
}

static int teardown(void **state)
{
	struct traffic *p = *state;

	assert_ok(slime_call_destroy(p->call));
	manual_link_close(&p->link);
	close_side(&p->a);
	close_side(&p->b);
	log_lines_release();
	free(p);
	return 0;
}

/* ---- traffic: 0, or why something ended that was begun; -ENOTCONN, too ---- */

static int call(struct traffic *p)
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
	int ret = slime_call_start(p->link.a, &args, p->call);

	return ret ? ret : manual_link_end_call(&p->link, p->call);
}

static int move_bytes(struct traffic *p, bool write)
{
	struct slime_xfer x = { .local = p->a.mr, .remote = &p->remote, .len = LEN };
	int ret = write ? slime_write(p->link.a, &x, 1, 0, p->a.op)
			: slime_read(p->link.a, &x, 1, 0, p->a.op);

	return ret ? ret : manual_link_end_op(&p->link, p->a.op);
}

static int send_one(struct traffic *p)
{
	int ret = slime_recv(p->link.b, p->b.mr, 0, LEN, 1, SLIME_TAG_ALL, p->b.op);
	int sent;

	if (ret)
		return ret;
	sent = slime_send(p->link.a, p->a.mr, 0, 100, 1, p->a.op);
	if (!sent)
		sent = manual_link_end_op(&p->link, p->a.op);
	if (sent)
		(void)slime_recv_cancel(p->link.b, p->b.op);
	ret = manual_link_end_op(&p->link, p->b.op);
	return sent ? sent : ret;
}

static int all_traffic(struct traffic *p)
{
	int ret = call(p);

	if (!ret)
		ret = move_bytes(p, false);
	if (!ret)
		ret = move_bytes(p, true);
	return ret ? ret : send_one(p);
}

/* ---- ---- */

static void assert_has_nothing(const struct slime_endpoint *ep)
{
	const struct tcp_conn *c = tcp_conn_of(ep->attempts[SLIME_TRANSPORT_TCP].conn);

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
	struct traffic *p = *state;

	for (int i = 0; i < 3; i++) {
		assert_ok(all_traffic(p));
		manual_link_poll(&p->link);
		assert_has_nothing(p->link.a);
		assert_has_nothing(p->link.b);
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
