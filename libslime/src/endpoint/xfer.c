/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>

#include "base/log.h"
#include "src/endpoint/endpoint.h"
#include "src/endpoint/endpoint_account.h"
#include "src/endpoint/pacer.h"
#include "src/endpoint/xfer.h"
#include <slime/xfer.h>

/* ---- what may be submitted ---- */

/* Whether count blocks of len bytes, stride apart from offset on, lie within limit. */
static bool within(uint64_t offset, uint64_t len, uint64_t stride, uint32_t count, uint64_t limit)
{
	uint64_t last, end;

	if (__builtin_mul_overflow(stride, (uint64_t)count - 1, &last) ||
	    __builtin_add_overflow(last, offset, &last) || __builtin_add_overflow(last, len, &end))
		return false;
	return end <= limit;
}

__attribute__((cold)) static int refuse_foreign(const struct slime_endpoint *ep, const char *why)
{
	static struct sl_log_limit limit = SL_LOG_LIMIT_INIT(1, 60000);
	uint32_t held_back;

	if (sl_log_allow(&limit, &held_back))
		sl_error(
			"shm",
			"%s: a region of the peer is not from slime_mem_alloc, and out of reach: %s. "
			"Allocate it with slime_mem_alloc, or set foreign_memory to require at both "
			"ends, and such links take their next transport",
			ep->name, why);
	return -EOPNOTSUPP;
}

/* The owners of the regions, and the access that they grant. */
static inline int check_regions(struct slime_endpoint *ep, struct sl_conn *conn,
				const struct slime_xfer *x, uint32_t access)
{
	if (!x->local || !x->remote || x->local->ctx != ep->ctx ||
	    x->remote->owner != conn->peer.context)
		return -EINVAL;
	if (!conn->device_memory &&
	    (x->local->region->kind == SL_REGION_DEVICE || x->remote->kind == SL_REGION_DEVICE))
		return -EOPNOTSUPP;
	if (x->remote->kind == SL_REGION_FOREIGN && conn->no_foreign)
		return refuse_foreign(ep, conn->no_foreign);
	if ((x->remote->access & access) != access)
		return -EACCES;
	return atomic_load_explicit(&conn->n_stale, memory_order_relaxed) &&
			       conn->ops->is_stale(conn, x->remote)
		       ? -ESTALE
		       : 0;
}

/* Whether the piece lies within its regions. */
static inline bool fits(const struct slime_xfer *x)
{
	uint64_t local = x->local->region->len;
	uint64_t remote = x->remote->len;

	if (x->count > 1)
		return within(x->local_offset, x->len, x->local_stride, x->count, local) &&
		       within(x->remote_offset, x->len, x->remote_stride, x->count, remote);
	return x->len <= local && x->local_offset <= local - x->len && x->len <= remote &&
	       x->remote_offset <= remote - x->len;
}

/* Blocks of a run may overlap, so their bytes have no bound of their own. */
static bool add_bytes(uint64_t *sum, const struct slime_xfer *x)
{
	uint64_t bytes = x->len;

	if (x->count > 1 && __builtin_mul_overflow(bytes, (uint64_t)x->count, &bytes))
		return false;
	return !__builtin_add_overflow(*sum, bytes, sum);
}

/* The size of a batch. */
struct sum {
	uint64_t bytes;
	size_t n_runs; /* of pieces with the same local region */
};

/* The piece after x, with the regions of that one or with others. */
static inline int check_piece(struct slime_endpoint *ep, struct sl_conn *conn,
			      const struct slime_xfer *last, const struct slime_xfer *x,
			      uint32_t access, struct sum *sum)
{
	if (!last || x->local != last->local || x->remote != last->remote) {
		int ret = check_regions(ep, conn, x, access);

		if (ret)
			return ret;
		sum->n_runs += !last || x->local != last->local;
	}
	if (!fits(x))
		return -ERANGE;
	return add_bytes(&sum->bytes, x) ? 0 : -EINVAL;
}

