/* SPDX-License-Identifier: Apache-2.0 */
/* A link whose ends begin at different times: each tries until the other is there. Time is the
 * test's, so that the rounds of both ends stand to each other as it says. */
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "src/context.h"
#include "src/transport/rdma/rdma.h"
#include "tests/libslime/rdma_pair.h"

#define STEP_NS	  SL_NS_PER_MS
#define LATEST_MS 60  /* begins the one end after the other */
#define MEET_MS	  300 /* of tries that last 12 */
#define LEN	  4096

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

static void release_time(void)
{
	ahead_ns = held_ns - real_ns();
	held_ns = 0;
	fakeverbs_hold_time(false);
}

/* What there is to do now is done, by workers as well. */
static void do_all(struct rdma_pair *p)
{
	bool working;

	do {
		working = rdma_is_working(p);
		working |= slime_context_poll(p->a.ctx) + slime_context_poll(p->b.ctx) > 0;
	} while (working);
}

/* A moment further. */
static void step(struct rdma_pair *p)
{
	held_ns += STEP_NS;
	fakeverbs_advance(STEP_NS);
	do_all(p);
}

/* ---- links ---- */

static void create_endpoint(struct rdma_end *e)
{
	struct slime_endpoint_attr attr = SLIME_ENDPOINT_ATTR_INIT;

	attr.transports[0] = SLIME_TRANSPORT_RDMA;
	assert_ok(slime_endpoint_create(e->ctx, &attr, &e->ep));
}

static void connect_to(struct rdma_end *from, const struct rdma_end *to)
{
	uint8_t desc[SLIME_ENDPOINT_DESC_MAX];
	int len = slime_endpoint_export(to->ep, desc, sizeof(desc));

	assert_true(len > 0);
	assert_ok(slime_endpoint_connect(from->ep, desc, (size_t)len, 60000, from->op));
}

/* How long after the second began; at most MEET_MS. */
static unsigned time_to_meet(unsigned apart_ms)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;
	struct rdma_pair p;
	unsigned ms = 0;

	attr.rdma_timeout = 10; /* 4 ms */
	attr.rdma_retry_count = 2;
	assert_ok(rdma_pair_create(&p, &attr, LEN));
	create_endpoint(&p.a);
	create_endpoint(&p.b);
	hold_time();
	connect_to(&p.a, &p.b);
	for (unsigned i = 0; i < apart_ms; i++)
		step(&p);
	connect_to(&p.b, &p.a);
	while (ms < MEET_MS && !(slime_op_test(p.a.op) && slime_op_test(p.b.op))) {
		step(&p);
		ms++;
	}
	release_time();
	rdma_pair_close(&p);
	return ms;
}

static void connect__meets_a_peer_that_begins_at_any_time(void **state)
{
	(void)state;
	for (unsigned apart_ms = 0; apart_ms <= LATEST_MS; apart_ms += 5) {
		unsigned ms;

		fakeverbs_reset();
		ms = time_to_meet(apart_ms);
		if (ms == MEET_MS)
			fail_msg("%u ms apart they do not meet", apart_ms);
		assert_int_equal(fakeverbs_check(), 0);
	}
}

static void connect__that_meets_nobody_says_what_the_last_try_failed_with(void **state)
{
	uint8_t desc[SLIME_ENDPOINT_DESC_MAX];
	struct slime_endpoint_info info;
	struct rdma_pair p;
	int len;

	(void)state;
	fakeverbs_reset();
	assert_ok(rdma_pair_create(&p, NULL, LEN));
	create_endpoint(&p.a);
	create_endpoint(&p.b);
	hold_time();
	len = slime_endpoint_export(p.b.ep, desc, sizeof(desc));
	assert_true(len > 0);
	assert_ok(slime_endpoint_connect(p.a.ep, desc, (size_t)len, 5000, p.a.op));
	while (!slime_op_test(p.a.op))
		step(&p);
	slime_endpoint_info(p.a.ep, &info);
	rdma_assert_says(&info, "the peer did not come up in time; the last try: fake0: transport "
				"retry counter exceeded");
	release_time();
	rdma_pair_close(&p);
	assert_int_equal(fakeverbs_check(), 0);
}

