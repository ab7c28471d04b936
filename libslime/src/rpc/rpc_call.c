/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "src/progress/context.h"
#include "src/endpoint/endpoint.h"
#include "src/progress/progress.h"
#include "src/rpc/rpc_call.h"
#include "src/endpoint/endpoint_account.h"

static void ended(void *arg, struct slime_op *op)
{
	struct slime_call *call = arg;

	(void)op;
	call->fn(call->arg, call);
}

void slime_call_args_init(struct slime_call_args *args)
{
	*args = (struct slime_call_args)SLIME_CALL_ARGS_INIT;
}

int slime_call_create(struct slime_context *ctx, const struct slime_call_attr *attr,
		      struct slime_call **out)
{
	static const struct slime_call_attr defaults;
	struct slime_call *call;
	struct sl_rpc *rpc;
	int ret = sl_context_check(ctx);

	if (!ret)
		ret = sl_rpc_get(ctx, &rpc);
	if (ret)
		return ret;
	if (!attr)
		attr = &defaults;
	if (attr->flags & ~(uint32_t)SLIME_CALL_QUEUED ||
	    (attr->fn && attr->flags & SLIME_CALL_QUEUED))
		return -EINVAL;
	call = aligned_alloc(_Alignof(struct slime_call), sizeof(*call));
	if (!call)
		return -ENOMEM;
	memset(call, 0, sizeof(*call));
	sl_op_init(&call->op, ctx, &ctx->completions, attr->fn ? ended : NULL, call);
	call->op.flags = SL_OP_GUARDED | SL_OP_OF_CALL;
	if (attr->flags & SLIME_CALL_QUEUED)
		call->op.flags |= SLIME_OP_QUEUED;
	sl_list_init(&call->link);
	call->ctx = ctx;
	call->rpc = rpc;
	call->fn = attr->fn;
	call->arg = attr->arg;
	sl_call_is_over(call);
	sl_rpc_add_child(ctx);
	*out = call;
	return 0;
}

static void release(struct slime_call *call)
{
	if (call->flags & SL_REPLY_LOAN && call->reply_chunk) {
		sl_rpc_put_chunk(call->rpc, call->reply_chunk);
		call->reply_chunk = NULL;
	}
	call->reply_at = NULL;
	call->reply_len = 0;
}

int slime_call_destroy(struct slime_call *call)
{
	if (!call)
		return 0;
	if (!sl_context_check(call->ctx)) {
		if (!sl_op_is_idle(&call->op))
			return -EBUSY;
		sl_op_goes(&call->op);
		release(call);
		sl_rpc_remove_child(call->ctx);
	}
	free(call->own);
	free(call);
	return 0;
}

/* One half of the args: memory of the caller's, or len bytes at offset of a region. */
static int check_memory(const struct slime_call *call, const void *ptr, uint64_t len,
			const struct slime_mr *mr, uint64_t offset)
{
	if (mr && (ptr || mr->ctx != call->ctx))
		return -EINVAL;
	if (mr && mr->region->kind == SL_REGION_DEVICE)
		return -EOPNOTSUPP;
	if (mr && (offset > mr->region->len || len > mr->region->len - offset))
		return -ERANGE;
	return 0;
}

static int check_args(const struct slime_call *call, const struct slime_endpoint *ep,
		      const struct slime_call_args *args)
{
	int ret;

	if (ep->ctx != call->ctx || !args->method)
		return -EINVAL;
	if (args->request_len && !args->request && !args->request_mr)
		return -EINVAL;
	if (!args->request_mr && !args->reply_mr)
		return 0;
	ret = check_memory(call, args->request, args->request_len, args->request_mr,
			   args->request_offset);
	if (!ret)
		ret = check_memory(call, args->reply, args->reply_cap, args->reply_mr,
				   args->reply_offset);
	return ret;
}

static inline bool is_plain(const struct slime_call *call, const struct slime_call_args *a)
{
	return !a->request_mr && !a->reply_mr && a->request_len <= SL_SLOT_SMALL &&
	       a->reply_cap <= SL_SLOT_SMALL && (a->reply || a->reply_cap <= call->own_len);
}

__attribute__((always_inline)) static inline void reset(struct slime_call *call,
							const struct slime_call_args *args)
{
	release(call);
	call->args = *args;
	call->plain_room = is_plain(call, args) ? (uint32_t)args->reply_cap + 1 : 0;
	call->deadline_ns = sl_deadline_ns(args->timeout_ms);
	call->flags = 0;
	call->code = 0;
	call->has_message = false;
	call->timed = false;
	atomic_store_explicit(&call->gave_up, 0, memory_order_relaxed);
}

static void time_call(struct slime_call *call)
{
	call->timed = true;
	call->op.start_ns = sl_clock_ns();
}

