/* SPDX-License-Identifier: Apache-2.0 */
/* How a connection comes up: its rails are brought up, and the ends greet each other over one. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/wire.h"
#include "src/core/lock.h"
#include "src/transport/rdma/conn.h"
#include "src/transport/rdma/job.h"
#include "src/transport/rdma/msg.h"
#include "src/transport/rdma/nic.h"
#include "src/transport/rdma/offer.h"
#include "src/transport/rdma/path.h"
#include "src/transport/rdma/qp.h"
#include "src/transport/rdma/transport.h"
#include "src/transport/rdma/wire.h"

/* A rail has its turn for so long, where the time would last for longer ones. */
#define TURN_MAX_NS (10 * SL_NS_PER_S)
/* As of a try of so long: a connection rests until former ones with its peer are drained. */
#define LOOK_NS (10 * SL_NS_PER_MS)

static void raise_path(struct rdma_path *p)
{
	p->job_status = 0;
	for (unsigned i = 0; i < p->n_qps; i++) {
		/* A path that is not there is looked for once, which may take long. */
		if (p->job_status)
			(void)rdma_qp_reset(p->qps[i]);
		else
			p->job_status = rdma_qp_bring_up(
				p->qps[i], p->rail, &p->c->peer.rails[p->peer_rail], &p->job_step);
	}
}

static void work_bring_up(struct rdma_job *job)
{
	struct rdma_conn *c = SL_CONTAINER_OF(job, struct rdma_conn, job);
	bool first[RDMA_RAILS_MAX], later[RDMA_RAILS_MAX];

	/* While a path is looked for that was not there before, the others hear the peer. */
	sl_lock(&c->lock);
	for (unsigned i = 0; i < c->n_paths; i++) {
		bool is_meant = rdma_path_is_being_raised(&c->paths[i]);

		first[i] = is_meant && !c->paths[i].job_status;
		later[i] = is_meant && !first[i];
	}
	sl_unlock(&c->lock);
	for (unsigned i = 0; i < c->n_paths; i++) {
		if (first[i])
			raise_path(&c->paths[i]);
	}
	for (unsigned i = 0; i < c->n_paths; i++) {
		if (later[i])
			raise_path(&c->paths[i]);
	}
}

static void done_bring_up(struct rdma_job *job);

static void bring_up(struct rdma_conn *c)
{
	sl_lock(&c->lock);
	for (unsigned i = 0; i < c->n_paths; i++) {
		struct rdma_path *p = &c->paths[i];

		/* Queue pairs that are up receive from the peer during all tries: none of its
		 * packets is lost. */
		if (p->state != RDMA_PATH_FALLEN || !rdma_path_may_stand(p))
			continue;
		p->state = RDMA_PATH_RAISING;
		p->busy = true;
		/* Late reports of the former try meet no worker at its queue pairs. */
		for (unsigned k = 0; k < p->n_qps; k++)
			rdma_qp_disown(p->qps[k]);
	}
	atomic_store_explicit(&c->state, RDMA_CONN_BRINGING_UP, memory_order_release);
	sl_unlock(&c->lock);
	c->is_raising = true;
	rdma_job_start(c->t, &c->job, work_bring_up, done_bring_up);
}

static void begin_again_later(struct rdma_conn *c, uint64_t try_ns)
{
	sl_lock(&c->lock);
	rdma_conn_rest(c, try_ns);
	sl_unlock(&c->lock);
}

static bool meets(const struct rdma_candidate *a, const struct rdma_candidate *b)
{
	for (unsigned i = 0; i < a->n_rails; i++) {
		for (unsigned k = 0; k < b->n_rails; k++) {
			if (!memcmp(a->rails[i].gid, b->rails[k].gid, sizeof(a->rails[i].gid)))
				return true;
		}
	}
	return false;
}

/*
 * Late packets of a former link must not land after those of this one. A restarted peer is another
 * process at the same port, and one whose port went down is the same at another.
 */
static bool has_predecessor(const struct rdma_conn *c)
{
	struct sl_list *e;

	/* Those that began before it. */
	for (e = c->t->conns.next; e != &c->link; e = e->next) {
		const struct rdma_conn *other = SL_CONTAINER_OF(e, struct rdma_conn, link);

		if (atomic_load(&other->ending) && rdma_state(other) >= RDMA_CONN_UP &&
		    (other->conn.peer.context == c->conn.peer.context ||
		     meets(&other->peer, &c->peer)))
			return true;
	}
	return false;
}

