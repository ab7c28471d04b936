/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/poison.h"
#include "src/progress/context.h"
#include "src/core/copy.h"
#include "src/endpoint/endpoint.h"
#include "src/rpc/rpc_request.h"
#include "src/endpoint/endpoint_account.h"
#include "src/endpoint/xfer.h"

/* The request whose inline handler runs on this thread, which has the token: no other thread uses
 * it. None of a worker's: once answered it may come again, as another handler's. */
static SL_PER_THREAD struct slime_rpc_request *handling;

/* ---- the life of a request ---- */

struct slime_rpc_request *sl_request_create(struct sl_mailbox *mb, unsigned slot)
{
	struct sl_conn *conn = atomic_load_explicit(&mb->ep->conn, memory_order_relaxed);
	struct slime_rpc_request *req =
		aligned_alloc(_Alignof(struct slime_rpc_request), sizeof(*req));

	if (!req)
		return NULL;
	memset(req, 0, sizeof(*req));
	req->mb = mb;
	req->ctx = mb->ctx;
	req->rpc = mb->rpc;
	req->slot = (uint16_t)slot;
	req->reply_slot = conn->ops->slot(conn, SL_AREA_REPLY, slot);
	sl_list_init(&req->link);
	sl_list_init(&req->job.link);
	return req;
}

void sl_request_destroy(struct slime_rpc_request *req)
{
	free(req->copy);
	free(req->draft);
	free(req);
}

static bool is_short(const struct slime_rpc_request *req, uint64_t len)
{
	return len <= sl_slot_len(SL_AREA_REPLY, req->slot);
}

static bool is_in_place(const struct slime_rpc_request *req)
{
	return req->method->attr.flags & SLIME_RPC_IN_PLACE;
}

bool sl_request_expired(const struct slime_rpc_request *req)
{
	return req->deadline_ns != SL_NEVER && req->deadline_ns <= sl_clock_ns();
}

void sl_request_handle(struct slime_rpc_request *req)
{
	const struct slime_rpc_method_attr *method = &req->method->attr;

	handling = method->flags & SLIME_RPC_INLINE ? req : NULL;
	method->fn(method->arg, req);
	handling = NULL;
}

static void put_chunk(struct slime_rpc_request *req, struct sl_chunk **chunk)
{
	if (*chunk)
		sl_rpc_put_chunk(req->rpc, *chunk);
	*chunk = NULL;
}

/* The slot's next request may come: the last touch. The bytes of the answer were read. */
static void let_go(struct slime_rpc_request *req)
{
	put_chunk(req, &req->in);
	put_chunk(req, &req->out);
	if (req->copy)
		sl_poison(req->copy, sl_slot_len(SL_AREA_REQUEST, req->slot));
	if (req->draft)
		sl_poison(req->draft, sl_slot_len(SL_AREA_REPLY, req->slot));
	req->buffer = NULL;
	req->in_room = false;
	atomic_store_explicit(&req->state, SL_REQUEST_FREE, memory_order_release);
}

void sl_request_drop(struct slime_rpc_request *req)
{
	let_go(req);
}

/* ---- requests whose callers stopped waiting ---- */

bool sl_request_detach(struct slime_rpc_request *req, enum sl_request_state state)
{
	bool is_bounded = state == SL_REQUEST_DETACHED_CANCELLED;
	uint32_t held = SL_REQUEST_HELD;
	struct sl_mailbox *mb = req->mb;
	struct sl_rpc *rpc = req->rpc;
	bool detached = false;

	pthread_mutex_lock(&rpc->detached_lock);
	if (!is_bounded ||
	    (mb->n_detached < SL_DETACHED_SHARE && rpc->n_detached < SL_DETACHED_MAX))
		detached = atomic_compare_exchange_strong(&req->state, &held, state);
	/* Its handler may be at dispose(). */
	if (detached) {
		sl_rpc_add_child(req->ctx);
		sl_list_append(&rpc->detached, &req->link);
		req->sharer = mb;
		mb->n_detached++;
		rpc->n_detached++;
	}
	pthread_mutex_unlock(&rpc->detached_lock);
	return detached;
}

