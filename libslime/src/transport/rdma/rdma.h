/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rdma transport: reliable connected queue pairs over libibverbs.
 *
 *	transport.c  the context's part: offers, rounds; job.c: what its threads do
 *	devices.c    the devices of a context; device.c: one of them, opened, and its ports
 *	gid.c	     which address of a port is used
 *	nic.c        a port that the context uses: channel, events
 *	cq.c         completion queues: who has room in which, and polling
 *	qp.c         a queue pair and its send queue; qp_up.c: how it comes up
 *	offer.c      what waits for a peer: queue pairs, and memory that it writes to
 *	wire.c       the bytes: candidates, frames, proofs
 *	conn.c       a connection's life: up, its rounds; conn_end.c: and how it ends
 *	pairing.c    which rails of both ends go together
 *	path.c       a rail of a connection: its end, the agreement on it
 *	path_rise.c  and how it comes back; path_info.c: what people are told of it
 *	share.c      how fast a rail is
 *	move.c       what a rail leaves behind that ended
 *	msg.c        messages, and the control frames between them
 *	work.c       one-sided work; request.c: the requests that it becomes
 *	key.c        the peer's regions, and ours that it has
 *	mr.c         our regions, registered; domain.c: in which protection domain;
 *	             register.c: one range with one device, and what is missing
 *	error.c      what a failed completion means
 *
 * Threads. Verbs control calls, which may take long, run as jobs on the transport's workers. A
 * connection's lock guards its queues and is held over a post; only the holder of the token polls.
 *
 * The end. After an error that no other rail makes up for every queue pair of the connection goes
 * to ERR, its flushes are polled, and it is destroyed; only then its ops finish: no late byte
 * arrives anywhere.
 */
#ifndef SL_RDMA_H
#define SL_RDMA_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "base/list.h"
#include "src/desc.h"
#include "src/transport/auth.h"
#include "src/transport/rdma/device.h"
#include "src/transport/rdma/gid.h"
#include "src/transport/rdma/job.h"
#include "src/transport/rdma/key.h"
#include "src/transport/rdma/mr.h"
#include "src/transport/rdma/pairing.h"
#include "src/transport/rdma/path.h"
#include "src/transport/rdma/share.h"
#include "src/transport/rdma/wire.h"
#include "src/transport/todo.h"
#include "src/transport/transport.h"

#define RDMA_WORKERS 2

/*
 * Beside the messages that the protocol's windows allow a peer has these on the way: credits for
 * immediates, and control frames; of rails, those of a life that ends and of the next. What answers
 * them leaves before their buffers are posted again, which is done for RDMA_POLL of them at once:
 * so many more are there, and no frame meets a queue without a receive.
 */
#define RDMA_CREDITS	 SL_WINDOW_IMM
#define RDMA_OPENS	 16 /* asked for and not answered */
#define RDMA_WITHDRAWS	 16 /* announced and not acknowledged */
#define RDMA_RAIL_FRAMES (2 * RDMA_RAILS_MAX * (RDMA_QPS_MAX + 2))
#define RDMA_CONTROLS	 (2 * (RDMA_OPENS + RDMA_WITHDRAWS) + RDMA_RAIL_FRAMES + 2)
#define RDMA_RECEIVES	 (SL_RING_ENTRIES + RDMA_CREDITS + RDMA_CONTROLS + RDMA_POLL)
#define RDMA_SENDS	 512u	    /* entries of a send queue: a power of two */
#define RDMA_INLINE	 128	    /* bytes that we ask for */
#define RDMA_SGES	 4	    /* same, of a request */
#define RDMA_PIECE_MAX	 (4u << 20) /* bytes of a request, where the device takes so many */
#define RDMA_BYTES	 (16u << 20) /* on the way on a queue pair: messages behind them wait so long */
#define RDMA_POLL	 16	     /* completions of one call */
#define RDMA_POLLS	 16	     /* calls of one round */

