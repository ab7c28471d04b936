/* SPDX-License-Identifier: Apache-2.0 */
/* How a connection ends: its peer is told, its queue pairs are drained and destroyed. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/list.h"
#include "src/core/lock.h"
#include "src/transport/rdma/conn.h"
#include "src/transport/rdma/domain.h"
#include "src/transport/rdma/job.h"
#include "src/transport/rdma/key.h"
#include "src/transport/rdma/msg.h"
#include "src/transport/rdma/nic.h"
#include "src/transport/rdma/offer.h"
#include "src/transport/rdma/path.h"
#include "src/transport/rdma/qp.h"
#include "src/transport/rdma/tidy.h"
#include "src/transport/rdma/transport.h"
#include "src/transport/rdma/wire.h"
#include "src/transport/rdma/work.h"

/* A peer that does not acknowledge our BYE so long is left without it. */
#define LEAVE_NS SL_NS_PER_S

/* ---- step by step ---- */

static void leave(struct rdma_conn *c)
{
	const struct sl_msg m = { .kind = RDMA_BYE };

	rdma_conn_set_state(c, RDMA_CONN_LEAVING);
	sl_timer_set(rdma_poller(c->t), &c->timer, sl_clock_ns() + LEAVE_NS);
	sl_lock(&c->lock);
	rdma_msg_put(c, &m);
	sl_unlock(&c->lock);
}

static void stop_timers(struct rdma_conn *c)
{
	sl_timer_cancel(rdma_poller(c->t), &c->timer);
	sl_timer_cancel(rdma_poller(c->t), &c->again);
}

/* No queue pair is left, so no byte moves and no op is under way. */
static void end(struct rdma_conn *c)
{
	const struct sl_conn_events *events = c->conn.events;
	void *owner = c->conn.owner;
	char why[sizeof(c->end_why)];
	int cause = c->end_cause;

	memcpy(why, c->end_why, sizeof(why));
	rdma_conn_set_state(c, RDMA_CONN_ENDED);
	rdma_key_end(c);
	sl_list_remove(&c->link);
	rdma_work_fail_all(c, cause == 0 && c->end_local ? -ECANCELED : -ECONNRESET);
	rdma_tidy(c->t);
	events->broken(owner, cause, why);
}

/* Where no completion and no event has said why, the port may. */
static void look_up_cause(struct rdma_conn *c)
{
	char why[sizeof(c->end_why)];
	bool flushed, found = false;

	sl_lock(&c->lock);
	flushed = c->end_flushed;
	sl_unlock(&c->lock);
	for (unsigned i = 0; i < c->n_qps && flushed && !found; i++)
		found = rdma_rail_has_changed(c->qps[i]->path->rail, why, sizeof(why));
	if (!found)
		return;
	sl_lock(&c->lock);
	rdma_conn_end_because(c, c->end_cause, why, false, false);
	sl_unlock(&c->lock);
}

static void work_close(struct rdma_job *job)
{
	struct rdma_conn *c = SL_CONTAINER_OF(job, struct rdma_conn, job);

	look_up_cause(c);
	rdma_offer_close(c->offer);
}

static void done_close(struct rdma_job *job)
{
	struct rdma_conn *c = SL_CONTAINER_OF(job, struct rdma_conn, job);

	/* Completions that are still in a queue belong to ops that end now. */
	for (unsigned i = 0; i < c->n_qps; i++)
		rdma_qp_disown(c->qps[i]);
	end(c);
}

static void close_qps(struct rdma_conn *c)
{
	stop_timers(c);
	rdma_conn_set_state(c, RDMA_CONN_CLOSING);
	rdma_job_start(c->t, &c->job, work_close, done_close);
}

static bool all_drained(const struct rdma_conn *c)
{
	for (unsigned i = 0; i < c->n_qps; i++) {
		if (!c->qps[i]->drained)
			return false;
	}
	return true;
}

/* Its own domain goes with it, unless other users are left. */
static bool may_close(const struct rdma_conn *c)
{
	return !c->offer->domain->isolated || rdma_domain_begin_to_close(c->offer->domain);
}

static void work_kill(struct rdma_job *job)
{
	struct rdma_conn *c = SL_CONTAINER_OF(job, struct rdma_conn, job);

	for (unsigned i = 0; i < c->n_qps; i++)
		rdma_qp_kill(c->qps[i]);
}

static void done_kill(struct rdma_job *job)
{
	struct rdma_conn *c = SL_CONTAINER_OF(job, struct rdma_conn, job);

	rdma_conn_set_state(c, RDMA_CONN_DRAINING);
	sl_timer_set(rdma_poller(c->t), &c->timer, sl_clock_ns() + RDMA_DRAIN_NS);
	rdma_conn_call(c);
}

/* Later, while a worker is busy with a rail, or has the job: it may bring up none of them. */
static void kill_qps(struct rdma_conn *c)
{
	if (!rdma_path_end_all(c) || c->is_raising)
		return;
	stop_timers(c);
	/* Before the worker moves them to ERR, by the thread that posts receives: soft-RoCE does
	 * not flush receives that are posted then. */
	for (unsigned i = 0; i < c->n_qps; i++)
		c->qps[i]->draining = true;
	rdma_conn_set_state(c, RDMA_CONN_KILLING);
	rdma_job_start(c->t, &c->job, work_kill, done_kill);
}

/* An event may know what a flush does not; those of a queue pair are gone with it. */
static void poll_for_cause(struct rdma_conn *c)
{
	for (unsigned i = 0; i < c->n_qps; i++)
		rdma_nic_poll_events(c->qps[i]->nic);
}

unsigned rdma_conn_go_on_ending(struct rdma_conn *c)
{
	switch (rdma_state(c)) {
	case RDMA_CONN_UP:
		if (c->end_local && c->end_cause == 0)
			leave(c);
		else
			kill_qps(c);
		return 1;
	case RDMA_CONN_LEAVING:
		if (atomic_load(&c->left))
			kill_qps(c);
		return 1;
	case RDMA_CONN_GREETING:
	case RDMA_CONN_RESTING:
		kill_qps(c);
		return 1;
	case RDMA_CONN_DRAINING:
		if (all_drained(c) && may_close(c)) {
			if (c->end_flushed)
				poll_for_cause(c);
			close_qps(c);
		}
		return 1;
	default: /* a worker is at it, or it is over */
		return 0;
	}
}
