/* SPDX-License-Identifier: Apache-2.0 */
/* How a queue pair comes up: from RESET to RTS, with what the rail and the settings say. */
#include <errno.h>
#include <string.h>

#include "src/transport/rdma/gid.h"
#include "src/transport/rdma/limits.h"
#include "src/transport/rdma/nic.h"
#include "src/transport/rdma/offer.h"
#include "src/transport/rdma/qp.h"
#include "src/transport/rdma/transport.h"
#include "src/transport/rdma/wire.h"

#define ON_DEMAND_TIMER 20 /* as InfiniBand encodes it: 10.24 ms */

int rdma_qp_reset(struct rdma_qp *q)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

	q->head = q->tail = q->signaled = 0;
	q->checked_tail = q->n_still = 0;
	q->n_bytes = 0;
	q->n_acked = 0;
	q->n_posted = q->n_begun = q->n_returned = 0;
	q->n_received = q->n_heard;
	q->draining = false;
	q->marked = false;
	q->marker_seen = false;
	q->drained = false;
	q->torn = false;
	memset(q->sent, 0, RDMA_SENDS * sizeof(*q->sent));
	/* Of some devices that would be its end. */
	return q->is_new ? 0 : ibv_modify_qp(q->ibv, &attr, IBV_QP_STATE);
}

static int to_init(struct rdma_qp *q)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.pkey_index = (uint16_t)q->nic->t->base.env->attr->rdma_pkey_index,
		.port_num = q->nic->port,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
	};
	int ret =
		ibv_modify_qp(q->ibv, &attr,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);

	/* Otherwise it is in RESET still, and the obstacle may be over with the next try. */
	if (!ret)
		q->is_new = false;
	return ret;
}

static uint8_t smaller(uint8_t a, uint8_t b)
{
	return a < b ? a : b;
}

static struct ibv_ah_attr path_to(const struct rdma_qp *q, const struct rdma_rail *rail,
				  const struct rdma_rail_address *to)
{
	const struct slime_context_attr *attr = q->nic->t->base.env->attr;
	struct ibv_ah_attr ah = {
		.dlid = to->lid,
		.sl = (uint8_t)attr->rdma_service_level,
		.port_num = q->nic->port,
	};

	/* Both ends, or each drops what the other sends. */
	if (rail->local.grh_required || to->grh_required ||
	    sl_gid_is_global((enum slime_link_layer)rail->local.link_layer, rail->local.gid,
			     to->gid)) {
		ah.is_global = 1;
		ah.grh.sgid_index = rail->gid_index;
		ah.grh.hop_limit = (uint8_t)attr->rdma_hop_limit;
		ah.grh.traffic_class = (uint8_t)attr->rdma_traffic_class;
		ah.grh.flow_label = attr->rdma_flow_label;
		memcpy(ah.grh.dgid.raw, to->gid, sizeof(to->gid));
	}
	return ah;
}

/* A peer that asks for a page which is not there is told to wait, and it may have to come from a
 * disk. */
static uint8_t min_rnr_timer(const struct sl_transport_env *env)
{
	uint32_t timer = env->attr->rdma_min_rnr_timer;

	/* 0 is the longest. */
	if (timer && timer < ON_DEMAND_TIMER && atomic_load(&env->regions->on_demand))
		timer = ON_DEMAND_TIMER;
	return (uint8_t)timer;
}

static int to_rtr(struct rdma_qp *q, const struct rdma_rail *rail,
		  const struct rdma_rail_address *to)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.ah_attr = path_to(q, rail, to),
		.path_mtu = (enum ibv_mtu)smaller(rail->local.mtu, to->mtu),
		.dest_qp_num = q->peer.qpn,
		.rq_psn = (q->peer.psn + q->n_heard) & RDMA_NUMBER_MASK,
		.max_dest_rd_atomic = smaller(rail->local.max_dest_rd_atomic, to->max_rd_atomic),
		.min_rnr_timer = min_rnr_timer(q->nic->t->base.env),
	};

	return ibv_modify_qp(q->ibv, &attr,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				     IBV_QP_MIN_RNR_TIMER);
}

static int to_rts(struct rdma_qp *q, const struct rdma_rail *rail,
		  const struct rdma_rail_address *to)
{
	const struct slime_context_attr *attr = q->nic->t->base.env->attr;
	struct ibv_qp_attr qp_attr = {
		.qp_state = IBV_QPS_RTS,
		.timeout = (uint8_t)attr->rdma_timeout,
		.retry_cnt = (uint8_t)attr->rdma_retry_count,
		.rnr_retry = (uint8_t)attr->rdma_rnr_retry,
		.sq_psn = q->psn,
		.max_rd_atomic = smaller(rail->local.max_rd_atomic, to->max_dest_rd_atomic),
	};

	return ibv_modify_qp(q->ibv, &qp_attr,
			     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

/*
 * irdma moves a queue pair that is to be reset to ERR, and may well report RESET when it is asked
 * (ibv_query_qp): only this shows it. All other attributes for INIT were accepted by the same queue
 * pair when it was new; those of them that drivers check are within bounds that stay.
 */
static int to_init_again(struct rdma_qp *q)
{
	int ret = to_init(q);

	return ret == EINVAL ? ENOTRECOVERABLE : ret;
}

int rdma_qp_bring_up(struct rdma_qp *q, const struct rdma_rail *rail,
		     const struct rdma_rail_address *to, const char **step)
{
	bool is_new = q->is_new;
	int ret;

	*step = "RESET";
	ret = rdma_qp_reset(q);
	if (!ret) {
		*step = "INIT";
		ret = is_new ? to_init(q) : to_init_again(q);
	}
	if (!ret) {
		*step = "posting receives";
		ret = rdma_qp_post_until(q, q->n_first);
	}
	if (!ret) {
		*step = "RTR (does the path to the peer's address exist?)";
		ret = to_rtr(q, rail, to);
	}
	if (!ret) {
		*step = "RTS";
		ret = to_rts(q, rail, to);
	}
	return ret > 0 ? -ret : ret;
}
