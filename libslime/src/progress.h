/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who makes progress. One thread at a time holds the token: a waiter, a caller's poll, or the
 * context's thread.
 *
 * Nobody's event is missed because whoever leaves arms every source and looks once more. The
 * context's thread sleeps on the poller without the token (DEEP). A waiter that must sleep does so
 * on the same poller, holding the token, after it moved the thread aside (WATCH): two sleepers on
 * one set would both wake for every event. While callers come and go the thread only looks from
 * time to time whether they still do, and takes over when not.
 */
#ifndef SL_PROGRESS_H
#define SL_PROGRESS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

struct slime_context;
struct slime_op;

struct sl_progress {
	_Atomic uint32_t token;	    /* 0 free, 1 held */
	_Atomic uint32_t n_waiting; /* threads that want the token: the holder, when it has no op of
				       its own, leaves */
	_Atomic uint64_t n_visits;  /* by callers; the thread sees from it that they still come */
	bool armed;		    /* under the token */

	pthread_mutex_t lock;	 /* of sleepers */
	struct sl_list sleepers; /* threads asleep on their op while another holds the token */

	pthread_t thread;
	bool has_thread;
	_Atomic uint32_t thread_state; /* enum sl_thread_state, a futex in WATCH and PARKED */
	_Atomic bool stop;
	uint64_t spin_ns;
};

enum sl_thread_state {
	SL_THREAD_DEEP,	  /* asleep on the poller, or about to take the token */
	SL_THREAD_WATCH,  /* looks again after SL_WATCH_US */
	SL_THREAD_PARKED, /* a caller holds the token for long; it wakes us when it leaves */
};

/* How long serving may rest after a caller left the token without sleeping. */
#define SL_WATCH_US 500

int sl_progress_start(struct slime_context *ctx);
void sl_progress_stop(struct slime_context *ctx);

/* Take the token without waiting; false when another thread has it. Give it back with
 * sl_progress_leave(). */
bool sl_progress_try_enter(struct slime_context *ctx);
/* Take it, however long that takes: for control work only. */
void sl_progress_enter(struct slime_context *ctx);
void sl_progress_leave(struct slime_context *ctx);

/* One round over all sources that does not sleep; returns the number of events handled. [token] */
unsigned sl_progress_once(struct slime_context *ctx);

/* Make progress until done(arg) or deadline_ns: 0, -ETIMEDOUT, or -EDEADLK inside a callback. */
int sl_progress_until(struct slime_context *ctx, bool (*done)(void *arg), void *arg,
		      uint64_t deadline_ns);

/* Make progress until op is not pending: as sl_progress_until, and another holder wakes us when it
 * finishes the op. */
int sl_progress_wait_op(struct slime_context *ctx, struct slime_op *op, uint64_t deadline_ns);

/* Whether this thread is inside a callback or handler of any context. */
bool sl_progress_in_callback(void);
/* Around every call of the user's code on the progress thread. */
void sl_progress_callback_begin(void);
void sl_progress_callback_end(void);

/* There is work that no descriptor announces (a submit left some): whoever sleeps comes and looks.
 * Any thread. */
void sl_progress_kick(struct slime_context *ctx);

#endif