static void connect__that_meets_nobody_over_four_rails_says_why_of_each(void **state)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;
	uint8_t desc[SLIME_ENDPOINT_DESC_MAX];
	struct slime_endpoint_info info;
	struct rdma_pair p;
	int len;

	(void)state;
	fakeverbs_reset();
	for (unsigned i = 2; i < FAKEVERBS_DEVICES; i++)
		(void)fakeverbs_device(i);
	attr.rdma_devices = "fake0,fake1,fake2,fake3;fake4,fake5,fake0,fake1";
	attr.rdma_timeout = 10; /* 4 ms */
	attr.rdma_retry_count = 2;
	assert_ok(rdma_pair_create(&p, &attr, LEN));
	create_endpoint(&p.a);
	create_endpoint(&p.b);
	hold_time();
	len = slime_endpoint_export(p.b.ep, desc, sizeof(desc));
	assert_true(len > 0);
	assert_ok(slime_endpoint_connect(p.a.ep, desc, (size_t)len, 1000, p.a.op));
	while (!slime_op_test(p.a.op))
		step(&p);
	slime_endpoint_info(p.a.ep, &info);
	for (unsigned i = 0; i < 4; i++) {
		char why[160];

		snprintf(why, sizeof(why),
			 "; rail %u: fake%u: transport retry counter exceeded (vendor 0x8c): the "
			 "peer does not answer: gone, unreachable, or packets are lost",
			 i, i);
		rdma_assert_says(&info, why);
	}
	release_time();
	rdma_pair_close(&p);
	assert_int_equal(fakeverbs_check(), 0);
}

static bool has_links(const struct rdma_end *e)
{
	return !sl_list_empty(&rdma_of(e->ctx->transports[SLIME_TRANSPORT_RDMA])->conns);
}

/* Of two rails the first cannot be brought up a second time: what was posted on the other, in the
 * try before, is known to be flushed. */
static void close__after_a_try_that_could_not_begin_takes_no_time(void **state)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;
	struct rdma_pair p;
	uint64_t n;

	(void)state;
	fakeverbs_reset();
	(void)fakeverbs_device(2);
	(void)fakeverbs_device(3);
	attr.rdma_devices = "fake0,fake1;fake2,fake3";
	attr.rdma_timeout = 10; /* 4 ms */
	attr.rdma_retry_count = 2;
	assert_ok(rdma_pair_create(&p, &attr, LEN));
	create_endpoint(&p.a);
	create_endpoint(&p.b);
	hold_time();
	connect_to(&p.a, &p.b);
	do_all(&p);
	n = fakeverbs_counts().calls[FAKEVERBS_MODIFY_QP];
	fakeverbs_fail_call_of(FAKEVERBS_MODIFY_QP, 3, ETIMEDOUT); /* to RTR */
	while (fakeverbs_counts().calls[FAKEVERBS_MODIFY_QP] < n + 3)
		step(&p);
	assert_true(fakeverbs_failed());
	assert_true(has_links(&p.a));
	slime_endpoint_close(p.a.ep);
	do_all(&p);
	assert_false(has_links(&p.a));
	release_time();
	rdma_pair_close(&p);
	assert_int_equal(fakeverbs_check(), 0);
}

/* ---- a peer that is up first ---- */

static struct rdma_transport *transport_of(const struct rdma_end *e)
{
	return rdma_of(e->ctx->transports[SLIME_TRANSPORT_RDMA]);
}

static const struct rdma_conn *conn_of(const struct rdma_end *e)
{
	assert_true(has_links(e));
	return SL_CONTAINER_OF(transport_of(e)->conns.next, struct rdma_conn, link);
}

static void poll_until_is(struct rdma_pair *p, const struct rdma_end *e, enum rdma_conn_state state)
{
	while (!has_links(e) || rdma_state(conn_of(e)) != state)
		rdma_poll(p);
}

static int (*poll_cq)(struct ibv_cq *cq, int n, struct ibv_wc *wc);
static struct ibv_context *loses_acks;

