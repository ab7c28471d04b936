/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "src/core/lock.h"
#include "src/transport/rdma/conn.h"
#include "src/transport/rdma/job.h"
#include "src/transport/rdma/move.h"
#include "src/transport/rdma/msg.h"
#include "src/transport/rdma/nic.h"
#include "src/transport/rdma/offer.h"
#include "src/transport/rdma/path.h"
#include "src/transport/rdma/qp.h"
#include "src/transport/rdma/share.h"
#include "src/transport/rdma/transport.h"
#include "src/transport/rdma/wire.h"
#include "src/transport/rdma/work.h"

/* A thread that got no CPU for long polls in between. */
#define LOOK_NS (RDMA_DRAIN_NS / 2)
/* After one that lasted so long the pauses begin anew. */
#define LASTS_NS (10 * SL_NS_PER_S)

void rdma_path_set_state(struct rdma_path *p, enum rdma_path_state state)
{
	sl_lock(&p->c->lock);
	p->state = state;
	sl_unlock(&p->c->lock);
}

void rdma_path_work(struct rdma_path *p, enum rdma_path_state state,
		    void (*work)(struct rdma_job *), void (*done)(struct rdma_job *))
{
	rdma_path_set_state(p, state);
	p->busy = true;
	p->job_status = 0;
	rdma_job_start(p->c->t, &p->job, work, done);
}

bool rdma_path_worked(struct rdma_path *p)
{
	p->busy = false;
	rdma_conn_call(p->c);
	return !atomic_load(&p->c->ending);
}

void rdma_path_take_over(struct rdma_path *p)
{
	if (!p->c->leaderless)
		return;
	rdma_path_lead_over(p->c, p);
	rdma_msg_pump(p->c);
}

/* ---- its end ---- */

static void work_kill(struct rdma_job *job)
{
	struct rdma_path *p = SL_CONTAINER_OF(job, struct rdma_path, job);

	for (unsigned i = 0; i < p->n_qps; i++)
		rdma_qp_kill(p->qps[i]);
}

static void done_kill(struct rdma_job *job)
{
	struct rdma_path *p = SL_CONTAINER_OF(job, struct rdma_path, job);

	if (!rdma_path_worked(p))
		return;
	rdma_path_set_state(p, RDMA_PATH_DRAINING);
	p->waited = false;
	rdma_path_set_timer(p, LOOK_NS);
}

static void work_close(struct rdma_job *job)
{
	struct rdma_path *p = SL_CONTAINER_OF(job, struct rdma_path, job);

	for (unsigned i = 0; i < p->n_qps; i++) {
		int ret = rdma_qp_close(p->qps[i]);

		if (ret)
			p->job_status = ret;
	}
}

/* Its pieces move only when the peer's are known to be gone, too. */
static void agree(struct rdma_path *p)
{
	struct rdma_conn *c = p->c;
	bool lasted = p->up_ns && sl_clock_ns() - p->up_ns >= LASTS_NS;
	int ret;

	sl_timer_cancel(rdma_poller(c->t), &p->timer);
	p->life++;
	p->peer_stopped = false;
	p->peer_qps = 0;
	p->peer_risen = false;
	p->pause_ns = lasted || !p->pause_ns ? RDMA_PAUSE_MIN_NS : 2 * p->pause_ns;
	if (p->pause_ns > RDMA_PAUSE_MAX_NS)
		p->pause_ns = RDMA_PAUSE_MAX_NS;
	p->up_ns = 0;
	sl_lock(&c->lock);
	ret = rdma_move_begin(p, p->peer_count);
	if (ret) {
		rdma_conn_fail_locked(c, ret, "what a rail left cannot be sent again");
	} else {
		p->state = RDMA_PATH_DOWN;
		p->failed = false;
		p->port_is_down = p->port_was_down = false;
		c->n_held -= p->led;
		p->led = p->greeted = false;
		rdma_share_reset(&p->share);
		rdma_msg_pump(c);
		rdma_work_pump(c);
		rdma_path_set_timer(p, p->pause_ns);
	}
	sl_unlock(&c->lock);
}

static uint64_t agree_ns(const struct rdma_path *p)
{
	return 2 * p->c->t->base.env->attr->tcp_user_timeout_ms * SL_NS_PER_MS + RDMA_DRAIN_NS;
}

/* The peer led over p: its messages go over any other as soon as it hears that p has stopped. */
static void make_room(const struct rdma_path *p)
{
	struct rdma_conn *c = p->c;

	for (unsigned i = 0; i < c->n_paths; i++) {
		struct rdma_path *other = &c->paths[i];

		if (other != p && other->state == RDMA_PATH_UP && !other->failed)
			rdma_qp_post_rest(other->qps[0]);
	}
}

static void stopped(struct rdma_path *p)
{
	struct rdma_conn *c = p->c;
	const struct rdma_qp *q = p->qps[0];
	struct rdma_told_end *end = &p->ends[p->life % 2];

	if (q->n_received)
		make_room(p);
	sl_lock(&c->lock);
	p->state = RDMA_PATH_STOPPED;
	end->life = p->life;
	/* Nothing of this life is taken any more: what came and was not may be sent again. */
	end->count = q->n_received;
	/* The word of the life before may be with a rail that is not agreed on. It goes first, and
	 * a peer that has it takes no notice. */
	if (p->life && c->n_held)
		rdma_path_tell(p, p->life - 1);
	rdma_path_tell(p, p->life);
	rdma_msg_pump(c);
	sl_unlock(&c->lock);
	if (p->peer_stopped)
		agree(p);
	else
		rdma_path_set_timer(p, agree_ns(p));
}

