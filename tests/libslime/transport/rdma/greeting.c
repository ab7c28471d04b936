/* SPDX-License-Identifier: Apache-2.0 */
/* How two queue pairs come up: one after the other, over a path that loses packets meanwhile. */
#include "base/clock.h"
#include "base/list.h"
#include "src/progress/context.h"
#include "src/transport/rdma/conn.h"
#include "src/transport/rdma/qp.h"
#include "src/transport/rdma/transport.h"
#include "tests/libslime/transport/rdma/pair.h"

#define PATIENCE_MS 60000

static struct slime_context_attr quick(void)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;

	attr.rdma_timeout = 10; /* 4 ms */
	attr.rdma_retry_count = 2;
	return attr;
}

static void create_endpoint(struct rdma_end *e, uint8_t *desc, size_t *len)
{
	struct slime_endpoint_attr attr = SLIME_ENDPOINT_ATTR_INIT;
	int ret;

	attr.transports[0] = SLIME_TRANSPORT_RDMA;
	assert_ok(slime_endpoint_create(e->ctx, &attr, &e->ep));
	ret = slime_endpoint_export(e->ep, desc, SLIME_ENDPOINT_DESC_MAX);
	assert_true(ret > 0);
	*len = (size_t)ret;
}

static uint64_t completions(void)
{
	return fakeverbs_counts().completions;
}

static uint64_t posted(void)
{
	return fakeverbs_counts().send_wrs;
}

static uint64_t steps(void)
{
	return fakeverbs_counts().calls[FAKEVERBS_MODIFY_QP];
}

static void poll_until(struct rdma_pair *p, uint64_t (*count)(void), uint64_t value)
{
	uint64_t end = sl_deadline_ns(PATIENCE_MS);

	while (count() < value) {
		rdma_poll(p);
		assert_true(sl_clock_ns() < end);
	}
}

/* ---- links ---- */

/* Its only one, from the beginning on. */
static const struct rdma_conn *conn_of(const struct rdma_end *e)
{
	const struct rdma_transport *t = rdma_of(e->ctx->transports[SLIME_TRANSPORT_RDMA]);

	assert_false(sl_list_empty(&t->conns));
	return SL_CONTAINER_OF(t->conns.next, struct rdma_conn, link);
}

static void poll_until_is(struct rdma_pair *p, const struct rdma_conn *c,
			  enum rdma_conn_state state)
{
	uint64_t end = sl_deadline_ns(PATIENCE_MS);

	while (rdma_state(c) != state) {
		rdma_poll(p);
		assert_true(sl_clock_ns() < end);
	}
}

/* They come when the next try waits for a worker, and would be counted where that begins anew. */
static void connect__again_takes_no_flushes_of_the_former_try(void **state)
{
	const struct slime_context_attr attr = quick();
	uint8_t a_desc[SLIME_ENDPOINT_DESC_MAX], b_desc[SLIME_ENDPOINT_DESC_MAX];
	const struct rdma_conn *c;
	size_t a_len, b_len;
	struct rdma_pair p;
	uint32_t n_posted;

	(void)state;
	assert_ok(rdma_pair_create(&p, &attr, 4096));
	create_endpoint(&p.a, a_desc, &a_len);
	create_endpoint(&p.b, b_desc, &b_len);
	fakeverbs_hold_time(true);
	assert_ok(slime_endpoint_connect(p.a.ep, b_desc, b_len, PATIENCE_MS, p.a.op));
	poll_until(&p, posted, 1);
	c = conn_of(&p.a);
	assert_int_equal(rdma_state(c), RDMA_CONN_GREETING);
	fakeverbs_set_delay(SL_NS_PER_S, SL_NS_PER_S, 1);
	while (rdma_state(c) == RDMA_CONN_GREETING) {
		assert_true(fakeverbs_step());
		rdma_poll(&p);
	}
	rdma_busy_begin(&p.a);
	poll_until_is(&p, c, RDMA_CONN_BRINGING_UP);
	n_posted = c->lead->n_posted;
	assert_int_equal(n_posted, c->lead->n_receives);

	fakeverbs_set_delay(0, 0, 1);
	fakeverbs_advance(SL_NS_PER_S);
	rdma_settle(&p);
	assert_int_equal(c->lead->n_posted, n_posted);
	rdma_busy_end();
	fakeverbs_hold_time(false);
	assert_ok(slime_endpoint_connect(p.b.ep, a_desc, a_len, PATIENCE_MS, p.b.op));
	assert_ok(rdma_wait(&p, p.a.op));
	assert_ok(rdma_wait(&p, p.b.op));
	rdma_pair_close(&p);
	assert_int_equal(fakeverbs_check(), 0);
}

/* b's first message arrived, and then a's got lost for so long that a begins once more: it goes on
 * with b's second message. */
static void connect__again_after_the_peer_was_heard_goes_on_where_it_was(void **state)
{
	const struct slime_context_attr attr = quick();
	uint8_t a_desc[SLIME_ENDPOINT_DESC_MAX], b_desc[SLIME_ENDPOINT_DESC_MAX];
	size_t a_len, b_len;
	struct slime_xfer x;
	struct rdma_pair p;
	uint64_t before;
	uint32_t qp;

	(void)state;
	assert_ok(rdma_pair_create(&p, &attr, 4096));
	create_endpoint(&p.a, a_desc, &a_len);
	create_endpoint(&p.b, b_desc, &b_len);
	assert_int_equal(fakeverbs_qps(0, &qp, 1), 1);
	fakeverbs_hold_qp(0, qp, true);
	assert_ok(slime_endpoint_connect(p.a.ep, b_desc, b_len, PATIENCE_MS, p.a.op));
	poll_until(&p, posted, 1);
	assert_ok(slime_endpoint_connect(p.b.ep, a_desc, a_len, PATIENCE_MS, p.b.op));
	poll_until(&p, completions, 1); /* of the receive */

	before = steps();
	fakeverbs_set_cut(0, 1, true);
	fakeverbs_hold_qp(0, qp, false);
	poll_until(&p, steps, before + 4); /* RESET, INIT, RTR, RTS */
	fakeverbs_set_cut(0, 1, false);
	assert_ok(rdma_wait(&p, p.a.op));
	assert_ok(rdma_wait(&p, p.b.op));

	x = (struct slime_xfer){ .local = p.b.mr, .remote = &p.a.remote, .len = 4096 };
	assert_ok(slime_write(p.b.ep, &x, 1, 0, p.b.op));
	assert_ok(rdma_wait(&p, p.b.op));
	x = rdma_a_and_b(&p, 0, 0, 4096);
	assert_ok(slime_write(p.a.ep, &x, 1, 0, p.a.op));
	assert_ok(rdma_wait(&p, p.a.op));
	rdma_pair_close(&p);
	assert_int_equal(fakeverbs_check(), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(connect__again_takes_no_flushes_of_the_former_try,
				       rdma_pair_reset),
		cmocka_unit_test_setup(connect__again_after_the_peer_was_heard_goes_on_where_it_was,
				       rdma_pair_reset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