/* What a sent there arrived, and a is not told so. */
static int poll_without_acks(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	int got = poll_cq(cq, n, wc);

	for (int i = 0; i < got; i++) {
		if (cq->context == loses_acks && wc[i].status == IBV_WC_SUCCESS &&
		    wc[i].opcode == IBV_WC_SEND)
			wc[i].status = IBV_WC_RETRY_EXC_ERR;
	}
	return got;
}

static uint32_t first_qp(unsigned device)
{
	uint32_t number;

	assert_int_equal(fakeverbs_qps(device, &number, 1), 1);
	return number;
}

/* From here on there are devices, and queue pairs. */
static void offer(const struct rdma_end *e)
{
	uint8_t desc[SLIME_ENDPOINT_DESC_MAX];

	assert_true(slime_endpoint_export(e->ep, desc, sizeof(desc)) > 0);
}

/* Of three rails the first passes nothing from b to a. It has brought a's READY, which a cannot
 * know: a rests. b is about to greet over the second: to let that go is the test's. */
static void begin_with_lost_acks(struct rdma_pair *p)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;

	fakeverbs_reset();
	for (unsigned i = 2; i < 6; i++)
		(void)fakeverbs_device(i);
	attr.rdma_devices = "fake0,fake1,fake4;fake2,fake3,fake5";
	attr.rdma_timeout = 10; /* 4 ms */
	attr.rdma_retry_count = 2;
	assert_ok(rdma_pair_create(p, &attr, LEN));
	create_endpoint(&p->a);
	create_endpoint(&p->b);
	offer(&p->a);
	offer(&p->b);
	loses_acks = transport_of(&p->a)->nics[0]->device.ibv;
	poll_cq = loses_acks->ops.poll_cq;
	loses_acks->ops.poll_cq = poll_without_acks;
	fakeverbs_raise(2, IBV_EVENT_PORT_ERR, 1); /* b prefers the second */
	do_all(p);
	hold_time();
	fakeverbs_hold_qp(3, first_qp(3), true);
	connect_to(&p->b, &p->a);
	poll_until_is(p, &p->b, RDMA_CONN_GREETING);
	connect_to(&p->a, &p->b);
	poll_until_is(p, &p->a, RDMA_CONN_RESTING);
}

/* And see what a makes of it, in the time that there is. */
static void let_peer_up(struct rdma_pair *p)
{
	fakeverbs_hold_qp(3, first_qp(3), false);
	while (!slime_op_test(p->a.op) || !slime_op_test(p->b.op))
		rdma_poll(p);
}

static void end_with_lost_acks(struct rdma_pair *p)
{
	loses_acks->ops.poll_cq = poll_cq;
	release_time();
	assert_ok(rdma_write_now(p, LEN, 1));
	rdma_exchange_a_message(p);
	rdma_pair_close(p);
	assert_int_equal(fakeverbs_check(), 0);
}

/* It says at once that it does not use the first. */
static void connect__that_rests_hears_a_peer_that_is_up(void **state)
{
	struct rdma_pair p;

	(void)state;
	begin_with_lost_acks(&p);
	let_peer_up(&p);
	assert_ok(slime_op_status(p.b.op));
	assert_ok(slime_op_status(p.a.op));
	end_with_lost_acks(&p);
}

/* Which lasts until its workers are not busy any more. */
static void begin_to_bring_up(struct rdma_pair *p)
{
	rdma_busy_begin(&p->a);
	while (rdma_state(conn_of(&p->a)) != RDMA_CONN_BRINGING_UP) {
		held_ns += STEP_NS;
		(void)slime_context_poll(p->a.ctx);
	}
}

/* Where no path is, its device looks for one for seconds. */
static void connect__that_brings_a_rail_up_hears_a_peer_that_is_up(void **state)
{
	struct rdma_pair p;

	(void)state;
	begin_with_lost_acks(&p);
	begin_to_bring_up(&p);
	let_peer_up(&p);
	assert_ok(slime_op_status(p.b.op));
	assert_ok(slime_op_status(p.a.op));
	assert_int_equal(rdma_state(conn_of(&p.a)), RDMA_CONN_UP);
	rdma_busy_end();
	do_all(&p);
	end_with_lost_acks(&p);
}

static int (*post_send)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);

static int refuse_once(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	qp->context->ops.post_send = post_send;
	*bad = wr;
	return EIO;
}