void sl_requests_forget(struct sl_mailbox *mb)
{
	struct sl_list *e, *tmp;

	pthread_mutex_lock(&mb->rpc->detached_lock);
	sl_list_for_each_safe (e, tmp, &mb->rpc->detached) {
		struct slime_rpc_request *req = SL_CONTAINER_OF(e, struct slime_rpc_request, link);

		if (req->sharer == mb)
			req->sharer = NULL;
	}
	pthread_mutex_unlock(&mb->rpc->detached_lock);
}

/* The caller of this one does not wait for its answer any more. */
static int dispose(struct slime_rpc_request *req, uint32_t state)
{
	struct slime_context *ctx = req->ctx;
	struct sl_rpc *rpc = req->rpc;

	pthread_mutex_lock(&rpc->detached_lock);
	sl_list_remove(&req->link);
	if (req->sharer)
		req->sharer->n_detached--;
	rpc->n_detached--;
	pthread_mutex_unlock(&rpc->detached_lock);
	put_chunk(req, &req->in);
	put_chunk(req, &req->out);
	sl_request_destroy(req);
	sl_rpc_remove_child(ctx);
	return state == SL_REQUEST_DETACHED_CANCELLED ? -ECANCELED : -ECONNRESET;
}

/* ---- the answering thread ---- */

struct answer {
	struct slime_rpc_request *req;
	struct sl_mailbox *mb;
	struct sl_conn *conn;
	bool entered;	     /* the endpoint; else we are [token] */
	struct sl_post post; /* of the reply */
};

/* Take the request from the handler: false when it is detached. */
static bool claim(struct slime_rpc_request *req)
{
	uint32_t state = SL_REQUEST_HELD;

	if (atomic_compare_exchange_strong_explicit(&req->state, &state, SL_REQUEST_ANSWERING,
						    memory_order_acq_rel, memory_order_acquire))
		return true;
	assert(state == SL_REQUEST_DETACHED_CANCELLED || state == SL_REQUEST_DETACHED_RESET);
	return false;
}

/* To the handler: the opposite of claim(). */
static void give_back(struct slime_rpc_request *req)
{
	struct sl_rpc *rpc = req->rpc;

	atomic_store(&req->state, SL_REQUEST_HELD);
	/* The cancelling thread sets the flag first and then checks whether it is HELD: it was not.
	 */
	if (atomic_load(&req->cancelled))
		sl_rpc_ring(rpc);
}

static void begin_reply(struct answer *a, enum sl_reply_status status)
{
	a->post.m = (struct sl_msg){
		.head = sl_msg_head(SL_MSG_REPLY, 0, a->req->slot, 0),
		.w[SL_REPLY_ID] = a->req->id,
		.w[SL_REPLY_STATUS] = status,
	};
}

/* Of the payload. */
static void set_len(struct answer *a, size_t len)
{
	a->post.m.head = sl_msg_head(SL_MSG_REPLY, 0, a->req->slot, (uint32_t)len);
}

/* Send the reply: the request is gone, its slot the client's. */
static void send_reply(struct answer *a, int status)
{
	struct slime_endpoint *ep = a->mb->ep;
	uint64_t len = a->req->len;

	if (a->post.payload)
		a->req->last_len = 0;
	else
		a->req->last_len = a->post.m.len < SL_SLOT_SMALL ? a->post.m.len : SL_SLOT_SMALL;
	/* The client need not wait for the counts. */
	if (a->entered) {
		/* The next request may come before post() returns. The payload is not in the
		 * request's memory. */
		let_go(a->req);
		a->conn->ops->post(a->conn, &a->post, 1);
		sl_endpoint_count(ep, SLIME_KIND_SERVE, status, len);
		sl_endpoint_leave(ep);
	} else {
		/* With the token no next request comes; the payload may be in the request. */
		a->conn->ops->post(a->conn, &a->post, 1);
		let_go(a->req);
		sl_endpoint_count_served(ep, status, len);
	}
}

static int send_error(struct answer *a, enum sl_reply_status status, int ret)
{
	begin_reply(a, status);
	send_reply(a, ret);
	return ret;
}

/*
 * Begin to answer: 0, and send_reply() follows; else the request is gone: -ECONNRESET, -ECANCELED,
 * or -EPERM after fork().
 */
