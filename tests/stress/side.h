/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A side of a link: a thread that makes the link with its peer, round after round, fills it with
 * work of its own choice, and ends it as the round's plan says.
 */
#ifndef STRESS_SIDE_H
#define STRESS_SIDE_H

#include <slime/slime.h>

#include "tests/stress/board.h"
#include "tests/stress/node.h"
#include "tests/stress/slot.h"

#define N_SLOTS	   14
#define BIG_BODY   (640 * 1024)
#define BODY	   (80 * 1024)
#define SMALL_BODY (10 * 1024)
#define SEND_MAX   (70 * 1024)
#define AREA_GUARD 4096

enum {
	METHOD_INLINE,
	METHOD_IN_PLACE,
	METHOD_WORKER,
	METHOD_SMALL,
	METHOD_TINY,
	METHOD_ABSENT,
	N_METHODS
};

/* An area of ours. */
struct home {
	struct slime_mem *mem; /* or */
	uint8_t *other;	       /* memory that is not the library's */
	struct slime_mr *mr;
	struct image image, guards[2];
	uint8_t guard_bytes[2][2][AREA_GUARD];
};

struct side {
	struct node *node;
	struct board_side *own, *peer;
	int link, index, peer_node;
	char where[64];
	uint64_t round;
	uint32_t doom; /* of the peer, when the round began */
	struct dice dice;

	struct slime_endpoint *ep;
	struct slime_rpc_service *service;
	_Atomic bool closed_here;
	_Atomic bool close_when_connected;
	bool broken; /* an op or call said that the link ended */

	struct slime_mem *mem;
	struct slime_mr *mr; /* of the slots */
	struct slot slots[N_SLOTS];
	struct home homes[N_AREAS];
	struct slime_remote_mr remotes[N_AREAS]; /* of the peer */
	uint32_t remote_versions[N_AREAS];

	uint32_t n_received, n_imms_received;
	uint32_t n_refused; /* sends that were too long */
	uint64_t n_posted;
	uint64_t posted_of[N_NOTES]; /* the receive that a message came to */
	uint8_t class_of[N_NOTES];
	bool imm_seen[N_NOTES];
};

/* The thread. */
void *side_main(void *arg);

/* Whether the link may end without our doing: the peer said so, or is to be killed. */
bool side_may_break(const struct side *side);
/* Whether what the board says of the peer is of a later round or life: asked after it was read. */
bool side_peer_went_on(const struct side *side);

/* A free slot of at least so many bytes, or NULL. */
struct slot *side_slot(struct side *side, size_t least);

/* How many slots are busy with this. */
int side_count(const struct side *side, enum kind kind);

/* The peer was killed and begins again: what it offers may be of its next life already, so that ret
 * is -EINVAL. */
bool side_is_of_next_life(const struct side *side, int ret);

/* An error of a submission: fail if it is not to be expected. */
void side_refused(struct side *side, const struct slot *slot, int ret);

/* The status of an op or call that failed: fail if it is not to be expected. */
void side_failed(const struct slot *slot);

/* ---- areas.c: our areas, and the peer's ---- */

void areas_create(struct side *side);
void areas_destroy(struct side *side);
/* Between rounds: the link is at its end at both ends. */
void areas_renew(struct side *side);
void areas_check(struct side *side, const char *when);
/* Withdraw the one that goes, or let it come back. */
void areas_withdraw(struct side *side);
/* What the peer offers now. */
void areas_import(struct side *side);

/* ---- what a side does: each begins one, if there is room, and ends what has completed ---- */

void xfer_begin(struct side *side, enum kind kind);
void xfer_begin_beyond(struct side *side);
void xfer_begin_imm(struct side *side);
void xfer_begin_imm_recv(struct side *side);
void xfer_storm(struct side *side);
void xfer_end(struct slot *slot);
void xfer_end_imm_recv(struct slot *slot);

void message_begin_send(struct side *side);
void message_begin_recv(struct side *side, bool any);
void message_end(struct slot *slot);

void call_begin(struct side *side, size_t most);
void call_end(struct slot *slot);

/* ---- serve.c: the handlers ---- */

struct ask { /* the first bytes of a request */
	uint64_t seed;
	uint32_t magic;
	uint32_t reply_len;
	uint32_t slice;
	uint16_t text_len;
	uint8_t how;
	uint8_t delay; /* in 50 us */
};

enum {
	HOW_COPY,   /* bytes of the handler's own */
	HOW_SLICE,  /* bytes of the request */
	HOW_BUFFER, /* slime_rpc_reply_buffer() */
	HOW_ERROR,  /* with a message that lies in the request */
	N_HOWS,
	HOW_LATER = 16, /* with one of them: from another thread */
};

#define ASK_MAGIC 0x51e55a5bu

extern const char *const method_names[N_METHODS];
/* Text i of the error that a seed names. */
char ask_text(uint64_t seed, size_t i);
struct slime_rpc_service *serve_create(struct side *side);
/* Answer what is due; all of it when the node ends. Returns whether there is more. */
bool serve_later(struct node *node, bool all);

#endif
