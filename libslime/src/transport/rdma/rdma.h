/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rdma transport: reliable connected queue pairs over libibverbs.
 *
 *	transport.c  the context's part: offers, rounds; job.c: what its threads do
 *	devices.c    the devices of a context; device.c: one of them, opened, and its ports
 *	gid.c	     which address of a port is used
 *	nic.c        a port that the context uses: channel, events; news.c: those, counted
 *	cq.c         completion queues: who has room in which, and polling
 *	qp.c         a queue pair and its send queue; qp_up.c: how it comes up
 *	offer.c      what waits for a peer: queue pairs, and memory that it writes to
 *	wire.c       the bytes: candidates, frames, proofs
 *	conn.c       a connection's life: up, its rounds; conn_end.c: and how it ends
 *	pairing.c    which rails of both ends go together
 *	path.c       a rail of a connection: its end, the agreement on it
 *	path_rise.c  and how it comes back; path_info.c: what people are told of it;
 *	             path_pair.c: which ones a connection has
 *	share.c      how fast a rail is
 *	move.c       what a rail leaves behind that ended
 *	msg.c        messages, and the control frames between them
 *	work.c       one-sided work; request.c: the requests that it becomes
 *	key.c        the peer's regions, and ours that it has
 *	mr.c         our regions, registered; domain.c: in which protection domain;
 *	             register.c: one range with one device, and what is missing
 *	error.c      what a failed completion means
 *	limits.h     what bounds them
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

#include "base/clock.h"
#include "base/list.h"
#include "src/transport/rdma/conn.h"
#include "src/transport/rdma/cq.h"
#include "src/transport/rdma/device.h"
#include "src/transport/rdma/error.h"
#include "src/transport/rdma/gid.h"
#include "src/transport/rdma/job.h"
#include "src/transport/rdma/key.h"
#include "src/transport/rdma/limits.h"
#include "src/transport/rdma/mr.h"
#include "src/transport/rdma/msg.h"
#include "src/transport/rdma/news.h"
#include "src/transport/rdma/nic.h"
#include "src/transport/rdma/offer.h"
#include "src/transport/rdma/pairing.h"
#include "src/transport/rdma/path.h"
#include "src/transport/rdma/qp.h"
#include "src/transport/rdma/receive.h"
#include "src/transport/rdma/share.h"
#include "src/transport/rdma/wire.h"
#include "src/transport/rdma/work.h"
#include "src/transport/transport.h"

#define RDMA_WORKERS 2

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
	void (*on_port)(struct rdma_transport *t, bool up); /* what devices.c does then. [token] */
	_Atomic unsigned n_nics;			    /* in use: none, or all that are open */
	unsigned n_open;				    /* under setup_lock */
	struct rdma_nic *nics[RDMA_RAILS_MAX];
	_Atomic bool failed;	/* one of them is dead */
	_Atomic bool gives_way; /* the one there is cannot be used, and another could be */
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

	struct rdma_job look; /* whether there is a port in the place of the one that is down */
	_Atomic bool is_looking;

	struct rdma_job closer;	  /* closes devices of which one failed */
	_Atomic bool said_none;	  /* that this host has no device */
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

/* tidy.c */
/* A device let go of something: have a thread ask again for what abandon() refused. [token] */
void rdma_tidy(struct rdma_transport *t);
/* devices.c */
/* They are open, and links can be made over one of them at least. Under setup_lock. */
int rdma_devices_set_up(struct rdma_transport *t, struct sl_why *why);
/*
 * A port came up, or went down. Where nobody named a device and the one there is cannot be used,
 * another is looked for; as one that failed it is closed once nothing is made of it, and the next
 * offer opens that. Unless the one there is can be used again by then. [token]
 */
void rdma_devices_port_changed(struct rdma_transport *t, bool up);
/* Once nothing is made of them. */
static inline bool rdma_devices_are_to_close(const struct rdma_transport *t)
{
	return atomic_load_explicit(&t->failed, memory_order_relaxed) ||
	       atomic_load_explicit(&t->gives_way, memory_order_relaxed);
}
/* If they are to be closed, and nothing is made of any: have them closed. [token] */
void rdma_devices_close_what_failed(struct rdma_transport *t);
/* Nobody polls them from here on. [token], or where nobody else has the transport. */
void rdma_devices_unwatch(struct rdma_transport *t);
/* Nothing is made of them, and they are not watched. Control calls. */
void rdma_devices_close(struct rdma_transport *t);

/* Looks at idle connections in the time after which a silent peer is given up. */
#define RDMA_PROBES_PER_TIMEOUT 4

static inline uint64_t rdma_watch_ns(const struct rdma_transport *t)
{
	return t->base.env->attr->tcp_user_timeout_ms * SL_NS_PER_MS / RDMA_PROBES_PER_TIMEOUT;
}

/* Look from time to time whether the peers of idle connections are there. [token] */
static inline void rdma_watch_start(struct rdma_transport *t)
{
	if (t->watch.when_ns == SL_NEVER)
		sl_timer_set(rdma_poller(t), &t->watch, sl_clock_ns() + rdma_watch_ns(t));
}
int rdma_table_add(struct rdma_transport *t, struct rdma_qp *q);
void rdma_table_remove(struct rdma_qp *q);

#endif
