/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the store calls of compat/, which keeps everything that exists for programs of DLSlime
 * alone. The store of nanoctrl works without it: store_config.compat is NULL then.
 *
 * Each function is called on the loop of the store, those of a hub on any thread.
 */
#ifndef NANOCTRL_STORE_COMPAT_H
#define NANOCTRL_STORE_COMPAT_H

#include <stdbool.h>
#include "store/store.h"

struct store_compat {
	/* Make and free hub->compat. 0, -ENOMEM. */
	int (*hub_create)(struct store_hub *hub);
	void (*hub_destroy)(struct store_hub *hub);

	/* Append its counters as Prometheus text; what an operator should know, one line each. */
	void (*metrics)(struct store_hub *hub, struct evbuffer *out);
	void (*warnings)(struct store_hub *hub, struct evbuffer *out);

	/* Make and free store->compat. first: this is the store of the first loop, whose parts
	 * serve all loops. 0, -ENOMEM. */
	int (*create)(struct store *store, bool first);
	void (*destroy)(struct store *store);

	/* The connection to Redis serves, or is lost. */
	void (*up)(struct store *store);
	void (*down)(struct store *store);

	/* The end of a turn of the loop: send what was collected. While the store closes: end what
	 * waits, until nothing does. */
	void (*turn)(struct store *store);
	bool (*is_busy)(const struct store *store);

	/* One run of the periodic work, on the first loop; never in a cluster. */
	void (*sweep)(struct store *store);

	/* This process is about to write the key "[SCOPE:]WORD:NAME", or has not written it after
	 * all, or it is unknown whether it has. */
	void (*expect_write)(struct store_hub *hub, struct store_text scope, struct store_text word,
			     struct store_text name);
	void (*forget_write)(struct store_hub *hub, struct store_text scope, struct store_text word,
			     struct store_text name);
};

#endif
