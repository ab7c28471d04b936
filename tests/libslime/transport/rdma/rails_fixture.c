/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "src/transport/rdma/conn.h"
#include "src/transport/rdma/nic.h"
#include "src/transport/rdma/offer.h"
#include "tests/libslime/transport/rdma/rails_fixture.h"

#include <string.h>
#include <time.h>

struct rails rails;

int __real_clock_gettime(clockid_t id, struct timespec *ts);
int __wrap_clock_gettime(clockid_t id, struct timespec *ts);

int __wrap_clock_gettime(clockid_t id, struct timespec *ts)
{
	int ret = __real_clock_gettime(id, ts);
	uint64_t now = (uint64_t)ts->tv_sec * SL_NS_PER_S + (uint64_t)ts->tv_nsec + rails.ahead_ns;

	if (id == CLOCK_MONOTONIC || id == CLOCK_MONOTONIC_COARSE) {
		ts->tv_sec = (time_t)(now / SL_NS_PER_S);
		ts->tv_nsec = (long)(now % SL_NS_PER_S);
	}
	return ret;
}

int rails_open(unsigned n_qps)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;

	/* The clock of fakeverbs sleeps by the real one: nobody who is there has seen another. */
	rails.ahead_ns = 0;
	fakeverbs_reset();
	for (unsigned i = 2; i < 2 * RAILS; i++)
		(void)fakeverbs_device(i);
	attr.rdma_devices = "fake0,fake1,fake2;fake3,fake4,fake5";
	attr.rdma_qps = n_qps;
	attr.rdma_timeout = 8; /* 1 ms */
	attr.rdma_retry_count = 2;
	attr.tcp_user_timeout_ms = 3600 * 1000; /* no probes of what is idle */
	if (rdma_pair_open(&rails.pair, &attr, LEN))
		return -1;
	for (unsigned i = 0; i < 3; i++) {
		assert_ok(slime_op_create(rails.pair.a.ctx, NULL, &rails.sends[i]));
		assert_ok(slime_op_create(rails.pair.b.ctx, NULL, &rails.recvs[i]));
	}
	return 0;
}

int rails_begin(void **state)
{
	(void)state;
	return rails_open(1);
}

int rails_end(void **state)
{
	(void)state;
	fakeverbs_set_delay(0, 0, 0);
	fakeverbs_hold_time(false);
	slime_endpoint_close(rails.pair.a.ep);
	slime_endpoint_close(rails.pair.b.ep);
	rdma_settle(&rails.pair);
	assert_ok(slime_endpoint_destroy(rails.pair.a.ep));
	assert_ok(slime_endpoint_destroy(rails.pair.b.ep));
	rails.pair.a.ep = rails.pair.b.ep = NULL;
	for (unsigned i = 0; i < 3; i++) {
		assert_ok(slime_op_destroy(rails.sends[i]));
		assert_ok(slime_op_destroy(rails.recvs[i]));
	}
	rdma_pair_close(&rails.pair);
	return fakeverbs_check() ? -1 : 0;
}

enum slime_endpoint_state rails_state_of(const struct rdma_end *e)
{
	struct slime_endpoint_info info;

	slime_endpoint_info(e->ep, &info);
	return info.state;
}

void rails_assert_connected(void)
{
	assert_int_equal(rails_state_of(&rails.pair.a), SLIME_ENDPOINT_CONNECTED);
	assert_int_equal(rails_state_of(&rails.pair.b), SLIME_ENDPOINT_CONNECTED);
}

bool rails_both_say(unsigned rail, enum slime_rail_state state)
{
	struct slime_rail_info a[RAILS], b[RAILS];

	assert_int_equal(slime_endpoint_rails(rails.pair.a.ep, a, RAILS), RAILS);
	assert_int_equal(slime_endpoint_rails(rails.pair.b.ep, b, RAILS), RAILS);
	return a[rail].state == state && b[rail].state == state;
}

void rails_await(unsigned rail, enum slime_rail_state state)
{
	uint64_t until = sl_deadline_ns(60000);

	while (!rails_both_say(rail, state)) {
		rdma_poll(&rails.pair);
		rails_assert_connected();
		assert_true(sl_clock_ns() < until);
	}
}

void rails_await_return(unsigned rail)
{
	uint64_t until = sl_deadline_ns(60000);

	for (unsigned i = 0; !rails_both_say(rail, SLIME_RAIL_UP); i++) {
		if (i % 64 == 0) {
			fakeverbs_raise(rail, IBV_EVENT_PORT_ACTIVE, 1);
			fakeverbs_raise(RAILS + rail, IBV_EVENT_PORT_ACTIVE, 1);
		}
		rdma_poll(&rails.pair);
		rails_assert_connected();
		assert_true(sl_clock_ns() < until);
	}
}

void rails_set_port(unsigned device, bool up)
{
	fakeverbs_set_port_state(device, 1, up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN);
}

void rails_cut(unsigned rail, bool is_cut)
{
	fakeverbs_set_cut(rail, RAILS + rail, is_cut);
}

struct ibv_context *rails_device_of(const struct rdma_end *e, unsigned rail)
{
	return rdma_endpoint_conn(e->ep)->paths[rail].rail->nic->device.ibv;
}

void rails_settle_workers(void)
{
	do {
		rdma_settle(&rails.pair);
	} while (rdma_is_working(&rails.pair));
}

void rails_post_recv(unsigned i)
{
	assert_ok(slime_recv(rails.pair.b.ep, rails.pair.b.mr, i * MESSAGE, MESSAGE, 1,
			     SLIME_TAG_ALL, rails.recvs[i]));
}

void rails_send_value(unsigned i, uint8_t value)
{
	memset(rails.pair.a.bytes + i * MESSAGE, value, MESSAGE);
	assert_ok(slime_send(rails.pair.a.ep, rails.pair.a.mr, i * MESSAGE, MESSAGE, 1,
			     rails.sends[i]));
}

void rails_assert_got(unsigned i, uint8_t value)
{
	assert_ok(rdma_wait(&rails.pair, rails.recvs[i]));
	assert_int_equal(slime_op_bytes(rails.recvs[i]), MESSAGE);
	assert_int_equal(rails.pair.b.bytes[i * MESSAGE], value);
}
