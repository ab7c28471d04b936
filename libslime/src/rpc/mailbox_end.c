/* SPDX-License-Identifier: Apache-2.0 */
/* How calls end: by a reply, by giving up, or with the link. */
#include <errno.h>
#include <sched.h>
#include <string.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "src/progress/context.h"
#include "src/core/copy.h"
#include "src/rpc/mailbox.h"
#include "src/rpc/rpc_call.h"
#include "src/endpoint/endpoint_account.h"

/* When to look again after what changes without telling us. */
#define AGAIN_NS SL_NS_PER_MS

void sl_calls_leave_regions(const struct slime_call_args *a)
{
	if (a->request_mr)
		atomic_fetch_sub(&a->request_mr->region->n_ops, 1);
	if (a->reply_mr)
		atomic_fetch_sub(&a->reply_mr->region->n_ops, 1);
}

static inline void note_latency(struct sl_mailbox *mb, const struct slime_call *call, int status)
{
	if (__builtin_expect(call->timed, 0) && !status)
		sl_endpoint_note_latency(mb->ep, SLIME_KIND_CALL, call->op.start_ns);
}

static inline void finish(struct sl_mailbox *mb, struct slime_call *call, int status)
{
	sl_calls_leave_regions(&call->args);
	note_latency(mb, call, status);
	sl_endpoint_count_call(mb->ep, status, call->reply_len);
	sl_call_is_over(call);
	sl_op_finish(&call->op, status, call->reply_len);
}

/*
 * The call has its result and no message of the peer concerns it any more. What was lent comes
 * back; a region that the peer still reads or writes delays the end. Either way a locked
 * instruction is the last that happens.
 */
static void end(struct sl_mailbox *mb, struct slime_call *call, int status)
{
	if (!call->flags || sl_loan_end(mb, call)) {
		finish(mb, call, status);
		return;
	}
	call->status = status;
	sl_list_append(&mb->draining, &call->link);
	sl_endpoint_ring(mb->ep);
}

static uint8_t *reply_room(const struct slime_call *call)
{
	const struct slime_call_args *a = &call->args;

	if (a->reply_mr)
		return a->reply_mr->region->base + a->reply_offset;
	return a->reply ? a->reply : call->own;
}

/* The reply is in the slot. */
static void take_payload(struct slime_call *call, const uint8_t *payload, size_t len)
{
	uint8_t *room = reply_room(call);

	if (len)
		memcpy(room, payload, len);
	call->reply_at = room;
	call->reply_len = len;
}

/* The reply was written to lent memory: a chunk of ours, or where it belongs. */
static void take_written(struct slime_call *call, uint64_t len)
{
	call->reply_len = len;
	if (!call->reply_chunk) {
		call->reply_at = reply_room(call);
	} else if (call->args.reply || call->args.reply_mr) {
		call->reply_at = reply_room(call);
		sl_copy_whole(reply_room(call), call->reply_chunk->addr, len);
	} else {
		call->reply_at = call->reply_chunk->addr;
	}
}

static void take_error(struct slime_call *call, const struct sl_msg *m, const uint8_t *message)
{
	call->code = (uint32_t)m->w[SL_REPLY_CODE];
	if (m->len)
		memcpy(call->message, message, m->len);
	call->message[m->len] = '\0';
	call->has_message = true;
}

/* Whether the peer may answer this call like that. */
static bool is_valid(const struct slime_call *call, const struct sl_msg *m)
{
	bool written = m->flags & SL_REPLY_WRITTEN;

	if (m->flags & ~SL_REPLY_FLAGS || m->w[SL_REPLY_STATUS] >= SL_REPLY_STATUSES)
		return false;
	switch ((enum sl_reply_status)m->w[SL_REPLY_STATUS]) {
	case SL_REPLY_OK:
		if (!written)
			return m->len <= call->args.reply_cap;
		return m->len == 0 && call->flags & SL_REPLY_LOAN &&
		       m->w[SL_REPLY_LEN] <= call->args.reply_cap;
	case SL_REPLY_ERROR:
		return !written && m->len <= SLIME_RPC_MESSAGE_MAX &&
		       m->w[SL_REPLY_CODE] <= UINT32_MAX;
	case SL_REPLY_CANCELLED:
		if (!atomic_load_explicit(&call->gave_up, memory_order_relaxed))
			return false;
		return !written && m->len == 0;
	default:
		return !written && m->len == 0;
	}
}

