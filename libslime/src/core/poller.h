/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one set of descriptors a context sleeps on, and the timers of its handshakes. Sources are
 * added and removed from any thread; callbacks run on the holder of the progress token. A source
 * that was removed inside a callback is not called again; one that is removed by another thread may
 * be called once more unless that thread holds the token.
 */
#ifndef SL_POLLER_H
#define SL_POLLER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

/* The result of one poll of the set. */
#define SL_POLLER_EVENTS 64

struct sl_source;

/* events: EPOLLIN, EPOLLOUT, EPOLLHUP, EPOLLERR. Level-triggered. */
typedef void sl_source_fn(struct sl_source *s, uint32_t events);

/* Embedded in its owner. */
struct sl_source {
	sl_source_fn *fn;
	int fd;		 /* -1: not in the set */
	uint32_t events; /* asked for */
};

struct sl_timer;
typedef void sl_timer_fn(struct sl_timer *t);

/* Embedded in its owner; fires once, not before its time. [token] for all of its functions. */
struct sl_timer {
	struct sl_list link;
	sl_timer_fn *fn;
	uint64_t when_ns; /* SL_NEVER: not set */
};

struct sl_poller {
	int fd;	     /* of epoll; itself pollable */
	int wake_fd; /* eventfd in the set, which threads of ours ring; no other process has it */
	struct sl_list timers;
	_Atomic uint64_t next_timer_ns;
	struct sl_source wake;
	struct sl_source alarm; /* timerfd, where timers make fd readable; else not in the set */
	uint64_t alarm_ns;	/* what it is set to; SL_NEVER: not set */
	/* The source that sl_poller_run() calls next; removal clears it. */
	struct sl_source *dispatching[SL_POLLER_EVENTS];
	int n_dispatching;
};

/* alarm: sl_poller_set_alarm() will be called. */
int sl_poller_init(struct sl_poller *p, bool alarm);
void sl_poller_fini(struct sl_poller *p);

/* Watch fd; s->fn is set by the caller. Negative errno of epoll_ctl. */
int sl_poller_add(struct sl_poller *p, struct sl_source *s, int fd, uint32_t events);
int sl_poller_change(struct sl_poller *p, struct sl_source *s, uint32_t events);
void sl_poller_remove(struct sl_poller *p, struct sl_source *s);
/* Remove it and close its descriptor, if it has one. */
void sl_poller_close(struct sl_poller *p, struct sl_source *s);
/* The descriptor is another source's from now on, watched for the same; cannot fail. [token] */
void sl_poller_hand_over(struct sl_poller *p, struct sl_source *from, struct sl_source *to);

/* From any thread: the sleeper comes back. */
void sl_poller_wake(struct sl_poller *p);

/* The set's descriptor is readable, too, from when the next timer is due. For threads that sleep on
 * it outside of sl_poller_run(), and cannot know of timers. [token] */
void sl_poller_set_alarm(struct sl_poller *p);

/* The timeout of a poll(2) until then (0: now; SL_NEVER), rounded up: a timer is due when it is
 * over. One of weeks ends before its time. */
int sl_poller_wait_ms(uint64_t until_ns);

/*
 * Wait until deadline_ns (0: do not wait; SL_NEVER) or the next timer, then run what is due.
 * Returns the number of callbacks run. Wake-ups count as none. [token]
 */
unsigned sl_poller_run(struct sl_poller *p, uint64_t deadline_ns);

void sl_timer_init(struct sl_timer *t, sl_timer_fn *fn);
void sl_timer_set(struct sl_poller *p, struct sl_timer *t, uint64_t when_ns);
void sl_timer_cancel(struct sl_poller *p, struct sl_timer *t);

#endif
