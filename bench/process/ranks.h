/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that measure at the same time, as ranks of one measurement. Each is forked before there
 * are threads, waits for the others before it measures, and sends what it measured to the process
 * that started it.
 */
#ifndef BENCH_RANKS_H
#define BENCH_RANKS_H

#include <stddef.h>

/* The pipes of a process to the one that started it; both are -1 for one that measures alone. */
struct rank {
	int in, out;
};

#define RANK_ALONE                  \
	{                           \
		.in = -1, .out = -1 \
	}

/* Wait until every rank is here. -EPIPE: another one ended. */
int rank_barrier(const struct rank *rank);

/* Bytes from a rank to the process that started it. -EPIPE: the other end is gone. */
int rank_send(const struct rank *rank, const void *from, size_t len);
int rank_receive(const struct rank *rank, void *to, size_t len);

struct ranks_attr {
	size_t n;
	size_t n_barriers; /* that each rank waits at */
	/* In the process of rank i: measure, and send. Returns the exit status; what is wrong is
	 * said there, on standard error. */
	int (*run)(void *arg, size_t i, const struct rank *rank);
	/* In this process, for each rank in order: receive what it sent. 0, a negative errno. */
	int (*receive)(void *arg, size_t i, const struct rank *rank);
	void *arg;
};

/* Before there are threads. Returns the exit status: that of the first rank that failed. */
int ranks_run(const struct ranks_attr *attr);

#endif
