/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rail of a connection, from our port to the peer's: its end, the agreement on it, its return.
 *
 * A rail is in use until either end finds it broken. Then both ends destroy its queue pairs, and
 * each tells the other so over another rail. Only after that does unfinished work of the rail go
 * over the others (docs/decisions/0011). New queue pairs are made when the port can be used, and
 * a probe over each has to be answered.
 */
#ifndef SL_RDMA_PATH_H
#define SL_RDMA_PATH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "src/core/poller.h"
#include "src/transport/rdma/job.h"
#include "src/transport/rdma/share.h"
#include "src/transport/rdma/wire.h"
#include "src/transport/transport.h"

struct rdma_conn;
struct rdma_nic;
struct rdma_qp;
struct rdma_rail;

/* Flushes that do not come in that time do not come: destroying the queue pairs ends them. */
#define RDMA_DRAIN_NS (500 * SL_NS_PER_MS)

enum rdma_path_state {
	/* Until the connection is up. */
	RDMA_PATH_FALLEN,   /* its queue pairs are to be brought up */
	RDMA_PATH_RAISING,  /* a worker does that, as a job of the connection */
	RDMA_PATH_SPOILED,  /* the same, and it was found broken meanwhile */
	RDMA_PATH_STANDING, /* they are */
	RDMA_PATH_GREETING, /* and our READY was posted to one of them, since */
	/* And then. */
	RDMA_PATH_UP,	    /* as soon as the connection is */
	RDMA_PATH_KILLING,  /* a worker moves its queue pairs to ERR */
	RDMA_PATH_DRAINING, /* their flushes come */
	RDMA_PATH_CLOSING,  /* a worker destroys them */
	RDMA_PATH_STOPPED,  /* there are none here; the peer's may still exist */
	RDMA_PATH_DOWN,	    /* nor there */
	RDMA_PATH_MAKING,   /* a worker makes new ones */
	RDMA_PATH_MADE,	    /* the peer knows them, and its own are not known */
	RDMA_PATH_RISING,   /* a worker brings them up */
	RDMA_PATH_RISEN,    /* ours can receive, and the peer's are not known to */
	RDMA_PATH_PROVING,  /* probes are under way */
	RDMA_PATH_STATES,
};

/* That we stopped using it in one of its lives. A peer that has not heard so is one life behind us
 * at most, since we do not go on without its own word. */
struct rdma_told_end {
	uint64_t life;
	uint64_t count; /* of messages that were seen over it */
	bool tell;	/* it is to be told, or told again */
};

struct rdma_path {
	struct rdma_conn *c;
	unsigned index;		/* what both ends call it */
	struct rdma_rail *rail; /* our half */
	unsigned peer_rail;	/* the peer's, by its own count */
	struct rdma_qp *qps[RDMA_QPS_MAX];
	unsigned n_qps;

	/* Change under the connection's lock. */
	enum rdma_path_state state;   /* changes by [token] */
	_Atomic bool usable;	      /* up, and not found broken */
	_Atomic bool failed;	      /* found broken, until both ends agree on its end */
	bool port_is_down;	      /* told when it could not be left; until it can */
	bool port_was_down;	      /* in this life */
	bool led;		      /* our messages go, or went, over it in this life */
	bool moving;		      /* requests that it left wait for room on the others */
	struct rdma_told_end ends[2]; /* of its last two lives, by their parity */
	struct rdma_share share;
	uint32_t weight;   /* of it beside the others in use */
	unsigned n_probes; /* that are not answered */
	uint64_t n_moved;  /* bytes of one-sided work, ever */
	uint32_t n_failed; /* how often it was found broken */
	char error[128];   /* what it failed with last; "" */
	char why[256];	   /* these two ports, and this address */

	/* [token] */
	uint32_t life;
	char lost_why[128]; /* what it failed with last, before the connection is up */
	bool greeted; /* our READY went over it in this life, before all messages; perhaps in vain
		       */
	bool spent;   /* not brought up again, then: what it heard would be lost */
	bool peer_stopped; /* in this life; then: */
	uint64_t peer_count;
	uint32_t peer_qps; /* which of its new ones are known */
	bool peer_risen;
	bool waited;  /* once for that to be drained */
	bool drained; /* long enough */
	struct sl_timer timer;
	struct rdma_job job;
	bool busy; /* a worker is at it */
	/* The worker's while busy, else [token]. */
	int job_status;
	const char *job_step;
	char job_why[128];
	/* [token] */
	uint64_t pause_ns; /* before the next try */
	uint64_t up_ns;	   /* since when it is up */
};

/* Before the connection is up: a worker brings it up; and its queue pairs are up. */
static inline bool rdma_path_is_being_raised(const struct rdma_path *p)
{
	return p->state == RDMA_PATH_RAISING || p->state == RDMA_PATH_SPOILED;
}

static inline bool rdma_path_stands(const struct rdma_path *p)
{
	return p->state == RDMA_PATH_STANDING || p->state == RDMA_PATH_GREETING;
}

