/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/log.h"
#include "src/copy.h"
#include "src/transport/auth.h"
#include "src/transport/shm/shm.h"

/* Messages taken in one round, so that others get their turn. */
#define MESSAGES_PER_ROUND 64
/* How far ahead of the last one an entry is fetched to be written. */
#define ENTRIES_AHEAD 4

static struct shm_conn *conn_of(struct sl_conn *conn)
{
	return (struct shm_conn *)conn;
}

/* ---- the end ---- */

void shm_conn_end(struct shm_conn *c, int cause, const char *why)
{
	pthread_mutex_lock(&c->lock);
	if (!atomic_load(&c->end_wanted)) {
		c->end_cause = cause;
		snprintf(c->end_why, sizeof(c->end_why), "%s", why);
		atomic_store(&c->end_wanted, true);
	}
	pthread_mutex_unlock(&c->lock);
	c->t->base.env->kick(c->t->base.env->arg);
}

static void conn_close(struct sl_conn *conn, int cause, const char *why)
{
	shm_conn_end(conn_of(conn), cause, why);
}

/*
 * The peer is told, or sees us hang up. What it has of ours stays fenced until it let go of it:
 * then a ghost keeps listening.
 */
static void part_from_peer(struct shm_conn *c, bool in_order)
{
	struct shm_packet bye = { .kind = c->said_bye ? SHM_BYE_DONE : SHM_BYE };
	bool fenced = c->pid_source.fd >= 0 && !c->said_bye && shm_given_any(&c->given);

	/* It sees us hang up if there is no room for this. What it says is heard still. */
	if (c->sock.fd >= 0 && (in_order || c->said_bye) && shm_channel_send(c->sock.fd, &bye))
		(void)shutdown(c->sock.fd, SHUT_WR);
	/* Without order no packet is answered any more, but its exit is seen. */
	if (!fenced || !in_order)
		sl_poller_close(shm_poller(c), &c->sock);
	if (fenced) {
		shm_ghost_begin(c->ghost, &c->sock, &c->pid_source, &c->given);
		c->ghost = NULL;
	}
	sl_poller_close(shm_poller(c), &c->pid_source);
	shm_given_free(&c->given);
}

static unsigned drain_ring(struct shm_conn *c, unsigned max);
static void expect_nothing(const struct shm_conn *c);

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
		(void)drain_ring(c, SL_RING_ENTRIES);
	expect_nothing(c);
	atomic_store(&c->state, SHM_CONN_ENDED);
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
	part_from_peer(c, cause == 0);
	sl_list_remove(&c->link);
	sl_list_remove(&c->turn);
	events->broken(c->base.owner, cause, why);
}

/* The segment, the page and what regions were mapped are not there. */
static void conn_forget(struct sl_conn *conn)
{
	struct shm_conn *c = conn_of(conn);

	sl_auth_wipe(c->attr.key, sizeof(c->attr.key));
	sl_greeting_forget(c->greeting);
	shm_given_free(&c->given);
	shm_ghost_forget(c->ghost);
	shm_map_free(c);
	free(c);
}

