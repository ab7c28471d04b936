/* SPDX-License-Identifier: Apache-2.0 */
/* The devices of a context. */
#ifndef SL_RDMA_DEVICES_H
#define SL_RDMA_DEVICES_H

#include <stdatomic.h>
#include <stdbool.h>

#include "src/transport/rdma/transport.h"
#include "src/transport/transport.h"

#define RDMA_WORKERS 2 /* threads that do control calls */

/* They are open, and links can be made over one of them at least. Under setup_lock. */
int rdma_devices_set_up(struct rdma_transport *t, struct sl_why *why);
/*
 * A port came up, or went down. If the attributes name no device and the open one cannot be used,
 * another one is searched. When it is found, the open one is closed like a failed one, as soon as
 * it is not in use, and the next offer opens the other one; unless the open one can be used again
 * by then. [token]
 */
void rdma_devices_port_changed(struct rdma_transport *t, bool up);
/* Once nothing is made of them. */
static inline bool rdma_devices_are_to_close(const struct rdma_transport *t)
{
	return atomic_load_explicit(&t->failed, memory_order_relaxed) ||
	       atomic_load_explicit(&t->gives_way, memory_order_relaxed);
}
/* If they are to be closed, and nothing is made of any: have them closed. [token] */
void rdma_devices_close_what_failed(struct rdma_transport *t);
/* Stop polling them. [token], or while no other thread has the transport. */
void rdma_devices_unwatch(struct rdma_transport *t);
/* Nothing is made of them, and they are not watched. Control calls. */
void rdma_devices_close(struct rdma_transport *t);

#endif
