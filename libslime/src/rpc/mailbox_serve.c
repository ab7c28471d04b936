/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/poison.h"
#include "src/endpoint/endpoint_account.h"
#include "src/endpoint/xfer.h"
#include "src/progress/context.h"
#include "src/rpc/mailbox.h"
#include "src/rpc/rpc_request.h"
#include "src/rpc/rpc_service.h"

/* A deadline this far is none. */
#define REMAINING_MAX_US (UINT64_C(1) << 50)

void sl_requests_init(struct sl_mailbox *mb)
{
	sl_list_init(&mb->unread);
	sl_account_init(&mb->serving, false);
	/* Every mailbox makes it the same. */
	atomic_store(&mb->ctx->rpc_hand_out, sl_request_hand_out);
}

static uint32_t state_of(const struct slime_rpc_request *req)
{
	return atomic_load_explicit(&req->state, memory_order_acquire);
}

static void set_state(struct slime_rpc_request *req, enum sl_request_state state)
{
	atomic_store_explicit(&req->state, state, memory_order_release);
}

static struct sl_conn *conn_of(const struct sl_mailbox *mb)
{
	return atomic_load_explicit(&mb->ep->conn, memory_order_relaxed);
}

/* ---- requests whose callers gave up ---- */

/*
 * Answer for a handler that works on its own copies: its request leaves the slot and is freed with
 * its answer, which is dropped.
 */
static void detach(struct sl_mailbox *mb, struct slime_rpc_request *req)
{
	struct sl_conn *conn = conn_of(mb);
	struct sl_msg reply = {
		.kind = SL_MSG_REPLY,
		.slot = req->slot,
		.w[SL_REPLY_ID] = req->id,
		.w[SL_REPLY_STATUS] = SL_REPLY_CANCELLED,
	};
	uint64_t len = req->len;

	if (req->method->attr.flags & SLIME_RPC_IN_PLACE ||
	    !sl_request_detach(req, SL_REQUEST_DETACHED_CANCELLED))
		return;
	mb->requests[reply.slot] = NULL;
	sl_endpoint_count(mb->ep, SLIME_KIND_SERVE, -ECANCELED, len);
	sl_conn_post(conn, &reply);
}

/* Requests that could not be detached yet when their callers gave up. */
static void detach_cancelled(struct sl_mailbox *mb)
{
	for (unsigned i = 0; i < SL_CALL_SLOTS; i++) {
		struct slime_rpc_request *req = mb->requests[i];

		if (req && state_of(req) == SL_REQUEST_HELD && atomic_load(&req->cancelled))
			detach(mb, req);
	}
}

/* ---- to the handler ---- */

/* On a worker, which took it from QUEUED to HELD. */
static void run_job(struct sl_job *job)
{
	struct slime_rpc_request *req = SL_CONTAINER_OF(job, struct slime_rpc_request, job);

	if (atomic_load(&req->cancelled) || sl_request_expired(req))
		sl_request_skip(req);
	else
		sl_request_handle(req);
}

/* The request's bytes are there. */
static void deliver(struct sl_mailbox *mb, struct slime_rpc_request *req)
{
	if (req->method->attr.flags & SLIME_RPC_INLINE) {
		set_state(req, SL_REQUEST_HELD);
		/* It may take its time, or destroy what waits for that. */
		sl_progress_run_after(&mb->ctx->progress);
		sl_request_handle(req);
		return;
	}
	if (req->method->attr.flags & SLIME_RPC_QUEUED) {
		req->arg = req->method->attr.arg;
		set_state(req, SL_REQUEST_HELD);
		sl_completions_queue(&mb->ctx->completions, &req->op);
		return;
	}
	set_state(req, SL_REQUEST_QUEUED);
	req->job.run = run_job;
	req->job.n_running = &mb->n_running;
	req->job.state = &req->state;
	req->job.taken = SL_REQUEST_HELD;
	sl_workers_put(&mb->rpc->workers, &req->job);
}

/* A short request: where the peer wrote it, or a copy that it cannot change. */
static bool place_payload(struct slime_rpc_request *req, const uint8_t *payload)
{
	if (!req->len || req->method->attr.flags & SLIME_RPC_IN_PLACE) {
		req->data = payload;
		return true;
	}
	if (!req->copy)
		req->copy = malloc(sl_slot_len(SL_AREA_REQUEST, req->slot));
	if (!req->copy)
		return false;
	sl_unpoison(req->copy, req->len);
	memcpy(req->copy, payload, req->len);
	req->data = req->copy;
	return true;
}