static int begin(struct slime_rpc_request *req, struct answer *a)
{
	int ret = sl_context_check(req->ctx);

	if (ret)
		return ret;
	a->req = req;
	a->mb = req->mb;
	a->entered = false;
	a->post.payload = NULL;
	a->post.going = NULL;
	if (handling == req) {
		/* With the token the connection stays, too. */
		atomic_store_explicit(&req->state, SL_REQUEST_ANSWERING, memory_order_relaxed);
		a->conn = atomic_load_explicit(&a->mb->ep->conn, memory_order_relaxed);
	} else {
		if (!claim(req))
			return dispose(req, atomic_load(&req->state));
		if (sl_endpoint_enter(a->mb->ep, &a->conn)) {
			let_go(req);
			return -ECONNRESET;
		}
		a->entered = true;
	}
	if (atomic_load_explicit(&req->cancelled, memory_order_relaxed))
		return send_error(a, SL_REPLY_CANCELLED, -ECANCELED);
	begin_reply(a, SL_REPLY_OK);
	return 0;
}

/* A short reply of bytes that are not in the slot yet. */
static int send_short(struct answer *a, const void *data, size_t len)
{
	uint8_t bytes[SL_SHORT_LEN];
	uint8_t *slot = NULL;

	if (len && len <= SL_SHORT_LEN) {
		a->post.payload = data;
		set_len(a, len);
		/* They may lie in the request, which goes before they leave. */
		if (a->entered)
			a->post.payload = memcpy(bytes, data, len);
		send_reply(a, 0);
		return 0;
	}
	if (len)
		slot = a->conn->ops->slot(a->conn, SL_AREA_REPLY, a->req->slot);
	/* Without a slot the connection is at its end, and the post goes nowhere. */
	if (slot) {
		/* It may be the buffer we gave, which may be this slot. */
		memmove(slot, data, len);
		set_len(a, len);
	}
	send_reply(a, 0);
	return 0;
}

enum sl_reply_status sl_request_transfer_status(int status)
{
	return status == -ENOMEM ? SL_REPLY_NO_MEMORY : SL_REPLY_UNREACHABLE;
}

/* Tell the caller that its memory has the reply. */
static void say_written(struct answer *a, uint64_t len)
{
	a->post.m.flags = SL_REPLY_WRITTEN;
	a->post.m.w[SL_REPLY_LEN] = len;
	send_reply(a, 0);
}

/* The caller's room for a long reply as it lies here, for a handler that has the token; NULL: it is
 * not to be had like that. */
static uint8_t *view_room(const struct slime_rpc_request *req, uint64_t len)
{
	if (handling != req || !(req->flags & SL_REPLY_LOAN))
		return NULL;
	return sl_loan_view(atomic_load_explicit(&req->mb->ep->conn, memory_order_relaxed),
			    &req->reply, len, SLIME_ACCESS_REMOTE_WRITE);
}

/* Write len bytes at offset of chunk to the caller's memory; the reply follows. */
static int send_long(struct answer *a, struct sl_chunk *chunk, uint64_t offset, uint64_t len)
{
	struct slime_rpc_request *req = a->req;
	struct sl_mailbox *mb = a->mb;
	int ret;

	req->xfer = (struct slime_xfer){
		.local = sl_chunk_mr(chunk),
		.remote = &req->reply.remote,
		.local_offset = chunk->offset + offset,
		.remote_offset = req->reply.offset,
		.len = len,
	};
	atomic_fetch_add(&mb->n_ops, 1);
	atomic_store_explicit(&req->state, SL_REQUEST_WRITING, memory_order_release);
	ret = sl_xfer_submit(mb->ep, SLIME_KIND_WRITE, &req->xfer, 1, &req->op);
	if (ret) {
		atomic_store_explicit(&req->state, SL_REQUEST_ANSWERING, memory_order_relaxed);
		atomic_fetch_sub(&mb->n_ops, 1);
		if (!sl_loan_link_lost(mb, ret))
			return send_error(a, sl_request_transfer_status(ret), ret);
		let_go(req);
		ret = -ECONNRESET;
	}
	if (a->entered)
		sl_endpoint_leave(mb->ep);
	return ret;
}

