/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The future behind slime/op.h, and where finished ones go.
 *
 * An op has one owner at a time: the caller until submit, then the thread that executes it (a
 * submitting thread, then a transport's queue), until sl_op_finish(), which is the last touch of
 * the executor.
 */
#ifndef SL_OP_H
#define SL_OP_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "src/core/region.h"
#include <slime/op.h>
#include <slime/stats.h>
#include <slime/xfer.h>

/*
 * Finished ops on their way to their owners; one per context. Callbacks are delivered by the
 * thread that makes progress (sl_completions_deliver), not by the thread that finishes the op.
 */
struct sl_completions {
	_Atomic(struct slime_op *) finished; /* a stack of ops with callbacks, newest first */
	_Atomic(struct slime_op *) due; /* taken off finished, oldest first; [token] takes them */
	_Atomic(struct slime_op *) queued; /* as finished, for slime_context_next() */
	struct slime_op *ready;		   /* taken off queued, oldest first; under ready_lock */
	atomic_flag ready_lock;
	int fd;			 /* eventfd: readable while queued or ready ops wait */
	void (*wake)(void *arg); /* wakes a thread that delivers */
	void *wake_arg;
	_Atomic uint32_t n_ops; /* created and not destroyed */
};

int sl_completions_init(struct sl_completions *c, void (*wake)(void *arg), void *wake_arg);
void sl_completions_fini(struct sl_completions *c);

/* The next op for slime_context_next(), idle again; NULL when there is none. Any thread. */
struct slime_op *sl_completions_next(struct sl_completions *c);

/* Put an op there that is idle and was not submitted: a request stands in the queue by its own. */
void sl_completions_queue(struct sl_completions *c, struct slime_op *op);

/* Whether sl_completions_deliver() has something to do. */
static inline bool sl_completions_waiting(const struct sl_completions *c)
{
	return atomic_load_explicit(&c->finished, memory_order_acquire) != NULL ||
	       atomic_load_explicit(&c->due, memory_order_relaxed) != NULL;
}

/*
 * Run callbacks of what has finished, as many as a pass may take: each may submit the next op,
 * which a submit may execute at once. For the holder of the progress token, with no lock held.
 * Returns how many; *passes grows by what they may have taken, in looks at memory.
 */
unsigned sl_completions_deliver_waiting(struct sl_completions *c, uint32_t *passes);

/* The same where mostly nothing has. */
static inline unsigned sl_completions_deliver(struct sl_completions *c, uint32_t *passes)
{
	return sl_completions_waiting(c) ? sl_completions_deliver_waiting(c, passes) : 0;
}

/* The work of an op, filled by xfer.c. The transport that executes it keeps its place here. */
struct sl_work {
	enum slime_op_kind kind;
	uint32_t flags; /* enum slime_xfer_flags */
	uint32_t imm;
	const struct slime_xfer *xfers;
	size_t n;
	size_t n_runs;	/* of pieces with the same local region, each of which is held */
	uint64_t total; /* bytes of all pieces */
	/* The place: piece, block of its run, byte of the block. */
	size_t piece;
	uint32_t block;
	uint64_t byte;
};

struct slime_op {
	/* All that a call touches: one cache line. */
	_Atomic uint32_t state; /* enum sl_op_state */
	int status;
	uint32_t imm;
	uint32_t flags;
	uint64_t bytes;
	slime_op_fn *fn;
	struct sl_completions *completions;
	struct slime_context *ctx;
	void (*finished)(struct slime_op *op); /* runs first in sl_op_finish: accounts for the op at
						  its endpoint */
	void *owner;			       /* the endpoint */

	uint64_t tag;
	void *arg;
	struct slime_op *next; /* in a stack of completions */

	/* The executor's. */
	struct sl_list link; /* in the executor's queue */
	uint64_t start_ns;   /* of an operation that is timed; 0: it is not. Of a call, its timed */
	struct sl_work work;
	uint64_t priv[4]; /* the executor's notes */
};

_Static_assert(offsetof(struct slime_op, tag) == 64, "the first line");

/*
 * IDLE -> PENDING by sl_op_begin(). PENDING -> IDLE by sl_op_finish(), or -> FINISHED and then
 * IDLE: of a queued op once slime_context_next() hands it out, of a guarded one once its callback
 * has returned. Meanwhile the thread that runs the callback, and no other, may begin the op again,
 * FINISHED -> PENDING, or destroy it.
 */
enum sl_op_state {
	SL_OP_IDLE,
	SL_OP_PENDING,
	SL_OP_FINISHED,
	SL_OP_WAITED = 4, /* added to the last two: a thread sleeps on the state word (futex) */
};

/* In flags, beside those of the user. */
enum sl_op_flags {
	SL_OP_GUARDED = 1 << 16, /* a user's; an op of the library's own is idle before its callback
				    runs, which may free it in any way */
	/* The object to which the op belongs, when slime_context_next() hands it out. */
	SL_OP_OF_CALL = 1 << 17,
	SL_OP_OF_REQUEST = 1 << 18,
};

/* Whether this thread runs the op's callback, which neither submitted nor destroyed it. */
bool sl_op_is_delivered_here(const struct slime_op *op);

/* Whether the op is not pending, as this thread sees it. */
static inline bool sl_op_is_idle(const struct slime_op *op)
{
	return atomic_load_explicit(&op->state, memory_order_acquire) == SL_OP_IDLE ||
	       sl_op_is_delivered_here(op);
}

/* sl_op_begin() of an op that is not idle: by its callback, or -EBUSY. */
int sl_op_begin_again(struct slime_op *op);

/* The op, which is not pending, is about to be destroyed. */
void sl_op_goes(const struct slime_op *op);

/* The caller hands the op over: -EBUSY when it is pending. */
static inline int sl_op_begin(struct slime_op *op)
{
	uint32_t idle = SL_OP_IDLE;

	if (atomic_compare_exchange_strong_explicit(&op->state, &idle, SL_OP_PENDING,
						    memory_order_acquire, memory_order_relaxed))
		return 0;
	return sl_op_begin_again(op);
}

/* Undo sl_op_begin of an op that was refused in the end; only the caller saw it pending. */
void sl_op_abort(struct slime_op *op);

/* The op has its result: status, and bytes when that is 0. From any thread, holding any lock; op is
 * gone after it. */
void sl_op_finish(struct slime_op *op, int status, uint64_t bytes);

/* Wake a thread that sleeps on the state of an op that is finished. */
void sl_op_wake(struct slime_op *op);

/* Make the op idle: the last access. */
static inline void sl_op_give_back(struct slime_op *op)
{
	if (atomic_exchange_explicit(&op->state, SL_OP_IDLE, memory_order_acq_rel) & SL_OP_WAITED)
		sl_op_wake(op);
}

/* As sl_op_finish(), of an op without callback, queue and accounting. A thread that sleeps on it
 * is not woken before sl_progress_run_after(). */
static inline void sl_op_finish_quietly(struct slime_op *op, uint64_t bytes)
{
	op->status = 0;
	op->bytes = bytes;
	atomic_store_explicit(&op->state, SL_OP_IDLE, memory_order_release);
}

/* An op of the library's own, embedded in something of its own. */
void sl_op_init(struct slime_op *op, struct slime_context *ctx, struct sl_completions *c,
		slime_op_fn *fn, void *arg);

/* One contiguous stretch of a batch. */
struct sl_piece {
	uint8_t *local;
	const struct slime_remote_mr *remote;
	uint64_t remote_offset;
	uint64_t len;
};

/* sl_work_at() where there is something to leave behind. */
const struct slime_xfer *sl_work_skip(struct sl_work *w);

/* The piece that the work stands at: empty and finished ones are left behind. NULL: nothing is
 * left.
 */
static inline const struct slime_xfer *sl_work_at(struct sl_work *w)
{
	if (w->piece >= w->n)
		return NULL;
	if (!w->block && w->xfers[w->piece].len)
		return &w->xfers[w->piece];
	return sl_work_skip(w);
}

/* Where in the peer's region the work stands, in x. */
static inline uint64_t sl_work_remote_offset(const struct sl_work *w, const struct slime_xfer *x)
{
	return x->remote_offset + w->block * x->remote_stride + w->byte;
}

/* The work, which stands in x, goes on by len bytes: at most what is left of the block. */
static inline void sl_work_pass(struct sl_work *w, const struct slime_xfer *x, uint64_t len)
{
	if (len < x->len - w->byte) {
		w->byte += len;
		return;
	}
	w->byte = 0;
	if (x->count > 1)
		w->block++;
	else
		w->piece++;
}

/* sl_work_next() where the piece is split, a run, or may continue in the next. */
bool sl_work_next_part(struct sl_work *w, uint64_t max, struct sl_piece *out);

/*
 * The next stretch of at most max bytes from the work's place, which moves on by as much. Adjacent
 * pieces are merged. Returns false when nothing is left.
 */
static inline bool sl_work_next(struct sl_work *w, uint64_t max, struct sl_piece *out)
{
	const struct slime_xfer *x = sl_work_at(w);

	if (!x || x->count > 1 || w->byte || x->len > max ||
	    (w->piece + 1 < w->n && x[1].remote_offset == x->remote_offset + x->len))
		return sl_work_next_part(w, max, out);
	*out = (struct sl_piece){
		.local = x->local->region->base + x->local_offset,
		.remote = x->remote,
		.remote_offset = x->remote_offset,
		.len = x->len,
	};
	w->piece++;
	return true;
}

#endif
