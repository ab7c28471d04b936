/* SPDX-License-Identifier: Apache-2.0 */
/* How calls begin. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "src/progress/context.h"
#include "src/core/copy.h"
#include "src/rpc/mailbox.h"
#include "src/rpc/rpc_call.h"
#include "src/endpoint/endpoint_account.h"

/* The lines that are fetched ahead of a slot. */
#define FETCHED_MAX SL_SLOT_SMALL

void sl_calls_init(struct sl_mailbox *mb)
{
	sl_call_slots_init(&mb->free);
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

/* ---- sending ---- */

/* Writes the slot; returns how many bytes. */
static uint32_t fill_slot(const struct slime_call *call, uint8_t *to)
{
	uint8_t *at = to;

	if (call->flags & SL_REPLY_LOAN) {
		sl_loan_write(&call->reply, at);
		at += SL_LOAN_LEN;
	}
	if (call->flags & SL_REQUEST_LOAN) {
		sl_loan_write(&call->request, at);
		at += SL_LOAN_LEN;
	} else if (call->args.request_len) {
		memcpy(at, sl_loan_request_bytes(&call->args), call->args.request_len);
		at += call->args.request_len;
	}
	return (uint32_t)(at - to);
}

/* The bytes of a request that are given to the post; NULL: they need the slot, or there are none.
 */
static const uint8_t *goes_along(const struct slime_call *call)
{
	uint64_t len = call->args.request_len;

	if (call->flags || !len || len > SL_SHORT_LEN)
		return NULL;
	return sl_loan_request_bytes(&call->args);
}

static __attribute__((noinline)) uint64_t time_left_us(uint64_t deadline_ns)
{
	uint64_t now = sl_clock_coarse_ns();

	if (deadline_ns < now + SL_NS_PER_S)
		now = sl_clock_ns();
	/* 0 means no deadline; one that is over is as short as can be said. */
	return deadline_ns > now + SL_NS_PER_US ? (deadline_ns - now) / SL_NS_PER_US : 1;
}

static inline uint64_t remaining_us(uint64_t deadline_ns)
{
	return deadline_ns == SL_NEVER ? 0 : time_left_us(deadline_ns);
}

/* The hint in the flags of a request. */
static uint8_t others_under_way(const struct sl_mailbox *mb, const struct sl_conn *conn)
{
	uint64_t n = sl_endpoint_calls_under_way(mb->ep) - 1;

	if (!conn->polls_disturb)
		return 0;
	return (uint8_t)((n < SL_REQUEST_OTHERS_MAX ? n : SL_REQUEST_OTHERS_MAX)
			 << SL_REQUEST_OTHERS_SHIFT);
}

/* The message of a call's request by that slot, with len bytes of payload. */
static inline struct sl_msg request_msg(const struct slime_call *call, uint64_t id, unsigned n,
					uint32_t len, uint8_t others)
{
	return (struct sl_msg){
		.head = sl_msg_head(SL_MSG_REQUEST, call->flags | others, (uint16_t)n, len),
		.w[SL_REQUEST_ID] = id,
		.w[SL_REQUEST_METHOD] = call->args.method,
		.w[SL_REQUEST_REMAINING_US] = remaining_us(call->deadline_ns),
		.w[SL_REQUEST_REPLY_CAP] = call->args.reply_cap,
		.w[SL_REQUEST_LEN] = call->args.request_len,
		.w[SL_REQUEST_WORDS] = 0, /* all are named: none is cleared before */
	};
}

/*
 * Whether the call gave up already; inside the gate. A canceller sets the flag first; then the
 * mailbox passes the gate and scans the slots. So either we see the flag, or the scan sees what we
 * publish before we leave the gate.
 */
static inline bool has_given_up(const struct slime_call *call)
{
	return atomic_load_explicit(&call->gave_up, memory_order_relaxed);
}

/* A request that is written, and of which the peer was not told yet. */
struct leaving {
	struct sl_post post;
	bool lost; /* there is no place for its bytes: the connection is at its end */
};

/* By a slot that was taken. */
static inline void write_request(struct sl_mailbox *mb, struct sl_conn *conn,
				 struct slime_call *call, unsigned n, struct leaving *out)
{
	struct sl_call_slot *slot = &mb->slots[n];
	const uint8_t *along = goes_along(call);
	bool in_slot = !along && (call->flags || call->args.request_len);
	uint8_t *to = in_slot ? conn->ops->slot(conn, SL_AREA_REQUEST, n) : NULL;
	uint32_t len = to ? fill_slot(call, to) : along ? (uint32_t)call->args.request_len : 0;

	out->post.m =
		request_msg(call, sl_call_next_id(slot, n), n, len, others_under_way(mb, conn));
	out->post.payload = along;
	out->post.going = along ? &slot->id : NULL;
	out->lost = in_slot && !to;
	slot->call = call;
	slot->at = to;
	slot->len = along ? 0 : len < FETCHED_MAX ? len : FETCHED_MAX;
}

/* From here on a reply ends the call: nothing of it is touched any more, since a peer may answer
 * what it was not asked yet. */
static inline void show(struct sl_call_slot *slot, const struct leaving *l)
{
	atomic_store_explicit(&slot->id, l->post.m.w[SL_REQUEST_ID], memory_order_release);
}

/* Post the request: its id, or 0 when it is not sent, and ends with the connection. */
static inline uint64_t post_request(struct sl_conn *conn, const struct leaving *l)
{
	if (l->lost)
		return 0;
	conn->ops->post(conn, &l->post, 1);
	return l->post.m.w[SL_REQUEST_ID];
}

/* Send the call by a slot that was taken, inside the gate: the request's id, which its caller notes
 * to have left; 0: it did not. */
static inline uint64_t send(struct sl_mailbox *mb, struct sl_conn *conn, struct slime_call *call,
			    unsigned n)
{
	uint64_t deadline_ns = call->deadline_ns;
	struct leaving l;
	uint64_t id;

	write_request(mb, conn, call, n, &l);
	/* A payload is read before the post itself shows the slot. */
	if (!l.post.payload)
		show(&mb->slots[n], &l);
	id = post_request(conn, &l);
	sl_mailbox_deadline(mb, deadline_ns);
	return id;
}

/* For a slot that was taken outside the gate: once the request has left, the call may have ended,
 * and the slot may belong to another call, whose request left later. */
static void send_and_note(struct sl_mailbox *mb, struct sl_conn *conn, struct slime_call *call,
			  unsigned n)
{
	struct sl_call_slot *slot = &mb->slots[n];
	uint64_t deadline_ns = call->deadline_ns;
	uint64_t id = 0, last;
	struct leaving l;
	bool gave_up;

	write_request(mb, conn, call, n, &l);
	sl_call_slots_enter(&mb->free);
	gave_up = has_given_up(call);
	if (l.post.payload)
		id = post_request(conn, &l);
	else
		show(slot, &l);
	sl_call_slots_leave(&mb->free);
	if (!l.post.payload)
		id = post_request(conn, &l);
	sl_mailbox_deadline(mb, deadline_ns);
	last = atomic_load_explicit(&slot->posted, memory_order_relaxed);
	while (last < id &&
	       !atomic_compare_exchange_weak_explicit(&slot->posted, &last, id,
						      memory_order_release, memory_order_relaxed))
		;
	if (gave_up)
		sl_endpoint_ring(mb->ep);
}

void sl_calls_dispatch(struct sl_mailbox *mb, struct sl_conn *conn)
{
	while (atomic_load(&mb->n_waiting)) {
		int slot = sl_call_slots_take(&mb->free);
		struct sl_list *e;

		if (slot < 0)
			return;
		pthread_mutex_lock(&mb->lock);
		e = sl_list_pop(&mb->waiting);
		if (e)
			atomic_fetch_sub(&mb->n_waiting, 1);
		pthread_mutex_unlock(&mb->lock);
		if (e)
			send_and_note(mb, conn, SL_CONTAINER_OF(e, struct slime_call, link),
				      (unsigned)slot);
		else
			sl_call_slots_put_back(&mb->free, (unsigned)slot);
	}
}

/* With a small slot at once, as most calls begin: 0; -EAGAIN none is free, others wait for one, or
 * the call gave up; -ENOTCONN. A thread inside the gate keeps sl_calls_down() waiting. */
static __attribute__((noinline)) int send_at_once(struct sl_mailbox *mb, struct slime_call *call)
{
	struct sl_conn *conn;
	int slot = -1;
	uint64_t id;

	sl_call_slots_enter(&mb->free);
	conn = sl_endpoint_conn(mb->ep);
	if (conn && !atomic_load(&mb->n_waiting) && !has_given_up(call))
		slot = sl_call_slots_take_small(&mb->free);
	if (slot >= 0) {
		id = send(mb, conn, call, (unsigned)slot);
		/* The slot is not taken anew before this. */
		if (id)
			atomic_store_explicit(&mb->slots[slot].posted, id, memory_order_release);
	}
	sl_call_slots_leave(&mb->free);
	if (slot >= 0)
		return 0;
	return conn ? -EAGAIN : -ENOTCONN;
}

/* ---- several at once ---- */

static inline bool goes_along_with_others(const struct slime_call *call)
{
	return call->plain_room && call->args.request_len <= SL_SHORT_LEN && !has_given_up(call);
}

/* Fills the call's slot and its message, and announces neither. The call may end from the moment
 * its bytes were read: a peer may answer before it was asked. The hint that other calls follow is
 * not set: the peer would wait for calls that leave only with the next batch. */
static inline void fill_post(struct sl_mailbox *mb, struct slime_call *call, unsigned n,
			     struct sl_post *post)
{
	struct sl_call_slot *slot = &mb->slots[n];
	uint32_t len = (uint32_t)call->args.request_len;

	slot->call = call;
	slot->len = 0;
	post->m = request_msg(call, sl_call_next_id(slot, n), n, len, 0);
	post->payload = len ? call->args.request : NULL;
	post->going = &slot->id;
}

/* Slots are not taken anew before all of this is noted. */
static void send_posts(struct sl_mailbox *mb, struct sl_conn *conn, const struct sl_post *posts,
		       uint32_t n)
{
	if (n)
		conn->ops->post(conn, posts, n);
	for (uint32_t i = 0; i < n; i++)
		atomic_store_explicit(&mb->slots[posts[i].m.slot].posted,
				      posts[i].m.w[SL_REQUEST_ID], memory_order_release);
}

/* As many of the first ones as are short and find a slot: they leave at once, or none does. */
static uint32_t send_many_at_once(struct sl_mailbox *mb, const struct slime_call_item *items,
				  uint32_t n)
{
	struct sl_post posts[SL_CALLS_AT_ONCE];
	uint64_t deadline_ns = SL_NEVER;
	struct sl_conn *conn;
	uint32_t i = 0;

	sl_call_slots_enter(&mb->free);
	conn = sl_endpoint_conn(mb->ep);
	if (conn && !atomic_load(&mb->n_waiting)) {
		for (; i < n && goes_along_with_others(items[i].call); i++) {
			int slot = sl_call_slots_take_small(&mb->free);

			if (slot < 0)
				break;
			fill_post(mb, items[i].call, (unsigned)slot, &posts[i]);
			deadline_ns = sl_earlier(deadline_ns, items[i].call->deadline_ns);
		}
		send_posts(mb, conn, posts, i);
		sl_mailbox_deadline(mb, deadline_ns);
	}
	sl_call_slots_leave(&mb->free);
	return i;
}

uint32_t sl_calls_begin_many(struct sl_mailbox *mb, const struct slime_call_item *items, uint32_t n,
			     int *why)
{
	uint32_t i = 0;

	while (i < n) {
		int ret;

		i += send_many_at_once(mb, items + i, n - i);
		if (i == n)
			break;
		ret = sl_calls_begin(mb, items[i].call);
		if (ret) {
			*why = ret;
			break;
		}
		i++;
	}
	return i;
}

/* ---- slots that come free ---- */

void sl_calls_send_or_wait(struct sl_mailbox *mb, struct sl_conn *conn, struct slime_call *call)
{
	uint64_t deadline_ns = call->deadline_ns;
	int slot = atomic_load(&mb->n_waiting) ? -1 : sl_call_slots_take(&mb->free);
	bool cancelled;

	if (slot >= 0) {
		send_and_note(mb, conn, call, (unsigned)slot);
		return;
	}
	pthread_mutex_lock(&mb->lock);
	sl_list_append(&mb->waiting, &call->link);
	atomic_fetch_add(&mb->n_waiting, 1);
	/* A scan for cancelled calls before this one held the lock, and has missed the call. */
	cancelled = atomic_load_explicit(&call->gave_up, memory_order_relaxed);
	pthread_mutex_unlock(&mb->lock);
	sl_mailbox_deadline(mb, deadline_ns);
	if (cancelled)
		sl_endpoint_ring(mb->ep);
	sl_calls_dispatch(mb, conn);
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
	uint8_t flags = sl_loan_plan(&call->args, SL_SLOT_LARGE);
	int slot;

	if (flags == call->flags || atomic_load(&mb->n_waiting))
		return -1;
	slot = sl_call_slots_take_large(&mb->free);
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

static bool is_live(const struct slime_mr *mr)
{
	return !mr || atomic_load(&mr->region->state) == SL_REGION_LIVE;
}

/* The user's regions are in use until the call ends: -EINVAL if one is being destroyed. */
static int hold_regions(const struct slime_call_args *a)
{
	/* Count ourselves first, then check: a withdrawal does both the other way round. */
	if (a->request_mr)
		atomic_fetch_add(&a->request_mr->region->n_ops, 1);
	if (a->reply_mr)
		atomic_fetch_add(&a->reply_mr->region->n_ops, 1);
	if (is_live(a->request_mr) && is_live(a->reply_mr))
		return 0;
	sl_calls_leave_regions(a);
	return -EINVAL;
}

/* The call takes the first small slot; calls that came meanwhile wait for this one. */
static void return_large(struct sl_mailbox *mb, struct slime_call *call, int slot)
{
	if (slot < 0)
		return;
	sl_call_slots_put_back(&mb->free, (unsigned)slot);
	call->flags = sl_loan_plan(&call->args, SL_SLOT_SMALL);
	if (atomic_load(&mb->n_waiting))
		sl_endpoint_ring(mb->ep);
}

/* Room, a slot if it has to be a certain one, and lent memory: 0, -EAGAIN it must wait for memory.
 */
static int prepare(struct sl_mailbox *mb, struct slime_call *call, int *slot)
{
	int ret = have_own_room(call);

	*slot = -1;
	if (ret)
		return ret;
	call->flags = sl_loan_plan(&call->args, SL_SLOT_SMALL);
	if (!call->flags)
		return 0;
	*slot = take_useful_large(mb, call);
	ret = sl_loan_begin(mb, call);
	if (ret) {
		return_large(mb, call, *slot);
		*slot = -1;
	}
	return ret;
}

static int begin_any(struct sl_mailbox *mb, struct slime_call *call)
{
	struct sl_conn *conn;
	int slot;
	int ret;
	int entered;

	/* Over which transport is known from here on. */
	if (atomic_load(&mb->ep->state) != SLIME_ENDPOINT_CONNECTED)
		return -ENOTCONN;
	ret = hold_regions(&call->args);
	if (ret)
		return ret;
	/* Outside of the endpoint: it may copy much. */
	ret = prepare(mb, call, &slot);
	if (!ret && slot < 0 && send_at_once(mb, call) == 0)
		return 0;
	entered = ret && ret != -EAGAIN ? ret : sl_endpoint_enter(mb->ep, &conn);
	if (entered) {
		return_large(mb, call, slot);
		sl_loan_forget(mb, call);
		sl_calls_leave_regions(&call->args);
		return entered;
	}
	if (ret)
		starve(mb, call);
	else if (slot >= 0)
		send_and_note(mb, conn, call, (unsigned)slot);
	else
		sl_calls_send_or_wait(mb, conn, call);
	sl_endpoint_leave(mb->ep);
	return 0;
}

int sl_calls_begin(struct sl_mailbox *mb, struct slime_call *call)
{
	/* Nothing has to be held or prepared for a plain one. */
	if (call->plain_room && send_at_once(mb, call) == 0)
		return 0;
	return begin_any(mb, call);
}