__attribute__((always_inline)) static inline int
check_batch(struct slime_endpoint *ep, struct sl_conn *conn, const struct slime_xfer *xfers,
	    size_t n, uint32_t access, struct sum *out)
{
	int ret;

	*out = (struct sum){ 0 };
	if (!n)
		return 0;
	if (!xfers)
		return -EINVAL;
	ret = check_piece(ep, conn, NULL, xfers, access, out);
	for (size_t i = 1; i < n && !ret; i++)
		ret = check_piece(ep, conn, &xfers[i - 1], &xfers[i], access, out);
	return ret;
}

static inline uint32_t access_of(enum slime_op_kind kind)
{
	return kind == SLIME_KIND_READ ? SLIME_ACCESS_REMOTE_READ : SLIME_ACCESS_REMOTE_WRITE;
}

int sl_xfer_check(struct slime_endpoint *ep, struct sl_conn *conn, enum slime_op_kind kind,
		  const struct slime_xfer *xfers, size_t n, uint64_t *bytes)
{
	struct sum sum;
	int ret = check_batch(ep, conn, xfers, n, access_of(kind), &sum);

	*bytes = sum.bytes;
	return ret;
}

/* ---- the regions an op holds: one count for each run of pieces of the same one ---- */

static void release(struct slime_mr *mr)
{
	atomic_fetch_sub_explicit(&mr->region->n_ops, 1, memory_order_release);
}

/* Of the first n_runs runs. */
static void release_runs(const struct slime_xfer *xfers, size_t n_runs)
{
	const struct slime_mr *last = NULL;

	for (; n_runs; xfers++) {
		if (xfers->local == last)
			continue;
		last = xfers->local;
		release(xfers->local);
		n_runs--;
	}
}

static int hold_runs(const struct slime_xfer *xfers, size_t n_runs)
{
	const struct slime_mr *last = NULL;
	const struct slime_xfer *x = xfers;

	for (size_t held = 0; held < n_runs; x++) {
		if (x->local == last)
			continue;
		last = x->local;
		/* Count ourselves first, then check: a withdrawal does both the other way round. */
		atomic_fetch_add(&last->region->n_ops, 1);
		held++;
		if (atomic_load(&last->region->state) != SL_REGION_LIVE) {
			release_runs(xfers, held);
			return -EINVAL;
		}
	}
	return 0;
}

/* ---- the window of immediates ---- */

/*
 * A place is posted once and taken once. taken is read after posted, of which others may have made
 * more meanwhile: it can be ahead, and then the exchange fails and looks again.
 */
static int take_imm_place(struct slime_endpoint *ep, const struct sl_conn *conn)
{
	uint64_t posted = atomic_load_explicit(&ep->imm_posted, memory_order_relaxed);
	uint64_t taken;

	do {
		taken = atomic_load_explicit(conn->imm_taken, memory_order_acquire);
		if ((int64_t)(posted - taken) >= SL_WINDOW_IMM)
			return -EAGAIN;
	} while (!atomic_compare_exchange_weak_explicit(
		&ep->imm_posted, &posted, posted + 1, memory_order_relaxed, memory_order_relaxed));
	return 0;
}

/* Its immediate did not leave, and never will. */
static void give_imm_place(struct slime_endpoint *ep)
{
	atomic_fetch_sub_explicit(&ep->imm_posted, 1, memory_order_relaxed);
}

/* ---- submitting ---- */

static void set_work(struct sl_work *w, enum slime_op_kind kind, const struct slime_xfer *xfers,
		     size_t n, const struct sum *sum, uint32_t flags, uint32_t imm)
{
	*w = (struct sl_work){
		.kind = kind,
		.flags = flags,
		.imm = imm,
		.xfers = xfers,
		.n = n,
		.n_runs = sum->n_runs,
		.total = sum->bytes,
	};
}

static void xfer_finished(struct slime_op *op)
{
	release_runs(op->work.xfers, op->work.n_runs);
	sl_endpoint_op_count(op);
}

static void xfer_imm_finished(struct slime_op *op)
{
	if (op->status)
		give_imm_place(op->owner);
	xfer_finished(op);
}

