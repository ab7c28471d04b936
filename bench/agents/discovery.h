/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An address at which owners and readers of pages find each other without a control plane of the
 * user's: the first `page serve` runs a nanoctrl there, with a Redis of its own, which end with it.
 */
#ifndef BENCH_DISCOVERY_H
#define BENCH_DISCOVERY_H

#include <limits.h>

#include "bench/process/child.h"

#define DISCOVERY_URL_MAX 320

struct discovery {
	struct child nanoctrl;
	char dir[PATH_MAX]; /* "": nothing was started */
};

/* NULL, or what is expected of such an address. */
const char *discovery_check(const char *addr);

/* Where this process finds the others: a wildcard is this host. */
void discovery_url(const char *addr, char out[DISCOVERY_URL_MAX]);

/* Run it. When another one has the address, this one ends by itself, and that one serves. -ENOENT
 * without the program; -errno. */
int discovery_start(struct discovery *d, const char *addr);

/* End it, and remove its files. Harmless when nothing was started. */
void discovery_stop(struct discovery *d);

#endif
