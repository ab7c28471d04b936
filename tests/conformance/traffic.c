/* SPDX-License-Identifier: Apache-2.0 */
#include "traffic.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proxy.h"
#include "support/echo.h"
#include "traffic_lane.h"

void wrong(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	_exit(1);
}

bool link_is_over(int status)
{
	return status == -ECANCELED || status == -ECONNRESET || status == -ENOTCONN;
}

/* ---- methods ---- */

static void echo_in_place(void *arg, struct slime_rpc_request *req)
{
	size_t len = slime_rpc_request_len(req);
	void *to = slime_rpc_reply_buffer(req, len);

	(void)arg;
	if (to && len)
		memcpy(to, slime_rpc_request_data(req), len);
	slime_rpc_reply_commit(req, to ? len : 0);
}

static void refuse(void *arg, struct slime_rpc_request *req)
{
	(void)arg;
	slime_rpc_reply_error(req, LANE_ERROR, "as asked");
}

static void defer(void *arg, struct slime_rpc_request *req)
{
	struct traffic *t = arg;

	pthread_mutex_lock(&t->lock);
	if (t->n_deferred == DEFERRED_MAX)
		wrong("more than %d requests of %d lanes are unanswered", DEFERRED_MAX, LANES);
	t->deferred[t->n_deferred++] = req;
	pthread_cond_signal(&t->changed);
	pthread_mutex_unlock(&t->lock);
}

/* Answers what was deferred, the newest first. */
static void *answer(void *arg)
{
	struct traffic *t = arg;

	pthread_mutex_lock(&t->lock);
	for (;;) {
		struct slime_rpc_request *req;

		while (!t->n_deferred && !t->served)
			pthread_cond_wait(&t->changed, &t->lock);
		if (!t->n_deferred)
			break;
		req = t->deferred[--t->n_deferred];
		pthread_mutex_unlock(&t->lock);
		slime_rpc_reply(req, slime_rpc_request_data(req), slime_rpc_request_len(req));
		pthread_mutex_lock(&t->lock);
	}
	pthread_mutex_unlock(&t->lock);
	return NULL;
}

static void add_methods(struct traffic *t)
{
	static const struct {
		const char *name;
		slime_rpc_fn *fn;
		uint32_t flags;
	} methods[] = {
		{ "echo", test_echo, 0 },
		{ "echo_inline", test_echo, SLIME_RPC_INLINE },
		{ "echo_in_place", echo_in_place, SLIME_RPC_INLINE | SLIME_RPC_IN_PLACE },
		{ "defer", defer, SLIME_RPC_INLINE },
		{ "refuse", refuse, 0 },
	};

	assert_ok(slime_rpc_service_create(t->ctx, &t->service));
	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
		struct slime_rpc_method_attr attr = SLIME_RPC_METHOD_ATTR_INIT;

		attr.fn = methods[i].fn;
		attr.flags = methods[i].flags;
		attr.arg = t;
		assert_ok(slime_rpc_method_add(t->service, methods[i].name, &attr));
	}
}

/* ---- what serves the other side's lanes ---- */

/* The bytes say themselves which they are. */
static bool letter_is_right(const uint8_t *at, uint64_t len)
{
	struct letter head;

	memcpy(&head, at, sizeof(head));
	return len >= sizeof(head) && head.len == len &&
	       pattern_matches(at + sizeof(head), len - sizeof(head), head.seed, 0);
}

struct acknowledgement {
	struct traffic *t;
	struct slime_op *op;
	uint32_t id;
};

static int try_acknowledge(void *arg)
{
	struct acknowledgement *a = arg;

	return slime_send(a->t->ep, NULL, 0, 0, a->id, a->op);
}

/* Each immediate names a lane whose bytes are all there; the lane is told. */
static void *take_immediates(void *arg)
{
	struct traffic *t = arg;
	struct slime_op *op = op_new(t->ctx);

	for (;;) {
		int status = ended(slime_imm_recv(t->ep, op), op, "an immediate's receive");
		struct acknowledgement a = { .t = t, .op = op };

		if (link_is_over(status))
			break;
		a.id = slime_op_imm(op);
		if (status || a.id >= LANES)
			wrong("immediate %u: status %d", a.id, status);
		if (!letter_is_right(t->bytes + inbox_at(a.id), slime_op_bytes(op)))
			wrong("immediate %u came before its %llu bytes", a.id,
			      (unsigned long long)slime_op_bytes(op));
		status = ended(until_not_again(try_acknowledge, &a), op, "an acknowledgement");
		if (link_is_over(status))
			break;
		if (status)
			wrong("acknowledgement %u: status %d", a.id, status);
	}
	assert_ok(slime_op_destroy(op));
	return NULL;
}

static void *take_messages(void *arg)
{
	struct traffic *t = arg;
	struct slime_op *op = op_new(t->ctx);

	for (;;) {
		int status = ended(
			slime_recv(t->ep, t->mr, MESSAGE_AT, LANE, MESSAGE_TAG, MESSAGE_TAG, op),
			op, "a receive");

		if (link_is_over(status))
			break;
		if (status || !letter_is_right(t->bytes + MESSAGE_AT, slime_op_bytes(op)))
			wrong("message of %llu bytes with tag %llx: status %d",
			      (unsigned long long)slime_op_bytes(op),
			      (unsigned long long)slime_op_tag(op), status);
	}
	assert_ok(slime_op_destroy(op));
	return NULL;
}

