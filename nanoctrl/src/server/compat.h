/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All that exists for programs of DLSlime alone, as the rest of nanoctrl uses it: compat/ defines
 * it, or no_compat.c in a nanoctrl that is built without it (-DNANOCTRL_COMPAT=OFF).
 */
#ifndef NANOCTRL_SERVER_COMPAT_H
#define NANOCTRL_SERVER_COMPAT_H

#include <stddef.h>

struct options;
struct route;
struct runtime;
struct settings;
struct store_compat;
struct store_hub;

struct compat {
	const struct store_compat *store; /* NULL: built without it, and nothing below is there */
	const struct route *routes;
	size_t n_routes;

	/* The private Redis' port for agents of DLSlime: compat/private_port.h. */
	void (*set_port)(struct store_hub *hub, unsigned port);
	int (*keep_port)(struct store_hub *hub, const char *file);

	/* nanoctrl gc: list what such agents left in Redis. The program's exit status. rt is the
	 * runtime directory of a server whose private Redis is meant; NULL: none. */
	int (*gc)(const struct settings *settings, const struct options *options,
		  const struct runtime *rt);
};

extern const struct compat compat;

#endif