/* Of a device that is gone the kernel has ended them, and says EIO; it does so before that, too,
 * and the word of it comes when it has. */
static void check_closed(struct rdma_path *p)
{
	if (p->job_status == -EIO && rdma_nic_is_gone(p->rail->nic))
		p->job_status = 0;
	if (!p->job_status) {
		stopped(p);
	} else if (p->job_status == -EIO && !p->waited) {
		p->waited = true;
		rdma_path_set_timer(p, RDMA_DRAIN_NS);
	} else {
		rdma_conn_fail(p->c, -ECONNRESET, "a rail's queue pair cannot be destroyed");
	}
}

static void done_close(struct rdma_job *job)
{
	struct rdma_path *p = SL_CONTAINER_OF(job, struct rdma_path, job);

	for (unsigned i = 0; i < p->n_qps; i++)
		rdma_qp_disown(p->qps[i]);
	p->waited = false;
	if (rdma_path_worked(p))
		check_closed(p);
}

static bool has_qps(const struct rdma_path *p)
{
	for (unsigned i = 0; i < p->n_qps; i++) {
		if (p->qps[i]->ibv)
			return true;
	}
	return false;
}

static void begin_end(struct rdma_path *p)
{
	sl_timer_cancel(rdma_poller(p->c->t), &p->timer);
	if (p->state == RDMA_PATH_UP)
		sl_warn("rdma", "%s: rail %u stopped: %s", p->c->conn.name, p->index, p->error);
	if (!has_qps(p)) {
		stopped(p);
		return;
	}
	/* Before the worker moves them to ERR: soft-RoCE does not flush what is posted then. */
	for (unsigned i = 0; i < p->n_qps; i++)
		p->qps[i]->draining = true;
	p->drained = false;
	rdma_path_work(p, RDMA_PATH_KILLING, work_kill, done_kill);
}

static bool is_drained(const struct rdma_path *p)
{
	bool all = true;

	for (unsigned i = 0; i < p->n_qps; i++)
		all = all && p->qps[i]->drained;
	return all || p->drained;
}

/* ---- what the peer says ---- */

static void peer_stopped(struct rdma_path *p, uint64_t count)
{
	if (p->peer_stopped)
		return;
	p->peer_stopped = true;
	p->peer_count = count;
	if (p->state == RDMA_PATH_STOPPED) {
		agree(p);
		return;
	}
	sl_lock(&p->c->lock);
	rdma_path_fail_locked(p, -ECONNRESET, "the peer does not use it any more");
	sl_unlock(&p->c->lock);
}

/* ---- frames ---- */

bool rdma_path_received(struct rdma_conn *c, const struct sl_msg *m)
{
	struct rdma_path *p;

	if (m->slot >= c->n_paths)
		return false;
	p = &c->paths[m->slot];
	if (m->w[0] > p->life)
		return false;
	/* Of what both ends have agreed is over. */
	if (m->w[0] < p->life)
		return true;
	if (m->kind == RDMA_RAIL)
		return rdma_path_take_address(p, m);
	if (m->kind == RDMA_STOPPED)
		peer_stopped(p, m->w[1]);
	else
		rdma_path_peer_risen(p);
	return true;
}

/* ---- passes ---- */

static void on_time(struct sl_timer *timer)
{
	struct rdma_path *p = SL_CONTAINER_OF(timer, struct rdma_path, timer);

	if (p->state == RDMA_PATH_DRAINING) {
		if (p->waited)
			p->drained = true;
		else
			rdma_path_set_timer(p, LOOK_NS);
		p->waited = true;
		rdma_conn_call(p->c);
	} else if (p->state == RDMA_PATH_CLOSING) {
		check_closed(p);
	} else if (p->state == RDMA_PATH_STOPPED) {
		rdma_conn_fail(p->c, -ECONNRESET, "the peer does not agree on the end of a rail");
	} else {
		rdma_path_try(p);
	}
}

static void run(struct rdma_path *p)
{
	bool failed = p->failed;
	bool proven;

	/* A worker may still bring it up, of a link that came up without it. */
	if (p->busy)
		return;
	sl_lock(&p->c->lock);
	proven = !p->n_probes;
	sl_unlock(&p->c->lock);
	switch (p->state) {
	case RDMA_PATH_DRAINING:
		if (is_drained(p)) {
			sl_timer_cancel(rdma_poller(p->c->t), &p->timer);
			rdma_path_work(p, RDMA_PATH_CLOSING, work_close, done_close);
		}
		break;
	case RDMA_PATH_UP:
	case RDMA_PATH_DOWN:
	case RDMA_PATH_MADE:
	case RDMA_PATH_RISEN:
	case RDMA_PATH_PROVING:
		if (failed)
			begin_end(p);
		else if (p->state == RDMA_PATH_PROVING && proven)
			rdma_path_come_up(p);
		break;
	default: /* the peer's word is waited for */
		break;
	}
}

void rdma_path_run(struct rdma_conn *c)
{
	for (unsigned i = 0; i < c->n_paths; i++)
		run(&c->paths[i]);
}

/* ---- the connection's end ---- */

bool rdma_path_end_all(struct rdma_conn *c)
{
	for (unsigned i = 0; i < c->n_paths; i++) {
		sl_timer_cancel(rdma_poller(c->t), &c->paths[i].timer);
		if (c->paths[i].busy)
			return false;
	}
	return true;
}

/* ---- life ---- */

void rdma_path_init(struct rdma_path *p, struct rdma_conn *c)
{
	p->c = c;
	p->state = RDMA_PATH_FALLEN;
	p->usable = true;
	p->weight = RDMA_SHARE_WHOLE;
	sl_timer_init(&p->timer, on_time);
}
