/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/libslime/rpc/pair.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/core/desc.h"
#include "support/echo.h"

/* ---- methods ---- */

static void length(void *arg, struct slime_rpc_request *req)
{
	uint64_t len;
	uint8_t *to;

	(void)arg;
	memcpy(&len, slime_rpc_request_data(req), sizeof(len));
	to = slime_rpc_reply_buffer(req, len);
	if (!to) {
		/* Longer than the caller wants: the library says so. */
		slime_rpc_reply(req, "", len);
		return;
	}
	pattern_fill(to, len, 1);
	slime_rpc_reply_commit(req, len);
}

static void refuse_page(void *arg, struct slime_rpc_request *req)
{
	(void)arg;
	slime_rpc_reply_error(req, 42, "no such page");
}

static void count(void *arg, struct slime_rpc_request *req)
{
	struct side *s = arg;

	atomic_fetch_add(&s->n_handled, 1);
	slime_rpc_reply(req, NULL, 0);
}

static void defer(void *arg, struct slime_rpc_request *req)
{
	struct side *s = arg;
	struct shelf *f = &s->shelf;

	pthread_mutex_lock(&f->lock);
	assert_in_range(f->n, 0, sizeof(f->requests) / sizeof(f->requests[0]) - 1);
	f->requests[f->n++] = req;
	pthread_cond_broadcast(&f->changed);
	pthread_mutex_unlock(&f->lock);
}

static void wait_at_gate(struct gate *g)
{
	pthread_mutex_lock(&g->lock);
	g->n_inside++;
	pthread_cond_broadcast(&g->changed);
	while (!g->open)
		pthread_cond_wait(&g->changed, &g->lock);
	g->n_inside--;
	pthread_mutex_unlock(&g->lock);
}

static void pass_gate(void *arg, struct slime_rpc_request *req)
{
	struct side *s = arg;

	wait_at_gate(&s->gate);
	if (slime_rpc_request_cancelled(req))
		atomic_fetch_add(&s->n_cancelled, 1);
	slime_rpc_reply(req, slime_rpc_request_data(req), slime_rpc_request_len(req));
}

static void outlast(void *arg, struct slime_rpc_request *req)
{
	struct side *s = arg;

	slime_rpc_reply(req, NULL, 0);
	wait_at_gate(&s->gate);
	atomic_store(&s->outcome, slime_rpc_reply(shelf_take(&s->shelf), NULL, 0));
}

static void destroy_endpoint(void *arg, struct slime_rpc_request *req)
{
	struct side *s = arg;

	atomic_store(&s->outcome, slime_endpoint_destroy(s->ep));
	slime_rpc_reply(req, NULL, 0);
}

/* Calls its caller before it answers. */
static void call_back(void *arg, struct slime_rpc_request *req)
{
	struct side *s = arg;
	size_t len = slime_rpc_request_len(req);
	struct slime_call *call;
	uint8_t *reply = malloc(len + 1);

	if (slime_call_create(s->ctx, NULL, &call) ||
	    call_now(s->ep, call, "echo_inline", slime_rpc_request_data(req), len, reply, len))
		slime_rpc_reply_error(req, 3, "calling back failed");
	else
		slime_rpc_reply(req, reply, len);
	slime_call_destroy(call);
	free(reply);
}

static void slice(void *arg, struct slime_rpc_request *req)
{
	const uint8_t *data = slime_rpc_request_data(req);
	struct slice s;
	uint8_t *to = NULL;

	(void)arg;
	memcpy(&s, data, sizeof(s));
	if (s.how == SLICE_COMMIT || s.how == SLICE_OWN)
		to = slime_rpc_reply_buffer(req, s.room);
	if (to)
		memcpy(to, data + s.at, s.len);
	if (s.how == SLICE_ERROR)
		slime_rpc_reply_error(req, s.len, (const char *)data + s.at);
	else if (to && s.how == SLICE_COMMIT)
		slime_rpc_reply_commit(req, s.len);
	else
		slime_rpc_reply(req, to ? to : data + s.at, s.len);
}

static const struct {
	const char *name;
	slime_rpc_fn *fn;
	uint32_t flags;
	uint64_t max_message;
} methods[] = {
	{ "echo", test_echo, 0, 0 },
	{ "echo_inline", test_echo, SLIME_RPC_INLINE, 0 },
	{ "echo_in_place", test_echo_in_place, SLIME_RPC_INLINE | SLIME_RPC_IN_PLACE, 0 },
	{ "call_back", call_back, 0, 0 },
	{ "length", length, SLIME_RPC_INLINE, 0 },
	{ "fail", refuse_page, SLIME_RPC_INLINE, 0 },
	{ "limited", test_echo, SLIME_RPC_INLINE, 2048 },
	{ "count", count, SLIME_RPC_INLINE, 0 },
	{ "gate", pass_gate, 0, 0 },
	{ "defer", defer, SLIME_RPC_INLINE, 0 },
	{ "defer_pool", defer, 0, 0 },
	{ "outlast", outlast, 0, 0 },
	{ "destroy", destroy_endpoint, 0, 0 },
	{ "slice", slice, 0, 0 },
	{ "slice_inline", slice, SLIME_RPC_INLINE, 0 },
	{ "slice_in_place", slice, SLIME_RPC_INLINE | SLIME_RPC_IN_PLACE, 0 },
};

