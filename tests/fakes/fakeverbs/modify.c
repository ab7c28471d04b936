/* SPDX-License-Identifier: Apache-2.0 */
/* The states of a queue pair, and what must and may come with each move. */
#include "tests/fakes/fakeverbs/lab.h"

#define N_STATES (IBV_QPS_ERR + 1)

struct move {
	bool legal;
	unsigned required, optional; /* beside IBV_QP_STATE */
};

/* Of reliable connected ones: InfiniBand specification, tables 91 and 92. */
static const struct move moves[N_STATES][N_STATES] = {
	[IBV_QPS_RESET] = {
		[IBV_QPS_RESET] = { .legal = true },
		[IBV_QPS_ERR] = { .legal = true },
		[IBV_QPS_INIT] = { true, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0 },
	},
	[IBV_QPS_INIT] = {
		[IBV_QPS_RESET] = { .legal = true },
		[IBV_QPS_ERR] = { .legal = true },
		[IBV_QPS_INIT] = { true, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS },
		[IBV_QPS_RTR] = { true,
				  IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
				  IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX },
	},
	[IBV_QPS_RTR] = {
		[IBV_QPS_RESET] = { .legal = true },
		[IBV_QPS_ERR] = { .legal = true },
		[IBV_QPS_RTS] = { true,
				  IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
					  IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
				  IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS |
					  IBV_QP_MIN_RNR_TIMER | IBV_QP_PATH_MIG_STATE },
	},
	[IBV_QPS_RTS] = {
		[IBV_QPS_RESET] = { .legal = true },
		[IBV_QPS_ERR] = { .legal = true },
		[IBV_QPS_RTS] = { true, 0,
				  IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_ALT_PATH |
					  IBV_QP_PATH_MIG_STATE | IBV_QP_MIN_RNR_TIMER },
		[IBV_QPS_SQD] = { true, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY },
	},
	[IBV_QPS_SQD] = {
		[IBV_QPS_RESET] = { .legal = true },
		[IBV_QPS_ERR] = { .legal = true },
		[IBV_QPS_RTS] = { true, 0,
				  IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS |
					  IBV_QP_MIN_RNR_TIMER | IBV_QP_PATH_MIG_STATE },
		[IBV_QPS_SQD] = { true, 0,
				  IBV_QP_PORT | IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					  IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC |
					  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_ALT_PATH |
					  IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX |
					  IBV_QP_MIN_RNR_TIMER | IBV_QP_PATH_MIG_STATE },
	},
	[IBV_QPS_ERR] = {
		[IBV_QPS_RESET] = { .legal = true },
		[IBV_QPS_ERR] = { .legal = true },
	},
};

static const struct fakeverbs_port *port_of(const struct fv_qp *qp, uint32_t num)
{
	return num >= 1 && num <= qp->dev->is.n_ports ? &qp->dev->is.ports[num - 1] : NULL;
}

static int check_move(const struct fv_qp *qp, const struct ibv_qp_attr *a, unsigned mask,
		      enum ibv_qp_state next)
{
	const struct move *m = next < N_STATES ? &moves[qp->state][next] : NULL;

	if (!m || !m->legal)
		return EINVAL;
	if (mask & IBV_QP_CUR_STATE && a->cur_qp_state != qp->state)
		return EINVAL;
	if ((mask & m->required) != m->required ||
	    mask & ~(m->required | m->optional | (unsigned)IBV_QP_STATE))
		return EINVAL;
	return 0;
}

static int check_init(const struct fv_qp *qp, const struct ibv_qp_attr *a, unsigned mask)
{
	uint32_t num = mask & IBV_QP_PORT ? a->port_num : qp->attr.port_num;
	const struct fakeverbs_port *p = port_of(qp, num);

	if (mask & (IBV_QP_PORT | IBV_QP_PKEY_INDEX) && !p)
		return EINVAL;
	if (mask & IBV_QP_PKEY_INDEX &&
	    (a->pkey_index >= FAKEVERBS_PKEYS || !p->pkeys[a->pkey_index]))
		return EINVAL;
	if (mask & IBV_QP_ACCESS_FLAGS &&
	    a->qp_access_flags & ~(unsigned)(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					     IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC))
		return EINVAL;
	return 0;
}

static bool is_zero(const union ibv_gid *gid)
{
	static const union ibv_gid none;

	return !memcmp(gid, &none, sizeof(none));
}

/* On Ethernet the kernel finds out where the address is, and gives up when nobody says. */
static bool resolves(const union ibv_gid *gid)
{
	for (unsigned d = 0; d < FAKEVERBS_DEVICES; d++)
		for (unsigned p = 0; p < FAKEVERBS_PORTS; p++)
			for (unsigned g = 0; g < FAKEVERBS_GIDS; g++)
				if (!memcmp(&fv_lab.devices[d].is.ports[p].gids[g].gid, gid,
					    sizeof(*gid)))
					return true;
	return false;
}