/* ---- long requests ---- */

static void was_read(struct slime_rpc_request *req, int status)
{
	if (status && sl_loan_link_lost(req->mb, status))
		sl_request_drop(req);
	else if (status)
		sl_request_refuse(req, sl_request_transfer_status(status));
	else if (atomic_load(&req->cancelled))
		sl_request_refuse(req, SL_REPLY_CANCELLED);
	else if (sl_request_expired(req))
		sl_request_refuse(req, SL_REPLY_EXPIRED);
	else
		deliver(req->mb, req);
}

/* A read or a write of lent memory is done. */
static void transferred(void *arg, struct slime_op *op)
{
	struct slime_rpc_request *req = arg;
	struct sl_mailbox *mb = req->mb;

	if (mb->down)
		sl_request_drop(req);
	else if (state_of(req) == SL_REQUEST_READING)
		was_read(req, op->status);
	else
		sl_request_written(req, op->status);
	/* Until now the mailbox waits for us. */
	atomic_fetch_sub(&mb->n_ops, 1);
}

static void read_loan(struct sl_mailbox *mb, struct slime_rpc_request *req)
{
	int ret;

	req->data = req->in->addr;
	req->xfer = (struct slime_xfer){
		.local = sl_chunk_mr(req->in),
		.remote = &req->request.remote,
		.local_offset = req->in->offset,
		.remote_offset = req->request.offset,
		.len = req->len,
	};
	atomic_fetch_add(&mb->n_ops, 1);
	set_state(req, SL_REQUEST_READING);
	ret = sl_xfer_submit(mb->ep, SLIME_KIND_READ, &req->xfer, 1, &req->op);
	if (!ret)
		return;
	atomic_fetch_sub(&mb->n_ops, 1);
	if (sl_loan_link_lost(mb, ret))
		sl_request_drop(req);
	else
		sl_request_refuse(req, sl_request_transfer_status(ret));
}

/* Where the caller has it, if the handler takes it there: nothing is read, and no memory needed. */
static bool view_loan(struct sl_mailbox *mb, struct slime_rpc_request *req)
{
	if (!(req->method->attr.flags & SLIME_RPC_IN_PLACE))
		return false;
	req->data = sl_loan_view(conn_of(mb), &req->request, req->len, SLIME_ACCESS_REMOTE_READ);
	return req->data;
}

/* False: it waits for memory. */
static bool try_read(struct sl_mailbox *mb, struct slime_rpc_request *req)
{
	int ret = sl_pool_get(&mb->rpc->pool, &mb->serving, req->len, true, NULL, &req->in);

	if (ret == -EAGAIN)
		return false;
	if (ret)
		sl_request_refuse(req, SL_REPLY_NO_MEMORY);
	else
		read_loan(mb, req);
	return true;
}

static void read_or_wait(struct sl_mailbox *mb, struct slime_rpc_request *req)
{
	if (sl_list_empty(&mb->unread) && try_read(mb, req))
		return;
	set_state(req, SL_REQUEST_UNREAD);
	sl_list_append(&mb->unread, &req->link);
	atomic_fetch_add(&mb->rpc->n_starved, 1);
	/* Memory that came back before we counted is found now; and the deadline is seen. */
	sl_endpoint_ring(mb->ep);
}

static void take_unread(struct sl_mailbox *mb, struct slime_rpc_request *req)
{
	sl_list_remove(&req->link);
	atomic_fetch_sub(&mb->rpc->n_starved, 1);
}

uint64_t sl_requests_poll(struct sl_mailbox *mb, uint64_t now_ns)
{
	uint64_t next = SL_NEVER;
	struct sl_list *e, *tmp;

	detach_cancelled(mb);
	sl_list_for_each_safe (e, tmp, &mb->unread) {
		struct slime_rpc_request *req = SL_CONTAINER_OF(e, struct slime_rpc_request, link);

		if (req->deadline_ns <= now_ns) {
			take_unread(mb, req);
			sl_request_refuse(req, SL_REPLY_EXPIRED);
		} else {
			next = sl_earlier(next, req->deadline_ns);
		}
	}
	while (!sl_list_empty(&mb->unread)) {
		struct slime_rpc_request *req =
			SL_CONTAINER_OF(mb->unread.next, struct slime_rpc_request, link);

		take_unread(mb, req);
		if (try_read(mb, req))
			continue;
		sl_list_append(mb->unread.next, &req->link);
		atomic_fetch_add(&mb->rpc->n_starved, 1);
		break;
	}
	return next;
}

/* ---- arrival ---- */

