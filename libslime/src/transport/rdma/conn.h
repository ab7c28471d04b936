/* SPDX-License-Identifier: Apache-2.0 */
/* A connection: how it comes up, its passes, how it ends. */
#ifndef SL_RDMA_CONN_H
#define SL_RDMA_CONN_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "base/list.h"
#include "src/core/lock.h"
#include "src/transport/auth.h"
#include "src/transport/rdma/job.h"
#include "src/transport/rdma/key.h"
#include "src/transport/rdma/limits.h"
#include "src/transport/rdma/pairing.h"
#include "src/transport/rdma/path.h"
#include "src/transport/rdma/wire.h"
#include "src/transport/todo.h"
#include "src/transport/transport.h"

struct rdma_early;
struct rdma_offer;
struct rdma_qp;
struct rdma_transport;

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
	/* A message that the peer sent before we were up, which is taken then. [token] */
	struct rdma_early *early;
	unsigned n_early;
	void (*on_up)(struct rdma_conn *c); /* it is: take that */

	_Atomic uint32_t state; /* enum rdma_conn_state; changes with lock held, by [token] */
	_Atomic uint64_t imm_taken;
	_Atomic bool ending;
	_Atomic bool left; /* the peer knows that we leave */

	struct sl_lock lock;
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
	char address[80]; /* of the first rail, for people */

	/* [token] */
	struct rdma_open opens[RDMA_OPENS];
	unsigned n_opens;
	struct rdma_more_keys more;
	unsigned n_wrong_secrets;
	uint64_t *given; /* by region id: the generation that the peer has the key of; 0: none */
	struct rdma_told told[RDMA_WITHDRAWS];
	uint64_t refused; /* generation of the last region that is restricted, and asked for */
};

static inline struct rdma_conn *rdma_conn_of(struct sl_conn *conn)
{
	return SL_CONTAINER_OF(conn, struct rdma_conn, conn);
}

static inline uint32_t rdma_state(const struct rdma_conn *c)
{
	return atomic_load_explicit(&c->state, memory_order_acquire);
}

/* Whether there is anything to be sent when there is room. Under lock. */
static inline bool rdma_msg_waits(const struct rdma_conn *c)
{
	return c->n_msgs || c->taken != c->taken_told || c->n_tell;
}

/* The same of one-sided work. */
static inline bool rdma_work_waits(const struct rdma_conn *c)
{
	return c->n_moving || !sl_list_empty(&c->works) || !sl_list_empty(&c->held);
}

/* conn.c */
int rdma_conn_create(struct sl_transport *t, const struct sl_conn_attr *attr, struct sl_conn **out);
unsigned rdma_conn_run(struct rdma_conn *c); /* do what is due; c may be gone after it. [token] */
/* Whether the peer still answers, if idle; and what is under way since a port went down. It is
 * asked every so often. [token] */
void rdma_conn_probe(struct rdma_conn *c, uint64_t every_ns);

/* conn_report.c */
/* Have the token's holder run it. Any thread, under any lock. */
void rdma_conn_call(struct rdma_conn *c);
void rdma_conn_set_state(struct rdma_conn *c, enum rdma_conn_state state); /* [token] */
/* It is to end; the first reason counts. Any thread; the locked one holds its lock. */
void rdma_conn_fail(struct rdma_conn *c, int cause, const char *why);
void rdma_conn_fail_locked(struct rdma_conn *c, int cause, const char *why);
/* The same: local, it was asked for here; flushed, by a flush alone, which follows from something
 * else, and that counts when it is heard of later. Under lock. */
void rdma_conn_end_because(struct rdma_conn *c, int cause, const char *why, bool local,
			   bool flushed);

/* path_fail.c */
/* Before it is up the rail broke: the peer may not be there yet. It fails with cause when no rail
 * can be tried again. Under lock. */
void rdma_conn_lose_locked(struct rdma_path *p, int cause, const char *why);
/* Whether no rail can be tried any more. Under lock. */
bool rdma_conn_is_hopeless(const struct rdma_conn *c);
/* Until the next try, after one that took so long. Under lock. */
void rdma_conn_rest(struct rdma_conn *c, uint64_t try_ns);

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
/* The time that it had to come up is over. */
void rdma_conn_give_up(struct rdma_conn *c);

/* conn_end.c */
/* One that is to end: do what is due. How much was done. [token] */
unsigned rdma_conn_go_on_ending(struct rdma_conn *c);

#endif