/* It greets at once, which cannot be posted: the next greeting waits for the worker. */
static void connect__that_cannot_greet_while_it_brings_a_rail_up_greets_later(void **state)
{
	struct ibv_context *second;
	struct rdma_pair p;

	(void)state;
	begin_with_lost_acks(&p);
	begin_to_bring_up(&p);
	second = transport_of(&p.a)->nics[1]->device.ibv;
	post_send = second->ops.post_send;
	second->ops.post_send = refuse_once;
	fakeverbs_hold_qp(3, first_qp(3), false);
	while (conn_of(&p.a)->n_early == 0)
		rdma_poll(&p);
	assert_ptr_equal(second->ops.post_send, post_send);
	for (unsigned i = 0; i < 100; i++) {
		held_ns += STEP_NS;
		rdma_poll(&p);
	}
	assert_int_equal(rdma_state(conn_of(&p.a)), RDMA_CONN_BRINGING_UP);
	rdma_busy_end();
	while (!slime_op_test(p.a.op))
		step(&p);
	assert_ok(slime_op_status(p.a.op));
	assert_ok(slime_op_status(p.b.op));
	end_with_lost_acks(&p);
}

static uint64_t n_steps(void)
{
	return fakeverbs_counts().calls[FAKEVERBS_MODIFY_QP];
}

/* The link is up meanwhile, and the queue pair of the third is taken down: the worker leaves it as
 * it is. */
static void rail__that_ends_while_another_is_brought_up_is_not_brought_up_with_it(void **state)
{
	const struct rdma_path *first, *third;
	struct rdma_pair p;
	uint64_t before;

	(void)state;
	begin_with_lost_acks(&p);
	begin_to_bring_up(&p);
	let_peer_up(&p);
	first = &conn_of(&p.a)->paths[0];
	third = &conn_of(&p.a)->paths[2];
	while (conn_of(&p.b)->paths[0].state != RDMA_PATH_STOPPED)
		rdma_poll(&p);
	before = n_steps();
	fakeverbs_raise(4, IBV_EVENT_PORT_ERR, 1);
	while (third->state == RDMA_PATH_UP) {
		held_ns += STEP_NS;
		rdma_poll(&p);
	}
	rdma_busy_end();
	while (first->state != RDMA_PATH_DOWN || third->state != RDMA_PATH_DOWN)
		rdma_poll(&p);
	/* RESET, INIT, RTR, RTS and ERR of the first; ERR of the third, and there. */
	assert_int_equal(n_steps() - before, 5 + 2);
	end_with_lost_acks(&p);
}

static bool second_stands(const struct rdma_end *e)
{
	enum rdma_path_state state = conn_of(e)->paths[1].state;

	return state == RDMA_PATH_STANDING || state == RDMA_PATH_GREETING;
}

/* Its receives are flushed. */
static void break_second_rail(const struct rdma_end *e)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	assert_int_equal(ibv_modify_qp(conn_of(e)->paths[1].qps[0]->ibv, &attr, IBV_QP_STATE), 0);
	(void)slime_context_poll(e->ctx);
}

/* As soon as b's READY would be heard there. */
static void step_until_both_are_up(struct rdma_pair *p)
{
	while (!second_stands(&p->a))
		step(p);
	fakeverbs_hold_qp(3, first_qp(3), false);
	while (!slime_op_test(p->a.op) || !slime_op_test(p->b.op))
		step(p);
	assert_ok(slime_op_status(p->b.op));
	assert_ok(slime_op_status(p->a.op));
}

static void assert_says_its_own(const struct rdma_end *e)
{
	struct slime_rail_info info[RDMA_RAILS_MAX];

	assert_true(slime_endpoint_rails(e->ep, info, RDMA_RAILS_MAX) > 0);
	assert_non_null(strstr(info[0].error, "fake0"));
}

static void rail__that_breaks_while_the_link_rests_is_brought_up_again(void **state)
{
	struct rdma_pair p;

	(void)state;
	begin_with_lost_acks(&p);
	assert_true(second_stands(&p.a));
	break_second_rail(&p.a);
	fakeverbs_raise(0, IBV_EVENT_PORT_ERR, 1); /* a prefers it, too */
	assert_false(second_stands(&p.a));
	step_until_both_are_up(&p);
	assert_says_its_own(&p.a);
	end_with_lost_acks(&p);
}