struct rdma_transport;
struct rdma_conn;
struct rdma_qp;
struct rdma_rail;
struct rdma_early;

/* ---- nics and completion queues ---- */

#define RDMA_CQS_MAX 64 /* of a nic */
#define RDMA_CQ_LEN  16384

struct rdma_cq {
	struct rdma_nic *nic;
	struct ibv_cq *ibv;
	uint32_t len;
	uint32_t room;	     /* entries nobody reserved; under cq_lock */
	_Atomic bool failed; /* nobody gets room in it any more; it goes with the last who has */
	bool armed;	     /* [token] */
	unsigned n_events;   /* not acknowledged; [token] */
	struct rdma_job job; /* that destroys it */
	bool stays;	     /* the device says no to that: its events name it. [token], as job */
};

/* What a port told of itself for as long as the context lives, however often its device is opened.
 */
struct rdma_news {
	char device[SL_DEVICE_NAME_MAX];
	uint8_t port;
	_Atomic uint64_t n[SLIME_DEVICE_EVENTS];
};

/* Four that are named stay the same; those that are found can be others each time. */
#define RDMA_NEWS_MAX 8

/* A port that the context uses. */
struct rdma_nic {
	struct rdma_transport *t;
	unsigned index;
	struct sl_device device;
	uint8_t port;
	/* What a port is like can change: under setup_lock. */
	enum slime_link_layer link_layer;
	bool grh_required;
	struct slime_gid gid;
	uint16_t lid;
	enum ibv_mtu mtu;
	char gid_why[SL_GID_WHY_MAX]; /* why that address */
	_Atomic bool changed;	      /* ask it again */
	bool left_out;		      /* others are used without it */
	struct rdma_news *news;	      /* NULL: nobody counts */
	bool port_is_down;	      /* it said so, and nothing else since. [token] */
	_Atomic uint32_t max_msg;     /* posts read it without that lock */
	uint32_t n_sges;
	uint8_t max_rd_atomic;	    /* reads that a queue pair may have under way */
	uint8_t max_dest_rd_atomic; /* and may answer at a time */
	struct ibv_comp_channel *channel;
	struct sl_source channel_source;
	struct sl_source async_source;
	_Atomic(struct rdma_cq *) cqs[RDMA_CQS_MAX]; /* come under cq_lock, go [token] */
	_Atomic unsigned n_cqs;			     /* places taken so far: NULL in some */
	_Atomic bool dead;
};

/* Negative errno, with the words; all under setup_lock. The port may be down: it is to be asked. */
int rdma_nic_open(struct rdma_transport *t, const char *device, uint8_t port, unsigned index,
		  struct rdma_nic **out, struct sl_why *why);
/* From here on the token's holder takes its events. It counts as failed when that cannot be. */
int rdma_nic_watch(struct rdma_nic *nic, struct sl_why *why);
/* Ask the port again what it is like. */
int rdma_nic_refresh(struct rdma_nic *nic, struct sl_why *why);
/* Take registered memory back from it, if there is some: *ibv is NULL after it. */
void rdma_nic_deregister(const struct rdma_nic *nic, struct ibv_mr **ibv);
/* Whether that errno of destroying something says that it went with its device. */
bool rdma_nic_took_along(const struct rdma_nic *nic, int err);
/* Take the events that wait. [token] */
void rdma_nic_look(struct rdma_nic *nic);
/* Whether the device is no more; the word of it may still be waiting. It takes locks of
 * connections. [token] */
bool rdma_nic_is_gone(struct rdma_nic *nic);
/* It loses completions: the rails that use it are at their end. [token] */
void rdma_nic_cq_failed(struct rdma_cq *cq, const char *what);
/* Nobody takes its events any more. [token], or where nobody else has the transport. */
void rdma_nic_unwatch(struct rdma_nic *nic);
/* Nothing of it is in use, and it is not watched: its memory is the caller's then. Control calls.
 */
