/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "src/transport/rdma/cq.h"
#include "src/transport/rdma/device.h"
#include "src/transport/rdma/gid.h"
#include "src/transport/rdma/limits.h"
#include "src/transport/rdma/nic.h"
#include "src/transport/rdma/transport.h"

/* ---- what it can do ---- */

static uint8_t clamp_u8(int n)
{
	return (uint8_t)(n < 0 ? 0 : n > 255 ? 255 : n);
}

static int read_limits(struct rdma_nic *nic, struct sl_why *why)
{
	const struct ibv_device_attr *a = &nic->device.attr.orig_attr;

	if (a->max_qp_wr < (int)RDMA_RECEIVES) {
		snprintf(why->text, sizeof(why->text),
			 "%.40s: queues of %d entries, and %d are needed", nic->device.name,
			 a->max_qp_wr, (int)RDMA_RECEIVES);
		return -EOPNOTSUPP;
	}
	nic->n_sges = a->max_sge < RDMA_SGES ? (uint32_t)a->max_sge : RDMA_SGES;
	if (a->max_sge_rd > 0 && a->max_sge_rd < (int)nic->n_sges)
		nic->n_sges = (uint32_t)a->max_sge_rd;
	nic->max_rd_atomic = clamp_u8(a->max_qp_init_rd_atom);
	nic->max_dest_rd_atomic = clamp_u8(a->max_qp_rd_atom);
	if (!nic->max_rd_atomic || !nic->max_dest_rd_atomic) {
		snprintf(why->text, sizeof(why->text), "%.40s: it has no RDMA reads",
			 nic->device.name);
		return -EOPNOTSUPP;
	}
	return 0;
}

/* A queue pair that has none is tried again and again, as if the peer were to blame. */
static int check_pkey(const struct rdma_nic *nic, const struct sl_port *port, struct sl_why *why)
{
	uint32_t index = nic->t->base.env->attr->rdma_pkey_index;

	if (index < port->attr.pkey_tbl_len)
		return 0;
	snprintf(why->text, sizeof(why->text),
		 "%.40s: the port has %u partition keys, and none at index %u (configured)",
		 nic->device.name, port->attr.pkey_tbl_len, index);
	return -EADDRNOTAVAIL;
}

static int use_port(struct rdma_nic *nic, const struct sl_port *port, struct sl_why *why)
{
	const struct slime_context_attr *attr = nic->t->base.env->attr;
	struct sl_gid_choice choice;
	struct sl_device_why said;
	uint32_t max_msg;
	int ret = sl_port_check(port, &said);

	if (ret) {
		snprintf(why->text, sizeof(why->text), "%.40s: %.140s", nic->device.name,
			 said.text);
		return ret;
	}
	ret = check_pkey(nic, port, why);
	if (ret)
		return ret;
	ret = sl_gid_choose(port->gids, port->n_gids, port->link_layer, attr->rdma_gid_index,
			    &choice);
	if (ret) {
		snprintf(why->text, sizeof(why->text), "%.40s: %.140s", nic->device.name,
			 choice.why);
		return ret;
	}
	if (memcmp(&nic->gid, &choice.gid, sizeof(nic->gid)))
		sl_info("rdma", "%s port %u: %s", nic->device.name, port->num, choice.why);
	nic->link_layer = port->link_layer;
	/* RoCE always has it. */
	nic->grh_required = port->link_layer == SLIME_LINK_INFINIBAND &&
			    port->attr.flags & IBV_QPF_GRH_REQUIRED;
	nic->gid = choice.gid;
	nic->lid = port->attr.lid;
	nic->mtu = port->attr.active_mtu;
	nic->mbps = sl_port_mbps(&port->attr);
	memcpy(nic->gid_why, choice.why, sizeof(nic->gid_why));
	/* mana's driver does not say: then it is more than our requests have. */
	max_msg = port->attr.max_msg_sz ? port->attr.max_msg_sz : UINT32_MAX;
	atomic_store_explicit(&nic->max_msg, max_msg, memory_order_relaxed);
	return 0;
}

int rdma_nic_refresh(struct rdma_nic *nic, struct sl_why *why)
{
	struct sl_device_why said;
	struct sl_port port;
	int ret;

	ret = sl_port_init(&port, &nic->device, nic->port, &said);
	if (ret) {
		snprintf(why->text, sizeof(why->text), "%.180s", said.text);
	} else {
		ret = use_port(nic, &port, why);
		sl_port_fini(&port);
	}
	nic->usable = !ret;
	return ret;
}

void rdma_nic_deregister(const struct rdma_nic *nic, struct ibv_mr **ibv)
{
	struct ibv_mr *mr = *ibv;
	void *addr = mr ? mr->addr : NULL;
	size_t len = mr ? mr->length : 0;
	int ret = mr ? ibv_dereg_mr(mr) : 0;

	if (ret && !rdma_nic_took_along(nic, ret))
		sl_error("rdma", "%s: %zu bytes at %p cannot be deregistered: %s", nic->device.name,
			 len, addr, strerror(ret));
	*ibv = NULL;
}

/* ---- life ---- */

static int fail(struct rdma_nic *nic, struct sl_why *why, const char *what)
{
	int err = errno ? errno : EIO;

	snprintf(why->text, sizeof(why->text), "%.40s: %s: %s", nic->device.name, what,
		 strerror(err));
	return -err;
}

int rdma_nic_open(struct rdma_transport *t, const char *device, uint8_t port, unsigned index,
		  struct rdma_nic **out, struct sl_why *why)
{
	struct rdma_nic *nic = calloc(1, sizeof(*nic));
	struct sl_device_why said;
	int ret;

	if (!nic) {
		snprintf(why->text, sizeof(why->text), "no memory");
		return -ENOMEM;
	}
	nic->t = t;
	nic->index = index;
	nic->port = port;
	nic->channel_source.fd = -1;
	nic->async_source.fd = -1;
	ret = sl_device_init(&nic->device, device, &said);
	if (ret) {
		snprintf(why->text, sizeof(why->text), "%.180s", said.text);
		goto free_nic;
	}
	ret = read_limits(nic, why);
	if (ret)
		goto fini_device;
	errno = 0;
	nic->channel = ibv_create_comp_channel(nic->device.ibv);
	if (!nic->channel) {
		ret = fail(nic, why, "no completion channel");
		goto fini_device;
	}
	*out = nic;
	return 0;

fini_device:
	sl_device_fini(&nic->device);
free_nic:
	free(nic);
	return ret;
}

void rdma_nic_close(struct rdma_nic *nic)
{
	for (unsigned i = 0; i < nic->n_cqs; i++) {
		struct rdma_cq *cq = atomic_exchange(&nic->cqs[i], NULL);

		if (cq)
			rdma_cq_close(cq);
	}
	ibv_destroy_comp_channel(nic->channel);
	sl_device_fini(&nic->device);
}
