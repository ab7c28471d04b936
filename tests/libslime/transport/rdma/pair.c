/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "src/endpoint/endpoint.h"
#include "src/transport/rdma/conn.h"
#include "src/progress/context.h"
#include "src/transport/rdma/devices.h"
#include "src/transport/rdma/job.h"
#include "src/transport/rdma/transport.h"
#include "tests/libslime/transport/rdma/pair.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

/* Longer than anything takes, but what hangs. */
#define PATIENCE_MS 60000
#define SETTLE_MS   2

/* ---- ends ---- */

static int export_mr(struct rdma_end *e)
{
	uint8_t desc[SLIME_MR_DESC_MAX];
	int len = slime_mr_export(e->mr, desc, sizeof(desc));

	return len < 0 ? len : slime_remote_mr_import(desc, (size_t)len, &e->remote);
}

static int create(struct rdma_end *e, const struct slime_context_attr *attr, size_t len)
{
	int ret = slime_context_create(attr, &e->ctx);

	if (!ret)
		ret = slime_op_create(e->ctx, NULL, &e->op);
	if (!ret)
		ret = slime_mem_alloc(e->ctx, len, NULL, &e->mem);
	if (ret)
		return ret;
	e->bytes = slime_mem_addr(e->mem);
	ret = slime_mr_create(e->ctx, e->bytes, len,
			      SLIME_ACCESS_REMOTE_READ | SLIME_ACCESS_REMOTE_WRITE, &e->mr);
	return ret ? ret : export_mr(e);
}

static int create_endpoint(struct rdma_end *e)
{
	struct slime_endpoint_attr attr = SLIME_ENDPOINT_ATTR_INIT;

	attr.transports[0] = SLIME_TRANSPORT_RDMA;
	attr.isolated = e->isolated;
	attr.rdma_qps = e->qps;
	attr.rdma_rails = e->rails;
	attr.rdma_devices = e->devices;
	attr.rdma_peer_devices = e->peer_devices;
	attr.rdma_min_bandwidth = e->min_bandwidth;
	if (e->or_tcp)
		attr.transports[1] = SLIME_TRANSPORT_TCP;
	attr.service = e->service;
	return slime_endpoint_create(e->ctx, &attr, &e->ep);
}

int rdma_pair_create(struct rdma_pair *p, const struct slime_context_attr *attr, size_t len)
{
	struct slime_context_attr plain = SLIME_CONTEXT_ATTR_INIT;
	const char *devices = attr && attr->rdma_devices ? attr->rdma_devices : "fake0;fake1";
	const char *of_b = strchr(devices, ';');
	char of_a[128];
	int ret;

	memset(p, 0, sizeof(*p));
	if (attr)
		plain = *attr;
	plain.manual = true;
	snprintf(of_a, sizeof(of_a), "%.*s", (int)strcspn(devices, ";"), devices);
	plain.rdma_devices = of_a;
	ret = create(&p->a, &plain, len);
	if (ret)
		return ret;
	if (of_b)
		plain.rdma_devices = of_b + 1;
	return create(&p->b, &plain, len);
}

int rdma_pair_create_endpoints(struct rdma_pair *p)
{
	int ret = create_endpoint(&p->a);

	return ret ? ret : create_endpoint(&p->b);
}

int rdma_pair_begin_to_connect(struct rdma_end *from, const struct rdma_end *to)
{
	uint8_t desc[SLIME_ENDPOINT_DESC_MAX];
	int len = slime_endpoint_export(to->ep, desc, sizeof(desc));

	return len < 0 ? len
		       : slime_endpoint_connect(from->ep, desc, (size_t)len, PATIENCE_MS, from->op);
}

bool rdma_is_broken(const struct rdma_end *e)
{
	struct slime_endpoint_info info;

	slime_endpoint_info(e->ep, &info);
	return info.state == SLIME_ENDPOINT_BROKEN;
}

/* Who alone has failed would be waited for until its time is over: as an agent does, end the other.
 */
int rdma_pair_wait_for_both(struct rdma_pair *p)
{
	uint64_t end = sl_deadline_ns(PATIENCE_MS);
	int a, b;

	while (!slime_op_test(p->a.op) || !slime_op_test(p->b.op)) {
		rdma_poll(p);
		if (rdma_is_broken(&p->a))
			slime_endpoint_close(p->b.ep);
		if (rdma_is_broken(&p->b))
			slime_endpoint_close(p->a.ep);
		assert_true(sl_clock_ns() < end);
	}
	a = slime_op_status(p->a.op);
	b = slime_op_status(p->b.op);
	return a ? a : b;
}