/* The op is begun, and the endpoint entered. */
static inline int hand_over(struct slime_endpoint *ep, struct sl_conn *conn, struct slime_op *op)
{
	bool imm = op->work.kind == SLIME_KIND_WRITE_IMM;
	int ret = hold_runs(op->work.xfers, op->work.n_runs);

	if (ret)
		return ret;
	if (imm) {
		ret = take_imm_place(ep, conn);
		if (ret)
			goto release;
	}
	op->finished = imm ? xfer_imm_finished : xfer_finished;
	if (op->work.total || imm) {
		ret = sl_endpoint_submit(ep, conn, op);
		if (ret)
			goto give_place;
	} else {
		sl_op_finish(op, 0, 0);
	}
	return 0;

give_place:
	if (imm)
		give_imm_place(ep);
release:
	release_runs(op->work.xfers, op->work.n_runs);
	return ret;
}

/* For each kind by itself. */
__attribute__((always_inline)) static inline int
submit(struct slime_endpoint *ep, enum slime_op_kind kind, const struct slime_xfer *xfers, size_t n,
       uint32_t flags, uint32_t imm, struct slime_op *op)
{
	struct sl_conn *conn;
	struct sum sum;
	int ret = sl_context_check(ep->ctx);

	if (ret)
		return ret;
	if (flags & ~(uint32_t)SLIME_FENCE)
		return -EINVAL;
	ret = sl_endpoint_enter(ep, &conn);
	if (ret)
		return ret;
	ret = check_batch(ep, conn, xfers, n, access_of(kind), &sum);
	if (ret)
		goto leave;
	ret = sl_endpoint_op_begin(ep, op, kind);
	if (ret)
		goto leave;
	set_work(&op->work, kind, xfers, n, &sum, flags, imm);
	ret = hand_over(ep, conn, op);
	if (ret)
		sl_endpoint_op_abort(ep, op);
leave:
	sl_endpoint_leave(ep);
	return ret;
}

int slime_read(struct slime_endpoint *ep, const struct slime_xfer *xfers, size_t n, uint32_t flags,
	       struct slime_op *op)
{
	return submit(ep, SLIME_KIND_READ, xfers, n, flags, 0, op);
}

int slime_write(struct slime_endpoint *ep, const struct slime_xfer *xfers, size_t n, uint32_t flags,
		struct slime_op *op)
{
	return submit(ep, SLIME_KIND_WRITE, xfers, n, flags, 0, op);
}

int slime_write_imm(struct slime_endpoint *ep, const struct slime_xfer *xfers, size_t n,
		    uint32_t flags, uint32_t imm, struct slime_op *op)
{
	return submit(ep, SLIME_KIND_WRITE_IMM, xfers, n, flags, imm, op);
}

static void internal_finished(struct slime_op *op)
{
	release_runs(op->work.xfers, op->work.n_runs);
}

int sl_xfer_submit(struct slime_endpoint *ep, enum slime_op_kind kind,
		   const struct slime_xfer *xfers, size_t n, struct slime_op *op)
{
	struct sl_conn *conn;
	struct sum sum;
	int ret = sl_endpoint_enter(ep, &conn);

	if (ret)
		return ret;
	ret = check_batch(ep, conn, xfers, n, access_of(kind), &sum);
	if (!ret)
		ret = sl_op_begin(op);
	if (ret)
		goto leave;
	set_work(&op->work, kind, xfers, n, &sum, 0, 0);
	op->owner = ep;
	ret = hold_runs(xfers, sum.n_runs);
	if (ret)
		goto abort;
	op->finished = internal_finished;
	if (sum.bytes)
		ret = sl_endpoint_submit(ep, conn, op);
	else
		sl_op_finish(op, 0, 0);
	if (!ret)
		goto leave;
	release_runs(xfers, sum.n_runs);
abort:
	sl_op_abort(op);
leave:
	sl_endpoint_leave(ep);
	return ret;
}

/* ---- immediates that arrive ---- */

