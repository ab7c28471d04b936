/* SPDX-License-Identifier: Apache-2.0 */
/* What the programs that measure a peer's echo have in common. */
#ifndef BASELINES_PEER_H
#define BASELINES_PEER_H

#include "bench/rounds/rounds.h"

struct peer_options {
	uint64_t size; /* bytes each way, 1 or more */
	struct rounds_attr rounds;
};

/*
 * The whole of a program; its exit status. run measures one size; with --sweep it is called in a
 * process of its own for each. version is what of, for the head of a sweep: "zeromq    4.3.4, ...".
 */
int peer_main(const char *name, const char *version, int (*run)(const struct peer_options *o),
	      int argc, char **argv);

#endif