static void bring_up_alone(struct rdma_conn *c)
{
	if (has_predecessor(c)) {
		c->held_up = "a former link with the peer is not drained";
		begin_again_later(c, LOOK_NS);
	} else {
		c->held_up = NULL;
		bring_up(c);
	}
}

/* Those that do not stand are as if they had failed since: the peer is told, and they may come
 * back. And so are those over which a READY went in vain, or only its acknowledgement was lost: we
 * do not know which packet the peer takes next. Under lock. */
static void begin_path(struct rdma_path *p)
{
	bool is_whole = rdma_path_stands(p) && (p == p->c->lead->path || !p->greeted);

	/* A worker may still be at it. */
	if (!rdma_path_is_being_raised(p))
		p->state = RDMA_PATH_UP;
	if (!is_whole)
		(void)rdma_path_leave(p, *p->lost_why ? p->lost_why
						      : "it was not up when the link was");
}

static struct sl_msg ready_frame(const struct rdma_conn *c)
{
	struct sl_msg m = { .kind = RDMA_READY };

	for (unsigned i = 0; i < SL_AUTH_MAC_LEN / 8; i++)
		m.w[i] = sl_get_le64(c->proof + 8 * (size_t)i);
	return m;
}

/*
 * The peer greets over another rail than the one over which ours was acknowledged: a device that
 * took our greeting there may have lost it since, with its completion queue. It is sent over this
 * one, too; a peer that has it ignores it.
 */
static void greet_there_too(struct rdma_path *p)
{
	const struct sl_msg m = ready_frame(p->c);

	sl_lock(&p->c->lock);
	/* First of all messages there: the peer's count tells whether it was taken. */
	if (p->usable && !p->greeted && !p->led && rdma_qp_message_room(p->qps[0])) {
		p->greeted = true;
		rdma_msg_put_over(p->qps[0], &m);
	}
	sl_unlock(&p->c->lock);
}

static void come_up(struct rdma_conn *c)
{
	sl_timer_cancel(rdma_poller(c->t), &c->timer);
	sl_timer_cancel(rdma_poller(c->t), &c->again);
	for (unsigned i = 0; i < c->n_paths; i++)
		c->paths[i].up_ns = sl_clock_ns();
	sl_lock(&c->lock);
	atomic_store_explicit(&c->state, RDMA_CONN_UP, memory_order_release);
	c->lead = c->heard->qps[0];
	c->heard->led = true;
	for (unsigned i = 0; i < c->n_paths; i++)
		begin_path(&c->paths[i]);
	rdma_path_leave_ports_that_are_down(c);
	sl_unlock(&c->lock);
	greet_there_too(c->proven);
	c->conn.events->ready(c->conn.owner);
	c->on_up(c);
}

/* Each rail has its share of the time: a lost packet may never be reported. */
static uint64_t turn_ns(const struct rdma_conn *c)
{
	uint64_t part_ns = (c->deadline_ns - c->begun_ns) / c->n_paths + 1;

	return part_ns < TURN_MAX_NS ? part_ns : TURN_MAX_NS;
}

static uint64_t n_turns(const struct rdma_conn *c)
{
	return (sl_clock_ns() - c->begun_ns) / turn_ns(c);
}

static void await_end_of_turn(struct rdma_conn *c)
{
	if (c->n_paths > 1)
		sl_timer_set(rdma_poller(c->t), &c->again,
			     c->begun_ns + (n_turns(c) + 1) * turn_ns(c));
}

/* The rail to greet over, of those that stand, NULL: none does. The peer's READY came over one that
 * it can send over; unless that was tried in vain, as others are. */
static struct rdma_path *choose_lead(struct rdma_conn *c)
{
	struct rdma_path *second = NULL;
	unsigned turn = (unsigned)(n_turns(c) % c->n_paths);

	if (c->heard)
		return c->heard;
	if (c->proven && rdma_path_stands(c->proven) && c->proven != c->lead->path)
		return c->proven;
	for (unsigned i = 0; i < c->n_paths; i++) {
		struct rdma_path *p = &c->paths[(turn + i) % c->n_paths];

		if (rdma_path_stands(p) && !p->port_is_down)
			return p;
		if (rdma_path_stands(p) && !second)
			second = p;
	}
	return second;
}