/* The result of the call from a valid reply, whichever. */
static int take_result(struct slime_call *call, const struct sl_msg *m, const uint8_t *payload)
{
	static const int errnos[SL_REPLY_STATUSES] = {
		[SL_REPLY_ERROR] = -EREMOTEIO,	 [SL_REPLY_NO_METHOD] = -ENOSYS,
		[SL_REPLY_TOO_LONG] = -EMSGSIZE, [SL_REPLY_CANCELLED] = -ECANCELED,
		[SL_REPLY_EXPIRED] = -ETIMEDOUT, [SL_REPLY_NO_MEMORY] = -ENOBUFS,
		[SL_REPLY_UNREACHABLE] = -EIO,
	};
	int gave_up = atomic_load_explicit(&call->gave_up, memory_order_relaxed);

	if (gave_up)
		return gave_up;
	if (m->w[SL_REPLY_STATUS] == SL_REPLY_ERROR)
		take_error(call, m, payload);
	if (m->w[SL_REPLY_STATUS] != SL_REPLY_OK)
		return errnos[m->w[SL_REPLY_STATUS]];
	if (m->flags & SL_REPLY_WRITTEN)
		take_written(call, m->w[SL_REPLY_LEN]);
	else
		take_payload(call, payload, m->len);
	return 0;
}

static __attribute__((noinline)) void serve_waiting(struct sl_mailbox *mb)
{
	struct sl_conn *conn;

	if (sl_endpoint_enter(mb->ep, &conn))
		return;
	sl_calls_dispatch(mb, conn);
	sl_endpoint_leave(mb->ep);
}

/* The slot's call has its reply, and does not look at the slot again. */
static inline void free_slot(struct sl_mailbox *mb, struct sl_call_slot *slot, unsigned n)
{
	/* The next call will write it, and the peer read it last: get it meanwhile. */
	sl_cpu_fetch_all_to_write(slot->at, slot->len);
	atomic_store_explicit(&slot->id, 0, memory_order_relaxed);
	sl_call_slots_give(&mb->free, n);
}

/*
 * The slot's call has a reply that may have met its cancel on the way. A slot has one cancel on the
 * way at most, so the next call waits until that one was read: the peer reads in order, and
 * answers a request for no method at once.
 */
static void fence_slot(struct sl_mailbox *mb, struct sl_call_slot *slot, unsigned n)
{
	struct sl_conn *conn = atomic_load_explicit(&mb->ep->conn, memory_order_relaxed);
	struct sl_msg m = {
		.kind = SL_MSG_REQUEST,
		.slot = (uint16_t)n,
		.w[SL_REQUEST_ID] = sl_call_next_id(slot, n),
		.w[SL_REQUEST_METHOD] = SL_METHOD_NONE,
	};

	atomic_store_explicit(&slot->id, 0, memory_order_relaxed);
	slot->fence = m.w[SL_REQUEST_ID];
	sl_conn_post(conn, &m);
}

/* After a fence. */
static void serve_late(void *arg)
{
	struct sl_mailbox *mb = arg;

	if (atomic_load_explicit(&mb->n_waiting, memory_order_relaxed))
		serve_waiting(mb);
}

/* A locked instruction was the last that happened. */
static inline void check_waiting(struct sl_mailbox *mb)
{
	sl_cpu_fence_after_lock();
	if (atomic_load_explicit(&mb->n_waiting, memory_order_relaxed))
		serve_waiting(mb);
}

/* Any reply; false: the peer may not say that. */
static __attribute__((noinline)) bool take_any(struct sl_mailbox *mb, const struct sl_msg *m,
					       const uint8_t *payload)
{
	struct sl_call_slot *slot = &mb->slots[m->slot];
	struct slime_call *call = slot->call;
	int status;

	if (!is_valid(call, m))
		return false;
	status = take_result(call, m, payload);
	if (slot->cancelled != m->w[SL_REPLY_ID] || m->w[SL_REPLY_STATUS] == SL_REPLY_CANCELLED)
		free_slot(mb, slot, m->slot);
	else
		fence_slot(mb, slot, m->slot);
	end(mb, call, status);
	check_waiting(mb);
	return true;
}

/* A reply that is for no call: to a fence, or the peer may not say it. */
static __attribute__((noinline)) bool take_fence(struct sl_mailbox *mb, const struct sl_msg *m)
{
	struct sl_call_slot *slot = &mb->slots[m->slot];

	if (!slot->fence || slot->fence != m->w[SL_REPLY_ID] || m->flags || m->len ||
	    m->w[SL_REPLY_STATUS] != SL_REPLY_NO_METHOD)
		return false;
	slot->fence = 0;
	sl_call_slots_give(&mb->free, m->slot);
	atomic_thread_fence(memory_order_seq_cst);
	check_waiting(mb);
	return true;
}

/* Nothing but a payload, or none, for a plain call that waits for it. */
static inline bool is_plain(const struct slime_call *call, const struct sl_msg *m)
{
	return !m->flags && m->w[SL_REPLY_STATUS] == SL_REPLY_OK && m->len < call->plain_room &&
	       !atomic_load_explicit(&call->gave_up, memory_order_relaxed);
}

static inline uint8_t *plain_room(const struct slime_call *call)
{
	return call->args.reply ? call->args.reply : call->own;
}

