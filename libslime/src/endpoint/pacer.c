/* SPDX-License-Identifier: Apache-2.0 */
#include "src/endpoint/pacer.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "src/core/rate.h"

/* Pieces of a slice, and its bytes: so many a second as the cap has in 5 ms, within these bounds.
 */
#define PIECES	     64
#define SLICES_PER_S 200
#define SLICE_MIN    (UINT64_C(16) << 10)
#define SLICE_MAX    SL_RATE_BYTES_MAX

struct sl_pacer {
	struct slime_endpoint *ep;
	struct sl_rate rate; /* the endpoint's; the context has its own. [token], as are the next */
	uint64_t slice_bytes;
	struct slime_op slice; /* of the first op; idle: none is under way */
	bool sliced;	       /* its result is not taken yet */
	struct slime_xfer pieces[PIECES];
	pthread_mutex_t lock; /* of ops */
	struct sl_list ops;
};

static struct slime_op *first_of(struct sl_pacer *p)
{
	struct slime_op *op = NULL;

	pthread_mutex_lock(&p->lock);
	if (!sl_list_empty(&p->ops))
		op = SL_CONTAINER_OF(p->ops.next, struct slime_op, link);
	pthread_mutex_unlock(&p->lock);
	return op;
}

/* The first op ends. */
static void end(struct sl_pacer *p, struct slime_op *op, int status)
{
	pthread_mutex_lock(&p->lock);
	sl_list_remove(&op->link);
	pthread_mutex_unlock(&p->lock);
	sl_op_finish(op, status, op->work.total);
}

/* The token's holder finishes it: no other thread submits one. */
static void slice_finished(struct slime_op *slice)
{
	struct sl_pacer *p = slice->owner;

	sl_endpoint_queue(p->ep);
}

static void take_result(struct sl_pacer *p)
{
	struct slime_op *op = first_of(p);

	if (!p->sliced)
		return;
	p->sliced = false;
	if (p->slice.status || !sl_work_at(&op->work))
		end(p, op, p->slice.status);
}

/* The next pieces of the op, whose place moves on; returns their bytes. */
static uint64_t cut(struct sl_pacer *p, struct slime_op *op)
{
	struct sl_work *w = &op->work;
	const struct slime_xfer *x;
	uint64_t bytes = 0;
	size_t n = 0;

	while (n < PIECES && bytes < p->slice_bytes && (x = sl_work_at(w))) {
		uint64_t len = x->len - w->byte;

		if (len > p->slice_bytes - bytes)
			len = p->slice_bytes - bytes;
		p->pieces[n++] = (struct slime_xfer){
			.local = x->local,
			.remote = x->remote,
			.local_offset = x->local_offset + w->block * x->local_stride + w->byte,
			.remote_offset = sl_work_remote_offset(w, x),
			.len = len,
		};
		sl_work_pass(w, x, len);
		bytes += len;
	}
	/* A fence holds for each slice: nothing of this op is pending when the next one goes. */
	p->slice.work = (struct sl_work){
		.kind = w->kind, .flags = w->flags, .xfers = p->pieces, .n = n, .total = bytes
	};
	/* The immediate goes with the last slice, and says how many bytes the whole op has. */
	if (w->kind == SLIME_KIND_WRITE_IMM && sl_work_at(w)) {
		p->slice.work.kind = SLIME_KIND_WRITE;
	} else {
		p->slice.work.imm = w->imm;
		p->slice.work.total = w->kind == SLIME_KIND_WRITE_IMM ? w->total : bytes;
	}
	return bytes;
}

/* False: the connection is at its end, and so will be the ops. */
static bool submit_slice(struct sl_pacer *p, struct slime_op *op, uint64_t now)
{
	struct sl_conn *conn;
	uint64_t bytes;
	int ret;

	if (sl_endpoint_enter(p->ep, &conn))
		return false;
	bytes = cut(p, op);
	sl_rate_take(&p->rate, bytes, now);
	sl_rate_take(&p->ep->ctx->rate, bytes, now);
	ret = sl_op_begin(&p->slice);
	p->slice.owner = p;
	p->slice.finished = slice_finished;
	p->sliced = true;
	if (!ret)
		ret = conn->ops->submit(conn, &p->slice);
	if (ret) {
		p->sliced = false;
		sl_op_abort(&p->slice);
		/* The connection is at its end, and down() knows its cause. */
		if (ret != -ENOTCONN)
			end(p, op, ret);
	}
	sl_endpoint_leave(p->ep);
	return ret != -ENOTCONN;
}

static uint64_t progress(void *state)
{
	struct sl_pacer *p = state;
	struct slime_op *op;

	while (p && sl_op_is_idle(&p->slice)) {
		uint64_t now = sl_clock_ns(), when;

		take_result(p);
		op = first_of(p);
		if (!op)
			break;
		when = sl_rate_next(&p->rate);
		if (when < sl_rate_next(&p->ep->ctx->rate))
			when = sl_rate_next(&p->ep->ctx->rate);
		if (when > now)
			return when;
		if (!submit_slice(p, op, now))
			break;
	}
	return SL_NEVER;
}

int sl_pacer_submit(struct sl_pacer *p, struct slime_op *op)
{
	pthread_mutex_lock(&p->lock);
	sl_list_append(&p->ops, &op->link);
	pthread_mutex_unlock(&p->lock);
	sl_endpoint_ring(p->ep);
	return 0;
}

/* The slice has ended with the connection. */
static void down(void *state, int cause)
{
	struct sl_pacer *p = state;
	struct slime_op *op;

	if (!p)
		return;
	take_result(p);
	while ((op = first_of(p)))
		end(p, op, cause);
}

static int create(struct slime_endpoint *ep, void **state)
{
	uint64_t least = sl_pacer_cap(ep);
	struct sl_pacer *p;

	*state = NULL;
	if (!least)
		return 0;
	p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	p->ep = ep;
	p->rate = (struct sl_rate){ .bits_s = ep->attr.max_bandwidth };
	p->slice_bytes = least / 8 / SLICES_PER_S;
	if (p->slice_bytes < SLICE_MIN)
		p->slice_bytes = SLICE_MIN;
	if (p->slice_bytes > SLICE_MAX)
		p->slice_bytes = SLICE_MAX;
	pthread_mutex_init(&p->lock, NULL);
	sl_list_init(&p->ops);
	sl_op_init(&p->slice, ep->ctx, &ep->ctx->completions, NULL, NULL);
	*state = p;
	return 0;
}

static void destroy(void *state)
{
	struct sl_pacer *p = state;

	pthread_mutex_destroy(&p->lock);
	free(p);
}

const struct sl_layer sl_pacer_layer = {
	.create = create,
	.destroy = destroy,
	.forget = free,
	.down = down,
	.progress = progress,
};
