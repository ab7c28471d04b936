/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a loop that found nothing to do polls again or sleeps. Waking up after a sleep takes 5
 * us, in a virtual machine whose host takes an idle CPU back 30, and where programs wait for each
 * other in a chain no CPU is busy meanwhile. So a loop that is woken often polls for a while before
 * it sleeps. It sleeps at once where it is woken rarely, and for a time after another program had
 * its CPU for long: other programs want the CPU, or a cgroup's quota is used up.
 */
#ifndef NC_BUSY_POLL_H
#define NC_BUSY_POLL_H

#include <stdbool.h>
#include <stdint.h>
#include "base/clock.h"

/* Often: in the mean of the last finds no longer from one to the next. */
#define BUSY_POLL_OFTEN_NS (250 * SL_NS_PER_US)

/* When another program had the CPU for this long between two polls that found nothing, busy polling
 * stops for BUSY_POLL_REST_NS, and for twice as long each time that it happens again soon. */
#define BUSY_POLL_TAKEN_NS    (2 * SL_NS_PER_MS)
#define BUSY_POLL_REST_NS     SL_NS_PER_S
#define BUSY_POLL_REST_MAX_NS (16 * SL_NS_PER_S)

struct busy_poll {
	uint64_t limit_ns;   /* polls no longer than this after its last find */
	uint64_t polled;     /* when it polled last; these are sl_clock_ns() */
	uint64_t found;	     /* when it found something last */
	uint64_t rest_ns;    /* how long it rested last */
	uint64_t rest_until; /* sleeps until then */
	uint64_t period_ns;  /* mean time from one find to the next */
	bool on;	     /* what it was told last */
	uint64_t vain_ns;    /* between polls that found nothing, in all */
};

void busy_poll_init(struct busy_poll *p, uint64_t limit_ns, uint64_t now);

/* The loop polled, or slept until there was something, and has done what it found. Whether to poll
 * again at once. */
bool busy_poll_again(struct busy_poll *p, uint64_t now, bool found);

#endif
