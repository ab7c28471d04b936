/* SPDX-License-Identifier: Apache-2.0 */
#include "support/manual_link.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#define PATIENCE_MS  60000
#define assert_ok(e) assert_int_equal(e, 0)

void manual_side_open(struct manual_side *s, const struct slime_context_attr *attr,
		      slime_rpc_fn *echo)
{
	struct slime_context_attr plain = SLIME_CONTEXT_ATTR_INIT;
	struct slime_rpc_method_attr method = SLIME_RPC_METHOD_ATTR_INIT;

	if (attr)
		plain = *attr;
	plain.manual = true;
	assert_ok(slime_context_create(&plain, &s->ctx));
	assert_ok(slime_rpc_service_create(s->ctx, &s->service));
	method.fn = echo;
	method.flags = SLIME_RPC_INLINE;
	assert_ok(slime_rpc_method_add(s->service, "echo", &method));
}

void manual_side_close(struct manual_side *s)
{
	assert_ok(slime_rpc_service_destroy(s->service));
	assert_ok(slime_context_destroy(s->ctx));
}

void manual_link_poll(const struct manual_link *l)
{
	assert_true(slime_context_poll(l->a_side->ctx) >= 0);
	assert_true(slime_context_poll(l->b_side->ctx) >= 0);
}

int manual_link_end_op(const struct manual_link *l, struct slime_op *op)
{
	while (!slime_op_test(op))
		manual_link_poll(l);
	return slime_op_status(op);
}

int manual_link_end_call(const struct manual_link *l, struct slime_call *call)
{
	while (!slime_call_test(call))
		manual_link_poll(l);
	return slime_call_status(call);
}

static void begin_connect(struct slime_endpoint *ep, struct slime_endpoint *peer,
			  struct slime_op *op)
{
	uint8_t desc[SLIME_ENDPOINT_DESC_MAX];
	int len = slime_endpoint_export(peer, desc, sizeof(desc));

	assert_true(len > 0);
	assert_ok(slime_endpoint_connect(ep, desc, (size_t)len, PATIENCE_MS, op));
}

void manual_link_open(struct manual_link *l, struct manual_side *a, struct manual_side *b,
		      enum slime_transport transport)
{
	struct slime_endpoint_attr ep = SLIME_ENDPOINT_ATTR_INIT;
	struct slime_op *of_a, *of_b;

	*l = (struct manual_link){ .a_side = a, .b_side = b };
	ep.transports[0] = transport;
	ep.service = a->service;
	assert_ok(slime_endpoint_create(a->ctx, &ep, &l->a));
	ep.service = b->service;
	assert_ok(slime_endpoint_create(b->ctx, &ep, &l->b));
	assert_ok(slime_op_create(a->ctx, NULL, &of_a));
	assert_ok(slime_op_create(b->ctx, NULL, &of_b));
	begin_connect(l->a, l->b, of_a);
	begin_connect(l->b, l->a, of_b);
	assert_ok(manual_link_end_op(l, of_a));
	assert_ok(manual_link_end_op(l, of_b));
	assert_ok(slime_op_destroy(of_a));
	assert_ok(slime_op_destroy(of_b));
}

static bool is_connected(const struct slime_endpoint *ep)
{
	struct slime_endpoint_info info;

	slime_endpoint_info(ep, &info);
	return info.state == SLIME_ENDPOINT_CONNECTED;
}

/* Both make passes: otherwise each destroy waits for its peer. */
void manual_link_close(struct manual_link *l)
{
	slime_endpoint_close(l->a);
	while (is_connected(l->a) || is_connected(l->b))
		manual_link_poll(l);
	assert_ok(slime_endpoint_destroy(l->a));
	assert_ok(slime_endpoint_destroy(l->b));
}