static void add_methods(struct side *s)
{
	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
		struct slime_rpc_method_attr attr = SLIME_RPC_METHOD_ATTR_INIT;

		attr.fn = methods[i].fn;
		attr.arg = s;
		attr.flags = methods[i].flags;
		if (methods[i].max_message)
			attr.max_message = methods[i].max_message;
		assert_int_equal(slime_rpc_method_add(s->service, methods[i].name, &attr), 0);
	}
}

/* ---- the pair ---- */

static void side_open(struct side *s, enum slime_transport transport,
		      const struct slime_context_attr *ctx_attr)
{
	struct slime_endpoint_attr attr = SLIME_ENDPOINT_ATTR_INIT;

	pthread_mutex_init(&s->shelf.lock, NULL);
	pthread_cond_init(&s->shelf.changed, NULL);
	pthread_mutex_init(&s->gate.lock, NULL);
	pthread_cond_init(&s->gate.changed, NULL);
	assert_int_equal(slime_context_create(ctx_attr, &s->ctx), 0);
	assert_int_equal(slime_rpc_service_create(s->ctx, &s->service), 0);
	add_methods(s);
	attr.transports[0] = transport;
	attr.service = s->service;
	assert_int_equal(slime_endpoint_create(s->ctx, &attr, &s->ep), 0);
	assert_int_equal(slime_op_create(s->ctx, NULL, &s->op), 0);
}

void connect_to(struct slime_endpoint *ep, struct slime_endpoint *peer, struct slime_op *op)
{
	uint8_t desc[SLIME_ENDPOINT_DESC_MAX];
	int len = slime_endpoint_export(peer, desc, sizeof(desc));

	assert_true(len > 0);
	assert_int_equal(slime_endpoint_connect(ep, desc, (size_t)len, PAIR_TIMEOUT_MS, op), 0);
}

struct pair *pair_open(enum slime_transport transport, const struct slime_context_attr *attr)
{
	struct slime_context_attr workers = SLIME_CONTEXT_ATTR_INIT;
	struct pair *p = calloc(1, sizeof(*p));

	assert_non_null(p);
	workers.rpc_workers = 2;
	if (!attr)
		attr = &workers;
	p->transport = transport;
	side_open(&p->a, transport, attr);
	side_open(&p->b, transport, attr);
	connect_to(p->a.ep, p->b.ep, p->a.op);
	connect_to(p->b.ep, p->a.ep, p->b.op);
	/* Neither may have a thread of its own. */
	while (!slime_op_test(p->a.op) || !slime_op_test(p->b.op)) {
		slime_context_poll(p->a.ctx);
		slime_context_poll(p->b.ctx);
	}
	assert_int_equal(slime_op_status(p->a.op), 0);
	assert_int_equal(slime_op_status(p->b.op), 0);
	return p;
}

void pair_drop(struct side *s)
{
	assert_int_equal(slime_endpoint_destroy(s->ep), 0);
	s->ep = NULL;
}

static void side_close(struct side *s)
{
	gate_open(&s->gate);
	pair_drop(s);
	while (s->shelf.n)
		slime_rpc_reply(shelf_take(&s->shelf), NULL, 0);
	assert_int_equal(slime_op_destroy(s->op), 0);
	assert_int_equal(slime_rpc_service_destroy(s->service), 0);
	assert_int_equal(slime_context_destroy(s->ctx), 0);
	pthread_cond_destroy(&s->gate.changed);
	pthread_mutex_destroy(&s->gate.lock);
	pthread_cond_destroy(&s->shelf.changed);
	pthread_mutex_destroy(&s->shelf.lock);
}

static bool is_up(const struct side *s)
{
	struct slime_endpoint_info info;

	if (!s->ep)
		return false;
	slime_endpoint_info(s->ep, &info);
	return info.state == SLIME_ENDPOINT_CONNECTED;
}

/* Both at once: one that has no thread would keep the other one waiting. */
static void close_both(struct pair *p)
{
	if (p->a.ep)
		slime_endpoint_close(p->a.ep);
	if (p->b.ep)
		slime_endpoint_close(p->b.ep);
	while (is_up(&p->a) || is_up(&p->b)) {
		slime_context_poll(p->a.ctx);
		slime_context_poll(p->b.ctx);
	}
}