int rdma_pair_connect(struct rdma_pair *p)
{
	int ret = rdma_pair_create_endpoints(p);

	if (!ret)
		ret = rdma_pair_begin_to_connect(&p->a, &p->b);
	if (!ret)
		ret = rdma_pair_begin_to_connect(&p->b, &p->a);
	return ret ? ret : rdma_pair_wait_for_both(p);
}

int rdma_pair_open(struct rdma_pair *p, const struct slime_context_attr *attr, size_t len)
{
	int ret = rdma_pair_create(p, attr, len);

	return ret ? ret : rdma_pair_connect(p);
}

static void destroy(struct rdma_pair *p, struct rdma_end *e)
{
	uint64_t end = sl_deadline_ns(PATIENCE_MS);

	if (!e->ctx)
		return;
	while (slime_mr_destroy(e->mr) == -EBUSY) {
		rdma_poll(p);
		assert_true(sl_clock_ns() < end);
	}
	assert_ok(slime_mem_destroy(e->mem));
	assert_ok(slime_op_destroy(e->op));
	assert_ok(slime_context_destroy(e->ctx));
	e->ctx = NULL;
}

struct rdma_conn *rdma_endpoint_conn(struct slime_endpoint *ep)
{
	return rdma_conn_of(atomic_load(&ep->conn));
}

void rdma_pair_destroy_endpoints(struct rdma_pair *p)
{
	/* The one that is closed first waits for the other to see it. */
	if (p->a.ep)
		slime_endpoint_close(p->a.ep);
	if (p->b.ep)
		slime_endpoint_close(p->b.ep);
	rdma_settle(p);
	assert_ok(slime_endpoint_destroy(p->a.ep));
	assert_ok(slime_endpoint_destroy(p->b.ep));
	p->a.ep = p->b.ep = NULL;
}

int rdma_pair_connect_another(struct rdma_pair *p)
{
	assert_true(p->n_former + 2 <= RDMA_FORMER_MAX);
	p->former[p->n_former++] = p->a.ep;
	p->former[p->n_former++] = p->b.ep;
	p->a.ep = p->b.ep = NULL;
	return rdma_pair_connect(p);
}

void rdma_pair_destroy_former(struct rdma_pair *p)
{
	if (!p->n_former)
		return;
	for (unsigned i = 0; i < p->n_former; i++)
		slime_endpoint_close(p->former[i]);
	rdma_settle(p);
	for (unsigned i = 0; i < p->n_former; i++)
		assert_ok(slime_endpoint_destroy(p->former[i]));
	p->n_former = 0;
}

void rdma_pair_close(struct rdma_pair *p)
{
	rdma_pair_destroy_former(p);
	rdma_pair_destroy_endpoints(p);
	destroy(p, &p->a);
	destroy(p, &p->b);
}

int rdma_pair_reset(void **state)
{
	fakeverbs_reset();
	if (*state)
		memset(*state, 0, sizeof(struct rdma_pair));
	return 0;
}

int rdma_pair_end(void **state)
{
	rdma_pair_close(*state);
	return fakeverbs_check() ? -1 : 0;
}

/* ---- progress ---- */

static int poll_end(const struct rdma_end *e)
{
	return e->ctx ? slime_context_poll(e->ctx) : 0;
}

void rdma_poll(struct rdma_pair *p)
{
	if (poll_end(&p->a) + poll_end(&p->b) == 0)
		sched_yield();
}

void rdma_settle(struct rdma_pair *p)
{
	uint64_t idle_since = sl_clock_ns();

	while (sl_clock_ns() - idle_since < SETTLE_MS * SL_NS_PER_MS) {
		if (poll_end(&p->a) + poll_end(&p->b) > 0)
			idle_since = sl_clock_ns();
		else
			sched_yield();
	}
}

int rdma_wait(struct rdma_pair *p, struct slime_op *op)
{
	uint64_t end = sl_deadline_ns(PATIENCE_MS);

	while (!slime_op_test(op)) {
		rdma_poll(p);
		assert_true(sl_clock_ns() < end);
	}
	return slime_op_status(op);
}

