/* SPDX-License-Identifier: Apache-2.0 */
/* The fake's calls: those that fail, what is counted and checked, threads. */
#include <pthread.h>
#include <string.h>

#include "tests/fakes/fakeverbs/fixture.h"

/* ---- calls ---- */

/* Everything that a program of verbs does, without a word about what fails: 0 or an errno. */
static int try_scenario(struct ibv_device *dev)
{
	struct ibv_context *ctx = ibv_open_device(dev);
	struct ibv_pd *pd = ctx ? ibv_alloc_pd(ctx) : NULL;
	struct ibv_comp_channel *ch = pd ? ibv_create_comp_channel(ctx) : NULL;
	struct ibv_cq *cq = ch ? ibv_create_cq(ctx, 4, NULL, ch, 0) : NULL;
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 0 }
	};
	struct ibv_qp *qp = cq ? ibv_create_qp(pd, &init) : NULL;
	int err = qp ? qp_to_init(qp) : errno;

	if (!err)
		err = ibv_req_notify_cq(cq, 0);
	if (qp)
		assert_ok(ibv_destroy_qp(qp));
	if (cq)
		assert_ok(ibv_destroy_cq(cq));
	if (ch)
		assert_ok(ibv_destroy_comp_channel(ch));
	if (pd)
		assert_ok(ibv_dealloc_pd(pd));
	if (ctx)
		assert_ok(ibv_close_device(ctx));
	return err;
}

static void fail_call__fails_each_in_turn_and_then_none(void **state)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	unsigned n = 1;

	(void)state;
	for (;; n++) {
		int err;

		fakeverbs_fail_call(n, EDOM);
		err = try_scenario(list[0]);
		assert_int_equal(err, fakeverbs_failed() ? EDOM : 0);
		assert_int_equal(fakeverbs_check(), 0);
		if (!err)
			break;
	}
	assert_int_equal(n, 8); /* seven calls can fail */
	fakeverbs_fail_call_of(FAKEVERBS_CREATE_QP, 1, ENOMEM);
	assert_int_equal(try_scenario(list[0]), ENOMEM);
	assert_true(fakeverbs_failed());
	assert_string_equal(fakeverbs_call_name(fakeverbs_failed_call()), "ibv_create_qp");
	ibv_free_device_list(list);
}

static void counts__tell_calls_and_work(void **state)
{
	struct pair *p = *state;
	struct fakeverbs_counts c;

	fakeverbs_fail_call(7, EIO); /* polls are not among those that fail */
	fakeverbs_reset_counts();
	post(p, IBV_WR_RDMA_WRITE, 0, 0, 1000);
	post(p, IBV_WR_RDMA_WRITE, 0, 0, 1000);
	assert_ok(ibv_req_notify_cq(p->a.cq, 0));
	assert_wc(&p->a, IBV_WC_SUCCESS);
	assert_wc(&p->a, IBV_WC_SUCCESS);
	for (int i = 0; i < 10; i++)
		assert_no_wc(&p->a);
	assert_false(fakeverbs_failed());
	c = fakeverbs_counts();
	assert_int_equal(c.calls[FAKEVERBS_POST_SEND], 2);
	assert_int_equal(c.calls[FAKEVERBS_POLL_CQ], 12);
	assert_int_equal(c.empty_polls, 10);
	assert_int_equal(c.completions, 2);
	assert_int_equal(c.signaled, 2);
	assert_int_equal(c.busy_arms, 1);
	assert_int_equal(c.bytes, 2000);
}

static void check__lists_what_is_left_and_what_was_wrong(void **state)
{
	struct pair *p = pair_open(NULL);
	struct ibv_cq *cq;
	void *arg;

	(void)state;
	assert_int_equal(fakeverbs_check(), 2 * (1 /* context */ + 5));
	assert_ok(ibv_req_notify_cq(p->a.cq, 0));
	post(p, IBV_WR_RDMA_WRITE, 0, 0, 8);
	assert_ok(ibv_get_cq_event(p->a.channel, &cq, &arg));
	fakeverbs_set_patience(1); /* it is never acknowledged */
	pair_close(p);
	assert_int_equal(fakeverbs_check(), 1);
	assert_int_equal(fakeverbs_check(), 0);
}

/* ---- threads ---- */

#define ROUNDS 2000

static void *write_and_poll(void *arg)
{
	struct pair *p = arg;

	for (unsigned i = 0; i < ROUNDS; i++) {
		uint64_t value = i + 1;

		memcpy(p->a.bytes, &value, 8);
		post(p, IBV_WR_RDMA_WRITE, 0, 8, 8);
		assert_wc(&p->a, IBV_WC_SUCCESS);
		/* As a program does that polls memory. */
		assert_int_equal(
			__atomic_load_n((uint64_t *)(void *)(p->b.bytes + 8), __ATOMIC_ACQUIRE),
			value);
	}
	return NULL;
}

static void threads__use_devices_at_the_same_time(void **state)
{
	struct pair *pairs[3];
	pthread_t threads[3];

	(void)state;
	fakeverbs_set_delay(0, 20 * US, 3);
	for (int i = 0; i < 3; i++) {
		pairs[i] = pair_open(NULL);
		assert_ok(pthread_create(&threads[i], NULL, write_and_poll, pairs[i]));
	}
	for (int i = 0; i < 3; i++) {
		assert_ok(pthread_join(threads[i], NULL));
		pair_close(pairs[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ALONE(fail_call__fails_each_in_turn_and_then_none),
		IN_PAIR(counts__tell_calls_and_work),
		ALONE(check__lists_what_is_left_and_what_was_wrong),
		ALONE(threads__use_devices_at_the_same_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
