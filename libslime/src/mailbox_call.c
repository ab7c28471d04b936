/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "src/context.h"
#include "src/copy.h"
#include "src/mailbox.h"
#include "src/rpc_call.h"

/* The slot is in these bits of a request's id. */
#define ID_SLOT_BITS 8
/* When to look again after what changes without telling us. */
#define AGAIN_NS SL_NS_PER_MS

/* What is fetched ahead of a slot. */
#define FETCHED_MAX SL_SLOT_SMALL

_Static_assert(SL_CALL_SLOTS < 1 << ID_SLOT_BITS, "a slot fits an id");
_Static_assert(SL_CALL_SLOTS_SMALL == 64, "one word has a bit for each small slot");

void sl_calls_init(struct sl_mailbox *mb)
{
	atomic_flag_clear(&mb->gate);
	mb->free_small = UINT64_MAX;
	atomic_init(&mb->free_large, (UINT64_C(1) << SL_CALL_SLOTS_LARGE) - 1);
	pthread_mutex_init(&mb->lock, NULL);
	sl_list_init(&mb->waiting);
	sl_list_init(&mb->starved);
	sl_list_init(&mb->draining);
	sl_account_init(&mb->calling, true);
}

void sl_calls_fini(struct sl_mailbox *mb)
{
	sl_pool_drop(&mb->rpc->pool, &mb->calling);
	pthread_mutex_destroy(&mb->lock);
}

/* ---- slots ---- */

static void lock_gate(struct sl_mailbox *mb)
{
	while (atomic_flag_test_and_set_explicit(&mb->gate, memory_order_acquire))
		sched_yield();
}

static void unlock_gate(struct sl_mailbox *mb)
{
	atomic_flag_clear_explicit(&mb->gate, memory_order_release);
}

/* The lowest one, which was used last if calls are few; -1: all are taken. Inside the gate. */
static int take_small(struct sl_mailbox *mb)
{
	int slot;

	if (atomic_load(&mb->given_small))
		mb->free_small |= atomic_exchange(&mb->given_small, 0);
	if (!mb->free_small)
		return -1;
	slot = __builtin_ctzll(mb->free_small);
	mb->free_small &= mb->free_small - 1;
	return slot;
}

static int take_large(struct sl_mailbox *mb)
{
	uint64_t m = atomic_load_explicit(&mb->free_large, memory_order_relaxed);

	while (m) {
		if (atomic_compare_exchange_weak_explicit(&mb->free_large, &m, m & (m - 1),
							  memory_order_acquire,
							  memory_order_relaxed))
			return __builtin_ctzll(m) + SL_CALL_SLOTS_SMALL;
	}
	return -1;
}

/* Any slot, better a small one; -1: all are taken. */
static int take_slot(struct sl_mailbox *mb)
{
	int slot;

	lock_gate(mb);
	slot = take_small(mb);
	unlock_gate(mb);
	return slot < 0 ? take_large(mb) : slot;
}

/* Who waits counts himself, then looks for a slot; who gives one back looks at the count
 * afterwards. */
static void give_slot(struct sl_mailbox *mb, unsigned slot)
{
	if (slot < SL_CALL_SLOTS_SMALL)
		atomic_fetch_or(&mb->given_small, UINT64_C(1) << slot);
	else
		atomic_fetch_or(&mb->free_large, UINT64_C(1) << (slot - SL_CALL_SLOTS_SMALL));
}

/* ---- sending ---- */

/* Writes the slot; returns how many bytes. */
static uint32_t fill_slot(const struct slime_call *call, uint8_t *to)
{
	uint8_t *at = to;

	if (call->flags & SL_REPLY_LENT) {
		sl_lent_write(&call->reply, at);
		at += SL_LENT_LEN;
	}
	if (call->flags & SL_REQUEST_LENT) {
		sl_lent_write(&call->request, at);
		at += SL_LENT_LEN;
	} else if (call->args.request_len) {
		memcpy(at, sl_lend_request_bytes(&call->args), call->args.request_len);
		at += call->args.request_len;
	}
	return (uint32_t)(at - to);
}

/* The bytes of a request that leave with the message itself; NULL: they need the slot, or there are
 * none. */