void rdma_nic_close(struct rdma_nic *nic);

/* ---- news.c ---- */

/* Where what that port tells is counted; NULL when there is no place left. Under setup_lock. */
struct rdma_news *rdma_news_of(struct rdma_transport *t, const char *device, uint8_t port);
/* It told that. Any thread. */
void rdma_news_count(struct rdma_nic *nic, const struct ibv_async_event *event);
size_t rdma_device_stats(struct sl_transport *t, struct slime_device_stats *out, size_t cap);

/* ---- cq.c ---- */

/* Room for n completions in a queue of the nic, if need be in a new one. Any thread. */
int rdma_cq_reserve(struct rdma_nic *nic, uint32_t n, struct rdma_cq **out);
void rdma_cq_release(struct rdma_cq *cq, uint32_t n);
/* [token], these four. */
unsigned rdma_cq_poll(struct rdma_nic *nic); /* all of the nic */
void rdma_cq_arm(struct rdma_nic *nic);
void rdma_cq_rang(struct rdma_cq *cq);	/* its event arrived */
bool rdma_cq_fail(struct rdma_cq *cq);	/* it does not work any more; whether that is news */
void rdma_cq_close(struct rdma_cq *cq); /* nobody uses it. Any thread; control calls */

/* ---- queue pairs ---- */

#define RDMA_NUMBER_MASK 0xffffffu /* of packets: 24 bits */

/* What lies in a send queue: all that is needed to send it again. */
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
	struct rdma_conn *conn; /* NULL: an offer's, still */
	unsigned index;		/* in the connection */
	struct rdma_path *path; /* its rail there */
	uint32_t slot;		/* in the transport's table */
	uint64_t wr_id;		/* what all of its work requests have, in this life of it */
	uint32_t psn;
	struct rdma_qp_address peer;
	uint32_t n_heard;    /* packets of the peer's that arrived before it was brought up again */
	uint32_t n_receives; /* depth of the receive queue */
	uint32_t n_frames;
	uint32_t max_inline;
	uint8_t *receives; /* their buffers, RDMA_FRAME_PITCH each */
	uint8_t *frames;   /* of requests in the send queue, same */
	uint32_t lkey;	   /* of both */

	/* Under the connection's lock. */
	struct rdma_sent *sent; /* RDMA_SENDS of them */
	uint32_t head, tail;	/* posted, and completed, ever */
	uint32_t signaled;	/* head after the last signaled one */
	uint32_t looked_tail;	/* tail when it was last looked at, */
	uint32_t n_still;	/* and how often since that has moved, with requests under way */
	uint32_t marker;	/* number of the last request there will be */
	uint64_t n_bytes;	/* on the way */
	uint64_t n_acked;	/* messages, in this life of it */
	bool stays;		/* it could not be destroyed */
	bool torn; /* some were not posted: a later one's success would speak for them, too */

	/* [token], but for the worker that brings it up or kills it. */
	_Atomic uint32_t n_posted; /* receives */
	uint64_t n_received;	   /* messages, in this life of it */
	uint32_t n_returned;
	uint32_t returned[RDMA_POLL]; /* buffers that are to be posted again */
	_Atomic bool draining;	      /* it is in ERR, or soon will be */
	_Atomic bool marked;	      /* the marker is posted, or right now */
	_Atomic bool drained;
	bool marker_seen;
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
int rdma_qp_post(struct rdma_qp *q, struct ibv_send_wr *first, uint32_t n);

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

/* The request is done. Under the connection's lock. */
void rdma_qp_reclaim(struct rdma_qp *q, const struct rdma_sent *s);

/* Post these receive buffers: an errno. [token], or the worker that brings it up. */
int rdma_qp_post_receives(struct rdma_qp *q, const uint32_t *which, uint32_t n);
/* Those that came back. [token] */
void rdma_qp_post_returned(struct rdma_qp *q);

