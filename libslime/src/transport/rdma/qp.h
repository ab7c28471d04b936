/* SPDX-License-Identifier: Apache-2.0 */
/* A queue pair: its life, its send queue, its receives. */
#ifndef SL_RDMA_QP_H
#define SL_RDMA_QP_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "src/transport/rdma/limits.h"
#include "src/transport/rdma/wire.h"

struct rdma_conn;
struct rdma_cq;
struct rdma_key;
struct rdma_nic;
struct rdma_path;
struct rdma_rail;
struct rdma_transport;
struct slime_op;

/* A work request's id: where its queue pair is in the table, which of its lives it is, whether it
 * is a receive, and its number or buffer. */
#define RDMA_ID_SLOT_SHIFT 48
#define RDMA_ID_LIFE_MASK  (UINT64_C(0x7fff) << 33)
#define RDMA_ID_RECEIVE	   (UINT64_C(1) << 32)
#define RDMA_ID_LIFE(life) ((uint64_t)(life) << 33 & RDMA_ID_LIFE_MASK)

#define RDMA_NUMBER_MASK 0xffffffu /* of packets: 24 bits */

/* An entry of a send queue: everything that is needed to send it again. */
struct rdma_sent {
	struct slime_op *op;  /* that it is of; NULL */
	struct rdma_key *key; /* of what it reads or writes */
	const uint8_t *frame; /* of a message; NULL */
	/* Of one-sided work: len bytes from this place on. */
	size_t piece;
	uint64_t byte;
	uint32_t block;
	uint32_t len;
	bool last; /* of a part of the op */
	bool ready, bye, probe;
};

struct rdma_qp {
	struct rdma_nic *nic;
	_Atomic(struct rdma_cq *) cq; /* another when it is made again: by a worker */
	struct ibv_qp *ibv;
	struct rdma_conn *conn;	   /* NULL: an offer's, still */
	unsigned index;		   /* in the connection */
	struct rdma_path *path;	   /* its rail there */
	_Atomic uint32_t *posting; /* as of its transport's env */
	uint32_t slot;		   /* in the transport's table */
	uint64_t wr_id;		   /* what all of its work requests have, in this life of it */
	uint32_t psn;
	struct rdma_qp_address peer;
	/* Packets of the peer's that arrived before it was brought up again: counted by the thread
	 * that receives them, while a worker may still be at other queue pairs of the rail. */
	_Atomic uint32_t n_heard;
	uint32_t n_receives; /* depth of the receive queue */
	uint32_t n_first;    /* of them are posted when it comes up. The worker's that does it */
	uint32_t n_frames;
	uint32_t max_inline;
	uint8_t *receives; /* their buffers, RDMA_FRAME_PITCH each */
	uint8_t *frames;   /* of requests in the send queue, same */
	uint32_t lkey;	   /* of both */
	uint32_t slots_lkey;
	bool is_new; /* in RESET since it was made. The worker's that brings it up */

	/* Under the connection's lock. */
	struct rdma_sent *sent; /* RDMA_SENDS of them */
	uint32_t head, tail;	/* posted, and completed, ever */
	uint32_t signaled;	/* head after the last signaled one */
	uint32_t checked_tail;	/* tail when it was last looked at, */
	uint32_t n_still;	/* and how often since that has moved, with requests under way */
	uint32_t marker;	/* number of the last request there will be */
	uint64_t n_bytes;	/* on the way */
	uint64_t n_acked;	/* messages, in this life of it */
	bool stays;		/* it could not be destroyed */
	bool torn; /* some were not posted: a later one's success would speak for them, too */

	/* [token], but for the worker that brings it up or kills it. */
	_Atomic uint32_t n_posted; /* receives */
	uint32_t n_begun;	   /* buffers that were posted in this life of it */
	uint64_t n_received;	   /* messages, in this life of it */
	uint32_t n_returned;
	uint32_t returned[RDMA_POLL]; /* buffers that are to be posted again */
	_Atomic bool draining;	      /* it is in ERR, or soon will be */
	_Atomic bool marked;	      /* the marker is posted, or right now */
	_Atomic bool marker_seen;     /* or the device takes none */
	_Atomic bool drained;
};

#define RDMA_TABLE_BITS 16

/* Where a completion finds its queue pair. */
struct rdma_entry {
	_Atomic(struct rdma_qp *) qp;
	_Atomic uint64_t wr_id; /* of its life */
};

enum { RDMA_DATA_RESERVE_SHARE = 4 };

/* Entries that one-sided work may still take: a share is left to messages, and one to the marker.
 */