static const uint8_t *goes_along(const struct sl_conn *conn, const struct slime_call *call)
{
	uint64_t len = call->args.request_len;

	if (call->flags || !len || len > SL_SHORT_LEN || !conn->ops->post_short)
		return NULL;
	return sl_lend_request_bytes(&call->args);
}

static uint64_t remaining_us(uint64_t deadline_ns)
{
	uint64_t now;

	if (deadline_ns == SL_NEVER)
		return 0;
	now = sl_clock_coarse_ns();
	if (deadline_ns < now + SL_NS_PER_S)
		now = sl_clock_ns();
	/* 0 means no deadline; one that is over is as short as can be said. */
	return deadline_ns > now + SL_NS_PER_US ? (deadline_ns - now) / SL_NS_PER_US : 1;
}

/* The hint in the flags of a request. */
static uint8_t others_under_way(const struct sl_mailbox *mb, const struct sl_conn *conn)
{
	uint64_t n = sl_endpoint_calls_under_way(mb->ep) - 1;

	if (!conn->looks_disturb)
		return 0;
	return (uint8_t)((n < SL_REQUEST_OTHERS_MAX ? n : SL_REQUEST_OTHERS_MAX)
			 << SL_REQUEST_OTHERS_SHIFT);
}

/* Send the call by a slot that was taken. The call may have ended when this returns. */
static void send(struct sl_mailbox *mb, struct sl_conn *conn, struct slime_call *call, unsigned n)
{
	struct sl_call_slot *slot = &mb->slots[n];
	uint64_t id = ++slot->generation << ID_SLOT_BITS | n;
	uint64_t deadline_ns = call->deadline_ns;
	const uint8_t *along = goes_along(conn, call);
	bool in_slot = !along && (call->flags || call->args.request_len);
	uint8_t *to = in_slot ? conn->ops->slot(conn, SL_AREA_REQUEST, n) : NULL;
	uint32_t len = to ? fill_slot(call, to) : along ? (uint32_t)call->args.request_len : 0;
	struct sl_msg m = {
		.head = sl_msg_head(SL_MSG_REQUEST, call->flags | others_under_way(mb, conn),
				    (uint16_t)n, len),
		.w[SL_REQUEST_ID] = id,
		.w[SL_REQUEST_METHOD] = call->args.method,
		.w[SL_REQUEST_REMAINING_US] = remaining_us(deadline_ns),
		.w[SL_REQUEST_REPLY_CAP] = call->args.reply_cap,
		.w[SL_REQUEST_LEN] = call->args.request_len,
	};

	slot->call = call;
	slot->at = to;
	slot->len = along ? 0 : len < FETCHED_MAX ? len : FETCHED_MAX;
	atomic_store_explicit(&slot->id, id, memory_order_release);
	/* Without a place to write to the connection is at its end, which ends the call, too. */
	if (to || !in_slot) {
		if (along)
			conn->ops->post_short(conn, &m, along);
		else
			conn->ops->post(conn, &m);
		atomic_store_explicit(&slot->posted, id, memory_order_release);
	}
	sl_mailbox_deadline(mb, deadline_ns);
}

/* As long as there are both, slots go to the calls that wait for one. */
static void dispatch(struct sl_mailbox *mb, struct sl_conn *conn)
{
	while (atomic_load(&mb->n_waiting)) {
		int slot = take_slot(mb);
		struct sl_list *e;

		if (slot < 0)
			return;
		pthread_mutex_lock(&mb->lock);
		e = sl_list_pop(&mb->waiting);
		if (e)
			atomic_fetch_sub(&mb->n_waiting, 1);
		pthread_mutex_unlock(&mb->lock);
		if (e)
			send(mb, conn, SL_CONTAINER_OF(e, struct slime_call, link), (unsigned)slot);
		else
			give_slot(mb, (unsigned)slot);
	}
}

/* With a small slot at once, as most calls begin: 0; -EAGAIN none is free, or others wait for one;
 * -ENOTCONN. Who is inside the gate keeps sl_calls_down() waiting. */
static int send_at_once(struct sl_mailbox *mb, struct slime_call *call)
{
	struct sl_conn *conn;
	int slot = -1;

	lock_gate(mb);
	conn = sl_endpoint_conn(mb->ep);
	if (conn && !atomic_load(&mb->n_waiting))
		slot = take_small(mb);
	if (slot >= 0)
		send(mb, conn, call, (unsigned)slot);
	unlock_gate(mb);
	if (slot >= 0)
		return 0;
	return conn ? -EAGAIN : -ENOTCONN;
}

