/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rail is found broken. Of a connection that is up it is left for another one, or the connection
 * fails; of one that is not up it is tried again, while there is hope.
 */
#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "src/core/lock.h"
#include "src/transport/rdma/conn.h"
#include "src/transport/rdma/cq.h"
#include "src/transport/rdma/nic.h"
#include "src/transport/rdma/offer.h"
#include "src/transport/rdma/path.h"
#include "src/transport/rdma/qp.h"
#include "src/transport/rdma/transport.h"
#include "src/transport/rdma/wire.h"

/* Between a try that failed and the next. */
#define REST_MIN_NS SL_NS_PER_MS
#define REST_MAX_NS (50 * SL_NS_PER_MS)

bool rdma_path_has_failed_cq(const struct rdma_path *p)
{
	for (unsigned i = 0; i < p->n_qps; i++) {
		if (atomic_load(&atomic_load(&p->qps[i]->cq)->failed))
			return true;
	}
	return false;
}

/* ---- before the connection is up ---- */

bool rdma_path_may_stand(const struct rdma_path *p)
{
	return !p->spent && !atomic_load(&p->rail->nic->dead) && !rdma_path_has_failed_cq(p);
}

bool rdma_conn_is_hopeless(const struct rdma_conn *c)
{
	for (unsigned i = 0; i < c->n_paths; i++) {
		const struct rdma_path *p = &c->paths[i];

		if (rdma_path_stands(p) || p->state == RDMA_PATH_RAISING || rdma_path_may_stand(p))
			return false;
	}
	return true;
}

/*
 * The attempts of both ends succeed when they overlap. A rest is at most half an attempt, so that
 * they must overlap. Rests are random, so that two ends do not fail in lockstep.
 */
static uint64_t rest_ns(struct rdma_conn *c, uint64_t try_ns)
{
	uint64_t half = try_ns / 4;

	if (half < REST_MIN_NS / 2)
		half = REST_MIN_NS / 2;
	if (half > REST_MAX_NS / 2)
		half = REST_MAX_NS / 2;
	c->rest_seed = c->rest_seed * UINT32_C(1664525) + UINT32_C(1013904223);
	return half + half * (c->rest_seed >> 16) / UINT16_MAX;
}

void rdma_conn_rest(struct rdma_conn *c, uint64_t try_ns)
{
	atomic_store_explicit(&c->state, RDMA_CONN_RESTING, memory_order_release);
	sl_timer_set(rdma_poller(c->t), &c->again, sl_clock_ns() + rest_ns(c, try_ns));
}

void rdma_conn_lose_locked(struct rdma_path *p, int cause, const char *why)
{
	struct rdma_conn *c = p->c;

	snprintf(p->lost_why, sizeof(p->lost_why), "%.127s", why);
	p->state = rdma_path_is_being_raised(p) ? RDMA_PATH_SPOILED : RDMA_PATH_FALLEN;
	if (c->heard == p)
		c->heard = NULL;
	if (rdma_conn_is_hopeless(c))
		rdma_conn_fail_locked(c, cause, why);
	else if (rdma_state(c) != RDMA_CONN_GREETING || p != c->lead->path)
		return;
	else if (c->is_raising)
		atomic_store_explicit(&c->state, RDMA_CONN_BRINGING_UP, memory_order_release);
	else
		rdma_conn_rest(c, sl_clock_ns() - c->greeted_ns);
}

/* ---- when it is up ---- */

/* The next path that is in use; else one that only awaits its probe; else one that only awaits the
 * peer's message that it has risen: the peer may use it already, and its message may be lost with
 * p. */
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

void rdma_path_lead_over(struct rdma_conn *c, struct rdma_path *other)
{
	c->n_held -= c->leaderless;
	c->leaderless = !other;
	c->n_held += c->leaderless;
	if (!other)
		return;
	c->lead = other->qps[0];
	other->led = true;
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
		rdma_path_lead_over(c, other);
	rdma_path_weigh(c);
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

/* ---- its port ---- */

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

void rdma_path_port_changed(struct rdma_path *p)
{
	if (p->state == RDMA_PATH_DOWN && !atomic_load(&p->c->ending))
		rdma_path_set_timer(p, 0);
}

void rdma_path_port_up(struct rdma_path *p)
{
	sl_lock(&p->c->lock);
	p->port_is_down = false;
	sl_unlock(&p->c->lock);
	rdma_path_port_changed(p);
}

void rdma_path_leave_ports_that_are_down(struct rdma_conn *c)
{
	for (unsigned i = 0; i < c->n_paths; i++) {
		struct rdma_path *p = &c->paths[i];

		if (p->port_is_down)
			p->port_is_down = !rdma_path_leave(p, "its port went down before");
	}
}

/* ---- what follows from it ---- */

void rdma_path_set_timer(struct rdma_path *p, uint64_t wait_ns)
{
	sl_timer_set(rdma_poller(p->c->t), &p->timer, sl_clock_ns() + wait_ns);
}

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

void rdma_path_probed(struct rdma_path *p)
{
	if (p->n_probes && !--p->n_probes)
		rdma_conn_call(p->c);
}
