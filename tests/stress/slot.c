/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/stress/slot.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

#include "tests/stress/node.h"
#include "tests/stress/report.h"
#include "tests/stress/side.h"

/* The result, taken while the op is still there. */
static void take_op(struct slot *slot, struct slime_op *op)
{
	slot->status = slime_op_status(op);
	slot->bytes = slime_op_bytes(op);
	slot->imm = slime_op_imm(op);
	slot->tag = slime_op_tag(op);
}

static void take_call(struct slot *slot, struct slime_call *call)
{
	const char *message = NULL;

	slot->status = slime_call_status(call);
	slot->code = slime_call_error(call, &message);
	slot->message[0] = 0;
	if (slot->status == -EREMOTEIO)
		strncat(slot->message, message, SLIME_RPC_MESSAGE_MAX);
	slot->reply_len = slot->status ? 0 : slime_call_reply_len(call);
	slot->reply_data = slot->status ? NULL : slime_call_reply_data(call);
}

static void seen(struct slot *slot)
{
	int n = atomic_fetch_add(&slot->n_seen, 1) + 1;

	if (n != 1)
		fail(slot->what, "completed %d times", n);
}

/* The end of a callback. */
static void callback_returns(struct slot *slot)
{
	if (slot->way == WAY_REAPED) {
		/* the other thread has its chance to be too early */
		for (int i = 0; i < 3; i++)
			sched_yield();
		atomic_store(&slot->returning, true);
		return;
	}
	atomic_store(&slot->returning, true);
	atomic_store_explicit(&slot->done, true, memory_order_release);
}

static void on_op(void *arg, struct slime_op *op)
{
	struct slot *slot = arg;

	if (op != slot->op)
		fail(slot->what, "another op's completion");
	if (slime_op_status(op) == 0 && atomic_load(&slot->again) > 0) {
		atomic_fetch_sub(&slot->again, 1);
		atomic_fetch_add(&slot->n_again, 1);
		if (slime_read(slot->side->ep, slot->pieces, slot->n_pieces, slot->flags, op) == 0)
			return;
	}
	seen(slot);
	take_op(slot, op);
	if (slot->way == WAY_SELF) {
		if (slime_op_destroy(op) != 0)
			fail(slot->what, "its callback cannot destroy it");
		slot->op = NULL;
	}
	callback_returns(slot);
}

static void on_call(void *arg, struct slime_call *call)
{
	struct slot *slot = arg;

	if (call != slot->call)
		fail(slot->what, "another call's end");
	seen(slot);
	take_call(slot, call);
	if (slot->way == WAY_SELF) {
		if (slime_call_destroy(call) != 0)
			fail(slot->what, "its callback cannot destroy it");
		slot->call = NULL;
	}
	callback_returns(slot);
}

void slot_dequeued(const struct slime_event *event)
{
	bool is_call = event->kind == SLIME_EVENT_CALL;
	struct slot *slot = is_call ? slime_call_arg(event->call) : slime_op_arg(event->op);

	seen(slot);
	if (is_call)
		take_call(slot, event->call);
	else
		take_op(slot, event->op);
	atomic_store_explicit(&slot->done, true, memory_order_release);
}

static enum way choose_way(struct slot *slot, struct dice *dice)
{
	enum way way = roll_below(dice, N_WAYS);

	if (way == WAY_REAPED && !board_does(slot->side->node->board, "reap"))
		way = WAY_CALLBACK;
	return way;
}

static void make_op(struct slot *slot)
{
	struct slime_op_attr attr = { .arg = slot };

	if (slot->op && slot->way == slot->op_way)
		return;
	if (slime_op_destroy(slot->op) != 0)
		fail(slot->what, "an op that is not pending cannot be destroyed");
	if (slot->way == WAY_QUEUED)
		attr.flags = SLIME_OP_QUEUED;
	else if (slot->way != WAY_WAITED)
		attr.fn = on_op;
	if (slime_op_create(slot->side->node->ctx, &attr, &slot->op) != 0)
		fail(slot->what, "no op");
	slot->op_way = slot->way;
}

static void make_call(struct slot *slot)
{
	struct slime_call_attr attr = { .arg = slot };

	if (slot->call && slot->way == slot->call_way)
		return;
	if (slime_call_destroy(slot->call) != 0)
		fail(slot->what, "a call that is not pending cannot be destroyed");
	if (slot->way == WAY_QUEUED)
		attr.flags = SLIME_CALL_QUEUED;
	else if (slot->way != WAY_WAITED)
		attr.fn = on_call;
	if (slime_call_create(slot->side->node->ctx, &attr, &slot->call) != 0)
		fail(slot->what, "no call");
	slot->call_way = slot->way;
}

void slot_check(struct slot *slot, const char *when)
{
	size_t at = 0;

	if (!image_check(&slot->image, &at))
		fail(slot->what,
		     "%s (status %d): local memory at %ld of %zu: expected %02x, is %02x", when,
		     slot->status, (long)at - SLOT_GUARD, slot->body_len, slot->image.expect[at],
		     slot->image.mem[at]);
}