/* The slot's call has a plain reply, of which len bytes are in its room. */
static inline void end_plain(struct sl_mailbox *mb, struct sl_call_slot *slot, unsigned n,
			     struct slime_call *call, uint8_t *room, uint32_t len)
{
	struct sl_progress *p = &mb->ctx->progress;

	call->reply_at = room;
	call->reply_len = len;
	note_latency(mb, call, 0);
	sl_call_is_over(call);
	free_slot(mb, slot, n);
	sl_endpoint_count_call(mb->ep, 0, len);
	/* While no call waits, one check for waiting calls is enough for all answers that come
	 * together. */
	if (call->op.fn || call->op.flags & SLIME_OP_QUEUED ||
	    atomic_load_explicit(&p->n_waiting, memory_order_relaxed) ||
	    atomic_load_explicit(&mb->n_waiting, memory_order_relaxed)) {
		sl_op_finish(&call->op, 0, len);
		check_waiting(mb);
	} else {
		sl_progress_after(p, serve_late, mb);
		sl_op_finish_quietly(&call->op, len);
	}
}

static __attribute__((noinline)) bool take_plain(struct sl_mailbox *mb, const struct sl_msg *m,
						 const uint8_t *payload)
{
	struct sl_call_slot *slot = &mb->slots[m->slot];
	uint8_t *room = plain_room(slot->call);

	memcpy(room, payload, m->len);
	end_plain(mb, slot, m->slot, slot->call, room, m->len);
	return true;
}

/* Most replies are plain and short: nothing is called for them. */
bool sl_calls_reply(struct sl_mailbox *mb, const struct sl_msg *m, const uint8_t *payload)
{
	struct sl_call_slot *slot = &mb->slots[m->slot];
	uint64_t id = atomic_load_explicit(&slot->id, memory_order_acquire);
	struct slime_call *call = slot->call;
	const uint32_t len = m->len;
	uint8_t *room;

	/* The slot is the call's until its reply, so there are no late ones. */
	if (!id || id != m->w[SL_REPLY_ID])
		return take_fence(mb, m);
	if (!is_plain(call, m))
		return take_any(mb, m, payload);
	if (len > SL_SHORT_LEN)
		return take_plain(mb, m, payload);
	room = plain_room(call);
	if (len)
		sl_copy_short(room, payload, len);
	end_plain(mb, slot, m->slot, call, room, len);
	return true;
}

/* ---- deadlines, cancelled calls, memory ---- */

/* How the call ends if it gave up, or has to now; 0: it goes on. */
static int gave_up(struct slime_call *call, uint64_t now_ns)
{
	int none = 0;

	if (call->deadline_ns <= now_ns)
		atomic_compare_exchange_strong(&call->gave_up, &none, -ETIMEDOUT);
	return atomic_load(&call->gave_up);
}

/* Calls that are out: the peer is told once, and its reply ends them. */
static uint64_t check_slots(struct sl_mailbox *mb, struct sl_conn *conn, uint64_t now_ns)
{
	uint64_t next = SL_NEVER;

	for (unsigned i = 0; i < SL_CALL_SLOTS; i++) {
		struct sl_call_slot *slot = &mb->slots[i];
		uint64_t id = atomic_load_explicit(&slot->id, memory_order_acquire);
		struct sl_msg m = { .kind = SL_MSG_CANCEL,
				    .slot = (uint16_t)i,
				    .w[SL_CANCEL_ID] = id };

		if (!id || slot->cancelled == id)
			continue;
		if (!gave_up(slot->call, now_ns)) {
			next = sl_earlier(next, slot->call->deadline_ns);
		} else if (atomic_load_explicit(&slot->posted, memory_order_acquire) == id) {
			slot->cancelled = id;
			sl_conn_post(conn, &m);
		} else {
			next = sl_earlier(next, now_ns + AGAIN_NS);
		}
	}
	return next;
}

/* Calls that never left and gave up, moved from list to out. */
static uint64_t collect(struct sl_mailbox *mb, struct sl_list *list, uint64_t now_ns,
			_Atomic uint32_t *n, struct sl_list *out)
{
	uint64_t next = SL_NEVER;
	struct sl_list *e, *tmp;

	pthread_mutex_lock(&mb->lock);
	sl_list_for_each_safe (e, tmp, list) {
		struct slime_call *call = SL_CONTAINER_OF(e, struct slime_call, link);

		if (!gave_up(call, now_ns)) {
			next = sl_earlier(next, call->deadline_ns);
			continue;
		}
		sl_list_remove(e);
		atomic_fetch_sub(n, 1);
		sl_list_append(out, e);
	}
	pthread_mutex_unlock(&mb->lock);
	return next;
}