/* ---- the beginning ---- */

static void open_context(struct traffic *t, uint64_t seed)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;
	int ret;

	attr.polling = seed % 2 ? SLIME_POLLING_ADAPTIVE : SLIME_POLLING_EVENT;
	attr.rpc_workers = 2;
	if (fixture_transport != SLIME_TRANSPORT_TCP) {
		assert_ok(slime_context_create(&attr, &t->ctx));
		return;
	}
	attr.tcp_advertise = PROXY_ADDRESS;
	do {
		/* The port that the proxy was given may be taken at our own address. */
		proxy_destroy(t->proxy);
		t->proxy = proxy_create(seed, &attr.tcp_port);
		ret = slime_context_create(&attr, &t->ctx);
	} while (ret == -EADDRINUSE);
	assert_ok(ret);
	proxy_start(t->proxy);
}

struct traffic *traffic_create(uint64_t seed)
{
	struct slime_endpoint_attr attr = SLIME_ENDPOINT_ATTR_INIT;
	struct traffic *t = calloc(1, sizeof(*t));

	assert_non_null(t);
	pthread_mutex_init(&t->lock, NULL);
	pthread_cond_init(&t->changed, NULL);
	open_context(t, seed);
	add_methods(t);
	assert_ok(slime_mem_alloc(t->ctx, MEMORY_LEN, NULL, &t->mem));
	t->bytes = slime_mem_addr(t->mem);
	pattern_fill(t->bytes, AREA, SOURCE_SEED, 0);
	assert_ok(slime_mr_create(t->ctx, t->bytes, MEMORY_LEN,
				  SLIME_ACCESS_REMOTE_READ | SLIME_ACCESS_REMOTE_WRITE, &t->mr));
	attr.transports[0] = fixture_transport;
	attr.service = t->service;
	assert_ok(slime_endpoint_create(t->ctx, &attr, &t->ep));
	for (unsigned i = 0; i < LANES; i++)
		lane_create(&t->lanes[i], t, i, seed);
	return t;
}

void traffic_hello(struct traffic *t, struct traffic_hello *out)
{
	out->desc_len = slime_endpoint_export(t->ep, out->desc, sizeof(out->desc));
	out->mr_len = slime_mr_export(t->mr, out->mr, sizeof(out->mr));
	assert_true(out->desc_len > 0 && out->mr_len > 0);
}

int traffic_connect(struct traffic *t, const struct traffic_hello *peer)
{
	struct slime_op *op = op_new(t->ctx);
	int status;

	assert_ok(slime_remote_mr_import(peer->mr, (size_t)peer->mr_len, &t->remote));
	status = ended(
		slime_endpoint_connect(t->ep, peer->desc, (size_t)peer->desc_len, PATIENCE_MS, op),
		op, "the connect");
	assert_ok(slime_op_destroy(op));
	return status;
}

void traffic_start(struct traffic *t)
{
	assert_ok(pthread_create(&t->answers, NULL, answer, t));
	assert_ok(pthread_create(&t->immediates, NULL, take_immediates, t));
	assert_ok(pthread_create(&t->messages, NULL, take_messages, t));
	for (unsigned i = 0; i < LANES; i++)
		assert_ok(pthread_create(&t->lanes[i].thread, NULL, lane_run, &t->lanes[i]));
}

/* ---- the end ---- */

void traffic_stop(struct traffic *t)
{
	t->stop = true;
	for (unsigned i = 0; i < LANES; i++)
		pthread_join(t->lanes[i].thread, NULL);
}

void traffic_close(struct traffic *t)
{
	slime_endpoint_close(t->ep);
}

static void stop_serving(struct traffic *t)
{
	slime_endpoint_close(t->ep);
	pthread_join(t->immediates, NULL);
	pthread_join(t->messages, NULL);
	assert_ok(slime_endpoint_destroy(t->ep));
	pthread_mutex_lock(&t->lock);
	t->served = true;
	pthread_cond_signal(&t->changed);
	pthread_mutex_unlock(&t->lock);
	pthread_join(t->answers, NULL);
}

static int destroy_mr(void *mr)
{
	int ret = slime_mr_destroy(mr);

	return ret == -EBUSY ? -EAGAIN : ret;
}

void traffic_withdraw(struct traffic *t)
{
	stop_serving(t);
	for (unsigned i = 0; i < LANES; i++)
		lane_destroy(&t->lanes[i]);
	assert_ok(slime_rpc_service_destroy(t->service));
	assert_ok(until_not_again(destroy_mr, t->mr));
	pattern_fill(t->bytes, MEMORY_LEN, UNTOUCHED_SEED, 0);
}

void traffic_destroy(struct traffic *t)
{
	if (!pattern_matches(t->bytes, MEMORY_LEN, UNTOUCHED_SEED, 0))
		wrong("somebody wrote to memory after its region was destroyed");
	assert_ok(slime_mem_destroy(t->mem));
	assert_ok(slime_context_destroy(t->ctx));
	proxy_destroy(t->proxy);
	pthread_cond_destroy(&t->changed);
	pthread_mutex_destroy(&t->lock);
	free(t);
}

uint64_t traffic_count(const struct traffic *t)
{
	return t->n_good;
}

struct proxy *traffic_proxy(struct traffic *t)
{
	return t->proxy;
}
