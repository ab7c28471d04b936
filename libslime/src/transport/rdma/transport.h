/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rdma transport: reliable connected queue pairs over libibverbs.
 *
 * Calls go down in this list; what is below reports upwards by conn_report.c and path_fail.c, which
 * have the holder of the token run the connection.
 *
 *	transport.c   offers, passes, and what else the context asks for
 *	devices.c     the devices of a context: opened, chosen, closed
 *	conn.c        the life of a connection; conn_begin.c: it comes up; conn_end.c: it ends
 *	completion.c  polls completion queues; receive.c: takes messages and control frames
 *	path.c        the end of a rail, and the agreement on it; path_rise.c: its return;
 *	              path_pair.c: which rails a connection has; path_info.c: what people are told
 *	move.c        what a rail that ended leaves to the others
 *	work.c        one-sided work; request.c: the requests that it becomes
 *	key.c         the peer's regions, and ours that it has
 *	msg.c         sends messages and control frames
 *	offer.c       what waits for a peer: queue pairs, and memory that it writes to
 *	mr.c          our regions, registered; domain.c: in which protection domain;
 *	              register.c: one range with one device
 *	nic_events.c  the events of a device, and what follows for the rails that use it
 *	qp.c          a queue pair and its send queue; qp_up.c: how it comes up
 *	path_fail.c   a rail is found broken; path_share.c: how much of the work each rail gets
 *	conn_report.c what its parts report to a connection
 *	nic.c         a port that the context uses; cq.c: room in its completion queues
 *	job.c         what the threads do; tidy.c: memory that devices let go of
 *	async_events.c  counts what devices tell of themselves
 *	device.c      one device and its ports; gid.c: which address of a port is used
 *	wire.c        the bytes; slot.h: where they lie
 *	pairing.c, share.c, error.c, limits.h
 *
 * Threads. Verbs control calls, which may take long, run as jobs on the transport's workers. A
 * connection's lock guards its queues and is held over a post; only the holder of the token polls.
 *
 * The end. After an error that no other rail makes up for every queue pair of the connection goes
 * to ERR, its flushes are polled, and it is destroyed; only then its ops finish: no late byte
 * arrives anywhere.
 */
#ifndef SL_RDMA_TRANSPORT_H
#define SL_RDMA_TRANSPORT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/list.h"
#include "src/core/poller.h"
#include "src/core/worker.h"
#include "src/transport/rdma/job.h"
#include "src/transport/rdma/async_events.h"
#include "src/transport/rdma/wire.h"
#include "src/transport/todo.h"
#include "src/transport/transport.h"

struct rdma_domain;
struct rdma_entry;
struct rdma_nic;

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
	_Atomic unsigned n_async_events;
	struct rdma_async_events
		async_events[RDMA_ASYNC_EVENTS_MAX]; /* they come under setup_lock, and stay */

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
	_Atomic bool is_searching;

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

static inline struct sl_poller *rdma_poller(const struct rdma_transport *t)
{
	return t->base.env->poller;
}

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

#endif
