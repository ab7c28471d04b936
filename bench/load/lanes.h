/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop of a load that keeps several operations in flight: each lane begins its next operation
 * when the one before it ended, and lanes are waited for in turn. It is inline, so that the
 * callbacks of a caller become part of its loop.
 */
#ifndef LOAD_LANES_H
#define LOAD_LANES_H

#include <stdbool.h>
#include <stdint.h>

struct lanes {
	uint64_t n;
	int (*begin)(void *arg, uint64_t lane); /* 0: it is under way; else a negative errno */
	int (*end)(void *arg, uint64_t lane);	/* wait for it: the same, when it is over */
	bool (*goes_on)(void *arg); /* whether another operation begins; no longer is for
				       ever */
	void *arg;
};

/* Run them until goes_on() says no, or an operation fails; what is under way then is waited for,
 * the oldest first. Returns the first error. */
static inline __attribute__((always_inline)) int lanes_run(const struct lanes *l)
{
	uint64_t n = 0, pending, i = 0;
	int ret = 0, ended;

	while (n < l->n && !ret && l->goes_on(l->arg)) {
		ret = l->begin(l->arg, n);
		n += !ret;
	}
	for (pending = n; pending; i = i + 1 < n ? i + 1 : 0) {
		ended = l->end(l->arg, i);
		if (!ret)
			ret = ended;
		if (ret || !l->goes_on(l->arg))
			pending--;
		else if ((ret = l->begin(l->arg, i)))
			pending--;
	}
	return ret;
}

#endif
