/* SPDX-License-Identifier: Apache-2.0 */
/* A port that a context uses: what it is like, its channel, its events. */
#ifndef SL_RDMA_NIC_H
#define SL_RDMA_NIC_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "src/core/poller.h"
#include "src/transport/rdma/cq.h"
#include "src/transport/rdma/device.h"
#include "src/transport/rdma/gid.h"
#include "src/transport/transport.h"

struct rdma_async_events;
struct rdma_transport;

/* A port that the context uses. */
struct rdma_nic {
	struct rdma_transport *t;
	unsigned index;
	struct sl_device device;
	uint8_t port;
	/* The properties of a port that can change: under setup_lock. */
	enum slime_link_layer link_layer;
	bool grh_required;
	struct slime_gid gid;
	uint16_t lid;
	enum ibv_mtu mtu;
	uint32_t mbps;
	char gid_why[SL_GID_WHY_MAX];		/* why that address */
	bool usable;				/* when it was asked last */
	bool left_out;				/* others are used without it */
	struct rdma_async_events *async_events; /* NULL: they are not counted */
	bool port_is_down;			/* it said so, and nothing else since. [token] */
	_Atomic uint32_t max_msg;		/* posts read it without that lock */
	uint32_t n_sges;
	uint8_t max_rd_atomic;	    /* reads that a queue pair may have under way */
	uint8_t max_dest_rd_atomic; /* and may answer at a time */
	struct ibv_comp_channel *channel;
	struct sl_source channel_source;
	struct sl_source async_source;
	_Atomic(struct rdma_cq *) cqs[RDMA_CQS_MAX]; /* come under cq_lock, go [token] */
	_Atomic unsigned n_cqs;			     /* places taken so far: NULL in some */
	_Atomic bool dead;
};

/* Negative errno, with the words; all under setup_lock. The port may be down: it is to be asked. */
int rdma_nic_open(struct rdma_transport *t, const char *device, uint8_t port, unsigned index,
		  struct rdma_nic **out, struct sl_why *why);
/* Ask the port again what it is like. */
int rdma_nic_refresh(struct rdma_nic *nic, struct sl_why *why);
/* Take registered memory back from it, if there is some: *ibv is NULL after it. */
void rdma_nic_deregister(const struct rdma_nic *nic, struct ibv_mr **ibv);
/* Whether that errno of destroying something says that it went with its device. */
static inline bool rdma_nic_took_along(const struct rdma_nic *nic, int err)
{
	return err == EIO && atomic_load(&nic->dead);
}
/* Nothing of it is in use, and it is not watched: its memory is the caller's then. Control calls.
 */
void rdma_nic_close(struct rdma_nic *nic);

/* ---- nic_events.c ---- */

/* From here on the token's holder takes its events. It counts as failed when that cannot be. */
int rdma_nic_watch(struct rdma_nic *nic, struct sl_why *why);
/* Take the events that wait. [token] */
void rdma_nic_poll_events(struct rdma_nic *nic);
/* Whether the device is no more; the word of it may still be waiting. It takes locks of
 * connections. [token] */
bool rdma_nic_is_gone(struct rdma_nic *nic);
/* It loses completions: the rails that use it are at their end. [token] */
void rdma_nic_cq_failed(struct rdma_cq *cq, const char *what);
/* Stop watching its events. [token], or while no other thread has the transport. */
void rdma_nic_unwatch(struct rdma_nic *nic);

#endif
