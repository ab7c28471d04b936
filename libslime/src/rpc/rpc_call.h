/* SPDX-License-Identifier: Apache-2.0 */
/* The struct of a call. It is the user's, then the mailbox's until its op is finished. */
#ifndef SL_RPC_CALL_H
#define SL_RPC_CALL_H

#include <stdatomic.h>
#include <stddef.h>

#include "base/list.h"
#include "src/rpc/mailbox.h"
#include "src/core/op.h"
#include <slime/rpc.h>

/*
 * A plain call, as most are, has neither regions nor lent memory: its request goes by a small slot,
 * and there is room for a reply that does.
 *
 * What a short call touches comes first, and is three cache lines with that of its op: all that
 * many calls in flight touch has to fit the cache next to their CPU.
 */
struct slime_call {
	_Alignas(64) struct slime_call_args args;
	uint64_t deadline_ns;
	struct slime_context *ctx;
	const uint8_t *reply_at;
	size_t reply_len;
	_Atomic int gave_up; /* 0; -ETIMEDOUT or -ECANCELED: how it will end; SL_CALL_OVER */
	uint32_t plain_room; /* for its reply, and one byte more; 0: the call is not plain */
	uint32_t code;	     /* of the handler's error */
	uint8_t has_message; /* the same; with timed and flags a word that is cleared at once */
	uint8_t timed;	     /* op.start_ns is when it began */
	uint16_t flags;	     /* enum sl_request_flags, once planned */
	struct slime_op op;  /* pending while the call is */

	struct sl_rpc *rpc;
	struct sl_list link; /* in one of the mailbox's lists */
	int status;	     /* while draining */

	/* Lent memory: a region of the user's, a chunk, or a region for just this call. */
	struct sl_loan request;
	struct sl_loan reply;
	struct sl_chunk *request_chunk;
	struct sl_chunk *reply_chunk; /* only of one whose flags say that the reply's was lent */
	struct sl_region *request_region;
	struct sl_region *reply_region;

	uint8_t *own; /* room for short replies that the call keeps */
	size_t own_len;
	char message[SLIME_RPC_MESSAGE_MAX + 1];

	slime_call_fn *fn;
	void *arg;
};

/* It cannot be given up: it was not started, or has its result. */
#define SL_CALL_OVER 1

_Static_assert(offsetof(struct slime_call, op) == 128, "two cache lines, and the op begins one");

/* ---- mailbox_call.c ---- */

/*
 * Begin a call whose args were checked and whose op is pending. Returns 0 and it will end, or
 * -ENOTCONN, -ENOMEM, -ENOSPC, -EACCES and it never began.
 */
int sl_calls_begin(struct sl_mailbox *mb, struct slime_call *call);

/* As many calls are begun at once. */
#define SL_CALLS_AT_ONCE 16

/* The same for n calls, at most SL_CALLS_AT_ONCE. Returns how many began; when that is less than n,
 * *why not the next. */
uint32_t sl_calls_begin_many(struct sl_mailbox *mb, const struct slime_call_item *items, uint32_t n,
			     int *why);

/* The rest, by a thread that has entered the endpoint. A call whose memory is lent: send it, or let
 * it wait for a slot behind those that do. */
void sl_calls_send_or_wait(struct sl_mailbox *mb, struct sl_conn *conn, struct slime_call *call);
/* As long as there are both, slots go to the calls that wait for one. */
void sl_calls_dispatch(struct sl_mailbox *mb, struct sl_conn *conn);

/* It cannot be given up any more. */
static inline void sl_call_is_over(struct slime_call *call)
{
	atomic_store_explicit(&call->gave_up, SL_CALL_OVER, memory_order_relaxed);
}

/* It uses the user's regions no more. */
void sl_calls_leave_regions(const struct slime_call_args *a);

/* ---- mailbox_lend.c ---- */

/* The memory that must be lent for a call to go by a slot of that length: enum sl_request_flags. */
static inline uint8_t sl_loan_plan(const struct slime_call_args *args, uint32_t slot_len)
{
	uint8_t flags = 0;
	uint32_t head = 0;

	if (args->reply_cap > slot_len) {
		flags |= SL_REPLY_LOAN;
		head = SL_LOAN_LEN;
	}
	if (args->request_len > slot_len - head)
		flags |= SL_REQUEST_LOAN;
	return flags;
}

/* Lend what call->flags say: 0, or an error and nothing is lent. -EAGAIN: memory is short now. */
int sl_loan_begin(struct sl_mailbox *mb, struct slime_call *call);

/* No peer was told of the loan, if there is one: take it back. */
void sl_loan_forget(struct sl_mailbox *mb, struct slime_call *call);

/* A call that lent something has its result: that comes back, but for a chunk that holds the reply.
 * False: the peer still reads or writes; ask again. */
bool sl_loan_end(struct sl_mailbox *mb, struct slime_call *call);

static inline const uint8_t *sl_loan_request_bytes(const struct slime_call_args *a)
{
	if (!a->request_mr)
		return a->request;
	return a->request_mr->region->base + a->request_offset;
}

#endif
