/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a send and its answer look like as messages.
 *
 * A send owns its slot from the post until the answer: slots are the credits, and SL_WINDOW_SEND
 * unexpected messages are all that a receiver ever holds. A payload of at most SL_SLOT_SMALL bytes
 * lies in the slot. For a longer one the slot holds the descriptor of the sender's region, from
 * which the receiver reads straight into the memory of its receive.
 *
 *	SL_MSG_SEND       flags: enum sl_send_flags; len: of what lies in the slot
 *	                  w: tag, length of the message, its offset in the region (by descriptor)
 *	SL_MSG_SEND_DONE  slot: of the send; w: enum sl_send_result
 */
#ifndef SL_RECV_H
#define SL_RECV_H

#include "src/endpoint/layer.h"

extern const struct sl_layer sl_recv_layer;

enum sl_send_flags {
	SL_SEND_BY_DESC = 1, /* the slot holds a descriptor */
};

enum sl_send_result {
	SL_SEND_RECEIVED,
	SL_SEND_TOO_LONG,    /* for its receive */
	SL_SEND_UNREACHABLE, /* the receiver's transport cannot read that memory */
	SL_SEND_FAILED,	     /* reading failed for another reason */
	SL_SEND_RESULTS,
};

#endif