/* Memory may have come back: in the order of their start, as far as it goes. */
static void feed(struct sl_mailbox *mb, struct sl_conn *conn)
{
	for (;;) {
		struct slime_call *call;
		struct sl_list *e;
		int ret;

		pthread_mutex_lock(&mb->lock);
		e = sl_list_pop(&mb->starved);
		pthread_mutex_unlock(&mb->lock);
		if (!e)
			return;
		call = SL_CONTAINER_OF(e, struct slime_call, link);
		ret = sl_loan_begin(mb, call);
		if (ret == -EAGAIN) {
			pthread_mutex_lock(&mb->lock);
			/* Back to the front: behind the head that is before the first. */
			sl_list_append(mb->starved.next, e);
			pthread_mutex_unlock(&mb->lock);
			return;
		}
		atomic_fetch_sub(&mb->rpc->n_starved, 1);
		if (ret)
			end(mb, call, ret);
		else
			sl_calls_send_or_wait(mb, conn, call);
	}
}

static uint64_t check_draining(struct sl_mailbox *mb, uint64_t now_ns)
{
	struct sl_list *e, *tmp;

	sl_list_for_each_safe (e, tmp, &mb->draining) {
		struct slime_call *call = SL_CONTAINER_OF(e, struct slime_call, link);

		if (sl_loan_end(mb, call)) {
			sl_list_remove(e);
			finish(mb, call, call->status);
		}
	}
	return sl_list_empty(&mb->draining) ? SL_NEVER : now_ns + AGAIN_NS;
}

/* A thread that was about to show a call without having seen that it gave up has shown it by now.
 * Other threads may send inside the gate for a while: it is not passed in vain. */
static void await_starters(struct sl_mailbox *mb)
{
	uint64_t n_cancels = atomic_load(&mb->rpc->n_cancels);

	if (mb->n_cancels == n_cancels)
		return;
	mb->n_cancels = n_cancels;
	sl_call_slots_enter(&mb->free);
	sl_call_slots_leave(&mb->free);
}

uint64_t sl_calls_poll(struct sl_mailbox *mb, uint64_t now_ns)
{
	struct sl_list over;
	struct sl_list *e;
	struct sl_conn *conn;
	uint64_t next;

	if (sl_endpoint_enter(mb->ep, &conn))
		return SL_NEVER; /* down() comes */
	await_starters(mb);
	sl_list_init(&over);
	next = check_slots(mb, conn, now_ns);
	next = sl_earlier(next, collect(mb, &mb->waiting, now_ns, &mb->n_waiting, &over));
	next = sl_earlier(next, collect(mb, &mb->starved, now_ns, &mb->rpc->n_starved, &over));
	while ((e = sl_list_pop(&over))) {
		struct slime_call *call = SL_CONTAINER_OF(e, struct slime_call, link);

		end(mb, call, atomic_load(&call->gave_up));
	}
	feed(mb, conn);
	next = sl_earlier(next, check_draining(mb, now_ns));
	sl_calls_dispatch(mb, conn);
	sl_endpoint_leave(mb->ep);
	return next;
}

/* ---- the end of the link ---- */

static void end_unsent(struct sl_mailbox *mb, struct sl_list *list, int status)
{
	struct sl_list *e;

	while ((e = sl_list_pop(list))) {
		struct slime_call *call = SL_CONTAINER_OF(e, struct slime_call, link);
		int gave = atomic_load(&call->gave_up);

		end(mb, call, gave ? gave : status);
	}
}

void sl_calls_down(struct sl_mailbox *mb, int cause)
{
	bool closed_here = cause == -ECANCELED;
	uint32_t n = 0;
	struct sl_list *e;

	/* From here on no call begins; one that was about to has begun. */
	sl_call_slots_enter(&mb->free);
	sl_call_slots_leave(&mb->free);
	for (unsigned i = 0; i < SL_CALL_SLOTS; i++) {
		struct sl_call_slot *slot = &mb->slots[i];
		uint64_t id = atomic_exchange(&slot->id, 0);
		bool left = atomic_load(&slot->posted) == id;
		int gave;

		if (!id)
			continue;
		gave = atomic_load(&slot->call->gave_up);
		if (!gave)
			gave = closed_here ? -ECANCELED : left ? -ECONNRESET : -ENOTCONN;
		end(mb, slot->call, gave);
	}
	sl_list_for_each (e, &mb->starved)
		n++;
	atomic_fetch_sub(&mb->rpc->n_starved, n);
	atomic_store(&mb->n_waiting, 0);
	end_unsent(mb, &mb->waiting, closed_here ? -ECANCELED : -ENOTCONN);
	end_unsent(mb, &mb->starved, closed_here ? -ECANCELED : -ENOTCONN);
	/* The link uses nothing any more; others look at a region for a moment, and find that it is
	 * not theirs. */
	while (check_draining(mb, 0) != SL_NEVER)
		sched_yield();
}
