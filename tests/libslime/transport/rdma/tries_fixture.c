/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/libslime/transport/rdma/tries_fixture.h"

#include <errno.h>
#include <stdatomic.h>
#include <time.h>

#include "base/clock.h"
#include "src/progress/context.h"

#define STEP_NS SL_NS_PER_MS

/* ---- time ---- */

static _Atomic uint64_t ahead_ns; /* of the real time, unless it stands still */
static _Atomic uint64_t held_ns;  /* what it is then; 0: it does not */

int __real_clock_gettime(clockid_t id, struct timespec *ts);
int __wrap_clock_gettime(clockid_t id, struct timespec *ts);

static uint64_t real_ns(void)
{
	struct timespec ts;

	__real_clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * SL_NS_PER_S + (uint64_t)ts.tv_nsec;
}

int __wrap_clock_gettime(clockid_t id, struct timespec *ts)
{
	uint64_t now = held_ns;

	if (id != CLOCK_MONOTONIC && id != CLOCK_MONOTONIC_COARSE)
		return __real_clock_gettime(id, ts);
	if (!now)
		now = real_ns() + ahead_ns;
	ts->tv_sec = (time_t)(now / SL_NS_PER_S);
	ts->tv_nsec = (long)(now % SL_NS_PER_S);
	return 0;
}

static void hold_time(void)
{
	held_ns = sl_clock_ns();
	fakeverbs_hold_time(true);
}

void tries_release_time(void)
{
	ahead_ns = held_ns - real_ns();
	held_ns = 0;
	fakeverbs_hold_time(false);
}

void tries_tick(void)
{
	held_ns += STEP_NS;
}

void tries_pass(void)
{
	held_ns += STEP_NS;
	fakeverbs_advance(STEP_NS);
}

void tries_do_all(struct rdma_pair *p)
{
	bool working;

	do {
		working = rdma_is_working(p);
		working |= slime_context_poll(p->a.ctx) + slime_context_poll(p->b.ctx) > 0;
	} while (working);
}

void tries_step(struct rdma_pair *p)
{
	tries_pass();
	tries_do_all(p);
}

/* ---- ends ---- */

static void offer(const struct rdma_end *e)
{
	uint8_t desc[SLIME_ENDPOINT_DESC_MAX];

	assert_true(slime_endpoint_export(e->ep, desc, sizeof(desc)) > 0);
}

void tries_begin(struct rdma_pair *p, const char *devices)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;

	fakeverbs_reset();
	for (unsigned i = 2; i < FAKEVERBS_DEVICES; i++)
		(void)fakeverbs_device(i);
	attr.rdma_devices = devices;
	attr.tcp_user_timeout_ms = 3600 * 1000;
	attr.rdma_timeout = 10; /* 4 ms */
	attr.rdma_retry_count = 2;
	assert_ok(rdma_pair_create(p, &attr, LEN));
	assert_ok(rdma_pair_create_endpoints(p));
	offer(&p->a);
	offer(&p->b);
	hold_time();
}

void tries_end(struct rdma_pair *p)
{
	tries_release_time();
	rdma_pair_close(p);
	assert_int_equal(fakeverbs_check(), 0);
}

void tries_connect(struct rdma_end *from, const struct rdma_end *to)
{
	assert_ok(rdma_pair_begin_to_connect(from, to));
}

struct rdma_transport *tries_transport_of(const struct rdma_end *e)
{
	return rdma_of(e->ctx->transports[SLIME_TRANSPORT_RDMA]);
}

bool tries_has_links(const struct rdma_end *e)
{
	return !sl_list_empty(&tries_transport_of(e)->conns);
}

const struct rdma_conn *tries_conn_of(const struct rdma_end *e)
{
	assert_true(tries_has_links(e));
	return SL_CONTAINER_OF(tries_transport_of(e)->conns.next, struct rdma_conn, link);
}

void tries_await(struct rdma_pair *p, const struct rdma_end *e, enum rdma_conn_state state)
{
	while (!tries_has_links(e) || rdma_state(tries_conn_of(e)) != state)
		rdma_poll(p);
}

void tries_begin_to_bring_up(struct rdma_pair *p)
{
	rdma_busy_begin(&p->a);
	while (rdma_state(tries_conn_of(&p->a)) != RDMA_CONN_BRINGING_UP) {
		tries_tick();
		(void)slime_context_poll(p->a.ctx);
	}
}

/* ---- devices ---- */

uint32_t tries_only_qp(unsigned device)
{
	uint32_t number;

	assert_int_equal(fakeverbs_qps(device, &number, 1), 1);
	return number;
}

static int (*post_send)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);

static int refuse_once(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	qp->context->ops.post_send = post_send;
	*bad = wr;
	return EIO;
}

void tries_refuse_post(struct ibv_context *device)
{
	post_send = device->ops.post_send;
	device->ops.post_send = refuse_once;
}

bool tries_has_refused(const struct ibv_context *device)
{
	return device->ops.post_send == post_send;
}
