/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cpu.h"
#include "src/core/futex.h"
#include "src/core/op.h"
#include "src/core/region.h"

/* Callbacks that run in one pass, and about the bytes that they move if each submits again what
 * ended. */
#define CALLBACKS_PER_PASS 64
#define BYTES_PER_PASS	   (UINT64_C(256) << 10)
/* The weight of each, in passes that only read memory. */
#define PASSES_PER_CALLBACK 8
#define BYTES_OF_ONE_PASS   (UINT64_C(16) << 10)

int sl_completions_init(struct sl_completions *c, void (*wake)(void *arg), void *wake_arg)
{
	*c = (struct sl_completions){ .wake = wake, .wake_arg = wake_arg };
	atomic_flag_clear(&c->ready_lock);
	c->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return c->fd < 0 ? -errno : 0;
}

void sl_completions_fini(struct sl_completions *c)
{
	close(c->fd);
}

/* Whether the stack was empty. */
static bool push(_Atomic(struct slime_op *) *stack, struct slime_op *op)
{
	struct slime_op *head = atomic_load_explicit(stack, memory_order_relaxed);

	do {
		op->next = head;
	} while (!atomic_compare_exchange_weak_explicit(stack, &head, op, memory_order_seq_cst,
							memory_order_relaxed));
	return head == NULL;
}

/* All of the stack, oldest first. */
static struct slime_op *take_all(_Atomic(struct slime_op *) *stack)
{
	struct slime_op *op = atomic_exchange_explicit(stack, NULL, memory_order_acquire);
	struct slime_op *first = NULL;

	while (op) {
		struct slime_op *next = op->next;

		op->next = first;
		first = op;
		op = next;
	}
	return first;
}

/* The callback that this thread runs: of op, which is pending to all other threads. */
static SL_PER_THREAD struct {
	struct slime_op *op; /* NULL: none, or the callback destroyed it */
	bool again;	     /* the callback submitted it again */
} delivering;

bool sl_op_is_delivered_here(const struct slime_op *op)
{
	return delivering.op == op && !delivering.again;
}

int sl_op_begin_again(struct slime_op *op)
{
	if (!sl_op_is_delivered_here(op))
		return -EBUSY;
	delivering.again = true;
	atomic_fetch_sub_explicit(&op->state, SL_OP_FINISHED - SL_OP_PENDING, memory_order_acquire);
	return 0;
}

void sl_op_goes(const struct slime_op *op)
{
	if (delivering.op == op)
		delivering.op = NULL;
}

static void run_guarded(struct slime_op *op)
{
	delivering.op = op;
	delivering.again = false;
	op->fn(op->arg, op);
	if (sl_op_is_delivered_here(op))
		sl_op_give_back(op);
	delivering.op = NULL;
}

static void run_callback(struct slime_op *op)
{
	slime_op_fn *fn = op->fn;
	void *arg = op->arg;

	if (op->flags & SL_OP_GUARDED) {
		run_guarded(op);
		return;
	}
	sl_op_give_back(op);
	fn(arg, op);
}

unsigned sl_completions_deliver_waiting(struct sl_completions *c, uint32_t *passes)
{
	struct slime_op *op = atomic_load_explicit(&c->due, memory_order_relaxed);
	uint64_t bytes = 0;
	unsigned n = 0;

	if (!op)
		op = take_all(&c->finished);
	while (op && n < CALLBACKS_PER_PASS && bytes < BYTES_PER_PASS) {
		struct slime_op *next = op->next;

		/* The next op that the callback submits is likely as long. */
		bytes += op->bytes;
		run_callback(op);
		op = next;
		n++;
	}
	atomic_store_explicit(&c->due, op, memory_order_relaxed);
	*passes += (uint32_t)(n * PASSES_PER_CALLBACK + bytes / BYTES_OF_ONE_PASS);
	return n;
}

static void ring(int fd)
{
	uint64_t one = 1;
	ssize_t n = write(fd, &one, sizeof(one));

	/* A full counter is readable already. */
	(void)n;
}