static bool is_working(const struct slime_context *ctx)
{
	struct rdma_transport *t = rdma_of(ctx->transports[SLIME_TRANSPORT_RDMA]);
	bool working;

	pthread_mutex_lock(&t->lock);
	working = t->n_jobs;
	pthread_mutex_unlock(&t->lock);
	return working;
}

bool rdma_is_working(const struct rdma_pair *p)
{
	return is_working(p->a.ctx) || is_working(p->b.ctx);
}

/* ---- workers that are busy ---- */

static pthread_mutex_t busy = PTHREAD_MUTEX_INITIALIZER;

static void work(struct rdma_job *job)
{
	(void)job;
	pthread_mutex_lock(&busy);
	pthread_mutex_unlock(&busy);
}

static void done(struct rdma_job *job)
{
	(void)job;
}

void rdma_busy_begin(struct rdma_end *e)
{
	static struct rdma_job jobs[RDMA_WORKERS];

	pthread_mutex_lock(&busy);
	for (unsigned i = 0; i < RDMA_WORKERS; i++)
		rdma_job_start(rdma_of(e->ctx->transports[SLIME_TRANSPORT_RDMA]), &jobs[i], work,
			       done);
}

void rdma_busy_end(void)
{
	pthread_mutex_unlock(&busy);
}

/* ---- bytes ---- */

void rdma_fill(uint8_t *at, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++)
		at[i] = (uint8_t)(seed + i * 7 + (i >> 8));
}

struct slime_xfer rdma_a_and_b(struct rdma_pair *p, uint64_t a_offset, uint64_t b_offset,
			       uint64_t len)
{
	return (struct slime_xfer){ .local = p->a.mr,
				    .remote = &p->b.remote,
				    .local_offset = a_offset,
				    .remote_offset = b_offset,
				    .len = len };
}

/* The op has begun, or ret is why not. */
static int end_now(struct rdma_pair *p, int ret, const uint8_t *from, const uint8_t *to, size_t len)
{
	if (!ret)
		ret = rdma_wait(p, p->a.op);
	if (!ret)
		assert_memory_equal(to, from, len);
	return ret;
}

int rdma_write_now(struct rdma_pair *p, size_t len, uint8_t value)
{
	struct slime_xfer x = rdma_a_and_b(p, 0, 0, len);

	memset(p->a.bytes, value, len);
	memset(p->b.bytes, ~value, len);
	return end_now(p, slime_write(p->a.ep, &x, 1, 0, p->a.op), p->a.bytes, p->b.bytes, len);
}

int rdma_read_now(struct rdma_pair *p, size_t len, uint8_t value)
{
	struct slime_xfer x = rdma_a_and_b(p, 0, 0, len);

	memset(p->b.bytes, value, len);
	memset(p->a.bytes, ~value, len);
	return end_now(p, slime_read(p->a.ep, &x, 1, 0, p->a.op), p->b.bytes, p->a.bytes, len);
}

struct slime_context_attr rdma_quick(void)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;

	attr.rdma_timeout = 10; /* 4 ms */
	attr.rdma_retry_count = 2;
	attr.tcp_user_timeout_ms = 200;
	return attr;
}

void rdma_exchange_a_message(struct rdma_pair *p)
{
	assert_ok(slime_recv(p->b.ep, p->b.mr, 0, 64, 1, SLIME_TAG_ALL, p->b.op));
	assert_ok(slime_send(p->a.ep, p->a.mr, 0, 64, 1, p->a.op));
	assert_ok(rdma_wait(p, p->b.op));
	assert_ok(rdma_wait(p, p->a.op));
}

void rdma_assert_says(const struct slime_endpoint_info *info, const char *what)
{
	if (!strstr(info->cause_text, what))
		fail_msg("'%s' does not say '%s'", info->cause_text, what);
}

void rdma_assert_refused(struct rdma_end *e, int status, const char *why)
{
	struct slime_endpoint_info info;

	assert_int_equal(status, -ECONNREFUSED);
	slime_endpoint_info(e->ep, &info);
	rdma_assert_says(&info, why);
}

void rdma_next_link(struct rdma_pair *p)
{
	rdma_pair_destroy_endpoints(p);
	assert_ok(rdma_pair_connect(p));
}