/* A rail of a new connection, before it is brought up. */
void rdma_path_init(struct rdma_path *p, struct rdma_conn *c);

/* Do what is due, all of [token]. */
void rdma_path_run(struct rdma_conn *c);
/* A frame about a rail: false: broken protocol. */
bool rdma_path_received(struct rdma_conn *c, const struct sl_msg *m);
/* The connection ends: false while a worker is busy with one. [token] */
bool rdma_path_end_all(struct rdma_conn *c);

/* ---- path_fail.c ---- */

/* It is broken: whether another takes over. Any thread, under lock. */
bool rdma_path_leave(struct rdma_path *p, const char *why);
/* Whether a completion queue of it tells of nothing any more. */
bool rdma_path_has_failed_cq(const struct rdma_path *p);
/* Leave it, or the connection fails with cause; before that is up, it is tried without it: by
 * [token] then. */
void rdma_path_fail_locked(struct rdma_path *p, int cause, const char *why);
/* Its port is not active: as above, but where it is the last, when another has come up. */
void rdma_path_port_down(struct rdma_path *p, const char *why);
/* Rails that were kept although their ports are down are left, as far as there are others. Under
 * lock. */
void rdma_path_leave_ports_that_are_down(struct rdma_conn *c);
/* The port is active again; or it changed otherwise, and may be usable. [token] */
void rdma_path_port_up(struct rdma_path *p);
void rdma_path_port_changed(struct rdma_path *p);

/* Whether it can be brought up, if it has fallen. Other queue pairs it gets when the connection is
 * up. */
bool rdma_path_may_stand(const struct rdma_path *p);
/* Messages go over other from here on; NULL: they wait until a rail has risen. Under lock. */
void rdma_path_lead_over(struct rdma_conn *c, struct rdma_path *other);
void rdma_path_set_timer(struct rdma_path *p, uint64_t wait_ns);
/* The peer is to be told, once more, how the rail stopped in that life. Under lock. */
void rdma_path_tell(struct rdma_path *p, uint64_t life);
/* The frame that does so, for the next that is to be told. Under lock. */
bool rdma_path_next_told(struct rdma_conn *c, struct sl_msg *out);
/* A probe was answered. Under lock. */
void rdma_path_probed(struct rdma_path *p);

/* ---- path_share.c ---- */

/* Bytes of one-sided work leave over one of several rails, or have arrived over it. Under lock. */
void rdma_path_took(struct rdma_path *p, uint64_t n_bytes);
void rdma_path_measure(struct rdma_path *p, uint64_t n_bytes);
/* Of all_bytes those that it should carry. Under lock. */
uint64_t rdma_path_part(const struct rdma_path *p, uint64_t all_bytes);
/* Whether it seems slow, and must be given some to see whether it still is. Under lock. */
bool rdma_path_is_due(const struct rdma_path *p);
/* Rails come or go, or one is faster than before. Under lock. */
void rdma_path_weigh(struct rdma_conn *c);

/* ---- path_info.c ---- */

/* As of struct sl_conn_ops. */
size_t rdma_path_rails(struct sl_conn *conn, struct slime_rail_info *out, size_t cap);
/* Our half of it was described anew: update the text for users. Under lock, or before other
 * threads know the connection. */
void rdma_path_explain(struct rdma_path *p);
/* The first rail comes back, perhaps with other addresses: update the connection's text for
 * users. Under lock, or before other threads know the connection. */
void rdma_path_describe(struct rdma_conn *c);

/* ---- path_pair.c ---- */

/* Make the rails of a new connection, of what it offered and what its peer did: 0, or with the
 * words and nothing taken of the offer -EPROTONOSUPPORT. */
int rdma_path_pair(struct rdma_conn *c, struct sl_why *why);

/* ---- path_rise.c; all of [token] ---- */

/* A rail that failed is tried after the first of these, and after twice as long each time that it
 * does not last. */
#define RDMA_PAUSE_MIN_NS (100 * SL_NS_PER_MS)
#define RDMA_PAUSE_MAX_NS (10 * SL_NS_PER_S)

void rdma_path_try(struct rdma_path *p); /* if it is down, and may come back */
/* Its probes were answered; nothing, if it was found broken since. */
void rdma_path_come_up(struct rdma_path *p);
bool rdma_path_take_address(struct rdma_path *p, const struct sl_msg *m); /* RAIL */
void rdma_path_peer_risen(struct rdma_path *p);
void rdma_path_spoke(struct rdma_path *p); /* the peer, over it: it has risen there */

/* The parts of path.c that it needs. */
/* It has risen: it takes over from one that failed meanwhile, if no other could. Under lock. */
void rdma_path_take_over(struct rdma_path *p);
void rdma_path_set_state(struct rdma_path *p, enum rdma_path_state state);
void rdma_path_work(struct rdma_path *p, enum rdma_path_state state,
		    void (*work)(struct rdma_job *), void (*done)(struct rdma_job *));
bool rdma_path_worked(struct rdma_path *p); /* a worker is done: whether the connection goes on */

#endif