void sl_request_written(struct slime_rpc_request *req, int status)
{
	struct answer a = { .req = req, .mb = req->mb };

	if (status && sl_loan_link_lost(a.mb, status)) {
		let_go(req);
		return;
	}
	a.conn = atomic_load_explicit(&a.mb->ep->conn, memory_order_relaxed);
	begin_reply(&a, status ? sl_request_transfer_status(status) : SL_REPLY_OK);
	if (status)
		send_reply(&a, status);
	else
		say_written(&a, req->xfer.len);
}

void sl_request_skip(struct slime_rpc_request *req)
{
	struct answer a;

	if (begin(req, &a) == 0)
		send_error(&a, SL_REPLY_EXPIRED, -ETIMEDOUT);
}

struct slime_rpc_request *sl_request_hand_out(struct slime_op *op)
{
	struct slime_rpc_request *req = op->arg;

	if (!atomic_load(&req->cancelled) && !sl_request_expired(req))
		return req;
	sl_request_skip(req);
	return NULL;
}

void sl_request_refuse(struct slime_rpc_request *req, enum sl_reply_status status)
{
	struct answer a = { .req = req, .mb = req->mb };

	a.conn = atomic_load_explicit(&a.mb->ep->conn, memory_order_relaxed);
	send_error(&a, status, -ECANCELED);
}

/* ---- public ---- */

const void *slime_rpc_request_data(const struct slime_rpc_request *req)
{
	return req->data;
}

size_t slime_rpc_request_len(const struct slime_rpc_request *req)
{
	return req->len;
}

void *slime_rpc_request_arg(const struct slime_rpc_request *req)
{
	return req->arg;
}

int64_t slime_rpc_request_remaining_us(const struct slime_rpc_request *req)
{
	uint64_t now;

	if (req->deadline_ns == SL_NEVER)
		return INT64_MAX;
	now = sl_clock_ns();
	return req->deadline_ns <= now ? 0 : (int64_t)((req->deadline_ns - now) / SL_NS_PER_US);
}

bool slime_rpc_request_cancelled(const struct slime_rpc_request *req)
{
	return atomic_load_explicit(&req->cancelled, memory_order_relaxed);
}

size_t slime_rpc_request_reply_cap(const struct slime_rpc_request *req)
{
	return req->reply_cap;
}

/* Whether the bytes are len of chunk's; then *offset is theirs in it. */
static bool lies_in(const struct sl_chunk *chunk, uint64_t chunk_len, const uint8_t *data,
		    uint64_t len, uint64_t *offset)
{
	uintptr_t at = (uintptr_t)data;

	if (!chunk || at < (uintptr_t)chunk->addr)
		return false;
	*offset = at - (uintptr_t)chunk->addr;
	return *offset <= chunk_len && len <= chunk_len - *offset;
}

/* A chunk for the reply. Replies are not admitted: there are as many as admitted requests. */
static int get_chunk(struct slime_rpc_request *req, size_t len)
{
	return sl_pool_get(&req->rpc->pool, &req->mb->serving, len, false, NULL, &req->out);
}

static bool overlap(const void *a, const void *b, size_t len)
{
	uintptr_t x = (uintptr_t)a;
	uintptr_t y = (uintptr_t)b;

	return x < y ? y - x < len : x - y < len;
}

/* Most answers: bytes that leave with the message, by the inline handler itself, to a caller that
 * waits for them. False: it is another one. */
static bool reply_along(struct slime_rpc_request *req, const void *data, size_t len)
{
	struct slime_endpoint *ep;
	struct sl_conn *conn;
	struct sl_post reply;
	uint64_t served;

	if (handling != req || !len || len > SL_SHORT_LEN || len > req->reply_cap ||
	    atomic_load_explicit(&req->cancelled, memory_order_relaxed))
		return false;
	ep = req->mb->ep;
	conn = atomic_load_explicit(&ep->conn, memory_order_relaxed);
	reply = (struct sl_post){
		.m = { .head = sl_msg_head(SL_MSG_REPLY, 0, req->slot, (uint32_t)len),
		       .w[SL_REPLY_ID] = req->id,
		       .w[SL_REPLY_STATUS] = SL_REPLY_OK },
		.payload = data,
	};
	served = req->len;
	req->last_len = 0;
	/* They may lie in the request. */
	conn->ops->post(conn, &reply, 1);
	let_go(req);
	/* The client need not wait for this. */
	sl_endpoint_count_served(ep, 0, served);
	return true;
}

