/* SPDX-License-Identifier: Apache-2.0 */
/* The counters of trouble of RDMA ports: as they are, or as they grow. */
#ifndef BENCH_RNR_H
#define BENCH_RNR_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <slime/rnr.h>

#define RNR_INTERVAL_MIN_NS	INT64_C(10000000)
#define RNR_INTERVAL_DEFAULT_NS INT64_C(1000000000)
#define RNR_INTERVAL_MAX_NS	INT64_C(86400000000000)

struct rnr_options {
	const char *sysfs; /* NULL: this host's */
	bool json;
	bool watch;
	int64_t interval_ns; /* watch: between samples */
	int64_t n_samples;   /* watch: 0 is until a signal comes */
};

/*
 * Print them. Returns the status to end with: failure without counters, 128 and the signal when one
 * ended watching.
 */
int rnr_print(const struct rnr_options *o, FILE *to);

/* One line. 0, -ENOMEM, -EIO. */
int rnr_print_json(const struct slime_rnr_monitor *m, const char *date, FILE *to);

#endif