/* The descriptor is readable no more; what came before that was so is told of again. */
static struct slime_op *take_after_drain(struct sl_completions *c)
{
	uint64_t count;
	ssize_t n = read(c->fd, &count, sizeof(count));
	struct slime_op *op = take_all(&c->queued);

	/* Empty is normal. */
	(void)n;
	if (op)
		ring(c->fd);
	return op;
}

struct slime_op *sl_completions_next(struct sl_completions *c)
{
	struct slime_op *op;

	/* Its holder may have lost the CPU in a system call. */
	while (atomic_flag_test_and_set_explicit(&c->ready_lock, memory_order_acquire))
		sched_yield();
	if (!c->ready)
		c->ready = take_all(&c->queued);
	if (!c->ready)
		c->ready = take_after_drain(c);
	op = c->ready;
	if (op)
		c->ready = op->next;
	atomic_flag_clear_explicit(&c->ready_lock, memory_order_release);

	if (op)
		sl_op_give_back(op);
	return op;
}

void sl_completions_queue(struct sl_completions *c, struct slime_op *op)
{
	if (push(&c->queued, op))
		ring(c->fd);
}

void sl_op_abort(struct slime_op *op)
{
	op->finished = NULL;
	if (delivering.op == op) {
		/* Its callback goes on. */
		delivering.again = false;
		atomic_fetch_add_explicit(&op->state, SL_OP_FINISHED - SL_OP_PENDING,
					  memory_order_release);
		return;
	}
	/* Another thread may have come to wait for it already. */
	sl_op_give_back(op);
}

void sl_op_wake(struct slime_op *op)
{
	sl_futex_wake(&op->state);
}

void sl_op_finish(struct slime_op *op, int status, uint64_t bytes)
{
	struct sl_completions *c = op->completions;
	void (*finished)(struct slime_op *) = op->finished;

	op->status = status;
	op->bytes = status ? 0 : bytes;
	op->finished = NULL;
	if (finished)
		finished(op);

	if (!op->fn && !(op->flags & SLIME_OP_QUEUED)) {
		sl_op_give_back(op);
		return;
	}
	atomic_fetch_add_explicit(&op->state, SL_OP_FINISHED - SL_OP_PENDING, memory_order_acq_rel);
	if (op->fn) {
		if (push(&c->finished, op))
			c->wake(c->wake_arg);
	} else {
		sl_completions_queue(c, op);
	}
}

void sl_op_init(struct slime_op *op, struct slime_context *ctx, struct sl_completions *c,
		slime_op_fn *fn, void *arg)
{
	*op = (struct slime_op){ .fn = fn, .arg = arg, .completions = c, .ctx = ctx };
	sl_list_init(&op->link);
}

const struct slime_xfer *sl_work_skip(struct sl_work *w)
{
	while (w->piece < w->n) {
		const struct slime_xfer *x = &w->xfers[w->piece];

		/* A count of 0 is a count of 1. */
		if (x->len && (!w->block || w->block < x->count))
			return x;
		w->piece++;
		w->block = 0;
		w->byte = 0;
	}
	return NULL;
}

static uint8_t *local_place(const struct sl_work *w, const struct slime_xfer *x)
{
	return x->local->region->base + x->local_offset + w->block * x->local_stride + w->byte;
}

/* The work goes on by what there is of its block, at most max bytes: how many. */
static uint64_t advance(struct sl_work *w, const struct slime_xfer *x, uint64_t max)
{
	uint64_t left = x->len - w->byte;
	uint64_t len = left < max ? left : max;

	sl_work_pass(w, x, len);
	return len;
}

bool sl_work_next_part(struct sl_work *w, uint64_t max, struct sl_piece *out)
{
	const struct slime_xfer *x = sl_work_at(w);
	uint64_t len;

	if (!x)
		return false;
	out->local = local_place(w, x);
	out->remote = x->remote;
	out->remote_offset = sl_work_remote_offset(w, x);
	len = advance(w, x, max);
	while (len < max && (x = sl_work_at(w)) && x->remote == out->remote &&
	       sl_work_remote_offset(w, x) == out->remote_offset + len &&
	       local_place(w, x) == out->local + len)
		len += advance(w, x, max - len);
	out->len = len;
	return true;
}
