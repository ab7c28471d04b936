/* SPDX-License-Identifier: Apache-2.0 */
/* Throughput over time: a thread that counts, at fixed intervals, what was read in each. */
#ifndef BENCH_PAGE_SERIES_H
#define BENCH_PAGE_SERIES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#define SERIES_MAX	  600 /* intervals */
#define SERIES_FAULTS_MAX 1024

struct page_series {
	uint32_t interval_ms;
	uint32_t n;
	uint64_t bytes[SERIES_MAX]; /* read in each interval */
	uint32_t n_faults;
	uint32_t fault_ms[SERIES_FAULTS_MAX]; /* when an owner was killed, since the start */

	/* Until the end. */
	uint64_t begin_ns;
	uint64_t (*count)(void *arg);
	void *arg;
	_Atomic int stop;
	pthread_t thread;
};

/* count returns the bytes read so far; another thread calls it until series_stop(). An interval is
 * 100 ms, or longer, so that a run of this duration fits. 0, a negative errno. */
int series_start(struct page_series *s, int64_t duration_ms, uint64_t (*count)(void *arg),
		 void *arg);

/* Something broke just now. */
void series_add_fault(struct page_series *s);

/* Only after series_start() succeeded. */
void series_stop(struct page_series *s);

#endif
