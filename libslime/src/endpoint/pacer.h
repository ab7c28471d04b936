/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of an endpoint whose bandwidth is capped, by itself or by its context. Its ops go to
 * the connection one after the other, in slices. A timer of the endpoint sends each slice when its
 * time has come, so no thread waits, and it is the same over every transport. Messages, such as
 * those of calls, are not capped.
 */
#ifndef SL_PACER_H
#define SL_PACER_H

#include "src/core/op.h"
#include "src/endpoint/endpoint.h"
#include "src/endpoint/layer.h"
#include "src/transport/transport.h"

struct sl_pacer;

/* Its state is NULL where nothing is capped. */
extern const struct sl_layer sl_pacer_layer;

/* The lower cap of the endpoint and its context, in bits per second; 0: none. */
static inline uint64_t sl_pacer_cap(const struct slime_endpoint *ep)
{
	uint64_t own = ep->attr.max_bandwidth, all = ep->ctx->attr.max_bandwidth;

	return own && (!all || own < all) ? own : all;
}

/* As submit of struct sl_conn_ops; what the transport refuses is the op's status. */
int sl_pacer_submit(struct sl_pacer *p, struct slime_op *op);

/* The caller has entered the endpoint. */
static inline int sl_endpoint_submit(struct slime_endpoint *ep, struct sl_conn *conn,
				     struct slime_op *op)
{
	return ep->pacer ? sl_pacer_submit(ep->pacer, op) : conn->ops->submit(conn, op);
}

#endif