/* Everything is lent: go, or wait for a slot behind those that do. */
static void send_or_wait(struct sl_mailbox *mb, struct sl_conn *conn, struct slime_call *call)
{
	uint64_t deadline_ns = call->deadline_ns;
	int slot = atomic_load(&mb->n_waiting) ? -1 : take_slot(mb);

	if (slot >= 0) {
		send(mb, conn, call, (unsigned)slot);
		return;
	}
	pthread_mutex_lock(&mb->lock);
	sl_list_append(&mb->waiting, &call->link);
	atomic_fetch_add(&mb->n_waiting, 1);
	pthread_mutex_unlock(&mb->lock);
	sl_mailbox_deadline(mb, deadline_ns);
	dispatch(mb, conn);
}

static void starve(struct sl_mailbox *mb, struct slime_call *call)
{
	pthread_mutex_lock(&mb->lock);
	sl_list_append(&mb->starved, &call->link);
	pthread_mutex_unlock(&mb->lock);
	atomic_fetch_add(&mb->rpc->n_starved, 1);
	/* Memory that came back before we counted is found now; and the deadline is seen. */
	sl_endpoint_ring(mb->ep);
}

/* A large slot if that saves lending; -1: there is none, or it saves nothing. */
static int take_useful_large(struct sl_mailbox *mb, struct slime_call *call)
{
	uint8_t flags = sl_lend_plan(&call->args, SL_SLOT_LARGE);
	int slot;

	if (flags == call->flags || atomic_load(&mb->n_waiting))
		return -1;
	slot = take_large(mb);
	if (slot >= 0)
		call->flags = flags;
	return slot;
}

/* Room for a reply that comes in a slot and that the call keeps. */
static int have_own_room(struct slime_call *call)
{
	size_t need = call->args.reply_cap;
	uint8_t *own;

	if (call->args.reply || call->args.reply_mr || need <= call->own_len)
		return 0;
	need = need > SL_SLOT_SMALL ? SL_SLOT_LARGE : SL_SLOT_SMALL;
	if (need <= call->own_len)
		return 0;
	own = realloc(call->own, need);
	if (!own)
		return -ENOMEM;
	call->own = own;
	call->own_len = need;
	return 0;
}

/* The user's regions are in use until the call ends. */
static void hold_regions(const struct slime_call_args *a)
{
	if (a->request_mr)
		atomic_fetch_add(&a->request_mr->region->n_ops, 1);
	if (a->reply_mr)
		atomic_fetch_add(&a->reply_mr->region->n_ops, 1);
}

static void leave_regions(const struct slime_call_args *a)
{
	if (a->request_mr)
		atomic_fetch_sub(&a->request_mr->region->n_ops, 1);
	if (a->reply_mr)
		atomic_fetch_sub(&a->reply_mr->region->n_ops, 1);
}

/* The call goes by the small slot that comes first. */
static void return_large(struct sl_mailbox *mb, struct slime_call *call, int slot)
{
	if (slot < 0)
		return;
	give_slot(mb, (unsigned)slot);
	call->flags = sl_lend_plan(&call->args, SL_SLOT_SMALL);
}

/* Room, a slot if it has to be a certain one, and lent memory: 0, -EAGAIN it must wait for memory.
 */
static int prepare(struct sl_mailbox *mb, struct slime_call *call, int *slot)
{
	int ret = have_own_room(call);

	*slot = -1;
	if (ret)
		return ret;
	call->flags = sl_lend_plan(&call->args, SL_SLOT_SMALL);
	if (!call->flags)
		return 0;
	*slot = take_useful_large(mb, call);
	ret = sl_lend(mb, call);
	if (ret) {
		return_large(mb, call, *slot);
		*slot = -1;
	}
	return ret;
}

