/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The body of a request of DLSlimeCache's clients. As its own server does, it takes strings of
 * digits as integers, a number as a name, and an empty body as {}.
 */
#ifndef PAGES_CACHE_ORDER_H
#define PAGES_CACHE_ORDER_H

#include <stddef.h>
#include <stdint.h>

#include "cache/directory.h"

#define ORDER_WHY_MAX 256

enum order_kind {
	ORDER_STORE, /* peer_agent_id and assignments */
	ORDER_ONE,   /* peer_agent_id and version */
};

struct order {
	char *peer;
	uint64_t version;
	struct directory_piece *list;
	size_t n;
};

/* -EINVAL with the reason in why, -ENOMEM; then there is nothing to be freed. */
int order_read(const char *text, size_t len, enum order_kind kind, struct order *out,
	       char why[ORDER_WHY_MAX]);
void order_fini(struct order *o);

#endif
