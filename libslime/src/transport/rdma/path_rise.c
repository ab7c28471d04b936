/* SPDX-License-Identifier: Apache-2.0 */
/* How a rail comes back. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "src/core/lock.h"
#include "src/transport/rdma/conn.h"
#include "src/transport/rdma/domain.h"
#include "src/transport/rdma/job.h"
#include "src/transport/rdma/msg.h"
#include "src/transport/rdma/nic.h"
#include "src/transport/rdma/offer.h"
#include "src/transport/rdma/path.h"
#include "src/transport/rdma/qp.h"
#include "src/transport/rdma/share.h"
#include "src/transport/rdma/transport.h"
#include "src/transport/rdma/wire.h"
#include "src/transport/rdma/work.h"

static void put_frame(struct rdma_path *p, struct sl_msg *m)
{
	m->slot = (uint16_t)p->index;
	m->w[0] = p->life;
	sl_lock(&p->c->lock);
	rdma_msg_put(p->c, m);
	sl_unlock(&p->c->lock);
}

static void work_make(struct rdma_job *job)
{
	struct rdma_path *p = SL_CONTAINER_OF(job, struct rdma_path, job);
	struct rdma_transport *t = p->c->t;
	struct sl_why why = { "" };
	int ret;

	pthread_mutex_lock(&t->setup_lock);
	ret = rdma_nic_refresh(p->rail->nic, &why);
	if (!ret) {
		sl_lock(&p->c->lock); /* others look at the link meanwhile */
		rdma_rail_describe(p->rail);
		sl_unlock(&p->c->lock);
	}
	pthread_mutex_unlock(&t->setup_lock);
	for (unsigned i = 0; i < p->n_qps && !ret; i++) {
		struct rdma_qp *q = p->qps[i];

		ret = rdma_qp_renew(q, p->c->offer->domain->pds[p->rail->nic->index]);
		if (ret)
			snprintf(why.text, sizeof(why.text), "no queue pair: %s", strerror(-ret));
		else
			p->rail->local.qps[i] = (struct rdma_qp_address){ q->ibv->qp_num, q->psn };
	}
	for (unsigned i = 0; i < p->n_qps && ret; i++)
		(void)rdma_qp_close(p->qps[i]);
	p->job_status = ret;
	snprintf(p->job_why, sizeof(p->job_why), "%.127s", why.text);
}

static void work_rise(struct rdma_job *job)
{
	struct rdma_path *p = SL_CONTAINER_OF(job, struct rdma_path, job);

	for (unsigned i = 0; i < p->n_qps && !p->job_status; i++)
		p->job_status = rdma_qp_bring_up(p->qps[i], p->rail,
						 &p->c->peer.rails[p->peer_rail], &p->job_step);
}

static void prove(struct rdma_path *p)
{
	sl_lock(&p->c->lock);
	p->state = RDMA_PATH_PROVING;
	p->n_probes = p->n_qps;
	for (unsigned i = 0; i < p->n_qps && !p->failed; i++) {
		if (rdma_qp_probe(p->qps[i]))
			rdma_path_fail_locked(p, -EIO, "a probe cannot be posted");
	}
	sl_unlock(&p->c->lock);
}

static void done_rise(struct rdma_job *job)
{
	struct rdma_path *p = SL_CONTAINER_OF(job, struct rdma_path, job);
	struct sl_msg m = { .kind = RDMA_RISEN };
	char why[128];

	if (!rdma_path_worked(p))
		return;
	rdma_path_set_state(p, RDMA_PATH_RISEN);
	if (p->job_status) {
		snprintf(why, sizeof(why), "%s: %s", p->job_step, strerror(-p->job_status));
		sl_lock(&p->c->lock);
		rdma_path_fail_locked(p, p->job_status, why);
		sl_unlock(&p->c->lock);
	} else if (!p->failed) {
		sl_lock(&p->c->lock);
		rdma_path_take_over(p);
		sl_unlock(&p->c->lock);
		put_frame(p, &m);
		if (p->peer_risen)
			prove(p);
	}
}

/* Both know the other's queue pairs. */
static void rise(struct rdma_path *p)
{
	for (unsigned i = 0; i < p->n_qps; i++) {
		p->qps[i]->peer = p->c->peer.rails[p->peer_rail].qps[i];
		/* The peer may lead over it at once, where no other rail is up. */
		p->qps[i]->n_first = p->qps[i]->n_receives;
	}
	rdma_path_work(p, RDMA_PATH_RISING, work_rise, done_rise);
}