static int check_path(const struct fv_qp *qp, const struct ibv_ah_attr *ah)
{
	const struct fakeverbs_port *p = port_of(qp, qp->attr.port_num);

	if (ah->port_num != qp->attr.port_num || ah->sl > 15)
		return EINVAL;
	if (ah->is_global && (ah->grh.sgid_index >= FAKEVERBS_GIDS ||
			      is_zero(&p->gids[ah->grh.sgid_index].gid) || is_zero(&ah->grh.dgid)))
		return EINVAL;
	if (p->link_layer == IBV_LINK_LAYER_ETHERNET) {
		if (!ah->is_global)
			return EINVAL;
		return resolves(&ah->grh.dgid) ? 0 : ETIMEDOUT;
	}
	return ah->dlid && (ah->is_global || !p->grh_required) ? 0 : EINVAL;
}

static int check_limits(const struct fv_qp *qp, const struct ibv_qp_attr *a, unsigned mask)
{
	const struct fakeverbs_port *p = port_of(qp, qp->attr.port_num);

	if (mask & IBV_QP_PATH_MTU && (a->path_mtu < IBV_MTU_256 || a->path_mtu > p->active_mtu))
		return EINVAL;
	if (mask & IBV_QP_MAX_QP_RD_ATOMIC && a->max_rd_atomic > qp->dev->is.max_init_rd_atomic)
		return EINVAL;
	if (mask & IBV_QP_MAX_DEST_RD_ATOMIC && a->max_dest_rd_atomic > qp->dev->is.max_rd_atomic)
		return EINVAL;
	if ((mask & IBV_QP_RETRY_CNT && a->retry_cnt > 7) ||
	    (mask & IBV_QP_RNR_RETRY && a->rnr_retry > 7) ||
	    (mask & IBV_QP_TIMEOUT && a->timeout > 31) ||
	    (mask & IBV_QP_MIN_RNR_TIMER && a->min_rnr_timer > 31))
		return EINVAL;
	return mask & IBV_QP_AV ? check_path(qp, &a->ah_attr) : 0;
}

static void take_connection(struct fv_qp *qp, const struct ibv_qp_attr *a, unsigned mask)
{
	struct ibv_qp_attr *to = &qp->attr;

	if (mask & IBV_QP_AV)
		to->ah_attr = a->ah_attr;
	if (mask & IBV_QP_PATH_MTU)
		to->path_mtu = a->path_mtu;
	if (mask & IBV_QP_DEST_QPN)
		to->dest_qp_num = a->dest_qp_num;
	if (mask & IBV_QP_RQ_PSN)
		qp->expected_psn = a->rq_psn & FV_PSN_MASK;
	if (mask & IBV_QP_SQ_PSN)
		qp->send_psn = a->sq_psn & FV_PSN_MASK;
	if (mask & IBV_QP_MAX_DEST_RD_ATOMIC)
		to->max_dest_rd_atomic = a->max_dest_rd_atomic;
	if (mask & IBV_QP_MAX_QP_RD_ATOMIC)
		to->max_rd_atomic = a->max_rd_atomic;
}

static void take(struct fv_qp *qp, const struct ibv_qp_attr *a, unsigned mask)
{
	struct ibv_qp_attr *to = &qp->attr;

	if (mask & IBV_QP_PKEY_INDEX)
		to->pkey_index = a->pkey_index;
	if (mask & IBV_QP_PORT)
		to->port_num = a->port_num;
	if (mask & IBV_QP_ACCESS_FLAGS)
		to->qp_access_flags = a->qp_access_flags;
	if (mask & IBV_QP_MIN_RNR_TIMER)
		to->min_rnr_timer = a->min_rnr_timer;
	if (mask & IBV_QP_TIMEOUT)
		to->timeout = a->timeout;
	if (mask & IBV_QP_RETRY_CNT)
		to->retry_cnt = a->retry_cnt;
	if (mask & IBV_QP_RNR_RETRY)
		to->rnr_retry = a->rnr_retry;
	if (mask & IBV_QP_EN_SQD_ASYNC_NOTIFY)
		to->en_sqd_async_notify = a->en_sqd_async_notify;
	take_connection(qp, a, mask);
	qp->retries_left = to->retry_cnt;
	qp->rnr_left = to->rnr_retry;
}

static int modify(struct fv_qp *qp, const struct ibv_qp_attr *a, unsigned mask)
{
	enum ibv_qp_state next = mask & IBV_QP_STATE ? a->qp_state : qp->state;
	int err = check_move(qp, a, mask, next);

	if (!err)
		err = check_init(qp, a, mask);
	if (!err)
		err = check_limits(qp, a, mask);
	if (err)
		return err;
	take(qp, a, mask);
	if (next == IBV_QPS_RESET && qp->dev->is.cannot_reset)
		next = IBV_QPS_ERR;
	if (next == IBV_QPS_RESET) {
		fv_qp_reset(qp);
	} else if (next == IBV_QPS_ERR) {
		if (qp->state == IBV_QPS_RESET)
			qp->state = IBV_QPS_INIT; /* the error state flushes, also from the start */
		fv_qp_error(qp);
	} else {
		qp->state = next;
		qp->drained_told = false;
		fv_qp_run(qp);
	}
	return 0;
}

int ibv_modify_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask)
{
	struct fv_qp *qp = fv_qp(ibv);
	int err = fv_enter(FAKEVERBS_MODIFY_QP, qp->dev);

	if (!err)
		err = modify(qp, attr, (unsigned)mask);
	if (!err && mask & IBV_QP_STATE)
		ibv->state = attr->qp_state;
	fv_leave();
	return err;
}
