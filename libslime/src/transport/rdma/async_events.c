/* SPDX-License-Identifier: Apache-2.0 */
/* Async events of devices, counted. */
#include <stdio.h>
#include <string.h>

#include "src/transport/rdma/async_events.h"
#include "src/transport/rdma/nic.h"
#include "src/transport/rdma/transport.h"

static const char *const names[SLIME_DEVICE_EVENTS] = {
	[SLIME_DEVICE_PORT_ACTIVE] = "port active",
	[SLIME_DEVICE_PORT_ERROR] = "port error",
	[SLIME_DEVICE_ADDRESS_CHANGE] = "address change",
	[SLIME_DEVICE_QP_ERROR] = "qp error",
	[SLIME_DEVICE_CQ_ERROR] = "cq error",
	[SLIME_DEVICE_FATAL] = "fatal",
	[SLIME_DEVICE_OTHER] = "other",
};

const char *slime_device_event_name(enum slime_device_event event)
{
	return (unsigned)event < SLIME_DEVICE_EVENTS ? names[event] : "unknown";
}

static enum slime_device_event event_of(enum ibv_event_type type)
{
	switch (type) {
	case IBV_EVENT_PORT_ACTIVE:
		return SLIME_DEVICE_PORT_ACTIVE;
	case IBV_EVENT_PORT_ERR:
		return SLIME_DEVICE_PORT_ERROR;
	case IBV_EVENT_GID_CHANGE:
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_PKEY_CHANGE:
		return SLIME_DEVICE_ADDRESS_CHANGE;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
		return SLIME_DEVICE_QP_ERROR;
	case IBV_EVENT_CQ_ERR:
		return SLIME_DEVICE_CQ_ERROR;
	case IBV_EVENT_DEVICE_FATAL:
		return SLIME_DEVICE_FATAL;
	default:
		return SLIME_DEVICE_OTHER;
	}
}

static bool is_of_a_port(enum ibv_event_type type)
{
	switch (type) {
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_GID_CHANGE:
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_PKEY_CHANGE:
	case IBV_EVENT_SM_CHANGE:
	case IBV_EVENT_CLIENT_REREGISTER:
		return true;
	default:
		return false;
	}
}

struct rdma_async_events *rdma_async_events_of(struct rdma_transport *t, const char *device,
					       uint8_t port)
{
	unsigned n = atomic_load(&t->n_async_events);
	struct rdma_async_events *events;

	for (unsigned i = 0; i < n; i++)
		if (t->async_events[i].port == port && !strcmp(t->async_events[i].device, device))
			return &t->async_events[i];
	if (n == RDMA_ASYNC_EVENTS_MAX)
		return NULL;
	events = &t->async_events[n];
	snprintf(events->device, sizeof(events->device), "%s", device);
	events->port = port;
	/* Readers have no lock, and see it whole. */
	atomic_store_explicit(&t->n_async_events, n + 1, memory_order_release);
	return events;
}

void rdma_async_events_count(struct rdma_nic *nic, const struct ibv_async_event *event)
{
	enum ibv_event_type type = event->event_type;

	if (nic->async_events && (!is_of_a_port(type) || event->element.port_num == nic->port))
		atomic_fetch_add_explicit(&nic->async_events->n[event_of(type)], 1,
					  memory_order_relaxed);
}

size_t rdma_device_stats(struct sl_transport *transport, struct slime_device_stats *out, size_t cap)
{
	struct rdma_transport *t = rdma_of(transport);
	unsigned n = atomic_load_explicit(&t->n_async_events, memory_order_acquire);

	for (unsigned i = 0; i < n && i < cap; i++) {
		snprintf(out[i].device, sizeof(out[i].device), "%.63s:%u",
			 t->async_events[i].device, t->async_events[i].port);
		for (int k = 0; k < SLIME_DEVICE_EVENTS; k++)
			out[i].events[k] = atomic_load_explicit(&t->async_events[i].n[k],
								memory_order_relaxed);
	}
	return n;
}