/* Answer a request that got no further. */
static void refuse(struct sl_mailbox *mb, const struct sl_msg *m, enum sl_reply_status status)
{
	struct sl_conn *conn = conn_of(mb);
	struct sl_msg reply = {
		.kind = SL_MSG_REPLY,
		.slot = m->slot,
		.w[SL_REPLY_ID] = m->w[SL_REQUEST_ID],
		.w[SL_REPLY_STATUS] = status,
	};

	/* A fence is no call. */
	if (m->w[SL_REQUEST_METHOD] != SL_METHOD_NONE)
		sl_endpoint_count(mb->ep, SLIME_KIND_SERVE, -EREMOTEIO, 0);
	sl_conn_post(conn, &reply);
}

/* The head at the beginning of the slot, checked. Returns the bytes it takes, -1: malformed. */
static int read_head(struct sl_mailbox *mb, const struct sl_msg *m, const uint8_t *payload,
		     struct sl_loan *request, struct sl_loan *reply)
{
	const struct sl_conn *conn = conn_of(mb);
	uint64_t owner = conn->peer.context;
	uint32_t head = 0;

	if (m->flags & ~SL_REQUEST_FLAGS && !conn->polls_disturb)
		return -1;
	if (!(m->flags & SL_REQUEST_FLAGS))
		return m->w[SL_REQUEST_LEN] == m->len ? 0 : -1;
	head += m->flags & SL_REPLY_LOAN ? SL_LOAN_LEN : 0;
	head += m->flags & SL_REQUEST_LOAN ? SL_LOAN_LEN : 0;
	if (m->len < head)
		return -1;
	if (m->flags & SL_REPLY_LOAN &&
	    !sl_loan_read(payload, owner, m->w[SL_REQUEST_REPLY_CAP], reply))
		return -1;
	if (m->flags & SL_REQUEST_LOAN) {
		if (m->len != head || !m->w[SL_REQUEST_LEN] ||
		    !sl_loan_read(payload + head - SL_LOAN_LEN, owner, m->w[SL_REQUEST_LEN],
				  request))
			return -1;
	} else if (m->w[SL_REQUEST_LEN] != m->len - head) {
		return -1;
	}
	return (int)head;
}

/* The request of that slot, for the next one; NULL: no memory. */
static struct slime_rpc_request *request_of(struct sl_mailbox *mb, unsigned slot)
{
	struct slime_rpc_request *req = mb->requests[slot];

	if (req)
		return req;
	req = sl_request_create(mb, slot);
	if (!req)
		return NULL;
	sl_op_init(&req->op, mb->ctx, &mb->ctx->completions, transferred, req);
	req->op.flags = SL_OP_OF_REQUEST;
	mb->requests[slot] = req;
	return req;
}

static uint64_t deadline_of(const struct sl_msg *m)
{
	uint64_t us = m->w[SL_REQUEST_REMAINING_US];

	return us && us < REMAINING_MAX_US ? sl_moment_ns(us * SL_NS_PER_US) : SL_NEVER;
}

/* The method that is asked for, if it may be; else *status says why not. */
static const struct sl_method *method_of(const struct sl_mailbox *mb, const struct sl_msg *m,
					 enum sl_reply_status *status)
{
	const struct sl_method *method = sl_rpc_service_find(mb->service, m->w[SL_REQUEST_METHOD]);

	*status = SL_REPLY_NO_METHOD;
	if (!method || m->w[SL_REQUEST_LEN] <= method->attr.max_message)
		return method;
	*status = SL_REPLY_TOO_LONG;
	return NULL;
}

static void fill_request(struct slime_rpc_request *req, const struct sl_method *method,
			 const struct sl_msg *m)
{
	uint32_t slot_len = sl_slot_len(SL_AREA_REPLY, m->slot);

	req->method = method;
	req->flags = m->flags & SL_REQUEST_FLAGS;
	req->id = m->w[SL_REQUEST_ID];
	req->len = m->w[SL_REQUEST_LEN];
	req->reply_cap = m->w[SL_REQUEST_REPLY_CAP];
	if (!(m->flags & SL_REPLY_LOAN) && req->reply_cap > slot_len)
		req->reply_cap = slot_len;
	req->deadline_ns = deadline_of(m);
	atomic_store_explicit(&req->cancelled, false, memory_order_relaxed);
}

