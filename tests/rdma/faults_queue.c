/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queue pairs and completion queues that fail, and keys that a device refuses: things that only
 * somebody else's mistake does, done here behind the library's back.
 */
#include "src/core/lock.h"
#include "src/endpoint/endpoint.h"
#include "src/transport/rdma/conn.h"
#include "src/transport/rdma/cq.h"
#include "src/transport/rdma/key.h"
#include "src/transport/rdma/qp.h"
#include "tests/rdma/wired.h"

#include <stdatomic.h>
#include <string.h>

static struct rdma_conn *conn_of(const struct end *e)
{
	return rdma_conn_of(atomic_load(&e->ep->conn));
}

static void force_into_error(const struct end *e)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	assert_ok(ibv_modify_qp(conn_of(e)->qps[0]->ibv, &attr, IBV_QP_STATE));
}

static void queue_pair__forced_into_error_ends_the_link(void **state)
{
	struct pair *p = *state;
	uint64_t begin;

	assert_ok(traffic_run(p, 0));
	begin = now_ms();
	force_into_error(&p->a);
	assert_traffic_fails(p, begin);
	assert_int_equal(cause_of(&p->a), -ECONNRESET);
	assert_int_equal(cause_of(&p->b), -ECONNRESET);
}

static void queue_pair__forced_into_error_while_idle_is_noticed(void **state)
{
	struct pair *p = *state;
	uint64_t begin = now_ms();

	force_into_error(&p->b);
	assert_both_break(p, begin, REPORT_MS);
	assert_int_equal(cause_of(&p->a), -ECONNRESET);
	assert_int_equal(cause_of(&p->b), -ECONNRESET);
}

/* ---- keys ---- */

/* What a has of b's region. */
static void spoil_keys(struct rdma_conn *c)
{
	sl_lock(&c->lock);
	for (unsigned i = 0; i < RDMA_BUCKETS; i++) {
		for (struct rdma_key *k = c->keys[i]; k; k = k->next)
			k->rkeys[0] ^= 0x5a5a00;
	}
	sl_unlock(&c->lock);
}

static void key__that_is_wrong_ends_the_link_and_moves_nothing(void **state)
{
	struct pair *p = *state;
	struct slime_xfer x = a_and_b(p, 0, 0, 4096);
	uint64_t begin;

	assert_ok(traffic_run(p, 0));
	memset(p->a.bytes, 1, 4096);
	memset(p->b.bytes, 2, 4096);
	spoil_keys(conn_of(&p->a));
	begin = now_ms();
	assert_int_equal(write_now(p, &x), -EREMOTEIO);
	assert_both_break(p, begin, REPORT_MS);
	assert_int_equal(cause_of(&p->a), -EREMOTEIO);
	assert_int_equal(cause_of(&p->b), -ECONNRESET);
	for (int i = 0; i < 4096; i++)
		assert_int_equal(p->b.bytes[i], 2);
}

/* The other link of the same contexts goes on. */
static void key__that_is_wrong_harms_no_other_link(void **state)
{
	struct pair *p = *state;
	struct slime_xfer x = a_and_b(p, 0, 0, 64);
	struct slime_endpoint *first_a = p->a.ep, *first_b = p->b.ep;

	assert_ok(traffic_run(p, 0));
	pair_create_endpoints(p, NULL);
	pair_connect(p);
	spoil_keys(rdma_conn_of(atomic_load(&first_a->conn)));
	assert_ok(slime_write(first_a, &x, 1, 0, p->a.op));
	assert_int_equal(op_end(p->a.op), -EREMOTEIO);
	assert_ok(traffic_run(p, 100));
	assert_ok(slime_endpoint_destroy(first_a));
	assert_ok(slime_endpoint_destroy(first_b));
}

/* ---- completion queues ---- */

#define SMALL 16
#define MANY  64

static void completion_queue__that_overflows_ends_its_links(void **state)
{
	struct pair *p = *state = wired_open(true);
	struct slime_xfer x = a_and_b(p, 0, 0, 64);
	struct slime_op *ops[MANY];
	volatile uint8_t *last = p->b.bytes;
	uint64_t begin;
	int status = 0;

	assert_ok(write_now(p, &x));
	assert_ok(ibv_resize_cq(conn_of(&p->a)->qps[0]->cq->ibv, SMALL));
	for (int i = 0; i < MANY; i++) {
		ops[i] = op_new(p->a.ctx);
		p->a.bytes[i] = (uint8_t)(i + 1);
		x = a_and_b(p, (uint64_t)i, 0, 1);
		assert_ok(slime_write(p->a.ep, &x, 1, 0, ops[i]));
	}
	begin = now_ms();
	while (*last != MANY && now_ms() - begin < REPORT_MS)
		;
	for (int i = 0; i < MANY; i++) {
		int ret = op_end(ops[i]);

		status = ret ? ret : status;
		assert_ok(slime_op_destroy(ops[i]));
	}
	assert_true(status < 0);
	assert_int_equal(cause_of(&p->a), -EIO);
	end_await(&p->b, SLIME_ENDPOINT_BROKEN);
	assert_true(now_ms() - begin <= REPORT_MS);
	assert_int_equal(cause_of(&p->b), -ECONNRESET);
}

static int nothing(void **state)
{
	(void)state;
	return 0;
}

#define WIRED(fn) cmocka_unit_test_setup_teardown(fn, wired_setup, wired_teardown)

static const struct CMUnitTest tests[] = {
	WIRED(queue_pair__forced_into_error_ends_the_link),
	WIRED(queue_pair__forced_into_error_while_idle_is_noticed),
	WIRED(key__that_is_wrong_ends_the_link_and_moves_nothing),
	WIRED(key__that_is_wrong_harms_no_other_link),
	cmocka_unit_test_setup_teardown(completion_queue__that_overflows_ends_its_links, nothing,
					wired_teardown),
};

int main(int argc, char **argv)
{
	return wired_main(argc, argv, "faults-queue", tests, sizeof(tests) / sizeof(tests[0]));
}
