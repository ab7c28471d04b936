/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many leases each scope holds, for /metrics: of the scopes that hold most of them, and of all
 * others together, so that a page has a bound whatever names there are.
 */
#ifndef NANOCTRL_STORE_SCOPE_LEASES_H
#define NANOCTRL_STORE_SCOPE_LEASES_H

#include <stddef.h>
#include <stdint.h>
#include "store/key.h"

#define SCOPE_LEASES_MAX 100

struct evbuffer;

struct scope_leases {
	struct scope_held {
		char scope[KEY_NAME_MAX + 1];
		uint64_t held;
	} most[SCOPE_LEASES_MAX]; /* in no order */
	size_t n;
	uint64_t n_others, held_by_others;
};

/* One scope more, which holds so many; one that was added before has this number now. A scope
 * without leases is not counted. */
void scope_leases_add(struct scope_leases *s, const char *scope, uint64_t held);

/* As Prometheus text, in the order of the names. */
void scope_leases_render(const struct scope_leases *s, struct evbuffer *out);

#endif