static void conn_destroy(struct sl_conn *conn)
{
	struct shm_conn *c = conn_of(conn);

	sl_auth_wipe(c->attr.key, sizeof(c->attr.key));
	shm_segment_unmap(c->segment);
	shm_page_unmap(c->peer_page);
	if (c->peer_wake_fd >= 0)
		close(c->peer_wake_fd);
	shm_map_free(c);
	shm_ghost_destroy(c->ghost);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

/* ---- messages ---- */

__attribute__((cold)) static void end_for_message(struct shm_conn *c, const struct sl_msg *m)
{
	char why[96];

	snprintf(why, sizeof(why),
		 "the peer broke the protocol: malformed message: kind %u, slot %u, %u bytes",
		 m->kind, m->slot, m->len);
	shm_conn_end(c, -EPROTO, why);
}

static bool peer_sleeps(const struct shm_conn *c)
{
	return atomic_load_explicit(&c->peer_page->sleeping, memory_order_relaxed);
}

__attribute__((cold)) static void wake_peer(const struct shm_conn *c)
{
	uint64_t one = 1;
	ssize_t n = write(c->peer_wake_fd, &one, sizeof(one));

	(void)n; /* a full counter is readable already */
}

static inline void ring_peer(const struct shm_conn *c)
{
	/* What was published comes before the look at whether the peer sleeps. */
	atomic_thread_fence(memory_order_seq_cst);
	if (peer_sleeps(c))
		wake_peer(c);
}

/* The connection whose messages this thread takes: what it posts meanwhile is looked after when it
 * is done, for a fence waits until what was written has left this CPU. */
static SL_PER_THREAD const struct shm_conn *draining;

/* Word by word, each once and as its writer wrote it: a CPU makes a load that is wider than the
 * store it follows wait. */
static inline void copy_words(struct sl_msg *to, const struct sl_msg *from)
{
	*(volatile uint64_t *)&to->head = *(const volatile uint64_t *)&from->head;
	for (int i = 0; i < 6; i++)
		*(volatile uint64_t *)&to->w[i] = *(const volatile uint64_t *)&from->w[i];
}

/* The entry so many after e. */
static inline const struct shm_entry *entry_after(const struct shm_half *half,
						  const struct shm_entry *e, unsigned n)
{
	return half->ring + SL_RING_ENTRIES - e > (ptrdiff_t)n ? e + n : e - (SL_RING_ENTRIES - n);
}

static inline struct shm_entry *writable_after(struct shm_half *half, const struct shm_entry *e,
					       unsigned n)
{
	return &half->ring[entry_after(half, e, n) - half->ring];
}

/* Where the payload of a message from that entry is; NULL: there is none. The message is one that
 * would be valid in its slot. */
static inline const uint8_t *find_payload(const struct shm_conn *c, const struct shm_entry *e,
					  struct sl_msg *m)
{
	const uint8_t *payload = e->payload;

	if (!m->len)
		return NULL;
	if (m->slot & SHM_SLOT_HERE)
		m->slot &= (uint16_t)~SHM_SLOT_HERE;
	else
		payload = c->other->slots + sl_slot_offset(sl_msg_area(m->kind), m->slot);
	sl_cpu_fetch(payload);
	return payload;
}

static inline bool is_valid(const struct sl_msg *m)
{
	if (!(m->slot & SHM_SLOT_HERE))
		return sl_msg_valid(m);
	return (m->kind == SL_MSG_REQUEST || m->kind == SL_MSG_REPLY) &&
	       (m->slot & ~SHM_SLOT_HERE) < SL_CALL_SLOTS && m->len && m->len <= SL_SHORT_LEN;
}

/* Take the message of an entry, in a copy that is checked and used: the peer can still write to the
 * entry. False: the connection ends. */
static inline bool take_message(struct shm_conn *c, const struct shm_entry *e)
{
	const uint8_t *payload;
	struct sl_msg m;

	copy_words(&m, &e->m);
	atomic_signal_fence(memory_order_seq_cst);
	if (!is_valid(&m)) {
		end_for_message(c, &m);
		return false;
	}
	payload = find_payload(c, e, &m);
	if (!c->base.events->msg(c->base.owner, &m, payload)) {
		shm_conn_end(c, -EPROTO, "the peer broke the protocol");
		return false;
	}
	return true;
}

static inline const struct shm_entry *next_of(const struct shm_half *half,
					      const struct shm_entry *e)
{
	return e == half->ring + SL_RING_ENTRIES - 1 ? half->ring : e + 1;
}

/* The next message is there. */
static unsigned take_messages(struct shm_conn *c, unsigned max)
{
	const struct shm_half *const half = c->other;
	const struct shm_entry *e = c->rx_next;
	const struct shm_entry *next = next_of(half, e);
	uint64_t seq = c->rx_seq;
	unsigned n = 0;
	bool goes_on;

	sl_cpu_fetch(next);
	do {
		const struct shm_entry *ahead = next_of(half, next);

		/* Where two messages lie others most likely do, each on two lines. Of the first
		 * nothing is known: what is fetched before it was written is taken away from its
		 * writer. */
		if (n++) {
			sl_cpu_fetch(ahead);
			sl_cpu_fetch(ahead->payload);
		}
		c->rx_seq = ++seq;
		c->rx_next = next;
		goes_on = take_message(c, e);
		e = next;
		next = ahead;
	} while (goes_on && n < max &&
		 atomic_load_explicit(&e->seq, memory_order_acquire) == seq + 1);
	return n;
}

static unsigned drain_ring(struct shm_conn *c, unsigned max)
{
	unsigned n;

	if (!shm_conn_has_message(c))
		return 0;
	draining = c;
	n = take_messages(c, max);
	draining = NULL;
	if (c->ring_later) {
		c->ring_later = false;
		ring_peer(c);
	}
	return n;
}

static unsigned take_next(void *arg);

/* After some messages more of them are likely. */
static void expect_more(struct shm_conn *c)
{
	struct sl_next *next = c->t->base.env->next;

	next->word = &c->rx_next->seq;
	next->value = c->rx_seq + 1;
	next->take = take_next;
	next->arg = c;
}

static void expect_nothing(const struct shm_conn *c)
{
	struct sl_next *next = c->t->base.env->next;

	if (next->arg == c)
		*next = (struct sl_next){ .word = NULL };
}

static unsigned take_some(struct shm_conn *c)
{
	unsigned n = drain_ring(c, MESSAGES_PER_ROUND);

	if (n)
		expect_more(c);
	return n;
}

static unsigned take_next(void *arg)
{
	return take_some(arg);
}

unsigned shm_conn_progress(struct shm_conn *c)
{
	unsigned n = 0;

	if (atomic_load_explicit(&c->state, memory_order_relaxed) == SHM_CONN_READY) {
		n += take_some(c);
		if (atomic_load_explicit(&c->n_works, memory_order_acquire))
			n += shm_work_progress(c);
		if (!sl_list_empty(&c->leaving))
			n += shm_map_progress(c);
		if (!n && !sl_list_empty(&c->cold))
			n += shm_map_warm(c);
	}
	if (atomic_load_explicit(&c->end_wanted, memory_order_acquire)) {
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

/* An entry that was taken is written and published: its payload, if that goes along, then the
 * message. */
static inline void write_payload(struct shm_entry *e, const struct sl_msg *m,
				 const uint8_t *payload)
{
	/* Who wrote it a lap ago, if that was another thread, is done with it. */
	(void)atomic_load_explicit(&e->seq, memory_order_acquire);
	if (payload)
		sl_copy_short(e->payload, payload, m->len);
}

/* The entry is the one after n others. */
static inline void write_message(struct shm_entry *e, uint64_t n, const struct sl_msg *m,
				 const uint8_t *payload)
{
	/* All of the line that the peer looks at together: it takes it away in between. */
	copy_words(&e->m, m);
	if (payload)
		e->m.slot = m->slot | SHM_SLOT_HERE;
	atomic_store_explicit(&e->seq, n + 1, memory_order_release);
}

/* The peer read that one a lap ago, and does not look at it yet. */
static inline void fetch_to_write(const struct shm_conn *c, const struct shm_entry *e,
				  bool has_payload)
{
	const struct shm_entry *ahead = entry_after(c->own, e, ENTRIES_AHEAD);

	sl_cpu_fetch_to_write(ahead);
	if (has_payload)
		sl_cpu_fetch_to_write(ahead->payload);
}

/* The connection ended: the calls end with it. */
static void drop_posts(const struct sl_post *posts, size_t n)
{
	for (size_t i = 0; i < n; i++)
		atomic_store_explicit(posts[i].going, posts[i].m.w[0], memory_order_release);
}

/* Entries were published. */
static inline void announce(struct shm_conn *c)
{
	if (draining == c && !peer_sleeps(c))
		c->ring_later = true;
	else
		ring_peer(c);
}

/* Take an entry, write it, publish it: those that others take meanwhile are read after it. */
static inline void post(struct shm_conn *c, const struct sl_msg *m, const uint8_t *payload)
{
	struct shm_entry *e;
	uint64_t n;

	if (atomic_load_explicit(&c->state, memory_order_acquire) != SHM_CONN_READY)
		return;
	n = atomic_fetch_add_explicit(&c->tx_seq, 1, memory_order_relaxed);
	e = shm_half_entry(c->own, n);
	write_payload(e, m, payload);
	write_message(e, n, m, payload);
	announce(c);
	fetch_to_write(c, e, payload);
}

void shm_post(struct sl_conn *conn, const struct sl_msg *m)
{
	post(conn_of(conn), m, NULL);
}

static void post_short(struct sl_conn *conn, const struct sl_msg *m, const uint8_t *payload)
{
	post(conn_of(conn), m, payload);
}

static void post_many(struct sl_conn *conn, const struct sl_post *posts, size_t n_posts)
{
	struct shm_conn *c = conn_of(conn);
	struct shm_entry *e;
	uint64_t n;

	if (!n_posts)
		return;
	if (atomic_load_explicit(&c->state, memory_order_acquire) != SHM_CONN_READY) {
		drop_posts(posts, n_posts);
		return;
	}
	n = atomic_fetch_add_explicit(&c->tx_seq, n_posts, memory_order_relaxed);
	e = shm_half_entry(c->own, n);
	for (size_t i = 0; i < n_posts; i++, e = writable_after(c->own, e, 1)) {
		const struct sl_post *p = &posts[i];

		fetch_to_write(c, e, p->payload);
		write_payload(e, &p->m, p->payload);
		atomic_store_explicit(p->going, p->m.w[0], memory_order_release);
		write_message(e, n + i, &p->m, p->payload);
	}
	announce(c);
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
	.post = shm_post,
	.post_short = post_short,
	.post_many = post_many,
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
	switch (p->kind) {
	case SHM_MAP:
		shm_map_answer(c, p);
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
	default:
		return atomic_load(&c->state) == SHM_CONN_READY ? on_packet_when_ready(c, p)
								: -EPROTO;
	}
}

/* A packet was not what may come now, or what it asked for cannot be had. */
static void end_for_packet(struct shm_conn *c, int cause)
{
	char why[96];

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
			ret = on_packet(c, &p);
			shm_packet_close_fds(&p);
		}
		if (ret)
			end_for_packet(c, ret);
	}
}

static void on_pid(struct sl_source *s, uint32_t events)
{
	struct shm_conn *c = SL_CONTAINER_OF(s, struct shm_conn, pid_source);

	(void)events;
	/* Nobody can reach our memory through it any more. */
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
		.looks_disturb = true,
	};
	c->t = t;
	c->attr = *attr;
	c->initiator = attr->initiator;
	memcpy(c->candidate, attr->candidate, attr->candidate_len);
	c->attr.candidate = c->candidate;
	c->sock = (struct sl_source){ .fn = on_sock, .fd = -1 };
	c->pid_source = (struct sl_source){ .fn = on_pid, .fd = -1 };
	c->peer_wake_fd = -1;
	c->step = "the peer to come";
	sl_list_init(&c->link);
	sl_list_init(&c->turn);
	sl_list_init(&c->works);
	sl_list_init(&c->leaving);
	sl_list_init(&c->cold);
	sl_timer_init(&c->deadline, on_deadline);
	sl_timer_init(&c->again, shm_handshake_again);
	c->maps = calloc(SHM_REGIONS_MAX, sizeof(*c->maps));
	return c->maps ? shm_ghost_create(t, &c->ghost) : -ENOMEM;
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
	if (!ret && c->initiator)
		ret = shm_handshake_dial(c);
	if (ret) {
		sl_auth_wipe(c->attr.key, sizeof(c->attr.key));
		shm_ghost_destroy(c->ghost);
		free(c->maps);
		free(c);
		return ret;
	}
	pthread_mutex_init(&c->lock, NULL);
	sl_list_append(&t->conns, &c->link);
	sl_list_append(&t->awake, &c->turn);
	sl_timer_set(base->env->poller, &c->deadline, attr->deadline_ns);
	*out = &c->base;
	return 0;
}
