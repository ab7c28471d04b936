/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links between contexts of one process that have no thread: nothing moves but by the test, which
 * moves both ends. What does not go as it should fails the test.
 */
#ifndef TESTS_SUPPORT_MANUAL_LINK_H
#define TESTS_SUPPORT_MANUAL_LINK_H

#include <slime/slime.h>

/* A context, and the service of all its endpoints. */
struct manual_side {
	struct slime_context *ctx;
	struct slime_rpc_service *service;
};

/* attr NULL: the defaults; manual in any case. echo is the inline method "echo". */
void manual_side_open(struct manual_side *s, const struct slime_context_attr *attr,
		      slime_rpc_fn *echo);
/* Without endpoints. */
void manual_side_close(struct manual_side *s);

struct manual_link {
	struct manual_side *a_side, *b_side;
	struct slime_endpoint *a, *b;
};

/* It is connected then. */
void manual_link_open(struct manual_link *l, struct manual_side *a, struct manual_side *b,
		      enum slime_transport transport);
/* Closed by both ends, and gone. */
void manual_link_close(struct manual_link *l);

/* A pass of both contexts. */
void manual_link_poll(const struct manual_link *l);
/* Passes until the op, or the call, ended: its status. */
int manual_link_end_op(const struct manual_link *l, struct slime_op *op);
int manual_link_end_call(const struct manual_link *l, struct slime_call *call);

#endif