/* Receive buffer i is free again, to be posted with others. [token] */
static inline void rdma_qp_return(struct rdma_qp *q, uint32_t i)
{
	if (q->draining)
		return;
	q->returned[q->n_returned++] = i;
	if (q->n_returned == RDMA_POLL)
		rdma_qp_post_returned(q);
}

/* Whether the completion after this one says all that it does: then this one is left out. */
bool rdma_qp_is_said_again(const struct ibv_wc *wc, const struct ibv_wc *next);
/* A completion; what it is about is looked up here. [token] */
void rdma_qp_completed(struct rdma_transport *t, const struct ibv_wc *wc);

/* ---- offers ---- */

/* One direction's slots, each behind the frame of its message. */
#define RDMA_N_SLOTS   (SL_SEND_SLOTS + 2 * SL_CALL_SLOTS)
#define RDMA_SLOTS_LEN (SL_SLOTS_LEN + RDMA_N_SLOTS * RDMA_FRAME_PITCH)

struct rdma_rail {
	struct rdma_nic *nic;
	struct rdma_rail_address local;
	uint8_t gid_index;
	char gid_why[SL_GID_WHY_MAX];
	struct ibv_mr *in;  /* slots that the peer writes */
	struct ibv_mr *own; /* slots of ours, and the frames */
	struct rdma_qp *qps[RDMA_QPS_MAX];
};

struct rdma_offer {
	struct rdma_transport *t;
	struct sl_list link;	    /* in the transport's list, under its lock */
	struct rdma_job job;	    /* to be dropped */
	struct rdma_domain *domain; /* of its queue pairs: its own when isolated, else all links' */
	uint8_t *memory;
	size_t memory_len;
	uint8_t *in_slots;
	uint8_t *out_slots;
	unsigned n_rails;
	unsigned n_qps;				/* of a rail */
	struct rdma_rail rails[RDMA_RAILS_MAX]; /* of the ports that could be used */
	uint8_t bytes[SL_CANDIDATE_MAX];	/* as the peer has it */
	size_t len;
};

/* Whether its port is not, or is not as, what it was when the offer was made; in words. Asks the
 * device. */
bool rdma_rail_has_changed(const struct rdma_rail *rail, char *why, size_t cap);

int rdma_offer_create(struct rdma_transport *t, bool isolated, struct rdma_offer **out,
		      struct sl_why *why);
/* What its port is like now. Under setup_lock. */
void rdma_rail_describe(struct rdma_rail *rail);
/* Destroys what is left of its queue pairs; control calls. */
void rdma_offer_close(struct rdma_offer *o);
void rdma_offer_free(struct rdma_offer *o);
/* Both, on a worker. Any thread. */
void rdma_offer_drop(struct rdma_offer *o);
void rdma_offer_forget(struct rdma_offer *o); /* in a child after fork */

/* ---- connections ---- */

enum rdma_conn_state {
	RDMA_CONN_NEW,
	RDMA_CONN_BRINGING_UP, /* a worker is at it */
	RDMA_CONN_GREETING,
	RDMA_CONN_RESTING, /* until it begins again */
	RDMA_CONN_UP,
	RDMA_CONN_LEAVING,
	RDMA_CONN_KILLING, /* a worker is at it */
	RDMA_CONN_DRAINING,
	RDMA_CONN_CLOSING, /* a worker is at it */
	RDMA_CONN_ENDED,
};