/* The oldest receive takes the oldest immediate; NULL: there is not one of each. Under imm_lock. */
static struct slime_op *match_imm(struct slime_endpoint *ep, uint64_t *bytes)
{
	const struct sl_arrived_imm *a = &ep->imms[ep->imm_first];
	struct slime_op *op;

	if (!ep->imm_n || sl_list_empty(&ep->imm_ops))
		return NULL;
	op = SL_CONTAINER_OF(sl_list_pop(&ep->imm_ops), struct slime_op, link);
	op->imm = a->imm;
	*bytes = a->bytes;
	ep->imm_first = (ep->imm_first + 1) % SL_WINDOW_IMM;
	ep->imm_n--;
	ep->imm_taken++;
	return op;
}

/* The peer may have another on the way. */
static void return_place(struct slime_endpoint *ep)
{
	struct sl_conn *conn;
	uint64_t taken;

	if (sl_endpoint_enter(ep, &conn))
		return;
	pthread_mutex_lock(&ep->imm_lock);
	taken = ep->imm_taken;
	pthread_mutex_unlock(&ep->imm_lock);
	conn->ops->take_imm(conn, taken);
	sl_endpoint_leave(ep);
}

/* Of what was matched, if that is any. */
static void finish_imm(struct slime_endpoint *ep, struct slime_op *op, uint64_t bytes)
{
	if (!op)
		return;
	return_place(ep);
	sl_op_finish(op, 0, bytes);
}

bool sl_xfer_on_imm(struct slime_endpoint *ep, const struct sl_msg *m)
{
	struct slime_op *matched;
	uint64_t bytes = 0;
	bool fits;

	pthread_mutex_lock(&ep->imm_lock);
	fits = ep->imm_n < SL_WINDOW_IMM;
	if (fits) {
		ep->imms[(ep->imm_first + ep->imm_n++) % SL_WINDOW_IMM] = (struct sl_arrived_imm){
			.imm = (uint32_t)m->w[0],
			.bytes = m->w[1],
		};
	}
	matched = match_imm(ep, &bytes);
	pthread_mutex_unlock(&ep->imm_lock);
	finish_imm(ep, matched, bytes);
	return fits;
}

/* Whether there is one for the next caller, behind all that wait. Under imm_lock. */
static bool is_left_over(const struct slime_endpoint *ep)
{
	uint32_t n_wait = 0;
	const struct sl_list *e;

	sl_list_for_each (e, &ep->imm_ops)
		n_wait++;
	return ep->imm_n > n_wait;
}

int slime_imm_recv(struct slime_endpoint *ep, struct slime_op *op)
{
	struct slime_op *matched = NULL;
	uint64_t bytes = 0;
	struct sl_conn *conn;
	bool connected;
	int ret = sl_context_check(ep->ctx);

	if (ret)
		return ret;
	/* An immediate that arrived can be taken, also when the link has ended. */
	connected = sl_endpoint_enter(ep, &conn) == 0;
	pthread_mutex_lock(&ep->imm_lock);
	ret = connected || is_left_over(ep) ? sl_endpoint_op_begin(ep, op, SLIME_KIND_IMM_RECV)
					    : -ENOTCONN;
	if (!ret) {
		sl_list_append(&ep->imm_ops, &op->link);
		/* Before sl_xfer_down() finds it. */
		matched = match_imm(ep, &bytes);
	}
	pthread_mutex_unlock(&ep->imm_lock);
	finish_imm(ep, matched, bytes);
	if (connected)
		sl_endpoint_leave(ep);
	return ret;
}

void sl_xfer_down(struct slime_endpoint *ep, int cause)
{
	struct sl_list ops;
	struct sl_list *e;

	sl_list_init(&ops);
	pthread_mutex_lock(&ep->imm_lock);
	sl_list_splice(&ops, &ep->imm_ops);
	pthread_mutex_unlock(&ep->imm_lock);
	while ((e = sl_list_pop(&ops)))
		sl_op_finish(SL_CONTAINER_OF(e, struct slime_op, link), cause, 0);
}
