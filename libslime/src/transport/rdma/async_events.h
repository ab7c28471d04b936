/* SPDX-License-Identifier: Apache-2.0 */
/* Async events of devices, counted. */
#ifndef SL_RDMA_ASYNC_EVENTS_H
#define SL_RDMA_ASYNC_EVENTS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include <slime/context.h>
#include <slime/stats.h>

#include "src/transport/rdma/device.h"

struct rdma_nic;
struct rdma_transport;
struct sl_transport;

/* The async events of a port for as long as the context lives, however often its device is opened.
 */
struct rdma_async_events {
	char device[SL_DEVICE_NAME_MAX];
	uint8_t port;
	_Atomic uint64_t n[SLIME_DEVICE_EVENTS];
};

/* Eight that are named stay the same; those that are found can be others each time. */
#define RDMA_ASYNC_EVENTS_MAX 16

/* Where what that port tells is counted; NULL when there is no place left. Under setup_lock. */
struct rdma_async_events *rdma_async_events_of(struct rdma_transport *t, const char *device,
					       uint8_t port);
/* It told that. Any thread. */
void rdma_async_events_count(struct rdma_nic *nic, const struct ibv_async_event *event);
size_t rdma_device_stats(struct sl_transport *t, struct slime_device_stats *out, size_t cap);

#endif