int slime_call_start(struct slime_endpoint *ep, const struct slime_call_args *args,
		     struct slime_call *call)
{
	int ret = sl_context_check(call->ctx);

	if (!ret)
		ret = check_args(call, ep, args);
	if (!ret)
		ret = sl_endpoint_call_begin(ep, &call->op);
	if (ret)
		return ret;
	reset(call, args);
	if (__builtin_expect(sl_endpoint_call_is_timed(ep, 1), 0))
		time_call(call);
	ret = sl_calls_begin(ep->mailbox, call);
	if (ret) {
		sl_call_is_over(call);
		sl_endpoint_call_abort(ep, &call->op);
	}
	return ret;
}

/* The call is pending, of an endpoint that took a place for it. */
static inline int claim(struct slime_endpoint *ep, const struct slime_call_item *item)
{
	int ret = check_args(item->call, ep, item->args);

	return ret ? ret : sl_op_begin(&item->call->op);
}

/* The first of them, at most SL_CALLS_AT_ONCE: how many, and why not more. */
static uint32_t start_some(struct slime_endpoint *ep, const struct slime_call_item *items, size_t n,
			   int *why)
{
	uint32_t wanted = n < SL_CALLS_AT_ONCE ? (uint32_t)n : SL_CALLS_AT_ONCE;
	uint32_t taken = sl_endpoint_calls_take(ep, wanted);
	uint32_t n_ready = 0;
	uint32_t n_begun;
	int ret = 0;

	/* Nothing is written in between: a locked instruction waits until what was has left. */
	while (n_ready < taken && !(ret = claim(ep, &items[n_ready])))
		n_ready++;
	for (uint32_t i = 0; i < n_ready; i++)
		reset(items[i].call, items[i].args);
	if (n_ready && sl_endpoint_call_is_timed(ep, taken))
		time_call(items[0].call);
	*why = ret ? ret : -EAGAIN;
	n_begun = sl_calls_begin_many(ep->mailbox, items, n_ready, why);
	for (uint32_t i = n_begun; i < n_ready; i++) {
		sl_call_is_over(items[i].call);
		sl_op_abort(&items[i].call->op);
	}
	if (n_begun < taken)
		sl_endpoint_calls_give_back(ep, taken - n_begun);
	return n_begun;
}

int slime_call_start_many(struct slime_endpoint *ep, const struct slime_call_item *items, size_t n)
{
	size_t max = n < INT_MAX ? n : INT_MAX;
	size_t n_started = 0;
	int ret = sl_context_check(ep->ctx);

	while (!ret && n_started < max) {
		size_t left = max - n_started;
		uint32_t n_begun = start_some(ep, items + n_started, left, &ret);

		n_started += n_begun;
		if (n_begun == left || n_begun == SL_CALLS_AT_ONCE)
			ret = 0;
	}
	return n_started ? (int)n_started : ret;
}

int slime_call_wait(struct slime_call *call, int64_t timeout_ms)
{
	int ret = sl_context_check(call->ctx);
	uint64_t deadline;

	if (ret || sl_op_is_idle(&call->op))
		return ret;
	deadline = sl_deadline_ns(timeout_ms);
	if (timeout_ms < 0 && call->deadline_ns != SL_NEVER)
		deadline = call->deadline_ns + SLIME_CALL_GRACE_MS * SL_NS_PER_MS;
	return sl_progress_wait_op(call->ctx, &call->op, deadline);
}

int slime_call_cancel(struct slime_call *call)
{
	struct sl_rpc *rpc = call->rpc;
	int seen = 0;
	int ret = sl_context_check(call->ctx);

	if (ret)
		return ret;
	/* The mailbox may be on its end; what we touch is the call, and the context's. */
	if (atomic_compare_exchange_strong(&call->gave_up, &seen, -ECANCELED)) {
		atomic_fetch_add(&rpc->n_cancels, 1);
		sl_rpc_ring(rpc);
	}
	return seen == SL_CALL_OVER ? -ENOENT : 0;
}

bool slime_call_test(struct slime_call *call)
{
	return slime_op_test(&call->op);
}

int slime_call_status(const struct slime_call *call)
{
	return slime_op_status(&call->op);
}

uint32_t slime_call_error(const struct slime_call *call, const char **message)
{
	if (message)
		*message = call->has_message ? call->message : "";
	return call->code;
}

size_t slime_call_reply_len(const struct slime_call *call)
{
	return call->reply_len;
}

const void *slime_call_reply_data(const struct slime_call *call)
{
	return call->reply_at;
}

void slime_call_release(struct slime_call *call)
{
	if (!sl_context_check(call->ctx) && sl_op_is_idle(&call->op))
		release(call);
}

void *slime_call_arg(const struct slime_call *call)
{
	return call->arg;
}