struct rdma_conn {
	struct sl_conn conn;
	struct rdma_transport *t;
	struct sl_list link; /* in the transport's list; [token] */
	struct sl_todo_entry todo;
	struct rdma_job job;
	struct sl_timer timer; /* to be ready, to have left, to be drained */
	struct sl_timer again; /* begins once more, or greets over another rail */
	struct rdma_offer *offer;
	struct rdma_candidate peer;
	uint8_t key[SL_AUTH_KEY_LEN];
	bool initiator;
	uint64_t begun_ns, deadline_ns; /* to be up in between. [token] */
	uint64_t greeted_ns;		/* when this try was up. [token] */
	uint32_t rest_seed;		/* [token] */
	struct rdma_pairing pairing;
	unsigned n_paths;
	struct rdma_path paths[RDMA_RAILS_MAX];
	unsigned n_qps; /* of all paths */
	struct rdma_qp *qps[RDMA_RAILS_MAX * RDMA_QPS_MAX];
	uint8_t proof[SL_AUTH_MAC_LEN]; /* ours */
	uint8_t peer_proof[SL_AUTH_MAC_LEN];
	const char *held_up;	  /* what it waits for before it tries; NULL. [token] */
	struct rdma_path *proven; /* the peer holds the key: its READY came over that. [token] */
	struct rdma_path *heard;  /* and has our READY, which went over that. [token] */
	bool is_raising;	  /* a worker brings rails up. [token] */
	/* What it said before we were up, which is taken then. [token] */
	struct rdma_early *early;
	unsigned n_early;

	_Atomic uint32_t state; /* enum rdma_conn_state; changes with lock held, by [token] */
	_Atomic uint64_t imm_taken;
	_Atomic bool ending;
	_Atomic bool left; /* the peer knows that we leave */

	pthread_mutex_t lock;
	bool end_local;
	bool end_flushed; /* what is to be told is a flush alone */
	bool leaderless;  /* the lead failed, and a rail that rises takes over: counts as held */
	int end_cause;
	char end_why[SLIME_CAUSE_TEXT_MAX];
	struct sl_list works;  /* ops with requests that are not posted */
	struct sl_list held;   /* those before them that wait as messages do */
	struct sl_list posted; /* ops that are, all of them */
	unsigned n_writes;     /* of them */
	unsigned next_qp;
	uint64_t moved_ns;	 /* when one-sided work last began or ended, of several rails */
	struct rdma_qp *lead;	 /* messages go over it */
	unsigned n_held;	 /* rails that led, and are not agreed on: messages wait */
	unsigned n_tell;	 /* ends of rails that the peer is to be told */
	unsigned n_moving;	 /* rails with requests that wait for room elsewhere */
	struct ibv_send_wr *wrs; /* where chains are built; RDMA_SENDS of them */
	struct ibv_sge *sges;	 /* RDMA_SGES for each, which is its sg_list */
	struct sl_msg msgs[SL_RING_ENTRIES + RDMA_CONTROLS]; /* that found no room */
	unsigned msgs_first, n_msgs;
	uint64_t taken, taken_told;
	struct rdma_key *keys[RDMA_BUCKETS];
	unsigned n_asked; /* keys */
	_Atomic unsigned n_stale;
	char address[80];

	/* [token] */
	struct rdma_open opens[RDMA_OPENS];
	unsigned n_opens;
	uint64_t *given; /* by region id: the generation that the peer has the key of; 0: none */
	struct rdma_told told[RDMA_WITHDRAWS];
	uint64_t refused; /* generation of the last region that is restricted, and asked for */
};

/* conn.c */
int rdma_conn_create(struct sl_transport *t, const struct sl_conn_attr *attr, struct sl_conn **out);
unsigned rdma_conn_run(struct rdma_conn *c); /* do what is due; c may be gone after it. [token] */
/* A completion of q failed; of request number, unless it was a receive. [token] */
void rdma_conn_qp_failed(struct rdma_conn *c, struct rdma_qp *q, const struct ibv_wc *wc);
void rdma_conn_drained(struct rdma_conn *c); /* a queue pair is. [token] */
/* Whether the peer still answers, if idle; and what is under way since a port went down. It is
 * asked every so often. [token] */
void rdma_conn_probe(struct rdma_conn *c, uint64_t every_ns);
/* Have the token's holder run it. Any thread, under any lock. */
void rdma_conn_call(struct rdma_conn *c);
void rdma_conn_set_state(struct rdma_conn *c, enum rdma_conn_state state); /* [token] */