/* Our word that we are ready, as the first frame; where it is under way it is not said twice. */
static void greet(struct rdma_conn *c, struct rdma_path *p)
{
	const struct sl_msg m = ready_frame(c);

	c->greeted_ns = sl_clock_ns();
	await_end_of_turn(c);
	sl_lock(&c->lock);
	c->lead = p->qps[0];
	atomic_store_explicit(&c->state, RDMA_CONN_GREETING, memory_order_release);
	if (p->state == RDMA_PATH_STANDING) {
		p->state = RDMA_PATH_GREETING;
		p->greeted = true;
		rdma_msg_put(c, &m);
	}
	sl_unlock(&c->lock);
}

/* A packet that a device repeats for ever does not fail. It may still arrive: its rail is left as
 * it is. */
static void end_turn(struct rdma_conn *c)
{
	if (c->heard)
		await_end_of_turn(c);
	else
		bring_up(c);
}

void rdma_conn_on_again(struct sl_timer *timer)
{
	struct rdma_conn *c = SL_CONTAINER_OF(timer, struct rdma_conn, again);
	uint32_t state = rdma_state(c);

	if (atomic_load(&c->ending))
		return;
	if (state == RDMA_CONN_RESTING)
		bring_up_alone(c);
	else if (state == RDMA_CONN_GREETING)
		end_turn(c);
}

static void come_up_if_ready(struct rdma_conn *c)
{
	if (c->proven && c->heard && rdma_state(c) < RDMA_CONN_UP && !atomic_load(&c->ending))
		come_up(c);
}

void rdma_conn_heard(struct rdma_conn *c, struct rdma_path *p)
{
	if (rdma_state(c) >= RDMA_CONN_UP || !rdma_path_stands(p))
		return;
	c->heard = p;
	come_up_if_ready(c);
}

static void fail_if_hopeless(struct rdma_conn *c, const char *why)
{
	sl_lock(&c->lock);
	if (rdma_conn_is_hopeless(c))
		rdma_conn_fail_locked(c, -ECONNRESET, why);
	sl_unlock(&c->lock);
}

/* NULL: none stands. */
static struct rdma_path *where_to_answer(struct rdma_conn *c, struct rdma_path *p)
{
	if (p->state == RDMA_PATH_GREETING)
		return p;
	if (rdma_state(c) == RDMA_CONN_GREETING)
		return c->lead->path;
	return rdma_path_stands(p) ? p : choose_lead(c);
}

/* A peer that repeats its message has our READY, if its acknowledgement was lost: perhaps one of a
 * try before, so that we rest, or a worker is at the rails that do not stand. It goes once more
 * over one that does: over that, too, a READY may have arrived, and its packet is one which the
 * peer does not take again. */
void rdma_conn_spoken_to(struct rdma_conn *c, struct rdma_path *p)
{
	struct rdma_path *answer;

	if (!c->proven || atomic_load(&c->ending))
		return;
	answer = where_to_answer(c, p);
	if (answer) {
		greet(c, answer);
		rdma_conn_heard(c, answer);
	}
	if (rdma_state(c) == RDMA_CONN_UP)
		return;
	p->spent = true;
	fail_if_hopeless(c, "the peer was up before a try that began again");
}

/* Of a connection that came up meanwhile it was left without being up. */
static enum rdma_path_state state_after_raising(const struct rdma_path *p)
{
	if (rdma_state(p->c) >= RDMA_CONN_UP)
		return RDMA_PATH_UP;
	return p->state == RDMA_PATH_RAISING && !p->job_status ? RDMA_PATH_STANDING
							       : RDMA_PATH_FALLEN;
}

/* It was not raised. With a device that has one try, what that failed with is why. */
static void note_why(struct rdma_path *p)
{
	if (p->job_status == -ENOTRECOVERABLE)
		p->spent = true;
	else
		snprintf(p->lost_why, sizeof(p->lost_why), "%s: %s", p->job_step,
			 strerror(-p->job_status));
}

static void note_raised(struct rdma_conn *c)
{
	sl_lock(&c->lock);
	for (unsigned i = 0; i < c->n_paths; i++) {
		struct rdma_path *p = &c->paths[i];

		if (!rdma_path_is_being_raised(p))
			continue;
		p->state = state_after_raising(p);
		p->busy = false;
		if (p->job_status)
			note_why(p);
	}
	sl_unlock(&c->lock);
}