static bool knows_peer_qps(const struct rdma_path *p)
{
	return p->peer_qps == (1u << p->n_qps) - 1;
}

static void done_make(struct rdma_job *job)
{
	struct rdma_path *p = SL_CONTAINER_OF(job, struct rdma_path, job);

	if (!rdma_path_worked(p))
		return;
	if (p->job_status) {
		sl_lock(&p->c->lock);
		p->state = RDMA_PATH_DOWN;
		snprintf(p->error, sizeof(p->error), "%s", p->job_why);
		sl_unlock(&p->c->lock);
		rdma_path_set_timer(p, p->pause_ns);
		p->pause_ns =
			p->pause_ns < RDMA_PAUSE_MAX_NS / 2 ? 2 * p->pause_ns : RDMA_PAUSE_MAX_NS;
		return;
	}
	sl_lock(&p->c->lock);
	p->state = RDMA_PATH_MADE;
	rdma_path_explain(p);
	/* When it did, none of them was known to be in it. */
	if (rdma_path_has_failed_cq(p))
		rdma_path_fail_locked(p, -EIO, "a completion queue failed");
	sl_unlock(&p->c->lock);
	for (unsigned i = 0; i < p->n_qps; i++) {
		struct sl_msg m = { .kind = RDMA_RAIL };

		rdma_rail_write(&p->rail->local, i, &m);
		put_frame(p, &m);
	}
	if (knows_peer_qps(p) && !p->failed)
		rise(p);
}

void rdma_path_try(struct rdma_path *p)
{
	struct rdma_conn *c = p->c;
	bool moving;

	if (p->state != RDMA_PATH_DOWN || p->failed || rdma_state(c) != RDMA_CONN_UP ||
	    atomic_load(&c->ending))
		return;
	/* A device that failed is opened again when no link uses it any more. */
	if (atomic_load(&p->rail->nic->dead))
		return;
	sl_lock(&c->lock);
	moving = p->moving;
	sl_unlock(&c->lock);
	if (moving)
		rdma_path_set_timer(p, p->pause_ns);
	else
		rdma_path_work(p, RDMA_PATH_MAKING, work_make, done_make);
}

void rdma_path_come_up(struct rdma_path *p)
{
	struct rdma_conn *c = p->c;

	sl_lock(&c->lock);
	if (!p->failed) {
		sl_info("rdma", "%s: rail %u is in use again", c->conn.name, p->index);
		p->up_ns = sl_clock_ns();
		p->state = RDMA_PATH_UP;
		p->usable = true;
		p->weight = RDMA_SHARE_WHOLE;
		if (p->index == 0)
			rdma_path_describe(c);
		rdma_path_leave_ports_that_are_down(c);
		rdma_work_pump(c);
	}
	sl_unlock(&c->lock);
}

static bool take_address(struct rdma_path *p, const struct sl_msg *m)
{
	int ret;

	sl_lock(&p->c->lock);
	ret = rdma_rail_read(&p->c->peer.rails[p->peer_rail], p->n_qps, m);
	sl_unlock(&p->c->lock);
	return !ret && !(p->peer_qps & 1u << m->flags);
}

bool rdma_path_take_address(struct rdma_path *p, const struct sl_msg *m)
{
	if (p->state == RDMA_PATH_KILLING || p->state == RDMA_PATH_DRAINING ||
	    p->state == RDMA_PATH_CLOSING || p->state == RDMA_PATH_STOPPED)
		return true; /* of what is over again */
	if (p->state != RDMA_PATH_DOWN && p->state != RDMA_PATH_MAKING &&
	    p->state != RDMA_PATH_MADE)
		return false;
	if (!take_address(p, m))
		return false;
	p->peer_qps |= 1u << m->flags;
	if (knows_peer_qps(p) && p->state == RDMA_PATH_MADE && !p->failed)
		rise(p);
	return true;
}

void rdma_path_spoke(struct rdma_path *p)
{
	/* Its word for that may have been lost with another rail. */
	if (rdma_state(p->c) == RDMA_CONN_UP)
		rdma_path_peer_risen(p);
}

void rdma_path_peer_risen(struct rdma_path *p)
{
	p->peer_risen = true;
	if (p->state == RDMA_PATH_RISEN && !p->failed)
		prove(p);
}
