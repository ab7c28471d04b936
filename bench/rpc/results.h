/* SPDX-License-Identifier: Apache-2.0 */
/* A directory with the figures of several systems: "slime_rpc.csv", "ray_rpc.csv". How they were
 * measured stands beside them, in "slime_rpc.txt", so that a reader of CSV needs to skip nothing.
 */
#ifndef BENCH_RESULTS_H
#define BENCH_RESULTS_H

#include <stdio.h>

#include "bench/rpc/sweep.h"

/* We, then who is compared with us. */
enum system {
	SYSTEM_SLIME,
	SYSTEM_RAY,
	SYSTEM_PULSING,
	SYSTEM_ZEROMQ,
	SYSTEM_GRPC,
	N_SYSTEMS,
};

struct system_name {
	const char *key;   /* in file names and options */
	const char *title; /* as it calls itself */
	const char *brief; /* of a ratio's column: "Ray" of S/Ray */
};

extern const struct system_name system_names[N_SYSTEMS];

#define RESULTS_FIGURES "csv"
#define RESULTS_HEAD	"txt"

/* The path of a file of the directory: "DIR/ray_rpc.csv" for suffix "csv". Freed by the caller;
 * NULL without memory. */
char *results_path(const char *dir, enum system system, const char *suffix);

/* Make the directory, which may be there already and be written to: before anything is measured for
 * it. 0, -ENOTDIR, what mkdir(2) and access(2) say. */
int results_create(const char *dir);

typedef int results_fn(void *arg, FILE *to);

/*
 * Have these fill the two files of a system, which take the place of earlier ones when all of both
 * is there. 0, what they returned, or what open(2), write(2) and rename(2) say.
 */
int results_write(const char *dir, enum system system, results_fn *head, results_fn *figures,
		  void *arg);

/* Remove a system's figures and their head, where they are there. */
void results_remove(const char *dir, enum system system);

struct results {
	struct sweep sweeps[N_SYSTEMS]; /* without points: not there */
};

/* Read what there is. 0; -ENOENT when our own figures are not there; -EINVAL after saying what is
 * wrong with a file; -ENOMEM; what open(2) and read(2) say. */
int results_read(struct results *r, const char *dir);

#endif
