/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request that a peer made. It belongs to the slot it came by and is used again for the next one;
 * a handler that answers later than its caller, or than the link, waits for has one of its own.
 */
#ifndef SL_RPC_REQUEST_H
#define SL_RPC_REQUEST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "src/rpc/mailbox.h"
#include "src/core/op.h"
#include "src/rpc/rpc_service.h"
#include "src/core/worker.h"
#include <slime/rpc.h>

/*
 *	FREE -> HELD                        short, inline
 *	FREE -> QUEUED -> HELD              short, for a worker
 *	FREE [-> UNREAD] -> READING -> ...  long: waits for memory, then is read; one whose
 *					    handler looks at it where the caller has it is as short
 *	HELD -> ANSWERING [-> WRITING] -> FREE
 *	HELD -> DETACHED_*                  the caller has stopped waiting; freed with its answer
 *
 * The thread that answers takes it from HELD to ANSWERING, and so does one that asks for a long
 * buffer, for as long as that takes. A worker takes it from QUEUED to HELD. All other steps are
 * made by [token].
 */
enum sl_request_state {
	SL_REQUEST_FREE,
	SL_REQUEST_UNREAD,
	SL_REQUEST_READING,
	SL_REQUEST_QUEUED,
	SL_REQUEST_HELD,
	SL_REQUEST_ANSWERING,
	SL_REQUEST_WRITING,
	SL_REQUEST_DETACHED_CANCELLED,
	SL_REQUEST_DETACHED_RESET,
};

/* The fields that a short request uses come first, and are two cache lines. */
struct slime_rpc_request {
	_Alignas(64) _Atomic uint32_t state; /* enum sl_request_state */
	_Atomic bool cancelled;		     /* the caller gave up, or the link died */
	uint8_t flags;			     /* enum sl_request_flags */
	uint16_t slot;
	struct slime_context *ctx;
	struct sl_rpc *rpc;
	struct sl_mailbox *mb; /* not once detached */
	const struct sl_method *method;
	uint64_t id;
	const uint8_t *data;
	uint64_t len;

	uint64_t reply_cap;
	uint64_t deadline_ns;
	const uint8_t *reply_slot; /* its place, while the connection lasts */
	uint32_t last_len;    /* of the last short reply there, as far as it is fetched ahead */
	bool in_room;	      /* buffer is in the caller's memory */
	struct sl_chunk *in;  /* a long request */
	struct sl_chunk *out; /* a long reply */
	uint8_t *buffer; /* what slime_rpc_reply_buffer() gave: in draft, out, the slot, or there */
	uint8_t *copy;	 /* of a short request; as long as the slot */

	uint64_t buffer_len;
	uint8_t *draft; /* of a short reply; as long as the slot */
	struct sl_loan request;
	struct sl_loan reply;

	struct sl_list link;	   /* among the unread, or the detached */
	struct sl_mailbox *sharer; /* once detached, the share it belongs to; NULL: that is gone */
	struct sl_job job;
	struct slime_op op; /* reading or writing lent memory; in between it is in the context's
			       queue, if the method is */
	struct slime_xfer xfer;
	void *arg; /* of a queued method: the service may be gone when it is taken */
};

_Static_assert(offsetof(struct slime_rpc_request, buffer_len) == 128, "two cache lines");

struct slime_rpc_request *sl_request_create(struct sl_mailbox *mb, unsigned slot);
/* It is FREE. */
void sl_request_destroy(struct slime_rpc_request *req);

/*
 * [token] The caller has stopped waiting for the answer of a HELD request: from here on the handler
 * owns it. False: it is being answered; or, unless its link is at its end, that or all of them have
 * as many as they may.
 */
bool sl_request_detach(struct slime_rpc_request *req, enum sl_request_state state);
/* [token] The mailbox goes, and those it had are left. */
void sl_requests_forget(struct sl_mailbox *mb);

/* Run the handler of a HELD request on this thread; the request may be gone afterwards. */
void sl_request_handle(struct slime_rpc_request *req);

/* Answer a HELD request whose time is over, or whose caller gave up, instead of running its
 * handler. */
void sl_request_skip(struct slime_rpc_request *req);

/* A HELD request from the queue of its context: itself; NULL: skipped, as its time is over. */
struct slime_rpc_request *sl_request_hand_out(struct slime_op *op);

/* The status for the caller when a transfer of its request or reply failed. */
enum sl_reply_status sl_request_transfer_status(int status);

/* [token] Answer with an error, without a handler. No other thread has the request. */
void sl_request_refuse(struct slime_rpc_request *req, enum sl_reply_status status);

/* [token] The link ended: nothing is answered. No other thread has the request. */
void sl_request_drop(struct slime_rpc_request *req);

/* [token] The reply was written to lent memory, or was not. */
void sl_request_written(struct slime_rpc_request *req, int status);

/* Whether its deadline passed. */
bool sl_request_expired(const struct slime_rpc_request *req);

#endif
