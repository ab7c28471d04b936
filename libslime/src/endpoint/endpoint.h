/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The endpoint's struct, its state, and the threads inside of it. xfer (one-sided work and
 * immediates), recv (send and receive) and mailbox (calls) each have their state in it, get the
 * messages of their kinds, and are told of its end.
 */
#ifndef SL_ENDPOINT_H
#define SL_ENDPOINT_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "src/progress/context.h"
#include "src/core/desc.h"
#include "src/endpoint/counters.h"
#include "src/transport/transport.h"
#include <slime/endpoint.h>
#include <slime/log.h>
#include <slime/stats.h>

/* An immediate that arrived and was not taken yet. */
struct sl_arrived_imm {
	uint32_t imm;
	uint64_t bytes;
};

/* A connection of an endpoint: the one in use, or one that is tried. */
struct sl_attempt {
	struct slime_endpoint *ep;
	enum slime_transport transport;
	struct sl_conn *conn; /* NULL: none, or destroyed */
	bool broken;	      /* it ended: to be destroyed in the endpoint's next pass */
};

/* The part of an endpoint that a transport keeps for the endpoint's peer. */
struct sl_offered {
	bool asked;
	int status;
	struct sl_offer *offer; /* NULL: none, or a connection has it */
	struct sl_candidate candidate;
	struct sl_why why;
};

/* Where a reason stands in a text of several. */
struct sl_reason {
	uint16_t at, len; /* len 0: there is none */
};

struct slime_endpoint {
	struct slime_context *ctx;
	struct slime_endpoint_attr attr;
	char name[64];
	struct sl_list link; /* in the context's list */
	struct sl_task task; /* its pass, among the tasks of the context */
	struct sl_link_id self;
	uint8_t secret[SL_SECRET_LEN];
	uint64_t listener; /* that made it; 0: none. Under the lock of the context */

	_Atomic uint32_t state;		/* enum slime_endpoint_state */
	_Atomic bool shut;		/* closed by us: no new operations */
	_Atomic uint32_t n_submitting;	/* threads between sl_endpoint_enter and leave */
	_Atomic uint32_t n_pending;	/* ops but calls */
	_Atomic(struct sl_conn *) conn; /* usable between enter and leave */
	_Atomic bool ended;		/* nothing but destroy is left to happen */

	pthread_mutex_t lock; /* of the following, which other threads look at */
	int cause;
	char cause_text[SLIME_CAUSE_TEXT_MAX];
	enum slime_transport transport; /* of conn */
	bool any_region;		/* the same of conn */
	bool connect_called;
	struct sl_endpoint_desc peer;
	struct slime_op *connect_op;

	pthread_mutex_t offer_lock;			/* of the following */
	struct sl_offered offered[SLIME_TRANSPORT_MAX]; /* by transport */

	/* Connecting. [token] */
	uint8_t key[32];
	bool initiator;
	bool started;
	_Atomic bool offers_made; /* each transport was asked: offered has all reasons */
	unsigned next_candidate;  /* the index in attr.transports that is tried next */
	uint64_t deadline_ns;
	struct sl_attempt attempts[SLIME_TRANSPORT_MAX]; /* by transport */
	int last_error;
	/* Why candidates failed so far; once the endpoint is connected nothing is added. */
	char reasons[SLIME_CAUSE_TEXT_MAX];
	struct sl_reason reason_of[SLIME_TRANSPORT_MAX]; /* by transport */

	/* The layers' own passes. */
	struct sl_timer timer;	  /* [token] */
	_Atomic uint64_t wake_ns; /* when a layer wants a pass; SL_NEVER: not */

	/* xfer: immediates, under imm_lock. */
	pthread_mutex_t imm_lock;
	struct sl_arrived_imm imms[SL_WINDOW_IMM];
	unsigned imm_first;
	unsigned imm_n;
	uint64_t imm_taken;
	struct sl_list imm_ops;	     /* receives that wait */
	_Atomic uint64_t imm_posted; /* window places taken by write_imm, ever */

	void *recv;
	void *mailbox;
	void *pacer; /* NULL: its bandwidth has no cap */
	struct sl_kind_counters counters[SLIME_KIND_MAX];
	struct sl_kind_counters served; /* by [token]: besides those of SLIME_KIND_SERVE */
	/* Of what reads and writes; apart from the others, which every operation touches. */
	_Atomic uint64_t failed_bytes[SLIME_KIND_WRITE_IMM + 1];
};

/* The connection, or NULL when it must not be used. The caller keeps down() of its layer from
 * returning. */
static inline struct sl_conn *sl_endpoint_conn(struct slime_endpoint *ep)
{
	if (atomic_load(&ep->state) != SLIME_ENDPOINT_CONNECTED ||
	    atomic_load_explicit(&ep->shut, memory_order_relaxed))
		return NULL;
	return atomic_load_explicit(&ep->conn, memory_order_relaxed);
}

/*
 * Enter the endpoint for a submit: 0 and the connection, which stays until sl_endpoint_leave();
 * else -ENOTCONN (connecting, broken, closed) and nothing to leave.
 */
static inline int sl_endpoint_enter(struct slime_endpoint *ep, struct sl_conn **out)
{
	/* First be counted, then look: went_down() does it in the opposite order. */
	atomic_fetch_add(&ep->n_submitting, 1);
	*out = sl_endpoint_conn(ep);
	if (*out)
		return 0;
	atomic_fetch_sub(&ep->n_submitting, 1);
	return -ENOTCONN;
}

static inline void sl_endpoint_leave(struct slime_endpoint *ep)
{
	atomic_fetch_sub_explicit(&ep->n_submitting, 1, memory_order_release);
}

/* Other threads see the state from here on. [token] */
void sl_endpoint_note_state(struct slime_endpoint *ep, enum slime_endpoint_state state, int cause,
			    const char *why);
/* Tell the user. [token], no lock held. */
void sl_endpoint_tell_state(struct slime_endpoint *ep, enum slime_endpoint_state state, int cause);
/* Both. [token], no lock held. */
void sl_endpoint_set_state(struct slime_endpoint *ep, enum slime_endpoint_state state, int cause,
			   const char *why);

/* The level of a line about its state: this one, or debug if the user reports the state itself. */
static inline enum slime_log_level sl_endpoint_level(const struct slime_endpoint *ep,
						     enum slime_log_level level)
{
	return ep->attr.quiet ? SLIME_LOG_DEBUG : level;
}

/* The holder of the token runs the endpoint's pass; no thread is woken. Any thread, as below. */
void sl_endpoint_queue(struct slime_endpoint *ep);

/* The endpoint's layers get a pass soon. Any thread that keeps the endpoint from being destroyed.
 */
void sl_endpoint_ring(struct slime_endpoint *ep);

/* As sl_endpoint_ring, at when_ns or before. Cheap when an earlier time was asked for already. */
void sl_endpoint_wake_at(struct slime_endpoint *ep, uint64_t when_ns);

/* End the connection because of what the layer above found; any thread. */
void sl_endpoint_fail(struct slime_endpoint *ep, int cause, const char *why);

#endif