static void rail__that_breaks_while_another_is_brought_up_is_so_again(void **state)
{
	struct rdma_pair p;

	(void)state;
	begin_with_lost_acks(&p);
	begin_to_bring_up(&p);
	assert_true(second_stands(&p.a));
	break_second_rail(&p.a);
	assert_false(second_stands(&p.a));
	rdma_busy_end();
	step_until_both_are_up(&p);
	end_with_lost_acks(&p);
}

/* And so is a link that is closed before the worker is done. */
static void close__while_a_rail_is_brought_up_waits_for_that(void **state)
{
	struct rdma_pair p;

	(void)state;
	begin_with_lost_acks(&p);
	begin_to_bring_up(&p);
	let_peer_up(&p);
	slime_endpoint_close(p.a.ep);
	while (has_links(&p.b))
		rdma_poll(&p);
	assert_true(has_links(&p.a));
	rdma_busy_end();
	while (has_links(&p.a))
		step(&p);
	loses_acks->ops.poll_cq = poll_cq;
	release_time();
	rdma_pair_close(&p);
	assert_int_equal(fakeverbs_check(), 0);
}

/* ---- a greeting that arrived, of which its sender is not told ---- */

#define ONE_RAIL  "fake0;fake2"
#define TWO_RAILS "fake0,fake1;fake2,fake3"

/* b is up, and a rests; if there is a second rail, a could not bring that up so far. */
static void begin_with_a_greeting_in_doubt(struct rdma_pair *p, const char *devices)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;

	fakeverbs_reset();
	(void)fakeverbs_device(2);
	(void)fakeverbs_device(3);
	attr.rdma_devices = devices;
	attr.tcp_user_timeout_ms = 3600 * 1000; /* no probes of what is idle */
	attr.rdma_timeout = 10;			/* 4 ms */
	attr.rdma_retry_count = 2;
	assert_ok(rdma_pair_create(p, &attr, LEN));
	create_endpoint(&p->a);
	create_endpoint(&p->b);
	offer(&p->a);
	offer(&p->b);
	hold_time();
	fakeverbs_lose_acks(0, first_qp(0), UINT_MAX);
	connect_to(&p->b, &p->a);
	poll_until_is(p, &p->b, RDMA_CONN_GREETING);
	fakeverbs_fail_call_of(FAKEVERBS_MODIFY_QP, 4 + 3, ETIMEDOUT); /* the second to RTR */
	connect_to(&p->a, &p->b);
	poll_until_is(p, &p->a, RDMA_CONN_GREETING);
	(void)fakeverbs_failed();
	while (rdma_state(conn_of(&p->a)) != RDMA_CONN_RESTING) {
		held_ns += STEP_NS;
		fakeverbs_advance(STEP_NS);
		rdma_poll(p);
	}
	assert_true(slime_op_test(p->b.op));
	assert_ok(slime_op_status(p->b.op));
	fakeverbs_lose_acks(0, first_qp(0), 0);
}

static void assert_comes_up(struct rdma_pair *p)
{
	while (!slime_op_test(p->a.op))
		step(p);
	assert_ok(slime_op_status(p->a.op));
}

static void end_in_doubt(struct rdma_pair *p)
{
	release_time();
	assert_ok(rdma_write_now(p, LEN, 1));
	rdma_exchange_a_message(p);
	rdma_pair_close(p);
	assert_int_equal(fakeverbs_check(), 0);
}

/* The peer's device acknowledges it again, and the peer, which says nothing, does not see it. */
static void connect__greets_again_a_peer_that_is_up_and_silent(void **state)
{
	struct rdma_pair p;
	uint64_t before;

	(void)state;
	begin_with_a_greeting_in_doubt(&p, ONE_RAIL);
	before = fakeverbs_counts().duplicates;
	assert_comes_up(&p);
	assert_int_equal(fakeverbs_counts().duplicates, before + 1);
	end_in_doubt(&p);
}

