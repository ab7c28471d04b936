/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Progress of a context. One thread at a time holds the token: a caller that waits or polls, or
 * the context's thread.
 *
 * The context's thread makes progress while no caller does. When it finds nothing to do it arms
 * every source, polls once more, gives the token back and sleeps on the poller (DEEP). A caller
 * that comes moves the thread to WATCH, since in DEEP it would wake for every event that the
 * caller handles. In WATCH it checks every SL_WATCH_US whether callers still come, and makes
 * progress again when they do not. It checks less often, up to SL_WATCH_MAX_US, while callers
 * hold the token most of the time, and when one holds it for longer the thread sleeps until that
 * one leaves (PARKED). So a caller in a loop pays no system call for the thread, and a request of
 * a peer waits for at most SL_WATCH_US, or once for SL_WATCH_MAX_US after such a loop. A caller
 * inside a post is expected to come back, too, however long a device without hardware takes for
 * the post: then the thread checks up to every SL_WATCH_POSTING_US, and stays in WATCH for at
 * most SL_POSTING_MAX_US when no caller comes. Where there is only one CPU it also leaves DEEP
 * for such a caller, since it would take the CPU from the post.
 *
 * A caller that must sleep does so on the poller, and holds the token meanwhile. Other callers
 * sleep on their op, and the first of them is woken when the holder leaves.
 */
#ifndef SL_PROGRESS_H
#define SL_PROGRESS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "src/transport/transport.h"

struct slime_context;
struct slime_op;

/* How long the context's thread may wait after a caller left; and after callers that came without a
 * pause. */
#define SL_WATCH_US	500
#define SL_WATCH_MAX_US 4000
/* The same after callers that it finds inside posts; and how long it waits for one of them to
 * come. Soft-RoCE takes 0.5 ms for 64 KiB where CPUs are emulated, and with 128 of them in flight
 * there are as many posts between two calls. Polling in the middle of a post moves the rest of
 * its work to another thread of the kernel. */
#define SL_WATCH_POSTING_US 32000
#define SL_POSTING_MAX_US   96000

/* A manual context has no thread: its state is PARKED while the program that sleeps on its
 * descriptor waits to be told that the holder leaves, and DEEP otherwise. */
enum sl_thread_state {
	SL_THREAD_DEEP,	  /* serves, or sleeps on the poller */
	SL_THREAD_WATCH,  /* looks again after a while */
	SL_THREAD_PARKED, /* sleeps until the holder leaves */
};

struct sl_progress {
	_Atomic uint32_t token;	    /* 0 free, 1 held */
	_Atomic uint32_t sleeping;  /* a thread sleeps on the poller, or is about to: wake it */
	_Atomic uint32_t n_waiting; /* callers that want the token: the thread leaves for them */
	_Atomic uint32_t
		n_control; /* sl_progress_enter() wants it: a waiting caller lets it through */
	_Atomic uint32_t next_ticket, ticket; /* the next one of those */
	_Atomic uint64_t n_calls;	      /* by callers */
	_Atomic uint32_t posting; /* a hint: a caller is inside a post, and comes soon */
	/* Under the token. */
	bool armed;	      /* peers ring us */
	bool owes_wake;	      /* the holder disarmed what the program may sleep on */
	uint32_t passes;      /* since the clock was looked at for the poller's turn */
	bool poll_all;	      /* in this pass: for the transports */
	uint32_t vain_calls;  /* system calls of the last pass that found nothing */
	bool slow_poll;	      /* the last pass asked a device */
	struct sl_next next;  /* for the transports */
	uint32_t n_expected;  /* passes in a row that only took what was expected */
	uint32_t n_coming;    /* messages that likely follow those of the last pass soon */
	uint32_t n_unmet;     /* looks in a row at what was expected and did not happen */
	uint32_t yield_after; /* empty passes before a spinner yields its CPU */
	uint64_t poller_ns;   /* when the poller was looked at */
	uint64_t spin_ns;     /* adaptive: the longest that a spinner goes on */
	uint64_t patience_ns; /* and how long it does of late */
	uint64_t asleep_ns;   /* since when a thread polls that will sleep; 0: none does */
	bool one_cpu;	      /* this process may use one CPU only */
	/* The work that sl_progress_after() noted; NULL: nothing. */
	void (*after)(void *arg);
	void *after_arg;

	pthread_mutex_t lock;	 /* of sleepers */
	struct sl_list sleepers; /* callers asleep on their op while another holds the token */

	pthread_t thread;
	bool has_thread;
	int thread_fd; /* eventfd that wakes it in DEEP; only this thread reads it, while others
			  read the poller's */
	_Atomic uint64_t watch_ns; /* the thread's: until its next look in WATCH */
	uint64_t posting_ns;	   /* same: how long it waits already for a caller inside a post */
	_Atomic uint32_t thread_state; /* enum sl_thread_state; a futex in WATCH and PARKED */
	_Atomic bool stop;
};

int sl_progress_start(struct slime_context *ctx);
void sl_progress_stop(struct slime_context *ctx);

/*
 * Take the token, however long that takes, and give it back: for control work. Never inside a
 * callback, of whichever context, and not twice. A thread may hold the tokens of several contexts
 * and give them back in any order.
 */
void sl_progress_enter(struct slime_context *ctx);
void sl_progress_leave(struct slime_context *ctx);

/* slime_context_poll and slime_context_arm. */
int sl_progress_poll(struct slime_context *ctx);
int sl_progress_arm(struct slime_context *ctx);

/* One pass, if the token is free: not inside a callback, where nothing happens. */
void sl_progress_pass(struct slime_context *ctx);

/* Make progress until op is not pending: 0, -ETIMEDOUT, or -EDEADLK inside a callback. */
int sl_progress_wait_op(struct slime_context *ctx, struct slime_op *op, uint64_t deadline_ns);

/*
 * Make progress until done(arg), which is called with the token held: as above. For control work:
 * it is called every few milliseconds. Inside a callback of ctx done is only called once; inside
 * one of another context the result is -EDEADLK.
 */
int sl_progress_until(struct slime_context *ctx, bool (*done)(void *arg), void *arg,
		      uint64_t deadline_ns);

/* There is work that no descriptor announces: wake a thread that sleeps on the poller. Any thread.
 */
void sl_progress_kick(struct slime_context *ctx);

/* As kick, but a context's thread in WATCH stays there: it comes by itself when no caller does. */
void sl_progress_nudge(struct slime_context *ctx);

/* Run what sl_progress_after() noted. [token] */
void sl_progress_run_after_now(struct sl_progress *p);

static inline void sl_progress_run_after(struct sl_progress *p)
{
	if (p->after)
		sl_progress_run_after_now(p);
}

/*
 * Note work for several ops that sl_op_finish_quietly() finished, which share one fence. After
 * the transport has taken what arrived, or before a handler runs, there is that fence, then
 * threads that fell asleep on such ops are woken, and fn(arg) is called. What was noted for
 * another arg is run at once. [token]
 */
static inline void sl_progress_after(struct sl_progress *p, void (*fn)(void *arg), void *arg)
{
	if (p->after_arg == arg)
		return;
	sl_progress_run_after(p);
	p->after = fn;
	p->after_arg = arg;
}

/* Whether this thread is inside a callback or handler of any context. */
bool sl_progress_in_callback(void);

#endif