static void done_bring_up(struct rdma_job *job)
{
	struct rdma_conn *c = SL_CONTAINER_OF(job, struct rdma_conn, job);
	struct rdma_path *lead;

	c->is_raising = false;
	note_raised(c);
	/* Up meanwhile: what was left without them goes on. */
	if (rdma_state(c) != RDMA_CONN_BRINGING_UP) {
		rdma_conn_call(c);
		return;
	}
	lead = choose_lead(c);
	if (atomic_load(&c->ending)) {
		/* Where its end goes on. */
		rdma_conn_set_state(c, RDMA_CONN_GREETING);
		rdma_conn_call(c);
	} else if (!lead) {
		begin_again_later(c, UINT64_MAX); /* what is wrong here is not over at once */
		fail_if_hopeless(c, c->paths[0].lost_why);
	} else {
		greet(c, lead);
		/* A peer that has spoken to us has an earlier one. */
		if (c->n_early)
			rdma_conn_heard(c, lead);
	}
}

void rdma_conn_greeted(struct rdma_conn *c, struct rdma_qp *q, const struct sl_msg *m)
{
	uint8_t proof[SL_AUTH_MAC_LEN];
	uint32_t state = rdma_state(c);
	bool is_known;

	for (unsigned i = 0; i < SL_AUTH_MAC_LEN / 8; i++)
		sl_put_le64(proof + 8 * (size_t)i, m->w[i]);
	is_known = sl_auth_equal(proof, c->peer_proof);
	if (state == RDMA_CONN_UP && is_known)
		greet_there_too(q->path);
	/* Also that of a try that failed: it does not come again. */
	if (state != RDMA_CONN_BRINGING_UP && state != RDMA_CONN_GREETING &&
	    state != RDMA_CONN_RESTING)
		return;
	if (!is_known) {
		rdma_conn_fail(c, -EACCES, "the peer does not hold the link's key");
		return;
	}
	/* The peer does not say again what arrived in an earlier try. */
	q->n_heard = 1;
	c->proven = q->path;
	come_up_if_ready(c);
}

/* NULL: nothing was tried over it. */
static const char *why_not(const struct rdma_path *p)
{
	if (p == p->c->heard)
		return "the peer's greeting did not come";
	if (*p->lost_why)
		return p->lost_why;
	return p->state == RDMA_PATH_GREETING ? "our greeting is not answered" : NULL;
}

static void add_each(const struct rdma_conn *c, char *out, size_t cap)
{
	for (unsigned i = 0; i < c->n_paths; i++) {
		const char *why = why_not(&c->paths[i]);
		size_t used = strlen(out);

		if (why)
			snprintf(out + used, cap - used, "; rail %u: %s", i, why);
	}
}

void rdma_conn_give_up(struct rdma_conn *c)
{
	const char *why = c->held_up ? c->held_up : why_not(&c->paths[0]);
	char text[sizeof(c->end_why)];

	if (c->held_up || c->n_paths == 1) {
		snprintf(text, sizeof(text), "the peer did not come up in time%s%s",
			 why ? "; the last try: " : "", why ? why : "");
	} else {
		snprintf(text, sizeof(text), "not up in time");
		add_each(c, text, sizeof(text));
	}
	rdma_conn_fail(c, -ETIMEDOUT, text);
}

/* Failures since the offer was made, before there was a connection to report them to. */
static void check_rails(struct rdma_conn *c)
{
	sl_lock(&c->lock);
	for (unsigned i = 0; i < c->n_paths; i++) {
		struct rdma_path *p = &c->paths[i];

		p->port_is_down = p->rail->nic->port_is_down;
		if (atomic_load(&p->rail->nic->dead))
			rdma_conn_lose_locked(p, -EIO, "its device failed before");
		else if (rdma_path_has_failed_cq(p))
			rdma_conn_lose_locked(p, -EIO, "its completion queue failed before");
	}
	sl_unlock(&c->lock);
}

void rdma_conn_begin(struct rdma_conn *c)
{
	sl_list_append(&c->t->conns, &c->link);
	rdma_watch_start(c->t);
	c->begun_ns = sl_clock_ns();
	sl_timer_set(rdma_poller(c->t), &c->timer, c->deadline_ns);
	bring_up_alone(c);
	check_rails(c);
}
