/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mailbox of an endpoint: requests and replies over the slots of its connection.
 *
 * A call takes a slot out of those that are free here; the request goes to the peer's request area
 * and the reply comes back to our reply area under the same number, so the reply frees both, and
 * no other message gives anything back. What does not fit a slot is moved one-sided by the peer:
 * the request lends it memory of ours. docs/wire.md has the bytes.
 *
 * Calls are started on any thread and end on the holder of the progress token. So do requests that
 * the handler does not have; those that it has are answered on any thread.
 */
#ifndef SL_MAILBOX_H
#define SL_MAILBOX_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/list.h"
#include "src/rpc/mailbox_slots.h"
#include "src/endpoint/endpoint.h"
#include "src/endpoint/layer.h"
#include "src/rpc/rpc.h"

struct slime_call;
struct sl_mailbox;
struct slime_rpc_request;
struct slime_rpc_service;

/* ---- the words of the messages ---- */

enum sl_request_word {
	SL_REQUEST_ID,		 /* the slot in the low bits, never the same again on this link */
	SL_REQUEST_METHOD,	 /* slime_rpc_method_id() */
	SL_REQUEST_REMAINING_US, /* until the caller's deadline; 0: there is none */
	SL_REQUEST_REPLY_CAP,	 /* bytes of the longest reply */
	SL_REQUEST_LEN,		 /* bytes of the request */
	SL_REQUEST_WORDS,
};

/* Flags of a request. Lent memory stands at the beginning of the slot: first the reply's, then the
 * request's; after it the payload, if it was not lent. */
enum sl_request_flags {
	SL_REQUEST_LOAN = 1, /* the request is read from memory of the caller */
	SL_REPLY_LOAN = 2,   /* a reply longer than the slot is written to memory of the caller */
	SL_REQUEST_FLAGS = 3,
};

/* Above them: how many other calls the caller has pending, 63 for more. A hint, used only by a
 * connection whose polls_disturb is set. */
#define SL_REQUEST_OTHERS_SHIFT 2
#define SL_REQUEST_OTHERS_MAX	63

/* No method has this id, so a request for it is answered at once: SL_REPLY_NO_METHOD. */
#define SL_METHOD_NONE 0

enum sl_reply_word {
	SL_REPLY_ID,
	SL_REPLY_STATUS, /* enum sl_reply_status */
	SL_REPLY_LEN,	 /* of a reply that was written to lent memory */
	SL_REPLY_CODE,	 /* of an error of the handler; its message is the payload */
};

enum sl_reply_flags {
	SL_REPLY_WRITTEN = 1, /* to lent memory: there is no payload */
	SL_REPLY_FLAGS = 1,
};

enum sl_reply_status {
	SL_REPLY_OK,
	SL_REPLY_ERROR, /* of the handler */
	SL_REPLY_NO_METHOD,
	SL_REPLY_TOO_LONG,  /* the request for its method, or the reply for its room */
	SL_REPLY_CANCELLED, /* as the caller wished */
	SL_REPLY_EXPIRED,   /* the deadline passed before the handler began */
	SL_REPLY_NO_MEMORY,
	SL_REPLY_UNREACHABLE, /* lent memory could not be read or written */
	SL_REPLY_STATUSES,
};

/* A cancel: w[0] is the request's id. */
#define SL_CANCEL_ID 0

/* ---- mailbox_lend.c: how lent memory is described ---- */

#define SL_LOAN_LEN 64 /* a region, and in the last 8 bytes the offset in it */

struct sl_loan {
	struct slime_remote_mr remote;
	uint64_t offset;
};

void sl_loan_describe(const struct slime_context *ctx, const struct sl_region *r, uint64_t offset,
		      struct sl_loan *out);
void sl_loan_write(const struct sl_loan *lent, uint8_t *to);
/* False: malformed, not the peer's, or not so many bytes of it. */
bool sl_loan_read(const uint8_t *from, uint64_t owner, uint64_t len, struct sl_loan *out);
/* The first len bytes of the peer's lent memory where they lie, while this callback or handler
 * lasts; NULL: they cannot be reached like that. [token] */
uint8_t *sl_loan_view(struct sl_conn *conn, const struct sl_loan *lent, uint64_t len,
		      uint32_t access);

/*
 * Whether a transfer of lent memory failed because the link is at its end, and not for its memory:
 * then there is nothing to answer, down() ends what is pending. Any thread that entered the
 * endpoint, or [token].
 */
bool sl_loan_link_lost(struct sl_mailbox *mb, int status);

/* ---- the mailbox ---- */