int sl_calls_begin(struct sl_mailbox *mb, struct slime_call *call)
{
	struct sl_conn *conn;
	int slot;
	int ret;
	int entered;

	/* Over which transport is known from here on. */
	if (atomic_load(&mb->ep->state) != SLIME_ENDPOINT_CONNECTED)
		return -ENOTCONN;
	hold_regions(&call->args);
	/* Outside of the endpoint: it may copy much. */
	ret = prepare(mb, call, &slot);
	if (!ret && slot < 0 && send_at_once(mb, call) == 0)
		return 0;
	entered = ret && ret != -EAGAIN ? ret : sl_endpoint_enter(mb->ep, &conn);
	if (entered) {
		return_large(mb, call, slot);
		sl_lend_forget(mb, call);
		leave_regions(&call->args);
		return entered;
	}
	if (ret)
		starve(mb, call);
	else if (slot >= 0)
		send(mb, conn, call, (unsigned)slot);
	else
		send_or_wait(mb, conn, call);
	sl_endpoint_leave(mb->ep);
	return 0;
}

/* ---- the end of a call ---- */

static void finish(struct slime_call *call)
{
	leave_regions(&call->args);
	sl_op_finish(&call->op, call->status, call->reply_len);
}

/*
 * The call has its result and no message of the peer concerns it any more. What was lent comes
 * back; a region that the peer still reads or writes delays the end.
 */
static void end(struct sl_mailbox *mb, struct slime_call *call, int status)
{
	call->status = status;
	if (sl_lend_take_back(mb, call)) {
		finish(call);
		return;
	}
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
		return m->len == 0 && call->flags & SL_REPLY_LENT &&
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

/* The result of the call from a valid reply. */
static int take_reply(struct slime_call *call, const struct sl_msg *m, const uint8_t *payload)
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

bool sl_calls_reply(struct sl_mailbox *mb, const struct sl_msg *m, const uint8_t *payload)
{
	struct sl_call_slot *slot = &mb->slots[m->slot];
	uint64_t id = atomic_load_explicit(&slot->id, memory_order_acquire);
	struct slime_call *call = slot->call;
	struct sl_conn *conn;
	int status;

	/* The slot is the call's until its reply, so there are no late ones: this is for nobody. */
	if (!id || id != m->w[SL_REPLY_ID] || !is_valid(call, m))
		return false;
	status = take_reply(call, m, payload);
	/* The next call will write it, and the peer read it last: get it meanwhile. */
	sl_cpu_fetch_all_to_write(slot->at, slot->len);
	atomic_store_explicit(&slot->id, 0, memory_order_relaxed);
	give_slot(mb, m->slot);
	end(mb, call, status);
	if (atomic_load(&mb->n_waiting) && sl_endpoint_enter(mb->ep, &conn) == 0) {
		dispatch(mb, conn);
		sl_endpoint_leave(mb->ep);
	}
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
static uint64_t look_at_slots(struct sl_mailbox *mb, struct sl_conn *conn, uint64_t now_ns)
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
			conn->ops->post(conn, &m);
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
		ret = sl_lend(mb, call);
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
			send_or_wait(mb, conn, call);
	}
}

static uint64_t look_at_draining(struct sl_mailbox *mb, uint64_t now_ns)
{
	struct sl_list *e, *tmp;

	sl_list_for_each_safe (e, tmp, &mb->draining) {
		struct slime_call *call = SL_CONTAINER_OF(e, struct slime_call, link);

		if (sl_lend_take_back(mb, call)) {
			sl_list_remove(e);
			finish(call);
		}
	}
	return sl_list_empty(&mb->draining) ? SL_NEVER : now_ns + AGAIN_NS;
}

uint64_t sl_calls_look(struct sl_mailbox *mb, uint64_t now_ns)
{
	struct sl_list over;
	struct sl_list *e;
	struct sl_conn *conn;
	uint64_t next;

	if (sl_endpoint_enter(mb->ep, &conn))
		return SL_NEVER; /* down() comes */
	sl_list_init(&over);
	next = look_at_slots(mb, conn, now_ns);
	next = sl_earlier(next, collect(mb, &mb->waiting, now_ns, &mb->n_waiting, &over));
	next = sl_earlier(next, collect(mb, &mb->starved, now_ns, &mb->rpc->n_starved, &over));
	while ((e = sl_list_pop(&over))) {
		struct slime_call *call = SL_CONTAINER_OF(e, struct slime_call, link);

		end(mb, call, atomic_load(&call->gave_up));
	}
	feed(mb, conn);
	next = sl_earlier(next, look_at_draining(mb, now_ns));
	dispatch(mb, conn);
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

	/* From here on nobody begins; who is about to has begun. */
	lock_gate(mb);
	unlock_gate(mb);
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
	look_at_draining(mb, 0);
}
