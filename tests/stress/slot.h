/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Room for one operation of a side: an op or a call, how its completion is seen, memory with guards
 * around it, and what is expected of both. A slot is used by its side's thread; completion is
 * handed to that thread by done.
 */
#ifndef STRESS_SLOT_H
#define STRESS_SLOT_H

#include <stdatomic.h>
#include <stdbool.h>

#include <slime/slime.h>

#include "tests/stress/dice.h"
#include "tests/stress/image.h"

#define SLOT_GUARD 256
#define N_PIECES   6

struct side;

enum kind { KIND_READ, KIND_WRITE, KIND_IMM, KIND_IMM_RECV, KIND_SEND, KIND_RECV, KIND_CALL };

enum way {
	WAY_WAITED,   /* waited for, or tested */
	WAY_CALLBACK, /* a callback, after which the same op is used again */
	WAY_SELF,     /* its callback destroys it */
	WAY_REAPED,   /* a callback, and another thread that tries to destroy it all the time */
	WAY_QUEUED,   /* slime_context_next() */
	N_WAYS,
};

struct slot {
	struct side *side;
	int index;
	bool busy;
	enum kind kind;
	enum way way, op_way, call_way; /* the latter: what the op and the call are made for */
	struct slime_op *op;
	struct slime_op *before; /* of an immediate: an earlier write, which is waited for */
	struct slime_call *call;
	char what[200]; /* the operation, for reports */
	bool cancelled;

	/* Written by the thread that sees the completion, before done. */
	_Atomic int n_seen;
	_Atomic bool returning; /* the callback is at its end */
	_Atomic bool done;
	int status;
	uint64_t bytes, tag;
	uint32_t imm, code;
	char message[SLIME_RPC_MESSAGE_MAX + 1];
	size_t reply_len;
	const uint8_t *reply_data;

	_Atomic int again; /* the callback submits the read so often again */
	_Atomic uint64_t n_again;

	struct image image; /* guard, body, guard */
	uint8_t *body;
	size_t body_len;
	uint64_t body_offset; /* in the side's region */

	/* one-sided */
	int area;
	uint32_t version; /* of the area, when it was submitted */
	bool stale;	  /* it was withdrawn by then */
	struct slime_remote_mr remote;
	struct slime_xfer pieces[N_PIECES];
	size_t n_pieces;
	uint64_t from, to; /* in the area: all of it is in here */
	uint64_t total;
	uint32_t flags;
	uint32_t seq; /* of an immediate or a send */

	/* messages */
	uint64_t cls, mask, cap, len;
	uint64_t posted;

	/* calls */
	uint64_t seed;
	int method;
	int how;
	bool deadline, kept, lent; /* the latter two: the reply's room */
	size_t request_len, reply_off, reply_cap, reply_want, slice, text_len;

	struct slot *next; /* of the node's list of those to reap */
};

/* Choose how the completion will be seen, and have an op or call for that. The memory is as it was
 * left: what came since then would have come after the end of an operation. */
void slot_begin(struct slot *slot, enum kind kind, struct dice *dice);

/* It was submitted: ret is what that returned. False: it is free again. */
bool slot_submitted(struct slot *slot, int ret);

/* Whether it has completed; the results are in the slot then. */
bool slot_collect(struct slot *slot);

/* Wait for a moment; says whether the wait said that it completed. */
bool slot_wait(struct slot *slot, int64_t timeout_ms);

/* Compare the memory with what is expected, and make it free. */
void slot_end(struct slot *slot);

/* Compare alone. */
void slot_check(struct slot *slot, const char *when);

/* The reaper: destroy it if that is possible now. */
bool slot_reap(struct slot *slot);

/* A completed op of the context's queue. */
void slot_dequeued(const struct slime_event *event);

/* With the side: nothing of it is pending. */
void slot_fini(struct slot *slot);

#endif
