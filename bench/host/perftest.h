/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an RDMA device does without us: perftest's ib_read_bw, between the device and itself, for
 * several devices at the same time.
 */
#ifndef BENCH_PERFTEST_H
#define BENCH_PERFTEST_H

#include <stddef.h>
#include <stdint.h>

#include "bench/host/nic_groups.h"

struct perftest {
	uint64_t size;	/* of a read */
	unsigned depth; /* reads in flight on a queue pair */
	unsigned qps;	/* queue pairs */
	unsigned duration_s;
};

/*
 * GB/s of each group's device into gb_s, on the CPUs of the group. 0; -ENOENT: it is not installed;
 * else a negative errno, and why says what went wrong, for people.
 */
int perftest_read(const struct perftest *p, const struct nic_group *groups, size_t n, double *gb_s,
		  char *why, size_t room);

/* The average of the last row of that size in what ib_read_bw printed, with --report_gbits.
 * -EPROTO: there is none. */
int perftest_parse(const char *text, uint64_t size, double *gb_s);

#endif
