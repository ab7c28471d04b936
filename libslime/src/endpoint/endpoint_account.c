/* SPDX-License-Identifier: Apache-2.0 */
/* The threads inside an endpoint, its pending operations, and its counters. */
#include <errno.h>

#include "src/endpoint/endpoint.h"
#include "src/endpoint/endpoint_account.h"

void sl_endpoint_op_finished(struct slime_op *op)
{
	sl_endpoint_op_count(op);
}

void sl_endpoint_note_latency(struct slime_endpoint *ep, enum slime_op_kind kind, uint64_t start_ns)
{
	sl_latency_add(&ep->ctx->latencies.of[ep->transport][kind], sl_clock_ns() - start_ns);
}

void sl_endpoint_op_abort(struct slime_endpoint *ep, struct slime_op *op)
{
	atomic_fetch_sub_explicit(&ep->counters[op->work.kind].submitted, 1, memory_order_relaxed);
	atomic_fetch_sub_explicit(&ep->n_pending, 1, memory_order_relaxed);
	sl_op_abort(op);
}

uint32_t sl_endpoint_calls_take(struct slime_endpoint *ep, uint32_t n)
{
	_Atomic uint64_t *submitted = &ep->counters[SLIME_KIND_CALL].submitted;
	int64_t room =
		sl_endpoint_room(ep, atomic_load_explicit(&ep->n_pending, memory_order_relaxed),
				 atomic_fetch_add_explicit(submitted, n, memory_order_relaxed));
	uint32_t took = room >= n ? n : room > 0 ? (uint32_t)room : 0;

	if (took < n)
		sl_endpoint_calls_give_back(ep, n - took);
	return took;
}

void sl_endpoint_calls_give_back(struct slime_endpoint *ep, uint32_t n)
{
	atomic_fetch_sub_explicit(&ep->counters[SLIME_KIND_CALL].submitted, n,
				  memory_order_relaxed);
}

void sl_endpoint_call_abort(struct slime_endpoint *ep, struct slime_op *op)
{
	atomic_fetch_sub_explicit(&ep->counters[SLIME_KIND_CALL].submitted, 1,
				  memory_order_relaxed);
	sl_op_abort(op);
}

uint32_t sl_endpoint_n_pending(struct slime_endpoint *ep)
{
	struct sl_kind_counters *c = &ep->counters[SLIME_KIND_CALL];
	uint64_t ended = atomic_load(&c->completed) + atomic_load(&c->failed);

	return atomic_load(&ep->n_pending) + (uint32_t)(atomic_load(&c->submitted) - ended);
}

static const char *const kind_names[SLIME_KIND_MAX] = {
	[SLIME_KIND_READ] = "read",	      [SLIME_KIND_WRITE] = "write",
	[SLIME_KIND_WRITE_IMM] = "write_imm", [SLIME_KIND_IMM_RECV] = "imm_recv",
	[SLIME_KIND_SEND] = "send",	      [SLIME_KIND_RECV] = "recv",
	[SLIME_KIND_CALL] = "call",	      [SLIME_KIND_SERVE] = "serve",
};

const char *slime_op_kind_name(enum slime_op_kind kind)
{
	return (unsigned)kind < SLIME_KIND_MAX ? kind_names[kind] : "unknown";
}

void slime_endpoint_stats(const struct slime_endpoint *ep, struct slime_endpoint_stats *out)
{
	struct slime_kind_stats *serve = &out->kinds[SLIME_KIND_SERVE];

	for (int i = 0; i < SLIME_KIND_MAX; i++) {
		const struct sl_kind_counters *c = &ep->counters[i];

		out->kinds[i] = (struct slime_kind_stats){
			.submitted = atomic_load_explicit(&c->submitted, memory_order_relaxed),
			.completed = atomic_load_explicit(&c->completed, memory_order_relaxed),
			.failed = atomic_load_explicit(&c->failed, memory_order_relaxed),
			.bytes = atomic_load_explicit(&c->bytes, memory_order_relaxed),
		};
	}
	for (int i = 0; i <= SLIME_KIND_WRITE_IMM; i++)
		out->kinds[i].failed_bytes =
			atomic_load_explicit(&ep->failed_bytes[i], memory_order_relaxed);
	serve->completed += atomic_load_explicit(&ep->served.completed, memory_order_relaxed);
	serve->failed += atomic_load_explicit(&ep->served.failed, memory_order_relaxed);
	serve->bytes += atomic_load_explicit(&ep->served.bytes, memory_order_relaxed);
	serve->submitted = serve->completed + serve->failed;
}
