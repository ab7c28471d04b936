/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "src/transport/auth.h"
#include "src/transport/shm/shm.h"

static struct shm_conn *conn_of(struct sl_conn *conn)
{
	return (struct shm_conn *)conn;
}

/* ---- the end ---- */

static void conn_close(struct sl_conn *conn, int cause, const char *why)
{
	shm_conn_end(conn_of(conn), cause, why);
}

/*
 * Tell the peer, or hang up. Regions of ours that the peer has mapped stay fenced until it unmaps
 * them: then a retained mapping watches the peer.
 */
static void part_from_peer(struct shm_conn *c, bool in_order, bool was_ready)
{
	struct shm_packet bye = {
		.kind = c->said_bye ? SHM_BYE_DONE
			: in_order  ? SHM_BYE
				    : SHM_ENDED,
	};
	bool fenced = c->pid_source.fd >= 0 && shm_given_any(&c->given);

	/* It sees us hang up if there is no room for this. What it says is heard still. */
	if (c->sock.fd >= 0 && (in_order || was_ready) && shm_channel_send(c->sock.fd, &bye))
		(void)shutdown(c->sock.fd, SHUT_WR);
	if (fenced) {
		shm_given_ask(&c->given);
		shm_retained_begin(c->retained, &c->sock, &c->pid_source, &c->given);
		c->retained = NULL;
	}
	sl_poller_close(shm_poller(c), &c->sock);
	sl_poller_close(shm_poller(c), &c->pid_source);
	shm_given_free(&c->given);
}

/* [token]. From the ring comes what the peer posted before it left: a ring's worth at most, as one
 * that still writes would keep us here. */
static void end_now(struct shm_conn *c)
{
	const struct sl_conn_events *events = c->base.events;
	bool was_ready = atomic_load(&c->state) == SHM_CONN_READY;
	int cause = c->end_cause;
	bool peer_closed = c->said_bye;
	char why[sizeof(c->end_why)];

	if (was_ready && (peer_closed || cause == -ECONNRESET))
		(void)shm_ring_drain(c, SL_RING_ENTRIES);
	shm_ring_expect_nothing(c);
	atomic_store(&c->state, SHM_CONN_ENDED);
	if (c->own)
		atomic_store(&c->own->ended, 1);
	while (atomic_load(&c->n_busy))
		sched_yield();
	memcpy(why, c->end_why, sizeof(why));
	shm_work_flush(c, cause ? cause : peer_closed ? -ECONNRESET : -ECANCELED);
	shm_map_drop_all(c);
	sl_timer_cancel(shm_poller(c), &c->deadline);
	sl_timer_cancel(shm_poller(c), &c->again);
	if (c->greeting) {
		sl_greeting_cancel(c->greeting);
		c->greeting = NULL;
	}
	part_from_peer(c, cause == 0, was_ready);
	sl_list_remove(&c->link);
	sl_list_remove(&c->copying);
	shm_turn_leave(c);
	events->broken(c->base.owner, cause, why);
}

/* The segment, the page and what regions were mapped are not there. */
static void conn_forget(struct sl_conn *conn)
{
	struct shm_conn *c = conn_of(conn);

	sl_auth_wipe(c->attr.key, sizeof(c->attr.key));
	sl_greeting_forget(c->greeting);
	shm_given_free(&c->given);
	shm_peer_forget(c->context);
	shm_retained_forget(c->retained);
	shm_map_free(c);
	free(c);
}

