/* SPDX-License-Identifier: Apache-2.0 */
/* A link that comes up though one of its rails does not, or breaks meanwhile. */
#include "base/clock.h"
#include "src/endpoint.h"
#include "src/transport/rdma/rdma.h"
#include "tests/libslime/rdma_rails.h"

/* ---- its port goes down ---- */

/* A link anew: the device's port goes down when b has made its offer, and a has begun. */
static void connect_while_goes_down(unsigned device)
{
	slime_endpoint_close(rails.pair.a.ep);
	slime_endpoint_close(rails.pair.b.ep);
	rdma_settle(&rails.pair);
	assert_ok(slime_endpoint_destroy(rails.pair.a.ep));
	assert_ok(slime_endpoint_destroy(rails.pair.b.ep));
	assert_ok(rdma_pair_create_endpoints(&rails.pair));
	assert_ok(rdma_pair_begin_to_connect(&rails.pair.a, &rails.pair.b));
	rails_settle_workers();
	rails_set_port(device, false);
	rails_settle_workers();
	assert_ok(rdma_pair_begin_to_connect(&rails.pair.b, &rails.pair.a));
	assert_ok(rdma_pair_wait_for_both(&rails.pair));
}

static void port__that_goes_down_while_the_link_greets_is_left_when_it_is_up(void **state)
{
	(void)state;
	connect_while_goes_down(1);
	rails_await(1, SLIME_RAIL_DOWN);
}

static void port__that_goes_down_before_the_link_begins_is_left_when_it_is_up(void **state)
{
	(void)state;
	connect_while_goes_down(RAILS + 1);
	rails_await(1, SLIME_RAIL_DOWN);
}

static void port__of_the_first_rail_that_goes_down_meanwhile_leaves_the_link_to_others(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		connect_while_goes_down(i * RAILS);
		rails_await(0, SLIME_RAIL_DOWN);
		rails_set_port(i * RAILS, true);
		rails_await_return(0);
	}
}

/* ---- it cannot be brought up ---- */

static struct ibv_context *_Atomic refuses; /* RTR */
static struct ibv_context *_Atomic leads;
static _Atomic unsigned n_refused, n_led;

int __real_ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
int __wrap_ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);

int __wrap_ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	if (attr->qp_state == IBV_QPS_RTR && qp->context == atomic_load(&leads))
		atomic_fetch_add(&n_led, 1);
	if (attr->qp_state == IBV_QPS_RTR && qp->context == atomic_load(&refuses)) {
		atomic_fetch_add(&n_refused, 1);
		return ETIMEDOUT;
	}
	return __real_ibv_modify_qp(qp, attr, mask);
}

/* As when there is no path to the peer's address. It comes back when there is. */
static void rail__that_does_not_come_up_leaves_the_link_to_the_others(void **state)
{
	const struct rdma_conn *c = rdma_conn_of(sl_endpoint_conn(rails.pair.a.ep));

	(void)state;
	atomic_store(&refuses, c->paths[2].rail->nic->device.ibv);
	rdma_next_link(&rails.pair);
	assert_ok(rdma_write_now(&rails.pair, LEN, 1));
	rails_await(2, SLIME_RAIL_DOWN);
	assert_ok(rdma_write_now(&rails.pair, LEN, 2));
	atomic_store(&refuses, NULL);
	rails_await_return(2);
}

static void assert_a_message_passes(void)
{
	rails_post_recv(0);
	rails_send_value(0, 1);
	rails_assert_got(0, 1);
	assert_ok(rdma_wait(&rails.pair, rails.sends[0]));
}

/* The ends would greet each other over it; only one of them knows that it cannot be. */
static void rail__that_is_the_first_and_does_not_come_up_leaves_the_link_to_others(void **state)
{
	const struct rdma_end *ends[] = { &rails.pair.a, &rails.pair.b };

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		atomic_store(&refuses, rails_device_of(ends[i], 0));
		rdma_next_link(&rails.pair);
		assert_a_message_passes();
		assert_ok(rdma_write_now(&rails.pair, LEN, 1));
		rails_await(0, SLIME_RAIL_DOWN);
		atomic_store(&refuses, NULL);
		rails_await_return(0);
		assert_a_message_passes();
	}
}

/* And no device says so: others have their turn. */
static void rail__that_is_the_first_and_passes_nothing_leaves_the_link_to_others(void **state)
{
	(void)state;
	rails_cut(0, true);
	rdma_pair_destroy_endpoints(&rails.pair);
	assert_ok(rdma_pair_create_endpoints(&rails.pair));
	assert_ok(rdma_pair_begin_to_connect(&rails.pair.a, &rails.pair.b));
	assert_ok(rdma_pair_begin_to_connect(&rails.pair.b, &rails.pair.a));
	rails_settle_workers();
	rails.ahead_ns += 15 * SL_NS_PER_S; /* more than a turn, less than two */
	assert_ok(rdma_pair_wait_for_both(&rails.pair));
	assert_a_message_passes();
	rails_await(0, SLIME_RAIL_DOWN);
	rails_cut(0, false);
	rails_await_return(0);
}

static int begin_with_two_qps(void **state)
{
	(void)state;
	return rails_open(2);
}

/* The device waits long for each, and the link's deadline does not. */
static void rail__that_does_not_come_up_is_given_up_with_its_first_queue_pair(void **state)
{
	const struct rdma_conn *c = rdma_conn_of(sl_endpoint_conn(rails.pair.a.ep));

	(void)state;
	atomic_store(&refuses, c->paths[2].rail->nic->device.ibv);
	atomic_store(&leads, c->paths[0].rail->nic->device.ibv);
	atomic_store(&n_refused, 0);
	atomic_store(&n_led, 0);
	rdma_next_link(&rails.pair);
	/* In each try. */
	assert_int_equal(atomic_load(&n_led), 2 * atomic_load(&n_refused));
	atomic_store(&leads, NULL);
	rails_await(2, SLIME_RAIL_DOWN);
	atomic_store(&refuses, NULL);
	rails_await_return(2);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		IN_PAIR(port__that_goes_down_while_the_link_greets_is_left_when_it_is_up),
		IN_PAIR(port__that_goes_down_before_the_link_begins_is_left_when_it_is_up),
		IN_PAIR(port__of_the_first_rail_that_goes_down_meanwhile_leaves_the_link_to_others),
		IN_PAIR(rail__that_does_not_come_up_leaves_the_link_to_the_others),
		IN_PAIR(rail__that_is_the_first_and_does_not_come_up_leaves_the_link_to_others),
		IN_PAIR(rail__that_is_the_first_and_passes_nothing_leaves_the_link_to_others),
		cmocka_unit_test_setup_teardown(
			rail__that_does_not_come_up_is_given_up_with_its_first_queue_pair,
			begin_with_two_qps, rails_end),
	};

	return cmocka_run_group_tests_name("rdma_rails_begin", tests, NULL, NULL);
}
