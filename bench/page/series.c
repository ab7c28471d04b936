/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/page/series.h"

#include <errno.h>
#include <time.h>

#include "base/clock.h"

#define INTERVAL_MIN_MS 100

static void sleep_until(uint64_t ns)
{
	const struct timespec at = { .tv_sec = (time_t)(ns / SL_NS_PER_S),
				     .tv_nsec = (long)(ns % SL_NS_PER_S) };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
		;
}

static void *run(void *arg)
{
	struct page_series *s = arg;
	uint64_t last = 0, now;

	while (s->n < SERIES_MAX) {
		sleep_until(s->begin_ns + (s->n + 1) * s->interval_ms * SL_NS_PER_MS);
		if (atomic_load(&s->stop))
			break;
		now = s->count(s->arg);
		s->bytes[s->n++] = now - last;
		last = now;
	}
	return NULL;
}

int series_start(struct page_series *s, int64_t duration_ms, uint64_t (*count)(void *arg),
		 void *arg)
{
	int64_t interval_ms = duration_ms / SERIES_MAX + 1;

	*s = (struct page_series){
		.interval_ms =
			interval_ms < INTERVAL_MIN_MS ? INTERVAL_MIN_MS : (uint32_t)interval_ms,
		.begin_ns = sl_clock_ns(),
		.count = count,
		.arg = arg,
	};
	return -pthread_create(&s->thread, NULL, run, s);
}

void series_add_fault(struct page_series *s)
{
	if (s->n_faults < SERIES_FAULTS_MAX)
		s->fault_ms[s->n_faults++] =
			(uint32_t)((sl_clock_ns() - s->begin_ns) / SL_NS_PER_MS);
}

void series_stop(struct page_series *s)
{
	atomic_store(&s->stop, 1);
	pthread_join(s->thread, NULL);
}