void pair_close(struct pair *p)
{
	close_both(p);
	side_close(&p->a);
	side_close(&p->b);
	free(p);
}

bool pair_has(enum slime_transport transport)
{
	struct slime_endpoint_attr attr = SLIME_ENDPOINT_ATTR_INIT;
	struct sl_endpoint_desc offers = { 0 };
	uint8_t desc[SLIME_ENDPOINT_DESC_MAX];
	struct slime_context *ctx;
	struct slime_endpoint *ep;
	int len;

	if (slime_context_create(NULL, &ctx))
		return false;
	attr.transports[0] = transport;
	if (slime_endpoint_create(ctx, &attr, &ep) == 0) {
		len = slime_endpoint_export(ep, desc, sizeof(desc));
		if (len < 0 || sl_desc_read_endpoint(&offers, desc, (size_t)len))
			offers.n = 0;
		slime_endpoint_destroy(ep);
	}
	slime_context_destroy(ctx);
	return offers.n > 0;
}

/* ---- groups ---- */

static enum slime_transport group_transport;

enum slime_transport pair_transport(void)
{
	return group_transport;
}

int pair_setup(void **state)
{
	*state = pair_open(group_transport, NULL);
	return 0;
}

int pair_teardown(void **state)
{
	pair_close(*state);
	return 0;
}

int pair_run(const char *group, const struct CMUnitTest *tests, size_t n)
{
	int failed = 0;

	for (int i = SLIME_TRANSPORT_NONE + 1; i < SLIME_TRANSPORT_MAX; i++) {
		char name[64];

		group_transport = (enum slime_transport)i;
		if (!pair_has(group_transport))
			continue;
		snprintf(name, sizeof(name), "%s over %s", group,
			 slime_transport_name(group_transport));
		failed += _cmocka_run_group_tests(name, tests, n, NULL, NULL);
	}
	return failed;
}

/* ---- handlers that wait ---- */

void shelf_wait(struct shelf *f, unsigned n)
{
	pthread_mutex_lock(&f->lock);
	while (f->n < n)
		pthread_cond_wait(&f->changed, &f->lock);
	pthread_mutex_unlock(&f->lock);
}

unsigned shelf_count(struct shelf *f)
{
	unsigned n;

	pthread_mutex_lock(&f->lock);
	n = f->n;
	pthread_mutex_unlock(&f->lock);
	return n;
}

struct slime_rpc_request *shelf_take(struct shelf *f)
{
	struct slime_rpc_request *req;

	shelf_wait(f, 1);
	pthread_mutex_lock(&f->lock);
	req = f->requests[0];
	f->n--;
	memmove(f->requests, f->requests + 1, f->n * sizeof(f->requests[0]));
	pthread_mutex_unlock(&f->lock);
	return req;
}

void gate_wait(struct gate *g, unsigned n_inside)
{
	pthread_mutex_lock(&g->lock);
	while (g->n_inside < n_inside)
		pthread_cond_wait(&g->changed, &g->lock);
	pthread_mutex_unlock(&g->lock);
}

void gate_open(struct gate *g)
{
	pthread_mutex_lock(&g->lock);
	g->open = true;
	pthread_cond_broadcast(&g->changed);
	pthread_mutex_unlock(&g->lock);
}

/* ---- bytes ---- */

static uint8_t pattern_at(size_t i, uint32_t seed)
{
	return (uint8_t)((i + seed) * 2654435761u >> 13);
}

void pattern_fill(uint8_t *p, size_t len, uint32_t seed)
{
	for (size_t i = 0; i < len; i++)
		p[i] = pattern_at(i, seed);
}

bool pattern_ok(const uint8_t *p, size_t len, uint32_t seed)
{
	for (size_t i = 0; i < len; i++) {
		if (p[i] != pattern_at(i, seed))
			return false;
	}
	return true;
}

struct slime_call *make_call(struct slime_context *ctx)
{
	struct slime_call *call;

	assert_int_equal(slime_call_create(ctx, NULL, &call), 0);
	return call;
}

int call_now(struct slime_endpoint *ep, struct slime_call *call, const char *method,
	     const void *request, size_t len, void *reply, size_t cap)
{
	struct slime_call_args args = SLIME_CALL_ARGS_INIT;
	int ret;

	args.method = slime_rpc_method_id(method);
	args.request = request;
	args.request_len = len;
	args.reply = reply;
	args.reply_cap = cap;
	ret = slime_call_start(ep, &args, call);
	if (ret)
		return ret;
	assert_int_equal(slime_call_wait(call, PAIR_TIMEOUT_MS), 0);
	return slime_call_status(call);
}
