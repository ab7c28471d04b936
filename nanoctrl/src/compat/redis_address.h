/* SPDX-License-Identifier: Apache-2.0 */
/* Where clients that speak to Redis themselves, without a password, reach it. */
#ifndef NANOCTRL_COMPAT_REDIS_ADDRESS_H
#define NANOCTRL_COMPAT_REDIS_ADDRESS_H

#include "store/store.h"

/*
 * "host:port" for a client that says that its address is client; a text that is NULL: it says
 * nothing. local: it is on this host.
 *   -ENOTSUP  clients cannot reach Redis; the reason is in out
 *   -EAGAIN   private_port_open() first
 *   -ENOTCONN the address of Redis is not known yet
 */
#define STORE_REDIS_ADDRESS_MAX 320
int store_redis_address(const struct store *store, struct store_text client, bool local,
			char out[STORE_REDIS_ADDRESS_MAX]);

/* The address that the settings name for clients; NULL: none. */
const char *store_configured_address(const struct store *store);

/* Whether a client that names this host is on this host, or an address is this host's own. */
bool store_is_this_host(const char *host);

#endif