static void conn_destroy(struct sl_conn *conn)
{
	struct shm_conn *c = conn_of(conn);

	sl_auth_wipe(c->attr.key, sizeof(c->attr.key));
	sl_todo_forget(&c->t->todo, &c->todo);
	shm_segment_unmap(c->segment);
	shm_peer_put(c->context);
	shm_map_free(c);
	shm_retained_destroy(c->retained);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

/* ---- passes ---- */

/* Whether the next pass has to look at it, though nothing comes. */
static bool is_busy(const struct shm_conn *c)
{
	return !sl_list_empty(&c->leaving) || !sl_list_empty(&c->cold) ||
	       (!shm_turn_is_active(c) && shm_conn_has_message(c));
}

unsigned shm_conn_progress(struct shm_conn *c)
{
	unsigned n = 0;

	if (atomic_load_explicit(&c->state, memory_order_relaxed) == SHM_CONN_READY) {
		n += shm_ring_take(c);
		if (!sl_list_empty(&c->leaving))
			n += shm_map_progress(c);
		if (!n && !shm_work_any(c) && !sl_list_empty(&c->cold))
			n += shm_map_warm(c);
		if (shm_work_any(c) && sl_list_empty(&c->copying))
			sl_list_append(&c->t->copying, &c->copying);
		if (is_busy(c))
			shm_conn_call(c);
	}
	if (atomic_load_explicit(&c->end_wanted, memory_order_acquire) &&
	    atomic_load_explicit(&c->state, memory_order_relaxed) != SHM_CONN_ENDED) {
		end_now(c);
		n++;
	}
	return n;
}

static uint8_t *conn_slot(struct sl_conn *conn, enum sl_area area, unsigned slot)
{
	struct shm_conn *c = conn_of(conn);

	return atomic_load_explicit(&c->state, memory_order_relaxed) == SHM_CONN_READY
		       ? c->own->slots + sl_slot_offset(area, slot)
		       : NULL;
}

static void conn_take_imm(struct sl_conn *conn, uint64_t taken)
{
	struct shm_conn *c = conn_of(conn);
	uint64_t seen = atomic_load_explicit(&c->imm_taken, memory_order_relaxed);
	uint64_t told;

	/* Takers may come in any order; the count only grows. It is ours, as the peer can write to
	 * the one it reads. */
	while (seen < taken && !atomic_compare_exchange_weak(&c->imm_taken, &seen, taken))
		;
	do {
		told = atomic_load(&c->imm_taken);
		atomic_store(&c->own->imm_taken, told);
	} while (atomic_load(&c->imm_taken) != told);
}

static void conn_address(struct sl_conn *conn, char *out, size_t cap)
{
	snprintf(out, cap, "pid %d", (int)conn_of(conn)->pid);
}

static const struct sl_conn_ops conn_ops = {
	.submit = shm_work_submit,
	.slot = conn_slot,
	.post = shm_ring_post,
	.take_imm = conn_take_imm,
	.close = conn_close,
	.destroy = conn_destroy,
	.forget = conn_forget,
	.view = shm_map_view,
	.is_stale = shm_map_is_stale,
	.address = conn_address,
};

/* ---- packets ---- */

/* Of a connection that is up. */
static int on_packet_when_ready(struct shm_conn *c, struct shm_packet *p)
{
	/* A bell is for the ring, the others may leave work. */
	shm_conn_call(c);
	switch (p->kind) {
	case SHM_BELL:
		/* Before the next look at the ring: what comes behind that is rung for again. */
		atomic_store(&c->own->n_heard, ++c->n_heard);
		atomic_thread_fence(memory_order_seq_cst);
		return 0;
	case SHM_MAP:
		shm_given_answer(c, p);
		return 0;
	case SHM_MAPPED:
		return shm_map_answered(c, p) ? 0 : -EPROTO;
	case SHM_WITHDRAW:
		shm_map_withdrawn(c, p);
		return 0;
	case SHM_WITHDRAWN:
		shm_given_clear(&c->given, p->id, p->a);
		return 0;
	default:
		return -EPROTO;
	}
}

static int on_packet(struct shm_conn *c, struct shm_packet *p)
{
	/* A region that cannot be mapped is its ops' matter. */
	if (p->fds_lost && p->kind != SHM_MAPPED)
		return -EMFILE;
	switch (p->kind) {
	case SHM_SEGMENT:
	case SHM_ACCEPT:
	case SHM_READY:
		return shm_handshake_packet(c, p);
	case SHM_BYE:
		/* It unmapped everything of ours before it said so. */
		c->said_bye = true;
		shm_given_free(&c->given);
		shm_conn_end(c, 0, "closed by the peer");
		return 0;
	case SHM_ENDED:
		shm_given_free(&c->given);
		shm_conn_end(c, -ECONNRESET, "the peer ended the link");
		return 0;
	default:
		return atomic_load(&c->state) == SHM_CONN_READY ? on_packet_when_ready(c, p)
								: -EPROTO;
	}
}

/* A packet was not what may come now, or what it asked for cannot be had. */
static void end_for_packet(struct shm_conn *c, int cause)
{
	char why[96];

	if (cause == -EPROTONOSUPPORT) {
		shm_conn_end(c, -EPROTO, "the peer speaks another version of the shm protocol");
		return;
	}
	if (c->step)
		snprintf(why, sizeof(why), "while waiting for %s: %s", c->step, strerror(-cause));
	else
		snprintf(why, sizeof(why), "the peer broke the protocol: a packet: %s",
			 strerror(-cause));
	shm_conn_end(c, cause, why);
}

static void on_sock(struct sl_source *s, uint32_t events)
{
	struct shm_conn *c = SL_CONTAINER_OF(s, struct shm_conn, sock);

	(void)events;
	for (int i = 0; i < SHM_PACKETS_PER_CALL && c->sock.fd >= 0 && !atomic_load(&c->end_wanted);
	     i++) {
		struct shm_packet p;
		int ret = shm_channel_recv(c->sock.fd, &p);

		if (ret == -EAGAIN)
			return;
		if (ret == -ECONNRESET) {
			shm_conn_end(c, -ECONNRESET, "the peer hung up");
			return;
		}
		if (!ret) {
			/* A peer that rings may not answer. */
			if (p.kind != SHM_BELL)
				shm_given_hear(&c->given);
			ret = on_packet(c, &p);
			shm_packet_close_fds(&p);
			/* Mostly nothing follows; what does makes the socket readable. */
			if (!ret && p.kind == SHM_BELL)
				return;
		}
		if (ret)
			end_for_packet(c, ret);
	}
}

static void on_pid(struct sl_source *s, uint32_t events)
{
	struct shm_conn *c = SL_CONTAINER_OF(s, struct shm_conn, pid_source);

	(void)events;
	/* No peer can reach our memory through it any more. */
	shm_given_free(&c->given);
	shm_conn_end(c, -ECONNRESET, "the peer's process died");
}

static void on_deadline(struct sl_timer *t)
{
	struct shm_conn *c = SL_CONTAINER_OF(t, struct shm_conn, deadline);
	char why[96];

	snprintf(why, sizeof(why), "timed out waiting for %s", c->step);
	shm_conn_end(c, -ETIMEDOUT, why);
}

/* ---- life ---- */

static int init_conn(struct shm_conn *c, struct shm_transport *t, const struct sl_conn_attr *attr)
{
	if (attr->candidate_len == 0 || attr->candidate_len > sizeof(c->candidate))
		return -EINVAL;
	c->base = (struct sl_conn){
		.ops = &conn_ops,
		.events = attr->events,
		.owner = attr->owner,
		.name = attr->name,
		.self = attr->self,
		.peer = attr->peer,
		.polls_disturb = true,
		.n_stale = 1,
		.no_foreign = "the link is not up",
	};
	c->t = t;
	c->attr = *attr;
	c->initiator = attr->initiator;
	memcpy(c->candidate, attr->candidate, attr->candidate_len);
	c->attr.candidate = c->candidate;
	c->sock = (struct sl_source){ .fn = on_sock, .fd = -1 };
	c->pid_source = (struct sl_source){ .fn = on_pid, .fd = -1 };
	c->step = "the peer to come";
	sl_list_init(&c->link);
	sl_list_init(&c->turn);
	sl_todo_entry_init(&c->todo);
	sl_list_init(&c->works);
	sl_list_init(&c->copying);
	sl_list_init(&c->leaving);
	sl_list_init(&c->cold);
	sl_timer_init(&c->deadline, on_deadline);
	sl_timer_init(&c->again, shm_handshake_again);
	c->maps = calloc(SHM_REGIONS_MAX, sizeof(*c->maps));
	return c->maps ? shm_retained_create(t, &c->retained) : -ENOMEM;
}

int shm_conn_create(struct sl_transport *base, const struct sl_conn_attr *attr,
		    struct sl_conn **out)
{
	struct shm_transport *t = (struct shm_transport *)base;
	struct shm_conn *c = calloc(1, sizeof(*c));
	int ret;

	if (!c)
		return -ENOMEM;
	ret = init_conn(c, t, attr);
	if (!ret && c->initiator) {
		ret = shm_handshake_dial(c);
		if (ret && attr->why)
			snprintf(attr->why->text, sizeof(attr->why->text), "%s",
				 shm_handshake_error(ret));
	}
	if (ret) {
		sl_auth_wipe(c->attr.key, sizeof(c->attr.key));
		sl_todo_forget(&t->todo, &c->todo);
		shm_retained_destroy(c->retained);
		free(c->maps);
		free(c);
		return ret;
	}
	pthread_mutex_init(&c->lock, NULL);
	sl_list_append(&t->conns, &c->link);
	shm_turn_join(c);
	sl_timer_set(base->env->poller, &c->deadline, attr->deadline_ns);
	*out = &c->base;
	return 0;
}