static inline uint32_t rdma_qp_room(const struct rdma_qp *q)
{
	uint32_t used = q->head - q->tail;
	uint32_t limit = RDMA_SENDS - RDMA_SENDS / RDMA_DATA_RESERVE_SHARE;

	if (q->n_bytes >= RDMA_BYTES)
		return 0;
	return used < limit ? limit - used : 0;
}

static inline uint32_t rdma_qp_message_room(const struct rdma_qp *q)
{
	return RDMA_SENDS - 1 - (q->head - q->tail);
}

/* Make one in RESET, with room in a completion queue. Any thread. */
int rdma_qp_create(struct rdma_nic *nic, struct ibv_pd *pd, uint32_t n_receives,
		   struct rdma_qp **out);
/* Control calls: for workers. */
/* Another in its stead, after close; with other numbers, where its completion queue failed with
 * room in another, and where the device kept the former with room and a place of its own. */
int rdma_qp_renew(struct rdma_qp *q, struct ibv_pd *pd);
/* Disowned before, both. */
int rdma_qp_reset(struct rdma_qp *q); /* nothing is posted, and nothing arrives */
/* -ENOTRECOVERABLE: it was up before, and its device does not reset it. */
int rdma_qp_bring_up(struct rdma_qp *q, const struct rdma_rail *rail,
		     const struct rdma_rail_address *to, const char **step);
void rdma_qp_kill(struct rdma_qp *q); /* to ERR, and the marker after all that was posted */
int rdma_qp_close(struct rdma_qp *q); /* no DMA of it after this; its memory stays */
/* A new life for its work requests: what it may still have to say of this one is of no interest.
 * After close, too. [token], or the worker that makes another. */
void rdma_qp_disown(struct rdma_qp *q);
/* Its completions are of no interest any more, and its room is free. After close. */
void rdma_qp_free(struct rdma_qp *q);

/* The entry of request number, which is posted, or will be. */
static inline struct rdma_sent *rdma_qp_entry(struct rdma_qp *q, uint32_t number)
{
	return &q->sent[number % RDMA_SENDS];
}

/*
 * Post n requests, which have the numbers from head on, and their entries filled; room for them was
 * there. Under the connection's lock. A negative errno when the device does not take them, and for
 * all that come after those: its rail is to end, or the connection.
 */
static inline int rdma_qp_post(struct rdma_qp *q, struct ibv_send_wr *first, uint32_t n)
{
	struct ibv_send_wr *bad;
	int ret = -EIO;

	if (!q->torn) {
		atomic_store_explicit(q->posting, 1, memory_order_relaxed);
		ret = ibv_post_send(q->ibv, first, &bad);
		atomic_store_explicit(q->posting, 0, memory_order_relaxed);
		q->torn = ret != 0;
	}
	q->head += n;
	return ret > 0 ? -ret : ret;
}

/* Request number is signaled. Numbers in their order. Under the connection's lock. */
static inline void rdma_qp_signal(struct rdma_qp *q, struct ibv_send_wr *wr, uint32_t number)
{
	wr->send_flags |= IBV_SEND_SIGNALED;
	q->signaled = number + 1;
}

/* Set request number's wr_id, and have it signaled when it must be, or for the sake of room in the
 * queue. As rdma_qp_signal(). */
static inline void rdma_qp_number(struct rdma_qp *q, struct ibv_send_wr *wr, uint32_t number,
				  bool must_signal)
{
	wr->wr_id = q->wr_id | number;
	if (must_signal || number + 1 - q->signaled >= RDMA_SENDS / 4)
		rdma_qp_signal(q, wr, number);
}

/* A write of nothing, to see that it is answered; room was there. As rdma_qp_post(). */
int rdma_qp_probe(struct rdma_qp *q);

/* Post these receive buffers: an errno. [token], or the worker that brings it up. */
int rdma_qp_post_receives(struct rdma_qp *q, const uint32_t *which, uint32_t n);
/* Buffers until so many of them were posted in this life: an errno. As above. */
int rdma_qp_post_until(struct rdma_qp *q, uint32_t n);
/* Those that came back, and those that were not posted yet; its rail fails without. [token] */
void rdma_qp_post_returned(struct rdma_qp *q);
void rdma_qp_post_rest(struct rdma_qp *q);

/* Receive buffer i is free again, to be posted with others. [token] */
static inline void rdma_qp_return(struct rdma_qp *q, uint32_t i)
{
	if (q->draining)
		return;
	q->returned[q->n_returned++] = i;
	if (q->n_returned == RDMA_POLL)
		rdma_qp_post_returned(q);
}

#endif
