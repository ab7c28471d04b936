/* SPDX-License-Identifier: Apache-2.0 */
/* A batch that was checked once and is submitted many times. */
#include <errno.h>
#include <stdlib.h>

#include "src/endpoint/endpoint.h"
#include "src/endpoint/endpoint_account.h"
#include "src/endpoint/pacer.h"
#include "src/endpoint/xfer.h"
#include <slime/xfer.h>

struct slime_batch {
	struct slime_context *ctx;
	struct sl_link_id endpoint; /* that it was checked for: an endpoint has one connection */
	enum slime_op_kind kind;
	_Atomic uint32_t n_pending; /* submits that did not end */
	uint64_t total;
	/* One for each run of pieces: local regions, which are held, and copies of remote ones. */
	size_t n_mrs, n_remotes;
	struct slime_mr **mrs;
	struct slime_remote_mr *remotes;
	size_t n;
	struct slime_xfer xfers[];
};

/* Whether x goes on where last ends, at both sides. */
static bool continues(const struct slime_xfer *last, const struct slime_xfer *x)
{
	return last->count <= 1 && x->count <= 1 && x->local == last->local &&
	       x->remote == last->remote && x->local_offset == last->local_offset + last->len &&
	       x->remote_offset == last->remote_offset + last->len;
}

/* Pieces that no transport has to look at twice: none is empty, and neighbours are joined. */
static void lower(struct slime_batch *b, const struct slime_xfer *xfers, size_t n)
{
	const struct slime_xfer *before = NULL;

	for (size_t i = 0; i < n; i++) {
		const struct slime_xfer *x = &xfers[i];
		struct slime_xfer *last = b->n ? &b->xfers[b->n - 1] : NULL;
		struct slime_xfer *made = &b->xfers[b->n];

		if (!before || x->local != before->local)
			b->mrs[b->n_mrs++] = x->local;
		if (!before || x->remote != before->remote)
			b->remotes[b->n_remotes++] = *x->remote;
		before = x;
		*made = *x;
		made->remote = &b->remotes[b->n_remotes - 1];
		if (!x->len)
			continue;
		if (last && continues(last, made))
			last->len += x->len;
		else
			b->n++;
	}
}

static void release(struct slime_batch *b)
{
	for (size_t i = 0; i < b->n_mrs; i++)
		atomic_fetch_sub_explicit(&b->mrs[i]->region->n_ops, 1, memory_order_release);
}

/* None of them goes while the batch is there. */
static int hold(struct slime_batch *b)
{
	int ret = 0;

	for (size_t i = 0; i < b->n_mrs; i++) {
		struct sl_region *r = b->mrs[i]->region;

		/* Count ourselves first, then check: a withdrawal does it the other way round. */
		atomic_fetch_add(&r->n_ops, 1);
		if (atomic_load(&r->state) != SL_REGION_LIVE)
			ret = -EINVAL;
	}
	if (ret)
		release(b);
	return ret;
}

static void free_batch(struct slime_batch *b)
{
	if (!b)
		return;
	free(b->remotes);
	free(b->mrs);
	free(b);
}

static struct slime_batch *alloc_batch(const struct slime_xfer *xfers, size_t n)
{
	struct slime_batch *b;
	size_t n_mrs = 1, n_remotes = 1; /* calloc() of none may be NULL */

	for (size_t i = 0; i < n; i++) {
		n_mrs += !i || xfers[i].local != xfers[i - 1].local;
		n_remotes += !i || xfers[i].remote != xfers[i - 1].remote;
	}
	/* One piece more than there are: lower() writes each before it may drop it. */
	b = calloc(1, sizeof(*b) + (n + 1) * sizeof(b->xfers[0]));
	if (!b)
		return NULL;
	b->mrs = calloc(n_mrs, sizeof(*b->mrs));
	b->remotes = calloc(n_remotes, sizeof(*b->remotes));
	if (b->mrs && b->remotes)
		return b;
	free_batch(b);
	return NULL;
}