/* The queue pair still hears b, which does not greet twice. */
static void connect__that_could_not_greet_over_a_rail_still_hears_the_peer_there(void **state)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;
	struct ibv_context *first;
	struct rdma_pair p;

	(void)state;
	fakeverbs_reset();
	(void)fakeverbs_device(2);
	(void)fakeverbs_device(3);
	attr.rdma_devices = TWO_RAILS;
	attr.tcp_user_timeout_ms = 3600 * 1000; /* no probes of what is idle */
	assert_ok(rdma_pair_create(&p, &attr, LEN));
	create_endpoint(&p.a);
	create_endpoint(&p.b);
	offer(&p.a);
	offer(&p.b);
	hold_time();
	fakeverbs_hold_qp(2, first_qp(2), true);
	connect_to(&p.b, &p.a);
	poll_until_is(&p, &p.b, RDMA_CONN_GREETING);
	first = transport_of(&p.a)->nics[0]->device.ibv;
	post_send = first->ops.post_send;
	first->ops.post_send = refuse_once;
	connect_to(&p.a, &p.b);
	poll_until_is(&p, &p.a, RDMA_CONN_RESTING);
	begin_to_bring_up(&p);
	fakeverbs_hold_qp(2, first_qp(2), false);
	(void)slime_context_poll(p.a.ctx);
	rdma_busy_end();
	assert_comes_up(&p);
	while (!slime_op_test(p.b.op))
		step(&p);
	assert_ok(slime_op_status(p.b.op));
	end_in_doubt(&p);
}

/* From here on a's worker waits with what it brings up: it can receive, and is not handed back. */
static struct ibv_context *_Atomic waits;
static _Atomic bool is_waiting;
static _Atomic int refusal;

int __real_ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
int __wrap_ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);

int __wrap_ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	bool is_meant = attr->qp_state == IBV_QPS_RTS && qp->context == atomic_load(&waits);

	while (attr->qp_state == IBV_QPS_RTS && qp->context == atomic_load(&waits)) {
		atomic_store(&is_waiting, true);
		sched_yield();
	}
	if (is_meant && atomic_load(&refusal))
		return atomic_exchange(&refusal, 0);
	return __real_ibv_modify_qp(qp, attr, mask);
}

static void begin_to_raise(struct rdma_pair *p)
{
	atomic_store(&is_waiting, false);
	atomic_store(&waits, transport_of(&p->a)->nics[0]->device.ibv);
	while (rdma_state(conn_of(&p->a)) == RDMA_CONN_RESTING) {
		held_ns += STEP_NS;
		fakeverbs_advance(STEP_NS);
		rdma_poll(p);
	}
	while (!atomic_load(&is_waiting))
		rdma_poll(p);
}

/* A write, for which b asks for a key first, and a message. */
static void begin_two_from_b(struct rdma_pair *p, struct slime_op *ops[2])
{
	static struct slime_xfer x;

	for (unsigned i = 0; i < 2; i++)
		assert_ok(slime_op_create(p->b.ctx, NULL, &ops[i]));
	rdma_fill(p->b.bytes, LEN, 3);
	memset(p->a.bytes, 0, LEN);
	x = (struct slime_xfer){ .local = p->b.mr, .remote = &p->a.remote, .len = LEN / 2 };
	assert_ok(slime_write(p->b.ep, &x, 1, 0, ops[0]));
	assert_ok(slime_send(p->b.ep, p->b.mr, LEN / 2, 64, 1, ops[1]));
	for (unsigned i = 0; i < 100; i++)
		rdma_poll(p);
	assert_int_equal(rdma_state(conn_of(&p->a)), RDMA_CONN_BRINGING_UP);
	assert_int_equal(conn_of(&p->a)->n_early, 2);
}

static void assert_a_gets_two(struct rdma_pair *p, struct slime_op *ops[2])
{
	assert_ok(slime_recv(p->a.ep, p->a.mr, LEN / 2, 64, 1, SLIME_TAG_ALL, p->a.op));
	while (!slime_op_test(p->a.op) || !slime_op_test(ops[0]) || !slime_op_test(ops[1]))
		step(p);
	assert_ok(slime_op_status(p->a.op));
	for (unsigned i = 0; i < 2; i++) {
		assert_ok(slime_op_status(ops[i]));
		assert_ok(slime_op_destroy(ops[i]));
	}
	assert_memory_equal(p->a.bytes, p->b.bytes, LEN / 2 + 64);
}

