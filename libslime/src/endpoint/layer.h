/* SPDX-License-Identifier: Apache-2.0 */
/* A layer that uses the connection of an endpoint: recv, and mailbox. */
#ifndef SL_LAYER_H
#define SL_LAYER_H

#include <stdbool.h>
#include <stdint.h>

struct slime_endpoint;
struct sl_msg;

/*
 * Its state is made with the endpoint and goes with it. msg runs
 * as [token] and says false when the peer broke the protocol; down runs as [token], once, when the
 * connection has ended and before the endpoint's state says so: it ends everything the layer has
 * pending with cause.
 */
struct sl_layer {
	int (*create)(struct slime_endpoint *ep, void **state);
	void (*destroy)(void *state);
	void (*forget)(void *state); /* in a child after fork: free its memory, nothing else */
	bool (*msg)(void *state, const struct sl_msg *m, const uint8_t *payload);
	void (*down)(void *state, int cause);
	/* Something to do that no message announces (deadlines, memory that came back): asked in
	 * the endpoint's passes, returns when it wants the next at the latest, SL_NEVER: not by
	 * itself. May be NULL. [token] */
	uint64_t (*progress)(void *state);
};

#endif