/* conn_begin.c; all of [token] */
void rdma_conn_begin(struct rdma_conn *c);
/* It has rested; or a rail had its turn. */
void rdma_conn_on_again(struct sl_timer *timer);
/* READY came. */
void rdma_conn_greeted(struct rdma_conn *c, struct rdma_qp *q, const struct sl_msg *m);
/* The peer has our READY, over that rail. */
void rdma_conn_heard(struct rdma_conn *c, struct rdma_path *p);
/* And says more than its own, over that rail; what it says is kept if we are not up then. */
void rdma_conn_spoken_to(struct rdma_conn *c, struct rdma_path *p);
/* Before it is up the rail broke: the peer may not be there yet. It fails with cause when no rail
 * can be tried again. Under lock. */
void rdma_conn_lose_locked(struct rdma_path *p, int cause, const char *why);
/* The time that it had to come up is over. */
void rdma_conn_give_up(struct rdma_conn *c);

/* conn_end.c */
/* It is to end; the first reason counts. Any thread; the locked one holds its lock. */
void rdma_conn_fail(struct rdma_conn *c, int cause, const char *why);
void rdma_conn_fail_locked(struct rdma_conn *c, int cause, const char *why);
/* The same: local, it was asked for here; flushed, by a flush alone, which follows from something
 * else, and that counts when it is heard of later. Under lock. */
void rdma_conn_end_because(struct rdma_conn *c, int cause, const char *why, bool local,
			   bool flushed);
/* One that is to end: do what is due. How much was done. [token] */
unsigned rdma_conn_go_on_ending(struct rdma_conn *c);

/* msg.c */
uint8_t *rdma_slot(struct sl_conn *conn, enum sl_area area, unsigned slot);
void rdma_post(struct sl_conn *conn, const struct sl_msg *m);
void rdma_take_imm(struct sl_conn *conn, uint64_t taken);
/* Under lock. */
void rdma_msg_put(struct rdma_conn *c, const struct sl_msg *m);
void rdma_msg_put_over(struct rdma_qp *q, const struct sl_msg *m); /* at once; room was there */
void rdma_msg_pump(struct rdma_conn *c); /* what waits, as far as there is room */
/* Put it before all that wait: false: there is no room. */
bool rdma_msg_put_back(struct rdma_conn *c, const struct sl_msg *m);
/* Prepare the request for m as the n-th of a chain on the lead; op, if any, is done with it. Under
 * lock. */
void rdma_msg_prepare(struct rdma_conn *c, uint32_t n, const struct sl_msg *m, struct slime_op *op);
/* What the peer said before we were up is taken; or is not, as we end. [token] */
void rdma_msg_take_early(struct rdma_conn *c);
void rdma_msg_forget_early(struct rdma_conn *c);
/* A receive completed. [token] */
void rdma_msg_received(struct rdma_conn *c, struct rdma_qp *q, uint32_t i, const struct ibv_wc *wc);

/* work.c */
int rdma_submit(struct sl_conn *conn, struct slime_op *op);
void rdma_work_pump(struct rdma_conn *c);		       /* under lock */
void rdma_work_done(struct rdma_conn *c, struct slime_op *op); /* a part is. Under lock */
void rdma_work_fail_all(struct rdma_conn *c, int status);      /* nothing is in flight. [token] */
/* The status that op shall end with, when its connection fails. Under lock. */
void rdma_work_blame(struct slime_op *op, int status);
/* A request of it is to be sent again: a part of its own from here on; or its immediate, for which
 * rdma_work_done() is the next to be called. Under lock. */
void rdma_work_again(struct slime_op *op, struct rdma_sent *s);
void rdma_work_unsaid(struct slime_op *op);

/* error.c */