static void connect__keeps_what_is_said_over_the_rail_that_is_brought_up(void **state)
{
	struct slime_op *ops[2];
	struct rdma_pair p;

	(void)state;
	begin_with_a_greeting_in_doubt(&p, ONE_RAIL);
	begin_to_raise(&p);
	begin_two_from_b(&p, ops);
	atomic_store(&waits, NULL);
	assert_comes_up(&p);
	assert_int_equal(conn_of(&p.a)->n_early, 0);
	assert_a_gets_two(&p, ops);
	end_in_doubt(&p);
}

/* Nothing of it is lost, nor comes twice. */
static void connect__whose_rail_was_spoken_over_and_is_not_brought_up_takes_another(void **state)
{
	struct slime_op *ops[2];
	struct rdma_pair p;

	(void)state;
	begin_with_a_greeting_in_doubt(&p, TWO_RAILS);
	begin_to_raise(&p);
	begin_two_from_b(&p, ops);
	atomic_store(&refusal, EIO);
	atomic_store(&waits, NULL);
	assert_comes_up(&p);
	assert_ptr_equal(conn_of(&p.a)->lead->path, &conn_of(&p.a)->paths[1]);
	assert_a_gets_two(&p, ops);
	while (conn_of(&p.a)->paths[0].n_failed == 0 || !conn_of(&p.a)->paths[0].usable)
		step(&p);
	end_in_doubt(&p);
}

/* What was said is acknowledged, and would be lost. */
static void connect__whose_rail_was_spoken_over_and_is_not_brought_up_ends(void **state)
{
	struct slime_op *ops[2];
	struct rdma_pair p;

	(void)state;
	begin_with_a_greeting_in_doubt(&p, ONE_RAIL);
	begin_to_raise(&p);
	begin_two_from_b(&p, ops);
	atomic_store(&refusal, EIO);
	atomic_store(&waits, NULL);
	while (!slime_op_test(p.a.op))
		step(&p);
	assert_int_equal(slime_op_status(p.a.op), -ECONNRESET);
	release_time();
	slime_endpoint_close(p.b.ep);
	for (unsigned i = 0; i < 2; i++) {
		(void)rdma_wait(&p, ops[i]);
		assert_ok(slime_op_destroy(ops[i]));
	}
	rdma_pair_close(&p);
	assert_int_equal(fakeverbs_check(), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(connect__meets_a_peer_that_begins_at_any_time),
		cmocka_unit_test(connect__that_meets_nobody_says_what_the_last_try_failed_with),
		cmocka_unit_test(connect__that_meets_nobody_over_four_rails_says_why_of_each),
		cmocka_unit_test(close__after_a_try_that_could_not_begin_takes_no_time),
		cmocka_unit_test(connect__that_rests_hears_a_peer_that_is_up),
		cmocka_unit_test(connect__that_brings_a_rail_up_hears_a_peer_that_is_up),
		cmocka_unit_test(connect__that_cannot_greet_while_it_brings_a_rail_up_greets_later),
		cmocka_unit_test(
			rail__that_ends_while_another_is_brought_up_is_not_brought_up_with_it),
		cmocka_unit_test(rail__that_breaks_while_the_link_rests_is_brought_up_again),
		cmocka_unit_test(rail__that_breaks_while_another_is_brought_up_is_so_again),
		cmocka_unit_test(close__while_a_rail_is_brought_up_waits_for_that),
		cmocka_unit_test(connect__greets_again_a_peer_that_is_up_and_silent),
		cmocka_unit_test(
			connect__that_could_not_greet_over_a_rail_still_hears_the_peer_there),
		cmocka_unit_test(connect__keeps_what_is_said_over_the_rail_that_is_brought_up),
		cmocka_unit_test(
			connect__whose_rail_was_spoken_over_and_is_not_brought_up_takes_another),
		cmocka_unit_test(connect__whose_rail_was_spoken_over_and_is_not_brought_up_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
