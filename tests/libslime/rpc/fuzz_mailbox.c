/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages of a peer that calls, answers and cancels as it likes, until it breaks the protocol.
 * The input is messages as on the wire, each with the payload its length says; method 1 stands for
 * "echo", 2 for "hold". Two calls of ours are out: 0x100 in slot 0, and 0x101 in slot 1, which
 * lends memory both ways.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/wire.h"
#include "src/endpoint/endpoint.h"
#include "src/rpc/mailbox.h"
#include "src/progress/progress.h"
#include <slime/slime.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MSG_LEN 56

static uint8_t slots[SL_SLOTS_LEN]; /* the peer's */
static struct slime_context *ctx;
static struct slime_rpc_service *service;
static struct slime_rpc_request *held[SL_CALL_SLOTS];
static unsigned n_held;

/* Also where assert() is compiled out. */
static void must(bool holds)
{
	if (!holds)
		abort();
}

/* ---- a connection to nobody ---- */

static int submit(struct sl_conn *conn, struct slime_op *op)
{
	(void)conn;
	sl_op_finish(op, op->work.total % 3 ? 0 : -ESTALE, op->work.total);
	return 0;
}

static uint8_t *slot_at(struct sl_conn *conn, enum sl_area area, unsigned slot)
{
	(void)conn;
	return slots + sl_slot_offset(area, slot);
}

static void post(struct sl_conn *conn, const struct sl_post *posts, size_t n)
{
	(void)conn;
	must(n > 0);
	for (size_t i = 0; i < n; i++) {
		must(sl_msg_valid(&posts[i].m));
		if (posts[i].going)
			atomic_store(posts[i].going, posts[i].m.w[0]);
	}
}

static bool is_stale(struct sl_conn *conn, const struct slime_remote_mr *r)
{
	(void)conn;
	(void)r;
	return false;
}

static const struct sl_conn_ops ops = {
	.submit = submit,
	.slot = slot_at,
	.post = post,
	.is_stale = is_stale,
};

/* ---- our side ---- */

static void echo(void *arg, struct slime_rpc_request *req)
{
	(void)arg;
	slime_rpc_reply(req, slime_rpc_request_data(req), slime_rpc_request_len(req));
}

static void hold(void *arg, struct slime_rpc_request *req)
{
	(void)arg;
	if (n_held < SL_CALL_SLOTS)
		held[n_held++] = req;
	else
		slime_rpc_reply_error(req, 1, "enough");
}

static void add(const char *name, slime_rpc_fn *fn)
{
	struct slime_rpc_method_attr attr = SLIME_RPC_METHOD_ATTR_INIT;

	attr.fn = fn;
	attr.flags = SLIME_RPC_INLINE;
	attr.max_message = 1 << 20;
	must(slime_rpc_method_add(service, name, &attr) == 0);
}

static void drop_line(void *arg, enum slime_log_level level, const char *part, const char *line)
{
	(void)arg;
	(void)level;
	(void)part;
	(void)line;
}

static void set_up(void)
{
	struct slime_context_attr attr = SLIME_CONTEXT_ATTR_INIT;

	if (ctx)
		return;
	slime_log_set(drop_line, NULL, SLIME_LOG_ERROR);
	attr.manual = true;
	must(slime_context_create(&attr, &ctx) == 0);
	must(slime_rpc_service_create(ctx, &service) == 0);
	add("echo", echo);
	add("hold", hold);
}

static struct slime_call *start(struct slime_endpoint *ep, size_t len)
{
	static uint8_t out[20000], in[20000];
	struct slime_call_args args = SLIME_CALL_ARGS_INIT;
	struct slime_call *call;

	args.method = 5;
	args.request = out;
	args.request_len = len;
	args.reply = in;
	args.reply_cap = len;
	must(slime_call_create(ctx, NULL, &call) == 0);
	must(slime_call_start(ep, &args, call) == 0);
	return call;
}

/* ---- the input ---- */

static size_t read_msg(struct sl_msg *m, const uint8_t *data, size_t size, uint8_t *payload)
{
	size_t rest = size - MSG_LEN;

	m->kind = data[0];
	m->flags = data[1];
	m->slot = sl_get_le16(data + 2);
	m->len = sl_get_le32(data + 4);
	for (int i = 0; i < 6; i++)
		m->w[i] = sl_get_le64(data + 8 + 8 * i);
	if (m->kind == SL_MSG_REQUEST && m->w[SL_REQUEST_METHOD] == 1)
		m->w[SL_REQUEST_METHOD] = slime_rpc_method_id("echo");
	if (m->kind == SL_MSG_REQUEST && m->w[SL_REQUEST_METHOD] == 2)
		m->w[SL_REQUEST_METHOD] = slime_rpc_method_id("hold");
	memset(payload, 0, SL_SLOT_LARGE);
	if (rest > m->len)
		rest = m->len;
	if (rest > SL_SLOT_LARGE)
		rest = SL_SLOT_LARGE;
	memcpy(payload, data + MSG_LEN, rest);
	return MSG_LEN + rest;
}

static void feed(struct slime_endpoint *ep, const uint8_t *data, size_t size)
{
	static uint8_t payload[SL_SLOT_LARGE];
	bool ok = true;

	while (ok && size >= MSG_LEN) {
		struct sl_msg m;
		size_t len = read_msg(&m, data, size, payload);

		data += len;
		size -= len;
		if (!sl_msg_valid(&m) || m.kind < SL_MSG_REQUEST)
			return;
		sl_progress_enter(ctx);
		ok = sl_mailbox_layer.msg(ep->mailbox, &m, m.len ? payload : NULL);
		sl_progress_leave(ctx);
		slime_context_poll(ctx);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct slime_endpoint_attr attr = SLIME_ENDPOINT_ATTR_INIT;
	struct sl_conn conn = { .ops = &ops, .peer = { 77, 1 } };
	struct slime_endpoint *ep;
	struct slime_call *calls[2];

	set_up();
	attr.service = service;
	must(slime_endpoint_create(ctx, &attr, &ep) == 0);
	atomic_store(&ep->conn, &conn);
	atomic_store(&ep->state, SLIME_ENDPOINT_CONNECTED);
	calls[0] = start(ep, 10);
	calls[1] = start(ep, 20000);
	feed(ep, data, size);

	/* The connection ends as the endpoint would end it: every call, whatever came. */
	sl_progress_enter(ctx);
	atomic_store(&ep->state, SLIME_ENDPOINT_BROKEN);
	sl_mailbox_layer.down(ep->mailbox, -EPROTO);
	atomic_store(&ep->conn, NULL);
	sl_progress_leave(ctx);
	for (int i = 0; i < 2; i++) {
		must(slime_call_test(calls[i]));
		must(slime_call_destroy(calls[i]) == 0);
	}
	must(slime_endpoint_destroy(ep) == 0);
	while (n_held)
		slime_rpc_reply(held[--n_held], NULL, 0);
	return 0;
}
