/* SPDX-License-Identifier: Apache-2.0 */
/* Objects that ended without a goodbye, for one line of the log: how many, and the names of the
 * first. */
#ifndef NANOCTRL_ENDED_H
#define NANOCTRL_ENDED_H

#include <stdint.h>

struct redisReply;

struct ended {
	uint64_t n;
	unsigned n_named;
	char names[256];
};

/* So many more ended; names is a script's list of some of them, or anything. */
void ended_add(struct ended *e, uint64_t n, const struct redisReply *names);

/* The line, unless nothing ended; then it begins anew. where: "scope demo: " or "". */
void ended_log(struct ended *e, const char *where, const char *what);

#endif