void slot_begin(struct slot *slot, enum kind kind, struct dice *dice)
{
	slot_check(slot, "since its end");
	slot->kind = kind;
	slot->way = choose_way(slot, dice);
	if (kind == KIND_CALL)
		make_call(slot);
	else
		make_op(slot);
	slot->cancelled = false;
	slot->n_seen = 0;
	slot->returning = false;
	slot->done = false;
	slot->again = 0;
	slot->n_again = 0;
	slot->flags = 0;
	slot->area = -1;
	image_fill(&slot->image, roll(dice));
}

bool slot_submitted(struct slot *slot, int ret)
{
	atomic_fetch_add_explicit(&slot->side->node->board->n_ops, 1, memory_order_relaxed);
	slot->busy = ret == 0;
	if (slot->busy && slot->way == WAY_REAPED)
		node_reap(slot->side->node, slot);
	if (slot->busy)
		return true;
	memset(slot->image.known, 1, slot->image.len);
	memcpy(slot->image.expect, slot->image.mem, slot->image.len);
	return false;
}

static bool is_idle(const struct slot *slot)
{
	return slot->kind == KIND_CALL ? slime_call_test(slot->call) : slime_op_test(slot->op);
}

bool slot_collect(struct slot *slot)
{
	bool idle;

	switch (slot->way) {
	case WAY_WAITED:
		if (!is_idle(slot))
			return false;
		if (slot->kind == KIND_CALL)
			take_call(slot, slot->call);
		else
			take_op(slot, slot->op);
		return true;
	case WAY_CALLBACK:
		idle = is_idle(slot);
		if (idle && !atomic_load(&slot->returning) &&
		    board_does(slot->side->node->board, "reap"))
			fail(slot->what, "not pending before its callback returned");
		return idle && atomic_load_explicit(&slot->done, memory_order_acquire);
	default:
		return atomic_load_explicit(&slot->done, memory_order_acquire);
	}
}

bool slot_wait(struct slot *slot, int64_t timeout_ms)
{
	int ret;

	if (slot->way != WAY_WAITED && slot->way != WAY_CALLBACK && slot->way != WAY_QUEUED)
		return false;
	watch_begin(slot->what, "a wait", timeout_ms + WATCH_MS);
	ret = slot->kind == KIND_CALL ? slime_call_wait(slot->call, timeout_ms)
				      : slime_op_wait(slot->op, timeout_ms);
	watch_end();
	if (ret != 0 && ret != -ETIMEDOUT)
		fail(slot->what, "a wait: %s", strerror(-ret));
	return ret == 0;
}

/* What is idle while its callback has not returned is looked at again before it is destroyed: the
 * report then tells a call that ended too early from one that was seen wrongly. */
static void check_returned(struct slot *slot)
{
	bool began, is_idle_still;

	if (!is_idle(slot) || atomic_load(&slot->returning))
		return;
	began = atomic_load(&slot->n_seen) > 0;
	pause_us(100000);
	is_idle_still = is_idle(slot);
	fail(slot->what,
	     "idle to another thread before its callback returned; it %s; 100 ms later it is %s, and "
	     "the callback %s",
	     began ? "began" : "did not begin", is_idle_still ? "idle" : "pending",
	     atomic_load(&slot->returning)    ? "returned"
	     : atomic_load(&slot->n_seen) > 0 ? "began"
					      : "did not begin");
}

bool slot_reap(struct slot *slot)
{
	int tries = 0, ret;

	/* while its callback runs without a pause: that is where it could be too early */
	do {
		check_returned(slot);
		ret = slot->kind == KIND_CALL ? slime_call_destroy(slot->call)
					      : slime_op_destroy(slot->op);
	} while (ret == -EBUSY && atomic_load(&slot->n_seen) > 0 && ++tries < 10000);
	if (ret == -EBUSY)
		return false;
	if (ret)
		fail(slot->what, "destroy: %s", strerror(-ret));
	if (!atomic_load(&slot->returning))
		fail(slot->what, "destroyed by another thread before its callback returned");
	if (slot->kind == KIND_CALL)
		slot->call = NULL;
	else
		slot->op = NULL;
	atomic_store_explicit(&slot->done, true, memory_order_release);
	return true;
}

void slot_end(struct slot *slot)
{
	slot_check(slot, "at its end");
	/* It is ours again: what comes later is seen when it is used the next time. */
	image_fill(&slot->image, mix(slot->seed + slot->posted + (uint64_t)slot->index));
	/* But a reply that a peer on this host was copying to a region when the link ended may come
	 * until the region is withdrawn (slime_call_start()). */
	if (slot->kind == KIND_CALL && slot->lent && slot->status &&
	    (slot->side->closed_here || side_may_break(slot->side)) &&
	    slot->side->node->board->options.transport == SLIME_TRANSPORT_SHM)
		image_forget(&slot->image, SLOT_GUARD + slot->reply_off, slot->reply_cap);
	slot->busy = false;
}

void slot_fini(struct slot *slot)
{
	slot_check(slot, "since its end");
	if (slime_op_destroy(slot->op) != 0 || slime_call_destroy(slot->call) != 0 ||
	    slime_op_destroy(slot->before) != 0)
		fail(slot->what, "cannot be destroyed when all has ended");
}