int slime_rpc_reply(struct slime_rpc_request *req, const void *data, size_t len)
{
	struct answer a;
	uint64_t offset;
	uint8_t *room;
	int ret = sl_context_check(req->ctx);

	if (!ret && reply_along(req, data, len))
		return 0;
	if (!ret)
		ret = begin(req, &a);
	if (ret)
		return ret;
	if (len > req->reply_cap)
		return send_error(&a, SL_REPLY_TOO_LONG, -EMSGSIZE);
	if (is_short(req, len))
		return send_short(&a, data, len);
	room = view_room(req, len);
	if (room) {
		/* If a call uses the same memory for both, they may overlap. */
		if (overlap(room, data, len))
			memmove(room, data, len);
		else
			sl_copy_whole(room, data, len);
		say_written(&a, len);
		return 0;
	}
	/* From where they are, if that is memory we gave. */
	if (lies_in(req->in, req->len, data, len, &offset))
		return send_long(&a, req->in, offset, len);
	if (lies_in(req->out, req->buffer_len, data, len, &offset))
		return send_long(&a, req->out, offset, len);
	put_chunk(req, &req->out);
	if (get_chunk(req, len))
		return send_error(&a, SL_REPLY_NO_MEMORY, -ENOBUFS);
	sl_copy_whole(req->out->addr, data, len);
	return send_long(&a, req->out, 0, len);
}

/* Memory for a reply; if that is long the request is claimed, or we have the token. */
static uint8_t *find_buffer(struct slime_rpc_request *req, size_t len)
{
	struct sl_conn *conn;

	put_chunk(req, &req->out);
	req->in_room = false;
	if (!is_short(req, len)) {
		uint8_t *room = is_in_place(req) ? view_room(req, len) : NULL;

		req->in_room = room;
		if (room)
			return room;
		return get_chunk(req, len) ? NULL : req->out->addr;
	}
	if (handling == req && is_in_place(req)) {
		conn = atomic_load_explicit(&req->mb->ep->conn, memory_order_acquire);
		return conn->ops->slot(conn, SL_AREA_REPLY, req->slot);
	}
	if (!req->draft)
		req->draft = malloc(sl_slot_len(SL_AREA_REPLY, req->slot));
	if (req->draft)
		sl_unpoison(req->draft, len);
	return req->draft;
}

void *slime_rpc_reply_buffer(struct slime_rpc_request *req, size_t len)
{
	bool claimed = false;

	if (sl_context_check(req->ctx) || len > req->reply_cap || slime_rpc_request_cancelled(req))
		return NULL;
	/* Otherwise the mailbox could go while we use its memory. */
	if (!is_short(req, len) && handling != req) {
		if (!claim(req))
			return NULL;
		claimed = true;
	}
	req->buffer = find_buffer(req, len);
	req->buffer_len = len;
	if (claimed)
		give_back(req);
	return req->buffer;
}

int slime_rpc_reply_commit(struct slime_rpc_request *req, size_t len)
{
	struct answer a;
	int ret = begin(req, &a);

	if (ret)
		return ret;
	if (len && (!req->buffer || len > req->buffer_len))
		return send_error(&a, SL_REPLY_TOO_LONG, -EMSGSIZE);
	if (req->in_room) {
		say_written(&a, len);
		return 0;
	}
	if (!is_short(req, len))
		return send_long(&a, req->out, 0, len);
	if (!req->buffer || req->buffer == req->draft || req->out)
		return send_short(&a, req->buffer, len);
	set_len(&a, len);
	send_reply(&a, 0);
	return 0;
}

int slime_rpc_reply_error(struct slime_rpc_request *req, uint32_t code, const char *message)
{
	size_t len = message ? strnlen(message, SLIME_RPC_MESSAGE_MAX) : 0;
	struct answer a;
	int ret = begin(req, &a);

	if (ret)
		return ret;
	a.post.m.w[SL_REPLY_STATUS] = SL_REPLY_ERROR;
	a.post.m.w[SL_REPLY_CODE] = code;
	return send_short(&a, message, len);
}
