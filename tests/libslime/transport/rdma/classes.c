/* SPDX-License-Identifier: Apache-2.0 */
/* Which queue pairs carry bytes beside the messages, which go over the lead. */
#include "src/transport/rdma/conn.h"
#include "src/transport/rdma/qp.h"
#include "tests/libslime/transport/rdma/pair.h"

#define LEN   (1 << 20)
#define SHORT (128 << 10)

static struct rdma_pair pair;

static struct rdma_conn *open_with(uint32_t qps)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;

	attr.rdma_qps = qps;
	assert_ok(rdma_pair_open(&pair, &attr, LEN));
	/* The regions are registered. */
	assert_ok(rdma_read_now(&pair, LEN, 7));
	return rdma_endpoint_conn(pair.a.ep);
}

static void begin_read(uint64_t len)
{
	static struct slime_xfer x;

	x = rdma_a_and_b(&pair, 0, 0, len);
	assert_ok(slime_read(pair.a.ep, &x, 1, 0, pair.a.op));
}

/* Whether it got work since its head was so. */
static bool got_work(const struct rdma_qp *q, uint32_t head)
{
	return q->head != head;
}

static void read__of_many_bytes_leaves_the_lead_to_messages(void **state)
{
	struct rdma_conn *c = open_with(3);
	uint32_t heads[3];

	(void)state;
	for (unsigned i = 0; i < c->n_qps; i++)
		heads[i] = c->qps[i]->head;
	begin_read(LEN);
	for (unsigned i = 0; i < c->n_qps; i++)
		assert_int_equal(got_work(c->qps[i], heads[i]), c->qps[i] != c->lead);
	assert_ok(rdma_wait(&pair, pair.a.op));
	rdma_exchange_a_message(&pair);
}

static void read__of_few_bytes_may_go_beside_messages(void **state)
{
	struct rdma_conn *c = open_with(2);
	bool lead = false;

	(void)state;
	/* The queue pairs take turns. */
	for (int i = 0; i < 2; i++) {
		uint32_t head = c->lead->head;

		begin_read(SHORT);
		lead |= got_work(c->lead, head);
		assert_ok(rdma_wait(&pair, pair.a.op));
	}
	assert_true(lead);
}

static void read__over_one_queue_pair_goes_over_the_lead(void **state)
{
	struct rdma_conn *c = open_with(1);
	uint32_t head = c->lead->head;

	(void)state;
	begin_read(LEN);
	assert_true(got_work(c->lead, head));
	assert_ok(rdma_wait(&pair, pair.a.op));
}

#define IN_PAIR(fn) \
	cmocka_unit_test_prestate_setup_teardown(fn, rdma_pair_reset, rdma_pair_end, &pair)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		IN_PAIR(read__of_many_bytes_leaves_the_lead_to_messages),
		IN_PAIR(read__of_few_bytes_may_go_beside_messages),
		IN_PAIR(read__over_one_queue_pair_goes_over_the_lead),
	};

	return cmocka_run_group_tests_name("classes", tests, NULL, NULL);
}
