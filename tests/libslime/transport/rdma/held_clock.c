/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/libslime/transport/rdma/held_clock.h"

#include <stdatomic.h>
#include <time.h>

#include "base/clock.h"
#include "tests/fakes/fakeverbs.h"

static _Atomic uint64_t held_at_ns; /* 0: the clock goes */

int __real_clock_gettime(clockid_t id, struct timespec *ts);
int __wrap_clock_gettime(clockid_t id, struct timespec *ts);

int __wrap_clock_gettime(clockid_t id, struct timespec *ts)
{
	uint64_t ns = atomic_load(&held_at_ns);
	int ret = __real_clock_gettime(id, ts);

	if (ns && (id == CLOCK_MONOTONIC || id == CLOCK_MONOTONIC_COARSE)) {
		ts->tv_sec = (time_t)(ns / SL_NS_PER_S);
		ts->tv_nsec = (long)(ns % SL_NS_PER_S);
	}
	return ret;
}

void held_clock_begin(void)
{
	fakeverbs_hold_time(true);
	atomic_store(&held_at_ns, sl_clock_ns());
}

void held_clock_step(uint64_t ns)
{
	atomic_fetch_add(&held_at_ns, ns);
	fakeverbs_advance(ns);
}

void held_clock_end(void)
{
	atomic_store(&held_at_ns, 0);
	fakeverbs_hold_time(false);
}
