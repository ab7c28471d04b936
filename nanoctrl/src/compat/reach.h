/* SPDX-License-Identifier: Apache-2.0 */
/* Whether clients reach Redis at the address that they are told. */
#ifndef NANOCTRL_COMPAT_REACH_H
#define NANOCTRL_COMPAT_REACH_H

#include "compat/redis_address.h"

struct evbuffer;

/* The result of a probe of an address, of a hub and under its lock. */
#define REACH_MAX 8
enum reach_verdict { REACH_UNKNOWN, REACH_YES, REACH_SILENT, REACH_REFUSES };
struct reach_known {
	char address[STORE_REDIS_ADDRESS_MAX];
	enum reach_verdict verdict;
	uint64_t at_ns; /* when */
	char why[192];	/* neither of the first two */
};

/*
 * Whether clients that say that their address is client reach Redis at an address that
 * store_redis_address() told: a probe connects to it and sends PING, without a password. fn may
 * come at once.
 *   0         they do; or they are elsewhere, and what cannot be reached from here may be reached
 *             from there; or Redis is away, as the next call finds
 *   -ENOTSUP  they do not: why has the reason
 *   -ENOMEM
 */
typedef void store_reach_fn(void *arg, int result, const char *why);
void store_reach(struct store *store, const char *address, struct store_text client,
		 store_reach_fn *fn, void *arg);

/* On the first loop, which probes the configured address regularly while Redis is connected.
 * -ENOMEM. */
int reach_create(struct store *store);

/* Redis is connected: a private one that was restarted opens its port for clients again, then the
 * configured address is probed. */
void reach_up(struct store *store);
void reach_down(struct store *store);

/* End all probes, and call back those that wait for them; then free what reach_create() made. */
void reach_end(struct store *store);
void reach_destroy(struct store *store);

/* Append a line for each address that clients cannot use. */
void reach_warn(struct store_hub *hub, struct evbuffer *out);

#endif
