/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "src/transport/rdma/rdma.h"

/* Who got no CPU for long looks in between. */
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

void rdma_path_set_timer(struct rdma_path *p, uint64_t wait_ns)
{
	sl_timer_set(rdma_poller(p->c->t), &p->timer, sl_clock_ns() + wait_ns);
}

/* ---- its share ---- */

static void weigh_all(struct rdma_conn *c)
{
	uint64_t max_rate = 0;

	for (unsigned i = 0; i < c->n_paths; i++) {
		const struct rdma_path *p = &c->paths[i];

		if (p->usable && p->share.rate > max_rate)
			max_rate = p->share.rate;
	}
	for (unsigned i = 0; i < c->n_paths; i++)
		c->paths[i].weight = rdma_share_weight(&c->paths[i].share, max_rate);
}

void rdma_path_took(struct rdma_path *p, uint64_t n_bytes)
{
	p->c->moved_ns = sl_clock_ns();
	rdma_share_begin(&p->share, n_bytes, p->c->moved_ns);
}

void rdma_path_measure(struct rdma_path *p, uint64_t n_bytes)
{
	uint64_t rate = p->share.rate;

	p->c->moved_ns = sl_clock_ns();
	rdma_share_end(&p->share, n_bytes, p->c->moved_ns);
	if (p->share.rate != rate)
		weigh_all(p->c);
}

uint64_t rdma_path_part(const struct rdma_path *p, uint64_t all_bytes)
{
	const struct rdma_conn *c = p->c;
	uint64_t sum = 0;

	for (unsigned i = 0; i < c->n_paths; i++)
		sum += c->paths[i].usable ? c->paths[i].weight : 0;
	/* Without the product, which need not fit. */
	return sum ? all_bytes / sum * p->weight + all_bytes % sum * p->weight / sum : all_bytes;
}

/* Others are measured with what they carry anyhow. */
bool rdma_path_is_due(const struct rdma_path *p)
{
	return p->weight < RDMA_SHARE_WHOLE / 2 && rdma_share_is_stale(&p->share, p->c->moved_ns);
}

/* ---- found broken ---- */

bool rdma_path_has_failed_cq(const struct rdma_path *p)
{
	for (unsigned i = 0; i < p->n_qps; i++) {
		if (atomic_load(&atomic_load(&p->qps[i]->cq)->failed))
			return true;
	}
	return false;
}

/* One that is in use, the next of them; or else one that has only its probe to wait for, or for the
 * peer's word that it has risen: the peer may use it already, and its word be lost with p. */
static struct rdma_path *another(struct rdma_path *p)
{
	struct rdma_conn *c = p->c;
	struct rdma_path *soon = NULL, *later = NULL;

	for (unsigned i = 1; i < c->n_paths; i++) {
		struct rdma_path *other = &c->paths[(p->index + i) % c->n_paths];

		if (other->usable)
			return other;
		if (other->state == RDMA_PATH_PROVING && !other->failed)
			soon = other;
		if (other->state == RDMA_PATH_RISEN && !other->failed)
			later = other;
	}
	return soon ? soon : later;
}

/* Whether one that the peer may use already is about to rise here, which is a worker's: it cannot
 * take over before. */
static bool is_rising_beside(const struct rdma_path *p)
{
	const struct rdma_conn *c = p->c;

	for (unsigned i = 0; i < c->n_paths; i++) {
		if (i != p->index && c->paths[i].state == RDMA_PATH_RISING && !c->paths[i].failed)
			return true;
	}
	return false;
}

/* NULL: messages wait until one has risen. */
static void lead_over(struct rdma_conn *c, struct rdma_path *other)
{
	c->n_held -= c->leaderless;
	c->leaderless = !other;
	c->n_held += c->leaderless;
	if (!other)
		return;
	c->lead = other->qps[0];
	other->led = true;
}

void rdma_path_take_over(struct rdma_path *p)
{
	if (!p->c->leaderless)
		return;
	lead_over(p->c, p);
	rdma_msg_pump(p->c);
}

bool rdma_path_leave(struct rdma_path *p, const char *why)
{
	struct rdma_conn *c = p->c;
	struct rdma_path *other = another(p);

	if (p->failed)
		return true;
	if ((!other && !is_rising_beside(p)) || rdma_state(c) != RDMA_CONN_UP ||
	    atomic_load(&c->ending))
		return false;
	p->failed = true;
	p->n_failed++;
	p->usable = false;
	snprintf(p->error, sizeof(p->error), "%s", why);
	c->n_held += p->led;
	if (c->lead->path == p)
		lead_over(c, other);
	weigh_all(c);
	rdma_conn_call(c);
	return true;
}

void rdma_path_fail_locked(struct rdma_path *p, int cause, const char *why)
{
	if (rdma_state(p->c) < RDMA_CONN_UP && !atomic_load(&p->c->ending)) {
		/* Its queue pairs may be up, and take what their peer does not send twice. */
		p->spent = true;
		rdma_conn_lose_locked(p, cause, why);
	} else if (!rdma_path_leave(p, why)) {
		rdma_conn_fail_locked(p->c, cause, why);
	}
}

/* Whether another is in use: one that is not proved may turn out to pass nothing. */
static bool is_spare(const struct rdma_path *p)
{
	for (unsigned i = 0; i < p->c->n_paths; i++) {
		if (i != p->index && p->c->paths[i].usable)
			return true;
	}
	return false;
}

void rdma_path_port_down(struct rdma_path *p, const char *why)
{
	sl_lock(&p->c->lock);
	if (p->state != RDMA_PATH_DOWN && !p->failed) {
		p->port_is_down = !is_spare(p) || !rdma_path_leave(p, why);
		p->port_was_down = true;
	}
	sl_unlock(&p->c->lock);
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

static void stopped(struct rdma_path *p)
{
	struct rdma_conn *c = p->c;
	const struct rdma_qp *q = p->qps[0];
	struct rdma_told_end *end = &p->ends[p->life % 2];

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
static void look_whether_closed(struct rdma_path *p)
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
		look_whether_closed(p);
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

/* ---- told and heard ---- */

void rdma_path_tell(struct rdma_path *p, uint64_t life)
{
	struct rdma_told_end *end = &p->ends[life % 2];

	/* The peer is further on. */
	if (end->life != life)
		return;
	p->c->n_tell += !end->tell;
	end->tell = true;
}

/* The earlier one first. */
static struct rdma_told_end *next_end(struct rdma_path *p)
{
	struct rdma_told_end *even = &p->ends[0], *odd = &p->ends[1];

	if (even->tell && odd->tell)
		return even->life < odd->life ? even : odd;
	return even->tell ? even : odd->tell ? odd : NULL;
}

bool rdma_path_next_told(struct rdma_conn *c, struct sl_msg *out)
{
	for (unsigned i = 0; i < c->n_paths && c->n_tell; i++) {
		struct rdma_told_end *end = next_end(&c->paths[i]);

		if (!end)
			continue;
		end->tell = false;
		c->n_tell--;
		*out = (struct sl_msg){ .kind = RDMA_STOPPED,
					.slot = (uint16_t)i,
					.w = { end->life, end->count } };
		return true;
	}
	return false;
}

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

void rdma_path_probed(struct rdma_path *p)
{
	if (p->n_probes && !--p->n_probes)
		rdma_conn_call(p->c);
}

/* ---- rounds ---- */

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
		look_whether_closed(p);
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