static int make(struct slime_endpoint *ep, struct sl_conn *conn, enum slime_op_kind kind,
		const struct slime_xfer *xfers, size_t n, struct slime_batch **out)
{
	struct slime_batch *b;
	uint64_t total;
	int ret = sl_xfer_check(ep, conn, kind, xfers, n, &total);

	if (ret)
		return ret;
	b = alloc_batch(xfers, n);
	if (!b)
		return -ENOMEM;
	lower(b, xfers, n);
	b->ctx = ep->ctx;
	b->endpoint = ep->self;
	b->kind = kind;
	b->total = total;
	ret = hold(b);
	if (ret) {
		free_batch(b);
		return ret;
	}
	atomic_fetch_add(&ep->ctx->completions.n_ops, 1);
	*out = b;
	return 0;
}

int slime_batch_create(struct slime_endpoint *ep, enum slime_batch_kind kind,
		       const struct slime_xfer *xfers, size_t n, struct slime_batch **out)
{
	struct sl_conn *conn;
	int ret = sl_context_check(ep->ctx);

	if (ret)
		return ret;
	if (kind != SLIME_BATCH_READ && kind != SLIME_BATCH_WRITE)
		return -EINVAL;
	/* Where a length in bytes would not fit. */
	if (n > SIZE_MAX / 2 / sizeof(*xfers))
		return -ENOMEM;
	ret = sl_endpoint_enter(ep, &conn);
	if (ret)
		return ret;
	ret = make(ep, conn, kind == SLIME_BATCH_READ ? SLIME_KIND_READ : SLIME_KIND_WRITE, xfers,
		   n, out);
	sl_endpoint_leave(ep);
	return ret;
}

int slime_batch_destroy(struct slime_batch *b)
{
	if (!b)
		return 0;
	if (!sl_context_check(b->ctx)) {
		if (atomic_load(&b->n_pending))
			return -EBUSY;
		release(b);
		atomic_fetch_sub(&b->ctx->completions.n_ops, 1);
	}
	free_batch(b);
	return 0;
}

static bool is_any_stale(const struct slime_batch *b, struct sl_conn *conn)
{
	for (size_t i = 0; i < b->n_remotes; i++) {
		if (conn->ops->is_stale(conn, &b->remotes[i]))
			return true;
	}
	return false;
}

static void finished(struct slime_op *op)
{
	/* The pieces of an op are those of its batch. */
	struct slime_batch *b = (struct slime_batch *)((uintptr_t)op->work.xfers -
						       offsetof(struct slime_batch, xfers));

	sl_endpoint_op_count(op);
	atomic_fetch_sub_explicit(&b->n_pending, 1, memory_order_release);
}

static int submit(struct slime_endpoint *ep, struct sl_conn *conn, struct slime_batch *b,
		  uint32_t flags, struct slime_op *op)
{
	int ret;

	if (atomic_load_explicit(&conn->n_stale, memory_order_relaxed) && is_any_stale(b, conn))
		return -ESTALE;
	ret = sl_endpoint_op_begin(ep, op, b->kind);
	if (ret)
		return ret;
	op->work = (struct sl_work){
		.kind = b->kind,
		.flags = flags,
		.xfers = b->xfers,
		.n = b->n,
		.total = b->total,
	};
	atomic_fetch_add_explicit(&b->n_pending, 1, memory_order_relaxed);
	op->finished = finished;
	if (!b->total) {
		sl_op_finish(op, 0, 0);
		return 0;
	}
	ret = sl_endpoint_submit(ep, conn, op);
	if (ret) {
		atomic_fetch_sub_explicit(&b->n_pending, 1, memory_order_relaxed);
		sl_endpoint_op_abort(ep, op);
	}
	return ret;
}

int slime_batch_submit(struct slime_endpoint *ep, struct slime_batch *b, uint32_t flags,
		       struct slime_op *op)
{
	struct sl_conn *conn;
	int ret = sl_context_check(ep->ctx);

	if (ret)
		return ret;
	if (flags & ~(uint32_t)SLIME_FENCE || b->endpoint.context != ep->self.context ||
	    b->endpoint.endpoint != ep->self.endpoint)
		return -EINVAL;
	ret = sl_endpoint_enter(ep, &conn);
	if (ret)
		return ret;
	ret = submit(ep, conn, b, flags, op);
	sl_endpoint_leave(ep);
	return ret;
}
