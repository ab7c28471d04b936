/* SPDX-License-Identifier: Apache-2.0 */
/* The pending operations of an endpoint, at most max_pending_ops, and its counters. */
#ifndef SL_ENDPOINT_ACCOUNT_H
#define SL_ENDPOINT_ACCOUNT_H

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/clock.h"
#include "src/core/op.h"
#include "src/endpoint/counters.h"
#include "src/endpoint/endpoint.h"

/* Count something that is no op, as requests are; or an op. */
static inline void sl_endpoint_count(struct slime_endpoint *ep, enum slime_op_kind kind, int status,
				     uint64_t bytes)
{
	struct sl_kind_counters *c = &ep->counters[kind];

	atomic_fetch_add_explicit(status ? &c->failed : &c->completed, 1, memory_order_relaxed);
	if (!status)
		atomic_fetch_add_explicit(&c->bytes, bytes, memory_order_relaxed);
}

/* An operation that is timed has succeeded. */
void sl_endpoint_note_latency(struct slime_endpoint *ep, enum slime_op_kind kind,
			      uint64_t start_ns);

/* How many of max_pending_ops are left. */
static inline int64_t sl_endpoint_room(const struct slime_endpoint *ep, uint64_t n_ops,
				       uint64_t n_calls_ever)
{
	const struct sl_kind_counters *calls = &ep->counters[SLIME_KIND_CALL];
	uint64_t ended = atomic_load_explicit(&calls->completed, memory_order_relaxed) +
			 atomic_load_explicit(&calls->failed, memory_order_relaxed);

	/* Calls may have begun and ended since they were counted. */
	return (int64_t)ep->attr.max_pending_ops - (int64_t)(n_ops + n_calls_ever - ended);
}

/* The op->finished that op_begin sets. A function that replaces it calls sl_endpoint_op_count(). */
void sl_endpoint_op_finished(struct slime_op *op);
static inline void sl_endpoint_op_count(struct slime_op *op)
{
	struct slime_endpoint *ep = op->owner;
	enum slime_op_kind kind = op->work.kind;
	int status = op->status;

	if (__builtin_expect(op->start_ns != 0, 0) && !status)
		sl_endpoint_note_latency(ep, kind, op->start_ns);
	sl_endpoint_count(ep, kind, status, op->bytes);
	if (status && kind <= SLIME_KIND_WRITE_IMM)
		atomic_fetch_add_explicit(&ep->failed_bytes[kind], op->work.total,
					  memory_order_relaxed);
	atomic_fetch_sub_explicit(&ep->n_pending, 1, memory_order_release);
}

/*
 * Account for an op: begin takes one of max_pending_ops and begins the op (-EAGAIN, -EBUSY, -EINVAL
 * it is of another context), and finishing it gives the place back and counts it under its kind.
 */
static inline int sl_endpoint_op_begin(struct slime_endpoint *ep, struct slime_op *op,
				       enum slime_op_kind kind)
{
	uint64_t n;
	int ret;

	/* A thread that waits for it makes progress of the other context only. */
	if (op->ctx != ep->ctx)
		return -EINVAL;
	if (sl_endpoint_room(ep, atomic_fetch_add_explicit(&ep->n_pending, 1, memory_order_relaxed),
			     atomic_load_explicit(&ep->counters[SLIME_KIND_CALL].submitted,
						  memory_order_relaxed)) <= 0) {
		atomic_fetch_sub_explicit(&ep->n_pending, 1, memory_order_relaxed);
		return -EAGAIN;
	}
	ret = sl_op_begin(op);
	if (ret) {
		atomic_fetch_sub_explicit(&ep->n_pending, 1, memory_order_relaxed);
		return ret;
	}
	op->owner = ep;
	op->finished = sl_endpoint_op_finished;
	op->work.kind = kind;
	n = atomic_fetch_add_explicit(&ep->counters[kind].submitted, 1, memory_order_relaxed);
	op->start_ns =
		kind <= SLIME_KIND_WRITE_IMM && sl_latency_is_due(n, n + 1) ? sl_clock_ns() : 0;
	return 0;
}

void sl_endpoint_op_abort(struct slime_endpoint *ep, struct slime_op *op);

/* Calls that were begun and did not end. */
static inline uint64_t sl_endpoint_calls_under_way(const struct slime_endpoint *ep)
{
	const struct sl_kind_counters *c = &ep->counters[SLIME_KIND_CALL];

	return atomic_load_explicit(&c->submitted, memory_order_relaxed) -
	       atomic_load_explicit(&c->completed, memory_order_relaxed) -
	       atomic_load_explicit(&c->failed, memory_order_relaxed);
}

/* The same for a call, which is no part of n_pending: calls that were submitted and whose end was
 * not counted are pending. */
static inline int sl_endpoint_call_begin(struct slime_endpoint *ep, struct slime_op *op)
{
	_Atomic uint64_t *submitted = &ep->counters[SLIME_KIND_CALL].submitted;
	int ret = -EAGAIN;

	if (sl_endpoint_room(ep, atomic_load_explicit(&ep->n_pending, memory_order_relaxed),
			     atomic_fetch_add_explicit(submitted, 1, memory_order_relaxed)) > 0)
		ret = sl_op_begin(op);
	if (ret)
		atomic_fetch_sub_explicit(submitted, 1, memory_order_relaxed);
	return ret;
}
void sl_endpoint_call_abort(struct slime_endpoint *ep, struct slime_op *op);

/* The same for n calls at once, of which as many are taken as there are places for. The caller
 * begins their ops. */
uint32_t sl_endpoint_calls_take(struct slime_endpoint *ep, uint32_t n);
void sl_endpoint_calls_give_back(struct slime_endpoint *ep, uint32_t n);

/* Ops and calls that did not end. */
uint32_t sl_endpoint_n_pending(struct slime_endpoint *ep);

/* Whether one of the `taken` calls that began last is timed. */
static inline bool sl_endpoint_call_is_timed(const struct slime_endpoint *ep, uint32_t taken)
{
	uint64_t n = atomic_load_explicit(&ep->counters[SLIME_KIND_CALL].submitted,
					  memory_order_relaxed);

	return sl_latency_is_due(n - taken, n);
}

/* A call ends: before its op is finished. [token] */
static inline void sl_endpoint_count_call(struct slime_endpoint *ep, int status, uint64_t bytes)
{
	sl_endpoint_count_alone(&ep->counters[SLIME_KIND_CALL], status, bytes);
}

/* A request was answered by [token]. */
static inline void sl_endpoint_count_served(struct slime_endpoint *ep, int status, uint64_t bytes)
{
	sl_endpoint_count_alone(&ep->served, status, bytes);
}

#endif