bool sl_requests_arrived(struct sl_mailbox *mb, const struct sl_msg *m, const uint8_t *payload)
{
	struct slime_rpc_request *req = mb->requests[m->slot];
	const struct sl_method *method;
	struct sl_loan request, reply;
	enum sl_reply_status status;
	int head;

	mb->ctx->progress.n_coming = m->flags >> SL_REQUEST_OTHERS_SHIFT;
	/* A slot carries one request at a time. */
	if (req && state_of(req) != SL_REQUEST_FREE)
		return false;
	/* Where the reply will be written the client has read the last one. */
	if (req)
		sl_cpu_fetch_all_to_write(req->reply_slot, req->last_len);
	head = read_head(mb, m, payload, &request, &reply);
	if (head < 0)
		return false;
	method = method_of(mb, m, &status);
	if (!method) {
		refuse(mb, m, status);
		return true;
	}
	req = request_of(mb, m->slot);
	if (!req) {
		refuse(mb, m, SL_REPLY_NO_MEMORY);
		return true;
	}
	fill_request(req, method, m);
	if (m->flags & SL_REPLY_LOAN)
		req->reply = reply;
	if (m->flags & SL_REQUEST_LOAN) {
		req->request = request;
		if (view_loan(mb, req))
			deliver(mb, req);
		else
			read_or_wait(mb, req);
	} else if (place_payload(req, payload ? payload + head : NULL)) {
		deliver(mb, req);
	} else {
		sl_request_refuse(req, SL_REPLY_NO_MEMORY);
	}
	return true;
}

/* ---- the caller gave up ---- */

bool sl_requests_cancel(struct sl_mailbox *mb, const struct sl_msg *m)
{
	struct slime_rpc_request *req;

	if (m->slot >= SL_CALL_SLOTS)
		return false;
	req = mb->requests[m->slot];
	/* Our reply and the cancel may have met on the way. */
	if (!req || state_of(req) == SL_REQUEST_FREE || req->id != m->w[SL_CANCEL_ID])
		return true;
	/* Set this first, then check: the thread that gives the request back to its handler does it
	 * in the opposite order. */
	atomic_store(&req->cancelled, true);
	switch (atomic_load(&req->state)) {
	case SL_REQUEST_UNREAD:
		take_unread(mb, req);
		sl_request_refuse(req, SL_REPLY_CANCELLED);
		break;
	case SL_REQUEST_QUEUED:
		if (sl_workers_take_back(&mb->rpc->workers, &req->job))
			sl_request_refuse(req, SL_REPLY_CANCELLED);
		else
			detach(mb, req);
		break;
	case SL_REQUEST_HELD:
		detach(mb, req);
		break;
	default:
		break; /* its answer is on the way, or comes after the read; or its handler gets a
			* buffer, and makes us look again after that */
	}
	return true;
}

/* ---- the end ---- */

void sl_requests_down(struct sl_mailbox *mb)
{
	for (unsigned i = 0; i < SL_CALL_SLOTS; i++) {
		struct slime_rpc_request *req = mb->requests[i];

		if (!req)
			continue;
		atomic_store(&req->cancelled, true);
		switch (state_of(req)) {
		case SL_REQUEST_UNREAD:
			take_unread(mb, req);
			sl_request_drop(req);
			break;
		case SL_REQUEST_QUEUED:
			if (sl_workers_take_back(&mb->rpc->workers, &req->job))
				sl_request_drop(req);
			break;
		default:
			break; /* its holder finds the link dead */
		}
	}
}

bool sl_requests_quiet(struct sl_mailbox *mb)
{
	if (atomic_load(&mb->n_running) || atomic_load(&mb->n_ops))
		return false;
	for (unsigned i = 0; i < SL_CALL_SLOTS; i++) {
		uint32_t state = mb->requests[i] ? state_of(mb->requests[i]) : SL_REQUEST_FREE;

		if (state != SL_REQUEST_FREE && state != SL_REQUEST_HELD)
			return false;
	}
	return true;
}

void sl_requests_fini(struct sl_mailbox *mb)
{
	for (unsigned i = 0; i < SL_CALL_SLOTS; i++) {
		struct slime_rpc_request *req = mb->requests[i];

		if (!req)
			continue;
		/* One that is being answered this moment is FREE in the next. */
		while (state_of(req) != SL_REQUEST_FREE) {
			/* A handler answers it later, and goes on without us. */
			if (sl_request_detach(req, SL_REQUEST_DETACHED_RESET)) {
				req = NULL; /* it may be gone already */
				break;
			}
			sched_yield();
		}
		if (req)
			sl_request_destroy(req);
	}
	sl_requests_forget(mb);
	sl_pool_drop(&mb->rpc->pool, &mb->serving);
}