/* What a failed completion comes to, as the status of its op and the end of its connection. */
int rdma_error_status(enum ibv_wc_status status);
/* Whether it is the rail's, so that the same may succeed on another. */
bool rdma_error_is_of_rail(enum ibv_wc_status status);
/* In words: also what to do about it. */
void rdma_error_text(const struct rdma_qp *q, const struct ibv_wc *wc, char *out, size_t cap);

/* ---- the transport ---- */

#define RDMA_TABLE_BITS 16

/* Where a completion finds its queue pair. */
struct rdma_entry {
	_Atomic(struct rdma_qp *) qp;
	_Atomic uint64_t wr_id; /* of its life */
};

struct rdma_transport {
	struct sl_transport base;
	struct sl_list conns; /* [token] */
	struct sl_todo todo;  /* those that the token's holder must look at */
	struct sl_timer watch;
	_Atomic unsigned n_nics; /* in use: none, or all that are open */
	unsigned n_open;	 /* under setup_lock */
	struct rdma_nic *nics[RDMA_RAILS_MAX];
	_Atomic bool failed; /* one of them is dead */
	_Atomic unsigned n_news;
	struct rdma_news news[RDMA_NEWS_MAX]; /* they come under setup_lock, and stay */

	pthread_mutex_t setup_lock; /* of nics and what they know of their ports */
	struct sl_workers workers;
	struct sl_workers registrars;
	_Atomic uint32_t n_running;

	pthread_mutex_t cq_lock; /* of completion queues' room */

	pthread_mutex_t lock; /* of the following */
	pthread_cond_t idle;
	struct sl_list done; /* jobs */
	_Atomic unsigned n_done;
	unsigned n_jobs; /* queued, running, or done and not told */
	struct sl_list offers;
	uint32_t next_slot;
	uint32_t next_life;
	struct rdma_entry *table;

	struct rdma_job closer;	  /* closes devices of which one failed */
	bool is_closing;	  /* it does, and has them for itself. Under setup_lock */
	pthread_cond_t is_closed; /* it does not any more */

	struct rdma_job tidy; /* asks again for what abandon() refused */
	bool is_tidying;      /* [token] */
	bool is_untidy;	      /* there is more to be granted since that began. [token] */

	struct rdma_domain *shared; /* under setup_lock; there with the first nic */
	pthread_mutex_t mr_lock;    /* of the following, and of what is registered in them */
	struct sl_list domains;
};

static inline struct rdma_transport *rdma_of(struct sl_transport *t)
{
	return SL_CONTAINER_OF(t, struct rdma_transport, base);
}

static inline struct rdma_conn *rdma_conn_of(struct sl_conn *conn)
{
	return SL_CONTAINER_OF(conn, struct rdma_conn, conn);
}

static inline struct sl_poller *rdma_poller(const struct rdma_transport *t)
{
	return t->base.env->poller;
}

static inline uint32_t rdma_state(const struct rdma_conn *c)
{
	return atomic_load_explicit(&c->state, memory_order_acquire);
}

/* A device let go of something: have a thread ask again for what abandon() refused. [token] */
void rdma_tidy(struct rdma_transport *t);
/* devices.c */
/* They are open, and links can be made over one of them at least. Under setup_lock. */
int rdma_devices_set_up(struct rdma_transport *t, struct sl_why *why);
/* If one of them failed, and nothing is made of any: have them closed. [token] */
void rdma_devices_close_what_failed(struct rdma_transport *t);
/* Nobody polls them from here on. [token], or where nobody else has the transport. */
void rdma_devices_unwatch(struct rdma_transport *t);
/* Nothing is made of them, and they are not watched. Control calls. */
void rdma_devices_close(struct rdma_transport *t);

/* Look from time to time whether the peers of idle connections are there. [token] */
void rdma_watch_start(struct rdma_transport *t);
int rdma_table_add(struct rdma_transport *t, struct rdma_qp *q);
void rdma_table_remove(struct rdma_qp *q);

#endif
