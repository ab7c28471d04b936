/* SPDX-License-Identifier: Apache-2.0 */
/* Who is inside an endpoint, what is pending on it, and what was counted. */
#include <errno.h>

#include "src/endpoint.h"

static void add(_Atomic uint64_t *counter, uint64_t n)
{
	atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

void sl_endpoint_count(struct slime_endpoint *ep, enum slime_op_kind kind, int status,
		       uint64_t bytes)
{
	struct sl_kind_counters *c = &ep->counters[kind];

	add(status ? &c->failed : &c->completed, 1);
	if (!status)
		add(&c->bytes, bytes);
}

void sl_endpoint_op_finished(struct slime_op *op)
{
	struct slime_endpoint *ep = op->owner;
	enum slime_op_kind kind = op->work.kind;
	int status = op->status;

	sl_endpoint_count(ep, kind, status, op->bytes);
	if (status && kind <= SLIME_KIND_WRITE_IMM)
		add(&ep->failed_bytes[kind], op->work.total);
	atomic_fetch_sub_explicit(&ep->n_pending, 1, memory_order_release);
}

/* How many of max_pending_ops are left. */
static int64_t room_for(const struct slime_endpoint *ep, uint64_t n_ops, uint64_t n_calls_ever)
{
	const struct sl_kind_counters *calls = &ep->counters[SLIME_KIND_CALL];
	uint64_t ended = atomic_load_explicit(&calls->completed, memory_order_relaxed) +
			 atomic_load_explicit(&calls->failed, memory_order_relaxed);

	/* Calls may have begun and ended since they were counted. */
	return (int64_t)ep->attr.max_pending_ops - (int64_t)(n_ops + n_calls_ever - ended);
}

int sl_endpoint_op_begin(struct slime_endpoint *ep, struct slime_op *op, enum slime_op_kind kind)
{
	int ret;

	/* Who waits for it would look after the other one alone. */
	if (op->ctx != ep->ctx)
		return -EINVAL;
	if (room_for(ep, atomic_fetch_add_explicit(&ep->n_pending, 1, memory_order_relaxed),
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
	add(&ep->counters[kind].submitted, 1);
	return 0;
}

void sl_endpoint_op_abort(struct slime_endpoint *ep, struct slime_op *op)
{
	atomic_fetch_sub_explicit(&ep->counters[op->work.kind].submitted, 1, memory_order_relaxed);
	atomic_fetch_sub_explicit(&ep->n_pending, 1, memory_order_relaxed);
	sl_op_abort(op);
}

int sl_endpoint_call_begin(struct slime_endpoint *ep, struct slime_op *op)
{
	_Atomic uint64_t *submitted = &ep->counters[SLIME_KIND_CALL].submitted;
	int ret = -EAGAIN;

	if (room_for(ep, atomic_load_explicit(&ep->n_pending, memory_order_relaxed),
		     atomic_fetch_add_explicit(submitted, 1, memory_order_relaxed)) > 0)
		ret = sl_op_begin(op);
	if (ret)
		atomic_fetch_sub_explicit(submitted, 1, memory_order_relaxed);
	return ret;
}

uint32_t sl_endpoint_calls_take(struct slime_endpoint *ep, uint32_t n)
{
	_Atomic uint64_t *submitted = &ep->counters[SLIME_KIND_CALL].submitted;
	int64_t room = room_for(ep, atomic_load_explicit(&ep->n_pending, memory_order_relaxed),
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