/* A slot of ours, for one call at a time. Starters of calls write next to each other: a line each.
 */
struct sl_call_slot {
	_Alignas(64) _Atomic uint64_t id; /* of the request that is out; 0: none */
	_Atomic uint64_t posted;	  /* the last id that left; never goes back */
	struct slime_call *call;	  /* valid while id is not 0 */
	const uint8_t *at;		  /* where the last request was written, and how much */
	uint32_t len;
	uint64_t generation; /* changed by the thread that has taken the slot */
	uint64_t cancelled;  /* the last id that was cancelled; [token] */
	uint64_t fence;	     /* id of the fence that is out; 0: none; [token] */
};

/* The slot is in these bits of a request's id. */
#define SL_ID_SLOT_BITS 8

_Static_assert(SL_CALL_SLOTS < 1 << SL_ID_SLOT_BITS, "a slot fits an id");

/* The id of the next request of slot n. For the thread that has taken the slot. */
static inline uint64_t sl_call_next_id(struct sl_call_slot *slot, unsigned n)
{
	return ++slot->generation << SL_ID_SLOT_BITS | n;
}

struct sl_mailbox {
	struct sl_call_slot slots[SL_CALL_SLOTS]; /* first: the way to one is short */
	struct slime_endpoint *ep;
	struct slime_context *ctx;
	struct sl_rpc *rpc;
	struct sl_list link; /* in rpc's */

	/* Calls. */
	struct sl_call_slots free;
	_Atomic uint32_t n_waiting;
	pthread_mutex_t lock;	 /* of the two lists */
	struct sl_list waiting;	 /* for a slot */
	struct sl_list starved;	 /* for memory */
	struct sl_list draining; /* ended, but the peer still reads or writes; [token] */
	uint64_t n_cancels;	 /* of the rpc's, that were looked after; [token] */
	struct sl_account calling;

	/* Requests. */
	struct slime_rpc_service *service;
	struct slime_rpc_request *requests[SL_CALL_SLOTS]; /* made at first use; [token] */
	struct sl_list unread; /* wait for memory to be read into; [token] */
	struct sl_account serving;
	_Atomic uint32_t n_running; /* handlers on workers */
	_Atomic uint32_t n_ops;	    /* reads and writes of lent memory under way */
	uint32_t n_detached;	    /* requests of its share; under the rpc's detached_lock */

	bool down; /* [token] */
};

/* Look after calls and requests by this deadline. Any thread that entered the endpoint; what has
 * the deadline must be visible before. */
static inline void sl_mailbox_deadline(struct sl_mailbox *mb, uint64_t deadline_ns)
{
	if (deadline_ns == SL_NEVER)
		return;
	/* First the call or request is visible, then its time is set; the holder of the token
	 * reads the time first, then the calls and requests. */
	atomic_thread_fence(memory_order_seq_cst);
	sl_endpoint_wake_at(mb->ep, deadline_ns);
}

/* ---- mailbox.c ---- */

extern const struct sl_layer sl_mailbox_layer;

/* Whether this thread runs one of its pool handlers: its destruction would wait for that. */
bool sl_mailbox_is_inside(const struct sl_mailbox *mb);

/* ---- mailbox_call.c ---- */

void sl_calls_init(struct sl_mailbox *mb);
void sl_calls_fini(struct sl_mailbox *mb);

/* ---- mailbox_end.c: [token] all of them ---- */

/* The part of the layer's msg for a reply. */
bool sl_calls_reply(struct sl_mailbox *mb, const struct sl_msg *m, const uint8_t *payload);

/* Deadlines, cancelled calls, and calls that wait for memory. Returns when to look again. */
uint64_t sl_calls_poll(struct sl_mailbox *mb, uint64_t now_ns);
void sl_calls_down(struct sl_mailbox *mb, int cause);

/* ---- mailbox_serve.c: [token] but fini ---- */

void sl_requests_init(struct sl_mailbox *mb);
/* The part of the layer's msg for a request. */
bool sl_requests_arrived(struct sl_mailbox *mb, const struct sl_msg *m, const uint8_t *payload);
bool sl_requests_cancel(struct sl_mailbox *mb, const struct sl_msg *m);
uint64_t sl_requests_poll(struct sl_mailbox *mb, uint64_t now_ns);
void sl_requests_down(struct sl_mailbox *mb);
/* Nothing of ours is under way: only handlers that answer later have requests. */
bool sl_requests_quiet(struct sl_mailbox *mb);
void sl_requests_fini(struct sl_mailbox *mb);

#endif
